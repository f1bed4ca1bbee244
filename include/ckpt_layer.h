/* ckpt_layer.h - for whoever writes a library above ckpt: calls of its own that look like ckpt's.
 *
 * ckpt_file.h is such a library (libckpt_files). A trainer does not need this header. ckpt.h has the conventions of
 * calls.
 *
 *   ckpt_call *call;  ckpt_call_new(&call, options, &err);      the job of the options serves this call
 *   ckpt_store *own;  ckpt_store_clone(&own, store, &err);      what a thread of the layer may use longer
 *   ckpt_call_run(call, CKPT_CALL_WORK, work, state);           calls of ckpt in work() are parts of it
 *   ckpt_call_finish(call, problem);                            the job ends, with what the call returns
 *   ckpt_call_free(call);
 */
#ifndef CKPT_LAYER_H
#define CKPT_LAYER_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arguments and errors --------------------------------------------------------------------------------- */

/* An error as ckpt makes them. `keys` and `values` are `count` facts (ckpt_error_detail). What is too long for people
 * is cut. Never NULL, but for CKPT_OK. */
CKPT_API ckpt_error* ckpt_error_new(ckpt_status status, const char* message, const char* const* keys,
                                    const char* const* values, size_t count);

/* What a caller set. 1 if it is an INT that he set, and `*value` (nullable) is that; 0 if not. */
CKPT_API int32_t ckpt_options_get_int(const ckpt_options* options, const char* key, int64_t* value);
/* NULL unless it is a STR that he set. Borrowed until it is set again. */
CKPT_API const char* ckpt_options_get_str(const ckpt_options* options, const char* key);
CKPT_API int32_t ckpt_options_has_job(const ckpt_options* options); /* 1 after ckpt_options_set_job */

/* Another handle of the same store or checkpoint, for a thread that may use it longer than the caller keeps his. */
CKPT_API ckpt_status ckpt_store_clone(ckpt_store** out, const ckpt_store* store, ckpt_error** err);
CKPT_API ckpt_status ckpt_reader_clone(ckpt_reader** out, const ckpt_reader* reader, ckpt_error** err);

/* ---- a call ----------------------------------------------------------------------------------------------- */

/* A call of the layer above, under the job of the options or one of its own. Calls of ckpt that are made inside
 * ckpt_call_run are parts of it: they are counted in its job, none of their operations may take longer than timeout_ms,
 * and once the call was cancelled or is over, what they wait for of disks, servers and others ends at once. A job that
 * one of them started is to be cancelled by itself, too. All functions but _free may be called from several
 * threads at once; ckpt_call_free frees a handle, and what still runs goes on.
 * Options: timeout_ms. Statuses: INVALID (the job has served a call). */
typedef struct ckpt_call ckpt_call;
CKPT_API ckpt_status ckpt_call_new(ckpt_call** out, const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_call_free(ckpt_call* call);

enum {
  CKPT_CALL_WORK = 0,
  CKPT_CALL_TIDY = 1 /* what tells others or tidies up: it is still done once the call is over, within six seconds */
};
/* Calls work(user) on this thread, and returns after it. Threads that it starts need a run of their own. */
typedef void (*ckpt_call_work)(void* user);
CKPT_API void ckpt_call_run(const ckpt_call* call, int32_t how, ckpt_call_work work, void* user);

typedef struct ckpt_call_state {
  uint32_t struct_size;
  int32_t cancelled; /* 1 once its job was cancelled */
  int32_t left;      /* 1 if the system holds a thread of ckpt_call_run itself for too long: return, and leave it */
  int32_t reserved;
  int64_t over_ms; /* since when its parts end at once; -1: they do not */
} ckpt_call_state;
/* OK, or why it is over: CANCELLED, TIMEOUT, which then is the answer of the call. Ask a few times a second. */
CKPT_API ckpt_status ckpt_call_look(const ckpt_call* call, ckpt_call_state* out, ckpt_error** err);
/* The call has failed: but for what tidies up, its parts end. The first cause counts. */
CKPT_API void ckpt_call_close(const ckpt_call* call, const ckpt_error* cause);
/* What the layer itself has done so far: bytes_total and bytes_done of the job become those of `done`, and its requests
 * and their bytes count beside those of the call's parts. */
CKPT_API ckpt_status ckpt_call_count(const ckpt_call* call, const ckpt_job_stats* done, ckpt_error** err);
/* Calls release(memory) once no part of the call that was left behind may use the memory: now, or much later, on
 * another thread. */
CKPT_API void ckpt_call_keep(const ckpt_call* call, void* memory, void (*release)(void* memory));
/* The job ends: DONE for NULL, else CANCELLED or FAILED with the error, which stays the caller's. */
CKPT_API void ckpt_call_finish(const ckpt_call* call, const ckpt_error* problem);

/* ---- memory that is filled when it is wanted -------------------------------------------------------------- */

typedef struct ckpt_late_range {
  const void* data;
  uint64_t size;
} ckpt_late_range;
typedef ckpt_status (*ckpt_late_fill)(void* user, const ckpt_late_range* samples, uint64_t count, ckpt_error** err);
typedef ckpt_status (*ckpt_late_begin)(void* user, const ckpt_late_range* ranges, const uint64_t* block_ends,
                                       uint64_t block_count, ckpt_error** err);
typedef ckpt_status (*ckpt_late_wait)(void* user, uint64_t block, int64_t timeout_ms, int32_t* is_there,
                                      ckpt_error** err);
typedef void (*ckpt_late_done)(void* user, uint64_t block);
typedef void (*ckpt_late_release)(void* user);

/* The memory of a save's tensors (of those without strides, and not of tables) that is filled only as the save comes to
 * it: what would not fit into memory whole. Each is called by threads of the save, several at once; an error of theirs
 * (ckpt_error_new) ends the save. */
typedef struct ckpt_late_memory {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  ckpt_late_fill fill;   /* fills samples of what is to come, and returns once they are there */
  ckpt_late_begin begin; /* what the save will read: block b has ranges [block_ends[b - 1], block_ends[b]). Ranges of
                          * other memory may be among them */
  ckpt_late_wait wait;   /* sets *is_there to 1 once the block is there; returns after timeout_ms at the latest */
  ckpt_late_done done;   /* nobody reads that block any more */
  ckpt_late_release release; /* nobody calls anything any more */
} ckpt_late_memory;
/* Before the save is run or started. If it fails, `release` is not called. */
CKPT_API ckpt_status ckpt_save_set_late_memory(ckpt_save* save, const ckpt_late_memory* memory, ckpt_error** err);

#ifdef __cplusplus
}
#endif
#endif /* CKPT_LAYER_H */
