// For libraries that are loaded before libckpt and intercept its functions.
#pragma once

#ifndef _GNU_SOURCE
#error "RTLD_NEXT needs _GNU_SOURCE before the first include"
#endif
#include <dlfcn.h>
#include <stdlib.h>

// The real function; ends a program that does not have it.
static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found) return found;
  // They were loaded by a module of an interpreter, so they are not in the global scope.
  static const char* const kLibraries[] = {"libckpt.so.0", "libckpt_files.so.0"};
  for (size_t i = 0; i < 2 && !found; i++) {
    void* library = dlopen(kLibraries[i], RTLD_LAZY | RTLD_NOLOAD);
    found = library ? dlsym(library, name) : NULL;
  }
  if (!found) abort();
  return found;
}
