#include "base/free_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace ckpt {

// The content of a file, each line after a line break; "\n" if there is no such file.
static std::string read_lines(const std::string& path) {
  std::ifstream file(path);
  return "\n" + std::string(std::istreambuf_iterator<char>(file), {});
}

// The number after `key` at the start of a line; "" takes that of the first line. None: "max", or no such line.
static std::optional<uint64_t> number_of(const std::string& lines, const std::string& key) {
  size_t at = lines.find("\n" + key);
  if (at != lines.npos) at = lines.find_first_not_of(" :\t", at + 1 + key.size());
  if (at == lines.npos) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(lines.data() + at, lines.data() + lines.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// What a group may still take: its limit less what it uses, but for pages of files, which the kernel gives up.
static uint64_t left_in_group(const std::string& limit, const std::string& used, const std::string& stat) {
  const auto most = number_of(read_lines(limit), ""), now = number_of(read_lines(used), "");
  if (!most || !now) return UINT64_MAX;
  const uint64_t files = number_of(read_lines(stat), "inactive_file").value_or(0);
  const uint64_t held = *now - std::min(*now, files);
  return *most > held ? *most - held : 0;
}

uint64_t free_memory(std::string_view proc, std::string_view cgroups) {
  uint64_t least = UINT64_MAX;
  if (const auto machine = number_of(read_lines(std::string(proc) + "/meminfo"), "MemAvailable"))
    least = *machine * 1024;
  // Version 2: the group of the process and those around it, as far as they can be seen.
  const std::string groups = read_lines(std::string(proc) + "/self/cgroup");
  const size_t at = groups.find("\n0::");
  std::string path = at == std::string::npos ? "" : groups.substr(at + 4, groups.find('\n', at + 4) - at - 4);
  for (;; path = path.substr(0, path.rfind('/'))) {
    const std::string folder = std::string(cgroups) + path;
    least = std::min(least, left_in_group(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat"));
    if (path.empty()) break;
  }
  const std::string old = std::string(cgroups) + "/memory/memory.";  // version 1
  return std::min(least, left_in_group(old + "limit_in_bytes", old + "usage_in_bytes", old + "stat"));
}

uint64_t free_memory() { return free_memory("/proc", "/sys/fs/cgroup"); }

}  // namespace ckpt
