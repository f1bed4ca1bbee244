// What Megatron writes with backend torch_dist: a DCP directory for each iteration, and beside it common.pt with what
// all ranks have in common.
#include <algorithm>

#include "interop/dcp/format.h"
#include "interop/json.h"
#include "interop/sets/combine.h"
#include "interop/sets/format.h"

namespace ckpt::interop {

namespace {

constexpr const char *kCommonFile = "common.pt", *kLatestFile = "latest_checkpointed_iteration.txt";

bool holds_iteration(const std::string& directory, const Folder& folder) {
  const std::vector<std::string> names = names_in_directory(directory, folder);
  return std::ranges::all_of(std::initializer_list<const char*>{".metadata", "metadata.json", kCommonFile},
                             [&](const char* name) { return std::binary_search(names.begin(), names.end(), name); });
}

// The iteration's directory: `path`, or what the run's file names. Empty for none.
std::string iteration_of(const std::string& path, const Folder& folder) {
  const std::string directory = path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  if (holds_iteration(directory, folder)) return directory;
  const Result<InputFile> latest = InputFile::open_whole(directory + '/' + kLatestFile, 32, folder);
  if (!latest.ok()) return "";
  std::string text(as_text(latest->addresses()));
  while (text.ends_with('\n')) text.pop_back();
  const bool is_number =
      !text.empty() && text.size() <= 18 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number && text != "release") return "";
  const std::string found = directory + '/' + (is_number ? strformat("iter_{:07}", std::stoull(text)) : text);
  return holds_iteration(found, folder) ? found : "";
}

}  // namespace

bool is_megatron(const Candidate& candidate) {
  return candidate.is_directory && !iteration_of(candidate.path, candidate.folder).empty();
}

Result<ForeignCheckpoint> read_megatron(const std::string& path, const ReadOptions& options) {
  const std::string directory = iteration_of(path, options.folder);
  if (directory.empty()) return Status(CKPT_NOT_FOUND, path + ": no iteration any more").with("path", path);
  std::vector<StatePart> parts(1);
  CKPT_ASSIGN(ForeignCheckpoint tensors, read_dcp(directory, options));
  parts[0].content.push_back(std::move(tensors));
  CKPT_ASSIGN(StatePart common, read_part("common", directory + '/' + kCommonFile, options));
  parts.push_back(std::move(common));
  CKPT_ASSIGN(ForeignCheckpoint all, combine("megatron", std::move(parts)));
  const std::string top = path.substr(0, path.find_last_not_of('/') + 1);
  std::vector<std::string> taken = {kLatestFile, directory.substr(directory.rfind('/') + 1)};
  if (directory == top) taken = names_in_directory(directory, options.folder);
  keep_file_names(all, top, std::move(taken));
  return all;
}

}  // namespace ckpt::interop
