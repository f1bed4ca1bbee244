// Why a selector picks nothing, and what is there instead. Stateless; reads the store anew, since only errors need it.
#pragma once

#include "checkpoint/catalog.h"
#include "checkpoint/selector.h"
#include "store/store.h"

namespace ckpt::checkpoint {

// NOT_FOUND: the place is no store, the store or the run is empty, or the run has no such label, name, step or id.
// Details: path, expected, and found, which is what the caller may have meant.
Status explain_not_found(const store::Store& store, std::string_view selector, std::string_view run);

// NOT_FOUND: no directory has this id; names those of its label, if the caller gave a label or an older id.
Status explain_no_id(const store::Store& store, std::string_view id);

// The entry of a committed checkpoint; NOT_FOUND if there is none of that id.
Result<CheckpointEntry> committed_entry(const store::Store& store, std::string_view id);

// NOT_FOUND: of a store that does not tell what it holds, the checkpoint that was named has no MANIFEST.
Status no_manifest(const store::Store& store, std::string_view id);

}  // namespace ckpt::checkpoint
