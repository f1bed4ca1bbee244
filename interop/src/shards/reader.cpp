#include "interop/src/sets/combine.h"
#include "interop/src/shards/format.h"
#include "interop/src/shards/merge.h"

namespace ckpt::interop {

bool is_rank_files(const Candidate& candidate) {
  return candidate.is_directory && !rank_files_in(candidate.path, candidate.folder).empty();
}

Result<ForeignCheckpoint> read_rank_files(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(const std::vector<RankFile> ranks, open_rank_files(path, rank_files_in(path, options.folder), options));
  CKPT_ASSIGN(ForeignCheckpoint all, merge_rank_files(path, ranks, {}, options));
  all.format = "ranks";
  all.attributes.emplace_back("import.format", all.format);
  keep_file_names(all, path);
  return all;
}

}  // namespace ckpt::interop
