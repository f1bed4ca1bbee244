// ckpt_base.hpp - what ckpt.hpp's handles are made of: errors, views of memory, descriptors, options.
// Include ckpt.hpp; its first lines say how all of this is used.
#ifndef CKPT_BASE_HPP
#define CKPT_BASE_HPP

#include <ckpt.h>
#include <ckpt_file.h>
#include <ckpt_tree.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#ifdef CKPT_HPP_EXPECTED
#include <cassert>
#endif

// Two meanings of Result must not meet under one name.
#ifdef CKPT_HPP_EXPECTED
#define CKPT_HPP_MODE expected_0
#else
#define CKPT_HPP_MODE throwing_0
#endif

namespace ckpt {
inline namespace CKPT_HPP_MODE {

// ---- errors ----

// what() is one line: what, where, expected, found.
class Error : public std::exception {
 public:
  // Takes over and frees `err`, which may be null.
  Error(ckpt_status status, ckpt_error* err) : status_(status) {
    message_ = err ? ckpt_error_message(err) : ckpt_status_name(status);
    for (const char* key : {"path", "part", "tensor", "rank", "ranks", "offset", "expected", "found"})
      if (const char* value = ckpt_error_detail(err, key)) details_.emplace(key, value);
    ckpt_error_free(err);
  }
  ckpt_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return ckpt_status_name(status_); }
  const char* what() const noexcept override { return message_.c_str(); }
  // Facts by key ("path", "tensor", "expected", …), as ckpt_error_detail gives them.
  const std::map<std::string, std::string>& details() const noexcept { return details_; }

 private:
  ckpt_status status_;
  std::string message_;
  std::map<std::string, std::string> details_;
};

#ifdef CKPT_HPP_EXPECTED
// A value or the Error that explains its absence; the part of std::expected (C++23) that matters here.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}
  Expected(Error error) : error_(std::move(error)) {}
  explicit operator bool() const noexcept { return value_.has_value(); }
  bool has_value() const noexcept { return value_.has_value(); }
  T& operator*() & { return assert(value_), *value_; }
  T&& operator*() && { return assert(value_), std::move(*value_); }
  const T& operator*() const& { return assert(value_), *value_; }
  T* operator->() { return assert(value_), &*value_; }
  const T* operator->() const { return assert(value_), &*value_; }
  const Error& error() const { return assert(error_), *error_; }

 private:
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
Result<T> failed(ckpt_status status, ckpt_error* err) {
#ifdef CKPT_HPP_EXPECTED
  return Error(status, err);
#else
  throw Error(status, err);
#endif
}

// function(err) is the C call; then(), its result where it succeeds.
template <class Function>
Result<void> call(Function&& function) {
  ckpt_error* err = nullptr;
  const ckpt_status status = function(&err);
  if (status != CKPT_OK) return failed<void>(status, err);
  return Result<void>();
}
template <class Function, class Then>
auto call(Function&& function, Then&& then) -> Result<decltype(then())> {
  ckpt_error* err = nullptr;
  const ckpt_status status = function(&err);
  if (status != CKPT_OK) return failed<decltype(then())>(status, err);
  return then();
}

template <class T>
T sized() {
  T record{};
  record.struct_size = sizeof record;
  return record;
}

template <class T, void (*kFree)(T*)>
struct Free {
  void operator()(T* handle) const noexcept { kFree(handle); }
};

// What every handle is: an owner of one C object.
template <class T, void (*kFree)(T*)>
class Handle {
 public:
  explicit Handle(T* owned) : owned_(owned) {}
  T* get() const noexcept { return owned_.get(); }
  T* release() noexcept { return owned_.release(); }
  explicit operator bool() const noexcept { return owned_ != nullptr; }

 private:
  std::unique_ptr<T, Free<T, kFree>> owned_;
};

}  // namespace detail

// ---- memory ----

// Bytes that are only looked at; made from a pointer and a size or from any contiguous container of plain elements.
struct Memory {
  const void* data = nullptr;
  uint64_t bytes = 0;
  Memory() = default;
  Memory(const void* memory, uint64_t size) : data(memory), bytes(size) {}
  template <class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<const C&>()))>,
            class = std::enable_if_t<std::is_trivially_copyable_v<E>>>
  Memory(const C& container) : data(std::data(container)), bytes(std::size(container) * sizeof(E)) {}
};

// Bytes to write into.
struct MutableMemory {
  void* data = nullptr;
  uint64_t bytes = 0;
  MutableMemory() = default;
  MutableMemory(void* memory, uint64_t size) : data(memory), bytes(size) {}
  template <class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<C&>()))>,
            class = std::enable_if_t<std::is_trivially_copyable_v<E> && !std::is_const_v<E>>>
  MutableMemory(C& container) : data(std::data(container)), bytes(std::size(container) * sizeof(E)) {}
};

struct Device {
  int32_t type = CKPT_DEVICE_CPU;
  int32_t id = 0;
};

