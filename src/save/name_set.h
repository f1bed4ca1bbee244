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

  // Returns the name as kept; an empty view if it was there before. The name must not be empty.
  std::string_view insert(std::string_view name);
  bool contains(std::string_view name) const;
  // The first tensor that was noted for a name; null for none.
  const SaveTensor* tensor_of(std::string_view name) const;
  void note(std::string_view name, const SaveTensor* tensor);
  // Frees the hash table. The text of the names stays.
  void forget() { cells_ = {}; }

 private:
  struct Cell {
    const char* text = nullptr;  // null: free
    uint32_t size = 0, hash = 0;
    const SaveTensor* tensor = nullptr;
    std::string_view name() const { return {text, size}; }
  };
  size_t cell_of(std::string_view name, uint32_t hash) const;
  void grow();

  std::pmr::memory_resource* memory_;
  LargeVector<Cell> cells_;  // their number is a power of two
  size_t count_ = 0;
};

}  // namespace ckpt::save
