// OLMo's sharded checkpoints, told by what is in them, as {"model", "optim", "train"}; and those of OLMo-core.
#include <algorithm>

#include "interop/src/dcp/format.h"
#include "interop/src/json.h"
#include "interop/src/sets/format.h"
#include "interop/src/shards/format.h"
#include "interop/src/shards/merge.h"

namespace ckpt::interop {

namespace {

constexpr const char *kCoreFile = ".metadata.json", *kState = "/model_and_optim";

enum class OlmoKind { kNone, kTorchNew, kTorchLegacy, kLocal, kCore };

// OLMo-core 3 has .metadata.json instead of config.yaml, and the files of torch_new.
OlmoKind olmo_kind(const std::string& path, const Folder& folder) {
  const bool is_core = is_file(path + '/' + kCoreFile, folder);
  if (!is_core && !is_file(path + "/config.yaml", folder)) return OlmoKind::kNone;
  if (is_dcp({path + kState, true, {}, folder})) return OlmoKind::kTorchNew;
  if (is_core) return OlmoKind::kNone;
  if (is_file(path + "/model/metadata.json", folder)) return OlmoKind::kCore;
  if (is_file(path + "/model/rank0.pt", folder)) return OlmoKind::kLocal;
  return rank_files_in(path, folder).empty() ? OlmoKind::kNone : OlmoKind::kTorchLegacy;
}

// What ranks have as one part of the state.
Result<StatePart> merged_part(const std::string& key, const std::string& path, const std::vector<RankFile>& ranks,
                              const RankFilesOptions& merging, const ReadOptions& options) {
  StatePart part{key, {}};
  CKPT_ASSIGN(ForeignCheckpoint merged, merge_rank_files(path, ranks, merging, options));
  part.content.push_back(std::move(merged));
  return part;
}

// rank3.pt has {"model", "optim"} and the trainer's keys beside them.
Result<std::vector<StatePart>> read_torch_legacy(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(const std::vector<RankFile> ranks, open_rank_files(path, rank_files_in(path, options.folder), options));
  const std::vector<std::string> own = {"model", "optim"};
  std::vector<StatePart> parts;
  CKPT_ASSIGN(parts.emplace_back(), merged_part("", path, ranks, {.keys = own}, options));
  CKPT_ASSIGN(parts.emplace_back(), merged_part("train", path, ranks, {.without = own}, options));
  return parts;
}

Result<std::vector<StatePart>> read_torch_new(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(ForeignCheckpoint state, read_dcp(path + kState, options));
  std::vector<StatePart> parts(1);
  parts[0].content.push_back(std::move(state));
  return parts;
}

Result<std::vector<StatePart>> read_parts(const std::string& path, const ReadOptions& options) {
  switch (olmo_kind(path, options.folder)) {
    case OlmoKind::kTorchLegacy:
      return read_torch_legacy(path, options);
    case OlmoKind::kLocal:
      return read_olmo_local(path, options);
    case OlmoKind::kCore:
      return read_olmo_core(path, options);
    default:
      return read_torch_new(path, options);
  }
}

}  // namespace

bool is_olmo_sharded(const Candidate& candidate) {
  return candidate.is_directory && olmo_kind(candidate.path, candidate.folder) != OlmoKind::kNone;
}

Result<ForeignCheckpoint> read_olmo_sharded(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(std::vector<StatePart> parts, read_parts(path, options));
  // The trainer's state of each rank that has one.
  if (const std::vector<std::string> names = rank_files_in(path + "/train", options.folder); !names.empty()) {
    CKPT_ASSIGN(const std::vector<RankFile> ranks, open_rank_files(path + "/train", names, options));
    CKPT_ASSIGN(parts.emplace_back(), merged_part("train", path + "/train", ranks, {}, options));
  }
  CKPT_ASSIGN(ForeignCheckpoint all, combine("olmo", std::move(parts)));
  std::vector<std::string> more;
  for (const auto& [file, attribute] : {std::pair("config.yaml", kOlmoConfigAttr), {kCoreFile, "olmo.metadata"}}) {
    if (!is_file(path + '/' + file, options.folder)) continue;
    CKPT_ASSIGN(std::string text, text_of_file(path + '/' + file, options.folder));
    all.attributes.emplace_back(attribute, std::move(text));
    more.emplace_back(file);
  }
  keep_file_names(all, path, std::move(more));
  return all;
}

}  // namespace ckpt::interop
