/* keeper.*: when a training saves, what is kept, and what it starts from. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

static const char* const kKinds[] = {"counter", "metric", NULL};
static const char* const kWhats[] = {"go_on", "save", "save_and_stop", NULL};

MAKES(run_new, 0, KEEPER, ckpt_keeper,
      ckpt_keeper_new(&made, get(r, 1, STORE), (uint32_t)unsigned_integer(r, 2), (uint32_t)unsigned_integer(r, 3),
                      r->options, &r->error))
CALLS(run_tell, ckpt_keeper_tell(get(r, 0, KEEPER), named(r, kKinds, word(r, 1)), word(r, 2), strtod(word(r, 3), NULL),
                                 &r->error))

static ckpt_status run_step(runner* r) {
  int64_t votes[CKPT_KEEPER_VOTES];
  ckpt_status status = ckpt_keeper_step(get(r, 0, KEEPER), integer(r, 1), (int32_t)integer(r, 2), votes, &r->error);
  for (int32_t i = 0; i < CKPT_KEEPER_VOTES && !status; i++) say(r, NULL, "%" PRId64, votes[i]);
  return status;
}

static ckpt_status decide(runner* r, const int64_t* votes) {
  int32_t what = 0;
  ckpt_status status = ckpt_keeper_decide(get(r, 0, KEEPER), votes, &what, &r->error);
  if (!status) say_text(r, NULL, kWhats[what]);
  return status;
}

static ckpt_status run_decide(runner* r) {
  int64_t votes[CKPT_KEEPER_VOTES];
  for (size_t i = 0; i < CKPT_KEEPER_VOTES; i++) votes[i] = integer(r, 1 + i);
  return decide(r, votes);
}

CALLS(run_note, ckpt_keeper_step(get(r, 0, KEEPER), integer(r, 1), 0, NULL, &r->error))
CALLS(run_decide_alone, decide(r, NULL))
CALLS(run_catch, ckpt_keeper_catch(get(r, 0, KEEPER), (int32_t)integer(r, 1), &r->error))
SAYS(run_stop, ckpt_keeper_stop(get(r, 0, KEEPER), (int32_t)integer(r, 1)))
SAYS(run_needs_votes, say(r, NULL, "%" PRId32, ckpt_keeper_needs_votes(get(r, 0, KEEPER))))
SAYS(run_stopping, say_text(r, NULL, ckpt_keeper_stopping(get(r, 0, KEEPER))))
SAYS(run_warning, say_text(r, NULL, ckpt_keeper_warning(get(r, 0, KEEPER))))

static ckpt_status run_begin(runner* r) {
  const char *from = text_of(r, "from"), *plan = NULL;
  ckpt_keeper *keeper = get(r, 1, KEEPER), *planner = from ? get_named(r, from, KEEPER) : keeper;
  ckpt_save* made = NULL;
  ckpt_status status = ckpt_keeper_plan(planner, *word(r, 3) ? word(r, 3) : NULL, &plan, &r->error);
  if (!status) status = ckpt_keeper_begin(&made, keeper, get(r, 2, SESSION), plan, r->options, &r->error);
  if (!status) say_text(r, NULL, made ? "1" : "0");
  return made ? keep(r, 0, SAVE, made, status) : status;
}

SAYS(run_saved, say_text(r, NULL, ckpt_keeper_saved(get(r, 0, KEEPER))))
CALLS(run_restored, ckpt_keeper_restored(get(r, 0, KEEPER), get(r, 1, READER), &r->error))

static ckpt_status run_find(runner* r) {
  const char* id = NULL;
  ckpt_status status = ckpt_keeper_find(get(r, 0, KEEPER), word(r, 1), &id, &r->error);
  if (!status) say_text(r, NULL, id);
  return status;
}

static ckpt_status run_pass_over(runner* r) {
  ckpt_status failed = 1;
  while (failed < 100 && strcmp(ckpt_status_name(failed), word(r, 1)) != 0) failed++;
  return ckpt_keeper_pass_over(get(r, 0, KEEPER), failed, "damaged", &r->error);
}

/* What is past the end has no name; other functions of the library say NOT_FOUND of that. */
static ckpt_status run_number(runner* r) {
  double value = 0;
  const char* name =
      ckpt_keeper_number_at(get(r, 0, KEEPER), named(r, kKinds, word(r, 1)), unsigned_integer(r, 2), &value);
  say_text(r, "name", name);
  say(r, "value", "%.17g", value);
  return CKPT_OK;
}

const command keeper_commands[] = {{"keeper.new", run_new},           {"keeper.tell", run_tell},
                                   {"keeper.step", run_step},         {"keeper.note", run_note},
                                   {"keeper.decide", run_decide},     {"keeper.decide_alone", run_decide_alone},
                                   {"keeper.stop", run_stop},         {"keeper.needs_votes", run_needs_votes},
                                   {"keeper.catch", run_catch},       {"keeper.stopping", run_stopping},
                                   {"keeper.warning", run_warning},   {"keeper.begin", run_begin},
                                   {"keeper.saved", run_saved},       {"keeper.find", run_find},
                                   {"keeper.restored", run_restored}, {"keeper.pass_over", run_pass_over},
                                   {"keeper.number", run_number},     {NULL, NULL}};
