/* Loaded before the tool: the system gives as many threads as NO_THREADS_AFTER says (none without it), and no more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int create_function(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  static atomic_int made;
  const char* most = getenv("NO_THREADS_AFTER");
  if (atomic_fetch_add(&made, 1) >= (most ? atoi(most) : 0)) return EAGAIN;
  create_function* create;
  *(void**)&create = dlsym(RTLD_NEXT, "pthread_create");
  return create(thread, attributes, body, argument);
}
