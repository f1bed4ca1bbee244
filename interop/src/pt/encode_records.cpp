// Records of torch's and Python's classes (schemas/STATE_TREE.md) as what torch.load makes these objects of.
#include <algorithm>

#include "interop/src/pt/dtype.h"
#include "interop/src/pt/encoder.h"

namespace ckpt::interop {

using tree::kNoNode;

struct PtEncoder::Row {
  std::string_view class_name;
  Encode encode;
};

namespace {

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Classes whose objects only hold what they are made of: to make one runs nothing that a file could choose.
constexpr std::string_view kHarmless[] = {"datetime.date",
                                          "datetime.datetime",
                                          "datetime.time",
                                          "datetime.timedelta",
                                          "pathlib.PosixPath",
                                          "pathlib.PurePosixPath",
                                          "pathlib._local.PosixPath",
                                          "torch.torch_version.TorchVersion"};

bool is_storage_class(std::string_view name) {
  return name.starts_with("torch.") && name.ends_with("Storage") && torch_dtype_of_storage(name).dtype != 0;
}

}  // namespace

const PtEncoder::Row* PtEncoder::row_of(std::string_view class_name) {
  static constexpr Row kRows[] = {
      {kOrderedDict, &PtEncoder::ordered_dict},    {"builtins.dict", &PtEncoder::plain_dict},
      {CKPT_PER_RANK_CLASS, &PtEncoder::per_rank}, {"builtins.bytearray", &PtEncoder::byte_array},
      {"builtins.complex", &PtEncoder::called},    {"collections.Counter", &PtEncoder::called},
      {"torch.Size", &PtEncoder::torch_size},      {"torch.device", &PtEncoder::torch_device},
      {"torch.layout", &PtEncoder::torch_layout},  {"torch.dtype", &PtEncoder::torch_dtype},
      {"torch.Tensor", &PtEncoder::torch_tensor},  {"torch.nn.parameter.Parameter", &PtEncoder::parameter},
      {"torch.QTensor", &PtEncoder::quantized},    {"torch.sparse_coo", &PtEncoder::sparse},
      {"torch.sparse_csr", &PtEncoder::sparse},    {"torch.sparse_csc", &PtEncoder::sparse},
      {"torch.sparse_bsr", &PtEncoder::sparse},    {"torch.sparse_bsc", &PtEncoder::sparse},
      {"numpy.ndarray", &PtEncoder::array},
  };
  static constexpr Row kStorage{"", &PtEncoder::torch_storage};
  for (const Row& row : kRows)
    if (row.class_name == class_name) return &row;
  return is_storage_class(class_name) ? &kStorage : nullptr;
}

Status PtEncoder::record(const TreeNode& node) {
  if (const Row* row = row_of(node.text_view())) return (this->*row->encode)(node);
  return is_number(node) ? number(node) : opaque(node);
}

// numpy.float32 and the like; other classes of numpy's have other fields.
bool PtEncoder::is_number(const TreeNode& record) const {
  return record.text_view().starts_with("numpy.") && find(record, "value") != kNoNode;
}

Status PtEncoder::opaque(const TreeNode& node) {
  const std::string class_name(node.text_view());
  const bool harmless = std::ranges::find(kHarmless, class_name) != std::end(kHarmless);
  const bool only_args = node.child_count == 0 || (node.child_count == 1 && find(node, "args") != kNoNode);
  if (options_.trusting && harmless && only_args) return called(node);
  if (!options_.opaque_as_dict)
    return refuse(CKPT_UNSUPPORTED, node,
                  (options_.trusting ? "an object is not made of class "
                                     : "torch.load(weights_only=True) refuses class ") +
                      class_name + " (option opaque=dict writes a plain dict)")
        .with("found", class_name);
  pickle_.empty_dict();
  pickle_.begin_items();
  CKPT_TRY(pickle_.text("__class__"));
  CKPT_TRY(pickle_.text(class_name));
  pickle_.end_items();
  return dict(node);
}

// ---- fields ----

Result<uint32_t> PtEncoder::field(const TreeNode& record, const char* key) const {
  const uint32_t found = find(record, key);
  if (found != kNoNode) return found;
  return refuse(CKPT_FORMAT, record,
                "a record of class " + std::string(record.text_view()) + " lacks " + ckpt::in_quotes(key));
}

Status PtEncoder::put_field(const TreeNode& record, const char* key) {
  CKPT_ASSIGN(const uint32_t found, field(record, key));
  return put(found);
}

bool PtEncoder::flag(const TreeNode& record, const char* key) const {
  const uint32_t found = find(record, key);
  return found != kNoNode && tree_[found].kind == CKPT_NODE_BOOL && tree_[found].integer != 0;
}

std::string_view PtEncoder::text(const TreeNode& record, const char* key) const {
  const uint32_t found = find(record, key);
  return found != kNoNode && tree_[found].kind == CKPT_NODE_TEXT ? tree_[found].text_view() : std::string_view();
}

// ---- Python ----

Status PtEncoder::ordered_dict(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t items, field(node, "items"));
  pickle_.ordered_dict();
  const TreeNode& entries = tree_[items];
  if (entries.kind == CKPT_NODE_DICT) {
    CKPT_TRY(dict(entries));
  } else {
    CKPT_ASSIGN(const uint32_t list, field(entries, "items"));
    CKPT_TRY(pairs(tree_[list]));
  }
  const uint32_t metadata = find(node, "metadata"), state = find(node, "state");
  if (state != kNoNode) {
    CKPT_TRY(put(state));
    pickle_.build();
  } else if (metadata != kNoNode) {
    pickle_.empty_dict();
    pickle_.begin_items();
    CKPT_TRY(pickle_.text("_metadata"));
    CKPT_TRY(put(metadata));
    pickle_.end_items();
    pickle_.build();
  }
  return Ok();
}

