// What a save of a state would do, before the first step: its names and sizes, what is refused, and whether it fits.
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "checkpointer.h"
#include "collector.h"

namespace ckpt_torch {

using namespace internal;

namespace {

// What is free in the file system of the store; nothing for one in memory.
std::optional<uint64_t> free_bytes(std::string uri) {
  if (uri.compare(0, 4, "mem:") == 0) return std::nullopt;
  if (uri.compare(0, 7, "file://") == 0) uri = uri.substr(7);
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(uri, error);
  while (!error && !std::filesystem::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  struct statvfs found{};
  if (statvfs(path.c_str(), &found) != 0) return std::nullopt;
  return uint64_t{found.f_bavail} * found.f_frsize;
}

std::string size_text(uint64_t bytes) {
  std::ostringstream text;
  text.precision(3);
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit < 4; unit++) size /= 1024;
  text << size << " " << units[unit];
  return text.str();
}

}  // namespace

std::string Check::text() const {
  std::string out = std::string(ok() ? "ok" : "REFUSED") + ", " + std::to_string(names.size()) + " tensors, " +
                    size_text(bytes) + " a checkpoint, free: " + (free ? size_text(*free) : "unknown");
  for (const auto& [name, count] : names) out += "\n  " + name + "  " + size_text(count);
  for (const std::string& why : refused) out += "\n  refused: " + why;
  return out;
}

Check Checkpointer::Impl::check(const State& state) {
  session.wait_at_most();
  Check out;
  uint64_t shared_bytes = 0, own_bytes = 0;
  std::vector<std::string> words;
  auto survey = [&](auto&& collect_into, uint64_t& sum) {
    Collector collector(session.ranks.rank);
    collector.survey(words);
    if (auto error = caught([&] { collect_into(collector); })) words.push_back(error->what());
    for (const auto& [name, bytes] : collector.sizes()) out.names[name] = bytes, sum += bytes;
  };
  survey([&](Collector& to) { collect(to, state, options.hooks); }, shared_bytes);
  if (session.ranks.rank != 0) survey([&](Collector& to) { collect_own(to, state); }, own_bytes);
  for (const auto& [table, rows] : state.tables) {
    std::map<std::string, uint64_t> sizes;
    if (auto error = caught([&, &name = table, &own = rows] { sizes = table_sizes(name, own); }))
      words.push_back(error->what());
    for (const auto& [name, bytes] : sizes) out.names[name] = bytes, own_bytes += bytes;
  }
  words.insert(words.begin(), {std::to_string(shared_bytes), std::to_string(own_bytes)});
  const auto all =
      session.group() ? session.group()->all_gather(packed(words)) : std::vector<std::string>{packed(words)};
  for (size_t rank = 0; rank < all.size(); rank++) {
    const auto told = unpacked(all[rank]);
    const uint64_t shared = std::stoull(told[0]), own = std::stoull(told[1]);
    out.bytes_by_rank.push_back(shared + own);
    out.bytes = std::max(out.bytes, shared);
    for (size_t i = 2; i < told.size(); i++)
      out.refused.push_back((all.size() > 1 ? "rank " + std::to_string(rank) + ": " : "") + told[i]);
  }
  for (const std::string& text : all) out.bytes += std::stoull(unpacked(text)[1]);
  out.free = free_bytes(store);
  return out;
}

}  // namespace ckpt_torch
