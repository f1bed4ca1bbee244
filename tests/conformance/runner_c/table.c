/* table.*, share.*: sparse tables; what a save and a load say of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

/* ---- the rows of a rank ---- */

typedef struct column {
  char* name;
  ckpt_column_desc desc;
  const memory* data; /* NULL: no rows */
} column;

typedef struct rows {
  ckpt_table_desc desc;
  const memory *ids, *positions; /* NULL: there are none */
  column columns[8];
} rows;

void rows_free(void* handle) {
  rows* gone = handle;
  for (uint32_t i = 0; i < gone->desc.column_count; i++) free(gone->columns[i].name);
  free(gone);
}

static ckpt_status run_new(runner* r) {
  rows* made = allocate(sizeof *made);
  const char* positions = text_of(r, "positions");
  made->ids = get_memory(r, 2);
  made->positions = positions ? get_named(r, positions, MEMORY) : NULL;
  made->desc = (ckpt_table_desc){.struct_size = sizeof made->desc,
                                 .id_dtype = dtype_of(r, 1),
                                 .row_count = made->ids ? made->ids->size / 8 : 0,
                                 .bucket_count = (uint64_t)integer_of(r, "buckets", CKPT_TABLE_BUCKETS),
                                 .rows_per_block = (uint64_t)integer_of(r, "rows_per_block", 0),
                                 .block_count = 1};
  return keep(r, 0, ROWS, made, CKPT_OK);
}

static uint64_t block_bytes(const rows* from, const column* c) {
  uint64_t bits = from->desc.rows_per_block * (uint64_t)ckpt_dtype_bits(c->desc.dtype);
  for (int32_t i = 0; i < c->desc.ndim; i++) bits *= (uint64_t)c->desc.shape[i];
  return bits / 8;
}

static ckpt_status run_column(runner* r) {
  rows* to = get(r, 0, ROWS);
  if (to->desc.column_count == sizeof to->columns / sizeof *to->columns) fail(r, "expected fewer columns");
  column* made = &to->columns[to->desc.column_count];
  made->desc = (ckpt_column_desc){.struct_size = sizeof made->desc, .dtype = dtype_of(r, 2)};
  made->desc.ndim = numbers(word(r, 3), made->desc.shape, CKPT_MAX_NDIM);
  made->data = get_memory(r, 4);
  made->name = allocate(r->tokens[1].size + 1);
  memcpy(made->name, word(r, 1), r->tokens[1].size);
  uint64_t bytes = block_bytes(to, made);
  if (to->desc.column_count++ == 0 && bytes && made->data)
    to->desc.block_count = (uint32_t)((made->data->size + bytes - 1) / bytes);
  return CKPT_OK;
}

static ckpt_status run_save(runner* r) {
  const rows* from = get(r, 2, ROWS);
  uint32_t count = from->desc.column_count, blocks = from->desc.block_count;
  const char** names = allocate(count * sizeof *names);
  ckpt_column_desc* descs = allocate(count * sizeof *descs);
  const void** data = allocate((size_t)count * blocks * sizeof *data);
  uint64_t* sizes = allocate((size_t)count * blocks * sizeof *sizes);
  for (uint32_t c = 0; c < count; c++) {
    const memory* all = from->columns[c].data;
    uint64_t size = all ? all->size : 0, step = blocks > 1 ? block_bytes(from, &from->columns[c]) : size;
    names[c] = from->columns[c].name;
    descs[c] = from->columns[c].desc;
    for (uint32_t i = 0; i < blocks; i++) {
      uint64_t start = i * step < size ? i * step : size, left = size - start;
      data[c * blocks + i] = all ? all->data + start : NULL;
      sizes[c * blocks + i] = left < step ? left : step;
    }
  }
  ckpt_status status = ckpt_save_add_table(get(r, 0, SAVE), word(r, 1), &from->desc, from->ids ? from->ids->data : NULL,
                                           from->ids ? from->ids->size : 0, names, descs, data, sizes,
                                           from->positions ? (const uint64_t*)(const void*)from->positions->data : NULL,
                                           CKPT_DEVICE_CPU, 0, 0, &r->error);
  free(names);
  free(descs);
  free(data);
  free(sizes);
  return status;
}

/* ---- what a checkpoint has ---- */

LISTS(run_tables, ckpt_reader_table_count(get(r, 0, READER)), ckpt_table_info,
      ckpt_reader_table_at(get(r, 0, READER), i, &info, &r->error))

#define F(kind, name) {#name, kind, offsetof(ckpt_table_info, name)}
static const field kTable[] = {F(TEXT, name), F(DTYPE, id_dtype),   F(U64, row_count),    F(U64, bucket_count),
                               F(U64, bytes), F(U64, stored_bytes), F(U32, column_count), {0}};
