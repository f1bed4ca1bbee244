// An open, committed checkpoint: its manifest, checked, and its parts, opened when they are needed; a limited number of
// them stays open.
// Immutable but for the part files, which have their own lock; concurrent use is fine. As long as it exists, pruning
// leaves the checkpoint alone.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/catalog.h"
#include "device/arena.h"
#include "plan/geometry.h"

namespace ckpt::checkpoint {

// A part that is open as long as somebody has this.
using PartReader = std::shared_ptr<const store::Reader>;

class Checkpoint {
 public:
  // Divides a large manifest among `threads` threads.
  static Result<std::shared_ptr<Checkpoint>> open(std::shared_ptr<store::Store> store, const Question& question,
                                                  unsigned threads = 1);

  const CheckpointEntry& entry() const { return selection_.entry; }
  const Selection& selection() const { return selection_; }
  const format::Index& index() const { return index_; }
  const store::Store& store() const { return *store_; }

  // Opens a part and checks that it is the one that the manifest names (size, header). INCOMPLETE, GONE, MISMATCH,
  // CORRUPT, FORMAT.
  Result<PartReader> part(uint32_t number) const;
  // All bytes of a part, mapped for as long as the checkpoint is open. UNSUPPORTED, and as part().
  Result<Bytes> map_part(uint32_t number) const;
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
  Status load(const CheckpointEntry& entry, unsigned threads);
  Status read_manifest(unsigned threads);
  Status terminate_texts(unsigned threads);
  void place_aliases();
  Result<std::unique_ptr<store::Reader>> open_part_file(uint32_t number) const;
  PartReader find_open(uint32_t number) const;

  std::shared_ptr<store::Store> store_;
  Selection selection_;
  std::unique_ptr<store::Lock> lock_;
  device::Mapping bytes_;
  format::Index index_;
  std::vector<uint64_t> alias_positions_;                    // position of each alias in the order of all names
  mutable std::mutex mutex_;                                 // guards what follows
  mutable std::list<std::pair<uint32_t, PartReader>> open_;  // the part that was used last comes first
  mutable std::map<uint32_t, std::unique_ptr<store::Reader>> mapped_;
};

}  // namespace ckpt::checkpoint
