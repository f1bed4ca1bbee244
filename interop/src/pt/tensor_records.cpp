// torch's tensors as leaves and records.
#include "interop/src/json.h"
#include "interop/src/pickle/names.h"
#include "interop/src/pt/tree_maker.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kParameter = "torch.nn.parameter.Parameter";

struct SparseLayout {
  std::string_view layout, first, second;
};
constexpr SparseLayout kSparseLayouts[] = {{"torch.sparse_coo", "indices", {}},
                                           {"torch.sparse_csr", "crow_indices", "col_indices"},
                                           {"torch.sparse_csc", "ccol_indices", "row_indices"},
                                           {"torch.sparse_bsr", "crow_indices", "col_indices"},
                                           {"torch.sparse_bsc", "ccol_indices", "row_indices"}};

}  // namespace

Status TreeMaker::tensor(PtTensor found) {
  const bool plain = !found.requires_grad && !found.conj && !found.neg && !found.torch_dtype && !found.memory_format();
  if (plain) return leaf(std::move(found));
  return record("torch.Tensor", [&] { return tensor_fields(std::move(found)); });
}

Status TreeMaker::tensor_fields(PtTensor found) {
  const PtTensor flags = found;
  CKPT_TRY(field("data", [&] { return leaf(std::move(found)); }, true));
  if (flags.requires_grad) CKPT_TRY(field_bool("requires_grad", true));
  if (flags.conj) CKPT_TRY(field_bool("conj", true));
  if (flags.neg) CKPT_TRY(field_bool("neg", true));
  if (flags.torch_dtype) CKPT_TRY(field_text("dtype", std::string("torch.") + flags.torch_dtype));
  const char* format = flags.memory_format();
  return format ? field_text("memory_format", format) : Ok();
}

// _rebuild_parameter(data, requires_grad, hooks[, state])
Status TreeMaker::parameter(PickleRef ref) {
  const PickleValue *data = argument(ref, 0), *grad = argument(ref, 1);
  if (!data || !grad || grad->kind != PickleKind::kBool)
    return refuse(CKPT_FORMAT, "a parameter without data or requires_grad");
  return record(kParameter, [&]() -> Status {
    CKPT_TRY(field(
        "data",
        [&]() -> Status {
          const PickleRef inner = argument_ref(ref, 0);
          if (kind_of(source_, inner) != PtObjectKind::kTensor) return value(inner);
          // Whether the data itself required a gradient is the parameter's to say.
          Result<PtTensor> found = tensor_of(source_, inner);
          if (!found.ok()) return refuse(found.status().code(), found.status().message());
          PtTensor plain = found.take();
          plain.requires_grad = false;
          return tensor(std::move(plain));
        },
        true));
    CKPT_TRY(field_bool("requires_grad", grad->integer != 0));
    return argument(ref, 3) ? field("state", argument_ref(ref, 3)) : Ok();
  });
}

// _rebuild_from_type_v2(function, type, args, state)
Status TreeMaker::subclass(PickleRef ref) {
  const PickleValue *function = argument(ref, 0), *type = argument(ref, 1), *args = argument(ref, 2);
  const bool fits = function && type && args && function->kind == PickleKind::kName &&
                    type->kind == PickleKind::kName && args->kind == PickleKind::kTuple;
  if (!fits) return refuse(CKPT_FORMAT, "a tensor of a class: expected a function, a class and arguments");
  const std::string_view torch_name = torch_function(function->text);
  if (!makes_tensor(torch_name)) return unknown(ref, pickle_.class_of(ref));
  Result<PtTensor> found = tensor_of_args(source_, torch_name, argument_ref(ref, 2));
  if (!found.ok()) return refuse(found.status().code(), found.status().message());
  return record(dotted(type->text), [&]() -> Status {
    CKPT_TRY(tensor_fields(found.take()));
    return argument(ref, 3) ? field("state", argument_ref(ref, 3)) : Ok();
  });
}

// _rebuild_sparse_tensor(layout, (indices, values, size[, is_coalesced])), or two kinds of indices where they are
// compressed.
Status TreeMaker::sparse(PickleRef ref) {
  const PickleValue *layout = argument(ref, 0), *parts = argument(ref, 1);
  const PickleRef layout_ref = argument_ref(ref, 0);
  const PickleValue* text = layout && layout->kind == PickleKind::kObject ? argument(layout_ref, 0) : nullptr;
  for (const SparseLayout& row : kSparseLayouts) {
    if (!text || text->text != row.layout || !parts || parts->kind != PickleKind::kTuple) continue;
    const bool compressed = !row.second.empty();
    const size_t least = compressed ? 4 : 3;
    if (parts->items.size() < least) return refuse(CKPT_FORMAT, "a sparse tensor without all of its parts");
    return record(row.layout, [&]() -> Status {
      size_t i = 0;
      CKPT_TRY(field(row.first, parts->items[i++]));
      if (compressed) CKPT_TRY(field(row.second, parts->items[i++]));
      CKPT_TRY(field("values", parts->items[i++]));
      CKPT_TRY(field("size", parts->items[i++]));
      return !compressed && parts->items.size() > i ? field("is_coalesced", parts->items[i]) : Ok();
    });
  }
  return refuse(CKPT_UNSUPPORTED, "a sparse tensor of an unknown layout")
      .with("found", text ? std::string(text->text) : "");
}

Status TreeMaker::quantized(PickleRef ref) {
  Result<PtTensor> found = tensor_of(source_, ref);
  if (!found.ok()) return refuse(found.status().code(), found.status().message());
  const PickleRef params = argument_ref(ref, 4);
  return record("torch.QTensor", [&]() -> Status {
    CKPT_TRY(tensor_fields(found.take()));
    return quantizer(params);
  });
}

// (per_tensor_affine, scale, zero_point) or (per_channel_affine, scales, zero_points, axis)
Status TreeMaker::quantizer(PickleRef ref) {
  const PickleValue& params = pickle_[ref];
  const bool named =
      params.kind == PickleKind::kTuple && !params.items.empty() && pickle_[params.items[0]].kind == PickleKind::kName;
  const std::string scheme = named ? dotted(pickle_[params.items[0]].text) : "";
  const bool per_tensor = scheme == "torch.per_tensor_affine" && params.items.size() == 3;
  const bool per_channel =
      (scheme == "torch.per_channel_affine" || scheme == "torch.per_channel_affine_float_qparams") &&
      params.items.size() == 4;
  if (!per_tensor && !per_channel)
    return refuse(CKPT_UNSUPPORTED, "an unknown quantizer " + shown(scheme)).with("found", scheme);
  CKPT_TRY(field_text("qscheme", scheme));
  CKPT_TRY(field(per_tensor ? "scale" : "scales", params.items[1]));
  CKPT_TRY(field(per_tensor ? "zero_point" : "zero_points", params.items[2]));
  return per_channel ? field("axis", params.items[3]) : Ok();
}

}  // namespace ckpt::interop
