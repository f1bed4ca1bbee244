/* Four processes save one checkpoint together; two processes load it, half each.
 *
 *   cc ranks.c $(pkg-config --cflags --libs ckpt) -o ranks && ./ranks /tmp/store
 *
 * The state: a weight that every rank holds (the ranks assign its bytes among themselves), a momentum of which each
 * rank holds a quarter of the rows, and the state of each rank's random generator. A pipe and an environment variable
 * bring the session string from rank 0 to the others; a real job has MPI or c10d for that.
 *
 * After fork() a child cannot use a library with threads, so all children are made before the first call to ckpt.
 */
#define _POSIX_C_SOURCE 200809L
#include <ckpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRows = 96, kColumns = 32, kSaving = 4, kLoading = 2 };

#define TRY(call)                                                                                                    \
  do {                                                                                                               \
    if ((call) != CKPT_OK) {                                                                                         \
      fprintf(stderr, "rank %u: %s: %s\n", rank, ckpt_status_name(ckpt_error_status(err)), ckpt_error_message(err)); \
      return 1;                                                                                                      \
    }                                                                                                                \
  } while (0)

static float weight_at(int row, int column) { return (float)(row * kColumns + column); }
static float momentum_at(int row, int column) { return -0.5f * weight_at(row, column); }

static ckpt_tensor_desc whole(void) {
  ckpt_tensor_desc desc = {.struct_size = sizeof desc, .dtype = CKPT_DTYPE_F32, .ndim = 2, .shape = {kRows, kColumns}};
  return desc;
}

/* The rows [first, first + count) of the whole. */
static ckpt_tensor_desc rows(int first, int count) {
  ckpt_tensor_desc desc = whole();
  desc.region_kind = CKPT_REGION_BOX;
  desc.offset[0] = first;
  desc.extent[0] = count;
  desc.extent[1] = kColumns;
  return desc;
}

/* One rank of the training job saves its share. */
static int save_rank(const char* place, uint32_t rank, int to_others) {
  static float weight[kRows][kColumns], momentum[kRows / kSaving][kColumns];
  const int first = (int)rank * kRows / kSaving, count = kRows / kSaving;
  for (int i = 0; i < kRows * kColumns; i++) weight[i / kColumns][i % kColumns] = weight_at(i / kColumns, i % kColumns);
  for (int i = 0; i < count * kColumns; i++)
    momentum[i / kColumns][i % kColumns] = momentum_at(first + i / kColumns, i % kColumns);

  ckpt_error* err = NULL;
  ckpt_store* store;
  ckpt_session* session;
  ckpt_save* save;
  TRY(ckpt_store_open(&store, place, NULL, &err));
  /* Rank 0 starts the session, the others join it by its string. */
  TRY(ckpt_session_open(&session, store, rank, kSaving, rank == 0 ? NULL : getenv("SESSION"), NULL, &err));
  if (rank == 0) dprintf(to_others, "%s", ckpt_session_string(session));
  if (rank == 0) close(to_others);

  TRY(ckpt_save_new(&save, session, "step-200", 200, NULL, &err));
  ckpt_tensor_desc desc = whole();
  TRY(ckpt_save_add_tensor(save, "layer.weight", &desc, weight, sizeof weight, CKPT_DEVICE_CPU, 0, &err));
  desc = rows(first, count);
  TRY(ckpt_save_add_tensor(save, "layer.weight.momentum", &desc, momentum, sizeof momentum, CKPT_DEVICE_CPU, 0, &err));
  const char* trainer = "{\"step\": 200, \"lr\": 0.001}";
  TRY(ckpt_save_add_object(save, "trainer", "application/json", CKPT_OBJECT_SHARED, trainer, strlen(trainer), &err));
  uint64_t rng[2] = {rank, 0x9e3779b97f4a7c15u};
  TRY(ckpt_save_add_object(save, "rng", "application/octet-stream", CKPT_OBJECT_PER_RANK, rng, sizeof rng, &err));
  TRY(ckpt_save_run(save, &err));

  if (rank == 0) printf("saved %s by %d ranks\n", ckpt_save_id(save), kSaving);
  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  return 0;
}

/* Another number of ranks loads: each asks for another box. */
static int load_rank(const char* place, uint32_t rank) {
  static float weight[kRows][kColumns], momentum[kRows / kLoading][kColumns];
  const int first = (int)rank * kRows / kLoading, count = kRows / kLoading;
  ckpt_error* err = NULL;
  ckpt_store* store;
  ckpt_reader* reader;
  ckpt_load* load;
  TRY(ckpt_store_open(&store, place, NULL, &err));
  /* If another job may save meanwhile, resolve "latest" once and give all ranks the id. */
  TRY(ckpt_reader_open(&reader, store, "latest", NULL, &err));
  TRY(ckpt_load_new(&load, reader, NULL, &err));
  ckpt_tensor_desc desc = whole();
  TRY(ckpt_load_add_tensor(load, "layer.weight", &desc, weight, sizeof weight, CKPT_DEVICE_CPU, 0, &err));
  desc = rows(first, count);
  TRY(ckpt_load_add_tensor(load, "layer.weight.momentum", &desc, momentum, sizeof momentum, CKPT_DEVICE_CPU, 0, &err));
  uint64_t rng[2] = {0, 0};
  TRY(ckpt_load_add_object(load, "rng", rank, rng, sizeof rng, &err));
  /* The rest of momentum, and the rng of the other ranks, are not loaded; by default that is allowed. */
  TRY(ckpt_load_run(load, &err));

  int wrong = rng[0] != rank;
  for (int i = 0; i < kRows * kColumns; i++)
    wrong += weight[i / kColumns][i % kColumns] != weight_at(i / kColumns, i % kColumns);
  for (int i = 0; i < count * kColumns; i++)
    wrong += momentum[i / kColumns][i % kColumns] != momentum_at(first + i / kColumns, i % kColumns);
  printf("rank %u of %d loaded rows %d to %d, %d wrong\n", rank, kLoading, first, first + count - 1, wrong);
  ckpt_load_free(load);
  ckpt_reader_free(reader);
  ckpt_store_free(store);
  return wrong != 0;
}

/* Puts rank 0's string into the environment of the others, as a launcher would. */
static int launch_saving(const char* place) {
  int from_rank0[2];
  char session[1024];
  size_t size = 0;
  ssize_t got;
  if (pipe(from_rank0) != 0) return 1;
  if (fork() == 0) {
    close(from_rank0[0]);
    exit(save_rank(place, 0, from_rank0[1]));
  }
  close(from_rank0[1]);
  while ((got = read(from_rank0[0], session + size, sizeof session - 1 - size)) > 0) size += (size_t)got;
  session[size] = 0;
  setenv("SESSION", session, 1);
  for (uint32_t rank = 1; rank < kSaving; rank++)
    if (fork() == 0) exit(save_rank(place, rank, -1));
  return 0;
}

static int wait_for_all(void) {
  int status, failed = 0;
  while (wait(&status) > 0) failed += status != 0;
  return failed;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: ranks STORE\n");
    return 2;
  }
  if (launch_saving(argv[1]) != 0 || wait_for_all() != 0) return 1;
  for (uint32_t rank = 0; rank < kLoading; rank++)
    if (fork() == 0) exit(load_rank(argv[1], rank));
  return wait_for_all() != 0;
}
