#include "interop/src/pt/encoder.h"

#include <utility>

#include "interop/src/pt/dtype.h"
#include "interop/src/pt/memory_format.h"

namespace ckpt::interop {

using tree::kNoNode;

namespace {

constexpr std::string_view kUntyped = "UntypedStorage";

// The class of storage of old that torch keeps a dtype in, or null. `name` is torch's where ours does not say all.
const char* typed(uint16_t dtype, std::string_view name) {
  if (const char* quantized = quantized_storage(name)) return quantized;
  // torch itself writes complex32 only by an untyped one.
  return name.empty() && dtype != CKPT_DTYPE_C32 ? storage_of_dtype(dtype) : nullptr;
}

Result<std::string_view> storage_type(uint16_t dtype, std::string_view name) {
  if (const char* type = typed(dtype, name)) return std::string_view(type);
  if (!name.empty() || torch_name_of_dtype(dtype)) return kUntyped;
  const std::string found = strformat("{} (0x{:04x})", ckpt_dtype_name(dtype), dtype);
  return Status(CKPT_UNSUPPORTED, "torch has no dtype " + found).with("found", found);
}

// Of a tensor's elements in memory; empty for row-major ones.
Result<std::vector<int>> axes_of(std::string_view memory_format, const TensorRange& whole) {
  if (memory_format.empty()) return std::vector<int>();
  for (const MemoryFormat& format : kMemoryFormats)
    if (format.name == memory_format && format.ndim == whole.shape.ndim && dtype_bits(whole.dtype) >= 8)
      return std::vector<int>(format.axes().begin(), format.axes().end());
  return Status(CKPT_FORMAT,
                "memory_format " + ckpt::in_quotes(memory_format) +
                    strformat(" of a tensor of {} dimensions of {}", whole.shape.ndim, ckpt_dtype_name(whole.dtype)))
      .with("found", std::string(memory_format));
}

}  // namespace

const char* quantized_storage(std::string_view dtype) {
  if (dtype == "qint8") return "QInt8Storage";
  if (dtype == "quint8") return "QUInt8Storage";
  return dtype == "qint32" ? "QInt32Storage" : nullptr;
}

Status PtEncoder::refuse(ckpt_status code, const TreeNode& node, const std::string& what) const {
  const std::string path = interop::place_of(tree_, number_of(node));
  return Status(code, "at " + ckpt::in_quotes(path) + ": " + what).with("tensor", path);
}

// ---- values ----

Status PtEncoder::value(uint32_t node) { return put(node); }

Status PtEncoder::value(uint32_t node, const Keep& keep) {
  keep_ = keep;
  Status status = put(node);
  keep_ = {};
  return status;
}

Status PtEncoder::put(uint32_t number) {
  const TreeNode& node = tree_[number];
  switch (node.kind) {
    case CKPT_NODE_TENSOR:
      return leaf(node, {});
    case CKPT_NODE_LIST:
    case CKPT_NODE_TUPLE:
    case CKPT_NODE_SET:
      return sequence(node);
    case CKPT_NODE_DICT:
      pickle_.empty_dict();
      return dict(node);
    case CKPT_NODE_RECORD:
      return record(node);
    default: {
      Status status = scalar(node);
      return status.ok() ? status : refuse(status.code(), node, status.message());
    }
  }
}

Status PtEncoder::scalar(const TreeNode& node) {
  switch (node.kind) {
    case CKPT_NODE_NULL:
      pickle_.none();
      return Ok();
    case CKPT_NODE_BOOL:
      pickle_.boolean(node.integer != 0);
      return Ok();
    case CKPT_NODE_INT:
      pickle_.integer(node.integer);
      return Ok();
    case CKPT_NODE_BIGINT:
      return pickle_.big_integer(node.text_view());
    case CKPT_NODE_FLOAT:
      pickle_.real(node.real);
      return Ok();
    case CKPT_NODE_TEXT:
      return pickle_.text(node.text_view());
    case CKPT_NODE_BYTES:
      return pickle_.bytes(node.text_view());
    default:
      return Status(CKPT_UNSUPPORTED, strformat("a node of kind {}", node.kind));
  }
}

Status PtEncoder::sequence(const TreeNode& node) {
  const bool set = node.kind == CKPT_NODE_SET, tuple = node.kind == CKPT_NODE_TUPLE;
  if (set && node.child_count == 0) {
    pickle_.empty_set();  // which torch 1 reads, too
    return Ok();
  }
  if (set) pickle_.global("__builtin__", "set");
  tuple ? pickle_.begin_tuple() : pickle_.begin_list();
  for (uint32_t child = first_child(node); child != kNoNode; child = tree_[child].next) CKPT_TRY(put(child));
  tuple ? pickle_.end_tuple() : pickle_.end_list();
  if (!set) return Ok();
  pickle_.tuple1();
  pickle_.reduce();
  return Ok();
}

Status PtEncoder::key(uint32_t number) {
  const TreeNode& node = tree_[number];
  if (node.key_kind == CKPT_KEY_TEXT) return pickle_.text(node.key_view());
  pickle_.integer(node.place);
  return Ok();
}

// Into the dict that was begun.
Status PtEncoder::dict(const TreeNode& node) {
  pickle_.begin_items();
  for (uint32_t child = first_child(node); child != kNoNode; child = tree_[child].next) {
    if (keep_ && !keep_(child)) continue;
    CKPT_TRY(key(child));
    CKPT_TRY(put(child));
  }
  pickle_.end_items();
  return Ok();
}

// The same of [(key, value), …].
Status PtEncoder::pairs(const TreeNode& list) {
  pickle_.begin_items();
  for (uint32_t child = first_child(list); child != kNoNode; child = tree_[child].next) {
    const TreeNode& pair = tree_[child];
    if (pair.child_count != 2) return refuse(CKPT_FORMAT, pair, "expected a pair of key and value");
    CKPT_TRY(key_value(first_child(pair)));
    CKPT_TRY(put(tree_[first_child(pair)].next));
  }
  pickle_.end_items();
  return Ok();
}

// Whether torch.load makes something of it that a dict takes as a key.
bool PtEncoder::can_be_key(uint32_t number) const {
  const TreeNode& node = tree_[number];
  if (node.kind == CKPT_NODE_RECORD) {
    const std::string_view name = node.text_view();
    for (const char* known : {"torch.dtype", "torch.device", "torch.layout", "torch.Size", "builtins.complex"})
      if (name == known) return true;
    return is_number(node);
  }
  if (node.kind != CKPT_NODE_TUPLE) return node.kind < CKPT_NODE_LIST;
  for (uint32_t child = first_child(node); child != kNoNode; child = tree_[child].next)
    if (!can_be_key(child)) return false;
  return true;
}

Status PtEncoder::key_value(uint32_t number) {
  const TreeNode& node = tree_[number];
  if (can_be_key(number)) return put(number);
  const bool is_record = node.kind == CKPT_NODE_RECORD;
  // opaque=dict leaves of a class what is said of it; of one that is a key, its name.
  if (is_record && options_.opaque_as_dict && node.text_view() == "builtins.type")
    return pickle_.text(text(node, "name"));
  const std::string what = is_record ? "an object of class " + std::string(node.text_view()) : "a container";
  return refuse(CKPT_UNSUPPORTED, node, what + " as the key of a dict")
      .with("found", is_record ? std::string(node.text_view()) : what);
}

// ---- tensors ----

Result<PtPlace> PtEncoder::place_of(const TreeNode& leaf, const Look& look) {
  if (leaf.kind != CKPT_NODE_TENSOR) return refuse(CKPT_FORMAT, leaf, "expected a tensor");
  const std::string name(leaf.text_view());
  const auto find = [&]() -> Result<PtPlace> {
    CKPT_ASSIGN(const TensorRange whole, whole_of(state_, name));
    CKPT_ASSIGN(const std::string_view type, storage_type(whole.dtype, look.dtype));
    CKPT_ASSIGN(const std::string target, target_of(state_, name));
    CKPT_ASSIGN(const std::vector<int> axes, axes_of(look.memory_format, whole));
    return options_.apart.contains(target) ? storages_.place_alone(name, type, axes)
                                           : storages_.place(name, type, axes);
  };
  Result<PtPlace> place = find();
  if (place.ok()) return place;
  Status status = refuse(place.status().code(), leaf, place.status().message());
  const std::string* found = place.status().detail("found");
  return found ? std::move(status).with("found", *found) : std::move(status);
}

Status PtEncoder::leaf(const TreeNode& node, const Look& look) {
  CKPT_ASSIGN(const PtPlace place, place_of(node, look));
  return tensor(place, look);
}

Status PtEncoder::piece(const std::string& name, uint64_t begin, uint64_t size) {
  CKPT_ASSIGN(const TensorRange whole, whole_of(state_, name));
  CKPT_ASSIGN(const std::string_view type, storage_type(whole.dtype, {}));
  CKPT_ASSIGN(const PtPlace place, storages_.place_range(name, type, begin, size));
  return tensor(place, {});
}

Status PtEncoder::rows(const std::string& name, uint64_t begin, uint64_t count) {
  CKPT_ASSIGN(const TensorRange all, whole_of(state_, name));
  CKPT_ASSIGN(const std::string_view type, storage_type(all.dtype, {}));
  const uint64_t row = all.shape[0] == 0 ? 0 : all.size / all.shape[0];
  CKPT_ASSIGN(PtPlace place, storages_.place_range(name, type, begin * row, count * row));
  place.shape = all.shape;
  place.shape[0] = count;
  place.strides = row_major(place.shape);
  return tensor(place, {});
}

Status PtEncoder::box(const std::string& name, const Box& box) {
  CKPT_ASSIGN(const TensorRange all, whole_of(state_, name));
  CKPT_ASSIGN(const std::string_view type, storage_type(all.dtype, {}));
  CKPT_ASSIGN(const PtPlace place, storages_.place_box(name, type, box));
  return tensor(place, {});
}

Status PtEncoder::whole(const std::string& name) {
  CKPT_ASSIGN(const TensorRange all, whole_of(state_, name));
  CKPT_ASSIGN(const std::string_view type, storage_type(all.dtype, {}));
  CKPT_ASSIGN(const PtPlace place, storages_.place_alone(name, type, {}));
  return tensor(place, {});
}

Status PtEncoder::tensor(const PtPlace& place, const Look& look) {
  tensor_function(place, look);
  CKPT_TRY(tensor_arguments(place, look));
  pickle_.reduce();
  return Ok();
}

void PtEncoder::tensor_function(const PtPlace& place, const Look& look) {
  pickle_.global("torch._utils", typed(place.dtype, look.dtype) ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
}

// (storage, offset, size, stride, requires_grad, hooks[, dtype][, metadata])
Status PtEncoder::tensor_arguments(const PtPlace& place, const Look& look) {
  const char* type = typed(place.dtype, look.dtype);
  pickle_.begin_tuple();
  CKPT_TRY(storage(place, type ? type : kUntyped));
  shape(place);
  pickle_.boolean(look.requires_grad);
  pickle_.ordered_dict();
  if (!type) pickle_.global("torch", look.dtype.empty() ? torch_name_of_dtype(place.dtype) : look.dtype);
  if (look.conj || look.neg) {
    pickle_.empty_dict();
    pickle_.begin_items();
    if (look.conj) CKPT_TRY(pickle_.text("conj"));
    if (look.conj) pickle_.boolean(true);
    if (look.neg) CKPT_TRY(pickle_.text("neg"));
    if (look.neg) pickle_.boolean(true);
    pickle_.end_items();
  }
  pickle_.end_tuple();
  return Ok();
}

// ("storage", torch.FloatStorage, "0", "cpu", elements)
Status PtEncoder::storage(const PtPlace& place, std::string_view type) {
  const PtStorage& found = storages_.storages()[place.storage];
  pickle_.begin_tuple();
  CKPT_TRY(pickle_.text("storage"));
  pickle_.global(type == kUntyped ? "torch.storage" : "torch", type);
  CKPT_TRY(pickle_.text(std::to_string(place.storage)));
  CKPT_TRY(pickle_.text("cpu"));
  pickle_.integer(static_cast<int64_t>(type == kUntyped ? found.bytes : found.range.size));
  pickle_.end_tuple();
  pickle_.persistent();
  return Ok();
}

void PtEncoder::shape(const PtPlace& place) {
  pickle_.integer(static_cast<int64_t>(place.offset));
  pickle_.extents(place.shape);
  pickle_.integers({place.strides.data(), static_cast<size_t>(place.shape.ndim)});
}

void PtEncoder::size(const Shape& shape) {
  pickle_.global("torch", "Size");
  pickle_.extents(shape);
  pickle_.tuple1();
  pickle_.reduce();
}

}  // namespace ckpt::interop
