// The files of all ranks as one state: tensors in shards are joined, what is equal on all ranks is kept once, and what
// is not becomes a value of each rank (record ckpt.PerRank). One thread.
#pragma once

#include <string>
#include <vector>

#include "interop/src/reader.h"
#include "interop/src/shards/rank_files.h"

namespace ckpt::interop {

struct RankFilesOptions {
  std::vector<std::string> keys = {};  // of the dict, that are kept where there are any; else all but `without`
  std::vector<std::string> without = {};
  std::string drop_text = {};  // is taken out of all text
};

// What they are together. INCOMPLETE, MISMATCH as of PieceJoiner; MISMATCH where shards stand at places that cannot be
// put together. Attribute import.unchecked only.
Result<ForeignCheckpoint> merge_rank_files(const std::string& directory, const std::vector<RankFile>& ranks,
                                           const RankFilesOptions& merging, const ReadOptions& options);

}  // namespace ckpt::interop
