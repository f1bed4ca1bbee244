/* The smallest whole program: one process saves a matrix and loads it again.
 *
 *   cc save_load.c $(pkg-config --cflags --libs ckpt) -o save_load && ./save_load /tmp/store
 */
#include <ckpt.h>
#include <stdio.h>
#include <string.h>

/* Every call that can fail returns a status, and an error through its last argument. */
#define TRY(call)                                                                                     \
  do {                                                                                                \
    if ((call) != CKPT_OK) {                                                                          \
      fprintf(stderr, "%s: %s\n", ckpt_status_name(ckpt_error_status(err)), ckpt_error_message(err)); \
      return 1;                                                                                       \
    }                                                                                                 \
  } while (0)

int main(int argc, char** argv) {
  static float weights[128][64], loaded[128][64];
  ckpt_error* err = NULL;
  const char* place = argc > 1 ? argv[1] : "mem:example"; /* a directory; by default this process's memory */
  for (int i = 0; i < 128 * 64; i++) weights[i / 64][i % 64] = (float)i;
  ckpt_tensor_desc desc = {.struct_size = sizeof desc, .dtype = CKPT_DTYPE_F32, .ndim = 2, .shape = {128, 64}};

  /* A session is one start of the training job, here with one rank; a save is one checkpoint. */
  ckpt_store* store;
  ckpt_session* session;
  ckpt_save* save;
  TRY(ckpt_store_open(&store, place, NULL, &err));
  TRY(ckpt_session_open(&session, store, 0, 1, NULL, NULL, &err));
  TRY(ckpt_save_new(&save, session, "step-100", 100, NULL, &err));
  TRY(ckpt_save_add_tensor(save, "w", &desc, weights, sizeof weights, CKPT_DEVICE_CPU, 0, &err));
  TRY(ckpt_save_run(save, &err)); /* OK means: durable, complete, committed */

  /* A reader is one committed checkpoint; a load is a set of requests that are read together. */
  ckpt_reader* reader;
  ckpt_load* load;
  TRY(ckpt_reader_open(&reader, store, "latest", NULL, &err));
  TRY(ckpt_load_new(&load, reader, NULL, &err));
  TRY(ckpt_load_add_tensor(load, "w", &desc, loaded, sizeof loaded, CKPT_DEVICE_CPU, 0, &err));
  TRY(ckpt_load_run(load, &err)); /* OK means: all there, all checked */

  if (memcmp(weights, loaded, sizeof weights) != 0) return 1;
  printf("saved and loaded %zu bytes of %s\n", sizeof weights, ckpt_save_id(save));

  /* In any order: each keeps alive what it was made from. */
  ckpt_load_free(load);
  ckpt_reader_free(reader);
  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  return 0;
}
