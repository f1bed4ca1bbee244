// job.* and report.*: work in the background, and what it found.
#include <algorithm>

#include "runner.hpp"

namespace conformance {
namespace {

ckpt::Job& job_of(Runner& runner, const Call& call) { return runner.get<ckpt::Job>(call[0]); }

void run_wait(Runner& runner, const Call& call) {
  const auto timeout = call.numbers("timeout_ms");
  job_of(runner, call).wait(number_of(kJobStates, call[1]), timeout ? timeout->at(0) : -1);
}

void run_state(Runner& runner, const Call& call) {
  const std::string& found = kJobStates.at(job_of(runner, call).state());
  if (std::find(call.words.begin() + 1, call.words.end(), found) == call.words.end())
    fail("expected another state, found ", found);
}

void run_stats(Runner& runner, const Call& call) {
  const ckpt::JobStats stats = job_of(runner, call).stats();
  call.expect("state", kJobStates.at(stats.state));
  call.expect("bytes_total", stats.bytes_total);
  call.expect("bytes_done", stats.bytes_done);
  call.expect("bytes_read", stats.bytes_read);
  call.expect("bytes_written", stats.bytes_written);
  call.expect("bytes_requested", stats.bytes_requested);
  call.expect("chunk_count", stats.chunk_count);
  call.expect("run_count", stats.run_count);
  call.expect("io_count", stats.io_count);
  call.expect("staging_peak_bytes", stats.staging_peak_bytes);
  call.expect("stage_us", stats.stage_us);
  call.expect("write_us", stats.write_us);
  call.expect("commit_us", stats.commit_us);
  call.expect("total_us", stats.total_us);
  call.expect("direct_io", stats.direct_io);
  call.expect("threads", stats.threads);
  call.expect("arena_us", stats.arena_us);
  call.expect("io_engine", stats.io_engine);
  call.expect("recycled", stats.recycled);
  call.expect("get_count", stats.get_count);
  call.expect("put_count", stats.put_count);
  call.expect("list_count", stats.list_count);
  call.expect("delete_count", stats.delete_count);
  call.expect("retry_count", stats.retry_count);
  call.expect("bytes_sent", stats.bytes_sent);
  call.expect("bytes_received", stats.bytes_received);
}

// ---- report ----

void run_report(Runner& runner, const Call& call) {
  const auto& report = runner.get<ckpt::Report>(call[0]);
  if (report.size() != call.count(1))
    fail("expected ", call[1], " findings, found ", report.size(), ": ", report.empty() ? "" : report.at(0).text);
}

void run_report_at(Runner& runner, const Call& call) {
  const ckpt::Finding found = runner.get<ckpt::Report>(call[0]).at(call.count(1));
  call.expect("kind", kFindingKinds.at(found.kind));
  call.expect("status", ckpt::status_name(found.status));
  call.expect("name", found.name);
  call.expect("part", found.part);
  call.expect("offset", found.offset);
  call.expect("size", found.size);
  call.expect("first_element", found.first_element);
  call.expect("last_element", found.last_element);
  call.expect("count", found.count);
  call.expect("max_abs", found.max_abs);
  call.expect("max_rel", found.max_rel);
}

}  // namespace

const Commands kJob = {{"job.new", [](Runner& r, const Call& c) { r.put(c[0], ckpt::Job::create()); }},
                       {"job.wait", run_wait},
                       {"job.state", run_state},
                       {"job.cancel", [](Runner& r, const Call& c) { job_of(r, c).cancel(); }},
                       {"job.stats", run_stats},
                       {"job.report", [](Runner& r, const Call& c) { r.put(c[1], job_of(r, c).report()); }},
                       {"report", run_report},
                       {"report.at", run_report_at}};

}  // namespace conformance
