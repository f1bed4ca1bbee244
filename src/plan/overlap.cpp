#include "plan/overlap.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

namespace ckpt::plan {

namespace {

using Dimension = Placement::Dimension;

// The memory of a request, piece by piece: `run` bytes at each place of the dimensions, of which the widest step comes
// first. Dimensions that continue each other are one.
struct Pieces {
  std::vector<Dimension> dimensions;
  uint64_t address, run;
  bool nested = true;  // no piece can lie in another: each step is beyond all that the dimensions after it reach

  explicit Pieces(const Placement& of) : dimensions(of.dimensions), address(of.address), run(of.width) {
    for (size_t i = dimensions.size(); i-- > 0;) nested &= dimensions[i].step >= reach(i + 1);
    while (!dimensions.empty() && dimensions.back().step == run) {
      run *= dimensions.back().extent;
      dimensions.pop_back();
    }
  }
  // From the first byte of dimensions i and after to the end of their last.
  uint64_t reach(size_t i) const {
    uint64_t bytes = run;
    for (; i < dimensions.size(); i++) bytes += (dimensions[i].extent - 1) * dimensions[i].step;
    return bytes;
  }
  uint64_t end() const { return address + reach(0); }
  // Calls visit(begin, end) for each piece of memory in [low, high), until it says false. Then it is false, too.
  template <typename Visit>
  bool visit_in(uint64_t low, uint64_t high, const Visit& visit) const {
    return step(0, address, reach(0), low, high, visit);
  }

 private:
  template <typename Visit>
  bool step(size_t i, uint64_t at, uint64_t bytes, uint64_t low, uint64_t high, const Visit& visit) const {
    if (at >= high || at + bytes <= low) return true;
    if (i == dimensions.size()) return visit(std::max(at, low), std::min(at + run, high));
    const auto [extent, step_bytes, source] = dimensions[i];
    const uint64_t inner = bytes - (extent - 1) * step_bytes;
    const uint64_t begin = at + inner > low ? 0 : (low - at - inner) / step_bytes + 1;
    const uint64_t end = std::min(extent, (high - at - 1) / step_bytes + 1);
    for (uint64_t k = begin; k < end; k++)
      if (!step(i + 1, at + k * step_bytes, inner, low, high, visit)) return false;
    return true;
  }
};

struct Member {
  size_t number;  // of the request
  Placement at;
  Pieces pieces;
  size_t family = 0;  // members of a family bring equal bytes wherever they meet

  Member(size_t request, Placement placed) : number(request), at(std::move(placed)), pieces(at) {}
  // Memory is as the source is, so that an address tells the element.
  bool is_image() const {
    return std::ranges::all_of(at.dimensions, [&](const Dimension& d) { return d.step == d.source * at.width; });
  }
  uint64_t origin() const { return at.address - at.first * at.width; }
  uint64_t bytes() const {
    return std::accumulate(at.dimensions.begin(), at.dimensions.end(), at.width,
                           [](uint64_t bytes, const Dimension& d) { return bytes * d.extent; });
  }
};

// Whether `inner` writes nothing but what `outer`, which must be nested, writes there too. The places of `outer` count
// like digits: a distance in memory tells how far it is along each dimension, and so which element is there.
bool lies_in(const Placement& inner, const Placement& outer) {
  std::vector<uint64_t> furthest(outer.dimensions.size());
  auto go = [&](uint64_t distance, uint64_t elements, uint64_t times) {
    for (size_t i = 0; i < outer.dimensions.size(); i++) {
      const Dimension& d = outer.dimensions[i];
      const uint64_t steps = distance / d.step;
      distance %= d.step;
      elements -= steps * d.source;
      furthest[i] += steps * times;
      if (steps >= d.extent || furthest[i] >= d.extent) return false;
    }
    return distance == 0 && elements == 0;
  };
  if (inner.address < outer.address || !go(inner.address - outer.address, inner.first - outer.first, 1)) return false;
  return std::ranges::all_of(inner.dimensions, [&](const Dimension& d) { return go(d.step, d.source, d.extent - 1); });
}

bool agree(const Member& member, const Member& with) {
  const Placement &a = member.at, &b = with.at;
  if (std::tie(a.source, a.kind, a.width) != std::tie(b.source, b.kind, b.width)) return false;
  if (member.is_image() && with.is_image() && member.origin() == with.origin()) return true;
  return a == b || (with.pieces.nested && lies_in(a, b));
}

// A bit for each `grain` bytes of [begin, end).
class Bits {
 public:
  Bits(uint64_t grain, uint64_t bytes) : grain_(grain), words_(bytes / grain / 64 + 2) {}
  void start(uint64_t begin) {
    begin_ = begin;
    std::ranges::fill(words_, 0);
  }
  bool any(uint64_t begin, uint64_t end) const {
    return !for_each_word(begin, end, [&](size_t word, uint64_t bits) { return !(words_[word] & bits); });
  }
  void set(uint64_t begin, uint64_t end) {
    for_each_word(begin, end, [&](size_t word, uint64_t bits) {
      words_[word] |= bits;
      return true;
    });
  }

