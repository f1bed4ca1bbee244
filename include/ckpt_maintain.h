/* ckpt_maintain.h - what keeps a store in order: see where bytes lie, check, compare and copy checkpoints, list them
 * and their runs, remove what is old, repair what is damaged, keep a mirror.
 *
 * ckpt.h includes this file and has the conventions of calls.
 */
#ifndef CKPT_MAINTAIN_H
#define CKPT_MAINTAIN_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- report ----------------------------------------------------------------------------------------------- */

enum {
  CKPT_FINDING_DAMAGED = 1,     /* verify: bytes that do not match; save: an older checkpoint of its label */
  CKPT_FINDING_MISSING = 2,     /* verify: a part; load: a name asked for; diff: only in a */
  CKPT_FINDING_EXTRA = 3,       /* load: a name not asked for; diff: only in b */
  CKPT_FINDING_DIFFERENT = 4,   /* diff; copy: is foreign there */
  CKPT_FINDING_REMOVED = 5,     /* prune */
  CKPT_FINDING_KEPT = 6,        /* prune: not removed, and why; copy: was there */
  CKPT_FINDING_REPAIRED = 7,    /* repair: was written, or with dry_run would be */
  CKPT_FINDING_PASSED_OVER = 8, /* open: a newer checkpoint that cannot be loaded */
  CKPT_FINDING_ANEW = 9,        /* save: it does not go on from the checkpoint `name` of its run, or goes back */
  CKPT_FINDING_NO_CACHE = 10,   /* open: the cache cannot be used; loads read the store */
  CKPT_FINDING_REUSED = 11 /* save: `size` bytes in `count` chunks are those of the checkpoint `name`; or why not */
};
typedef struct ckpt_finding {
  uint32_t struct_size;
  int32_t kind;       /* CKPT_FINDING_* */
  ckpt_status status; /* CORRUPT, FORMAT, INCOMPLETE, … where it is an error */
  int32_t reserved;
  const char* text;                    /* one line for people; borrowed from the report, as the others */
  const char* name;                    /* tensor, object, checkpoint id; NULL where none */
  const char* part;                    /* "PART_003"; NULL where none */
  uint64_t offset;                     /* in the part */
  uint64_t size;                       /* bytes there */
  int64_t first_element, last_element; /* in the flattened tensor, inclusive; -1 where none */
  double max_abs, max_rel;             /* diff of values; NaN where none */
  uint64_t count;                      /* diff of values: elements that differ; copy: parts that were there */
} ckpt_finding;
CKPT_API size_t ckpt_report_count(const ckpt_report* report);
CKPT_API ckpt_status ckpt_report_at(const ckpt_report* report, size_t index, ckpt_finding* out, ckpt_error** err);
CKPT_API void ckpt_report_free(ckpt_report* report);

/* ---- checkpoints ------------------------------------------------------------------------------------------ */

/* Checks a checkpoint in the background: verify_mode "full" reads every byte of every part, "quick" only sizes,
 * headers, trailers and indexes, "sample" every sample_n-th chunk, beginning with number sample_k. Damage does not end
 * the job: it ends OK, and ckpt_job_report lists every damage. An empty report means a sound checkpoint. Options:
 * timeout_ms, verify_mode, sample_k, sample_n, threads. Statuses of the job: IO, GONE, CANCELLED. */
CKPT_API ckpt_status ckpt_reader_verify(const ckpt_reader* reader, const ckpt_options* options, ckpt_job** out,
                                        ckpt_error** err);

/* Compares two checkpoints: names, dtypes, shapes, objects and attributes, then (values=1) the elements. An empty
 * report means equal content. Options: timeout_ms, values, threads. Statuses: CORRUPT, IO, GONE. */
CKPT_API ckpt_status ckpt_reader_diff(const ckpt_reader* a, const ckpt_reader* b, const ckpt_options* options,
                                      ckpt_report** out, ckpt_error** err);

/* Makes the same checkpoint in another store: same run, label, step, save id and id, byte for byte the same parts and
 * MANIFEST. Makes the store if there is none; one that has no checkpoints becomes another place of this store, so that
 * selectors find the copy there as they find it here. In a store of its own the copy is foreign: it is listed and can
 * be loaded by its id, but is never the latest and has no label.
 * Every byte is checked on its way. MANIFEST goes last, so an unfinished copy is no checkpoint, and the next call goes
 * on with it: parts that are there are kept if size and index are those of the source, with check=full if every byte
 * is. What another checkpoint there shares with this one is not sent (finding REUSED). Sessions leave an unfinished
 * copy alone; ckpt_store_remove removes it, and ckpt_store_prune and ckpt_store_repair do once nobody works on it (on a
 * store without locks: a day after its last sign of life). Several may copy the same checkpoint at once. A checkpoint
 * that is there already is OK. `report` (nullable) says what was there: a finding KEPT with status EXISTS for the
 * checkpoint, with OK for `count` of its parts; DIFFERENT for a copy that is foreign. Options: timeout_ms, check,
 * staging_bytes, threads. Statuses: EXISTS (another checkpoint has its name there: details expected and found are the
 * save ids), CORRUPT, FORMAT, INCOMPLETE (the source is damaged), GONE (it was removed), MISMATCH (a part or MANIFEST
 * that is there is not the source's), CONFLICT (a save there has its name), ABORTED (it was removed there while it was
 * made, or closed by a tombstone), COMMIT_UNKNOWN (MANIFEST was put, but the store gave no answer: copy again),
 * NO_SPACE, IO, CANCELLED. */
