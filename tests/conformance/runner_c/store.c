/* store.*, session.*, job.* and report.*: what a store holds, how ranks find each other, work in the background. */
#include <inttypes.h>

#include "runner.h"

static const char* const kStates[] = {"", "COMMITTED", "OPEN", "ABORTED", "DAMAGED", "REVISION", "UNREADABLE", NULL};
static const char* const kJobStates[] = {"NEW",  "RUNNING", "STAGED",    "WRITTEN",   "COMMITTED",
                                         "DONE", "FAILED",  "CANCELLED", "DELIVERED", NULL};
static const char* const kFindingKinds[] = {"",     "DAMAGED",  "MISSING",     "EXTRA", "DIFFERENT", "REMOVED",
                                            "KEPT", "REPAIRED", "PASSED_OVER", "ANEW",  "NO_CACHE",  NULL};

MAKES(run_open, 0, STORE, ckpt_store, ckpt_store_open(&made, word(r, 1), r->options, &r->error))
MAKES(run_prune, 1, REPORT, ckpt_report, ckpt_store_prune(get(r, 0, STORE), r->options, &made, &r->error))
MAKES(run_repair, 2, REPORT, ckpt_report, ckpt_store_repair(get(r, 0, STORE), word(r, 1), r->options, &made, &r->error))
MAKES(run_session_open, 0, SESSION, ckpt_session,
      ckpt_session_open(&made, get(r, 1, STORE), (uint32_t)unsigned_integer(r, 2), (uint32_t)unsigned_integer(r, 3),
                        text_of(r, "string"), r->options, &r->error))
MAKES(run_mirror, 1, JOB, ckpt_job, ckpt_session_mirror(get(r, 0, SESSION), &made, &r->error))
CALLS(run_keep, ckpt_store_keep(get(r, 0, STORE), word(r, 1), (int32_t)integer(r, 2), &r->error))
CALLS(run_name, ckpt_store_name(get(r, 0, STORE), word(r, 1), word(r, 2), word(r, 3), &r->error))
CALLS(run_remove, ckpt_store_remove(get(r, 0, STORE), word(r, 1), &r->error))

static ckpt_status run_states(runner* r) {
  ckpt_list* found = NULL;
  ckpt_status status = ckpt_store_list(get(r, 0, STORE), &found, &r->error);
  for (size_t i = 0; i < ckpt_list_count(found) && !status; i++) {
    ckpt_checkpoint_info info = {.struct_size = sizeof info};
    status = ckpt_list_at(found, i, &info, &r->error);
    if (!status) say(r, NULL, "%s:%s", info.id, kStates[info.state]);
  }
  ckpt_list_free(found);
  return status;
}

static ckpt_status run_runs(runner* r) {
  ckpt_runs* found = NULL;
  ckpt_status status = ckpt_store_runs(get(r, 0, STORE), &found, &r->error);
  for (size_t i = 0; i < ckpt_runs_count(found) && !status; i++) {
    ckpt_run_info info = {.struct_size = sizeof info};
    status = ckpt_runs_at(found, i, &info, &r->error);
    if (!status)
      say(r, NULL, "%s:%" PRIu64 ":%" PRIu64 ":%" PRId64 ":%s:%s", info.name, info.token, info.checkpoint_count,
          info.newest_step, info.newest_id, info.newest_label);
  }
  ckpt_runs_free(found);
  return status;
}

#define F(kind, name) {#name, kind, offsetof(ckpt_checkpoint_info, name)}
static const field kCheckpoint[] = {F(CHARS, id),       F(CHARS, label),    F(CHARS, run),        F(I64, step),
                                    F(U32, world_size), F(U32, part_count), F(U64, tensor_count), F(U64, object_count),
                                    F(U32, flags),      F(U32, revision),   F(U64, attempt),      F(U64, token),
                                    F(U64, sequence),   F(U64, bytes),      F(U64, passed_over),  {0}};
#undef F

static ckpt_status say_checkpoint(runner* r, ckpt_status status, const ckpt_checkpoint_info* info) {
  if (status) return status;
  say_text(r, "state", kStates[info->state]);
  say_record(r, kCheckpoint, info);
  return CKPT_OK;
}