 private:
  template <typename Visit>
  bool for_each_word(uint64_t begin, uint64_t end, const Visit& visit) const {
    uint64_t at = (begin - begin_) / grain_;
    for (const uint64_t last = (end - begin_) / grain_; at < last;) {
      const uint64_t bit = at % 64, count = std::min(64 - bit, last - at);
      if (!visit(at / 64, ~uint64_t{0} >> (64 - count) << bit)) return false;
      at += count;
    }
    return true;
  }

  uint64_t grain_, begin_ = 0;
  std::vector<uint64_t> words_;
};

// Requests whose ranges form one stretch of memory.
class Group {
 public:
  void add(size_t number, Placement placement) {
    std::erase_if(placement.dimensions, [](const Dimension& d) { return d.extent == 1; });
    std::ranges::sort(placement.dimensions, std::greater{}, &Dimension::step);
    members_.emplace_back(number, std::move(placement));
  }
  std::optional<Meeting> find() {
    for (const Member& member : members_) {
      if (member.pieces.nested || member.is_image()) continue;
      const bool repeats = std::ranges::any_of(member.at.dimensions, [](const Dimension& d) { return d.step == 0; });
      if (repeats || search({&member, 1}, true)) return Meeting{member.number, member.number};
    }
    if (set_families() == 1 || apart()) return std::nullopt;
    return search(members_, false);
  }

 private:
  // How many there are. Members of one are neighbours then; its widest one comes first.
  size_t set_families() {
    auto key = [](const Member& m) {
      return std::tuple(m.at.source, m.at.kind, m.is_image() ? m.origin() : 0, ~m.bytes(), m.number);
    };
    std::ranges::sort(members_, {}, key);
    const Member* widest = members_.data();
    for (Member& member : members_) {
      if (!agree(member, *widest)) {
        member.family = widest->family + 1;
        widest = &member;
      }
      member.family = widest->family;
    }
    return widest->family + 1;
  }

  // The usual cases, such as columns of one matrix: all steps are multiples of one, so members whose pieces differ in
  // their place within it never meet.
  bool apart() const {
    uint64_t pitch = 0, begin = UINT64_MAX;
    for (const Member& member : members_) {
      begin = std::min(begin, member.at.address);
      for (const Dimension& d : member.pieces.dimensions) pitch = std::gcd(pitch, d.step);
    }
    if (pitch == 0) return false;
    std::vector<std::tuple<uint64_t, uint64_t, size_t>> places;  // begin and end within the pitch, family
    for (const Member& member : members_) {
      const uint64_t at = (member.at.address - begin) % pitch, end = at + member.pieces.run;
      if (end > pitch) return false;
      places.emplace_back(at, end, member.family);
    }
    std::ranges::sort(places);
    uint64_t end = 0;
    size_t family = 0;
    for (const auto& [at, piece_end, piece_family] : places) {
      if (at < end && piece_family != family) return false;
      if (piece_end <= end) continue;
      end = piece_end;
      family = piece_family;
    }
    return true;
  }

