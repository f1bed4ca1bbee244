// ckpt_job: work in the background, polled.
#include "api/handles.h"

using namespace ckpt;
using namespace ckpt::api;

namespace ckpt::api {

Result<std::shared_ptr<Job>> job_for(const ckpt_options* options) {
  if (!options || !options->job) return std::make_shared<Job>();
  CKPT_TRY(options->job->take());
  return options->job;
}

Status refuse_job(const ckpt_options* options) {
  if (!options || !options->job) return Ok();
  return Status(CKPT_INVALID, "the options have a job, and this call does not work under one (ckpt_options_set_job)");
}

std::unique_ptr<ckpt_job> new_job(bool has_report) {
  auto handle = std::make_unique<ckpt_job>();
  handle->job = std::make_shared<Job>();
  handle->job->has_report = has_report;
  return handle;
}

}  // namespace ckpt::api

ckpt_status ckpt_job_new(ckpt_job** out, ckpt_error** err) {
  return guard(err, [&] {
    if (!out) return null_status("out");
    *out = new ckpt_job{{}, std::make_shared<Job>(CKPT_JOB_NEW)};
    return Ok();
  });
}

int32_t ckpt_job_state(const ckpt_job* job) { return job ? job->job->state() : CKPT_JOB_FAILED; }

ckpt_status ckpt_job_wait(const ckpt_job* job, int32_t state, int64_t timeout_ms, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(job, "job"));
    return job->job->wait(state, timeout_ms);
  });
}

void ckpt_job_cancel(const ckpt_job* job) {
  if (job && !job->forked()) job->job->cancel();
}

ckpt_status ckpt_job_stats_get(const ckpt_job* job, ckpt_job_stats* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(job, "job"));
    const JobCounters& from = job->job->counters;
    ckpt_job_stats stats{};
    stats.state = job->job->state();
    stats.bytes_total = from.bytes_total;
    stats.bytes_done = from.bytes_done;
    stats.bytes_read = from.bytes_read;
    stats.bytes_written = from.bytes_written;
    stats.bytes_requested = from.bytes_requested;
    stats.chunk_count = from.chunk_count;
    stats.run_count = from.run_count;
    stats.io_count = from.io_count;
    stats.staging_peak_bytes = from.staging_peak_bytes;
    stats.stage_us = from.stage_us;
    stats.write_us = from.write_us;
    stats.commit_us = from.commit_us;
    stats.total_us = from.total_us;
    stats.direct_io = from.direct_io;
    stats.threads = from.threads;
    stats.arena_us = from.arena_us;
    stats.io_engine = from.io_engine;
    stats.recycled = from.recycled;
    const RequestCounters& requests = job->job->call->requests;
    stats.get_count = requests.gets;
    stats.put_count = requests.puts;
    stats.list_count = requests.lists;
    stats.delete_count = requests.deletes;
    stats.retry_count = requests.retries;
    stats.bytes_sent = requests.bytes_sent;
    stats.bytes_received = requests.bytes_received;
    stats.bytes_reused = from.bytes_reused;
    return put_info(stats, out);
  });
}

ckpt_status ckpt_job_report(const ckpt_job* job, ckpt_report** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!job || !out) return null_status("job or out");
    if (job->forked()) return forked_status();
    if (!job->job->ended()) return Status(CKPT_INVALID, "the job has not ended");
    if (job->job->left()) return Status(CKPT_INVALID, "the job's thread was left behind, and has no report");
    if (!job->job->has_report)
      return Status(CKPT_UNSUPPORTED, "only jobs of saves, of verify and of a mirror have a report");
    *out = new_report(job->job->report);
    return Ok();
  });
}

void ckpt_job_free(ckpt_job* job) {
  if (job && !job->forked()) job->job->finish();
  release(job);
}
