#include "save/name_set.h"

#include <cstring>

#include "base/types.h"
#include "format/checksum.h"

namespace ckpt::save {

static uint32_t hash_of(std::string_view name) { return static_cast<uint32_t>(format::xxh3_64(as_bytes(name))); }

// The slot of a name, or the free slot where it belongs.
size_t NameSet::slot_of(std::string_view name, uint32_t hash) const {
  size_t mask = slots_.size() - 1, at = hash & mask;
  while (slots_[at].text && (slots_[at].hash != hash || slots_[at].name() != name)) at = (at + 1) & mask;
  return at;
}

// Keeps at least a quarter of the slots free. Beyond 2^32 slots the hash would not reach all of them evenly, but no
// index holds so many names.
void NameSet::grow() {
  LargeVector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
  old.swap(slots_);
  size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (!slot.text) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].text) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

std::string_view NameSet::insert(std::string_view name) {
  if (4 * (count_ + 1) > 3 * slots_.size()) grow();
  uint32_t hash = hash_of(name);
  Slot& slot = slots_[slot_of(name, hash)];
  if (slot.text) return {};
  char* text = static_cast<char*>(memory_->allocate(name.size(), 1));
  std::memcpy(text, name.data(), name.size());
  slot = {text, static_cast<uint32_t>(name.size()), hash};
  count_++;
  return slot.name();
}

bool NameSet::contains(std::string_view name) const {
  return !slots_.empty() && slots_[slot_of(name, hash_of(name))].text;
}

}  // namespace ckpt::save