#undef F

FINDS(run_table, ckpt_table_info, kTable, ckpt_reader_table_find(get(r, 0, READER), word(r, 1), &info, &r->error),
      (void)0)

#define F(kind, name) {#name, kind, offsetof(ckpt_column_info, name)}
static const field kColumn[] = {F(TEXT, name), F(DTYPE, dtype), F(U64, row_bytes), F(U64, stored_bytes), {0}};
#undef F

FINDS(run_column_at, ckpt_column_info, kColumn,
      ckpt_reader_table_column_at(get(r, 0, READER), word(r, 1), (uint32_t)unsigned_integer(r, 2), &info, &r->error),
      say_text(r, "shape", shape_text(info.ndim, info.shape)))

/* ---- some of its rows ---- */

/* Two numbers of a key; false if the command lacks it. */
static bool pair_of(runner* r, const char* key, uint64_t* first, uint64_t* second) {
  const char* text = text_of(r, key);
  char* end;
  if (!text) return false;
  *first = strtoull(text, &end, 10);
  *second = strtoull(end + 1, NULL, 10);
  return true;
}

static ckpt_status run_open(runner* r) {
  ckpt_share_desc desc = {.struct_size = sizeof desc, .kind = CKPT_SHARE_ALL};
  const char* ids = text_of(r, "ids");
  const memory* list = ids ? get_named(r, ids, MEMORY) : NULL;
  if (list) desc.kind = CKPT_SHARE_IDS;
  if (pair_of(r, "buckets", &desc.bucket_first, &desc.bucket_end)) desc.kind = CKPT_SHARE_BUCKETS;
  if (pair_of(r, "slice", &desc.index, &desc.count)) desc.kind = CKPT_SHARE_SLICE;
  if (pair_of(r, "mod", &desc.index, &desc.count)) desc.kind = CKPT_SHARE_MOD;
  desc.window_rows = (uint64_t)integer_of(r, "window", 0);
  ckpt_share* made = NULL;
  ckpt_status status = ckpt_share_open(&made, get(r, 1, READER), word(r, 2), &desc,
                                       list ? (const uint64_t*)(const void*)list->data : NULL,
                                       list ? list->size / 8 : 0, r->options, &r->error);
  return keep(r, 0, SHARE, made, status);
}

#define F(kind, name) {#name, kind, offsetof(ckpt_share_info, name)}
static const field kShare[] = {F(U64, row_count), F(U64, window_count), F(U64, most_rows), F(U64, missing_count), {0}};
#undef F

FINDS(run_info, ckpt_share_info, kShare, ckpt_share_get(get(r, 0, SHARE), &info, &r->error), (void)0)

static ckpt_status run_rows(runner* r) {
  uint64_t found = 0;
  ckpt_status status = ckpt_share_window_rows(get(r, 0, SHARE), unsigned_integer(r, 1), &found, &r->error);
  if (!status) say_unsigned(r, NULL, found);
  return status;
}

static ckpt_status run_missing(runner* r) {
  ckpt_share_info info = {.struct_size = sizeof info};
  ckpt_status status = ckpt_share_get(get(r, 0, SHARE), &info, &r->error);
  for (uint64_t i = 0; i < info.missing_count && !status; i++) {
    uint64_t id = 0;
    status = ckpt_share_missing_at(get(r, 0, SHARE), i, &id, &r->error);
    if (!status) say_unsigned(r, NULL, id);
  }
  return status;
}

static ckpt_status run_load(runner* r) {
  const char* columns[8];
  void* data[8];
  uint64_t sizes[8], count = 0;
  memory* ids = get_memory(r, 3);
  for (; 4 + count < r->words; count++) {
    char *name = (char*)(uintptr_t)word(r, 4 + count), *colon = strrchr(name, ':');
    if (count == 8 || !colon) fail(r, "expected COLUMN:M, at most 8 times; found '%s'", name);
    *colon = '\0';
    memory* to = get_named(r, colon + 1, MEMORY);
    columns[count] = name;
    data[count] = to->data;
    sizes[count] = to->size;
  }
  return ckpt_load_add_table(get(r, 0, LOAD), get(r, 1, SHARE), unsigned_integer(r, 2), ids ? ids->data : NULL,
                             ids ? ids->size : 0, count, columns, data, sizes, CKPT_DEVICE_CPU, 0, 0, &r->error);
}

const command table_commands[] = {
    {"table.new", run_new},         {"table.column", run_column}, {"save.table", run_save},
    {"reader.tables", run_tables},  {"reader.table", run_table},  {"reader.column", run_column_at},
    {"share.open", run_open},       {"share.info", run_info},     {"share.rows", run_rows},
    {"share.missing", run_missing}, {"load.table", run_load},     {NULL, NULL}};