  // Marks the memory of one family after the other; `itself`: of one member, piece by piece.
  static std::optional<Meeting> search(std::span<const Member> members, bool itself) {
    uint64_t begin = UINT64_MAX, end = 0, odd = 0;
    for (const Member& member : members) {
      begin = std::min(begin, member.at.address);
      end = std::max(end, member.pieces.end());
    }
    for (const Member& member : members) {
      odd |= (member.at.address - begin) | member.pieces.run;
      for (const Dimension& d : member.pieces.dimensions) odd |= d.step;
    }
    const uint64_t grain = uint64_t{1} << std::countr_zero(odd), most = grain << 26;
    Bits bits(grain, std::min(end - begin, most));
    for (uint64_t low = begin; low < end; low += std::min(end - low, most)) {
      bits.start(low);
      if (auto found = search(members, low, low + std::min(end - low, most), itself, &bits)) return found;
    }
    return std::nullopt;
  }

  // The same in [low, high) only.
  static std::optional<Meeting> search(std::span<const Member> members, uint64_t low, uint64_t high, bool itself,
                                       Bits* bits) {
    auto mark = [&](uint64_t begin, uint64_t end) {
      bits->set(begin, end);
      return true;
    };
    for (size_t first = 0, next = 0; first < members.size(); first = next) {
      for (; next < members.size() && members[next].family == members[first].family; next++) {
        uint64_t met = 0, met_end = 0;
        auto is_free = [&](uint64_t begin, uint64_t end) {
          std::tie(met, met_end) = std::tie(begin, end);
          return !bits->any(begin, end) && (!itself || mark(begin, end));
        };
        const Member& member = members[next];
        if (!member.pieces.visit_in(low, high, is_free)) return who(members.first(first), member, met, met_end);
      }
      for (size_t i = first; i < next && !itself; i++) members[i].pieces.visit_in(low, high, mark);
    }
    return std::nullopt;
  }

  // The member and the one of those before that has bytes in [begin, end); itself, if none does.
  static Meeting who(std::span<const Member> before, const Member& member, uint64_t begin, uint64_t end) {
    for (const Member& other : before)
      if (!other.pieces.visit_in(begin, end, [](uint64_t, uint64_t) { return false; }))
        return std::minmax(other.number, member.number);
    return {member.number, member.number};
  }

  std::vector<Member> members_;
};

}  // namespace

// Whether each begins where those before it have ended. What writes nothing counts for nothing.
static bool ascend(std::span<const Stretch> stretches) {
  uint64_t end = 0;
  for (const Stretch& stretch : stretches) {
    if (stretch.begin >= stretch.end) continue;
    if (stretch.begin < end) return false;
    end = stretch.end;
  }
  return true;
}

bool are_apart(std::span<const Stretch> stretches) {
  if (!std::ranges::all_of(stretches, [](const Stretch& one) { return one.dense || one.begin >= one.end; }))
    return false;
  if (ascend(stretches)) return true;  // many callers ask in the order of addresses
  std::vector<Stretch> sorted(stretches.begin(), stretches.end());
  std::ranges::sort(sorted, {}, &Stretch::begin);
  return ascend(sorted);
}

std::optional<Meeting> find_overlap(std::span<const Stretch> stretches, const std::function<Placement(size_t)>& place) {
  std::vector<size_t> order;
  for (size_t i = 0; i < stretches.size(); i++)
    if (stretches[i].begin < stretches[i].end) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(stretches[i].begin, i); });
  for (size_t i = 0, next = 0; i < order.size(); i = next) {
    uint64_t end = stretches[order[i]].end;
    for (next = i + 1; next < order.size() && stretches[order[next]].begin < end; next++)
      end = std::max(end, stretches[order[next]].end);
    if (next == i + 1 && stretches[order[i]].dense) continue;
    Group group;
    for (size_t k = i; k < next; k++) group.add(order[k], place(order[k]));
    if (auto found = group.find()) return found;
  }
  return std::nullopt;
}

}  // namespace ckpt::plan
