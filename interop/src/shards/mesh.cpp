// Which positions of each dimension a rank has, by a DTensor's placements on a mesh of ranks. A dimension of the mesh
// cuts what the ones before it left, as torch.chunk does; _StridedShard first cuts that into several parts, and takes
// its share of each.
#include "interop/src/shards/mesh.h"

#include <algorithm>

#include "interop/src/json.h"
#include "interop/src/pt/tensor.h"
#include "interop/src/shards/sharded.h"

namespace ckpt::interop {

namespace {

constexpr size_t kMaxMeshDims = 16;
constexpr uint64_t kMostParts = 256;

using Stretches = std::vector<Stretch>;

uint64_t length_of(const Stretches& stretches) {
  uint64_t length = 0;
  for (const Stretch& stretch : stretches) length += stretch.end - stretch.begin;
  return length;
}

// Positions [begin, end) of what the stretches hold one after another.
void take(const Stretches& from, uint64_t begin, uint64_t end, Stretches* out) {
  uint64_t at = 0;
  for (const Stretch& stretch : from) {
    const uint64_t size = stretch.end - stretch.begin;
    const uint64_t first = std::max(begin, at), last = std::min(end, at + size);
    if (first < last) {
      const Stretch found{stretch.begin + (first - at), stretch.begin + (last - at)};
      if (!out->empty() && out->back().end == found.begin)
        out->back().end = found.end;
      else
        out->push_back(found);
    }
    at += size;
  }
}

// The share `index` of `count` of positions [begin, end): pieces of the same size, the last ones smaller or empty.
Stretch chunk(uint64_t begin, uint64_t end, uint64_t count, uint64_t index) {
  const uint64_t size = (end - begin) / count + ((end - begin) % count != 0);
  uint64_t first = 0, last = 0;
  if (mul_overflows(size, index, &first)) first = end - begin;
  first = std::min(first, end - begin);
  if (add_overflows(first, size, &last)) last = end - begin;
  last = std::min(last, end - begin);
  return {begin + first, begin + last};
}

Stretches share_of(const Stretches& held, uint64_t parts, uint64_t count, uint64_t index) {
  Stretches out;
  const uint64_t length = length_of(held);
  for (uint64_t part = 0; part < parts; part++) {
    const Stretch whole = chunk(0, length, parts, part);
    const Stretch share = chunk(whole.begin, whole.end, count, index);
    take(held, share.begin, share.end, &out);
  }
  return out;
}

class SpecReader {
 public:
  SpecReader(const PtSource& source, PickleRef spec, const Shape& shape)
      : source_(source), pickle_(source.pickle()), spec_(spec), shape_(shape) {}

  Result<std::optional<std::vector<Stretches>>> run() {
    const PickleRef mesh = attribute_of(pickle_, spec_, "mesh", 0),
                    list = attribute_of(pickle_, spec_, "placements", 1);
    if (mesh == kNoValue || list == kNoValue ||
        (pickle_[list].kind != PickleKind::kTuple && pickle_[list].kind != PickleKind::kList))
      return Status(CKPT_FORMAT, "a _spec without mesh or placements");
    const std::span<const PickleRef> placements = pickle_[list].items;
    CKPT_ASSIGN(const std::vector<uint64_t> sizes, mesh_sizes(mesh));
    if (placements.size() != sizes.size() || sizes.size() > kMaxMeshDims)
      return Status(CKPT_FORMAT,
                    strformat("{} placements on a mesh of {} dimensions", placements.size(), sizes.size()));
    const PickleRef coordinate = attribute_of(pickle_, mesh, "_coordinate_on_dim");
    if (coordinate == kNoValue) return Status(CKPT_UNSUPPORTED, "a mesh without _coordinate_on_dim");
    if (pickle_[coordinate].kind == PickleKind::kNone) return std::optional<std::vector<Stretches>>();
    CKPT_ASSIGN(const std::vector<int64_t> at, integers_of(pickle_, coordinate));
    for (size_t m = 0; m < sizes.size(); m++)
      if (at.size() != sizes.size() || at[m] < 0 || static_cast<uint64_t>(at[m]) >= sizes[m])
        return Status(CKPT_FORMAT, "a coordinate outside of the mesh");
    std::vector<Stretches> held;
    for (const uint64_t extent : shape_.span()) held.push_back({{0, extent}});
    CKPT_ASSIGN(const std::vector<size_t> order, order_of_dims(sizes.size()));
    for (const size_t m : order) CKPT_TRY(place(placements[m], sizes[m], static_cast<uint64_t>(at[m]), &held));
    return std::optional(std::move(held));
  }

