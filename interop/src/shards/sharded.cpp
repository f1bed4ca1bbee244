#include "interop/src/shards/sharded.h"

#include <algorithm>

#include "interop/src/json.h"
#include "interop/src/pickle/names.h"
#include "interop/src/pt/dtype.h"
#include "interop/src/shards/mesh.h"
#include "plan/box.h"

namespace ckpt::interop {

namespace {

constexpr size_t kMaxAttributes = 64;
constexpr size_t kMostBoxes = 4096;  // of one rank in one tensor

struct Wrapped {
  PickleRef args, state;
};

// _rebuild_from_type_v2(_rebuild_wrapper_subclass, class, (class, dtype, size, …), state)
std::optional<Wrapped> wrapped(const PickleDocument& pickle, PickleRef ref) {
  const PickleValue& object = pickle[ref];
  if (object.kind != PickleKind::kObject || torch_function(pickle.class_of(ref)) != "_rebuild_from_type_v2" ||
      object.args() == kNoValue || pickle[object.args()].items.size() != 4)
    return std::nullopt;
  const std::span<const PickleRef> items = pickle[object.args()].items;
  const std::string_view name = last_class_name(pickle, items[1]);
  if (name != "ShardedTensor" && name != "DTensor") return std::nullopt;
  return Wrapped{items[2], items[3]};
}

// What the object says of the whole: dtype and size.
Result<Sharded> whole_of(const PickleDocument& pickle, const Wrapped& object) {
  if (pickle[object.args].kind != PickleKind::kTuple || pickle[object.args].items.size() < 3)
    return Status(CKPT_FORMAT, "expected its class, dtype and size");
  Sharded out;
  const std::span<const PickleRef> args = pickle[object.args].items;
  const std::string_view name = pickle[args[1]].kind == PickleKind::kName ? pickle[args[1]].text : "";
  const TorchDtype dtype = torch_dtype_of_name(name);
  if (dtype.dtype == 0 || dtype.name || dtype_bits(dtype.dtype) < 8)
    return Status(CKPT_UNSUPPORTED, "dtype " + shown(dotted(name)) + " in shards").with("found", dotted(name));
  out.dtype = dtype.dtype;
  CKPT_ASSIGN(out.shape, extents_of(pickle, args[2], "size"));
  const Result<uint64_t> count = element_count(out.shape);
  if (!count.ok()) return Status(CKPT_FORMAT, count.status().message());
  return out;
}

Status check_extents(const char* what, const Shape& expected, const Shape& found) {
  if (expected == found) return Ok();
  return Status(CKPT_MISMATCH, strformat("{}: expected {}, found {}", what, to_text(expected), to_text(found)))
      .with("expected", to_text(expected))
      .with("found", to_text(found));
}

// Elements of a tensor of the file, which must be plain.
Result<PtTensor> local_tensor(const PtSource& source, PickleRef ref, uint16_t dtype) {
  if (ref == kNoValue) return Status(CKPT_FORMAT, "a shard without a tensor");
  CKPT_ASSIGN(PtTensor tensor, tensor_of(source, ref));
  if (tensor.dtype != dtype || tensor.torch_dtype)
    return Status(CKPT_MISMATCH,
                  strformat("dtype of a shard: expected {}, found {}", dtype_name(dtype), dtype_name(tensor.dtype)));
  if (tensor.conj || tensor.neg) return Status(CKPT_UNSUPPORTED, "a shard that is to be conjugated or negated");
  return tensor;
}

Shard shard_of(const Box& box, const PtTensor& tensor) {
  Shard shard{{RegionKind::kBox, box, 0, 0}, tensor.bytes(), std::nullopt};
  if (!tensor.contiguous()) shard.strides = tensor.strides;
  return shard;
}

// state = (local shards, metadata, process group, …)
Status read_sharded_tensor(const PtSource& source, PickleRef state, Sharded* out) {
  const PickleDocument& pickle = source.pickle();
  if (pickle[state].kind != PickleKind::kTuple || pickle[state].items.size() < 2)
    return Status(CKPT_FORMAT, "expected the shards and the metadata of a ShardedTensor");
  CKPT_ASSIGN(const Shape size,
              extents_of(pickle, attribute_of(pickle, pickle[state].items[1], "size"), "size in its metadata"));
  CKPT_TRY(check_extents("size in its metadata", out->shape, size));
  const PickleValue& locals = pickle[pickle[state].items[0]];
  if (locals.kind != PickleKind::kList) return Status(CKPT_FORMAT, "expected a list of shards");
  if (locals.items.size() > kMostBoxes)
    return Status(CKPT_UNSUPPORTED, strformat("{} shards on one rank, at most {}", locals.items.size(), kMostBoxes));
  for (const PickleRef local : locals.items) {
    const PickleRef metadata = attribute_of(pickle, local, "metadata", 1);
    Box box;
    CKPT_ASSIGN(box.offset, extents_of(pickle, attribute_of(pickle, metadata, "shard_offsets", 0), "shard_offsets"));
    CKPT_ASSIGN(box.extent, extents_of(pickle, attribute_of(pickle, metadata, "shard_sizes", 1), "shard_sizes"));
    if (box.offset.ndim != out->shape.ndim || !plan::inside(box, out->shape))
      return Status(CKPT_FORMAT, strformat("a shard of {} at {} reaches outside of {}", to_text(box.extent),
                                           to_text(box.offset), to_text(out->shape)));
    CKPT_ASSIGN(const PtTensor tensor, local_tensor(source, attribute_of(pickle, local, "tensor", 0), out->dtype));
    CKPT_TRY(check_extents("shape of a shard", box.extent, tensor.shape));
    out->shards.push_back(shard_of(box, tensor));
  }
  return Ok();
}

// One box for each choice of a stretch in every dimension.
Status cut_boxes(const std::vector<std::vector<Stretch>>& stretches, const PtTensor& local, Sharded* out) {
  size_t count = 1;
  for (const auto& of_dim : stretches)
    if (mul_overflows(count, of_dim.size(), &count) || count > kMostBoxes)
      return Status(CKPT_UNSUPPORTED, strformat("more than {} boxes on one rank", kMostBoxes));
  std::vector<size_t> at(stretches.size());
  for (size_t i = 0; i < count; i++) {
    Box box{Shape{.ndim = local.shape.ndim}, Shape{.ndim = local.shape.ndim}};
    PtTensor view = local;
    for (size_t d = 0; d < at.size(); d++) {
      uint64_t before = 0;
      for (size_t s = 0; s < at[d]; s++) before += stretches[d][s].end - stretches[d][s].begin;
      const Stretch& stretch = stretches[d][at[d]];
      box.offset.dims[d] = stretch.begin;
      box.extent.dims[d] = view.shape.dims[d] = stretch.end - stretch.begin;
      view.offset += before * static_cast<uint64_t>(view.strides[d]);
    }
    if (box.volume() != 0) out->shards.push_back(shard_of(box, view));
    for (size_t d = at.size(); d-- > 0 && ++at[d] == stretches[d].size();) at[d] = 0;
  }
  return Ok();
}

Status read_dtensor(const PtSource& source, PickleRef state, Sharded* out) {
  const PickleDocument& pickle = source.pickle();
  // ({…}, {"_local_tensor": …, "_spec": …}), or the dict alone
  auto slot = [&](std::string_view name) {
    PickleRef found = kNoValue;
    if (pickle[state].kind == PickleKind::kDict && pickle[state].items.size() <= 2 * kMaxAttributes)
      return pickle.find(state, name);
    if (pickle[state].kind != PickleKind::kTuple || pickle[state].items.size() > 2) return found;
    for (const PickleRef part : pickle[state].items)
      if (found == kNoValue && pickle[part].kind == PickleKind::kDict &&
          pickle[part].items.size() <= 2 * kMaxAttributes)
        found = pickle.find(part, name);
    return found;
  };
  const PickleRef spec = slot("_spec");
  if (spec == kNoValue) return Status(CKPT_FORMAT, "a DTensor without _spec");
  if (const PickleRef meta = attribute_of(pickle, spec, "tensor_meta");
      meta != kNoValue && pickle[meta].kind != PickleKind::kNone) {
    CKPT_ASSIGN(const Shape shape, extents_of(pickle, attribute_of(pickle, meta, "shape", 0), "shape in _spec"));
    CKPT_TRY(check_extents("shape in _spec", out->shape, shape));
  }
  CKPT_ASSIGN(const auto stretches, stretches_of_spec(source, spec, out->shape));
  if (!stretches) return Ok();
  CKPT_ASSIGN(const PtTensor local, local_tensor(source, slot("_local_tensor"), out->dtype));
  Shape expected{.ndim = out->shape.ndim};
  for (size_t d = 0; d < stretches->size(); d++)
    for (const Stretch& stretch : (*stretches)[d]) expected.dims[d] += stretch.end - stretch.begin;
  uint64_t elements = 0;
  if (!count_elements(expected.span(), &elements)) return Status(CKPT_FORMAT, "a local tensor past 2^63");
  // Of a rank that has nothing, torch leaves the other dimensions as they come.
  if (elements == 0 && local.elements() == 0) return Ok();
  CKPT_TRY(check_extents("shape of the local tensor", expected, local.shape));
  return cut_boxes(*stretches, local, out);
}

}  // namespace

std::string_view last_class_name(const PickleDocument& pickle, PickleRef ref) {
  if (ref == kNoValue) return {};
  const std::string_view name = pickle.class_of(ref);
  return name.substr(name.find_last_of(". ") + 1);
}

PickleRef attribute_of(const PickleDocument& pickle, PickleRef ref, std::string_view name, size_t argument) {
  if (ref == kNoValue || pickle[ref].kind != PickleKind::kObject) return kNoValue;
  const PickleValue& object = pickle[ref];
  auto in = [&](PickleRef dict) {
    const bool few = pickle[dict].kind == PickleKind::kDict && pickle[dict].items.size() <= 2 * kMaxAttributes;
    return few ? pickle.find(dict, name) : kNoValue;
  };
  if (object.state() != kNoValue) {
    PickleRef found = in(object.state());
    // (attributes or None, slots)
    const bool pair = pickle[object.state()].kind == PickleKind::kTuple && pickle[object.state()].items.size() == 2;
    for (size_t i = 0; pair && i < 2 && found == kNoValue; i++) found = in(pickle[object.state()].items[i]);
    if (found != kNoValue) return found;
  }
  if (object.args() == kNoValue || argument >= pickle[object.args()].items.size()) return kNoValue;
  return pickle[object.args()].items[argument];
}

Result<Shape> extents_of(const PickleDocument& pickle, PickleRef ref, const char* what) {
  if (ref == kNoValue) return Status(CKPT_FORMAT, std::string(what) + ": expected a tuple of numbers");
  Result<std::vector<int64_t>> numbers = integers_of(pickle, ref);
  if (!numbers.ok()) return Status(CKPT_FORMAT, std::string(what) + ": " + numbers.status().message());
  if (numbers->size() > static_cast<size_t>(kMaxNdim))
    return Status(CKPT_UNSUPPORTED, strformat("{}: {} dimensions, at most {}", what, numbers->size(), kMaxNdim));
  Shape shape{.ndim = static_cast<int>(numbers->size())};
  for (size_t i = 0; i < numbers->size(); i++) {
    if ((*numbers)[i] < 0) return Status(CKPT_FORMAT, strformat("{}: {}", what, (*numbers)[i]));
    shape.dims[i] = static_cast<uint64_t>((*numbers)[i]);
  }
  return shape;
}

bool is_sharded(const PickleDocument& pickle, PickleRef ref) { return wrapped(pickle, ref).has_value(); }

Result<Sharded> sharded_of(const PtSource& source, PickleRef ref) {
  const PickleDocument& pickle = source.pickle();
  const Wrapped object = *wrapped(pickle, ref);
  CKPT_ASSIGN(Sharded out, whole_of(pickle, object));
  const bool dtensor = last_class_name(pickle, pickle[pickle[ref].args()].items[1]) == "DTensor";
  CKPT_TRY(dtensor ? read_dtensor(source, object.state, &out) : read_sharded_tensor(source, object.state, &out));
  return out;
}

}  // namespace ckpt::interop
