#include "interop/src/look.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/status.h"
#include "format/names.h"
#include "interop/src/json.h"

namespace ckpt::interop {

namespace {

struct Beginning {
  std::string_view bytes;
  const char* look;
};
constexpr Beginning kBeginnings[] = {
    {"\x1f\x8b", "it looks like gzip data; unpack it"},
    {"\x28\xb5\x2f\xfd", "it looks like zstd data; unpack it"},
    {"\xfd\x37zXZ", "it looks like xz data; unpack it"},
    {"BZh", "it looks like bzip2 data; unpack it"},
    {"\x04\x22\x4d\x18", "it looks like lz4 data; unpack it"},
    {"\x89HDF\r\n", "it looks like an HDF5 file"},
    {"GGUF", "it looks like a GGUF file"},
    {"PK", "it looks like a zip file without entries"},
    {"\x7f"
     "ELF",
     "it looks like a program"},
    {"version https://git-lfs", "it is a pointer of git-lfs, not the file itself; git lfs pull gets that"},
    {"<!DOCTYPE", "it is an HTML page; a download that failed, perhaps"},
    {"<html", "it is an HTML page; a download that failed, perhaps"},
    {"{", "it looks like JSON text"},
};

bool is_text(std::string_view head) {
  const bool plain = std::none_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\r' && c != '\t';
  });
  while (!head.empty() && static_cast<unsigned char>(head.back()) >= 0x80) head.remove_suffix(1);  // perhaps cut
  return plain && !head.empty() && valid_utf8(head);
}

// Frameworks put a checkpoint of torch.distributed.checkpoint beside files of their own.
std::string folders_of_dcp(const std::string& path, const std::vector<std::string>& names, const Folder& folder) {
  std::string found;
  // Of a server each directory is one more list to ask for.
  for (const std::string& name : std::span(names).first(std::min<size_t>(names.size(), folder ? 16 : SIZE_MAX)))
    if (found.size() < 200 && is_directory(path + '/' + name, folder) &&
        is_file(strformat("{}/{}/.metadata", path, name), folder))
      found += (found.empty() ? "" : ", ") + shown(name);
  return found;
}

}  // namespace

std::string look_of_file(std::string_view head) {
  if (head.empty()) return "it is empty";
  if (head.size() > 262 && head.substr(257, 5) == "ustar") return "it looks like a tar archive; unpack it";
  for (const Beginning& row : kBeginnings)
    if (head.starts_with(row.bytes)) return row.look;
  return is_text(head) ? "it looks like text" : "";
}

Status newest_is_missing(const std::string& directory, const std::string& pointer, const std::string& newest,
                         const std::vector<std::string>& others) {
  constexpr size_t kNamed = 8;
  std::string names;
  for (size_t i = 0; i < std::min(others.size(), kNamed); i++) names += (i ? ", " : "") + shown(others[i]);
  if (others.size() > kNamed) names += " and more";
  const std::string path = directory + '/' + newest;
  return Status(CKPT_NOT_FOUND,
                strformat("{}: {} names {}, which is not there or not whole: {}", directory, pointer, shown(newest),
                          names.empty() ? "there is no other beside it" : "bring it back, or import one of " + names))
      .with("path", path)
      .with("found", newest);
}

std::string look_of_directory(const std::string& path, const Folder& folder) {
  const std::vector<std::string> names = names_in_directory(path, folder);
  const auto has = [&](std::string_view name) { return std::binary_search(names.begin(), names.end(), name); };
  if (names.empty()) return "it is empty";
  if (std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".distcp"); }))
    return "it holds files of torch.distributed.checkpoint, but no .metadata, which is written last: that save never "
           "ended";
  if (const std::string inside = folders_of_dcp(path, names, folder); !inside.empty())
    return "import what is in it: " + inside + ", of torch.distributed.checkpoint";
  if (has(".ckpt")) return "it is a store of ckpt: its checkpoints need no import";
  if (has("MANIFEST")) return "it is a checkpoint of ckpt, which needs no import";
  const auto pickled = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".bin") || name.ends_with(".ckpt");
  });
  if (pickled != names.end()) return "import a file of it, as " + shown(*pickled);
  std::string some;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); i++) some += (i ? ", " : "") + shown(names[i]);
  return strformat("it is no store of ckpt, and holds {} {}, among them ", names.size(),
                   names.size() == 1 ? "entry" : "entries") +
         some;
}

}  // namespace ckpt::interop
