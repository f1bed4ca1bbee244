// What a store holds: its checkpoints and attempts, in the order of FORMAT §7; and which one a selector picks.
// Stateless; every call reads the store anew.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  format::Summary summary;  // if committed; otherwise only what the directory's name tells
  uint64_t bytes = 0;       // see measure
  Status problem;           // why it is DAMAGED or ABORTED
  // MANIFEST as it was opened for this, for `load` of a selection by its id: on a server, opening it again is a
  // request.
  std::shared_ptr<const store::Reader> manifest{};
  // Whether latest, retention and counts of a run concern it.
  bool counts() const { return state == CKPT_CHECKPOINT_COMMITTED && !foreign && !copy; }
  // Whether its directory has the name that the save gave it.
  bool own_name() const { return id == format::checkpoint_dir(summary.label, summary.token, summary.attempt); }
};

// What .ckpt/store says. NOT_FOUND; FORMAT, IO, … if it is damaged.
Result<Id> read_store_id(const store::Store& store);
// The store's id: from .ckpt/store, or else by vote of the checkpoints; zero for an empty store without one.
Result<Id> find_store_id(const store::Store& store);

// Waits until listings of the store show whatever was done before this call.
void settle(const store::Store& store);

// All checkpoints and attempts, ordered by run, token, sequence, attempt, id: a picture that held at one moment of the
// call, whatever is committed and removed meanwhile. What cannot be read is DAMAGED; only the root must be readable.
Result<std::vector<CheckpointEntry>> list_checkpoints(const store::Store& store);

// Reads one directory. NOT_FOUND if it is no checkpoint, or not there. `keep_open`: with its manifest.
Result<CheckpointEntry> read_entry(const store::Store& store, std::string_view id, bool keep_open = false);

// Counts the bytes of entries that are not committed, whose manifests tell them otherwise.
void measure(const store::Store& store, std::vector<CheckpointEntry>& entries);

// Who has a label of this store and run: the committed checkpoint that `load` takes, if there is one, and those that
// are damaged. Names tell where to look: it reads the records of this label only, and those of directories that were
// renamed.
struct LabelQuestion {
  Id store_id;
  std::string_view run, label;
};
struct LabelHolders {
  std::optional<CheckpointEntry> sound;
  std::vector<CheckpointEntry> damaged;  // with the problem
};
Result<LabelHolders> find_label(const store::Store& store, const LabelQuestion& question,
                                const std::function<Status(const CheckpointEntry&)>& load);

// What a selector picks, and the newer checkpoints of the run, newest first, that cannot be loaded, with the reason.
struct Selection {
  CheckpointEntry entry;
  std::vector<CheckpointEntry> passed_over;
};
// The committed checkpoint of `run` that a selector (see ckpt_store_find) picks: the newest that `load` takes. What
// `load` refuses as damaged is passed over; what it finds removed is looked for again. NOT_FOUND if there is none, or
// the problem of the newest that was passed over. A checkpoint that was named by its id is picked whatever it is, and
// never passed over.
struct Question {
  std::string_view selector, run;
  bool refuse_damaged = false;  // the problem of a newer checkpoint is the answer, rather than an older checkpoint
};
Result<Selection> select_checkpoint(const store::Store& store, const Question& question,
                                    const std::function<Status(const CheckpointEntry&)>& load);
// The highest token in owner files and checkpoint directories; 0 if there is none. Their names tell it.
Result<uint64_t> highest_token(const store::Store& store);

// What a commit slot says, from the end of the file alone (its index is not read). NOT_FOUND if the slot is empty.
Result<format::Slot> peek_slot(const store::Store& store, std::string_view id);
Result<format::Slot> read_slot_end(const store::Reader& file);

void fill_info(const CheckpointEntry& entry, ckpt_checkpoint_info* out);
void fill_info(const Selection& selection, ckpt_checkpoint_info* out);

}  // namespace ckpt::checkpoint
