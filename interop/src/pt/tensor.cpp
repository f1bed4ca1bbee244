#include "interop/src/pt/tensor.h"

#include <algorithm>

#include "interop/src/json.h"
#include "interop/src/pickle/names.h"
#include "interop/src/pt/dtype.h"
#include "interop/src/pt/memory_format.h"
#include "interop/src/pt/numpy.h"
#include "interop/src/strides.h"

namespace ckpt::interop {

namespace {

constexpr size_t kMaxMetadata = 16;  // entries; torch has two, backends may add theirs

struct Kind {
  std::string_view function;
  PtObjectKind kind;
};
constexpr Kind kKinds[] = {
    {"_rebuild_tensor", PtObjectKind::kTensor},
    {"_rebuild_tensor_v2", PtObjectKind::kTensor},
    {"_rebuild_tensor_v3", PtObjectKind::kTensor},
    {"_rebuild_parameter", PtObjectKind::kParameter},
    {"_rebuild_parameter_with_state", PtObjectKind::kParameter},
    {"_rebuild_from_type", PtObjectKind::kSubclass},
    {"_rebuild_from_type_v2", PtObjectKind::kSubclass},
    {"_rebuild_sparse_tensor", PtObjectKind::kSparse},
    {"_rebuild_sparse_csr_tensor", PtObjectKind::kSparse},
    {"_rebuild_qtensor", PtObjectKind::kQuantized},
    {"_rebuild_meta_tensor_no_storage", PtObjectKind::kMeta},
};

Status tensor_error(ckpt_status code, const PtTensor& tensor, const std::string& what) {
  return Status(code, "tensor in storage " + shown(tensor.storage_key) + ": " + what);
}

// The storage behind a persistent id, and the dtype that its type says.
Status set_storage(const PtSource& source, PickleRef ref, PtTensor* tensor) {
  CKPT_ASSIGN(const StorageId id, storage_id_of(source.pickle(), ref));
  const TorchDtype dtype = torch_dtype_of_storage(id.type);
  tensor->storage_key = id.is_view ? id.view_key : id.key;
  tensor->location = id.location;
  tensor->dtype = dtype.dtype;
  tensor->torch_dtype = dtype.name;
  if (dtype.dtype == 0)
    return tensor_error(CKPT_UNSUPPORTED, *tensor, "unknown type of storage " + shown(id.type))
        .with("found", std::string(id.type));
  if (id.location == "meta") return tensor_error(CKPT_UNSUPPORTED, *tensor, "it is on device meta: no data was saved");
  const Bytes* bytes = source.storage(tensor->storage_key);
  if (!bytes) return tensor_error(CKPT_FORMAT, *tensor, "the file has no such storage");
  CKPT_TRY(source.damage_of(tensor->storage_key));
  const uint64_t width = static_cast<uint64_t>(std::max(dtype_bits(dtype.dtype), 8)) / 8;
  const uint64_t count = id.is_view ? id.view_count : id.count;
  // The older form counts the elements of whichever type came first, and was checked when it was read.
  if (!source.legacy() && count > bytes->size() / width)
    return tensor_error(CKPT_FORMAT, *tensor,
                        strformat("storage of {} bytes: expected {} elements of {}", bytes->size(), count, width))
        .with("expected", count)
        .with("found", bytes->size() / width);
  tensor->storage = source.legacy() ? *bytes : bytes->first(count * width);
  return Ok();
}

Status set_shape(const PickleDocument& pickle, PickleRef size, PickleRef stride, PtTensor* tensor) {
  CKPT_ASSIGN(const std::vector<int64_t> extents, integers_of(pickle, size));
  CKPT_ASSIGN(const std::vector<int64_t> strides, integers_of(pickle, stride));
  if (extents.size() > static_cast<size_t>(kMaxNdim))
    return tensor_error(CKPT_UNSUPPORTED, *tensor, strformat("{} dimensions, at most {}", extents.size(), kMaxNdim));
  if (extents.size() != strides.size())
    return tensor_error(CKPT_FORMAT, *tensor,
                        strformat("{} dimensions, but {} strides", extents.size(), strides.size()));
  tensor->shape.ndim = static_cast<int>(extents.size());
  for (size_t i = 0; i < extents.size(); i++) {
    if (extents[i] < 0 || strides[i] < 0)
      return tensor_error(CKPT_FORMAT, *tensor,
                          strformat("dimension {}: extent {}, stride {}", i, extents[i], strides[i]));
    tensor->shape.dims[i] = static_cast<uint64_t>(extents[i]);
    tensor->strides[i] = strides[i];
  }
  return Ok();
}

// metadata = {"conj": True, "neg": True}. Many tensors may have the same one.
Status set_flags(const PickleDocument& pickle, PickleRef metadata, PtTensor* tensor) {
  if (pickle[metadata].kind != PickleKind::kDict) return Ok();
  const size_t entries = pickle[metadata].items.size() / 2;
  if (entries > kMaxMetadata)
    return tensor_error(CKPT_UNSUPPORTED, *tensor,
                        strformat("metadata of {} entries, at most {}", entries, kMaxMetadata))
        .with("expected", kMaxMetadata)
        .with("found", entries);
  auto is_set = [&](const char* key) {
    const PickleRef value = pickle.find(metadata, key);
    return value != kNoValue && pickle[value].kind == PickleKind::kBool && pickle[value].integer != 0;
  };
  tensor->conj = is_set("conj");
  tensor->neg = is_set("neg");
  return Ok();
}

Status set_dtype(const PickleDocument& pickle, PickleRef ref, PtTensor* tensor) {
  const std::string_view name = pickle[ref].kind == PickleKind::kName ? pickle[ref].text : "";
  const TorchDtype dtype = torch_dtype_of_name(name);
  if (dtype.dtype == 0)
    return tensor_error(CKPT_UNSUPPORTED, *tensor, "unknown dtype " + shown(pickle[ref].text))
        .with("found", std::string(pickle[ref].text));
  tensor->dtype = dtype.dtype;
  tensor->torch_dtype = dtype.name;
  return Ok();
}

// torch's element of float4_e2m1fn_x2 is a byte of two of ours, neighbours in the last dimension. Elements that do not
// lie in a row, and a single one, stay bytes with torch's name.
Status split_pairs(PtTensor* tensor) {
  if (tensor->dtype != CKPT_DTYPE_F4_E2M1FN) return Ok();
  PtTensor bytes = *tensor;
  bytes.dtype = CKPT_DTYPE_U8;
  bytes.torch_dtype = "float4_e2m1fn_x2";
  CKPT_TRY(check_bounds(bytes));
  const int last = tensor->shape.ndim - 1;
  if (last < 0 || !bytes.contiguous() || tensor->shape[last] >> 62 != 0) {
    *tensor = std::move(bytes);
    return Ok();
  }
  tensor->shape[last] *= 2;
  tensor->strides = row_major(tensor->shape);
  if (bytes.elements() != 0) tensor->offset *= 2;
  return Ok();
}

Result<PtTensor> whole_storage(const PtSource& source, PickleRef ref) {
  PtTensor tensor;
  CKPT_TRY(set_storage(source, ref, &tensor));
  tensor.shape.ndim = 1;
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): set_storage knows no dtype without a width
  tensor.shape.dims[0] = tensor.storage.size() * 8 / static_cast<uint64_t>(dtype_bits(tensor.dtype));
  tensor.strides[0] = 1;
  return tensor;
}

const Kind* kind_of_function(std::string_view function) {
  for (const Kind& row : kKinds)
    if (row.function == function) return &row;
  return nullptr;
}

}  // namespace

