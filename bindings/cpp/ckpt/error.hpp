// ckpt/error.hpp - what a failed call throws or, with CKPT_HPP_EXPECTED, returns. Include <ckpt.hpp>.
#ifndef CKPT_ERROR_HPP
#define CKPT_ERROR_HPP

#include <ckpt.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#ifdef CKPT_HPP_EXPECTED
#include <cassert>
#include <cstdio>
#include <cstdlib>
#endif

// The namespace. A library that uses ckpt.hpp inside defines another name, so that the linker never mixes its inline
// functions with those of a program.
#ifndef CKPT_HPP_NAMESPACE
#define CKPT_HPP_NAMESPACE ckpt
#endif

// One namespace for each meaning of Result, so that files of both kinds link into one program.
#ifdef CKPT_HPP_EXPECTED
#define CKPT_HPP_MODE expected_0
#else
#define CKPT_HPP_MODE throwing_0
#endif

namespace CKPT_HPP_NAMESPACE {

// what() is one line: what, where, expected, found. The same class whether errors are thrown or returned.
class Error : public std::runtime_error {
 public:
  using Details = std::map<std::string, std::string>;
  // Takes over and frees `err`, which may be null.
  Error(ckpt_status status, ckpt_error* err)
      : std::runtime_error(err ? ckpt_error_message(err) : ckpt_status_name(status)), status_(status) {
    const char* value = nullptr;
    for (size_t i = 0; const char* key = ckpt_error_detail_at(err, i, &value); ++i) details_.emplace(key, value);
    ckpt_error_free(err);
  }
  Error(ckpt_status status, const std::string& message, Details details = {})
      : std::runtime_error(message), status_(status), details_(std::move(details)) {}
  ckpt_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return ckpt_status_name(status_); }
  // The facts of the error by key ("path", "tensor", "expected", …), as ckpt_error_detail gives them.
  const Details& details() const noexcept { return details_; }
  // One fact; "" if the error does not have it.
  std::string detail(const std::string& key) const {
    const auto found = details_.find(key);
    return found == details_.end() ? std::string() : found->second;
  }

 private:
  ckpt_status status_;
  Details details_;
};

inline namespace CKPT_HPP_MODE {

#ifdef CKPT_HPP_EXPECTED
namespace detail {
// Nothing is thrown in this mode, so value() without a value ends the program.
[[noreturn]] inline void demanded(const Error& error) {
  std::fprintf(stderr, "ckpt::Expected::value(): %s: %s\n", error.status_name(), error.what());
  std::abort();
}
}  // namespace detail

// A value or an Error: the part of C++23's std::expected that matters here. Only assert checks `*` and `->`. value()
// always checks: without a value it prints the error and aborts.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}
  Expected(Error error) : error_(std::move(error)) {}
  explicit operator bool() const noexcept { return value_.has_value(); }
  bool has_value() const noexcept { return value_.has_value(); }
  T& value() & { return demand(), *value_; }
  T&& value() && { return demand(), *std::move(value_); }
  const T& value() const& { return demand(), *value_; }
  T& operator*() & { return assert(value_), *value_; }
  T&& operator*() && { return assert(value_), *std::move(value_); }
  const T& operator*() const& { return assert(value_), *value_; }
  T* operator->() { return assert(value_), &*value_; }
  const T* operator->() const { return assert(value_), &*value_; }
  const Error& error() const { return assert(error_), *error_; }

 private:
  void demand() const {
    if (!value_) detail::demanded(*error_);
  }
  std::optional<T> value_;
  std::optional<Error> error_;
};
template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}
  explicit operator bool() const noexcept { return !error_; }
  bool has_value() const noexcept { return !error_; }
  void value() const {
    if (error_) detail::demanded(*error_);
  }
  const Error& error() const { return assert(error_), *error_; }

 private:
  std::optional<Error> error_;
};
template <class T>
using Result = Expected<T>;
#else
template <class T>
using Result = T;
#endif

namespace detail {
template <class T>
Result<T> failed(Error error) {
#ifdef CKPT_HPP_EXPECTED
  return error;
#else
  throw error;
#endif
}
// The value of a call that must not fail.
template <class T>
T demand(Result<T> result) {
#ifdef CKPT_HPP_EXPECTED
  return std::move(result).value();
#else
  return result;
#endif
}
}  // namespace detail

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_ERROR_HPP
