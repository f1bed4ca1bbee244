// Owners of the handles of ckpt.h, and what a command returns when it cannot go on. Nothing here throws.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "ckpt.h"

namespace cli {

// Why a command stopped: an error of the library, or one of the tool's own. False where there is none.
class [[nodiscard]] Error {
 public:
  Error() = default;
  Error(ckpt_status status, ckpt_error* error) : status_(status), error_(error) {}
  Error(ckpt_status status, std::string message) : status_(status), message_(std::move(message)) {}

  explicit operator bool() const { return status_ != CKPT_OK; }
  ckpt_status status() const { return status_; }
  std::string message() const;
  // "message" and, on lines of their own, the facts that the message does not name.
  std::string text() const;

 private:
  struct Free {
    void operator()(ckpt_error* error) const { ckpt_error_free(error); }
  };
  ckpt_status status_ = CKPT_OK;
  std::unique_ptr<ckpt_error, Free> error_;
  std::string message_;
};

inline Error invalid(std::string message) { return {CKPT_INVALID, std::move(message)}; }

// Calls a function of ckpt.h whose last argument is the error.
template <typename Function, typename... Arguments>
Error call(Function function, Arguments&&... arguments) {
  ckpt_error* error = nullptr;
  ckpt_status status = function(std::forward<Arguments>(arguments)..., &error);
  return {status, error};
}

template <typename T, auto kFree>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() { kFree(handle_); }

  T** out() { return &handle_; }
  operator T*() const { return handle_; }

 private:
  T* handle_ = nullptr;
};

using Options = Handle<ckpt_options, ckpt_options_free>;
using Store = Handle<ckpt_store, ckpt_store_free>;
using List = Handle<ckpt_list, ckpt_list_free>;
using Reader = Handle<ckpt_reader, ckpt_reader_free>;
using Load = Handle<ckpt_load, ckpt_load_free>;
using Job = Handle<ckpt_job, ckpt_job_free>;
using Report = Handle<ckpt_report, ckpt_report_free>;

// A zeroed info record that says its size.
template <typename T>
T sized() {
  T record{};
  record.struct_size = sizeof(T);
  return record;
}

}  // namespace cli

// Returns the error to the caller, or goes on.
#define CLI_TRY(expression)                                      \
  do {                                                           \
    if (::cli::Error try_error = (expression)) return try_error; \
  } while (0)
