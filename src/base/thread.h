// Starts threads that take no signals: those belong to the trainer's own threads. The system may give none.
#pragma once

#include <signal.h>

#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace ckpt {

// Threads that start while it lives take no signals, and have enough stack.
class SignalsOff {
 public:
  SignalsOff() noexcept;
  ~SignalsOff();
  SignalsOff(const SignalsOff&) = delete;
  SignalsOff& operator=(const SignalsOff&) = delete;

 private:
  sigset_t before_;
};

// False if the system gives no thread, or no memory for one. The function must not throw.
template <typename Body>
bool start_thread(std::thread* thread, Body&& body) noexcept {
  const SignalsOff inherited;
  try {
    *thread = std::thread(std::forward<Body>(body));
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  return thread->joinable();
}

}  // namespace ckpt
