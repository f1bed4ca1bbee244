#include "interop/src/map/find.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/text.h"
#include "interop/src/input_file.h"
#include "tree/json_text.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kMaxMapping = 1 << 20;

std::string folder_of_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

// share/ckpt/maps of the prefix that the library is in, which may have been moved; then that of the build.
std::vector<std::string> folders() {
  std::vector<std::string> folders;
  if (const char* set = std::getenv("CKPT_MAPS")) folders.emplace_back(set);
  Dl_info info{};
  static const char here = 0;
  if (::dladdr(&here, &info) != 0 && info.dli_fname) {
    std::string folder = folder_of_path(info.dli_fname);
    for (int i = 0; i < 3 && !folder.empty(); i++) {
      folder = folder_of_path(folder);
      folders.push_back(folder + "/share/ckpt/maps");
    }
  }
  folders.emplace_back(CKPT_MAPS_DIR);
  return folders;
}

std::string find_file(const std::string& name) {
  for (const std::string& folder : folders())
    if (std::string path = folder + '/' + name + ".json"; is_file(path, nullptr)) return path;
  return {};
}

// "llama-tune-to-hf" of "llama-hf-to-tune"; empty for a name of another kind.
std::string other_way(const std::string& name) {
  const size_t to = name.rfind("-to-");
  if (to == name.npos || to == 0) return {};
  const size_t dash = name.rfind('-', to - 1);
  const size_t begin = dash == name.npos ? 0 : dash + 1;
  return name.substr(0, begin) + name.substr(to + 4) + "-to-" + name.substr(begin, to - begin);
}

Result<Mapping> parse_file(const std::string& path, const std::string& name) {
  CKPT_ASSIGN(const InputFile file, InputFile::open_whole(path, kMaxMapping, nullptr));
  return Mapping::parse(as_text(file.addresses()), name);
}

}  // namespace

Result<Mapping> find_mapping(const std::string& name) {
  if (name.find('/') != name.npos || name.ends_with(".json")) return parse_file(name, name);
  if (const std::string path = find_file(name); !path.empty()) return parse_file(path, name);
  if (const std::string other = other_way(name); !other.empty())
    if (const std::string path = find_file(other); !path.empty()) {
      CKPT_ASSIGN(const Mapping mapping, parse_file(path, other));
      return mapping.backwards();
    }
  std::string searched;
  for (const std::string& folder : folders()) searched += (searched.empty() ? "" : ", ") + folder;
  return Status(CKPT_NOT_FOUND, "no mapping " + shown(name) + " in " + searched + "; a path has a '/' or ends in .json")
      .with("found", name);
}

}  // namespace ckpt::interop