std::string_view torch_function(std::string_view class_name) {
  for (const std::string_view module : {"torch._utils ", "torch._tensor ", "torch.tensor "})
    if (class_name.starts_with(module)) return class_name.substr(module.size());
  return {};
}

PtObjectKind kind_of(const PtSource& source, PickleRef ref) {
  const PickleDocument& pickle = source.pickle();
  if (pickle[ref].kind == PickleKind::kPersistent) return PtObjectKind::kStorage;
  if (pickle[ref].kind != PickleKind::kObject) return PtObjectKind::kNotOurs;
  const std::string_view function = torch_function(pickle.class_of(ref));
  if (function.empty()) return kind_of_numpy(pickle, ref);
  const Kind* row = kind_of_function(function);
  return row ? row->kind : PtObjectKind::kNotOurs;
}

bool makes_tensor(std::string_view function) {
  const Kind* row = kind_of_function(function);
  return row && (row->kind == PtObjectKind::kTensor || row->kind == PtObjectKind::kQuantized);
}

// (storage, offset, size, stride[, requires_grad, hooks[, metadata]]); v3 has the dtype before the metadata, and
// qtensor the quantizer before requires_grad.
Result<PtTensor> tensor_of_args(const PtSource& source, std::string_view function, PickleRef args) {
  const PickleDocument& pickle = source.pickle();
  const bool v3 = function == "_rebuild_tensor_v3", quantized = function == "_rebuild_qtensor";
  const size_t least = v3 || quantized ? 7 : function == "_rebuild_tensor" ? 4 : 6;
  if (args == kNoValue || pickle[args].kind != PickleKind::kTuple || pickle[args].items.size() < least)
    return Status(CKPT_FORMAT, std::string(function) + strformat(": expected {} arguments", least));
  const std::span<const PickleRef> items = pickle[args].items;
  PtTensor tensor;
  CKPT_TRY(set_storage(source, items[0], &tensor));
  if (v3) CKPT_TRY(set_dtype(pickle, items[6], &tensor));
  CKPT_TRY(set_shape(pickle, items[2], items[3], &tensor));
  const PickleValue& offset = pickle[items[1]];
  if (offset.kind != PickleKind::kInt || offset.integer < 0)
    return tensor_error(CKPT_FORMAT, tensor, "its offset is no number");
  tensor.offset = static_cast<uint64_t>(offset.integer);
  const size_t grad = quantized ? 5 : 4;
  if (items.size() > grad)
    tensor.requires_grad = pickle[items[grad]].kind == PickleKind::kBool && pickle[items[grad]].integer;
  const size_t metadata = v3 ? 7 : 6;
  if (!quantized && items.size() > metadata) CKPT_TRY(set_flags(pickle, items[metadata], &tensor));
  CKPT_TRY(split_pairs(&tensor));
  CKPT_TRY(check_bounds(tensor));
  return tensor;
}

