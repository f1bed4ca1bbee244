/* store.* and session.*: what a store holds, and how ranks find each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"

static ckpt_status run_open(runner* r) {
  ckpt_store* made = NULL;
  ckpt_status status = ckpt_store_open(&made, word(r, 1), r->options, &r->error);
  return keep(r, 0, STORE, made, status);
}

/* `with_states`: all entries as ID:STATE; otherwise the ids of the committed ones. */
static ckpt_status list(runner* r, bool with_states) {
  ckpt_list* found = NULL;
  size_t next = 1;
  ckpt_status status = ckpt_store_list(get(r, 0, STORE), &found, &r->error);
  for (size_t i = 0; i < ckpt_list_count(found) && !status; i++) {
    ckpt_checkpoint_info info = {.struct_size = sizeof info};
    char text[sizeof info.id + 16];
    status = ckpt_list_at(found, i, &info, &r->error);
    if (status || (!with_states && info.state != CKPT_CHECKPOINT_COMMITTED)) continue;
    (void)snprintf(text, sizeof text, with_states ? "%s:%s" : "%s", info.id, checkpoint_states[info.state]);
    expect_word(r, next++, text);
  }
  ckpt_list_free(found);
  if (!status) expect_word(r, next, NULL);
  return status;
}

static ckpt_status run_list(runner* r) { return list(r, false); }
static ckpt_status run_states(runner* r) { return list(r, true); }

static ckpt_status run_runs(runner* r) {
  ckpt_runs* found = NULL;
  ckpt_status status = ckpt_store_runs(get(r, 0, STORE), &found, &r->error);
  size_t count = ckpt_runs_count(found);
  for (size_t i = 0; i < count && !status; i++) {
    ckpt_run_info info = {.struct_size = sizeof info};
    char text[sizeof info + 64];
    status = ckpt_runs_at(found, i, &info, &r->error);
    if (status) continue;
    (void)snprintf(text, sizeof text, "%s:%llu:%llu:%lld:%s:%s", info.name, (unsigned long long)info.token,
                   (unsigned long long)info.checkpoint_count, (long long)info.newest_step, info.newest_id,
                   info.newest_label);
    expect_word(r, i + 1, text);
  }
  ckpt_runs_free(found);
  if (!status) expect_word(r, count + 1, NULL);
  return status;
}

static ckpt_status run_find(runner* r) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_store_find(get(r, 0, STORE), word(r, 1), r->options, &info, &r->error);
  if (!status) expect_checkpoint(r, &info);
  return status;
}

static ckpt_status run_remove(runner* r) { return ckpt_store_remove(get(r, 0, STORE), word(r, 1), &r->error); }

static ckpt_status run_prune(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_store_prune(get(r, 0, STORE), r->options, &made, &r->error);
  return keep(r, 1, REPORT, made, status);
}

static ckpt_status run_repair(runner* r) {
  ckpt_report* made = NULL;
  ckpt_status status = ckpt_store_repair(get(r, 0, STORE), word(r, 1), r->options, &made, &r->error);
  return keep(r, 2, REPORT, made, status);
}

static ckpt_status run_import(runner* r) {
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  const ckpt_store* store = get(r, 0, STORE);
  ckpt_status status = ckpt_import(store, word(r, 1), word(r, 2), integer(r, 3), r->options, &info, &r->error);
  if (!status) expect_checkpoint(r, &info);
  return status;
}

/* ---- session ---- */

enum { kStringMost = 4096 };

/* The file is complete when it appears (see run_string). */
static void read_string(runner* r, const char* path, char out[kStringMost]) {
  FILE* opened = NULL;
  for (int tries = 0; tries < 6000 && !(opened = fopen(path, "r")); tries++) {
    struct timespec pause = {0, 10 * 1000 * 1000};
    nanosleep(&pause, NULL);
  }
  if (!opened) fail(r, "expected a file %s within 60 s, found none", path);
  out[fread(out, 1, kStringMost - 1, opened)] = '\0';
  fclose(opened);
}

static ckpt_status run_session_open(runner* r) {
  ckpt_session* made = NULL;
  uint32_t rank = (uint32_t)unsigned_integer(r, 2), world = (uint32_t)unsigned_integer(r, 3);
  const char *other = text_of(r, "string"), *file = text_of(r, "file"), *string = NULL;
  char text[kStringMost];
  if (other) string = ckpt_session_string(get_named(r, other, SESSION));
  if (file) {
    read_string(r, file, text);
    string = text;
  }
  ckpt_status status = ckpt_session_open(&made, get(r, 1, STORE), rank, world, string, r->options, &r->error);
  return keep(r, 0, SESSION, made, status);
}

static ckpt_status run_string(runner* r) {
  const char *string = ckpt_session_string(get(r, 0, SESSION)), *path = word(r, 1);
  char* aside = allocate(strlen(path) + 8);
  (void)snprintf(aside, strlen(path) + 8, "%s.aside", path);
  FILE* file = fopen(aside, "w");
  if (!file || fputs(string, file) < 0 || fclose(file) || rename(aside, path))
    fail(r, "expected to write %s, found an error", path);
  free(aside);
  return CKPT_OK;
}

static ckpt_status run_mirror(runner* r) {
  ckpt_job* made = NULL;
  ckpt_status status = ckpt_session_mirror(get(r, 0, SESSION), &made, &r->error);
  return keep(r, 1, JOB, made, status);
}

const command store_commands[] = {{"store.open", run_open},
                                  {"store.list", run_list},
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
                                  {NULL, NULL}};
