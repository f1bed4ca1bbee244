// Which checkpoint a selector picks, of a store or of a store and its mirror together; and who has a label.
// Stateless; every call reads the store anew.
#pragma once

#include <functional>

#include "checkpoint/catalog.h"

namespace ckpt::checkpoint {

// A store, and its mirror if it has one: another store, which has copies of its checkpoints (maintain/mirror.h). What
// either holds, both hold together.
struct Places {
  Places(const store::Store& its_store, const store::Store* its_mirror = nullptr)  // NOLINT: one store is a place
      : store(its_store), mirror(its_mirror) {}
  const store::Store& store;
  const store::Store* mirror;
  const store::Store& of(const CheckpointEntry& entry) const { return entry.in_mirror() ? *mirror : store; }
};

// As list_checkpoints, of both: what is in both is one entry, that of the store, which tells what the mirror has of it.
// MISMATCH if they are two stores. What cannot be asked of the mirror is an error.
Result<std::vector<CheckpointEntry>> list_places(const Places& places);

// Counts the bytes of entries that are not committed, whose manifests tell them otherwise; and what they share, if any
// of them shares anything.
void measure(const Places& places, std::vector<CheckpointEntry>& entries);
// Looks at the files of one, where files can have several names.
void measure_shared(const Places& places, CheckpointEntry& entry);

// IO if a mirror that was used before has nothing of it any more: it was removed, or its disk is not mounted, and must
// neither be made anew nor be taken for an empty one. The store remembers its mirrors, once note_mirror has run.
Status check_mirror_there(const store::Store& mirror);
Status check_known_mirror(const Places& places);
Status note_mirror(store::Store& store, const store::Store& mirror);

// MISMATCH if the mirror has the id of another store; one that is zero is of none.
Status check_same_store(const Places& places, const Id& own, const Id& there);

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
// never passed over. What is in both places is loaded from the store, or from the mirror if the store's is damaged.
struct Question {
  std::string_view selector, run;
  bool refuse_damaged = false;  // the problem of a newer checkpoint is the answer, rather than an older checkpoint
};
Result<Selection> select_checkpoint(const Places& places, const Question& question,
                                    const std::function<Status(const CheckpointEntry&)>& load);

void fill_info(const Selection& selection, ckpt_checkpoint_info* out);

}  // namespace ckpt::checkpoint
