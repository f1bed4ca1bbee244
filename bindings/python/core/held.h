// What every Python object of the module is made of: an engine object that can be closed, and the ways into the engine.
//
// The GIL is held on entry to every function here and given up around calls that may block (`unlocked`). An engine
// object that such a call uses is kept by a copy of its shared_ptr, so a close() from another thread ends it only after
// the call.
#pragma once

#include <unistd.h>

#include <ckpt.hpp>
#include <memory>
#include <utility>

#include "errors.h"

namespace nb = nanobind;

namespace ckpt_py {

// nb::gil_scoped_release, except at the end of the interpreter: Python up to 3.13 ends a (daemon) thread that wants the
// GIL back then by unwinding its stack, which C++ answers with std::terminate. As in later versions it is stopped here.
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
  // For the time of one call; raises where the object was closed.
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

// Guards an object that the engine wants for one call at a time (`T *` in ckpt.h) while that call has given up the GIL.
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
