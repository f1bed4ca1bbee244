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
  // libckpt was loaded by a module of an interpreter, so it is not in the global scope.
  void* library = dlopen("libckpt.so.0", RTLD_LAZY | RTLD_NOLOAD);
  found = library ? dlsym(library, name) : NULL;
  if (!found) abort();
  return found;
}
