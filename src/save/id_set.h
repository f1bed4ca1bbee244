// Some ids of a table, of whose other rows most are told apart by one bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace ckpt::save {

using Ids = std::vector<uint64_t>;

inline void sort_unique(Ids* ids) {
  std::ranges::sort(*ids);
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

class IdSet {
 public:
  explicit IdSet(Ids ids) : ids_(std::move(ids)) {
    sort_unique(&ids_);
    shift_ = 60 - std::min(static_cast<unsigned>(std::bit_width(ids_.size())), 34u);
    bits_.resize((UINT64_MAX >> shift_) + 1);
    for (const uint64_t id : ids_) bits_[place(id)] = true;
  }
  bool contains(uint64_t id) const { return bits_[place(id)] && std::ranges::binary_search(ids_, id); }
  const Ids& sorted() const { return ids_; }

 private:
  uint64_t place(uint64_t id) const { return id * 0x9e3779b97f4a7c15 >> shift_; }

  Ids ids_;
  unsigned shift_ = 0;
  std::vector<bool> bits_;
};

}  // namespace ckpt::save