Result<PtTensor> tensor_of(const PtSource& source, PickleRef ref) {
  const PickleDocument& pickle = source.pickle();
  switch (kind_of(source, ref)) {
    case PtObjectKind::kTensor:
    case PtObjectKind::kQuantized:
      return tensor_of_args(source, torch_function(pickle.class_of(ref)), pickle[ref].args());
    case PtObjectKind::kStorage:
      return whole_storage(source, ref);
    case PtObjectKind::kNumpyArray:
      return tensor_of_array(pickle, ref);
    case PtObjectKind::kNumpyScalar:
      return tensor_of_scalar(pickle, ref);
    case PtObjectKind::kMeta:
      return Status(CKPT_UNSUPPORTED, "a tensor on device meta: no data was saved");
    case PtObjectKind::kParameter: {
      const PickleRef args = pickle[ref].args();
      const bool has_data = args != kNoValue && !pickle[args].items.empty();
      const PickleRef data = has_data ? pickle[args].items[0] : kNoValue;
      if (data != kNoValue && kind_of(source, data) == PtObjectKind::kTensor) return tensor_of(source, data);
      return Status(CKPT_UNSUPPORTED, "a parameter whose data is no plain tensor");
    }
    default:
      return Status(CKPT_FORMAT, "not a tensor");
  }
}

Result<std::vector<int64_t>> integers_of(const PickleDocument& pickle, PickleRef ref) {
  // torch.Size((2, 3))
  if (pickle[ref].kind == PickleKind::kObject && pickle.class_of(ref) == "torch Size" &&
      pickle[ref].args() != kNoValue && pickle[pickle[ref].args()].items.size() == 1)
    ref = pickle[pickle[ref].args()].items[0];
  const PickleValue& list = pickle[ref];
  if (list.kind != PickleKind::kTuple && list.kind != PickleKind::kList)
    return Status(CKPT_FORMAT, "expected a tuple of numbers");
  std::vector<int64_t> numbers;
  for (const PickleRef item : list.items) {
    if (pickle[item].kind != PickleKind::kInt) return Status(CKPT_FORMAT, "expected a tuple of numbers");
    numbers.push_back(pickle[item].integer);
  }
  return numbers;
}

// ---- PtTensor ----

uint64_t PtTensor::elements() const {
  uint64_t count;
  count_elements(shape.span(), &count);  // was checked
  return count;
}

uint64_t PtTensor::span() const {
  if (elements() == 0) return 0;
  uint64_t last = 0;
  for (int i = 0; i < shape.ndim; i++) last += (shape[i] - 1) * static_cast<uint64_t>(strides[static_cast<size_t>(i)]);
  return last + 1;
}

bool PtTensor::contiguous() const { return elements() == 0 || is_row_major(shape, strides); }

const char* PtTensor::memory_format() const {
  if (contiguous()) return nullptr;
  for (const MemoryFormat& format : kMemoryFormats)
    if (shape.ndim == format.ndim && same_places(shape, strides, strides_of(shape, format.axes()))) return format.name;
  return nullptr;
}

Bytes PtTensor::bytes() const {
  const uint64_t count = span(), bits = static_cast<uint64_t>(dtype_bits(dtype));
  return storage.subspan(count == 0 ? 0 : offset * bits / 8, (count * bits + 7) / 8);
}

Status check_bounds(const PtTensor& tensor) {
  uint64_t count, bytes;
  if (!count_elements(tensor.shape.span(), &count) || !count_bytes(count, tensor.dtype, &bytes))
    return tensor_error(CKPT_FORMAT, tensor, "shape " + to_text(tensor.shape) + " has more elements than fit 63 bits");
  if (count == 0) return Ok();
  uint64_t end = 0;
  bool overflow = false;
  for (int i = 0; i < tensor.shape.ndim; i++) {
    uint64_t step = 0;
    overflow |=
        mul_overflows(tensor.shape[i] - 1, static_cast<uint64_t>(tensor.strides[static_cast<size_t>(i)]), &step);
    overflow |= add_overflows(end, step, &end);
  }
  overflow |= add_overflows(end, tensor.offset, &end) || add_overflows(end, 1, &end);
  const uint64_t bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  const uint64_t room = tensor.storage.size() * 8 / bits;  // a file in memory is smaller than 2^61 bytes
  if (overflow || end > room)
    return tensor_error(CKPT_FORMAT, tensor,
                        strformat("shape {} at element {} reaches past its {} elements", to_text(tensor.shape),
                                  tensor.offset, room))
        .with("expected", room)
        .with("found", overflow ? UINT64_MAX : end);
  if (bits % 8 != 0 && (!tensor.contiguous() || tensor.offset * bits % 8 != 0))
    return tensor_error(CKPT_UNSUPPORTED, tensor, "packed elements that do not lie one after another");
  return Ok();
}

}  // namespace ckpt::interop
