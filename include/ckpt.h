/* ckpt.h - save and load training checkpoints from any language.
 *
 * The ranks of a trainer save one checkpoint together; any number of ranks can load it. Every byte has a checksum,
 * a save is committed for all ranks or for none, and loading runs no code.
 *
 *   ckpt_store   *store;   ckpt_store_open(&store, "/data/run7", NULL, &err);
 *   ckpt_session *session; ckpt_session_open(&session, store, 0, 1, NULL, NULL, &err);
 *   ckpt_save    *save;    ckpt_save_new(&save, session, "step-100", 100, NULL, &err);
 *   ckpt_tensor_desc d = {.struct_size = sizeof d, .dtype = CKPT_DTYPE_F32, .ndim = 2, .shape = {128, 64}};
 *   ckpt_save_add_tensor(save, "w", &d, w, sizeof w, CKPT_DEVICE_CPU, 0, &err);
 *   ckpt_save_run(save, &err);                    OK: durable, complete, committed
 *
 * Read in this order: statuses and errors, options, store, session, save, reader, load, job; then ckpt_maintain.h (with
 * reports) and ckpt_table.h, which this file includes.
 *
 * CONVENTIONS
 *   Errors      Every fallible call returns a ckpt_status and takes a nullable `ckpt_error **err`, always its last
 *               argument. On success *err is set to NULL. On failure *err owns the explanation (free it); outputs
 *               are left untouched.
 *   Threads     A function that takes `const T *` may run concurrently with other such calls on the same object;
 *               one that takes `T *` needs the object for itself. Different objects are always independent.
 *   Ownership   `_new`, `_open`, `_start`: the caller owns the result and ends it with `_free`. Objects keep what
 *               they were made from alive, so they may be freed in any order. `_free(NULL)` does nothing.
 *   Text        NUL-terminated UTF-8. Text that a call returns is borrowed and lives as long as the object it came
 *               from. Strings passed in are copied before the call returns.
 *   Structs     Set `struct_size = sizeof(the struct)` before any call, zero the rest; fields are only ever appended.
 *   Units       Sizes in bytes; offsets, extents and strides in elements; times in milliseconds, unless a name says
 *               otherwise.
 *   fork        After fork() the child may only free; frees there do nothing, calls that do work return CKPT_FORKED.
 *   Statuses    A comment lists those that a caller may want to handle. Besides these, any call may return INVALID (the
 *               caller's mistake), NOMEM, FORKED and INTERNAL (a defect of ckpt).
 */
#ifndef CKPT_H
#define CKPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKPT_VERSION_MAJOR 0
#define CKPT_VERSION_MINOR 1
#define CKPT_VERSION_PATCH 0
#define CKPT_FORMAT_REVISION 1

#if defined(CKPT_BUILDING)
#define CKPT_API __attribute__((visibility("default")))
#else
#define CKPT_API
#endif

/* ---- library ---------------------------------------------------------------------------------------------- */

/* "0.1.0": the version of the loaded library, which may be newer than this header. Static text. */
CKPT_API const char* ckpt_version_string(void);
CKPT_API int32_t ckpt_version_number(void); /* the same: major * 1000000 + minor * 1000 + patch */

/* ---- status and error ------------------------------------------------------------------------------------- */

typedef int32_t ckpt_status;
enum {
  CKPT_OK = 0,
  /* the call */
  CKPT_INVALID = 10,     /* an argument, a name or an option is wrong */
  CKPT_UNSUPPORTED = 11, /* valid, but not possible in this build, on this store or for this dtype */
  CKPT_FORKED = 12,      /* called in a child of the process that made the object */
  CKPT_CANCELLED = 13,   /* the job was cancelled, or freed before its end */
  /* the store */
  CKPT_NOT_FOUND = 20, /* no such checkpoint, tensor, object or file */
  CKPT_EXISTS = 21,    /* it is there already */
  CKPT_GONE = 22,      /* the checkpoint was removed while it was being read */
  /* the bytes */
  CKPT_CORRUPT = 30,    /* a checksum does not match */
  CKPT_FORMAT = 31,     /* cannot be parsed as what it claims to be */
  CKPT_REVISION = 32,   /* written by a newer format revision, or needs a feature unknown here */
  CKPT_INCOMPLETE = 33, /* a part, a rank or a range is missing */
  /* the ranks */
  CKPT_MISMATCH = 40,       /* ranks, or a request and the checkpoint, disagree */
  CKPT_CONFLICT = 41,       /* another process has this rank's place, or another job wrote here */
  CKPT_FENCED = 42,         /* a newer session owns this run; this one may not commit any more */
  CKPT_ABORTED = 43,        /* the save was given up, by this rank or another; nothing was committed */
  CKPT_TIMEOUT = 44,        /* a deadline passed */
  CKPT_COMMIT_UNKNOWN = 45, /* the commit record cannot be read now; once it can, it tells the outcome */
  /* the machine */
  CKPT_IO = 50,       /* reading or writing failed */
  CKPT_NO_SPACE = 51, /* the disk is full */
  CKPT_NOMEM = 52,    /* memory is short */
  CKPT_INTERNAL = 60  /* a defect of ckpt */
};

typedef struct ckpt_error ckpt_error; /* owned, immutable; may be read and freed on any thread */

