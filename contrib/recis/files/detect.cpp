#include <algorithm>

#include "contrib/recis/files/format.h"
#include "contrib/recis/files/layout.h"
#include "interop/src/folder.h"
#include "interop/src/input_file.h"
#include "interop/src/safetensors/file_set.h"

namespace ckpt::interop {

bool is_recis_checkpoint(const std::string& path, const Folder& folder) {
  const std::vector<std::string> names = names_in_directory(path, folder);
  const auto has = [&](std::string_view name) { return std::ranges::binary_search(names, name); };
  if (has(kRecisKeys) || has(kRecisCount)) return true;
  if (has(kRecisIndex) && has("0.bin")) return true;  // to be refused by its name
  const size_t end = path.find_last_not_of('/') + 1, begin = path.substr(0, end).rfind('/') + 1;
  return std::string_view(path).substr(begin).starts_with("ckpt_") && has("extra.pt");
}

std::string newest_of_recis(const std::string& directory, const Folder& folder) {
  const Result<InputFile> file = InputFile::open_whole(directory + '/' + kRecisCheckpoint, kMaxRecisText, folder);
  if (!file.ok()) return "";
  std::string_view rest = as_text(file->addresses());
  rest = rest.substr(0, rest.find_last_not_of(" \t\r\n") + 1);
  const std::string name(rest.substr(rest.find_last_of(" \t\r\n") + 1));
  return check_file_name(name, "").ok() ? name : "";
}

bool is_recis(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  if (is_recis_checkpoint(candidate.path, candidate.folder)) return true;
  const std::string newest = newest_of_recis(candidate.path, candidate.folder);
  return newest.starts_with("ckpt_") ||
         (!newest.empty() && is_recis_checkpoint(candidate.path + '/' + newest, candidate.folder));
}

}  // namespace ckpt::interop
