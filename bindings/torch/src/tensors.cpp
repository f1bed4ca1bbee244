#include "tensors.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

// Whether this LibTorch has at least that version.
#define CKPT_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace ckpt_torch {
namespace internal {

struct DtypeRow {
  int32_t dtype;
  std::string_view torch, storage;  // "float8_e5m2", "BFloat16Storage"; empty: torch has none
};
static constexpr DtypeRow kDtypes[] = {
#define CKPT_DTYPE_ROW(constant, name, exponent, mantissa, bias, specials, torch, storage, safetensors, numpy) \
  {CKPT_DTYPE_##constant, torch, storage},
#include "base/dtypes.def"
#undef CKPT_DTYPE_ROW
};

// Whether LibTorch's name, "Float8_e5m2" or "BFloat16", is that of a row.
static bool is_called(const DtypeRow& row, const std::string& name) {
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  return row.storage == name + "Storage" ||
         std::equal(name.begin(), name.end(), row.torch.begin(), row.torch.end(), same);
}

// Those that this LibTorch has, which may be older.
static const std::vector<std::pair<at::ScalarType, int32_t>>& types() {
  static const auto found = [] {
    std::vector<std::pair<at::ScalarType, int32_t>> made;
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); i++)
      for (const DtypeRow& row : kDtypes)
        if (const auto type = static_cast<at::ScalarType>(i); is_called(row, c10::toString(type)))
          made.emplace_back(type, row.dtype);
    return made;
  }();
  return found;
}

static const std::vector<NamedType> kNamedTypes{
#if CKPT_TORCH_AT_LEAST(2, 3)
    {"torch.bits8", at::ScalarType::Bits8, at::kByte},
    {"torch.bits16", at::ScalarType::Bits16, at::ScalarType::UInt16},
    {"torch.bits1x8", at::ScalarType::Bits1x8, at::kByte},
    {"torch.bits2x4", at::ScalarType::Bits2x4, at::kByte},
    {"torch.bits4x2", at::ScalarType::Bits4x2, at::kByte},
    {"torch.uint1", at::ScalarType::UInt1, at::kByte},
    {"torch.uint2", at::ScalarType::UInt2, at::kByte},
    {"torch.uint3", at::ScalarType::UInt3, at::kByte},
    {"torch.uint4", at::ScalarType::UInt4, at::kByte},
    {"torch.uint5", at::ScalarType::UInt5, at::kByte},
    {"torch.uint6", at::ScalarType::UInt6, at::kByte},
    {"torch.uint7", at::ScalarType::UInt7, at::kByte},
#endif
#if CKPT_TORCH_AT_LEAST(2, 6)
    {"torch.int1", at::ScalarType::Int1, at::kChar},
    {"torch.int2", at::ScalarType::Int2, at::kChar},
    {"torch.int3", at::ScalarType::Int3, at::kChar},
    {"torch.int4", at::ScalarType::Int4, at::kChar},
    {"torch.int5", at::ScalarType::Int5, at::kChar},
    {"torch.int6", at::ScalarType::Int6, at::kChar},
    {"torch.int7", at::ScalarType::Int7, at::kChar},
#endif
#if CKPT_TORCH_AT_LEAST(2, 8)
    {"torch.float4_e2m1fn_x2", at::ScalarType::Float4_e2m1fn_x2, at::kByte},  // that do not lie in a row
#endif
#if CKPT_TORCH_AT_LEAST(2, 15)
    {"torch.bcomplex32", at::ScalarType::BComplex32, at::ScalarType::UInt32},
#endif
};

int32_t dtype_of(at::ScalarType type) {
  for (const auto& [scalar, dtype] : types())
    if (scalar == type) return dtype;
  return 0;
}

std::optional<at::ScalarType> scalar_type_of(int32_t dtype) {
  for (const auto& [scalar, known] : types())
    if (known == dtype) return scalar;
  return std::nullopt;
}

std::optional<at::ScalarType> named_type(const std::string& name) {
  for (const NamedType& known : kNamedTypes)
    if (name == known.name) return known.type;
  return std::nullopt;
}

const NamedType* torchs_only(at::ScalarType type) {
  for (const NamedType& known : kNamedTypes)
    if (known.type == type) return &known;
  return nullptr;
}

at::Tensor countable(const at::Tensor& tensor) {
  const NamedType* known = torchs_only(tensor.scalar_type());
  return known ? tensor.view(known->integers) : tensor;
}

// Whether the engine counts two elements where LibTorch counts one.
static bool is_pair(int32_t dtype) { return dtype == CKPT_DTYPE_F4_E2M1FN; }

