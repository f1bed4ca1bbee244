// The names that a save has taken: kept in one place, found by their hash.
#pragma once

#include <memory_resource>
#include <string_view>

#include "base/large_memory.h"

namespace ckpt::save {

class NameSet {
 public:
  // `memory` holds the text and must outlive every name.
  explicit NameSet(std::pmr::memory_resource* memory) : memory_(memory) {}

  // The name as it is kept; nothing where it was there before. Names are not empty.
  std::string_view insert(std::string_view name);
  bool contains(std::string_view name) const;
  // Lets go of what finds the names; their text stays.
  void forget() { slots_ = {}; }

 private:
  struct Slot {
    const char* text = nullptr;  // null: free
    uint32_t size = 0, hash = 0;
    std::string_view name() const { return {text, size}; }
  };
  size_t slot_of(std::string_view name, uint32_t hash) const;
  void grow();

  std::pmr::memory_resource* memory_;
  LargeVector<Slot> slots_;  // a power of two
  size_t count_ = 0;
};

}  // namespace ckpt::save
