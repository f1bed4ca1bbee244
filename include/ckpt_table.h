/* ckpt_table.h - sparse tables: rows by id, saved by the ranks that have them, loaded by any other number of ranks.
 * ckpt.h includes this file. A rank saves its n rows, and another, of `world`, loads its share of all (ckpt.h says how
 * saves, readers and loads are made and run):
 *
 *   ckpt_table_desc table = {.struct_size = sizeof table, .id_dtype = CKPT_DTYPE_I64, .row_count = n,
 *                            .bucket_count = CKPT_TABLE_BUCKETS, .column_count = 1};
 *   ckpt_column_desc column = {.struct_size = sizeof column, .dtype = CKPT_DTYPE_F32, .ndim = 1, .shape = {16}};
 *   const char *name = "embedding";   const void *rows = embedding;   uint64_t bytes = n * 16 * sizeof(float);
 *   ckpt_save_add_table(save, "items", &table, ids, n * 8, &name, &column, &rows, &bytes, NULL, CKPT_DEVICE_CPU, 0, 0,
 *                       &err);
 *
 *   ckpt_share_desc slice = {.struct_size = sizeof slice, .kind = CKPT_SHARE_SLICE, .index = rank, .count = world};
 *   ckpt_share *share;   ckpt_share_open(&share, reader, "items", &slice, NULL, 0, NULL, &err);
 *   uint64_t count;      ckpt_share_window_rows(share, 0, &count, &err);     then make memory for so many rows
 *   void *to = embedding;   bytes = count * 16 * sizeof(float);
 *   ckpt_load_add_table(load, share, 0, ids, count * 8, 1, &name, &to, &bytes, CKPT_DEVICE_CPU, 0, 0, &err);
 */
#ifndef CKPT_TABLE_H
#define CKPT_TABLE_H

#include "ckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows by 64-bit id: each rank saves the rows that it has, and any number of ranks loads them. A table has columns,
 * each with a row of elements for each id: an embedding, an optimizer slot, a counter. Table T is stored as the tensors
 * T/ids, T/buckets and T/COLUMN, whose rows are sorted by bucket, uint64(id) mod bucket_count, then by uint64(id). T is
 * an alias of T/ids; attributes of the table are those of T. So all that works for tensors works for tables. */
#define CKPT_TABLE_BUCKETS 65536 /* the usual number of buckets: enough for thousands of ranks */

typedef struct ckpt_column_desc {
  uint32_t struct_size;
  int32_t dtype; /* CKPT_DTYPE_* */
  int32_t ndim;  /* of one row: 0 … CKPT_MAX_NDIM - 1; 0 is one element */
  uint32_t reserved;
  int64_t shape[CKPT_MAX_NDIM]; /* of one row, which has elements and takes whole bytes */
} ckpt_column_desc;

/* Of this rank's rows. Columns, dtypes, shapes and bucket_count are those of all ranks (else MISMATCH). */
typedef struct ckpt_table_desc {
  uint32_t struct_size;
  int32_t id_dtype;        /* CKPT_DTYPE_I64 or CKPT_DTYPE_U64 */
  uint64_t row_count;      /* may be 0 */
  uint64_t bucket_count;   /* 1 … 2^32-1: CKPT_TABLE_BUCKETS, or another number */
  uint64_t rows_per_block; /* of each block but a column's last; 0: each column is one block */
  uint32_t column_count;
  uint32_t block_count; /* of each column, as of a hash table's slabs; 0 is 1 */
  uint32_t flags;       /* CKPT_TABLE_* */
  uint32_t reserved;
  const uint64_t* changed; /* with CKPT_TABLE_CHANGES: numbers of rows that are new or changed, */
  uint64_t changed_count;
  const uint64_t* removed; /* and ids that this rank had and has no longer */
  uint64_t removed_count;
} ckpt_table_desc;

/* The lists say what changed since this session's last save of this table on this rank (ckpt_save_run or _start of it),
 * whether that one succeeded or not. With option incremental such a save writes only these rows, as a run
 * (schemas/TABLE_RUNS.md). It writes all rows if that save had no flags, was not committed or is gone, or if too much
 * has changed; its report says so (CKPT_FINDING_REUSED). So all rows are given always. Lists are copied. The session
 * remembers the ids (8 bytes a row): so rows of new ids are written, and ids that are gone removed, whether the lists
 * have them or not; an id that is there and in `removed` is MISMATCH. A row that changed and is not listed keeps its
 * old values. */
