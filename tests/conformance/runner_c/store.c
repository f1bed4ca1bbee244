/* store.*: what a store holds, and what is done to it. */
#include <stdio.h>
#include <stdlib.h>

#include "runner.h"

static ckpt_status run_open(runner* r, line* l) {
  ckpt_options* options;
  ckpt_store* store = NULL;
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_store_open(&store, l->words[1].text, options, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[0], STORE, store);
  return status;
}

/* `with_states`: all entries as ID:STATE; else the ids of the committed ones. */
static ckpt_status list(runner* r, line* l, bool with_states) {
  static const char* const states[] = {"", "COMMITTED", "OPEN", "ABORTED", "DAMAGED"};
  ckpt_list* found = NULL;
  ckpt_status status = ckpt_store_list(object_get(r, &l->words[0], STORE), &found, &r->error);
  if (status) return status;
  size_t count = 0;
  for (size_t i = 0; i < ckpt_list_count(found) && !status; i++) {
    ckpt_checkpoint_info info = {.struct_size = sizeof info};
    char text[sizeof info.id + 16];
    status = ckpt_list_at(found, i, &info, &r->error);
    if (!status && !with_states && info.state != CKPT_CHECKPOINT_COMMITTED) continue;
    (void)snprintf(text, sizeof text, "%s%s%s", info.id, with_states ? ":" : "", with_states ? states[info.state] : "");
    if (!status) expect_list(r, l, 1, count++, text);
  }
  ckpt_list_free(found);
  if (!status) expect_list_end(r, l, 1, count);
  return status;
}

static ckpt_status run_list(runner* r, line* l) { return list(r, l, false); }
static ckpt_status run_states(runner* r, line* l) { return list(r, l, true); }

static ckpt_status run_find(runner* r, line* l) {
  ckpt_options* options;
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  const ckpt_store* store = object_get(r, &l->words[0], STORE);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_store_find(store, l->words[1].text, options, &info, &r->error);
  ckpt_options_free(options);
  if (!status) expect_checkpoint(r, l, &info);
  return status;
}

static ckpt_status run_remove(runner* r, line* l) {
  return ckpt_store_remove(object_get(r, &l->words[0], STORE), l->words[1].text, &r->error);
}

static ckpt_status run_prune(runner* r, line* l) {
  ckpt_options* options;
  ckpt_report* report = NULL;
  const ckpt_store* store = object_get(r, &l->words[0], STORE);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_store_prune(store, options, &report, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[1], REPORT, report);
  return status;
}

static ckpt_status run_repair(runner* r, line* l) {
  ckpt_options* options;
  ckpt_report* report = NULL;
  const ckpt_store* store = object_get(r, &l->words[0], STORE);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_store_repair(store, l->words[1].text, options, &report, &r->error);
  ckpt_options_free(options);
  if (!status) object_put(r, &l->words[2], REPORT, report);
  return status;
}

static ckpt_status run_import(runner* r, line* l) {
  ckpt_options* options;
  ckpt_checkpoint_info info = {.struct_size = sizeof info};
  const ckpt_store* store = object_get(r, &l->words[0], STORE);
  int64_t step = parse_int(r, l->words[3].text);
  char* path = path_of(r, l->words[1].text);
  ckpt_status status = options_of(r, l, &options);
  if (!status) status = ckpt_import(store, path, l->words[2].text, step, options, &info, &r->error);
  ckpt_options_free(options);
  free(path);
  if (!status) expect_checkpoint(r, l, &info);
  return status;
}

const command store_commands[] = {{"store.open", 2, OPTIONS, run_open},
                                  {"store.list", 1, MORE, run_list},
                                  {"store.states", 1, MORE, run_states},
                                  {"store.find", 2, PAIRS | OPTIONS, run_find},
                                  {"store.remove", 2, 0, run_remove},
                                  {"store.prune", 2, OPTIONS, run_prune},
                                  {"store.repair", 3, OPTIONS, run_repair},
                                  {"store.import", 4, PAIRS | OPTIONS, run_import},
                                  {NULL, 0, 0, NULL}};
