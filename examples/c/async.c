/* A save in the background: training goes on as soon as the data is staged; the commit comes later.
 *
 *   cc async.c $(pkg-config --cflags --libs ckpt) -o async && ./async /tmp/store
 */
#include <ckpt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { kElements = 16 << 20 }; /* 64 MiB of f32 */

#define TRY(call)                                                                                     \
  do {                                                                                                \
    if ((call) != CKPT_OK) {                                                                          \
      fprintf(stderr, "%s: %s\n", ckpt_status_name(ckpt_error_status(err)), ckpt_error_message(err)); \
      return 1;                                                                                       \
    }                                                                                                 \
  } while (0)

int main(int argc, char** argv) {
  ckpt_error* err = NULL;
  float* weights = malloc(sizeof(float) * kElements);
  if (weights == NULL) return 1;
  for (int i = 0; i < kElements; i++) weights[i] = (float)i;

  ckpt_options* options;
  ckpt_store* store;
  ckpt_session* session;
  ckpt_save* save;
  ckpt_job* job;
  TRY(ckpt_options_new(&options, &err));
  TRY(ckpt_options_set_int(options, "staging_bytes", 128 << 20, &err)); /* a hard limit */
  TRY(ckpt_options_set_int(options, "keep_last", 3, &err));
  TRY(ckpt_store_open(&store, argc > 1 ? argv[1] : "mem:async", NULL, &err));
  TRY(ckpt_session_open(&session, store, 0, 1, NULL, NULL, &err));
  TRY(ckpt_save_new(&save, session, "step-300", 300, options, &err));
  ckpt_tensor_desc desc = {.struct_size = sizeof desc, .dtype = CKPT_DTYPE_F32, .ndim = 1, .shape = {kElements}};
  TRY(ckpt_save_add_tensor(save, "w", &desc, weights, sizeof(float) * kElements, CKPT_DEVICE_CPU, 0, &err));
  TRY(ckpt_save_start(save, &job, &err));

  /* Until the data is staged, the tensors must not change; then the optimizer may step again. */
  TRY(ckpt_job_wait(job, CKPT_JOB_STAGED, -1, &err));
  for (int i = 0; i < kElements; i++) weights[i] += 1.0f;

  /* Train, and look at the job now and then. If a wait times out, the job goes on. */
  ckpt_job_stats stats = {.struct_size = sizeof stats};
  ckpt_status status;
  while ((status = ckpt_job_wait(job, CKPT_JOB_COMMITTED, 20, &err)) == CKPT_TIMEOUT) {
    ckpt_error_free(err);
    if (ckpt_job_state(job) >= CKPT_JOB_FAILED) break; /* the save itself timed out */
    TRY(ckpt_job_stats_get(job, &stats, &err));
    double total = stats.bytes_total > 0 ? (double)stats.bytes_total : 1;
    printf("%3.0f %% written\n", 100.0 * (double)stats.bytes_done / total);
  }
  TRY(status);
  TRY(ckpt_job_stats_get(job, &stats, &err));
  printf("staged after %.1f ms, committed after %.1f ms, %" PRIu64 " bytes written\n", (double)stats.stage_us / 1e3,
         (double)stats.total_us / 1e3, stats.bytes_written);

  ckpt_job_free(job);
  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  ckpt_options_free(options);
  free(weights);
  return 0;
}
