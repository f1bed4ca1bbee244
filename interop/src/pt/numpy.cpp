#include "interop/src/pt/numpy.h"

#include "interop/src/json.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kNumpyModules[] = {"numpy.core.", "numpy._core."};

// "multiarray scalar" of "numpy.core.multiarray scalar".
std::string_view numpy_function(std::string_view class_name) {
  for (const std::string_view module : kNumpyModules)
    if (class_name.starts_with(module)) return class_name.substr(module.size());
  return {};
}

struct NumpyDtype {
  std::string_view name;  // "": numpy has none
  uint16_t dtype;
};
constexpr NumpyDtype kNumpyDtypes[] = {
#define CKPT_DTYPE_ROW(constant, name, exponent, mantissa, bias, specials, torch, storage, safetensors, numpy) \
  {numpy, CKPT_DTYPE_##constant},
#include "base/dtypes.def"
#undef CKPT_DTYPE_ROW
};

const PickleValue* item(const PickleDocument& pickle, PickleRef list, size_t i) {
  if (list == kNoValue || pickle[list].kind != PickleKind::kTuple || i >= pickle[list].items.size()) return nullptr;
  return &pickle[pickle[list].items[i]];
}

PickleRef item_ref(const PickleDocument& pickle, PickleRef list, size_t i) {
  return item(pickle, list, i) ? pickle[list].items[i] : kNoValue;
}

bool is_text(const PickleValue* value) {
  return value && (value->kind == PickleKind::kText || value->kind == PickleKind::kBytes);
}
bool is_bytes(const PickleValue* value) {
  return value && (value->kind == PickleKind::kBytes || value->kind == PickleKind::kByteArray);
}

// Of dtype("f8", False, True) with state (3, "<", None, …), if it is a plain one, without fields or an array inside, of
// little-endian numbers; 0 else.
uint16_t dtype_of(const PickleDocument& pickle, PickleRef ref) {
  if (ref == kNoValue || pickle.class_of(ref) != "numpy dtype" || pickle[ref].kind != PickleKind::kObject) return 0;
  const PickleValue *name = item(pickle, pickle[ref].args(), 0), *order = item(pickle, pickle[ref].state(), 1);
  const PickleValue *inside = item(pickle, pickle[ref].state(), 2), *names = item(pickle, pickle[ref].state(), 3);
  if ((inside && inside->kind != PickleKind::kNone) || (names && names->kind != PickleKind::kNone)) return 0;
  if (!is_text(name) || (is_text(order) && order->text == ">")) return 0;
  return dtype_of_numpy(name->text);
}

enum class Order { kRows, kColumns, kAxes, kUnknown };

// What makes an array: _reconstruct(ndarray, (0,), b"b") with state (1, shape, dtype, is_fortran, data), or, since
// protocol 5, _frombuffer(data, dtype, shape, "C"); or "K" and axes, by which what has that shape is transposed.
struct ArrayParts {
  PickleRef shape = kNoValue, dtype = kNoValue;
  const PickleValue* data = nullptr;
  Order order = Order::kRows;
  PickleRef axes = kNoValue;
};

Order order_of(const PickleValue* order, PickleRef axes) {
  if (!is_text(order)) return Order::kUnknown;
  if (order->text == "K" && axes != kNoValue) return Order::kAxes;
  return order->text == "C" ? Order::kRows : order->text == "F" ? Order::kColumns : Order::kUnknown;
}

ArrayParts parts_of(const PickleDocument& pickle, PickleRef ref) {
  const PickleValue& object = pickle[ref];
  const std::string_view function = numpy_function(pickle.class_of(ref));
  auto argument = [&](size_t i) { return item_ref(pickle, object.args(), i); };
  if (function == "numeric _frombuffer")
    return {argument(2), argument(1), item(pickle, object.args(), 0),
            order_of(item(pickle, object.args(), 3), argument(4)), argument(4)};
  const PickleValue* type = item(pickle, object.args(), 0);
  const bool plain = type && type->kind == PickleKind::kName && type->text == "numpy ndarray";
  if (function != "multiarray _reconstruct" || !plain) return {};
  const PickleValue* fortran = item(pickle, object.state(), 3);
  const bool columns = fortran && fortran->kind == PickleKind::kBool && fortran->integer != 0;
  return {item_ref(pickle, object.state(), 1), item_ref(pickle, object.state(), 2), item(pickle, object.state(), 4),
          columns ? Order::kColumns : Order::kRows, kNoValue};
}

// Dimension i becomes what dimension axes[i] was.
Status transpose(const PickleDocument& pickle, PickleRef ref, PtTensor* tensor) {
  CKPT_ASSIGN(const std::vector<int64_t> axes, integers_of(pickle, ref));
  const PtTensor from = *tensor;
  uint32_t seen = 0;
  for (const int64_t axis : axes) seen |= axis >= 0 && axis < from.shape.ndim ? 1u << axis : 0;
  if (axes.size() != static_cast<size_t>(from.shape.ndim) || seen != (1u << from.shape.ndim) - 1)
    return Status(CKPT_FORMAT, strformat("numpy: axes that are no order of {} dimensions", from.shape.ndim));
  for (size_t i = 0; i < axes.size(); i++) {
    tensor->shape.dims[i] = from.shape.dims[static_cast<size_t>(axes[i])];
    tensor->strides[i] = from.strides[static_cast<size_t>(axes[i])];
  }
  return Ok();
}

}  // namespace

