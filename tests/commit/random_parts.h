// Parts of random saves: worlds, shardings, replicas, aliases, objects and attributes, drawn from a seed. A seed gives
// the same parts for ever, since merge_test.cpp knows the digests of some of their manifests.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/drafted.h"
#include "checkpoint/region_order.h"

namespace ckpt::commit {

using checkpoint::Drafted;
using format::Draft;
using format::IndexKind;

// A generator whose numbers no library changes (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t limit) { return next() % limit; }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

class RandomSave {
 public:
  RandomSave(uint64_t seed, uint32_t most_ranks) : random_(seed) {
    world = static_cast<uint32_t>(random_.between(1, most_ranks));
    const uint64_t count = random_.between(1, 24);
    for (uint64_t i = 0; i < count; i++) add_tensor();
    add_others();
  }
  // Makes the ranks disagree in one way, or leave something out.
  void spoil();
  Drafted parts() const;

  uint32_t world = 0;

 private:
  struct Share {
    uint32_t rank;
    Region region;
    uint64_t start, count;
  };
  struct Tensor {
    uint16_t dtype = CKPT_DTYPE_F32;
    std::vector<uint64_t> extents;
    std::vector<Share> shares;
    std::set<uint32_t> declared;          // ranks that have nothing of it
    std::map<uint32_t, uint16_t> dtypes;  // of ranks that are wrong
  };
  struct Object {
    bool shared;
    std::set<uint32_t> ranks;
    std::map<uint32_t, std::string> text;  // of ranks that are wrong
  };
  uint32_t rank() { return static_cast<uint32_t>(random_.below(world)); }
  void add_tensor();
  void add_grid(Tensor& tensor);
  void add_flat(Tensor& tensor);
  void add_slabs(Tensor& tensor);
  void add_region(Tensor& tensor, Region region, uint64_t elements, uint32_t first, uint32_t stride);
  void add_others();
  static void draft_tensor(Draft& draft, const std::string& name, const Tensor& tensor, uint32_t rank);

