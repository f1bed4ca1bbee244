// ckpt_base.hpp - what ckpt.hpp's handles are made of: errors, views of memory, descriptors, options.
// Include ckpt.hpp; its first lines say how all of this is used.
#ifndef CKPT_BASE_HPP
#define CKPT_BASE_HPP

#include <ckpt.h>
#include <ckpt_tree.h>
#if __has_include(<ckpt_file.h>)  // not installed where libckpt was built with CKPT_INTEROP=OFF
#include <ckpt_file.h>
#endif

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <limits>
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
#include <cstdio>
#include <cstdlib>
#endif

// Where all of this is: a library that uses it inside itself defines another name, so that its inline functions are
// never those of a program that links it.
#ifndef CKPT_HPP_NAMESPACE
#define CKPT_HPP_NAMESPACE ckpt
#endif

// Two meanings of Result must not meet under one name.
#ifdef CKPT_HPP_EXPECTED
#define CKPT_HPP_MODE expected_0
#else
#define CKPT_HPP_MODE throwing_0
#endif

namespace CKPT_HPP_NAMESPACE {
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
  // Of what ckpt.hpp itself refuses.
  Error(ckpt_status status, std::string message, std::map<std::string, std::string> details)
      : status_(status), message_(std::move(message)), details_(std::move(details)) {}
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
namespace detail {
// Nothing is thrown in this mode, so whoever demands what is not there ends the program.
[[noreturn]] inline void demanded(const Error& error) {
  std::fprintf(stderr, "ckpt::Expected::value(): %s: %s\n", error.status_name(), error.what());
  std::abort();
}
}  // namespace detail

// A value or the Error that explains its absence; the part of std::expected (C++23) that matters here. `*` and `->` are
// checked by assert alone; value() always: without a value it prints the error and aborts.
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

// What speaks against a call before it is made; null: nothing does.
using Refusal = std::unique_ptr<Error>;

inline Refusal invalid(std::string message, std::map<std::string, std::string> details = {}) {
  return std::make_unique<Error>(CKPT_INVALID, std::move(message), std::move(details));
}

// As in the source of a program, so that a message shows where the NUL is.
inline std::string as_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) c ? out.append(1, c) : out.append("\\0");
  return out + "\"";
}

// C takes text without a size and would cut it at a NUL, so every text of a call is looked at here.
struct Text {
  const char* what;
  std::string_view text;
};
inline bool holds_nul(std::string_view text) { return text.find('\0') != text.npos; }
inline Refusal texts(std::initializer_list<Text> all) {
  for (const auto& [what, text] : all)
    if (holds_nul(text))
      return invalid(std::string(what) + " holds a NUL at byte " + std::to_string(text.find('\0')) + " of " +
                     std::to_string(text.size()) + (text.size() < 80 ? ": " + as_literal(text) : ""));
  return nullptr;
}

// function(err) is the C call; then(), its result where it succeeds.
template <class Function>
Result<void> call(Function&& function) {
  ckpt_error* err = nullptr;
  const ckpt_status status = function(&err);
  if (status != CKPT_OK) return failed<void>(Error(status, err));
  return Result<void>();
}
template <class Function, class Then>
auto call(Function&& function, Then&& then) -> Result<decltype(then())> {
  ckpt_error* err = nullptr;
  const ckpt_status status = function(&err);
  if (status != CKPT_OK) return failed<decltype(then())>(Error(status, err));
  return then();
}
// The same unless something speaks against it.
template <class Function>
Result<void> call(Refusal refusal, Function&& function) {
  if (refusal) return failed<void>(std::move(*refusal));
  return call(std::forward<Function>(function));
}
template <class Function, class Then>
auto call(Refusal refusal, Function&& function, Then&& then) -> Result<decltype(then())> {
  if (refusal) return failed<decltype(then())>(std::move(*refusal));
  return call(std::forward<Function>(function), std::forward<Then>(then));
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

// ---- elements ----

namespace detail {
template <class T>
inline constexpr bool kHasDtype =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, std::complex<double>> || std::is_same_v<T, std::byte> || std::is_integral_v<T>;
}  // namespace detail

// The dtype of a C++ element type; 16-bit and narrower floats have none and are named by number.
template <class T>
constexpr int32_t dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(detail::kHasDtype<U>, "no dtype: give CKPT_DTYPE_* to the constructor");
  constexpr int bits = static_cast<int>(sizeof(U) * 8);
  if constexpr (std::is_same_v<U, bool>)
    return CKPT_DTYPE_BOOL;
  else if constexpr (std::is_same_v<U, std::complex<float>> || std::is_same_v<U, std::complex<double>>)
    return CKPT_DTYPE(5, bits);
  else if constexpr (std::is_same_v<U, std::byte>)
    return CKPT_DTYPE_U8;
  else
    return CKPT_DTYPE(std::is_floating_point_v<U> ? 2 : std::is_signed_v<U> ? 0 : 1, bits);
}

