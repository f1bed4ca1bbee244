// ckpt/memory.hpp - the caller's memory, and the tensor that it holds. Include <ckpt.hpp>.
#ifndef CKPT_MEMORY_HPP
#define CKPT_MEMORY_HPP

#include <array>

#include "call.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

// ---- elements ----

namespace detail {
template <class T>
inline constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double>;
// std::complex and similar types, recognised by their members: including <complex> would slow compilation more.
template <class T, class = void>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool
    kIsComplex<T, std::void_t<typename T::value_type, decltype(std::declval<T>().real(), std::declval<T>().imag())>> =
        kIsFloat<typename T::value_type> && sizeof(T) == 2 * sizeof(typename T::value_type);
template <class T>
inline constexpr bool kHasDtype = kIsFloat<T> || kIsComplex<T> || std::is_same_v<T, std::byte> || std::is_integral_v<T>;
}  // namespace detail

// The dtype of a C++ element type. For floats of 16 bits or less there is none: use CKPT_DTYPE_*.
template <class T>
constexpr int32_t dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(detail::kHasDtype<U>, "no dtype: give CKPT_DTYPE_* to the constructor");
  constexpr int bits = static_cast<int>(sizeof(U) * 8);
  if constexpr (std::is_same_v<U, bool>)
    return CKPT_DTYPE_BOOL;
  else if constexpr (detail::kIsComplex<U>)
    return CKPT_DTYPE(5, bits);
  else if constexpr (std::is_same_v<U, std::byte>)
    return CKPT_DTYPE_U8;
  else
    return CKPT_DTYPE(std::is_floating_point_v<U> ? 2 : std::is_signed_v<U> ? 0 : 1, bits);
}

namespace detail {
// The elements of memory. dtype is U8 also for bytes of any kind, and 0 for a type without a dtype, such as a struct.
struct Element {
  int32_t dtype = CKPT_DTYPE_U8;
  uint64_t bytes = 1;
};

// The element of nested arrays: float for std::array<float, 4>[8].
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

// The elements of a contiguous container. Not pointers: saving their own bytes would be a mistake.
template <class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<C>()))>,
          class T = typename Innermost<std::remove_cv_t<E>>::type,
          class = std::enable_if_t<std::is_trivially_copyable_v<E> && !std::is_pointer_v<T> &&
                                   !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T>>>
using ElementOf = E;

// The elements of a container, if their type says their dtype; char and std::byte do not.
template <class C, class E = ElementOf<const C&>,
          class T = std::remove_cv_t<typename Innermost<std::remove_cv_t<E>>::type>,
          class = std::enable_if_t<kHasDtype<T> && !std::is_same_v<T, char> && !std::is_same_v<T, std::byte>>>
using NumberOf = T;

// Whether the memory ends with the container: a temporary that is not a view. C is deduced from a forwarding reference.
template <class C, class = void>
struct Temporary : std::false_type {};
template <class C>
struct Temporary<C, std::void_t<ElementOf<C&>>>
    : std::bool_constant<!std::is_lvalue_reference_v<C> &&
                         (!std::is_trivially_destructible_v<C> ||
                          !std::is_same_v<std::remove_cv_t<C>, typename Innermost<std::remove_cv_t<C>>::type>)> {};
}  // namespace detail

// ---- memory ----

// Bytes to read: a pointer and a size, any contiguous container of plain elements, or a string literal without its
// final NUL. It remembers the type of the elements, which add_tensor checks.
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

// Zeroed memory to load into, made by several threads on huge pages: a load into new memory of another kind takes
// longer. A container of bytes, for any dtype. It must live as long as a std::vector in its place.
class Buffer {
 public:
  static Result<Buffer> make(uint64_t size) {
    void* made = nullptr;
    detail::Call call;
    call(ckpt_buffer_alloc, &made, size);
    return call.result(Buffer(made, made ? size : 0));
  }
  Buffer(Buffer&& from) noexcept : data_(std::exchange(from.data_, nullptr)), size_(std::exchange(from.size_, 0)) {}
  Buffer& operator=(Buffer&& from) noexcept {
    std::swap(data_, from.data_);
    std::swap(size_, from.size_);
    return *this;
  }
  ~Buffer() { ckpt_buffer_free(data_, size_); }
  std::byte* data() noexcept { return static_cast<std::byte*>(data_); }
  const std::byte* data() const noexcept { return static_cast<const std::byte*>(data_); }
  size_t size() const noexcept { return size_; }

 private:
  Buffer(void* data, uint64_t size) : data_(data), size_(size) {}
  void* data_;
  uint64_t size_;
};

struct Device {
  int32_t type = CKPT_DEVICE_CPU;
  int32_t id = 0;
};

using Extents = std::vector<int64_t>;

// The shape of a TensorInfo, FileTensor or ckpt_tensor_desc.
template <class Info>
Extents shape_of(const Info& info) {
  return {info.shape, info.shape + info.ndim};
}

