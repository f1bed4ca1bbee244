// The files that the ranks of one save wrote, opened. Takes untrusted files. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "interop/src/input_file.h"
#include "interop/src/pt/source.h"
#include "interop/src/pt/tree.h"
#include "interop/src/shards/sharded.h"

namespace ckpt::interop {

// One rank's file: its state, and which of the tree's tensors are shards.
struct RankFile {
  std::string name;  // in its directory
  uint32_t rank = 0;
  InputFile input;
  std::shared_ptr<const PtSource> source;
  PtTree content;  // its tensors are those that are no shards
  std::map<std::string, Sharded> sharded;
};

// Of "model_rank3.pt" the name without its ending and number, and the number; none where the name has no rank.
struct RankName {
  std::string before, after;
  uint32_t rank = 0;
};
std::optional<RankName> rank_name(const std::string& name);
// The files of a directory whose names differ in their rank only, by rank: "rank0.pt", "rank1.pt" …. Empty where there
// are none, or several kinds.
std::vector<std::string> rank_files_in(const std::string& directory, const Folder& folder);

// Opens `names` of a directory, whose ranks must be 0, 1, …: INCOMPLETE. Errors as of a .pt.
Result<std::vector<RankFile>> open_rank_files(const std::string& directory, const std::vector<std::string>& names,
                                              const ReadOptions& options);

}  // namespace ckpt::interop
