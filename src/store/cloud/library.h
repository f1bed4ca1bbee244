// A library that is loaded when it is first wanted, and never unloaded: its threads and handlers cannot be taken back.
#pragma once

#include <dlfcn.h>
#include <sys/auxv.h>

#include <initializer_list>

#include "base/status.h"

namespace ckpt::store::cloud {

class Library {
 public:
  // The first of these names that there is. Else `*why`.
  explicit Library(std::initializer_list<const char*> names, std::string* why) {
    if (getauxval(AT_BASE) == 0) {  // a second C library would come with it
      *why = "this program is linked statically";
      return;
    }
    for (const char* name : names) {
      if ((handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL))) return;
      if (why->empty()) *why = dlerror();
    }
  }
  explicit operator bool() const { return handle_ != nullptr; }
  template <typename Function>
  bool find(const char* name, Function** out) const {
    *out = reinterpret_cast<Function*>(dlsym(handle_, name));
    return *out != nullptr;
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace ckpt::store::cloud
