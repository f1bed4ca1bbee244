// What Megatron writes with backend torch_dist: a DCP directory for each iteration, and beside it common.pt with what
// all ranks have in common.
#include <algorithm>

#include "interop/src/dcp/format.h"
#include "interop/src/json.h"
#include "interop/src/look.h"
#include "interop/src/sets/combine.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

namespace {

constexpr const char *kCommonFile = "common.pt", *kLatestFile = "latest_checkpointed_iteration.txt";

bool holds_iteration(const std::string& directory, const Folder& folder) {
  const std::vector<std::string> names = names_in_directory(directory, folder);
  return std::ranges::all_of(std::initializer_list<const char*>{".metadata", "metadata.json", kCommonFile},
                             [&](const char* name) { return std::binary_search(names.begin(), names.end(), name); });
}

std::string without_slash(const std::string& path) {
  return path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

// The iteration that the run's file names; empty for none.
std::string newest_in(const std::string& directory, const Folder& folder) {
  const Result<InputFile> latest = InputFile::open_whole(directory + '/' + kLatestFile, 32, folder);
  if (!latest.ok()) return "";
  std::string text(as_text(latest->addresses()));
  while (text.ends_with('\n')) text.pop_back();
  const bool is_number =
      !text.empty() && text.size() <= 18 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number && text != "release") return "";
  return is_number ? strformat("iter_{:07}", std::stoull(text)) : text;
}

// One that is there in Megatron's older layout (mp_rank_00) is not ours.
bool is_gone(const std::string& path, const Folder& folder) {
  return names_in_directory(path, folder).empty() || is_file(path + '/' + kCommonFile, folder);
}

}  // namespace

bool is_megatron(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  const std::string directory = without_slash(candidate.path);
  if (holds_iteration(directory, candidate.folder)) return true;
  const std::string newest = newest_in(directory, candidate.folder);
  if (newest.empty()) return false;
  const std::string path = directory + '/' + newest;
  return holds_iteration(path, candidate.folder) || is_gone(path, candidate.folder);
}

Result<ForeignCheckpoint> read_megatron(const std::string& path, const ReadOptions& options) {
  std::string directory = without_slash(path);
  if (!holds_iteration(directory, options.folder)) {
    const std::string newest = newest_in(directory, options.folder), run = directory;
    directory += '/' + newest;
    if (!holds_iteration(directory, options.folder)) {
      std::vector<std::string> others = names_in_directory(run, options.folder);
      std::erase_if(others,
                    [&](const std::string& name) { return !holds_iteration(run + '/' + name, options.folder); });
      return newest_is_missing(run, kLatestFile, newest, others);
    }
  }
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
