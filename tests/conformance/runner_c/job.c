/* job.* and report.*: work in the background, and what it found. */
#include <inttypes.h>
#include <string.h>

#include "runner.h"

static ckpt_status run_wait(runner* r, line* l) {
  const ckpt_job* job = object_get(r, &l->words[0], JOB);
  const char* timeout = pair_text(l, "timeout_ms");
  return ckpt_job_wait(job, parse_name(r, job_states, l->words[1].text), timeout ? parse_int(r, timeout) : -1,
                       &r->error);
}

static ckpt_status run_state(runner* r, line* l) {
  int32_t found = ckpt_job_state(object_get(r, &l->words[0], JOB));
  bool known = false;
  for (size_t i = 1; i < l->word_count; i++) known |= parse_name(r, job_states, l->words[i].text) == found;
  if (!known) fail(r, "expected state %s or what is named with it, found %s", l->words[1].text, job_states[found]);
  return CKPT_OK;
}

static ckpt_status run_cancel(runner* r, line* l) {
  ckpt_job_cancel(object_get(r, &l->words[0], JOB));
  return CKPT_OK;
}

/* KEY=N, or KEY>=N. */
static void expect_number(runner* r, line* l, const char* key, uint64_t found) {
  expect_unsigned(r, l, key, found);
  for (size_t i = 0; i < l->pair_count; i++) {
    pair* wanted = &l->pairs[i];
    size_t size = strlen(key);
    if (strncmp(wanted->key, key, size) != 0 || strcmp(wanted->key + size, ">") != 0) continue;
    wanted->used = true;
    if (found < parse_unsigned(r, wanted->value.text))
      fail(r, "expected %s>=%s, found %" PRIu64, key, wanted->value.text, found);
  }
}

static ckpt_status run_stats(runner* r, line* l) {
  ckpt_job_stats stats = {.struct_size = sizeof stats};
  ckpt_status status = ckpt_job_stats_get(object_get(r, &l->words[0], JOB), &stats, &r->error);
  if (status) return status;
  expect_name(r, l, "state", job_states, stats.state);
  expect_number(r, l, "bytes_total", stats.bytes_total);
  expect_number(r, l, "bytes_done", stats.bytes_done);
  expect_number(r, l, "bytes_read", stats.bytes_read);
  expect_number(r, l, "bytes_written", stats.bytes_written);
  expect_number(r, l, "bytes_requested", stats.bytes_requested);
  expect_number(r, l, "chunk_count", stats.chunk_count);
  expect_number(r, l, "run_count", stats.run_count);
  expect_number(r, l, "io_count", stats.io_count);
  expect_number(r, l, "staging_peak_bytes", stats.staging_peak_bytes);
  expect_number(r, l, "stage_us", stats.stage_us);
  expect_number(r, l, "write_us", stats.write_us);
  expect_number(r, l, "commit_us", stats.commit_us);
  expect_number(r, l, "total_us", stats.total_us);
  expect_number(r, l, "direct_io", stats.direct_io);
  expect_number(r, l, "threads", stats.threads);
  expect_number(r, l, "arena_us", stats.arena_us);
  expect_number(r, l, "io_engine", stats.io_engine);
  expect_number(r, l, "recycled", stats.recycled);
  return CKPT_OK;
}

static ckpt_status run_report(runner* r, line* l) {
  ckpt_report* report = NULL;
  ckpt_status status = ckpt_job_report(object_get(r, &l->words[0], JOB), &report, &r->error);
  if (!status) object_put(r, &l->words[1], REPORT, report);
  return status;
}

const command job_commands[] = {{"job.wait", 2, PAIRS, run_wait}, {"job.state", 2, MORE, run_state},
                                {"job.cancel", 1, 0, run_cancel}, {"job.stats", 1, PAIRS, run_stats},
                                {"job.report", 2, 0, run_report}, {NULL, 0, 0, NULL}};

/* ---- report ---- */

static ckpt_status run_count(runner* r, line* l) {
  const ckpt_report* report = object_get(r, &l->words[0], REPORT);
  size_t count = ckpt_report_count(report);
  ckpt_finding first = {.struct_size = sizeof first};
  if (count) (void)ckpt_report_at(report, 0, &first, NULL);
  if (count != parse_unsigned(r, l->words[1].text))
    fail(r, "expected %s findings, found %zu: %s", l->words[1].text, count, first.text ? first.text : "");
  return CKPT_OK;
}

static ckpt_status run_at(runner* r, line* l) {
  const ckpt_report* report = object_get(r, &l->words[0], REPORT);
  ckpt_finding found = {.struct_size = sizeof found};
  ckpt_status status = ckpt_report_at(report, parse_unsigned(r, l->words[1].text), &found, &r->error);
  if (status) return status;
  expect_name(r, l, "kind", finding_kinds, found.kind);
  expect_text(r, l, "status", ckpt_status_name(found.status));
  expect_text(r, l, "name", found.name);
  expect_text(r, l, "part", found.part);
  expect_unsigned(r, l, "offset", found.offset);
  expect_unsigned(r, l, "size", found.size);
  expect_int(r, l, "first_element", found.first_element);
  expect_int(r, l, "last_element", found.last_element);
  expect_unsigned(r, l, "count", found.count);
  expect_float(r, l, "max_abs", found.max_abs);
  expect_float(r, l, "max_rel", found.max_rel);
  return CKPT_OK;
}

const command report_commands[] = {{"report", 2, 0, run_count}, {"report.at", 2, PAIRS, run_at}, {NULL, 0, 0, NULL}};
