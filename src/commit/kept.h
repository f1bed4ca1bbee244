// Which checkpoints must stay because somebody said so (ckpt_store_keep). `.ckpt/kept/<id>.<n>` is the n-th word about
// a checkpoint: kept, released, or removing. Each is put exclusively, and the last one counts. Where locks protect,
// whoever removes looks while he holds the lock on MANIFEST exclusively, and whoever keeps holds it as a reader does.
// Elsewhere a remover says "removing" first: of that and "kept" only one can be the next word. If he dies then, the
// checkpoint can still be loaded and removed, but not kept. Any thread, any process.
#pragma once

#include <span>

#include "checkpoint/catalog.h"

namespace ckpt::commit {

Result<bool> is_kept(const store::Store& store, std::string_view id);
// Notes it in each entry, as far as it can be read: for whoever looks, not for whoever removes. Of many entries a list
// tells first of which there are words; of one that would be a request more.
void note_kept(const store::Store& store, std::span<checkpoint::CheckpointEntry> entries);
void note_kept(const store::Store& store, checkpoint::CheckpointEntry& entry);

// What a full disk holds against a small file that must be there first says how to make room.
Status needs_room(Status status);

// See ckpt_store_keep.
Status keep(store::Store& store, std::string_view id);
Status release(store::Store& store, std::string_view id);

// For whoever is about to remove a committed checkpoint: CONFLICT if it is kept. `locked`: he holds a lock that whoever
// keeps it needs, too. Without one he says that he removes it, and from then on nobody can keep it, also if he dies.
// Returns how many words there are.
Result<uint64_t> claim_removal(store::Store& store, std::string_view id, bool locked);
// It is gone: so are the words about it.
void forget_kept(store::Store& store, std::string_view id, uint64_t words);

}  // namespace ckpt::commit