CKPT_API ckpt_status ckpt_reader_copy(const ckpt_reader* reader, const ckpt_store* to, const ckpt_options* options,
                                      ckpt_report** report, ckpt_error** err);

/* ---- where bytes lie -------------------------------------------------------------------------------------- */

enum { CKPT_CODEC_RAW = 0, CKPT_CODEC_LZ4 = 1 };
enum { CKPT_FILTER_NONE = 0, CKPT_FILTER_SHUFFLE = 1, CKPT_FILTER_BIT_PLANES = 2 };

/* Where bytes of a tensor lie: a flat range of it (ndim -1), or of a box of it in the row-major order of the box. */
typedef struct ckpt_segment_info {
  uint32_t struct_size;
  uint32_t part;
  int32_t ndim;   /* of the box; -1 for a flat range */
  int32_t codec;  /* CKPT_CODEC_* */
  int32_t filter; /* CKPT_FILTER_*: what is done to bytes before they are compressed */
  uint32_t chunk_count;
  int64_t offset[CKPT_MAX_NDIM];
  int64_t extent[CKPT_MAX_NDIM];
  int64_t flat_offset, flat_size;
  uint64_t part_offset; /* of the first chunk */
  uint64_t stored_bytes;
} ckpt_segment_info;
CKPT_API ckpt_status ckpt_reader_segment_at(const ckpt_reader* reader, const char* tensor, uint32_t index,
                                            ckpt_segment_info* out, ckpt_error** err);

typedef struct ckpt_part_info {
  uint32_t struct_size;
  uint32_t rank;
  uint64_t bytes;
  char name[32];    /* "PART_003" */
  char save_id[40]; /* of the checkpoint that wrote it */
} ckpt_part_info;
CKPT_API ckpt_status ckpt_reader_part_at(const ckpt_reader* reader, uint32_t index, ckpt_part_info* out,
                                         ckpt_error** err);

/* ---- stores ----------------------------------------------------------------------------------------------- */

/* A snapshot of all checkpoints and attempts, oldest first: by run, then token, sequence. It held at one moment of the
 * call, whatever others do meanwhile. What cannot be read is in it as DAMAGED, REVISION or UNREADABLE. Statuses:
 * NOT_FOUND, IO, TIMEOUT. */
typedef struct ckpt_list ckpt_list;
CKPT_API ckpt_status ckpt_store_list(const ckpt_store* store, ckpt_list** out, ckpt_error** err);
CKPT_API size_t ckpt_list_count(const ckpt_list* list);
CKPT_API ckpt_status ckpt_list_at(const ckpt_list* list, size_t index, ckpt_checkpoint_info* out, ckpt_error** err);
CKPT_API void ckpt_list_free(ckpt_list* list);

/* Removes one checkpoint by its id. Statuses: NOT_FOUND, CONFLICT (a reader holds it, or it is an open attempt of
 * a living session, or it is kept), IO. */
CKPT_API ckpt_status ckpt_store_remove(const ckpt_store* store, const char* id, ckpt_error** err);

/* keep=1: nothing of this store removes the committed checkpoint `id` any more, neither retention nor a save that
 * replaces its label nor ckpt_store_remove, until a call with keep=0 takes that back. Once it has returned OK this
 * holds, also for a session or prune that runs at the same time, on stores with and without locks. The word is kept in
 * the store, beside its checkpoints: a copy in another store is not kept, and whoever deletes .ckpt deletes it.
 * ckpt_store_list and ckpt_store_find tell it (CKPT_CHECKPOINT_KEPT). Either word may be said again. Statuses:
 * NOT_FOUND, CONFLICT (somebody has begun to remove it), IO. */
CKPT_API ckpt_status ckpt_store_keep(const ckpt_store* store, const char* id, int32_t keep, ckpt_error** err);

/* Gives the committed checkpoint `id` of run `run` a name, which has the rules of labels: selector "name:N" picks it,
 * and ckpt_store_list tells it. Another checkpoint that had the name loses it at the same moment. With `id` "" none has
 * it any more. Several callers at once each replace the whole word of another, on stores with and without locks. A name
 * keeps no checkpoint: call ckpt_store_keep before, or retention may remove it. The name then still says which one had
 * it (NOT_FOUND, its id in detail found). As for ckpt_store_keep, copies in other stores have no names. Statuses:
 * NOT_FOUND (there is no such checkpoint, or with `id` "" no such name), CONFLICT (it is being removed), INVALID (also
 * a checkpoint of another run), IO. */