// Describes the tensor in memory: a ckpt_tensor_desc, filled step by step. A call that gets more than CKPT_MAX_NDIM
// dimensions refuses them.
class Tensor {
 public:
  using Extents = CKPT_HPP_NAMESPACE::Extents;
  Tensor(int32_t dtype, const Extents& shape) : desc_(detail::sized<ckpt_tensor_desc>()) {
    desc_.dtype = dtype;
    desc_.ndim = static_cast<int32_t>(shape.size());
    put(shape, desc_.shape);
  }
  explicit Tensor(const ckpt_tensor_desc& desc) : desc_(desc) {}
  // A whole tensor, as it is stored.
  explicit Tensor(const ckpt_tensor_info& info) : Tensor(info.dtype, shape_of(info)) {}
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
  // Save only: the memory is rows that no other rank has; the shape is theirs.
  Tensor& rows() & {
    desc_.region_kind = CKPT_REGION_ROWS;
    return *this;
  }
  // Memory of a CUDA device: the stream behind whose work it is copied (ckpt_tensor_desc::stream).
  Tensor& stream(int64_t number) & {
    desc_.stream = number;
    return *this;
  }
  // The strides of the memory, in elements.
  Tensor& strides(const Extents& strides) & {
    desc_.flags |= CKPT_TENSOR_STRIDED;
    put(strides, desc_.strides);
    return *this;
  }
  Tensor& convert() & {
    desc_.flags |= CKPT_TENSOR_CONVERT;
    return *this;
  }
  // Save only: the values of the group's first member count, and those of the others may differ.
  Tensor& first_replica() & {
    desc_.flags |= CKPT_TENSOR_FIRST_REPLICA;
    return *this;
  }
  Tensor& replica(uint64_t group, uint32_t index, uint32_t count) & {
    desc_.replica_group = group;
    desc_.replica_index = index;
    desc_.replica_count = count;
    return *this;
  }
  // Of an alias that is a view: its first element in the flattened target.
  Tensor& view_offset(int64_t offset) & {
    desc_.flat_offset = offset;
    return *this;
  }
  // On a temporary they return a value, so that `const auto& t = Tensor::of<float>({2}).convert();` is safe.
  Tensor box(const Extents& offset, const Extents& extent) && { return box(offset, extent); }
  Tensor flat(int64_t offset, int64_t size) && { return flat(offset, size); }
  Tensor rows() && { return rows(); }
  Tensor strides(const Extents& extents) && { return strides(extents); }
  Tensor convert() && { return convert(); }
  Tensor first_replica() && { return first_replica(); }
  Tensor replica(uint64_t group, uint32_t index, uint32_t count) && { return replica(group, index, count); }
  Tensor view_offset(int64_t offset) && { return view_offset(offset); }
  const ckpt_tensor_desc& desc() const { return desc_; }

 private:
  // The engine refuses a wrong number of extents: too many because of ndim, too few because the rest is -1.
  void put(const Extents& from, int64_t (&to)[CKPT_MAX_NDIM]) {
    for (size_t i = 0; i < CKPT_MAX_NDIM; i++)
      to[i] = i < from.size() ? from[i] : i < static_cast<size_t>(desc_.ndim) ? -1 : 0;
    if (from.size() > static_cast<size_t>(desc_.ndim)) desc_.ndim = -1;
  }
  ckpt_tensor_desc desc_;
};

namespace detail {
inline bool has_cpp_type(int32_t dtype) {
  for (const int32_t typed :
       {CKPT_DTYPE_I8, CKPT_DTYPE_I16, CKPT_DTYPE_I32, CKPT_DTYPE_I64, CKPT_DTYPE_U8, CKPT_DTYPE_U16, CKPT_DTYPE_U32,
        CKPT_DTYPE_U64, CKPT_DTYPE_F32, CKPT_DTYPE_F64, CKPT_DTYPE_C64, CKPT_DTYPE_C128, CKPT_DTYPE_BOOL})
    if (dtype == typed) return true;
  return false;
}

// Bytes fit any dtype; other elements must have the tensor's dtype. For a dtype without a C++ type, any integer or
// struct of its width fits.
inline bool fits(const Element& element, int32_t dtype) {
  if (element.dtype == CKPT_DTYPE_U8 || element.dtype == dtype) return true;
  if (has_cpp_type(dtype)) return false;
  const int32_t bits = ckpt_dtype_bits(dtype), code = element.dtype / 256;
  const bool number = code == CKPT_DTYPE_F32 / 256 || code == CKPT_DTYPE_C64 / 256;
  return bits == 0 || (!number && static_cast<uint64_t>(bits) == element.bytes * 8);  // 0: the engine refuses it
}

inline std::string element_name(const Element& element) {
  return element.dtype ? ckpt_dtype_name(element.dtype) : std::to_string(element.bytes) + "-byte type";
}

// The error if memory with such elements does not fit the tensor.
inline std::optional<Error> elements(const std::string& name, const Tensor& tensor, const Element& found) {
  const int32_t dtype = tensor.desc().dtype;
  if (fits(found, dtype)) return std::nullopt;
  const std::string said = ckpt_dtype_name(dtype), is = element_name(found);
  return Error(CKPT_INVALID,
               "tensor " + as_literal(name) + ": its memory was described as " + said + ", but its elements are " + is +
                   "; give {pointer, bytes} to reinterpret it",
               {{"tensor", name}, {"expected", said}, {"found", is}});
}

// ckpt_save_add_tensor or ckpt_load_add_tensor, with memory whose elements fit.
template <class Function, class Object, class AnyMemory>
Result<void> add_tensor(Function function, Object* object, const std::string& name, const Tensor& tensor,
                        const AnyMemory& memory, const Device& device) {
  Call call;
  call.refuse(elements(name, tensor, memory.element));
  call(function, object, Text{"name", name}, &tensor.desc(), memory.data, memory.bytes, device.type, device.id);
  return call.done();
}
}  // namespace detail

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_MEMORY_HPP
