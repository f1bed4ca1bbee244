// Status and Result: what every engine function that can fail returns. OK is a null pointer and costs nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strformat.h"
#include "ckpt.h"

namespace ckpt {

// An error: a code, one line of text, and facts that a program may ask for by key ("path", "tensor", "expected", …).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ckpt_status code, std::string message);
  // NOMEM. It needs no memory.
  static Status no_memory() noexcept;

  bool ok() const { return !rep_; }
  ckpt_status code() const { return rep_ ? rep_->code : CKPT_OK; }
  const std::string& message() const;
  // Null if the error has no such fact.
  const std::string* detail(std::string_view key) const;
  using Details = std::vector<std::pair<std::string, std::string>>;
  const Details& details() const;

  // Adds a fact. A key that has a value keeps it, since the layer nearest the fault knows best. Where there is no
  // memory for what is added, here and by `in`, the error goes on without.
  Status&& with(std::string_view key, std::string value) &&;
  Status&& with(std::string_view key, uint64_t value) && { return std::move(*this).with(key, std::to_string(value)); }
  // Puts "context: " before the message. For a layer that knows a name which the layer below does not.
  Status&& in(std::string_view context) &&;
  // As people are shown it (base/shown.h); facts may be longer.
  Status&& shown() &&;

 private:
  struct Rep {
    ckpt_status code;
    std::string message;
    Details details;
  };
  template <typename Change>
  Status&& changed(Change&& change) &&;
  // Shared and copied on write, so that several waiters can get the same failure.
  std::shared_ptr<Rep> rep_;
};

inline Status Ok() { return Status(); }

// A value or the Status that explains its absence.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T&& value) : value_(std::move(value)) {}
  Result(const T& value) : value_(value) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const& { return status_; }
  Status&& status() && { return std::move(status_); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T&& take() { return std::move(*value_); }

 private:
  Status status_;
  std::optional<T> value_;
};

// Whether a question ended because its call did: cancelled, out of time or of memory. That is no fact about what was
// asked for (that it is damaged, missing or sound), and is passed on.
bool ends_call(ckpt_status code);
// The same, or what was asked for could not be read (IO): asked again, it may be sound.
bool is_unanswered(ckpt_status code);

// "CORRUPT" for CKPT_CORRUPT; "UNKNOWN" for other numbers.
const char* status_name(ckpt_status status);

// "name" in quotation marks, for messages. Marked cold, since only errors need it.
[[gnu::cold]] std::string in_quotes(std::string_view name);

// An error about a tensor, object, alias or table, whose name is in the text and becomes the fact "tensor".
[[gnu::cold]] Status error_about(ckpt_status code, std::string_view name, std::string text);
// One about a tensor, whose name is put before the text.
[[gnu::cold]] Status tensor_error(ckpt_status code, std::string_view name, std::string text);
// The same of an error that does not say yet which tensor it is about.
[[gnu::cold]] Status of_tensor(Status status, std::string_view name);

// The status of a failed system call: NO_SPACE, NOT_FOUND, EXISTS, NOMEM or IO, with its text and the path as a fact.
Status from_errno(int error, std::string_view action, std::string_view path);

}  // namespace ckpt

#define CKPT_CONCAT_(a, b) a##b
#define CKPT_CONCAT(a, b) CKPT_CONCAT_(a, b)

// Makes the calling function return if `expression` is an error.
#define CKPT_TRY(expression)                                                           \
  do {                                                                                 \
    if (::ckpt::Status try_status = (expression); !try_status.ok()) return try_status; \
  } while (0)

// CKPT_ASSIGN(auto x, f()): assigns the value of f() to x, or makes the calling function return its error.
#define CKPT_ASSIGN(target, expression) CKPT_ASSIGN_(CKPT_CONCAT(try_result_, __LINE__), target, expression)
#define CKPT_ASSIGN_(result, target, expression)       \
  auto result = (expression);                          \
  if (!result.ok()) return std::move(result).status(); \
  target = result.take()