// The dtype of a C++ element type; 16-bit and narrower floats have none and are named by number.
template <class T>
constexpr int32_t dtype_of() {
  using U = std::remove_cv_t<T>;
  constexpr int bits = static_cast<int>(sizeof(U) * 8);
  if constexpr (std::is_same_v<U, bool>)
    return CKPT_DTYPE_BOOL;
  else if constexpr (std::is_same_v<U, std::complex<float>> || std::is_same_v<U, std::complex<double>>)
    return CKPT_DTYPE(5, bits);
  else if constexpr (std::is_same_v<U, std::byte>)
    return CKPT_DTYPE_U8;
  else {
    static_assert(std::is_same_v<U, float> || std::is_same_v<U, double> || std::is_integral_v<U>,
                  "no dtype: give CKPT_DTYPE_* to the constructor");
    return CKPT_DTYPE(std::is_floating_point_v<U> ? 2 : std::is_signed_v<U> ? 0 : 1, bits);
  }
}

// What a piece of memory is: ckpt_tensor_desc, filled step by step. Shapes of more than CKPT_MAX_NDIM are refused by
// the call that gets them.
class Tensor {
 public:
  using Extents = std::vector<int64_t>;
  Tensor(int32_t dtype, const Extents& shape) : desc_(detail::sized<ckpt_tensor_desc>()) {
    desc_.dtype = dtype;
    desc_.ndim = static_cast<int32_t>(shape.size());
    put(shape, desc_.shape);
  }
  explicit Tensor(const ckpt_tensor_desc& desc) : desc_(desc) {}
  template <class T>
  static Tensor of(const Extents& shape) {
    return Tensor(dtype_of<T>(), shape);
  }
  Tensor& box(const Extents& offset, const Extents& extent) {
    desc_.region_kind = CKPT_REGION_BOX;
    put(offset, desc_.offset);
    put(extent, desc_.extent);
    return *this;
  }
  Tensor& flat(int64_t offset, int64_t size) {
    desc_.region_kind = CKPT_REGION_FLAT;
    desc_.flat_offset = offset;
    desc_.flat_size = size;
    return *this;
  }
  // Of the memory, in elements.
  Tensor& strides(const Extents& strides) {
    desc_.flags |= CKPT_TENSOR_STRIDED;
    put(strides, desc_.strides);
    return *this;
  }
  Tensor& convert() {
    desc_.flags |= CKPT_TENSOR_CONVERT;
    return *this;
  }
  Tensor& replica(uint64_t group, uint32_t index, uint32_t count) {
    desc_.replica_group = group;
    desc_.replica_index = index;
    desc_.replica_count = count;
    return *this;
  }
  // First element of an alias that is a view, in the flattened target.
  Tensor& view_offset(int64_t offset) {
    desc_.flat_offset = offset;
    return *this;
  }
  const ckpt_tensor_desc& desc() const { return desc_; }

 private:
  // Too many are left to the engine to refuse, since ndim says so; places that lack are refused by a negative extent.
  void put(const Extents& from, int64_t (&to)[CKPT_MAX_NDIM]) {
    for (size_t i = 0; i < CKPT_MAX_NDIM; i++)
      to[i] = i < from.size() ? from[i] : i < static_cast<size_t>(desc_.ndim) ? -1 : 0;
    if (from.size() > static_cast<size_t>(desc_.ndim)) desc_.ndim = -1;
  }
  ckpt_tensor_desc desc_;
};

// ---- options ----

// {{"threads", 4}, {"compression", "auto"}}. What a setter refuses is told by the call that gets the options.
class Options {
 public:
  struct Value {
    Value(int value) : integer(value) {}
    Value(int64_t value) : integer(value) {}
    Value(const char* value) : text(value) {}
    Value(std::string value) : text(std::move(value)) {}
    std::optional<std::string> text;
    int64_t integer = 0;
  };
  Options() = default;
  Options(std::initializer_list<std::pair<const char*, Value>> values) {
    for (const auto& [key, value] : values) set(key, value);
  }
  Options& set(const std::string& key, const Value& value) {
    values_.emplace_back(key, value);
    return *this;
  }

 private:
  friend class OptionBag;
  std::vector<std::pair<std::string, Value>> values_;
};

// The C object of Options for one call; null where there are none.
class OptionBag {
 public:
  explicit OptionBag(const Options& options) : options_(options) {}
  ckpt_status fill(ckpt_error** err) {
    if (options_.values_.empty()) return CKPT_OK;
    ckpt_options* made = nullptr;
    if (ckpt_status status = ckpt_options_new(&made, err)) return status;
    bag_.reset(made);
    for (const auto& [key, value] : options_.values_) {
      const ckpt_status status = value.text ? ckpt_options_set_str(made, key.c_str(), value.text->c_str(), err)
                                            : ckpt_options_set_int(made, key.c_str(), value.integer, err);
      if (status != CKPT_OK) return status;
    }
    return CKPT_OK;
  }
  const ckpt_options* get() const { return bag_.get(); }

 private:
  const Options& options_;
  std::unique_ptr<ckpt_options, detail::Free<ckpt_options, ckpt_options_free>> bag_;
};

namespace detail {
// function(options, err)
template <class Function, class Then>
auto call_with(const Options& options, Function&& function, Then&& then) -> Result<decltype(then())> {
  OptionBag bag(options);
  return call(
      [&](ckpt_error** err) {
        const ckpt_status status = bag.fill(err);
        return status == CKPT_OK ? function(bag.get(), err) : status;
      },
      std::forward<Then>(then));
}
}  // namespace detail

}  // namespace CKPT_HPP_MODE
}  // namespace ckpt
#endif  // CKPT_BASE_HPP