CKPT_API ckpt_status ckpt_store_name(const ckpt_store* store, const char* run, const char* name, const char* id,
                                     ckpt_error** err);

typedef struct ckpt_run_info {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t token;            /* of the session that owns the run; 0 if there is no record of one */
  uint64_t checkpoint_count; /* committed ones; foreign ones and copies do not count */
  int64_t newest_step;       /* of the newest of these; -1 for none */
  char name[208];
  char newest_id[256]; /* "" for none */
  char newest_label[208];
} ckpt_run_info;

/* A snapshot of all runs, by name: those that a session has opened and those that have checkpoints. Whether the newest
 * checkpoint can be loaded, ckpt_store_find tells. Statuses: NOT_FOUND, IO. */
typedef struct ckpt_runs ckpt_runs;
CKPT_API ckpt_status ckpt_store_runs(const ckpt_store* store, ckpt_runs** out, ckpt_error** err);
CKPT_API size_t ckpt_runs_count(const ckpt_runs* runs);
CKPT_API ckpt_status ckpt_runs_at(const ckpt_runs* runs, size_t index, ckpt_run_info* out, ckpt_error** err);
CKPT_API void ckpt_runs_free(ckpt_runs* runs);

/* Applies a retention policy to the numbered checkpoints of one run: those whose label has their step in it as a whole
 * number ("step-100", "ep3-ba100" of step 100). A checkpoint of any other label ("best"), or without a step, stays
 * until somebody removes it. Of the numbered ones it keeps the newest `keep_last`, every step that `keep_every`
 * divides, the labels in `protect` and those that a keeper was given (ckpt_keeper_plan), whatever a reader holds, and
 * always the newest one that is sound. Unlike a session's retention it does not ask who went on from which. `report`
 * (nullable) lists what was removed and what was kept and why; with dry_run, what would be. Copies and directories that
 * were renamed by hand are not its business, but it removes unfinished copies that nobody works on, and what an earlier
 * removal left for readers (store option prune_grace_ms) and is due. INVALID: keep_every or protect without keep_last,
 * which would keep all. NOT_FOUND: a label in `protect` that no checkpoint of the run has; nothing was removed.
 * Options: timeout_ms, run, keep_last, keep_every, protect, dry_run. Statuses: INVALID, NOT_FOUND, IO. */
CKPT_API ckpt_status ckpt_store_prune(const ckpt_store* store, const ckpt_options* options, ckpt_report** report,
                                      ckpt_error** err);

/* Rebuilds a lost or damaged MANIFEST of directory `id` from its parts, byte for byte. It never replaces a readable
 * one. An attempt that never committed needs force=1 and is marked REBUILT. If MANIFEST is sound and a part is
 * missing or another file, it takes that from a checkpoint of the store that shares it (option incremental). Then it
 * removes unfinished copies that nobody works on. By default a dry run. Options: timeout_ms, dry_run (default 1 here),
 * force. Statuses: EXISTS (sound already), INCOMPLETE, MISMATCH (a part of another save or rank), CORRUPT, ABORTED, IO.
 */
CKPT_API ckpt_status ckpt_store_repair(const ckpt_store* store, const char* id, const ckpt_options* options,
                                       ckpt_report** report, ckpt_error** err);

/* ---- mirrors ---------------------------------------------------------------------------------------------- */

/* A session of a store with option `mirror` copies its run's checkpoints there in the background, on rank 0: first what
 * the mirror lacks, then each one that is committed. Every byte is checked on its way. A copy that fails, however the
 * mirror answers, is tried again as long as the session lives, and by the next one; a mirror that was used before and
 * is empty now (its disk is not mounted) is IO, and not made anew. Retention keeps the oldest two that wait;
 * ckpt_session_free copies what waits, and gives up at the first failure. A store that lost its disk starts from its
 * mirror: same store id, higher tokens; and the session that the mirror knew before is FENCED there.
 * This call, on rank 0, starts a job that ends once the mirror has all that was committed before the call. It fails
 * with the first failure from now on, while copying goes on, unless that was FENCED; its report names what will not be
 * copied, because it was removed before its turn (MISSING) or is damaged (DAMAGED), and after a failure what waits
 * (MISSING, with the failure's status). TIMEOUT where a disk holds the copying for longer than timeout_ms of the
 * session. Its statistics count the requests of the copies that it waits for. Cancelling or freeing the job stops the
 * waiting only. Statuses: INVALID (no mirror, or not rank 0). */
CKPT_API ckpt_status ckpt_session_mirror(const ckpt_session* session, ckpt_job** out, ckpt_error** err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_MAINTAIN_H */
