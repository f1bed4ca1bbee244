#include <chrono>

#include "cli/report.h"
#include "cli/text.h"

namespace cli {
namespace {

constexpr size_t kMostValue = 4000;  // bytes of an attribute's value: a number of each of 500 ranks
constexpr auto kMostTime = std::chrono::seconds(30);

// Attributes whose values are short, which numbers are.
Json short_attrs(const ckpt::Reader& reader) {
  Json json = Json::object();
  for (const auto& [key, value] : reader.attrs())
    if (value.size() <= kMostValue) json.add(page_text(key), value);
  return json;
}

// Null where it was not read: it is no checkpoint, or was removed meanwhile, or reading it would take too long.
std::vector<Json> attrs_of(const ckpt::Store& store, const std::vector<Entry>& entries, uint64_t* unread) {
  std::vector<Json> attrs(entries.size(), Json(nullptr));
  const auto end = std::chrono::steady_clock::now() + kMostTime;
  for (size_t i = entries.size(); i-- > 0;) {
    if (entries[i].info.state != CKPT_CHECKPOINT_COMMITTED) continue;
    if (std::chrono::steady_clock::now() > end) {
      (*unread)++;
      continue;
    }
    try {
      attrs[i] = short_attrs(ckpt::Reader::open(store, entries[i].info.id));
    } catch (const ckpt::Error&) {
      (*unread)++;
    }
  }
  return attrs;
}

Json entry_json(const Entry& entry, const Json& attrs) {
  Json json = page_info(entry.info);
  json.add("time", entry.time);
  json.add("latest", entry.latest);
  json.add("attrs", attrs);
  return json;
}

}  // namespace

Json store_report(const ckpt::Store& store, const std::string& path, const std::string& run) {
  const std::vector<Entry> entries = read_entries(store, run);
  uint64_t unread = 0;
  const std::vector<Json> attrs = attrs_of(store, entries, &unread);
  std::vector<Json> all;
  for (size_t i = 0; i < entries.size(); i++) all.push_back(entry_json(entries[i], attrs[i]));
  return {{"kind", "store"}, {"title", page_text(shown(path))}, {"entries", Json::array(all)}, {"unread", unread}};
}

}  // namespace cli
