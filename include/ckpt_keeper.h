/* ckpt_keeper.h - when a training saves, what is kept, and what it starts from.
 *
 * A keeper knows the policy and the history of a run. It saves nothing by itself: it says when, makes the save, and the
 * caller adds what is to be saved.
 *
 *   ckpt_options_set_str(options, "every", "500 steps, 10 min", &err);
 *   ckpt_options_set_int(options, "keep_last", 3, &err);
 *   ckpt_keeper_new(&keeper, store, 0, 1, options, &err);
 *   ckpt_keeper_catch(keeper, SIGTERM, &err);
 *   ckpt_keeper_find(keeper, "latest", &id, &err);               NULL: there is none yet
 *   …  ckpt_reader_open, a load, ckpt_keeper_restored(keeper, reader, &err)
 *   for (step = start + 1; step <= steps && !ckpt_keeper_stopping(keeper); step++) {
 *     …
 *     ckpt_keeper_tell(keeper, CKPT_KEEPER_METRIC, "val_loss", loss, &err);
 *     ckpt_keeper_step(keeper, step, 0, votes, &err);
 *     MPI_Allreduce(MPI_IN_PLACE, votes, CKPT_KEEPER_VOTES, MPI_INT64_T, MPI_MAX, comm);     of several ranks
 *     ckpt_keeper_decide(keeper, votes, &what, &err);
 *     if (what == CKPT_KEEPER_GO_ON) continue;
 *     ckpt_keeper_plan(keeper, NULL, &plan, &err);             on rank 0, which sends it to the others
 *     ckpt_keeper_begin(&save, keeper, session, plan, options, &err);
 *     …  ckpt_save_add_tensor; ckpt_save_run, or ckpt_save_start and a wait before the next save
 *   }
 *
 * The words, and what lies in the checkpoints, are the same in all languages: any goes on with what another saved.
 */
#ifndef CKPT_KEEPER_H
#define CKPT_KEEPER_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A keeper belongs to one thread at a time, but for ckpt_keeper_stop. Every rank makes one and calls the same, with the
 * same steps; of ranks that send each other plans and ids, only rank 0 makes those.
 * Options: run, every, keep_last, keep_every, keep_best, keep_interval, label, on_existing, continue_from, ranks_agree,
 * time_limit, time_margin_ms, on_damaged, read_only, timeout_ms. Statuses: INVALID (what of the policy is wrong). It
 * does not touch the store: restoring takes a run from nobody. */
