// The names that a save has taken: keeps their text, and finds them and their tensors by hash.
#pragma once

#include <memory_resource>
#include <string_view>

#include "base/large_memory.h"

namespace ckpt::save {

struct SaveTensor;

class NameSet {
 public:
  // `memory` holds the text and must outlive every name.
  explicit NameSet(std::pmr::memory_resource* memory) : memory_(memory) {}

  struct Cell {
    const char* text = nullptr;  // null: free
    uint32_t size = 0, hash = 0;
    const SaveTensor* tensor = nullptr;  // the first one of that name, if the caller notes it
    std::string_view name() const { return {text, size}; }
  };
  // Where the name is, until the next one is inserted; and whether it is new. The name must not be empty.
  std::pair<Cell&, bool> insert(std::string_view name);
  bool contains(std::string_view name) const;
  // Frees the hash table. The text of the names stays.
  void forget() { cells_ = {}; }

 private:
  size_t cell_of(std::string_view name, uint32_t hash) const;
  void grow();

  std::pmr::memory_resource* memory_;
  LargeVector<Cell> cells_;  // their number is a power of two
  size_t count_ = 0;
};

}  // namespace ckpt::save