static ckpt_status run_find(runner* r) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  return say_checkpoint(r, ckpt_store_find(get(r, 0, STORE), word(r, 1), r->options, &info, &r->error), &info);
}

static ckpt_status run_import(runner* r) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  const ckpt_store* store = get(r, 0, STORE);
  ckpt_status status = ckpt_import(store, word(r, 1), word(r, 2), integer(r, 3), r->options, &info, &r->error);
  return say_checkpoint(r, status, &info);
}

static ckpt_status run_info(runner* r) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  return say_checkpoint(r, ckpt_reader_info(get(r, 0, READER), &info, &r->error), &info);
}

SAYS(run_string, say_text(r, NULL, ckpt_session_string(get(r, 0, SESSION))))

/* ---- jobs and reports ---- */

MAKES(run_job_new, 0, JOB, ckpt_job, ckpt_job_new(&made, &r->error))
MAKES(run_job_report, 1, REPORT, ckpt_report, ckpt_job_report(get(r, 0, JOB), &made, &r->error))
CALLS(run_wait,
      ckpt_job_wait(get(r, 0, JOB), named(r, kJobStates, word(r, 1)), integer_of(r, "timeout_ms", -1), &r->error))
SAYS(run_state, say_text(r, NULL, kJobStates[ckpt_job_state(get(r, 0, JOB))]))
SAYS(run_cancel, ckpt_job_cancel(get(r, 0, JOB)))

#define F(kind, name) {#name, kind, offsetof(ckpt_job_stats, name)}
static const field kStats[] = {F(U64, bytes_total),
                               F(U64, bytes_done),
                               F(U64, bytes_read),
                               F(U64, bytes_written),
                               F(U64, bytes_requested),
                               F(U64, chunk_count),
                               F(U64, run_count),
                               F(U64, io_count),
                               F(U64, staging_peak_bytes),
                               F(U64, stage_us),
                               F(U64, write_us),
                               F(U64, commit_us),
                               F(U64, total_us),
                               F(U32, direct_io),
                               F(U32, threads),
                               F(U64, arena_us),
                               F(U32, io_engine),
                               F(U32, recycled),
                               F(U64, get_count),
                               F(U64, put_count),
                               F(U64, list_count),
                               F(U64, delete_count),
                               F(U64, retry_count),
                               F(U64, bytes_sent),
                               F(U64, bytes_received),
                               {0}};
#undef F

FINDS(run_stats, ckpt_job_stats, kStats, ckpt_job_stats_get(get(r, 0, JOB), &info, &r->error),
      say_text(r, "state", kJobStates[info.state]))
SAYS(run_count, say_unsigned(r, NULL, ckpt_report_count(get(r, 0, REPORT))))

#define F(kind, name) {#name, kind, offsetof(ckpt_finding, name)}
static const field kFinding[] = {
    F(TEXT, name),        F(TEXT, part), F(U64, offset),  F(U64, size),    F(I64, first_element),
    F(I64, last_element), F(U64, count), F(F64, max_abs), F(F64, max_rel), {0}};
#undef F

FINDS(run_at, ckpt_finding, kFinding, ckpt_report_at(get(r, 0, REPORT), unsigned_integer(r, 1), &info, &r->error),
      say_text(r, "kind", kFindingKinds[info.kind]);
      say_text(r, "status", ckpt_status_name(info.status)))

const command store_commands[] = {{"store.open", run_open},
                                  {"store.states", run_states},
                                  {"store.runs", run_runs},
                                  {"store.find", run_find},
                                  {"store.remove", run_remove},
                                  {"store.prune", run_prune},
                                  {"store.repair", run_repair},
                                  {"store.import", run_import},
                                  {"session.open", run_session_open},
                                  {"session.string", run_string},
                                  {"session.mirror", run_mirror},
                                  {"reader.info", run_info},
                                  {"job.new", run_job_new},
                                  {"job.wait", run_wait},
                                  {"job.state", run_state},
                                  {"job.cancel", run_cancel},
                                  {"job.stats", run_stats},
                                  {"job.report", run_job_report},
                                  {"report", run_count},
                                  {"report.at", run_at},
                                  {"store.keep", run_keep},
                                  {"store.name", run_name},
                                  {NULL, NULL}};
