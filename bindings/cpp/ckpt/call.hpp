// ckpt/call.hpp - how ckpt.hpp calls C; the base of its handles; Range. Not for direct use.
#ifndef CKPT_CALL_HPP
#define CKPT_CALL_HPP

#include <cstddef>
#include <iterator>
#include <string_view>

#include "options.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {
namespace detail {

// In quotes, with \0 for NUL, so that a message shows where the NUL is.
inline std::string as_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) c ? out.append(1, c) : out.append("\\0");
  return out + "\"";
}

inline bool holds_nul(std::string_view text) { return text.find('\0') != text.npos; }

// Text for C, and what it means. C gets no size and would cut the text at a NUL, so Call refuses a NUL.
struct Text {
  const char* what;
  const std::string& text;
};

// One C call, or several that each need the one before. `call(function, arguments…)` appends the error argument; after
// a failure it does nothing.
class Call {
 public:
  Call() = default;
  ~Call() { ckpt_options_free(bag_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  template <class Function, class... Given>
  Call& operator()(Function function, const Given&... given) {
    run(function, pass(given)...);
    return *this;
  }
  bool ok() const { return !error_; }
  void refuse(ckpt_status status, std::string message, Error::Details details = {}) {
    if (!error_) error_.emplace(status, std::move(message), std::move(details));
  }
  void refuse(std::optional<Error> error) {
    if (!error_) error_ = std::move(error);
  }
  void refuse_nul(const Text& given) {
    const std::string& text = given.text;
    if (!holds_nul(text)) return;
    refuse(CKPT_INVALID, std::string(given.what) + " holds a NUL at byte " + std::to_string(text.find('\0')) + " of " +
                             std::to_string(text.size()) + (text.size() < 80 ? ": " + as_literal(text) : ""));
  }
  Result<void> done() { return error_ ? failed<void>(*std::move(error_)) : Result<void>(); }
  template <class T>
  Result<T> result(T&& value) {
    if (error_) return failed<T>(*std::move(error_));
    return std::move(value);
  }

 private:
  template <class Function, class... Passed>
  void run(Function function, Passed... passed) {
    if (error_) return;
    ckpt_error* err = nullptr;
    if (const ckpt_status status = function(passed..., &err)) error_.emplace(status, err);
  }
  template <class T>
  T pass(const T& as_it_is) {
    return as_it_is;
  }
  const char* pass(const Text& given) { return refuse_nul(given), given.text.c_str(); }
  // The options as a C object; null where there are none.
  const ckpt_options* pass(const Options& options) {
    if ((options.values_.empty() && !options.job_) || bag_) return bag_;
    run(ckpt_options_new, &bag_);
    run(ckpt_options_set_job, bag_, options.job_);
    for (const auto& [key, value] : options.values_) {
      const std::string what = "option " + key;
      if (!value.wrong.empty()) refuse(CKPT_INVALID, what + ": " + value.wrong);
      const char* name = pass(Text{"the name of an option", key});
      if (value.text)
        run(ckpt_options_set_str, bag_, name, pass(Text{what.c_str(), *value.text}));
      else
        run(ckpt_options_set_int, bag_, name, value.integer);
    }
    return bag_;
  }

  std::optional<Error> error_;
  ckpt_options* bag_ = nullptr;
};

template <class... Arguments>
Result<void> call(const Arguments&... arguments) {
  return Call()(arguments...).done();
}

// A zeroed C struct with struct_size set.
template <class T>
T sized() {
  T record{};
  record.struct_size = sizeof record;
  return record;
}

// function(arguments…, record, err) fills the record.
template <class T, class... Arguments>
Result<T> fill(const Arguments&... arguments) {
  T record = sized<T>();
  return Call()(arguments..., &record).result(std::move(record));
}

// function(arguments…, out, err) makes the C object of a handle H; make_first is for functions with `out` first.
template <class H, class... Arguments>
Result<H> make(const Arguments&... arguments) {
  typename H::Object* made = nullptr;
  return Call()(arguments..., &made).result(H(made));
}
template <class H, class Function, class... Arguments>
Result<H> make_first(Function function, const Arguments&... arguments) {
  typename H::Object* made = nullptr;
  return Call()(function, &made, arguments...).result(H(made));
}

// The base of every handle: owns one C object.
template <class T, void (*kFree)(T*)>
class Handle {
 public:
  using Object = T;
  explicit Handle(T* owned) noexcept : owned_(owned) {}
  Handle(Handle&& from) noexcept : owned_(from.release()) {}
  Handle& operator=(Handle&& from) noexcept {
    if (this != &from) kFree(std::exchange(owned_, from.release()));
    return *this;
  }
  ~Handle() { kFree(owned_); }
  T* get() const noexcept { return owned_; }
  T* release() noexcept { return std::exchange(owned_, nullptr); }
  explicit operator bool() const noexcept { return owned_ != nullptr; }

 private:
  T* owned_;
};

}  // namespace detail

inline Result<void> Options::check() const {
  return detail::call([](const ckpt_options*, ckpt_error**) { return CKPT_OK; }, *this);
}

// The items that a C object has by index, for loops and algorithms. Each is fetched when it is read. Valid as long as
// the handle that it came from.
template <class T, class Object, class Index = uint64_t>
class Range {
 public:
  using At = ckpt_status (*)(const Object*, Index, T*, ckpt_error**);
  Range(const Object* object, Index size, At at) : object_(object), size_(size), at_(at) {}
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = T;
    iterator(const Range& range, Index index) : range_(range), index_(index) {}
    T operator*() const { return range_[index_]; }
    iterator& operator++() { return ++index_, *this; }
    iterator operator++(int) { return {range_, index_++}; }
    bool operator==(const iterator& other) const { return index_ == other.index_; }
    bool operator!=(const iterator& other) const { return index_ != other.index_; }

   private:
    Range range_;
    Index index_;
  };
  iterator begin() const { return {*this, 0}; }
  iterator end() const { return {*this, size_}; }
  Index size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // `index` must be below size().
  T operator[](Index index) const { return detail::demand<T>(detail::fill<T>(at_, object_, index)); }

 private:
  const Object* object_;
  Index size_;
  At at_;
};

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_CALL_HPP
