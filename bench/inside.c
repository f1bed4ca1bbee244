// Measures how long each save of a program is inside the library: LD_PRELOAD this, set CKPT_INSIDE=FILE. The time goes
// from the call that runs or starts the save until the last call that looks at its job has returned. Writes one line of
// seconds for each save, when the next save is made or a reader is opened.
#define _GNU_SOURCE
#include <ckpt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "interpose.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double began, ended;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void begin(void) {
  pthread_mutex_lock(&lock);
  began = ended = now();
  pthread_mutex_unlock(&lock);
}

static void end(void) {
  pthread_mutex_lock(&lock);
  if (began != 0) ended = now();
  pthread_mutex_unlock(&lock);
}

static void tell(void) {
  pthread_mutex_lock(&lock);
  FILE* file = began != 0 ? fopen(getenv("CKPT_INSIDE"), "a") : NULL;
  if (file) {
    fprintf(file, "%.7f\n", ended - began);
    fclose(file);
  }
  began = 0;
  pthread_mutex_unlock(&lock);
}

#define REAL(name)               \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(real))next(#name)

#define STARTS(name, parameters, ...)       \
  ckpt_status name parameters {             \
    REAL(name);                             \
    begin();                                \
    ckpt_status status = real(__VA_ARGS__); \
    end();                                  \
    return status;                          \
  }
STARTS(ckpt_save_run, (ckpt_save * save, ckpt_error** err), save, err)
STARTS(ckpt_save_start, (ckpt_save * save, ckpt_job** out, ckpt_error** err), save, out, err)
STARTS(ckpt_save_start_in_place, (ckpt_save * save, ckpt_job** out, ckpt_error** err), save, out, err)

ckpt_status ckpt_job_wait(const ckpt_job* job, int32_t state, int64_t timeout_ms, ckpt_error** err) {
  REAL(ckpt_job_wait);
  ckpt_status status = real(job, state, timeout_ms, err);
  end();
  return status;
}

int32_t ckpt_job_state(const ckpt_job* job) {
  REAL(ckpt_job_state);
  int32_t state = real(job);
  end();
  return state;
}

void ckpt_job_free(ckpt_job* job) {
  REAL(ckpt_job_free);
  real(job);
  end();
}

ckpt_status ckpt_save_new(ckpt_save** out, const ckpt_session* session, const char* label, int64_t step,
                          const ckpt_options* options, ckpt_error** err) {
  REAL(ckpt_save_new);
  tell();
  return real(out, session, label, step, options, err);
}

ckpt_status ckpt_reader_open(ckpt_reader** out, const ckpt_store* store, const char* selector,
                             const ckpt_options* options, ckpt_error** err) {
  REAL(ckpt_reader_open);
  tell();
  return real(out, store, selector, options, err);
}