std::vector<int64_t> torch_shape(const ckpt::TensorInfo& info) {
  std::vector<int64_t> shape = ckpt::shape_of(info);
  if (!is_pair(info.dtype)) return shape;
  if (shape.empty() || shape.back() % 2 != 0)
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(info.name) + " is " + ckpt_dtype_name(info.dtype) + " of shape " + shape_text(shape) +
             ", and LibTorch has only pairs of those: rows of an even length",
         {{"tensor", info.name}});
  shape.back() /= 2;
  return shape;
}

std::optional<at::MemoryFormat> memory_format_of(const at::Tensor& tensor) {
  if (!is_dense(tensor) || tensor.is_contiguous()) return std::nullopt;
  for (const auto format : {at::MemoryFormat::ChannelsLast, at::MemoryFormat::ChannelsLast3d})
    if (tensor.dim() == (format == at::MemoryFormat::ChannelsLast ? 4 : 5) && tensor.is_contiguous(format))
      return format;
  return std::nullopt;
}

std::string type_name(at::ScalarType type) {
  int32_t dtype = dtype_of(type);
  return dtype ? ckpt_dtype_name(dtype) : c10::toString(type);
}

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

// ---- memory ----

// The stream of the caller's work. A LibTorch that does not tell CUDA's handle of it gets the work done first.
template <class Stream>
static auto stream_number(const Stream& stream, int) -> decltype(reinterpret_cast<int64_t>(stream.native_handle())) {
  const auto handle = reinterpret_cast<int64_t>(stream.native_handle());
  return handle == 0 ? 1 : handle;
}
template <class Stream>
static int64_t stream_number(const Stream& stream, ...) {
  stream.synchronize();
  return -1;
}

Memory memory_of(const at::Tensor& tensor, const std::string& name) {
  Memory memory{};
  ckpt_tensor_desc& desc = memory.desc;
  desc.struct_size = sizeof desc;
  desc.dtype = dtype_of(tensor.scalar_type());
  if (desc.dtype == 0)
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(name) + " is " + c10::toString(tensor.scalar_type()) + ", which ckpt does not store",
         {{"tensor", name}});
  if (tensor.dim() > CKPT_MAX_NDIM)
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(name) + " has " + std::to_string(tensor.dim()) + " dimensions, at most " +
             std::to_string(CKPT_MAX_NDIM) + " are stored",
         {{"tensor", name}});
  if (is_pair(desc.dtype) && (tensor.dim() == 0 || !tensor.is_contiguous()))
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(name) + " is " + c10::toString(tensor.scalar_type()) +
             " whose elements do not lie in a row: load it into one whose do",
         {{"tensor", name}});
  desc.ndim = static_cast<int32_t>(tensor.dim());
  desc.flags = tensor.is_contiguous() ? 0 : CKPT_TENSOR_STRIDED;
  int64_t last = 0;  // distance from the first element to the last, in elements
  for (int64_t d = 0; d < tensor.dim(); d++) {
    desc.shape[d] = tensor.size(d);
    desc.strides[d] = desc.flags ? tensor.stride(d) : 0;
    last += (tensor.size(d) - 1) * tensor.stride(d);
  }
  if (is_pair(desc.dtype)) desc.shape[tensor.dim() - 1] *= 2;
  if (tensor.numel() == 0) return memory;
  memory.data = tensor.data_ptr();
  memory.bytes = static_cast<uint64_t>(last + 1) * tensor.element_size();
  if (tensor.is_cuda()) {
    memory.device = {CKPT_DEVICE_CUDA, static_cast<int32_t>(tensor.get_device())};
    const c10::impl::VirtualGuardImpl guard(tensor.device().type());
    desc.stream = stream_number(guard.getStream(tensor.device()), 0);
  }
  return memory;
}

bool is_dense(const at::Tensor& tensor) { return tensor.layout() == at::kStrided && !tensor.is_quantized(); }

// ROCm's LibTorch calls its devices CUDA.
bool is_reachable(const at::Tensor& tensor) { return tensor.is_cpu() || (tensor.is_cuda() && !at::hasHIP()); }

at::Tensor to_plain(const at::Tensor& tensor) {
  at::NoGradGuard no_grad;
  at::Tensor plain = tensor.detach();
  if (plain._is_zerotensor()) plain = plain.clone();
  plain = plain.resolve_conj().resolve_neg();
  return is_reachable(plain) ? plain : plain.to(at::kCPU);
}

}  // namespace internal
}  // namespace ckpt_torch
