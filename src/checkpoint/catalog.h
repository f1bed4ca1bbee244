// What a store holds: its checkpoints and attempts, in the order of FORMAT §7. select.h picks one of them.
// Stateless; every call reads the store anew.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "format/names.h"
#include "format/slot.h"
#include "store/store.h"

namespace ckpt::checkpoint {

struct CheckpointEntry {
  std::string id;     // directory name
  int32_t state = 0;  // CKPT_CHECKPOINT_*
  bool foreign = false;
  bool copy = false;        // of a save that another directory holds under its own name
  bool kept = false;        // see commit/kept.h; known only where somebody asked
  std::string names{};      // the same, see given_names.h: with spaces between
  uint32_t mirror = 0;      // CKPT_CHECKPOINT_MIRRORED and its like, if the store has a mirror
  format::Summary summary;  // if committed; otherwise only what the directory's name tells
  uint64_t bytes = 0;       // see measure in select.h
  uint64_t shared = 0;      // of these, as far as it was measured: other checkpoints of the store have them, too
  Status problem;           // why it is DAMAGED, UNREADABLE, REVISION or ABORTED
  // Whether it was or may have been committed, and cannot be loaded here and now.
  bool unusable() const {
    return state == CKPT_CHECKPOINT_DAMAGED || state == CKPT_CHECKPOINT_UNREADABLE || state == CKPT_CHECKPOINT_REVISION;
  }
  // MANIFEST as it was opened for this, for `load` of a selection by its id: on a server, opening it again is a
  // request.
  std::shared_ptr<const store::Reader> manifest{};
  // Whether latest, retention and counts of a run concern it.
  bool counts() const { return state == CKPT_CHECKPOINT_COMMITTED && !foreign && !copy; }
  // Whether it is to be read from the mirror.
  bool in_mirror() const { return (mirror & CKPT_CHECKPOINT_MIRROR_ONLY) != 0; }
  // By which listings are sorted.
  auto order() const { return std::tie(summary.run, summary.token, summary.sequence, summary.attempt, id); }
  // Whether its directory has the name that the save gave it.
  bool own_name() const { return id == format::checkpoint_dir(summary.label, summary.token, summary.attempt); }
};

// What .ckpt/store says. NOT_FOUND; FORMAT, IO, … if it is damaged.
Result<Id> read_store_id(const store::Store& store);
// The store's id: from .ckpt/store, or else by vote of the checkpoints; zero for an empty store without one.
Result<Id> find_store_id(const store::Store& store);

// Gives a store that has no id this one. Returns the id that it has then: another may have been faster.
Result<Id> adopt_store_id(store::Store& store, const Id& id);

// Waits until listings of the store show whatever was done before this call.
Status await_listings(const store::Store& store);

// No removal takes so long. What is still listed and cannot be opened then is a fault of the store's.
inline constexpr int64_t kPatienceMs = 3000;

// All checkpoints and attempts, ordered by run, token, sequence, attempt, id: a picture that held at one moment of the
// call, whatever is committed and removed meanwhile. What cannot be read is DAMAGED or UNREADABLE; only the
// root must be readable.
// `keep_open`: on a server, the one that by its name is the newest comes with its manifest.
Result<std::vector<CheckpointEntry>> list_checkpoints(const store::Store& store, bool keep_open = false);

// Reads one directory. NOT_FOUND if it is no checkpoint, or not there. `keep_open`: with its manifest.
Result<CheckpointEntry> read_entry(const store::Store& store, std::string_view id, bool keep_open = false);

// INVALID where a checkpoint's own directory was given for a store: it would be an empty one. Not so in a bucket.
Status check_is_store(const store::Store& store);

// The names of all directories that may be checkpoints. INVALID as above.
Result<std::vector<std::string>> list_ids(const store::Store& store);

// DAMAGED, UNREADABLE or REVISION: what becomes of an entry with this problem.
int32_t state_of(const Status& problem);

// The highest token in owner files and checkpoint directories; 0 if there is none. Their names tell it.
Result<uint64_t> highest_token(const store::Store& store);

// What a commit slot says, from the end of the file alone (its index is not read). NOT_FOUND if the slot is empty.
Result<format::Slot> peek_slot(const store::Store& store, std::string_view id);
Result<format::Slot> read_slot_end(const store::Reader& file);

void fill_info(const CheckpointEntry& entry, ckpt_checkpoint_info* out);

}  // namespace ckpt::checkpoint
