/* job.* and report.*: work in the background, and what it found. */
#include <string.h>

#include "runner.h"

static ckpt_status run_new(runner* r) {
  ckpt_job* made = NULL;
  ckpt_status status = ckpt_job_new(&made, &r->error);
  return keep(r, 0, JOB, made, status);
}

static ckpt_status run_wait(runner* r) {
  int32_t state = named(r, job_states, word(r, 1));
  return ckpt_job_wait(get(r, 0, JOB), state, integer_of(r, "timeout_ms", -1), &r->error);
}

static ckpt_status run_state(runner* r) {
  const char* found = job_states[ckpt_job_state(get(r, 0, JOB))];
  for (size_t i = 1; i < r->count; i++)
    if (r->tokens[i].kind == 'w' && strcmp(word(r, i), found) == 0) return CKPT_OK;
  fail(r, "expected another state, found %s", found);
}

static ckpt_status run_cancel(runner* r) {
  ckpt_job_cancel(get(r, 0, JOB));
  return CKPT_OK;
}

static ckpt_status run_stats(runner* r) {
  ckpt_job_stats stats = {.struct_size = sizeof stats};
  ckpt_status status = ckpt_job_stats_get(get(r, 0, JOB), &stats, &r->error);
  if (status) return status;
  expect_text(r, "state", job_states[stats.state]);
  expect_unsigned(r, "bytes_total", stats.bytes_total);
  expect_unsigned(r, "bytes_done", stats.bytes_done);
  expect_unsigned(r, "bytes_read", stats.bytes_read);
  expect_unsigned(r, "bytes_written", stats.bytes_written);
  expect_unsigned(r, "bytes_requested", stats.bytes_requested);
  expect_unsigned(r, "chunk_count", stats.chunk_count);
  expect_unsigned(r, "run_count", stats.run_count);
  expect_unsigned(r, "io_count", stats.io_count);
  expect_unsigned(r, "staging_peak_bytes", stats.staging_peak_bytes);
  expect_unsigned(r, "stage_us", stats.stage_us);
  expect_unsigned(r, "write_us", stats.write_us);
  expect_unsigned(r, "commit_us", stats.commit_us);
  expect_unsigned(r, "total_us", stats.total_us);
  expect_unsigned(r, "direct_io", stats.direct_io);
  expect_unsigned(r, "threads", stats.threads);
  expect_unsigned(r, "arena_us", stats.arena_us);
  expect_unsigned(r, "io_engine", stats.io_engine);
  expect_unsigned(r, "recycled", stats.recycled);
  expect_unsigned(r, "get_count", stats.get_count);
  expect_unsigned(r, "put_count", stats.put_count);
  expect_unsigned(r, "list_count", stats.list_count);
  expect_unsigned(r, "delete_count", stats.delete_count);
  expect_unsigned(r, "retry_count", stats.retry_count);
  expect_unsigned(r, "bytes_sent", stats.bytes_sent);
  expect_unsigned(r, "bytes_received", stats.bytes_received);
  return CKPT_OK;
}

static ckpt_status run_report(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_job_report(get(r, 0, JOB), &made, &r->error);
  return keep(r, 1, REPORT, made, status);
}

/* ---- report ---- */

static ckpt_status run_count(runner* r) {
  const ckpt_report* report = get(r, 0, REPORT);
  size_t count = ckpt_report_count(report);
  ckpt_finding first = {.struct_size = sizeof first};
  if (count) (void)ckpt_report_at(report, 0, &first, NULL);
  if (count != unsigned_integer(r, 1))
    fail(r, "expected %s findings, found %zu: %s", word(r, 1), count, first.text ? first.text : "");
  return CKPT_OK;
}

static ckpt_status run_at(runner* r) {
  ckpt_finding found = {.struct_size = sizeof found};
  ckpt_status status = ckpt_report_at(get(r, 0, REPORT), unsigned_integer(r, 1), &found, &r->error);
  if (status) return status;
  expect_text(r, "kind", finding_kinds[found.kind]);
  expect_text(r, "status", ckpt_status_name(found.status));
  expect_text(r, "name", found.name);
  expect_text(r, "part", found.part);
  expect_unsigned(r, "offset", found.offset);
  expect_unsigned(r, "size", found.size);
  expect_int(r, "first_element", found.first_element);
  expect_int(r, "last_element", found.last_element);
  expect_unsigned(r, "count", found.count);
  expect_float(r, "max_abs", found.max_abs);
  expect_float(r, "max_rel", found.max_rel);
  return CKPT_OK;
}

const command job_commands[] = {{"job.new", run_new},       {"job.wait", run_wait},   {"job.state", run_state},
                                {"job.cancel", run_cancel}, {"job.stats", run_stats}, {"job.report", run_report},
                                {"report", run_count},      {"report.at", run_at},    {NULL, NULL}};