Status PtEncoder::plain_dict(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t items, field(node, "items"));
  pickle_.empty_dict();
  return pairs(tree_[items]);
}

// {"rank0": value, …}
Status PtEncoder::per_rank(const TreeNode& node) {
  pickle_.empty_dict();
  return dict(node);
}

Status PtEncoder::byte_array(const TreeNode& node) {
  pickle_.global("__builtin__", "bytearray");
  CKPT_TRY(put_field(node, "value"));
  pickle_.tuple1();
  pickle_.reduce();
  return Ok();
}

// A class and its arguments.
Status PtEncoder::called(const TreeNode& node) {
  const std::string_view name = node.text_view();
  pickle_.global(name.starts_with("builtins.") ? "__builtin__" : name.substr(0, name.rfind('.')), last_part(name));
  if (find(node, "args") == kNoNode)
    pickle_.empty_tuple();
  else
    CKPT_TRY(put_field(node, "args"));
  pickle_.reduce();
  return Ok();
}

// ---- torch's small values ----

Status PtEncoder::torch_size(const TreeNode& node) {
  pickle_.global("torch", "Size");
  CKPT_TRY(put_field(node, "items"));
  pickle_.tuple1();
  pickle_.reduce();
  return Ok();
}

Status PtEncoder::torch_device(const TreeNode& node) {
  const uint32_t index = find(node, "index");
  pickle_.global("torch", "device");
  pickle_.begin_tuple();
  CKPT_TRY(put_field(node, "type"));
  if (index != kNoNode) CKPT_TRY(put(index));
  pickle_.end_tuple();
  pickle_.reduce();
  return Ok();
}

Status PtEncoder::torch_layout(const TreeNode& node) {
  pickle_.global("torch.serialization", "_get_layout");
  CKPT_TRY(put_field(node, "name"));
  pickle_.tuple1();
  pickle_.reduce();
  return Ok();
}

Status PtEncoder::torch_dtype(const TreeNode& node) {
  const std::string_view name = text(node, "name");
  if (!names_torch_dtype(name))
    return refuse(CKPT_UNSUPPORTED, node, "torch has no dtype " + ckpt::in_quotes(name))
        .with("found", std::string(name));
  pickle_.global("torch", last_part(name));
  return Ok();
}

// ---- tensors ----

Result<PtEncoder::Look> PtEncoder::look_of(const TreeNode& record) const {
  const std::string_view dtype = text(record, "dtype");
  if (!dtype.empty() && torch_dtype_of_name(dtype).dtype == 0)
    return refuse(CKPT_UNSUPPORTED, record, "torch has no dtype " + ckpt::in_quotes(dtype))
        .with("found", std::string(dtype));
  Look look;
  if (!dtype.empty()) look.dtype = last_part(dtype);
  look.memory_format = text(record, "memory_format");
  look.requires_grad = flag(record, "requires_grad");
  look.conj = flag(record, "conj");
  look.neg = flag(record, "neg");
  return look;
}

Status PtEncoder::torch_tensor(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t data, field(node, "data"));
  CKPT_ASSIGN(const Look look, look_of(node));
  const uint32_t state = find(node, "state");
  if (state == kNoNode) return leaf(tree_[data], look);
  // _rebuild_from_type_v2(function, type, arguments, state), whose first one makes the tensor.
  pickle_.global("torch._tensor", "_rebuild_from_type_v2");
  CKPT_ASSIGN(const PtPlace place, place_of(tree_[data], look));
  pickle_.begin_tuple();
  tensor_function(place, look);
  pickle_.global("torch", "Tensor");
  CKPT_TRY(tensor_arguments(place, look));
  CKPT_TRY(put(state));
  pickle_.end_tuple();
  pickle_.reduce();
  return Ok();
}

