// An open, committed checkpoint: its manifest, checked, and its parts, opened when they are first needed.
// Immutable but for the part files, which have their own lock; concurrent use is fine. As long as it exists, pruning
// leaves the checkpoint alone.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/catalog.h"
#include "device/arena.h"
#include "plan/geometry.h"

namespace ckpt::checkpoint {

class Checkpoint {
 public:
  // Divides a large manifest among `threads` threads.
  static Result<std::shared_ptr<Checkpoint>> open(std::shared_ptr<store::Store> store, std::string_view selector,
                                                  std::string_view run, unsigned threads = 1);

  const CheckpointEntry& entry() const { return entry_; }
  const format::Index& index() const { return index_; }
  const store::Store& store() const { return *store_; }

  // Opens a part and checks that it is the one that the manifest names (size, header). INCOMPLETE, GONE, MISMATCH,
  // CORRUPT, FORMAT.
  Result<const store::Reader*> part(uint32_t number) const;
  // The same for callers that only ask whether `name` (a tensor or object) can be read from there: errors name it.
  Status check_part(uint32_t number, std::string_view name) const;
  // Adds part name and path to an error; a part that vanished with its checkpoint is GONE.
  Status at_part(Status status, uint32_t number) const;

  // All names, of tensors and aliases together, in one order for listing: `position` counts both.
  struct Named {
    const fb::Tensor* tensor;  // the tensor itself, or the target of the alias
    const fb::Alias* alias;    // null for a tensor
  };
  uint64_t name_count() const { return index_.tensors.size() + index_.aliases.size(); }
  Named named_at(uint64_t position) const;
  // The tensor is null if there is no such name.
  Named find(std::string_view name) const;
  std::string_view name_of(const Named& named) const;
  // A text of the index as a C string that lives as long as the checkpoint.
  const char* c_text(const fb::Text& text) const { return index_.names.data() + text.offset(); }

 private:
  Checkpoint() = default;
  Status read_manifest(unsigned threads);
  Status terminate_texts(unsigned threads);
  void place_aliases();
  Result<std::unique_ptr<store::Reader>> open_part_file(uint32_t number) const;

  std::shared_ptr<store::Store> store_;
  CheckpointEntry entry_;
  std::unique_ptr<store::Lock> lock_;
  device::Mapping bytes_;
  format::Index index_;
  std::vector<uint64_t> alias_positions_;  // position of each alias in the order of all names
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<store::Reader>> parts_;
};

}  // namespace ckpt::checkpoint