namespace detail {
// What memory is made of: a dtype, U8 also for bytes of anything; 0 where C++'s type has none, such as a struct.
struct Element {
  int32_t dtype = CKPT_DTYPE_U8;
  uint64_t bytes = 1;
};

// The number in nested arrays: float of std::array<float, 4>[8].
template <class T>
struct Innermost {
  using type = T;
};
template <class T, size_t N>
struct Innermost<T[N]> : Innermost<T> {};
template <class T, size_t N>
struct Innermost<std::array<T, N>> : Innermost<T> {};

template <class E>
constexpr Element element_of() {
  using T = std::remove_cv_t<typename Innermost<std::remove_cv_t<E>>::type>;
  if constexpr (sizeof(T) == 1 && kHasDtype<T> && !std::is_same_v<T, bool>)
    return {};
  else if constexpr (kHasDtype<T>)
    return {dtype_of<T>(), sizeof(T)};
  else
    return {0, sizeof(T)};
}

// What a container holds, where it is contiguous: not pointers, whose own bytes nobody wants to keep.
template <class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<C>()))>,
          class T = typename Innermost<std::remove_cv_t<E>>::type,
          class = std::enable_if_t<std::is_trivially_copyable_v<E> && !std::is_pointer_v<T> &&
                                   !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T>>>
using ElementOf = E;

// Whether memory ends with the container, given as the type that a forwarding reference deduces: a temporary that is
// more than a view.
template <class C, class = void>
struct Temporary : std::false_type {};
template <class C>
struct Temporary<C, std::void_t<ElementOf<C&>>>
    : std::bool_constant<!std::is_lvalue_reference_v<C> &&
                         (!std::is_trivially_destructible_v<C> ||
                          !std::is_same_v<std::remove_cv_t<C>, typename Innermost<std::remove_cv_t<C>>::type>)> {};
}  // namespace detail

// ---- memory ----

// Bytes that are only looked at; made from a pointer and a size, from any contiguous container of plain elements, or
// from a string literal, whose closing NUL does not count. It keeps what the elements are, for add_tensor to check.
struct Memory {
  const void* data = nullptr;
  uint64_t bytes = 0;
  detail::Element element;
  Memory() = default;
  Memory(const void* memory, uint64_t size) : data(memory), bytes(size) {}
  template <class C, class E = detail::ElementOf<const C&>>
  Memory(const C& container)
      : data(std::data(container)), bytes(std::size(container) * sizeof(E)), element(detail::element_of<E>()) {}
  template <size_t N>
  Memory(const char (&literal)[N]) : data(literal), bytes(literal[N - 1] ? N : N - 1) {}
  template <size_t N>
  Memory(char (&buffer)[N]) : data(buffer), bytes(N) {}
};

// Bytes to write into.
struct MutableMemory {
  void* data = nullptr;
  uint64_t bytes = 0;
  detail::Element element;
  MutableMemory() = default;
  MutableMemory(void* memory, uint64_t size) : data(memory), bytes(size) {}
  template <class C, class E = detail::ElementOf<C&>, class = std::enable_if_t<!std::is_const_v<E>>>
  MutableMemory(C& container)
      : data(std::data(container)), bytes(std::size(container) * sizeof(E)), element(detail::element_of<E>()) {}
};

struct Device {
  int32_t type = CKPT_DEVICE_CPU;
  int32_t id = 0;
};

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
  Tensor& box(const Extents& offset, const Extents& extent) & {
    desc_.region_kind = CKPT_REGION_BOX;
    put(offset, desc_.offset);
    put(extent, desc_.extent);
    return *this;
  }
  Tensor& flat(int64_t offset, int64_t size) & {
    desc_.region_kind = CKPT_REGION_FLAT;
    desc_.flat_offset = offset;
    desc_.flat_size = size;
    return *this;
  }
  // Of the memory, in elements.
  Tensor& strides(const Extents& strides) & {
    desc_.flags |= CKPT_TENSOR_STRIDED;
    put(strides, desc_.strides);
    return *this;
  }
  Tensor& convert() & {
    desc_.flags |= CKPT_TENSOR_CONVERT;
    return *this;
  }
  Tensor& replica(uint64_t group, uint32_t index, uint32_t count) & {
    desc_.replica_group = group;
    desc_.replica_index = index;
    desc_.replica_count = count;
    return *this;
  }
  // First element of an alias that is a view, in the flattened target.
  Tensor& view_offset(int64_t offset) & {
    desc_.flat_offset = offset;
    return *this;
  }
  // The same of a temporary, by value: `const auto& t = Tensor::of<float>({2}).convert();` keeps one that lives.
  Tensor box(const Extents& offset, const Extents& extent) && { return box(offset, extent); }
  Tensor flat(int64_t offset, int64_t size) && { return flat(offset, size); }
  Tensor strides(const Extents& extents) && { return strides(extents); }
  Tensor convert() && { return convert(); }
  Tensor replica(uint64_t group, uint32_t index, uint32_t count) && { return replica(group, index, count); }
  Tensor view_offset(int64_t offset) && { return view_offset(offset); }
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

