/* One rank of a save by ranks in four languages: this one in C. What is saved: README.md.
 *
 *   CKPT_SESSION=... rank_c STORE RANK WORLD
 */
#include <ckpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                             \
  do {                                                                                                        \
    if ((call) != CKPT_OK) {                                                                                  \
      fprintf(stderr, "rank_c: %s: %s\n", ckpt_status_name(ckpt_error_status(err)), ckpt_error_message(err)); \
      return 1;                                                                                               \
    }                                                                                                         \
  } while (0)

enum { kEmbedding = 65536 * 64, kHead = 10, kRows = 96, kColumns = 32, kTableRows = 7, kTableColumns = 12 };

typedef struct {
  float embedding[kEmbedding];
  double head[kHead];
  float* weight;   /* rows of this rank */
  float* momentum; /* elements of this rank */
  uint8_t* table;  /* columns of this rank */
} state;

/* The rank's range [first, end) of `count` items. */
static int64_t first_of(int64_t count, int64_t rank, int64_t world) { return count * rank / world; }

static void fill(state* s, int64_t rank, int64_t world) {
  for (int i = 0; i < kEmbedding; i++) s->embedding[i] = (float)i / 2 - 7;
  for (int i = 0; i < kHead; i++) s->head[i] = i * 0.1;
  const int64_t begin = first_of(kRows, rank, world) * kColumns, end = first_of(kRows, rank + 1, world) * kColumns;
  s->weight = malloc((size_t)(end - begin) * sizeof *s->weight);
  for (int64_t i = begin; i < end; i++) s->weight[i - begin] = (float)i / 4;
  const int64_t all = kRows * kColumns, low = first_of(all, rank, world), high = first_of(all, rank + 1, world);
  s->momentum = malloc((size_t)(high - low) * sizeof *s->momentum);
  for (int64_t i = low; i < high; i++) s->momentum[i - low] = 1 - (float)i / 8;
  const int64_t left = first_of(kTableColumns, rank, world), right = first_of(kTableColumns, rank + 1, world);
  s->table = malloc((size_t)(kTableRows * (right - left)));
  for (int64_t row = 0; row < kTableRows; row++)
    for (int64_t column = left; column < right; column++)
      s->table[row * (right - left) + column - left] = (uint8_t)(row * kTableColumns + column);
}

static ckpt_tensor_desc whole(int32_t dtype, int32_t ndim, int64_t rows, int64_t columns) {
  ckpt_tensor_desc desc = {.struct_size = sizeof desc, .dtype = dtype, .ndim = ndim, .shape = {rows, columns}};
  return desc;
}

static ckpt_tensor_desc box(ckpt_tensor_desc desc, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  desc.region_kind = CKPT_REGION_BOX;
  desc.offset[0] = row;
  desc.offset[1] = column;
  desc.extent[0] = rows;
  desc.extent[1] = columns;
  return desc;
}

static ckpt_tensor_desc flat(ckpt_tensor_desc desc, int64_t offset, int64_t size) {
  desc.region_kind = CKPT_REGION_FLAT;
  desc.flat_offset = offset;
  desc.flat_size = size;
  return desc;
}

static ckpt_status add(ckpt_save* save, const char* name, ckpt_tensor_desc desc, const void* data, uint64_t bytes,
                       ckpt_error** err) {
  return ckpt_save_add_tensor(save, name, &desc, data, bytes, CKPT_DEVICE_CPU, 0, err);
}

static ckpt_status add_all(ckpt_save* save, const state* s, int64_t rank, int64_t world, ckpt_error** err) {
  const ckpt_tensor_desc layer = whole(CKPT_DTYPE_F32, 2, kRows, kColumns);
  const ckpt_tensor_desc table = whole(CKPT_DTYPE_U8, 2, kTableRows, kTableColumns);
  const int64_t row = first_of(kRows, rank, world), rows = first_of(kRows, rank + 1, world) - row;
  const int64_t all = kRows * kColumns, low = first_of(all, rank, world), count = first_of(all, rank + 1, world) - low;
  const int64_t left = first_of(kTableColumns, rank, world), wide = first_of(kTableColumns, rank + 1, world) - left;
  ckpt_status status =
      add(save, "embedding.weight", whole(CKPT_DTYPE_F32, 2, 65536, 64), s->embedding, sizeof s->embedding, err);
  if (!status) status = add(save, "head.bias", whole(CKPT_DTYPE_F64, 1, kHead, 0), s->head, sizeof s->head, err);
  if (!status)
    status =
        add(save, "layer.weight", box(layer, row, 0, rows, kColumns), s->weight, (uint64_t)(rows * kColumns * 4), err);
  if (!status)
    status = add(save, "layer.weight.momentum", flat(layer, low, count), s->momentum, (uint64_t)(count * 4), err);
  if (!status)
    status = add(save, "table", box(table, 0, left, kTableRows, wide), s->table, (uint64_t)(kTableRows * wide), err);
  if (!status) status = ckpt_save_add_object(save, "rng", "text/plain", CKPT_OBJECT_PER_RANK, "C", 1, err);
  return status;
}

int main(int argc, char** argv) {
  static state s;
  if (argc != 4) return fprintf(stderr, "usage: rank_c STORE RANK WORLD\n"), 2;
  const uint32_t rank = (uint32_t)atoi(argv[2]), world = (uint32_t)atoi(argv[3]);
  fill(&s, rank, world);

  ckpt_error* err = NULL;
  ckpt_options* options;
  ckpt_store* store;
  ckpt_session* session;
  ckpt_save* save;
  TRY(ckpt_options_new(&options, &err));
  TRY(ckpt_options_set_int(options, "timeout_ms", 60000, &err));
  TRY(ckpt_store_open(&store, argv[1], NULL, &err));
  TRY(ckpt_session_open(&session, store, rank, world, getenv("CKPT_SESSION"), options, &err));
  TRY(ckpt_save_new(&save, session, "step-3", 3, options, &err));
  TRY(add_all(save, &s, rank, world, &err));
  TRY(ckpt_save_run(save, &err));
  printf("rank %u (C): saved %s\n", rank, ckpt_save_id(save));

  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  ckpt_options_free(options);
  free(s.weight);
  free(s.momentum);
  free(s.table);
  return 0;
}
