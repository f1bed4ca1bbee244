// From what a person types to a store and a checkpoint in it. Looks at directory entries, opens no file.
//
//   DIRECTORY        that holds MANIFEST or parts: that checkpoint; its store is the parent directory
//   DIRECTORY        of any other kind: a store, of which the latest checkpoint is meant
//   STORE@SELECTOR   latest, label:L, L, step:N or an id. The '@' counts when no '/' follows it, so a store whose own
//                    name has an '@' is written with a '/' at its end.
#pragma once

#include <string>
#include <string_view>

#include "cli/error.h"

namespace cli {

struct Target {
  enum class Kind { kDirectory, kSelector, kStore };
  Kind kind = Kind::kStore;
  std::string store;     // what ckpt_store_open takes
  std::string selector;  // what ckpt_reader_open takes; an id for kDirectory
};

// INVALID, NOT_FOUND.
Target locate(std::string_view argument);

// Where only a store makes sense; a checkpoint is refused.
std::string locate_store(std::string_view argument);

// The id of the one checkpoint or attempt that `target` names, committed or not; never guessed from a bare store,
// since the callers remove or write. NOT_FOUND, INVALID, IO.
std::string resolve_id(const ckpt::Store& store, const Target& target, const ckpt::Options& options);

}  // namespace cli