 private:
  Status place(PickleRef placement, uint64_t count, uint64_t index, std::vector<Stretches>* held) const {
    const std::string_view name = last_class_name(pickle_, placement);
    if (name == "Replicate") return Ok();
    if (name != "Shard" && name != "_StridedShard")
      return Status(CKPT_UNSUPPORTED, "expected placements Shard and Replicate, found " + shown(name))
          .with("found", std::string(name));
    const PickleRef dim = attribute_of(pickle_, placement, "dim", 0);
    if (dim == kNoValue || pickle_[dim].kind != PickleKind::kInt || pickle_[dim].integer < 0 ||
        pickle_[dim].integer >= shape_.ndim)
      return Status(CKPT_FORMAT, "a placement of a dimension that the tensor lacks");
    uint64_t parts = 1;
    if (name == "_StridedShard") {
      const PickleRef factor = attribute_of(pickle_, placement, "split_factor", 1);
      if (factor == kNoValue || pickle_[factor].kind != PickleKind::kInt || pickle_[factor].integer < 1)
        return Status(CKPT_FORMAT, "a _StridedShard without split_factor");
      parts = static_cast<uint64_t>(pickle_[factor].integer);
    }
    Stretches& of_dim = (*held)[static_cast<size_t>(pickle_[dim].integer)];
    if (parts > kMostParts || of_dim.size() > kMostParts)
      return Status(CKPT_UNSUPPORTED, strformat("a dimension in more than {} parts", kMostParts));
    of_dim = share_of(of_dim, parts, count, index);
    return Ok();
  }

  // By shard_order, which is given per dimension of the tensor; else ascending.
  Result<std::vector<size_t>> order_of_dims(size_t count) const {
    std::vector<size_t> order;
    std::vector<bool> done(count);
    const PickleRef entries = attribute_of(pickle_, spec_, "shard_order");
    if (entries != kNoValue && pickle_[entries].kind == PickleKind::kTuple)
      for (const PickleRef entry : pickle_[entries].items) {
        const PickleRef dims = attribute_of(pickle_, entry, "mesh_dims", 1);
        if (dims == kNoValue) return Status(CKPT_FORMAT, "a shard_order without mesh_dims");
        CKPT_ASSIGN(const std::vector<int64_t> numbers, integers_of(pickle_, dims));
        for (const int64_t number : numbers) {
          const auto m = static_cast<size_t>(number);
          if (m >= count || done[m]) return Status(CKPT_FORMAT, "a shard_order of other dimensions than the mesh has");
          done[m] = true;
          order.push_back(m);
        }
      }
    for (size_t m = 0; m < count; m++)
      if (!done[m]) order.push_back(m);
    return order;
  }

  // Torch has kept a mesh as a tensor of ranks, later as a layout.
  Result<std::vector<uint64_t>> mesh_sizes(PickleRef mesh) const {
    for (const char* name : {"mesh", "_mesh"}) {
      const PickleRef ranks = attribute_of(pickle_, mesh, name);
      if (ranks == kNoValue || pickle_[ranks].kind == PickleKind::kNone) continue;
      CKPT_ASSIGN(const PtTensor tensor, tensor_of(source_, ranks));
      return std::vector<uint64_t>(tensor.shape.span().begin(), tensor.shape.span().end());
    }
    const PickleRef layout = attribute_of(pickle_, mesh, "_layout");
    const PickleRef axes = attribute_of(pickle_, layout, "axes", 0), shape = attribute_of(pickle_, layout, "shape", 0);
    const PickleRef list = axes != kNoValue && pickle_[axes].kind == PickleKind::kTuple ? axes : shape;
    std::vector<uint64_t> sizes;
    if (list == kNoValue) return Status(CKPT_UNSUPPORTED, "a mesh whose size is in no place that we know");
    if (pickle_[list].kind == PickleKind::kInt) {
      CKPT_ASSIGN(sizes.emplace_back(), size_of_axis(list));
      return sizes;
    }
    if (pickle_[list].kind != PickleKind::kTuple || pickle_[list].items.size() > kMaxMeshDims)
      return Status(CKPT_FORMAT, "expected the sizes of a mesh");
    for (const PickleRef axis : pickle_[list].items) {
      CKPT_ASSIGN(sizes.emplace_back(), size_of_axis(axis));
    }
    return sizes;
  }

  // A number, several that are multiplied, or an object with these as shape.
  Result<uint64_t> size_of_axis(PickleRef axis) const {
    if (const PickleRef shape = attribute_of(pickle_, axis, "shape", 0); shape != kNoValue) axis = shape;
    if (pickle_[axis].kind == PickleKind::kInt && pickle_[axis].integer > 0)
      return static_cast<uint64_t>(pickle_[axis].integer);
    CKPT_ASSIGN(const Shape shape, extents_of(pickle_, axis, "the size of a mesh"));
    const Result<uint64_t> count = element_count(shape);
    if (!count.ok() || *count == 0) return Status(CKPT_FORMAT, "a mesh of no or too many ranks");
    return *count;
  }

  const PtSource& source_;
  const PickleDocument& pickle_;
  const PickleRef spec_;
  const Shape& shape_;
};

}  // namespace

Result<std::optional<std::vector<Stretches>>> stretches_of_spec(const PtSource& source, PickleRef spec,
                                                                const Shape& shape) {
  return SpecReader(source, spec, shape).run();
}

}  // namespace ckpt::interop
