// A call of this library (ckpt_import, ckpt_export), in which it works for a program's job and calls ckpt, by
// ckpt_layer.h. Ckpt knows nothing of this library's own system calls and requests, nor this library of ckpt's: so a
// call has two halves, a Job of ours and a ckpt_call, each of which ends when the other does.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/job.h"
#include "ckpt_layer.h"

namespace ckpt::interop {

// For a caller, who frees it; null for OK.
ckpt_error* error_of(const Status& status);
// UNSUPPORTED where the program runs with a libckpt of another version: the two have one list of options.
Status check_version();

class OuterCall {
 public:
  // Under the job of the options, which serves one call.
  static Result<std::shared_ptr<OuterCall>> begin(const ckpt_options* options);
  ~OuterCall() { ckpt_call_free(handle_); }
  OuterCall(const OuterCall&) = delete;
  OuterCall& operator=(const OuterCall&) = delete;

  // That of this thread; null if there is none.
  static std::shared_ptr<OuterCall> current();
  const ckpt_call* handle() const { return handle_; }

  // Runs `body` as run_apart does (base/job.h), with calls of ckpt as parts of it. Then the program's job has ended.
  // Call it once; `self` is this.
  static Status run(const std::shared_ptr<OuterCall>& self, int64_t patience_ms,
                    std::function<Status(Job& running)> body);

 private:
  explicit OuterCall(ckpt_call* handle) : handle_(handle) {}
  bool look(Job& own, Status* answer) const;
  void count(const Job& own) const;

  ckpt_call* const handle_;
};

// Calls `body`, whose calls of ckpt are parts of this thread's call. `how`: CKPT_CALL_WORK or CKPT_CALL_TIDY. A thread
// needs it of which nobody knows yet for whom it works: run_parallel and others hand on our own half alone.
template <typename Body>
auto with_parts(Body&& body, int32_t how = CKPT_CALL_WORK) -> decltype(body()) {
  const std::shared_ptr<OuterCall> outer = OuterCall::current();
  if (!outer) return body();
  std::optional<decltype(body())> answer;
  std::exception_ptr thrown;  // must not cross a C function
  const CallContext own = CallContext::current();
  auto work = [&] {
    const ContextScope on(own);  // ours, where both libraries are one archive and have one context
    try {
      answer.emplace(body());
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  ckpt_call_run(outer->handle(), how, [](void* user) { (*static_cast<decltype(work)*>(user))(); }, &work);
  if (thrown) std::rethrow_exception(thrown);
  return *std::move(answer);
}

// What calls of ckpt read or write while it lives: memory of a load or a save. It outlives a part of this thread's call
// that was left behind, and wakes up later.
template <typename T>
class Lent {
 public:
  explicit Lent(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Lent(Lent&&) noexcept = default;
  ~Lent() {
    const std::shared_ptr<OuterCall> outer = value_ ? OuterCall::current() : nullptr;
    if (!outer) return;
    ckpt_call_keep(outer->handle(), value_.release(), [](void* kept) { delete static_cast<T*>(kept); });
  }
  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace ckpt::interop