#define CKPT_TABLE_CHANGES 1
/* In place of lists: the session remembers a digest of each row, too (XXH3; in all 16 bytes a row), and finds what
 * changed. So the save reads all rows before the caller may change them. Columns on devices are UNSUPPORTED. */
#define CKPT_TABLE_DIGESTS 2

/* ---- save ------------------------------------------------------------------------------------------------- */

/* Adds this rank's rows of sparse table `name`; a rank without any may leave the table out. `ids` holds row_count ids.
 * `column_names` and `columns` have column_count entries (columns[0].struct_size is the size of each); `data` and
 * `data_bytes` have one for each block of the first column, then of the next: the memory of rows 0 to rows_per_block-1,
 * and so on. Row i of each column is at position i or, if `positions` is not NULL, at positions[i] of the column's
 * blocks taken together. Memory is the caller's as that of tensors; pointers and descriptors are copied. Positions are
 * aligned as uint64_t is, to 8 bytes (else INVALID); ids and columns may be at any address.
 * Columns lie on the device that device_type and device_id name; their copy waits for the work that is in `stream` (as
 * ckpt_tensor_desc has it) when the save starts. Ids and positions always lie in memory of the host. On a device, rows
 * that are adjacent both in memory and in saving order are copied together; all others one by one, which is slow.
 * The save sorts row numbers, in 8 bytes of memory for each row, and copies no column. An id that is there twice is
 * MISMATCH when the save runs, before it writes; of an id on two ranks see ckpt_load_add_table and ckpt_reader_verify.
 * Statuses: INVALID, EXISTS (the name of the table or of one of its tensors was added before), UNSUPPORTED. */
CKPT_API ckpt_status ckpt_save_add_table(ckpt_save* save, const char* name, const ckpt_table_desc* desc,
                                         const void* ids, uint64_t ids_bytes, const char* const* column_names,
                                         const ckpt_column_desc* columns, const void* const* data,
                                         const uint64_t* data_bytes, const uint64_t* positions, int32_t device_type,
                                         int32_t device_id, int64_t stream, ckpt_error** err);

/* ---- reader ----------------------------------------------------------------------------------------------- */

typedef struct ckpt_table_info {
  uint32_t struct_size;
  int32_t id_dtype;   /* CKPT_DTYPE_I64 or CKPT_DTYPE_U64 */
  uint64_t row_count; /* of all ranks; of a table in several runs each part is asked for it */
  uint64_t bucket_count;
  uint64_t bytes;        /* of ids and columns */
  uint64_t stored_bytes; /* in the parts */
  uint32_t column_count;
  uint32_t run_count; /* 1: all rows were saved at once; see CKPT_TABLE_CHANGES */
  const char* name;   /* borrowed from the reader */
} ckpt_table_info;

/* Sparse tables in the order of their names. If they cannot be read, only ckpt_reader_table_at says so. */
CKPT_API uint64_t ckpt_reader_table_count(const ckpt_reader* reader);
CKPT_API ckpt_status ckpt_reader_table_at(const ckpt_reader* reader, uint64_t index, ckpt_table_info* out,
                                          ckpt_error** err);
/* Statuses: NOT_FOUND (no such name, or a tensor's), FORMAT. */
CKPT_API ckpt_status ckpt_reader_table_find(const ckpt_reader* reader, const char* name, ckpt_table_info* out,
                                            ckpt_error** err);

typedef struct ckpt_column_info {
  uint32_t struct_size;
  int32_t dtype; /* CKPT_DTYPE_* */
  int32_t ndim;  /* of one row */
  uint32_t reserved;
  int64_t shape[CKPT_MAX_NDIM];
  uint64_t row_bytes;
  uint64_t stored_bytes;
  const char* name; /* borrowed from the reader */
} ckpt_column_info;

/* The columns of a table in the order in which they were saved. */
CKPT_API ckpt_status ckpt_reader_table_column_at(const ckpt_reader* reader, const char* table, uint32_t index,
                                                 ckpt_column_info* out, ckpt_error** err);

/* ---- load ------------------------------------------------------------------------------------------------- */