// A storage by itself.
Status PtEncoder::torch_storage(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t data, field(node, "data"));
  const std::string_view type = last_part(node.text_view());
  Look look;
  for (const char* name : {"qint8", "quint8", "qint32"})
    if (type == quantized_storage(name)) look.dtype = name;
  CKPT_ASSIGN(PtPlace place, place_of(tree_[data], look));
  const PtStorage& shared = storages_.storages()[place.storage];
  // A part of another one cannot be a storage.
  if (place.offset != 0 || place.shape.ndim != 1 || place.shape[0] != shared.range.size) {
    CKPT_ASSIGN(place, storages_.place_alone(std::string(tree_[data].text_view()), type, {}));
  }
  return storage(place, type);
}

Status PtEncoder::parameter(const TreeNode& node) {
  const bool stateful = find(node, "state") != kNoNode;
  pickle_.global("torch._utils", stateful ? "_rebuild_parameter_with_state" : "_rebuild_parameter");
  pickle_.begin_tuple();
  CKPT_TRY(put_field(node, "data"));
  pickle_.boolean(flag(node, "requires_grad"));
  pickle_.ordered_dict();
  if (stateful) CKPT_TRY(put_field(node, "state"));
  pickle_.end_tuple();
  pickle_.reduce();
  return Ok();
}

// (layout, (indices, values, size[, is_coalesced])), or two kinds of indices where they are compressed.
Status PtEncoder::sparse(const TreeNode& node) {
  const std::string_view layout = node.text_view();
  const bool by_row = layout == "torch.sparse_csr" || layout == "torch.sparse_bsr";
  pickle_.global("torch._utils", "_rebuild_sparse_tensor");
  pickle_.begin_tuple();
  pickle_.global("torch.serialization", "_get_layout");
  CKPT_TRY(pickle_.text(layout));
  pickle_.tuple1();
  pickle_.reduce();
  pickle_.begin_tuple();
  if (layout == "torch.sparse_coo") {
    CKPT_TRY(put_field(node, "indices"));
  } else {
    CKPT_TRY(put_field(node, by_row ? "crow_indices" : "ccol_indices"));
    CKPT_TRY(put_field(node, by_row ? "col_indices" : "row_indices"));
  }
  CKPT_TRY(put_field(node, "values"));
  CKPT_TRY(put_field(node, "size"));
  if (find(node, "is_coalesced") != kNoNode) CKPT_TRY(put_field(node, "is_coalesced"));
  pickle_.end_tuple();
  pickle_.end_tuple();
  pickle_.reduce();
  return Ok();
}

// (storage, offset, size, stride, quantizer, requires_grad, hooks)
Status PtEncoder::quantized(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t data, field(node, "data"));
  CKPT_ASSIGN(const Look look, look_of(node));
  CKPT_ASSIGN(const PtPlace place, place_of(tree_[data], look));
  const std::string_view scheme = text(node, "qscheme");
  const bool per_tensor = scheme == "torch.per_tensor_affine";
  if (!per_tensor && scheme != "torch.per_channel_affine" && scheme != "torch.per_channel_affine_float_qparams")
    return refuse(CKPT_UNSUPPORTED, node, "an unknown quantizer " + ckpt::in_quotes(scheme))
        .with("found", std::string(scheme));
  const char* type = quantized_storage(look.dtype);
  if (!type)
    return refuse(CKPT_UNSUPPORTED, node, "a quantized tensor of dtype " + ckpt::in_quotes(look.dtype))
        .with("found", std::string(look.dtype));
  pickle_.global("torch._utils", "_rebuild_qtensor");
  pickle_.begin_tuple();
  CKPT_TRY(storage(place, type));
  shape(place);
  pickle_.begin_tuple();
  pickle_.global("torch", last_part(scheme));
  CKPT_TRY(put_field(node, per_tensor ? "scale" : "scales"));
  CKPT_TRY(put_field(node, per_tensor ? "zero_point" : "zero_points"));
  if (!per_tensor) CKPT_TRY(put_field(node, "axis"));
  pickle_.end_tuple();
  pickle_.boolean(look.requires_grad);
  pickle_.ordered_dict();
  pickle_.end_tuple();
  pickle_.reduce();
  return Ok();
}

}  // namespace ckpt::interop
