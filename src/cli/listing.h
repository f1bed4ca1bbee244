// What a store holds, for the commands that list it: with the latest of each run, ages, and what the mirror lacks. No
// data is read. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ckpt.hpp>

namespace cli {

struct Entry {
  ckpt::CheckpointInfo info;
  bool latest = false;  // what "latest" means in its run
  uint64_t time = 0;    // when it was saved; an attempt does not tell: as the newest of its session or an earlier one
};

// Of one run, or of all: then `run` is empty. Oldest first, run by run. NOT_FOUND as list_store.
std::vector<Entry> read_entries(const ckpt::Store& store, const std::string& run);

// Whether it may be the latest of its run: committed, no copy, of this store.
bool counts(const ckpt::CheckpointInfo& info);

// Seconds since it was saved. The clock is the writer's: of one that is ahead of ours by at most two minutes the age is
// 0, of others it is unknown, as where nobody tells when it was saved.
std::optional<uint64_t> age_seconds(const ckpt::CheckpointInfo& info);
std::string age_text(const ckpt::CheckpointInfo& info);  // "5 h"; "-" if unknown

// The checkpoints that the mirror should have by now; if it has a retention of its own (`prunes`), only those that are
// newer than all of their run that it has.
std::vector<const Entry*> not_mirrored(const std::vector<Entry>& entries, bool prunes);
std::string lag_text(const std::vector<const Entry*>& lacking);  // "" if it lacks nothing

// What its removal frees: its files that no other checkpoint has.
uint64_t freed_bytes(const ckpt::CheckpointInfo& info);
std::string stays_text(const ckpt::CheckpointInfo& info);  // "1.5 GiB of it stay, …"

// The files of a directory of a store, by device and inode, which names that share a file have in common. None where
// the store is no directory of this machine.
using FileSizes = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;
FileSizes files_of(const std::string& store, const std::string& id);

}  // namespace cli
