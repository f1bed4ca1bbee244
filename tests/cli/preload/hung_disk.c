/* Loaded before the tool: a disk that answers nothing. Every look at a path that has HUNG_DISK in it waits for ever. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void look_at(const char* path) {
  const char* const hung = getenv("HUNG_DISK");
  while (hung && path && strstr(path, hung)) pause();
}

static void* next_of(const char* name) { return dlsym(RTLD_NEXT, name); }

int stat(const char* path, struct stat* found) {
  int (*next)(const char*, struct stat*);
  look_at(path);
  *(void**)&next = next_of("stat");
  return next(path, found);
}

int lstat(const char* path, struct stat* found) {
  int (*next)(const char*, struct stat*);
  look_at(path);
  *(void**)&next = next_of("lstat");
  return next(path, found);
}

int open(const char* path, int flags, ...) {
  int (*next)(const char*, int, ...);
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = va_arg(more, mode_t);
  va_end(more);
  look_at(path);
  *(void**)&next = next_of("open");
  return next(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  int (*next)(int, const char*, int, ...);
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = va_arg(more, mode_t);
  va_end(more);
  look_at(path);
  *(void**)&next = next_of("openat");
  return next(directory, path, flags, mode);
}

DIR* opendir(const char* path) {
  DIR* (*next)(const char*);
  look_at(path);
  *(void**)&next = next_of("opendir");
  return next(path);
}
