// Which files make up a set of safetensors: one file, a directory, or a Hugging Face index, and the index itself.
// File names are untrusted: only plain names in the directory of the index are taken. Threads: all calls are pure but
// find_files, which lists directories.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "interop/src/input_file.h"
#include "interop/src/json.h"

namespace ckpt::interop {

inline constexpr const char* kSuffix = ".safetensors";
inline constexpr const char* kDefaultFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

struct Index {
  StringMap weight_map;  // tensor -> file
  std::string metadata;  // the JSON object, compact; empty where there is none
};

struct FileSet {
  std::vector<std::string> paths;  // to open
  std::vector<std::string> names;  // to keep: plain file names, each once, in the order of their bytes
  bool has_index = false;
  std::string index_name;  // "model.safetensors.index.json"
  Index index;
};

// Whether a directory has an index or any *.safetensors.
bool holds_safetensors(const std::string& directory, const Folder& folder);
// NOT_FOUND, FORMAT, INVALID.
Result<FileSet> find_files(const std::string& path, const Folder& folder = nullptr);

// FORMAT for anything but one JSON object with a weight_map; other keys are passed over.
// `suffix`: what the names of files must end in.
Result<Index> parse_index(std::string_view text, const char* suffix = kSuffix);
// Of a set that is to be read: its map names a file, else INCOMPLETE. All errors name `path`.
Result<Index> parse_index_of_set(std::string_view text, const std::string& path, const char* suffix = kSuffix);
// Of a directory on this machine; nothing where there is none, or no directory.
Result<std::optional<Index>> index_in(const std::string& directory);
// `metadata` is a JSON object; laid out as Python's json.dumps(indent=2) does.
std::string make_index(std::string_view metadata, const StringMap& weight_map);

// Which of a file of weights and of an index transformers loads, of those that are there (4 and 5,
// _get_resolved_checkpoint_files): the file. But an index that names the file is of a set, of which it is a part. Empty
// if neither is there.
std::string chosen_weights(const std::string& directory, const std::vector<std::string>& names, const Folder& folder,
                           const char* file = kDefaultFile, const char* index = kIndexFile,
                           const char* suffix = kSuffix);

// "model-00001-of-00003.safetensors" says how many there are. INCOMPLETE names one that is missing of `names`, sorted.
Status check_numbered(const std::string& directory, const std::vector<std::string>& names);

// FORMAT unless `name` is a plain name with this ending that is safe to make in any directory.
Status check_file_name(std::string_view name, const char* suffix = kSuffix);

}  // namespace ckpt::interop