  Random random_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::pair<std::string, std::set<uint32_t>>> aliases_;
  std::map<std::string, Object> objects_;
  std::map<std::pair<std::string, std::string>, std::set<uint32_t>> attrs_;
  bool replica_group_ = false;
  std::map<uint32_t, uint64_t> digests_;  // of ranks whose declaration list is another one
};

inline uint64_t elements_of(const std::vector<uint64_t>& extents) {
  uint64_t count = 1;
  for (uint64_t extent : extents) count *= extent;
  return count;
}

// One region, cut among some members of a replica group or written whole by one of them.
inline void RandomSave::add_region(Tensor& tensor, Region region, uint64_t elements, uint32_t first, uint32_t stride) {
  if (elements == elements_of(tensor.extents)) region = Region{};
  const uint64_t members = random_.one_in(3) ? random_.between(1, std::min<uint64_t>({world, 4, elements})) : 1;
  const uint64_t pieces = members == 1 && elements > 3 && random_.one_in(4) ? 2 : members;
  uint64_t from = 0;
  for (uint64_t i = 0; i < pieces; i++) {
    uint64_t to = elements * (i + 1) / pieces;
    if (dtype_bits(tensor.dtype) % 8 != 0 && to != elements) to = to / 2 * 2;
    const uint64_t member = i % members;
    if (to > from)
      tensor.shares.push_back({static_cast<uint32_t>((first + member * stride) % world), region, from, to - from});
    from = to;
  }
}

inline void RandomSave::add_grid(Tensor& tensor) {
  const size_t ndim = tensor.extents.size();
  std::vector<uint64_t> size(ndim), at(ndim, 0);
  for (size_t d = 0; d < ndim; d++) size[d] = random_.between(1, tensor.extents[d]);
  const auto first = rank(), step = static_cast<uint32_t>(random_.between(0, world - 1)), stride = rank();
  for (uint32_t cell = 0;; cell++) {
    std::vector<uint64_t> extent(ndim);
    for (size_t d = 0; d < ndim; d++) extent[d] = std::min(size[d], tensor.extents[d] - at[d]);
    const uint32_t holder = random_.one_in(9) ? rank() : (first + cell * step) % world;
    add_region(tensor, {RegionKind::kBox, {Shape::of(at), Shape::of(extent)}, 0, 0}, elements_of(extent), holder,
               stride);
    size_t d = ndim;
    while (d-- > 0) {
      at[d] += size[d];
      if (at[d] < tensor.extents[d]) break;
      at[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

inline void RandomSave::add_flat(Tensor& tensor) {
  const uint64_t total = elements_of(tensor.extents), count = random_.between(1, std::min<uint64_t>(total, 9));
  const uint32_t first = rank();
  uint64_t from = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t to = i + 1 == count ? total : std::min(total, from + random_.between(1, total / count + 1));
    if (dtype_bits(tensor.dtype) % 8 != 0 && to != total) to = to / 2 * 2;
    if (to == from) continue;
    add_region(tensor, format::flat(from, to - from), to - from, (first + static_cast<uint32_t>(i)) % world, 1);
    from = to;
  }
}

// Boxes of several heights, which make no grid.
inline void RandomSave::add_slabs(Tensor& tensor) {
  uint64_t from = 0;
  for (uint32_t i = 0; from < tensor.extents[0]; i++) {
    const uint64_t height = random_.between(1, tensor.extents[0] - from);
    std::vector<uint64_t> at(tensor.extents.size(), 0), extent = tensor.extents;
    at[0] = from;
    extent[0] = height;
    add_region(tensor, {RegionKind::kBox, {Shape::of(at), Shape::of(extent)}, 0, 0}, elements_of(extent), i % world, 1);
    from += height;
  }
}

inline void RandomSave::add_tensor() {
  Tensor tensor;
  const uint64_t ndim = random_.below(4), form = random_.below(6);
  for (uint64_t d = 0; d < ndim; d++) tensor.extents.push_back(random_.between(1, 9));
  tensor.dtype = random_.one_in(2) ? CKPT_DTYPE_F32 : CKPT_DTYPE_U8;
  if (form == 0 && ndim > 0) {
    tensor.extents[random_.below(ndim)] = 0;
    for (uint64_t i = random_.between(1, world); i > 0; i--) tensor.declared.insert(rank());
  } else if (form <= 1 || ndim == 0) {
    if (random_.one_in(2)) tensor.dtype = CKPT_DTYPE(1, 4);
    add_region(tensor, {}, elements_of(tensor.extents), rank(), 1);
  } else if (form <= 3) {
    add_grid(tensor);
  } else if (form == 4) {
    if (random_.one_in(2)) tensor.dtype = CKPT_DTYPE(1, 4);
    add_flat(tensor);
  } else {
    add_slabs(tensor);
  }
  if (random_.one_in(4)) tensor.declared.insert(rank());
  const std::string stem = random_.one_in(2) ? "model.layers." : "m";
  tensors_.try_emplace(stem + std::to_string(random_.below(200)) + (random_.one_in(3) ? ".weight" : ""), tensor);
}

inline void RandomSave::add_others() {
  auto some = [&] {
    std::set<uint32_t> ranks;
    for (uint64_t i = random_.between(1, 2 * uint64_t{world}); i > 0; i--) ranks.insert(rank());
    return ranks;
  };
  for (const auto& [name, tensor] : tensors_) {
    if (random_.one_in(5)) aliases_["tied." + name] = {name, some()};
    if (random_.one_in(5)) attrs_[{name, "key" + std::to_string(random_.below(3))}] = some();
    if (random_.one_in(9)) attrs_[{name, "other"}] = some();
  }
  if (random_.one_in(2)) attrs_[{"", "of the checkpoint"}] = {0};
  for (uint64_t i = random_.below(4); i > 0; i--) {
    Object object{random_.one_in(2), some(), {}};
    if (object.shared) object.ranks.insert(0);
    objects_["object" + std::to_string(random_.below(9))] = object;
  }
  replica_group_ = random_.one_in(2) && world > 1;
}

inline void RandomSave::spoil() {
  auto tensor = tensors_.begin();
  std::advance(tensor, random_.below(tensors_.size()));
  Tensor& spoilt = tensor->second;
  switch (random_.below(8)) {
    case 0:
      spoilt.declared.insert(rank());
      spoilt.dtypes[rank()] = CKPT_DTYPE_BF16;
      break;
    case 1:
      if (!spoilt.shares.empty())
        spoilt.shares.erase(spoilt.shares.begin() + static_cast<long>(random_.below(spoilt.shares.size())));
      break;
    case 2:
      if (!spoilt.shares.empty()) {
        Share again = spoilt.shares[random_.below(spoilt.shares.size())];
        again.rank = (again.rank + 1) % world;
        const bool there = std::any_of(spoilt.shares.begin(), spoilt.shares.end(), [&](const Share& share) {
          return share.rank == again.rank && share.region == again.region;
        });
        if (!there) spoilt.shares.push_back(again);
      }
      break;
    case 3:
      aliases_["tied.to.nothing"] = {"nothing", {rank()}};
      break;
    case 4:
      for (uint32_t other = 0; other < world; other++)
        if (!spoilt.declared.contains(other) && std::none_of(spoilt.shares.begin(), spoilt.shares.end(),
                                                             [&](const Share& share) { return share.rank == other; }))
          aliases_[tensor->first] = {tensor->first, {other}};
      break;
    case 5:
      for (auto& [name, object] : objects_) object.text[*object.ranks.rbegin()] = "another";
      break;
    case 6:
      for (auto& [name, object] : objects_) object.ranks.erase(0);
      break;
    default:
      if (replica_group_) digests_[rank()] = 9;
  }
}

inline void RandomSave::draft_tensor(Draft& draft, const std::string& name, const Tensor& tensor, uint32_t rank) {
  std::vector<const Share*> own;
  for (const Share& share : tensor.shares)
    if (share.rank == rank) own.push_back(&share);
  if (own.empty() && !tensor.declared.contains(rank)) return;
  std::stable_sort(own.begin(), own.end(), [](const Share* a, const Share* b) {
    const checkpoint::RegionOrder order;
    if (order(a->region, b->region) || order(b->region, a->region)) return order(a->region, b->region);
    return a->start < b->start;
  });
  const auto wrong = tensor.dtypes.find(rank);
  const uint16_t dtype = wrong == tensor.dtypes.end() ? tensor.dtype : wrong->second;
  draft.tensor(name, dtype, tensor.extents);
  const Region* before = nullptr;
  for (const Share* share : own) {
    if (!before || !(*before == share->region)) draft.region(share->region);
    before = &share->region;
    const auto bytes = static_cast<uint32_t>((share->count * static_cast<uint64_t>(dtype_bits(dtype)) + 7) / 8);
    draft.segment(share->start, share->count, {format::chunk(4096, bytes)});
  }
}

inline Drafted RandomSave::parts() const {
  Drafted drafted(5 * kAlign);
  for (uint32_t rank = 0; rank < world; rank++) {
    Draft draft(IndexKind::kPart, world);
    for (const auto& [name, tensor] : tensors_) draft_tensor(draft, name, tensor, rank);
    for (const auto& [name, alias] : aliases_)
      if (alias.second.contains(rank)) draft.alias(name, alias.first);
    for (const auto& [name, object] : objects_) {
      if (!object.ranks.contains(rank)) continue;
      const auto wrong = object.text.find(rank);
      const std::string text = wrong == object.text.end() ? "text of " + name : wrong->second;
      const bool declared = object.shared && rank != 0;
      draft.builder.add_object({.name = name,
                                .media_type = "text/plain",
                                .scope = static_cast<uint8_t>(object.shared ? 0 : 1),
                                .placement = static_cast<uint8_t>(declared ? 2 : 0),
                                .size = text.size(),
                                .digest = {text.size(), 7},
                                .inline_bytes = declared ? Bytes() : as_bytes(text),
                                .chunks = {}});
    }
    for (const auto& [attr, ranks] : attrs_)
      if (ranks.contains(rank)) draft.attr(attr.first, attr.second, "value of " + attr.second);
    const auto digest = digests_.find(rank);
    if (replica_group_)
      draft.builder.add_group(5, rank, world, {digest == digests_.end() ? 1 : digest->second, 2}, 3,
                              format::chunk(8192, 100, 50));
    drafted.add_part(std::move(draft));
  }
  return drafted;
}

}  // namespace ckpt::commit