PtObjectKind kind_of_numpy(const PickleDocument& pickle, PickleRef ref) {
  const PickleValue& object = pickle[ref];
  if (numpy_function(pickle.class_of(ref)) == "multiarray scalar") {
    const bool number = dtype_of(pickle, item_ref(pickle, object.args(), 0)) != 0;
    return number && is_bytes(item(pickle, object.args(), 1)) ? PtObjectKind::kNumpyScalar : PtObjectKind::kNotOurs;
  }
  const ArrayParts parts = parts_of(pickle, ref);
  const bool known = parts.shape != kNoValue && is_bytes(parts.data) && dtype_of(pickle, parts.dtype) != 0;
  return known ? PtObjectKind::kNumpyArray : PtObjectKind::kNotOurs;
}

Result<PtTensor> tensor_of_array(const PickleDocument& pickle, PickleRef ref) {
  const ArrayParts parts = parts_of(pickle, ref);
  if (parts.order == Order::kUnknown) return Status(CKPT_FORMAT, "numpy: an array whose order is none of C, F and K");
  PtTensor tensor;
  tensor.dtype = dtype_of(pickle, parts.dtype);
  tensor.storage = as_bytes(parts.data->text);
  CKPT_ASSIGN(const std::vector<int64_t> extents, integers_of(pickle, parts.shape));
  if (extents.size() > static_cast<size_t>(kMaxNdim))
    return Status(CKPT_UNSUPPORTED, strformat("numpy: {} dimensions, at most {}", extents.size(), kMaxNdim));
  tensor.shape.ndim = static_cast<int>(extents.size());
  for (size_t i = 0; i < extents.size(); i++) {
    if (extents[i] < 0) return Status(CKPT_FORMAT, "numpy: a negative extent");
    tensor.shape.dims[i] = static_cast<uint64_t>(extents[i]);
  }
  uint64_t count, bytes;
  if (!count_elements(tensor.shape.span(), &count) || !count_bytes(count, tensor.dtype, &bytes) ||
      bytes != tensor.storage.size())
    return Status(CKPT_FORMAT,
                  strformat("numpy: an array of shape {} in {} bytes", to_text(tensor.shape), tensor.storage.size()))
        .with("found", tensor.storage.size());
  // In an array with elements every partial product is at most their number.
  int64_t step = 1;
  for (int n = 0; n < tensor.shape.ndim; n++) {
    const auto i = static_cast<size_t>(parts.order == Order::kColumns ? n : tensor.shape.ndim - 1 - n);
    tensor.strides[i] = count == 0 ? 0 : step;
    if (count != 0) step *= static_cast<int64_t>(tensor.shape.dims[i]);
  }
  if (parts.order == Order::kAxes) CKPT_TRY(transpose(pickle, parts.axes, &tensor));
  return tensor;
}

Result<PtTensor> tensor_of_scalar(const PickleDocument& pickle, PickleRef ref) {
  PtTensor tensor;
  tensor.dtype = dtype_of(pickle, item_ref(pickle, pickle[ref].args(), 0));
  tensor.storage = as_bytes(item(pickle, pickle[ref].args(), 1)->text);
  if (tensor.storage.size() * 8 != static_cast<uint64_t>(dtype_bits(tensor.dtype)))
    return Status(CKPT_FORMAT,
                  strformat("numpy: a scalar of {} bits in {} bytes", dtype_bits(tensor.dtype), tensor.storage.size()));
  return tensor;
}

uint16_t dtype_of_numpy(std::string_view code) {
  for (const NumpyDtype& row : kNumpyDtypes)
    if (!code.empty() && row.name == code) return row.dtype;
  return 0;
}

std::string_view numpy_code(uint16_t dtype) {
  for (const NumpyDtype& row : kNumpyDtypes)
    if (row.dtype == dtype) return row.name;
  return {};
}

}  // namespace ckpt::interop
