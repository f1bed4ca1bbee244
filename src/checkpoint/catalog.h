// What a store holds: its checkpoints and attempts, in the order of FORMAT §7; and which one a selector picks.
// Stateless; every call reads the store anew.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/slot.h"
#include "store/store.h"

namespace ckpt::checkpoint {

struct CheckpointEntry {
  std::string id;     // directory name
  int32_t state = 0;  // CKPT_CHECKPOINT_*
  bool foreign = false;
  format::Summary summary;  // if committed; otherwise only what the directory's name tells
  uint64_t bytes = 0;
  Status problem;  // why it is DAMAGED or ABORTED
};

// The store's id: from .ckpt/store, or else by vote of the checkpoints; zero for an empty store without one.
Result<Id> find_store_id(const store::Store& store);

// All checkpoints and attempts, ordered by run, token, sequence, attempt, id.
Result<std::vector<CheckpointEntry>> list_checkpoints(const store::Store& store);

// Reads one directory. NOT_FOUND if it is no checkpoint.
Result<CheckpointEntry> read_entry(const store::Store& store, std::string_view id);

// The committed checkpoint of `run` that a selector (see ckpt_store_find) picks. NOT_FOUND; for a damaged checkpoint
// that was named, its own problem.
Result<CheckpointEntry> find_checkpoint(const store::Store& store, std::string_view selector, std::string_view run);

// The highest token in owner files and checkpoint directories; 0 if there is none.
Result<uint64_t> highest_token(const store::Store& store, std::span<const CheckpointEntry> entries);

// What a commit slot says, from the end of the file alone (its index is not read). NOT_FOUND if the slot is empty.
Result<format::Slot> peek_slot(const store::Store& store, std::string_view id);

// The whole content of a commit slot. NOT_FOUND if it is empty.
struct SlotFile {
  std::vector<std::byte> bytes;
  format::Slot slot;
};
Result<SlotFile> read_slot(const store::Store& store, std::string_view id);

void fill_info(const CheckpointEntry& entry, ckpt_checkpoint_info* out);

}  // namespace ckpt::checkpoint
