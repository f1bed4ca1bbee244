// What the Python objects of the module have in common: an engine object that can be closed, and calls without the GIL.
//
// Every function here is called with the GIL held; `unlocked` gives it up around calls that may block. Such a call
// holds a copy of the engine object's shared_ptr, so a close() from another thread frees the object only after the
// call.
#pragma once

#include <unistd.h>

#include <ckpt.hpp>
#include <memory>
#include <utility>

#include "errors.h"

namespace nb = nanobind;

namespace ckpt_py {

// Like nb::gil_scoped_release, except when the interpreter ends: up to version 3.13 Python then unwinds the stack of a
// (daemon) thread that wants the GIL back, and C++ calls std::terminate. Here the thread hangs, as in later versions.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

template <class Function>
auto unlocked(Function&& function) {
  Unlocked nogil;
  return function();
}

// No search for garbage while many objects are made of which none is garbage: it would go through all of them again and
// again.
class NoCollection {
 public:
  NoCollection() : enabled_(PyGC_Disable()) {}
  ~NoCollection() {
    if (enabled_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  int enabled_;
};

// Freeing may block: a job waits until the engine is quiet, a session removes its files.
struct FreeUnlocked {
  template <class T>
  void operator()(T* object) const {
    unlocked([&] { delete object; });
  }
};

template <class T>
class Held {
 public:
  Held(T&& object, const char* what) : object_(new T(std::move(object)), FreeUnlocked{}), what_(what) {}
  Held(std::shared_ptr<T> object, const char* what) : object_(std::move(object)), what_(what) {}
  // For one call. Raises InvalidError if the object was closed.
  std::shared_ptr<T> get() const {
    if (!object_) raise(CKPT_INVALID, std::string(what_) + " is closed");
    return object_;
  }
  void close() { std::exchange(object_, nullptr).reset(); }
  bool closed() const { return !object_; }

 private:
  std::shared_ptr<T> object_;
  const char* what_;
};

// Refuses a second call on an object that allows one at a time (`T *` in ckpt.h) while the first runs without the GIL.
class Alone {
 public:
  Alone(bool* busy, const char* what) : busy_(busy) {
    if (*busy) raise(CKPT_INVALID, std::string(what) + " is in use by another thread");
    *busy = true;
  }
  ~Alone() { *busy_ = false; }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  bool* busy_;
};

}  // namespace ckpt_py
