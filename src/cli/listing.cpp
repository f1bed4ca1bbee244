#include "cli/listing.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>

#include "cli/locate.h"
#include "cli/look.h"
#include "cli/text.h"

namespace cli {
namespace {

// The id that "latest" means in each run.
std::set<std::string> latest_ids(const ckpt::Store& store, const std::vector<ckpt::CheckpointInfo>& all) {
  std::set<std::string> runs, ids;
  for (const ckpt::CheckpointInfo& info : all)
    if (info.state == CKPT_CHECKPOINT_COMMITTED) runs.insert(info.run);
  for (const std::string& run : runs) try {
      ids.insert(store.find("latest", {{"run", run}}).id);
    } catch (const ckpt::Error&) {
      // It was removed since it was listed, or none can be loaded: then none is the latest, and the list says the rest.
    }
  return ids;
}

uint64_t time_of(const ckpt::CheckpointInfo& info, const std::vector<ckpt::CheckpointInfo>& all) {
  uint64_t time = info.created_unix_ms;
  if (time != 0) return time;
  for (const ckpt::CheckpointInfo& other : all)
    if (other.token <= info.token) time = std::max(time, uint64_t{other.created_unix_ms});
  return time;
}

}  // namespace

std::vector<Entry> read_entries(const ckpt::Store& store, const std::string& run) {
  std::vector<Entry> entries;
  const auto all = list_store(store, run);
  const auto latest = latest_ids(store, all);
  for (const ckpt::CheckpointInfo& info : all)
    if (run.empty() || run == info.run) entries.push_back({info, latest.contains(info.id), time_of(info, all)});
  return entries;
}

bool counts(const ckpt::CheckpointInfo& info) {
  return info.state == CKPT_CHECKPOINT_COMMITTED &&
         (info.flags & (CKPT_CHECKPOINT_FOREIGN | CKPT_CHECKPOINT_COPY)) == 0;
}

std::optional<uint64_t> age_seconds(const ckpt::CheckpointInfo& info) {
  constexpr uint64_t kSkewMs = 120000;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  if (info.created_unix_ms == 0 || info.created_unix_ms > now_ms + kSkewMs) return std::nullopt;
  return (now_ms - std::min<uint64_t>(info.created_unix_ms, now_ms)) / 1000;
}

std::string age_text(const ckpt::CheckpointInfo& info) {
  const auto age = age_seconds(info);
  return age ? human_duration(*age) : "-";
}

std::vector<const Entry*> not_mirrored(const std::vector<Entry>& entries, bool prunes) {
  std::vector<const Entry*> lacking;
  for (const Entry& entry : entries) {
    const bool has = (entry.info.flags & (CKPT_CHECKPOINT_MIRRORED | CKPT_CHECKPOINT_MIRROR_ONLY)) != 0;
    if (has && prunes)
      std::erase_if(lacking, [&](const Entry* one) { return std::string_view(one->info.run) == entry.info.run; });
    else if (!has && counts(entry.info))
      lacking.push_back(&entry);
  }
  return lacking;
}

std::string lag_text(const std::vector<const Entry*>& lacking) {
  if (lacking.empty()) return "";
  const ckpt::CheckpointInfo& first = lacking[0]->info;
  return "the mirror lags: it lacks " + std::to_string(lacking.size()) + ", of which " + escaped(first.id) +
         " was saved " + age_text(first) + " ago";
}

uint64_t freed_bytes(const ckpt::CheckpointInfo& info) { return info.bytes - std::min(info.shared_bytes, info.bytes); }

std::string stays_text(const ckpt::CheckpointInfo& info) {
  return human_bytes(info.shared_bytes) + " of it stay, which other checkpoints have, too";
}

static FileSizes files_now(const std::string& directory) {
  FileSizes files;
  std::error_code code;
  for (std::filesystem::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    struct stat status{};
    if (stat(it->path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      files[{status.st_dev, status.st_ino}] = static_cast<uint64_t>(status.st_size);
  }
  return files;
}

FileSizes files_of(const std::string& store, const std::string& id) {
  if (is_remote(store)) return {};
  return look(store, [directory = store + "/" + id] { return files_now(directory); });
}

}  // namespace cli
