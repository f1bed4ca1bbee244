// Turns what a user types into a store and a selector. Looks at directory entries, opens no file.
//
//   DIRECTORY        with MANIFEST or parts in it: that checkpoint; its parent directory is the store
//   DIRECTORY        any other: a store; means its latest checkpoint
//   STORE@SELECTOR   latest, label:L, L, name:N, step:N or an id. An '@' with a '/' after it belongs to the path: if a
//                    store's name has an '@', write a '/' at its end; without it, it is found if no store is called
//                    by what is before the '@'.
//   s3://BUCKET/STORE/ID     that checkpoint, where the server has it in that store; so in any bucket, and in stores
//                            from outside
//   https://HOST/DIRECTORY   that checkpoint, since a web server does not tell what a store holds. A query stays with
//                            the store: https://HOST/STORE/ID?QUERY, https://HOST/STORE@SELECTOR?QUERY.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/error.h"

namespace cli {

struct Target {
  enum class Kind { kDirectory, kSelector, kStore };
  Kind kind = Kind::kStore;
  std::string store;     // what ckpt_store_open takes
  std::string selector;  // what ckpt_reader_open takes; an id for kDirectory
};

// INVALID, NOT_FOUND. `has_mirror`: a directory that is not there may have been lost, and the mirror has what it held.
// Then an absent one is a checkpoint if its name ends as theirs do (".7.1"), else a store.
Target locate(std::string_view argument, bool has_mirror = false);
// The same, and the server is asked what an s3:// is whose name ends as a checkpoint's does.
Target locate(std::string_view argument, const ckpt::Options& options, bool has_mirror = false);

// Whether `argument` is what ckpt import takes, told by names alone: a file, or a directory that is neither a store nor
// a checkpoint and has .safetensors or PART_*.pt in it; an address that ends as such files do.
bool is_foreign(const std::string& argument);
// The same for those who read it: also a directory of s3:// that holds no checkpoint, of which the server is asked.
bool is_foreign(const std::string& argument, const ckpt::Options& options);

// Whether a directory is there.
bool is_directory(const std::string& path);

// Whether it is no path, but an address, or meant as one.
bool is_remote(std::string_view text);
// Whether it begins with http:// or https://.
bool is_web(std::string_view text);
// What a message or a list may show of an argument: of an address neither user nor query.
std::string shown(std::string_view argument);

// For arguments that must be a store; refuses a checkpoint.
std::string locate_store(std::string_view argument, bool has_mirror = false);
std::string locate_store(std::string_view argument, const ckpt::Options& options, bool has_mirror = false);

// What a store lists, of all runs. NOT_FOUND where no store is, or if `run` is given and neither a trainer has opened
// it nor it has checkpoints: so a command that does nothing, since a disk is not mounted or a name is mistyped, does
// not pass for one that had nothing to do.
std::vector<ckpt::CheckpointInfo> list_store(const ckpt::Store& store, const std::string& run = "");

// The id of the checkpoint or attempt that `target` names, committed or not. Refuses a bare store: the callers remove
// or write, so nothing is guessed. NOT_FOUND, INVALID, IO.
std::string resolve_id(const ckpt::Store& store, const Target& target, const ckpt::Options& options);

}  // namespace cli