/* "CORRUPT" for CKPT_CORRUPT; "UNKNOWN" for a number this library does not know. Static text. */
CKPT_API const char* ckpt_status_name(ckpt_status status);
CKPT_API ckpt_status ckpt_error_status(const ckpt_error* err);  /* CKPT_OK for NULL */
CKPT_API const char* ckpt_error_message(const ckpt_error* err); /* a line of at most 1 KiB; "" for NULL */

/* One fact of the error by key: "path", "part", "tensor", "rank", "ranks", "offset", "expected", "found"; of a save
 * that failed, on all ranks, "rank" and "status": which rank gave it up, and the name of its status; of FENCED "run",
 * "expected" (the session's token) and, if it is known, "found" (its owner's); "store" of a copy or mirror whose target
 * failed; of buckets "bucket", "key", "http_status", "s3_code", "gcs_reason" or "azure_code", "request_id"; of https://
 * "http_status"; of the system "errno"; else NULL.
 * _at: the key of fact number `index`, NULL past the last one; `*value` (nullable) receives its text. */
CKPT_API const char* ckpt_error_detail(const ckpt_error* err, const char* key);
CKPT_API const char* ckpt_error_detail_at(const ckpt_error* err, size_t index, const char** value);
CKPT_API void ckpt_error_free(ckpt_error* err);

/* ---- dtype ------------------------------------------------------------------------------------------------ */

/* A dtype is DLPack's type code * 256 + bits of one element; bits below 8 are packed, lowest bits first.
 * A code that this library does not know is kept as it is: its number tells its width. */
#define CKPT_DTYPE(code, bits) ((int32_t)((code) * 256 + (bits)))
enum {
  CKPT_DTYPE_I4 = 0x0004,
  CKPT_DTYPE_I8 = 0x0008,
  CKPT_DTYPE_I16 = 0x0010,
  CKPT_DTYPE_I32 = 0x0020,
  CKPT_DTYPE_I64 = 0x0040,
  CKPT_DTYPE_U4 = 0x0104,
  CKPT_DTYPE_U8 = 0x0108,
  CKPT_DTYPE_U16 = 0x0110,
  CKPT_DTYPE_U32 = 0x0120,
  CKPT_DTYPE_U64 = 0x0140,
  CKPT_DTYPE_F16 = 0x0210,
  CKPT_DTYPE_F32 = 0x0220,
  CKPT_DTYPE_F64 = 0x0240,
  CKPT_DTYPE_BF16 = 0x0410,
  CKPT_DTYPE_C32 = 0x0520,  /* complex of two f16 */
  CKPT_DTYPE_C64 = 0x0540,  /* complex of two f32 */
  CKPT_DTYPE_C128 = 0x0580, /* complex of two f64 */
  CKPT_DTYPE_BOOL = 0x0608,
  CKPT_DTYPE_F8_E3M4 = 0x0708,
  CKPT_DTYPE_F8_E4M3 = 0x0808,
  CKPT_DTYPE_F8_E4M3B11FNUZ = 0x0908,
  CKPT_DTYPE_F8_E4M3FN = 0x0a08,
  CKPT_DTYPE_F8_E4M3FNUZ = 0x0b08,
  CKPT_DTYPE_F8_E5M2 = 0x0c08,
  CKPT_DTYPE_F8_E5M2FNUZ = 0x0d08,
  CKPT_DTYPE_F8_E8M0FNU = 0x0e08,
  CKPT_DTYPE_F6_E2M3FN = 0x0f06,
  CKPT_DTYPE_F6_E3M2FN = 0x1006,
  CKPT_DTYPE_F4_E2M1FN = 0x1104
};
CKPT_API const char* ckpt_dtype_name(int32_t dtype); /* "bf16"; "dtype" for an unknown code. Static text. */
CKPT_API int32_t ckpt_dtype_bits(int32_t dtype);     /* bits of one element; 0 if `dtype` cannot be one */
CKPT_API int32_t ckpt_dtype_find(const char* name);  /* the inverse of ckpt_dtype_name; -1 if unknown */

/* Device types, numbered as in DLPack. CUDA and CUDA_MANAGED need libcudart 12 or 13, which is loaded with the first
 * such tensor (UNSUPPORTED if it is missing). INVALID: memory that is not on device `device_id`. */
enum { CKPT_DEVICE_CPU = 1, CKPT_DEVICE_CUDA = 2, CKPT_DEVICE_CUDA_HOST = 3, CKPT_DEVICE_CUDA_MANAGED = 13 };

/* ---- options ---------------------------------------------------------------------------------------------- */

/* Named settings. A call that takes options reads the keys that its comment lists and ignores the others. The setters
 * refuse unknown keys and values out of range. `ckpt help options` prints all keys, ckpt_option_at enumerates them. */
typedef struct ckpt_options ckpt_options;
CKPT_API ckpt_status ckpt_options_new(ckpt_options** out, ckpt_error** err);
CKPT_API ckpt_status ckpt_options_set_str(ckpt_options* options, const char* key, const char* value, ckpt_error** err);
CKPT_API ckpt_status ckpt_options_set_int(ckpt_options* options, const char* key, int64_t value, ckpt_error** err);
CKPT_API void ckpt_options_free(ckpt_options* options);