typedef struct ckpt_keeper ckpt_keeper;
CKPT_API ckpt_status ckpt_keeper_new(ckpt_keeper** out, const ckpt_store* store, uint32_t rank, uint32_t world_size,
                                     const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_keeper_free(ckpt_keeper* keeper); /* gives the signals back; a save that runs goes on */

/* What the next call should tell people, once: after _find the newer checkpoints that it passed over, after _step a
 * step that comes before the last one, or that keep_best's metric was never told, after _plan the older checkpoints of
 * a run that begins anew (continue_from=none), after _restored the later steps that the run has. NULL: nothing.
 * Borrowed until the next call. */
CKPT_API const char* ckpt_keeper_warning(const ckpt_keeper* keeper);

/* ---- when to save ----------------------------------------------------------------------------------------- */

enum {
  CKPT_KEEPER_COUNTER = 0, /* "epoch" (epochs that are done), "batch", "sample", "token", …: for `every` and labels */
  CKPT_KEEPER_METRIC = 1   /* kept with the checkpoint, and read by keep_best */
};
/* A number of the next step; between ckpt_keeper_step and ckpt_keeper_plan, of that step. Statuses: INVALID (a name
 * without text, a counter that is not finite). */
CKPT_API ckpt_status ckpt_keeper_tell(ckpt_keeper* keeper, int32_t kind, const char* name, double value,
                                      ckpt_error** err);

#define CKPT_KEEPER_VOTES 5
/* Says that `step` (0 or more) is done. `votes` receives this rank's CKPT_KEEPER_VOTES numbers; the ranks combine them,
 * each by its maximum. `due`: 1 if the caller's own rule asks for a save. `votes` NULL: a save is made whatever `every`
 * says, and there is nothing to decide; where rank 0 was asked to stop, the plan of that save tells all ranks.
 * Statuses: INVALID (a counter that `every` needs was not told; a keeper that is read-only). */
CKPT_API ckpt_status ckpt_keeper_step(ckpt_keeper* keeper, int64_t step, int32_t due, int64_t* votes, ckpt_error** err);
/* 1 if the ranks must combine their votes in each step, since one alone may want a save: `every` has a time (or idle)
 * or, of several ranks, a counter other than the step; there is a time limit, or a signal is caught. */
CKPT_API int32_t ckpt_keeper_needs_votes(const ckpt_keeper* keeper);

enum {
  CKPT_KEEPER_GO_ON = 0,
  CKPT_KEEPER_SAVE = 1,
  CKPT_KEEPER_SAVE_AND_STOP = 2 /* for the last time; ckpt_keeper_stopping says why */
};
/* What all ranks do now. `votes`: the combined ones; NULL: steps decide, which are the same on all ranks. Statuses:
 * INVALID (the votes of some ranks are missing), MISMATCH (the ranks are at different steps). */
CKPT_API ckpt_status ckpt_keeper_decide(ckpt_keeper* keeper, const int64_t* votes, int32_t* what, ckpt_error** err);

/* A signal that came, by its number, or 1000 for the end of the job's time: the next step of all ranks saves and stops.
 * Any thread; a signal handler may call it. */
#define CKPT_KEEPER_TIME_LIMIT 1000
CKPT_API void ckpt_keeper_stop(ckpt_keeper* keeper, int32_t why);
/* From now on does that when the signal comes, after which the handler that was there before is called. The default of
 * SIGINT, which ends the process, gets the second one only. Statuses: INVALID (it cannot be caught, or the ranks do not
 * agree). */
CKPT_API ckpt_status ckpt_keeper_catch(ckpt_keeper* keeper, int32_t signal_number, ckpt_error** err);
/* "SIGTERM", "time limit", …, once that was decided, or came with a plan, whatever became of the save; else NULL. */
CKPT_API const char* ckpt_keeper_stopping(const ckpt_keeper* keeper);

/* ---- saving, and what is kept ----------------------------------------------------------------------------- */

/* How all ranks save the step that was told last, as text: {"label": …, "step": …}, attributes, and what retention
 * leaves; with "saved", an id, if this keeper has just committed that step and label. `label`: of the caller's
 * own, which stays for ever; NULL: by option label. With keep_last, or continue_from=none, the first call reads the
 * metrics of the run's checkpoints. Of a run that begins anew, saves replace older checkpoints of their label, unless
 * on_existing was given. Borrowed until the next plan. Statuses: INVALID, IO, … of the store. */
CKPT_API ckpt_status ckpt_keeper_plan(ckpt_keeper* keeper, const char* label, const char** plan, ckpt_error** err);
/* Makes the save of a plan. `*out` is NULL if that was just saved. The keeper learns by itself what becomes of the
 * save. Options: as those of ckpt_save_new; those of the plan count before them. Statuses: those of ckpt_save_new;
 * MISMATCH (a session of another run or rank); FORMAT (no plan). */
CKPT_API ckpt_status ckpt_keeper_begin(ckpt_save** out, ckpt_keeper* keeper, const ckpt_session* session,
                                       const char* plan, const ckpt_options* options, ckpt_error** err);
/* The id of the newest checkpoint that this keeper has committed; NULL for none. Borrowed until the next call. */
CKPT_API const char* ckpt_keeper_saved(ckpt_keeper* keeper);

/* ---- what a training starts from -------------------------------------------------------------------------- */

/* The id of the checkpoint to load: of "latest", "best" (by keep_best, or as the metrics of the checkpoints tell;
 * "best:val_loss:min" says it; a label "best" goes before without keep_best) or any selector of ckpt_store_find. `*id`
 * is NULL if there is none for "latest". Borrowed until the next call. Statuses: NOT_FOUND, INVALID ("best" of what?),
 * CORRUPT, IO, … */
CKPT_API ckpt_status ckpt_keeper_find(ckpt_keeper* keeper, const char* selector, const char** id, ckpt_error** err);
/* The load of what _find gave has failed, with that status and message (nullable). OK: it is damaged, as
 * GONE and the statuses of the bytes (30 to 39) say, and the next ckpt_keeper_find gives the one before, or this
 * failure if there is none; its step can be saved again. Else the same failure, also if anything but "latest" was asked
 * for, or on_damaged is error. */
CKPT_API ckpt_status ckpt_keeper_pass_over(ckpt_keeper* keeper, ckpt_status status, const char* message,
                                           ckpt_error** err);
/* The training goes on from this checkpoint. What the run has of later steps stays, until a save has its label. A load
 * of what _find gave after which this is not called counts for nothing: retention leaves what it did not go on from.
 * Statuses: IO, … of the store. */
CKPT_API ckpt_status ckpt_keeper_restored(ckpt_keeper* keeper, const ckpt_reader* reader, ckpt_error** err);
/* A number that was told with the checkpoint of ckpt_keeper_restored, in the order of names. NULL past the last one.
 * Borrowed until the next ckpt_keeper_restored. */
CKPT_API const char* ckpt_keeper_number_at(const ckpt_keeper* keeper, int32_t kind, size_t index, double* value);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_KEEPER_H */