namespace detail {
inline bool has_cpp_type(int32_t dtype) {
  switch (dtype) {
    case CKPT_DTYPE_I8:
    case CKPT_DTYPE_I16:
    case CKPT_DTYPE_I32:
    case CKPT_DTYPE_I64:
    case CKPT_DTYPE_U8:
    case CKPT_DTYPE_U16:
    case CKPT_DTYPE_U32:
    case CKPT_DTYPE_U64:
    case CKPT_DTYPE_F32:
    case CKPT_DTYPE_F64:
    case CKPT_DTYPE_C64:
    case CKPT_DTYPE_C128:
    case CKPT_DTYPE_BOOL:
      return true;
    default:
      return false;
  }
}

// Bytes are whatever the tensor says; other elements must be of its dtype. For a dtype that C++ has no type for, any
// integer or struct of its width will do.
inline bool fits(const Element& element, int32_t dtype) {
  if (element.dtype == CKPT_DTYPE_U8 || element.dtype == dtype) return true;
  if (has_cpp_type(dtype)) return false;
  const int32_t bits = ckpt_dtype_bits(dtype), code = element.dtype / 256;
  const bool number = code == CKPT_DTYPE_F32 / 256 || code == CKPT_DTYPE_C64 / 256;
  return bits == 0 || (!number && static_cast<uint64_t>(bits) == element.bytes * 8);  // 0: the engine's to refuse
}

// What speaks against memory of such elements for a tensor.
inline Refusal elements(const std::string& name, const Tensor& tensor, const Element& found) {
  const int32_t dtype = tensor.desc().dtype;
  if (Refusal wrong = texts({{"name", name}}); wrong || fits(found, dtype)) return wrong;
  const std::string said = ckpt_dtype_name(dtype),
                    is = found.dtype ? ckpt_dtype_name(found.dtype) : std::to_string(found.bytes) + "-byte type";
  return invalid("tensor " + as_literal(name) + ": its memory was described as " + said + ", but its elements are " +
                     is + "; give {pointer, bytes} to reinterpret it",
                 {{"tensor", name}, {"expected", said}, {"found", is}});
}
}  // namespace detail

// ---- options ----

namespace detail {
class OptionBag;
}

// {{"threads", 4}, {"compression", "auto"}}. What a setter refuses is told by the call that gets the options.
class Options {
 public:
  struct Value {
    // Any integer; also an unscoped enumeration.
    template <class I, class = std::enable_if_t<std::is_integral_v<I> ||
                                                (std::is_enum_v<I> && std::is_convertible_v<I, int64_t>)>>
    Value(I value) : integer(static_cast<int64_t>(value)) {
      if (value > I{} && static_cast<uint64_t>(value) > uint64_t{std::numeric_limits<int64_t>::max()})
        wrong = "at most " + std::to_string(std::numeric_limits<int64_t>::max()) + " expected, found " +
                std::to_string(static_cast<uint64_t>(value));
    }
    Value(const char* value) {
      if (value)
        text = value;
      else
        wrong = "text expected, found a null pointer";
    }
    Value(std::string value) : text(std::move(value)) {}
    std::optional<std::string> text;
    int64_t integer = 0;
    std::string wrong;  // why it cannot be a value; empty: it can
  };
  Options() = default;
  Options(std::initializer_list<std::pair<const char*, Value>> values) {
    for (const auto& [key, value] : values) set(key ? key : "", value);
  }
  Options& set(const std::string& key, const Value& value) {
    values_.emplace_back(key, value);
    return *this;
  }

 private:
  friend class detail::OptionBag;
  std::vector<std::pair<std::string, Value>> values_;
};

namespace detail {
// The C object of Options for one call; null where there are none.
class OptionBag {
 public:
  explicit OptionBag(const Options& options) : options_(options) {}
  Refusal refusal() const {
    for (const auto& [key, value] : options_.values_) {
      if (!value.wrong.empty()) return invalid("option " + key + ": " + value.wrong);
      const std::string what = "option " + key;
      if (Refusal nul = texts({{"the name of an option", key}})) return nul;
      if (Refusal nul = value.text ? texts({{what.c_str(), *value.text}}) : nullptr) return nul;
    }
    return nullptr;
  }
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
  std::unique_ptr<ckpt_options, Free<ckpt_options, ckpt_options_free>> bag_;
};

// function(options, err), unless something speaks against it; then as of call().
template <class Function, class... Then>
auto call_with(Refusal refusal, const Options& options, Function&& function, Then&&... then) {
  OptionBag bag(options);
  if (!refusal) refusal = bag.refusal();
  return call(
      std::move(refusal),
      [&](ckpt_error** err) {
        const ckpt_status status = bag.fill(err);
        return status == CKPT_OK ? function(bag.get(), err) : status;
      },
      std::forward<Then>(then)...);
}
}  // namespace detail

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_BASE_HPP
