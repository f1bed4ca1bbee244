// Names that somebody gave to checkpoints after they were saved (ckpt_store_name). `.ckpt/names/<run>/<name>.<n>` is
// the n-th word about a name: the id of the checkpoint that has it, or nothing. Each is put exclusively, and the last
// one counts. Any thread, any process.
//
// Whoever puts a word removes older ones, except powers of two and the stems of the new one: its number without some of
// its lowest bits that are set (of 22: 20, 16). So few stay, and the last is found without a list, which may lag behind
// or which a server does not give: after word r the reader asks for each higher number that has one bit more than a
// stem of r, from the lowest on (after 20: 21, 22, 24, 32). While the last word is above r, one of these is its stem,
// or a power of two. That one goes only when the last word has become one for which the same is true of a later
// question. So if none is there, r was the last when he began to ask.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "checkpoint/catalog.h"

namespace ckpt::checkpoint {

// The id of the checkpoint that has a name, whether or not that is there; "" if none has. INVALID.
Result<std::string> named_id(const store::Store& store, std::string_view run, std::string_view name);

// Notes in each entry what names it has, as far as they can be read and fit into ckpt_checkpoint_info.
void note_names(const store::Store& store, std::span<CheckpointEntry> entries);

// See ckpt_store_name.
Status give_name(store::Store& store, std::string_view run, std::string_view name, std::string_view id);
Status take_name(store::Store& store, std::string_view run, std::string_view name);

}  // namespace ckpt::checkpoint