/* Which rows of a table to load. */
enum {
  CKPT_SHARE_ALL = 0,
  CKPT_SHARE_BUCKETS = 1, /* those of buckets [bucket_first, bucket_end) */
  CKPT_SHARE_SLICE = 2,   /* slice `index` of `count`: the buckets in equal ranges, the first ones one longer (RecIS) */
  CKPT_SHARE_MOD = 3,     /* uint64(id) mod count == index. Reads all ids of the table, and chunks of most rows */
  CKPT_SHARE_IDS = 4      /* the rows of a list of ids */
};
typedef struct ckpt_share_desc {
  uint32_t struct_size;
  int32_t kind;                      /* CKPT_SHARE_* */
  uint64_t bucket_first, bucket_end; /* BUCKETS */
  uint64_t index, count;             /* SLICE, MOD */
  uint64_t window_rows;              /* the most rows of a window; 0: one window for all */
  const ckpt_reader* since;          /* of these rows only what changed since that checkpoint; NULL: all. Not IDS */
} ckpt_share_desc;

/* The rows of a table that a rank wants, counted before memory is made for them. It reads what tells where buckets
 * begin; of MOD all ids, of IDS those near to what is looked for. Rows come in windows, ranges of buckets (IDS: of the
 * list), of which each is loaded by itself, so a table larger than memory can be passed through. `ids`, `id_count`: of
 * IDS, in any order; rows come in that order, without what is missing. With `since`, a checkpoint of any ranks and any
 * store, rows are those that it lacks or has with other bytes, and missing are the ids that it has and the table lacks;
 * if it has no such table, all rows are new. All ids of both are read, and of the rows those that checksums of chunks
 * do not tell to be equal, in bounded memory; the share keeps 8 bytes for each row that changed, and 24 for each range
 * of them. `since` need not outlive the call. If the options carry a job (ckpt_options_set_job), its bytes_total and
 * bytes_done count the ids that are read (MOD) or looked up (IDS). Options: timeout_ms, threads. Statuses: NOT_FOUND
 * (table), MISMATCH (of IDS and `since`: two ranks saved an id; of `since`: it has other columns, or another
 * bucket_count), INCOMPLETE, CORRUPT, FORMAT (rows are not sorted), GONE, IO, CANCELLED, INVALID. */
typedef struct ckpt_share ckpt_share;
CKPT_API ckpt_status ckpt_share_open(ckpt_share** out, const ckpt_reader* reader, const char* table,
                                     const ckpt_share_desc* desc, const uint64_t* ids, uint64_t id_count,
                                     const ckpt_options* options, ckpt_error** err);
CKPT_API void ckpt_share_free(ckpt_share* share);

typedef struct ckpt_share_info {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t row_count;
  uint64_t window_count;  /* at least 1 */
  uint64_t most_rows;     /* of the largest window */
  uint64_t missing_count; /* of IDS and of changes: ids that the table lacks */
} ckpt_share_info;
CKPT_API ckpt_status ckpt_share_get(const ckpt_share* share, ckpt_share_info* out, ckpt_error** err);
CKPT_API ckpt_status ckpt_share_window_rows(const ckpt_share* share, uint64_t window, uint64_t* row_count,
                                            ckpt_error** err);
/* The ids that the table lacks, in the order in which they were asked for; of changes sorted as a table is. */
CKPT_API ckpt_status ckpt_share_missing_at(const ckpt_share* share, uint64_t index, uint64_t* id, ckpt_error** err);

/* Asks for the rows of a window of a share of the same reader: their ids, and of `columns`, names, each the rows in one
 * piece. Columns lie on the device that device_type and device_id name; their copy waits for the work that is in
 * `stream` (as ckpt_tensor_desc has it) when the load starts. Ids lie in memory of the host; `ids` may be NULL for a
 * share of kind IDS. Memory holds as many rows as ckpt_share_window_rows tells. Each row is at the same place in all
 * columns; rows come part by part, sorted (IDS: in the order asked for). Ids are checked once they are read, so after
 * memory has changed: an id that two ranks saved is MISMATCH and names both; rows that are not sorted as they should be
 * are FORMAT. Statuses: NOT_FOUND (column), INVALID. */
CKPT_API ckpt_status ckpt_load_add_table(ckpt_load* load, const ckpt_share* share, uint64_t window, void* ids,
                                         uint64_t ids_bytes, uint64_t column_count, const char* const* columns,
                                         void* const* data, const uint64_t* data_bytes, int32_t device_type,
                                         int32_t device_id, int64_t stream, ckpt_error** err);

#ifdef __cplusplus
}
#endif

#endif /* CKPT_TABLE_H */