enum { CKPT_OPTION_INT = 1, CKPT_OPTION_STR = 2 };
typedef struct ckpt_option_info {
  uint32_t struct_size;
  int32_t kind;         /* CKPT_OPTION_* */
  int64_t min, max;     /* of an INT */
  const char* key;      /* "keep_last" */
  const char* fallback; /* the default, as text */
  const char* choices;  /* of a STR: "error|replace|keep"; "" if any text is valid */
  const char* used_by;  /* "session", "save", "load", … */
  const char* help;     /* one sentence */
} ckpt_option_info;
CKPT_API int32_t ckpt_option_count(void);
CKPT_API ckpt_status ckpt_option_at(int32_t index, ckpt_option_info* out, ckpt_error** err);

/* ---- store ------------------------------------------------------------------------------------------------ */

/* A directory that holds checkpoints ("/data/run7", "file:///data/run7"), a prefix in a bucket of an object store
 * ("s3://bucket/run7", "gs://bucket/run7", "az://container/run7"), a directory that a web server shows
 * ("https://host/run7", also http://), or a store in this process's memory ("mem:NAME"; all handles of a NAME share it,
 * and it ends with the last of them). Other schemes can be registered (ckpt_backend.h). Opening creates nothing, and
 * asks no server. A web server is read-only and tells no names: a checkpoint there is opened by its id
 * (ckpt_reader_open); what would list or write is UNSUPPORTED. A user, a password and a query in the address are sent,
 * and shown in no error. `mirror` names a second store, usually in a bucket: ckpt_session_mirror says what becomes of
 * it. ckpt_store_find, ckpt_reader_open and ckpt_store_list then look in both, and fail if the mirror cannot be asked,
 * since it may hold something newer (an id that the store has is opened without asking); all else concerns the store
 * alone. Options: direct_io, io_engine, recycle, mirror; cache, cache_bytes (of a store or mirror on a server: a
 * directory of this machine that keeps what loads read; it is made if it is missing); endpoint, region, path_style,
 * profile, account, sas_token (az), conditional_puts, prune_grace_ms (buckets: how long open readers can still read
 * what this handle removes); ca_file (s3, https); http_header (https); timeout_ms (also of ckpt_store_list,
 * ckpt_store_runs and ckpt_store_remove).
 */
