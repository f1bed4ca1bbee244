#include "plan/assign.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <queue>

#include "plan/declare.h"
#include "plan/regions.h"

namespace ckpt::plan {

namespace {

// The number of elements of a region that the caller knows to lie inside its shape.
uint64_t trusted_elements(const ReplicaRegion& entry) {
  auto elements = region_elements(entry.shape(), entry.region());
  assert(elements.ok());
  return elements.ok() ? *elements : 0;
}

// The smallest piece that starts and ends at both an element and a byte.
struct Granule {
  uint64_t bytes, elements;
  explicit Granule(uint16_t dtype) {
    uint64_t bits = static_cast<uint64_t>(dtype_bits(dtype));
    uint64_t whole = std::lcm(uint64_t{8}, bits);
    bytes = whole / 8;
    elements = bits ? whole / bits : 0;
  }
};

// Whether pieces cut at granules are regions that FORMAT §5 allows.
bool cuttable(const ReplicaRegion& entry, const Granule& granule) {
  if (granule.elements <= 1) return granule.elements == 1;
  auto fits = [&](uint64_t elements) { return elements % granule.elements == 0; };
  if (entry.kind == RegionKind::kWhole) return fits(trusted_elements(entry));
  auto numbers = entry.region_numbers();
  if (entry.kind == RegionKind::kFlat) return fits(numbers[0]) && fits(numbers[1]);
  if (entry.ndim == 0) return false;
  size_t ndim = entry.ndim;
  return fits(numbers[ndim - 1]) && fits(numbers[2 * ndim - 1]) && fits(entry.extents()[ndim - 1]);
}

// One region, cut into a share for each member.
class Cut {
 public:
  Cut(const ReplicaRegion& entry, uint32_t count, uint64_t chunk_bytes)
      : granule_(entry.dtype),
        granules_(entry.bytes / granule_.bytes),
        chunk_bytes_(chunk_bytes),
        chunks_((entry.bytes + chunk_bytes - 1) / chunk_bytes),
        count_(count) {}

  // Where the share of `member` begins, in granules.
  uint64_t begin(uint32_t member) const {
    if (member == count_) return granules_;
    // floor(member * chunks / count) without a product that overflows.
    uint64_t chunk = chunks_ / count_ * member + chunks_ % count_ * member / count_;
    return chunk * chunk_bytes_ / granule_.bytes;
  }
  uint64_t bytes(uint64_t granules) const { return granules * granule_.bytes; }

 private:
  Granule granule_;
  uint64_t granules_, chunk_bytes_, chunks_, count_;
};

void append_share(size_t index, const Cut& cut, uint32_t member, std::vector<AssignedCut>* cuts) {
  const uint64_t first = cut.begin(member), count = cut.begin(member + 1) - first;
  if (count != 0) cuts->push_back({index, cut.bytes(first), cut.bytes(count)});
}

// A queue of members: the least loaded first, then the lowest index.
class LeastLoaded {
 public:
  explicit LeastLoaded(std::span<const uint64_t> loads) {
    std::vector<Member> members;
    members.reserve(loads.size());
    for (uint32_t i = 0; i < loads.size(); i++) members.emplace_back(loads[i], i);
    queue_ = Queue(std::greater<>(), std::move(members));
  }
  uint32_t take(uint64_t bytes) {
    auto [load, member] = queue_.top();
    queue_.pop();
    queue_.emplace(load + bytes, member);
    return member;
  }

 private:
  using Member = std::pair<uint64_t, uint32_t>;
  using Queue = std::priority_queue<Member, std::vector<Member>, std::greater<>>;
  Queue queue_;
};

}  // namespace

Assignment assign(std::span<const ReplicaRegion> entries, uint32_t index, uint32_t count,
                  const AssignOptions& options) {
  assert(index < count && options.chunk_bytes > 0);
  Assignment assigned;
  std::vector<uint64_t> loads(count);
  std::vector<size_t> order = assignment_order(entries);
  std::erase_if(order, [&](size_t i) {
    if (!entries[i].first_only) return false;
    loads[0] += entries[i].bytes;
    if (index == 0 && entries[i].bytes != 0) assigned.whole.push_back(i);
    return true;
  });
  // Regions that are not cut come last, once the loads of all cuts are known.
  auto cut_end = std::stable_partition(order.begin(), order.end(), [&](size_t i) {
    const ReplicaRegion& entry = entries[i];
    return count > 1 && entry.bytes > options.large_tensor_bytes && cuttable(entry, Granule(entry.dtype));
  });
  for (auto at = order.begin(); at != cut_end; ++at) {
    const ReplicaRegion& entry = entries[*at];
    Cut cut(entry, count, options.chunk_bytes);
    for (uint32_t member = 0; member < count; member++)
      loads[member] += cut.bytes(cut.begin(member + 1) - cut.begin(member));
    append_share(*at, cut, index, &assigned.cuts);
  }
  LeastLoaded members(loads);
  for (auto at = cut_end; at != order.end(); ++at) {
    uint64_t bytes = entries[*at].bytes;
    if (bytes != 0 && members.take(bytes) == index) assigned.whole.push_back(*at);
  }
  return assigned;
}

}  // namespace ckpt::plan
