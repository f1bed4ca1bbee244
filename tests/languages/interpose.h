// For libraries that are loaded before libckpt and stand before its functions.
#pragma once

#ifndef _GNU_SOURCE
#error "RTLD_NEXT needs _GNU_SOURCE before the first include"
#endif
#include <dlfcn.h>
#include <stdlib.h>

// The function itself; a program without it ends.
static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found) return found;
  // Loaded by a module that an interpreter has loaded: not in the global scope.
  void* library = dlopen("libckpt.so.0", RTLD_LAZY | RTLD_NOLOAD);
  found = library ? dlsym(library, name) : NULL;
  if (!found) abort();
  return found;
}