typedef struct ckpt_store ckpt_store;
CKPT_API ckpt_status ckpt_store_open(ckpt_store** out, const char* uri, const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_store_free(ckpt_store* store);

enum {
  CKPT_CHECKPOINT_COMMITTED = 1, /* loadable */
  CKPT_CHECKPOINT_OPEN = 2,      /* an attempt without a commit record: being written, or left by a crash */
  CKPT_CHECKPOINT_ABORTED = 3,   /* an attempt that will never be committed */
  CKPT_CHECKPOINT_DAMAGED = 4,   /* its commit record cannot be read; `ckpt repair` may rebuild it */
  CKPT_CHECKPOINT_REVISION = 5,  /* sound, as far as this library can tell, but of a format revision that it lacks */
  CKPT_CHECKPOINT_UNREADABLE = 6 /* its commit record may be sound, but this user or machine cannot read it now */
};
enum {
  CKPT_CHECKPOINT_FOREIGN = 1, /* flag: written into another store and copied here; never "latest" */
  CKPT_CHECKPOINT_REBUILT = 2, /* flag: its manifest was rebuilt by force from an attempt that had not committed */
  CKPT_CHECKPOINT_COPY = 4,    /* flag: another directory holds the same save under its own name; never "latest" */
  /* Of a store with a mirror: */
  CKPT_CHECKPOINT_MIRRORED = 8,     /* flag: the mirror has it too, whole */
  CKPT_CHECKPOINT_MIRRORING = 16,   /* flag: a copy of it in the mirror has begun */
  CKPT_CHECKPOINT_MIRROR_ONLY = 32, /* flag: only the mirror has it; loads read it there */
  CKPT_CHECKPOINT_KEPT = 64 /* flag: of lists and ckpt_store_find: it stays until somebody says so (ckpt_store_keep) */
};
typedef struct ckpt_checkpoint_info {
  uint32_t struct_size;
  int32_t state;  /* CKPT_CHECKPOINT_COMMITTED, … */
  uint32_t flags; /* CKPT_CHECKPOINT_FOREIGN | … */
  uint32_t revision;
  int64_t step;      /* as the trainer gave it; -1 for none */
  uint64_t token;    /* of the session that wrote it; later sessions of a run have higher tokens */
  uint64_t attempt;  /* of that session at this label, counted from 1 */
  uint64_t sequence; /* orders the commits of one session */
  uint64_t bytes;    /* all its files */
  uint64_t tensor_count, object_count;
  uint64_t created_unix_ms; /* the writer's clock; for people only */
  uint32_t world_size;      /* ranks that wrote it */
  uint32_t part_count;
  char id[256]; /* the name of its directory; unique in the store: what ckpt_reader_open takes */
  char label[208], run[208];
  char save_id[40], store_id[40], session_id[40]; /* 32 hex digits */
  char writer[64];                                /* "ckpt 0.1.0" */
  uint64_t passed_over;  /* found or opened by a selector: newer checkpoints of the run that cannot be loaded */
  uint64_t base_bytes;   /* of `bytes`: parts of earlier checkpoints, in which lies what did not change since */
  uint64_t used_bytes;   /* of base_bytes: what is this checkpoint's */
  uint64_t shared_bytes; /* found or listed, of `bytes`: files that stay when it is removed: others here have them */
  char names[512];       /* listed: given by ckpt_store_name, with spaces between, as many as fit */
} ckpt_checkpoint_info;

/* Resolves a selector to one committed checkpoint: "latest" (the newest of the run that `options` names, never a
 * foreign one or a copy), "label:L" or just "L" (the newest of label L), "name:N" (ckpt_store_name), "step:N", or an
 * id. Resolve on one rank and give every rank the resulting id: a later call may find a newer checkpoint. A newer
 * checkpoint whose manifest is damaged, of an unknown revision, or cannot be read for half a second is passed over and
 * counted in passed_over. Its own error is the answer if no other is left, or with on_damaged=error.
 * Options: run, on_damaged, timeout_ms. Statuses: NOT_FOUND, CORRUPT, FORMAT, REVISION, IO. */
CKPT_API ckpt_status ckpt_store_find(const ckpt_store* store, const char* selector, const ckpt_options* options,
                                     ckpt_checkpoint_info* out, ckpt_error** err);

typedef struct ckpt_report ckpt_report;
typedef struct ckpt_job ckpt_job;

/* ---- session ---------------------------------------------------------------------------------------------- */

/* One start of all ranks of a run. Exactly one session owns a run: opening a new one fences the older, whose open
 * attempts are closed and removed.
 *
 * There are three ways in; with each of them every rank calls this once:
 *   one rank      rank 0 of world size 1, session_string NULL.
 *   a string      rank 0 passes NULL and sends ckpt_session_string() to the others by any means (MPI, c10d, an
 *                 environment variable); they pass it here.
 *   rendezvous    all pass NULL and set rendezvous=1: the ranks meet through files in the store.
 * A second process that claims the same rank, or a string of an older start, gets CONFLICT. chunk_bytes,
 * large_tensor_bytes and heartbeat_ms are rank 0's and travel in the string; setting another value here is MISMATCH.
 * A session goes on from what its process, on rank 0, has loaded or saved of the run (a load that ended well or a map;
 * opening a reader is not enough), before its first save or later. Its retention removes nothing else of the run: a
 * training that began anew in an old directory, or went back past some checkpoints, leaves these to ckpt_store_prune,
 * ckpt_store_remove and on_existing=replace. Its first save then reports a finding ANEW. Option continue_from says it
 * where another process loads ("latest"), or for a training that begins anew on purpose ("none").
 * With purpose=import the session takes its turn among imports into the run: it waits for theirs, for at most
 * timeout_ms (TIMEOUT), and holds its own until it is freed. Without option run it takes "main", or "import" if a
 * trainer has used "main" since the last import; ranks that meet by rendezvous must say it.
 * Options: run, purpose, continue_from, timeout_ms, rendezvous, chunk_bytes, large_tensor_bytes, heartbeat_ms (s3),
 * arena_bytes, mirror_keep_last, incremental.
 * Statuses: CONFLICT, FENCED, MISMATCH, TIMEOUT, UNSUPPORTED (a store without create-if-absent), IO, NO_SPACE. */
typedef struct ckpt_session ckpt_session;
CKPT_API ckpt_status ckpt_session_open(ckpt_session** out, const ckpt_store* store, uint32_t rank, uint32_t world_size,
                                       const char* session_string, const ckpt_options* options, ckpt_error** err);
CKPT_API const char* ckpt_session_string(const ckpt_session* session);
CKPT_API void ckpt_session_free(ckpt_session* session);

/* ---- tensors ---------------------------------------------------------------------------------------------- */

#define CKPT_MAX_NDIM 16

enum {
  CKPT_REGION_WHOLE = 0, /* the memory is the whole tensor */
  CKPT_REGION_BOX = 1,   /* the memory is the box `offset`, `extent` of it (FSDP2, TP, PP, EP; any tiling) */
  CKPT_REGION_FLAT = 2,  /* elements [flat_offset, flat_offset + flat_size) in row-major order (FSDP); may be empty */
  CKPT_REGION_ROWS = 3 /* save only: this rank's own rows (shape[0], may be 0); the tensor: all ranks' rows, in order */
};
enum {
  CKPT_TENSOR_STRIDED = 1, /* `strides` holds; otherwise the memory is row-major and contiguous. Not with FLAT. */
  CKPT_TENSOR_CONVERT = 2, /* load only: convert f32, bf16, f16 into each other, to nearest even, where dtypes differ */
  CKPT_TENSOR_FIRST_REPLICA = 4 /* save only: the values of the replica group's member 0 count; others may differ */
};

/* Describes a piece of memory. Zero-initialise it, set struct_size, fill what applies. It has no pointers, so that
 * every language can hold it as plain data. */
typedef struct ckpt_tensor_desc {
  uint32_t struct_size;
  int32_t dtype;       /* CKPT_DTYPE_* of the memory */
  int32_t ndim;        /* 0 … CKPT_MAX_NDIM; 0 is a scalar */
  int32_t region_kind; /* CKPT_REGION_* */
  uint32_t flags;      /* CKPT_TENSOR_* */
  /* Save only: which ranks hold the same region, a replica group. The members share out the writing of the group's
   * tensors; all must add the same ones, with equal values (option `replicas`; MISMATCH). replica_count 0 means the
   * usual: every rank of the world for WHOLE, this rank alone for BOX and FLAT. Not with ROWS. */
  uint32_t replica_count;
  uint32_t replica_index; /* this rank's place in the group, below replica_count (given only with a count) */
  uint32_t reserved;
  uint64_t replica_group;        /* any number that names the group: equal on its members, different for other groups */
  int64_t shape[CKPT_MAX_NDIM];  /* of the whole tensor; ROWS: of the memory */
  int64_t offset[CKPT_MAX_NDIM]; /* BOX */
  int64_t extent[CKPT_MAX_NDIM]; /* BOX; an extent of 0 is an empty box */
  int64_t flat_offset;           /* FLAT */
  int64_t flat_size;             /* FLAT */
  int64_t strides[CKPT_MAX_NDIM]; /* of the memory, in elements; 0 repeats; negative is INVALID */
  /* Memory of a CUDA device: the copy waits for the work that is in this stream when the save or load starts. DLPack's
   * numbers: 1 or 0 the legacy default stream, 2 that of the calling thread, -1 none, else a cudaStream_t. */
  int64_t stream;
} ckpt_tensor_desc;

/* ---- save ------------------------------------------------------------------------------------------------- */

/* One rank's share of one checkpoint: make it, add to it, run or start it once, free it. Every rank of the session
 * does the same for the same label. */
typedef struct ckpt_save ckpt_save;

/* `label`: 1-200 of [A-Za-z0-9._=+-], no leading dot. `step`: any number >= 0, or -1 for none. All ranks pass the
 * same. Options: on_existing, compression, held_by, replicas, threads, staging_bytes, timeout_ms, wait, keep_last,
 * keep_every, protect, incremental, base, most_dead, most_runs. Retention removes numbered checkpoints only, whose
 * label has their step in it (see ckpt_store_prune). Statuses: INVALID, MISMATCH (session and options contradict). If
 * it fails for any reason but an invalid label, the save also ends on the other ranks, with ABORTED. */
CKPT_API ckpt_status ckpt_save_new(ckpt_save** out, const ckpt_session* session, const char* label, int64_t step,
                                   const ckpt_options* options, ckpt_error** err);

/* Adds a region of tensor `name` (1-4096 bytes of UTF-8 without control characters, no ".." path element); a rank that
 * holds several regions of it adds each. `data` holds `data_bytes` bytes; a region that reaches past them is INVALID.
 * From the run or start of the save until it is staged, the memory must neither change nor go away. `data` may be NULL
 * for an empty region. Statuses: INVALID, EXISTS (the name or region was added before), UNSUPPORTED (device). */
CKPT_API ckpt_status ckpt_save_add_tensor(ckpt_save* save, const char* name, const ckpt_tensor_desc* desc,
                                          const void* data, uint64_t data_bytes, int32_t device_type, int32_t device_id,
                                          ckpt_error** err);

/* The same for `count` tensors, of which names, descs, data and data_bytes are arrays. Stops at the first that fails:
 * those before it were added. descs[0].struct_size is the size of each. */
CKPT_API ckpt_status ckpt_save_add_tensors(ckpt_save* save, uint64_t count, const char* const* names,
                                           const ckpt_tensor_desc* descs, const void* const* data,
                                           const uint64_t* data_bytes, int32_t device_type, int32_t device_id,
                                           ckpt_error** err);

enum {
  CKPT_OBJECT_SHARED = 0,   /* one for all ranks: rank 0's bytes are written; others' must be equal */
  CKPT_OBJECT_PER_RANK = 1, /* each rank that adds it has its own bytes */
  CKPT_OBJECT_TREE = 2      /* a state tree that ranks make together: see ckpt_save_add_tree */
};

/* Adds named bytes, such as "application/json" trainer state or a data loader's position. Copies them at once.
 * Rank 0 must add a shared object; other ranks may, and then their bytes are compared with rank 0's. */
CKPT_API ckpt_status ckpt_save_add_object(ckpt_save* save, const char* name, const char* media_type, int32_t scope,
                                          const void* data, uint64_t size, ckpt_error** err);

/* Adds a second name for tensor `target` or for a view of it (tied weights). `view` NULL: the whole target. Otherwise
 * the view's ndim, shape, strides (with CKPT_TENSOR_STRIDED) and flat_offset describe it, in elements of the flattened
 * target. Any ranks may add it; those that do must agree. */
CKPT_API ckpt_status ckpt_save_add_alias(ckpt_save* save, const char* name, const char* target,
                                         const ckpt_tensor_desc* view, ckpt_error** err);

/* Sets an attribute of the checkpoint (`tensor` NULL; only rank 0's are written) or of a tensor that this rank adds.
 * Key: 1-255 bytes; value: UTF-8 up to 1 MiB. Setting a key again replaces it. */
CKPT_API ckpt_status ckpt_save_set_attr(ckpt_save* save, const char* tensor, const char* key, const char* value,
                                        ckpt_error** err);
CKPT_API const char* ckpt_save_id(const ckpt_save* save); /* the id that the checkpoint will have once committed */

/* Saves, and returns when the outcome is known (with wait=0 on ranks other than 0: when this rank's part is durable).
 * OK on rank 0: the checkpoint is durable, complete and committed. OK on another rank: it is committed, but only rank 0
 * knows that the commit record is durable. Other ranks wait 2 s longer than timeout_ms, so that rank 0 can name who is
 * missing. Statuses: EXISTS (on_existing=error, and the checkpoint is sound), NOT_FOUND (an attribute's tensor),
 * MISMATCH, INCOMPLETE, FENCED, ABORTED, TIMEOUT, CANCELLED, COMMIT_UNKNOWN, CONFLICT, IO, NO_SPACE. After any of these
 * but COMMIT_UNKNOWN nothing was committed. A damaged checkpoint stays, and leaves its label to the save.
 * It ends within ten seconds once an operation of the store took longer than timeout_ms. Where a disk hangs, the error
 * says that a thread was "left behind": that may use the memory of the tensors until the disk answers (ABI.md). */
CKPT_API ckpt_status ckpt_save_run(ckpt_save* save, ckpt_error** err);

/* The same in the background. The caller's memory may change again once the job is STAGED.
 * _start           copies the memory, within staging_bytes. If all of it fits, STAGED waits for neither the store nor
 *                  other ranks; their errors, such as a taken label, come after it. (held_by=some waits for the ranks.)
 * _start_in_place  does not copy; STAGED is reached once the data has been written. If the job's error says "left
 *                  behind", the memory is in use until the disk answers, as in ckpt_save_run. */
CKPT_API ckpt_status ckpt_save_start(ckpt_save* save, ckpt_job** out, ckpt_error** err);
CKPT_API ckpt_status ckpt_save_start_in_place(ckpt_save* save, ckpt_job** out, ckpt_error** err);

/* Instead of run or start, by a rank that cannot save: the other ranks' saves end at once with ABORTED and `reason`
 * (text for people). INVALID once the save has been run or started. */
CKPT_API ckpt_status ckpt_save_give_up(ckpt_save* save, const char* reason, ckpt_error** err);

/* What retention (ckpt_store_prune) did after the save, on rank 0: what it removed, and what it kept and why; before
 * that ANEW, if the save does not go on from what the run has or goes back without a load (see ckpt_session_open), and
 * the damaged checkpoints whose label the save took. Empty on other ranks. INVALID before the save has ended. */
CKPT_API ckpt_status ckpt_save_report(const ckpt_save* save, ckpt_report** out, ckpt_error** err);

/* Freeing a save does not stop one that was started; freeing or cancelling its job does. Freeing one that was never run
 * or started tells the other ranks at once: theirs end with ABORTED, and the reason is the first _add that failed. */
CKPT_API void ckpt_save_free(ckpt_save* save);

/* ---- reader ----------------------------------------------------------------------------------------------- */

/* An immutable view of one committed checkpoint. While it is open, nothing removes the checkpoint. */
typedef struct ckpt_reader ckpt_reader;

/* `selector`, on_damaged: see ckpt_store_find; ckpt_reader_report says what was passed over. A manifest above 4 MiB is
 * read by pages when they are needed: later calls then may also return INCOMPLETE, CORRUPT, FORMAT and IO.
 * Options: run, threads, on_damaged, timeout_ms. Statuses: NOT_FOUND, INCOMPLETE, CORRUPT, FORMAT, REVISION, ABORTED,
 * GONE, IO. */
CKPT_API ckpt_status ckpt_reader_open(ckpt_reader** out, const ckpt_store* store, const char* selector,
                                      const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_reader_free(ckpt_reader* reader);
CKPT_API ckpt_status ckpt_reader_info(const ckpt_reader* reader, ckpt_checkpoint_info* out, ckpt_error** err);
/* A finding PASSED_OVER for each newer checkpoint of the run that cannot be loaded, newest first, with its status: the
 * progress that a trainer loses by going on from this one (none for an id); one without a name: the unusable cache. */
CKPT_API ckpt_status ckpt_reader_report(const ckpt_reader* reader, ckpt_report** out, ckpt_error** err);

typedef struct ckpt_tensor_info {
  uint32_t struct_size;
  int32_t dtype; /* CKPT_DTYPE_* */
  int32_t ndim;
  uint32_t segment_count;
  int64_t shape[CKPT_MAX_NDIM];
  uint64_t bytes;        /* of the tensor's elements */
  uint64_t stored_bytes; /* in the parts; 0 for an alias */
  const char* name;      /* borrowed from the reader */
  const char* alias_of;  /* the target of an alias; else NULL */
} ckpt_tensor_info;

/* Tensors and aliases in the order of their names' bytes. */
CKPT_API uint64_t ckpt_reader_tensor_count(const ckpt_reader* reader);
CKPT_API ckpt_status ckpt_reader_tensor_at(const ckpt_reader* reader, uint64_t index, ckpt_tensor_info* out,
                                           ckpt_error** err);
CKPT_API ckpt_status ckpt_reader_tensor_find(const ckpt_reader* reader, const char* name, ckpt_tensor_info* out,
                                             ckpt_error** err);
/* How alias `name` views its target, as ckpt_save_add_alias takes it, always with strides. Statuses: NOT_FOUND. */
CKPT_API ckpt_status ckpt_reader_alias_find(const ckpt_reader* reader, const char* name, ckpt_tensor_desc* view,
                                            ckpt_error** err);

typedef struct ckpt_object_info {
  uint32_t struct_size;
  int32_t scope; /* CKPT_OBJECT_* */
  uint32_t rank; /* of a PER_RANK object or of a TREE; 0 else */
  uint32_t reserved;
  uint64_t size;
  const char* name;       /* borrowed from the reader */
  const char* media_type; /* borrowed from the reader */
} ckpt_object_info;

/* Objects in the order of name, then rank. */
CKPT_API uint64_t ckpt_reader_object_count(const ckpt_reader* reader);
CKPT_API ckpt_status ckpt_reader_object_at(const ckpt_reader* reader, uint64_t index, ckpt_object_info* out,
                                           ckpt_error** err);
/* The shared object `name`, or `rank`'s own. Statuses: NOT_FOUND. */
CKPT_API ckpt_status ckpt_reader_object_find(const ckpt_reader* reader, const char* name, uint32_t rank,
                                             ckpt_object_info* out, ckpt_error** err);

/* Attributes of the checkpoint (`tensor` NULL) or of a tensor, by their keys. Only _at tells if they cannot be read. */
CKPT_API uint64_t ckpt_reader_attr_count(const ckpt_reader* reader, const char* tensor);
CKPT_API ckpt_status ckpt_reader_attr_at(const ckpt_reader* reader, const char* tensor, uint64_t index,
                                         const char** key, const char** value, ckpt_error** err);
CKPT_API const char* ckpt_reader_attr(const ckpt_reader* reader, const char* tensor, const char* key); /* or NULL */

/* A read-only view of a whole tensor, without a copy, for as long as the reader lives. Checksums are verified first
 * unless verify=0. A mapped file on a failing disk can end the process with SIGBUS; ckpt_load cannot. So can another
 * machine that removes the checkpoint, where it does not see this one's locks (NFS with nolock, sshfs, others): such
 * a store is not mapped without map_unlocked=1. Options: timeout_ms, verify, map_unlocked, threads. Statuses:
 * NOT_FOUND, UNSUPPORTED (its bytes are not stored raw and in one piece, or no lock keeps them), CORRUPT, GONE, IO. */
CKPT_API ckpt_status ckpt_reader_map(const ckpt_reader* reader, const char* tensor, const ckpt_options* options,
                                     const void** data, uint64_t* size, ckpt_error** err);

/* ---- load ------------------------------------------------------------------------------------------------- */

/* Many requests, planned and read together: make it, add to it, run or start it once, free it. */
typedef struct ckpt_load ckpt_load;

/* Options: verify, strict, object_policy, own_part, threads, staging_bytes, timeout_ms. */
CKPT_API ckpt_status ckpt_load_new(ckpt_load** out, const ckpt_reader* reader, const ckpt_options* options,
                                   ckpt_error** err);

/* Asks for a region of a tensor or alias. It may be another region than was saved: that is all there is to resharding.
 * `desc->shape` must be the tensor's shape and `desc->dtype` its dtype (or CKPT_TENSOR_CONVERT set): MISMATCH.
 * Option `strict` says what run or start does about a name that the checkpoint lacks. A stride of 0 is INVALID here;
 * memory that overlaps itself or another request's is, too, when the load runs, unless it gets the same bytes twice. */
CKPT_API ckpt_status ckpt_load_add_tensor(ckpt_load* load, const char* name, const ckpt_tensor_desc* desc, void* data,
                                          uint64_t data_bytes, int32_t device_type, int32_t device_id,
                                          ckpt_error** err);

/* The same for `count` tensors: see ckpt_save_add_tensors. */
CKPT_API ckpt_status ckpt_load_add_tensors(ckpt_load* load, uint64_t count, const char* const* names,
                                           const ckpt_tensor_desc* descs, void* const* data, const uint64_t* data_bytes,
                                           int32_t device_type, int32_t device_id, ckpt_error** err);
/* Asks for the shared object `name`, or for `rank`'s own; ckpt_reader_object_find tells its size. If `rank` has none
 * because the world had another size, option object_policy decides: "error" (NOT_FOUND) or "rank0" (rank 0's bytes). */
CKPT_API ckpt_status ckpt_load_add_object(ckpt_load* load, const char* name, uint32_t rank, void* data,
                                          uint64_t data_bytes, ckpt_error** err);

/* All structural errors (NOT_FOUND, MISMATCH, INCOMPLETE, …) come before the first byte of caller memory changes;
 * after CORRUPT, IO, GONE or CANCELLED the requested memory is undefined. OK proves that every requested byte was
 * written and (verify=1) checked. Statuses: as said, UNSUPPORTED, and TIMEOUT once an operation of the store took
 * longer than timeout_ms. If the error says that a thread was "left behind", the memory is in use until the disk
 * answers (ABI.md). */
CKPT_API ckpt_status ckpt_load_run(ckpt_load* load, ckpt_error** err);
CKPT_API ckpt_status ckpt_load_start(ckpt_load* load, ckpt_job** out, ckpt_error** err);

/* Lists the tensors and aliases that were asked for and are missing, and those not asked for, whatever `strict` is. */
CKPT_API ckpt_status ckpt_load_report(const ckpt_load* load, ckpt_report** out, ckpt_error** err);
CKPT_API void ckpt_load_free(ckpt_load* load);

/* Zeroed memory to load into: aligned to pages, from 1 MiB on huge ones if the kernel gives them: a load into fresh
 * small pages takes three times as long. It belongs to the caller, who frees it with the size that was asked for.
 * Statuses: NOMEM. */
CKPT_API ckpt_status ckpt_buffer_alloc(void** out, uint64_t size, ckpt_error** err);
CKPT_API void ckpt_buffer_free(void* data, uint64_t size);

/* ---- job -------------------------------------------------------------------------------------------------- */

/* Work in the background. All functions but _free may be called from several threads at once. A job only moves to
 * higher states. COMMITTED and what follows are final. */
enum {
  CKPT_JOB_NEW = 0, /* of ckpt_job_new, before its call */
  CKPT_JOB_RUNNING = 1,
  CKPT_JOB_STAGED = 2,    /* save: the caller's memory may change again */
  CKPT_JOB_WRITTEN = 3,   /* save: this rank's part is durable */
  CKPT_JOB_COMMITTED = 4, /* save: committed for all ranks */
  CKPT_JOB_DONE = 5,      /* any other work: finished */
  CKPT_JOB_FAILED = 6,
  CKPT_JOB_CANCELLED = 7,
  CKPT_JOB_DELIVERED = 8 /* save with wait=0, not rank 0: its part is durable; it does not know the outcome */
};
CKPT_API int32_t ckpt_job_state(const ckpt_job* job);

/* Waits until the job's state is at least `state` or final. timeout_ms < 0 waits without limit. Returns OK if `state`
 * was reached or the job ended well (a wait for COMMITTED may end as DELIVERED: ask ckpt_job_state), TIMEOUT (the job
 * goes on), or the error of a job that failed before. */
CKPT_API ckpt_status ckpt_job_wait(const ckpt_job* job, int32_t state, int64_t timeout_ms, ckpt_error** err);

/* Asks the job to stop, and returns at once; may be called more than once. A save that is not committed yet will not
 * be. Requests to a server that it waits for end within about a second, the job within ten; ABI.md says how. */
CKPT_API void ckpt_job_cancel(const ckpt_job* job);

/* A job for a call that blocks: put into the call's options, it lets another thread watch the call (state, bytes_total
 * and bytes_done where there is a measure) and cancel it. ckpt_session_open, ckpt_store_prune, ckpt_store_repair,
 * ckpt_reader_diff, ckpt_reader_copy, ckpt_share_open, ckpt_import and ckpt_export work under such a job, and block
 * the caller; cancelled, they return CANCELLED soon, and what they had done by then stays done (prune: what it
 * removed; copy: the parts). Other calls refuse the options (INVALID). A job serves one call. `job` NULL takes it out
 * of the options, which keep it alive otherwise. */
CKPT_API ckpt_status ckpt_job_new(ckpt_job** out, ckpt_error** err);
CKPT_API ckpt_status ckpt_options_set_job(ckpt_options* options, const ckpt_job* job, ckpt_error** err);

typedef struct ckpt_job_stats {
  uint32_t struct_size;
  int32_t state;        /* CKPT_JOB_* */
  uint64_t bytes_total; /* of work; 0 until it is planned */
  uint64_t bytes_done;
  uint64_t bytes_read;      /* from the store, whole I/O requests */
  uint64_t bytes_written;   /* to the store */
  uint64_t bytes_requested; /* load: what the requests cover */
  uint64_t chunk_count;     /* chunks encoded or decoded */
  uint64_t run_count;       /* load: contiguous runs in storage that the requests touch */
  uint64_t io_count;        /* I/O requests made */
  uint64_t staging_peak_bytes;
  uint64_t stage_us, write_us, commit_us, total_us; /* save: until staged, until written, until committed */
  uint32_t direct_io;                               /* 1 where the page cache was bypassed */
  uint32_t threads;
  uint64_t arena_us;  /* save: the part of stage_us that made the staging memory; 0 if the session had it */
  uint32_t io_engine; /* CKPT_IO_* */
  uint32_t recycled;  /* save: 1 where the part was written into a retired file */
  /* Requests to the servers of stores, each try of them, by the classes that providers bill: A is LIST, PUT and POST
   * (so each part of an upload, too), B is GET and HEAD; DELETE is free. 0 for local stores. */
  uint64_t get_count, put_count, list_count, delete_count;
  uint64_t retry_count;                /* of all these: sent again, since an earlier try had failed */
  uint64_t bytes_sent, bytes_received; /* in the bodies of requests and of answers */
  uint64_t bytes_reused;               /* save: not written, copy: not sent, since another checkpoint there has them */
} ckpt_job_stats;
enum { CKPT_IO_BLOCKING = 0, CKPT_IO_THREADS = 1, CKPT_IO_URING = 2 }; /* what kept transfers in flight */
CKPT_API ckpt_status ckpt_job_stats_get(const ckpt_job* job, ckpt_job_stats* out, ckpt_error** err);

/* The report of an ended job. Verify: the damage found. Mirror: what will not be copied. Save: see ckpt_save_report.
 * UNSUPPORTED for loads. */
CKPT_API ckpt_status ckpt_job_report(const ckpt_job* job, ckpt_report** out, ckpt_error** err);
/* Cancels a job that still runs, and blocks until the engine no longer touches the caller's memory, but for ten seconds
 * at most: where a disk hangs, ckpt_job_wait says then that a thread was "left behind". Ask it before you free memory
 * that a job which is not yet STAGED, or a load, may use. */
CKPT_API void ckpt_job_free(ckpt_job* job);

#ifdef __cplusplus
}
#endif

#include "ckpt_maintain.h" /* reports, verify, list, prune, repair, mirror: needs what is above, as does */
#include "ckpt_table.h"    /* sparse tables */
#endif                     /* CKPT_H */
