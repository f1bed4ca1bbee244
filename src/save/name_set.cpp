#include "save/name_set.h"

#include <cstring>

#include "base/types.h"
#include "codec/checksum.h"

namespace ckpt::save {

static uint32_t hash_of(std::string_view name) { return static_cast<uint32_t>(codec::xxh3_64(as_bytes(name))); }

// The cell of a name, or the free cell where it belongs.
size_t NameSet::cell_of(std::string_view name, uint32_t hash) const {
  size_t mask = cells_.size() - 1, at = hash & mask;
  while (cells_[at].text && (cells_[at].hash != hash || cells_[at].name() != name)) at = (at + 1) & mask;
  return at;
}

// Keeps at least a quarter of the slots free. Beyond 2^32 slots the hash would not reach all of them evenly, but no
// index holds so many names.
void NameSet::grow() {
  LargeVector<Cell> old(cells_.empty() ? 64 : 2 * cells_.size());
  old.swap(cells_);
  size_t mask = cells_.size() - 1;
  for (const Cell& cell : old) {
    if (!cell.text) continue;
    size_t at = cell.hash & mask;
    while (cells_[at].text) at = (at + 1) & mask;
    cells_[at] = cell;
  }
}

std::pair<NameSet::Cell&, bool> NameSet::insert(std::string_view name) {
  if (4 * (count_ + 1) > 3 * cells_.size()) grow();
  uint32_t hash = hash_of(name);
  Cell& cell = cells_[cell_of(name, hash)];
  if (cell.text) return {cell, false};
  char* text = static_cast<char*>(memory_->allocate(name.size(), 1));
  std::memcpy(text, name.data(), name.size());
  cell = {text, static_cast<uint32_t>(name.size()), hash, nullptr};
  count_++;
  return {cell, true};
}

bool NameSet::contains(std::string_view name) const {
  return !cells_.empty() && cells_[cell_of(name, hash_of(name))].text;
}

}  // namespace ckpt::save
