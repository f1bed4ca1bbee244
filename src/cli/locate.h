// From what a person types to a store and a checkpoint in it. Looks at directory entries, opens no file.
//
//   DIRECTORY        that holds MANIFEST or parts: that checkpoint; its store is the parent directory
//   DIRECTORY        of any other kind: a store, of which the latest checkpoint is meant
//   STORE@SELECTOR   latest, label:L, L, step:N or an id. The '@' counts when no '/' follows it, so a store whose own
//                    name has an '@' is written with a '/' at its end.
#pragma once

#include <string>
#include <string_view>

#include "cli/handle.h"

namespace cli {

struct Target {
  enum class Kind { kDirectory, kSelector, kStore };
  Kind kind = Kind::kStore;
  std::string store;     // what ckpt_store_open takes
  std::string selector;  // what ckpt_reader_open takes; an id for kDirectory
};

// INVALID, NOT_FOUND.
Error locate(std::string_view argument, Target* out);

// Where only a store makes sense; a checkpoint is refused.
Error locate_store(std::string_view argument, std::string* out);

// The id of the one checkpoint or attempt that `target` names, committed or not; never guessed from a bare store,
// since the callers remove or write. NOT_FOUND, INVALID, IO.
Error resolve_id(const ckpt_store* store, const Target& target, const ckpt_options* options, std::string* id);

}  // namespace cli
