#include "interop/src/shards/rank_files.h"

#include <algorithm>
#include <charconv>

#include "interop/src/json.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

namespace {

constexpr uint32_t kMaxRanks = 1 << 20;
// Shards that a file may name in all: one for each value of its pickle, and this many.
constexpr size_t kSpareShards = 1 << 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Result<RankFile> open_rank_file(const std::string& directory, const std::string& name, uint32_t rank,
                                const ReadOptions& options, SpareTree& spare) {
  const std::string path = directory + '/' + name;
  CKPT_ASSIGN(InputFile input, InputFile::open(path, options.folder));
  const FileBytes bytes = input.bytes();
  RankFile file{name, rank, std::move(input), nullptr, {}, {}};
  CKPT_ASSIGN(PtSource parsed, PtSource::parse(path, bytes, options));
  file.source = std::make_shared<const PtSource>(std::move(parsed));
  size_t room = file.source->pickle().size() + kSpareShards;
  auto take = [&](PickleRef object, const std::function<std::string()>& at) -> Result<bool> {
    if (!is_sharded(file.source->pickle(), object)) return false;
    CKPT_ASSIGN(Sharded found, sharded_of(*file.source, object));
    if (found.shards.size() > room)
      return Status(CKPT_UNSUPPORTED, "the pickle repeats shards so often that they are many times its size");
    room -= found.shards.size();
    file.sharded.emplace(at(), std::move(found));
    return true;
  };
  CKPT_ASSIGN(file.content, make_tree(*file.source, spare, {}, take));
  return file;
}

}  // namespace

std::optional<RankName> rank_name(const std::string& name) {
  size_t end = std::string::npos;
  for (const char* ending : {".pt", ".pth", ".bin"})
    if (name.ends_with(ending)) end = name.size() - std::string_view(ending).size();
  if (end == std::string::npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) begin--;
  const std::string before = name.substr(0, begin);
  const bool stands_alone = before == "rank" || before.ends_with("_rank") || before.ends_with("-rank");
  if (begin == end || !stands_alone || (name[begin] == '0' && end - begin > 1)) return std::nullopt;
  RankName found{before, name.substr(end), 0};
  const auto [last, error] = std::from_chars(name.data() + begin, name.data() + end, found.rank);
  if (error != std::errc() || last != name.data() + end || found.rank >= kMaxRanks) return std::nullopt;
  return found;
}

std::vector<std::string> rank_files_in(const std::string& directory, const Folder& folder) {
  std::vector<std::pair<uint32_t, std::string>> found;
  std::string kind;
  for (const std::string& name : names_in_directory(directory, folder)) {
    const std::optional<RankName> rank = rank_name(name);
    if (!rank) continue;
    const std::string this_kind = rank->before + '\n' + rank->after;
    if (!found.empty() && this_kind != kind) return {};
    kind = this_kind;
    found.emplace_back(rank->rank, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [rank, name] : found) names.push_back(std::move(name));
  return names;
}

Result<std::vector<RankFile>> open_rank_files(const std::string& directory, const std::vector<std::string>& names,
                                              const ReadOptions& options) {
  expect_files(directory, names, options.folder);
  std::vector<RankFile> ranks;
  SpareTree spare;
  for (size_t i = 0; i < names.size(); i++) {
    CKPT_TRY(options.check());
    const std::optional<RankName> name = rank_name(names[i]);
    if (!name || name->rank != i) {
      const std::string lacking = name ? name->before + std::to_string(i) + name->after : names[i];
      return Status(CKPT_INCOMPLETE, directory + '/' + lacking + " is missing: " + names[i] + " is there")
          .with("path", directory + '/' + lacking);
    }
    CKPT_ASSIGN(RankFile file, open_rank_file(directory, names[i], name->rank, options, spare));
    ranks.push_back(std::move(file));
  }
  return ranks;
}

}  // namespace ckpt::interop
