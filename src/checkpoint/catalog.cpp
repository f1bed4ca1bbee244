#include "checkpoint/catalog.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <tuple>

#include "format/names.h"

namespace ckpt::checkpoint {

using format::kManifestName;
using format::slot_key;

// One read is enough for nearly every manifest: a summary takes some hundred bytes.
static constexpr uint64_t kTailBytes = 4096;

static Result<format::Slot> read_slot_tail(const store::Reader& file) {
  uint64_t size = file.size(), want = std::min(size, kTailBytes), needed = 0;
  for (;;) {
    std::vector<std::byte> tail(want);
    CKPT_TRY(file.read_at(size - want, tail));
    auto slot = format::open_slot_tail(tail, size, &needed);
    if (slot.ok() || slot.status().code() != CKPT_INVALID || needed <= want || needed > size) return slot;
    want = needed;
  }
}

static bool holds_parts(const std::vector<store::Entry>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const auto& file) { return format::parse_part_name(file.name).has_value(); });
}

// What the name of a directory tells.
static CheckpointEntry entry_of_name(std::string_view id, Status problem) {
  CheckpointEntry entry;
  entry.id = id;
  entry.state = problem.ok() ? CKPT_CHECKPOINT_OPEN : CKPT_CHECKPOINT_DAMAGED;
  entry.problem = std::move(problem);
  if (auto name = format::parse_checkpoint_dir(id)) {
    entry.summary.label = name->label;
    entry.summary.token = name->token;
    entry.summary.attempt = name->attempt;
  }
  return entry;
}

// What the name and files of a directory without a readable commit record tell.
static Result<CheckpointEntry> entry_without_record(const store::Store& store, std::string_view id, Status problem) {
  CKPT_ASSIGN(auto files, store.list(id));
  if (problem.ok() && !format::parse_checkpoint_dir(id) && !holds_parts(files))
    return Status(CKPT_NOT_FOUND, store.path(id) + ": no checkpoint");
  CheckpointEntry entry = entry_of_name(id, std::move(problem));
  for (const auto& file : files) entry.bytes += file.size;
  return entry;
}

Result<CheckpointEntry> read_entry(const store::Store& store, std::string_view id) {
  auto file = store.open(slot_key(id));
  if (!file.ok()) {
    ckpt_status code = file.status().code();
    if (code == CKPT_NOT_FOUND) return entry_without_record(store, id, Ok());
    if (code == CKPT_FORMAT) return entry_without_record(store, id, file.status());
    return std::move(file).status();
  }
  auto slot = read_slot_tail(**file);
  if (!slot.ok()) {
    if (slot.status().code() == CKPT_IO || slot.status().code() == CKPT_NOMEM) return std::move(slot).status();
    if (slot.status().code() == CKPT_GONE) return Status(CKPT_NOT_FOUND, slot.status().message());  // removed meanwhile
    return entry_without_record(
        store, id, Status(slot.status()).in(store.path(slot_key(id))).with("path", store.path(slot_key(id))));
  }
  if (!slot->committed) {
    CKPT_ASSIGN(auto entry, entry_without_record(store, id, Ok()));
    entry.state = CKPT_CHECKPOINT_ABORTED;
    entry.problem = Status(CKPT_ABORTED, slot->tombstone.reason);
    return entry;
  }
  CheckpointEntry entry;
  entry.id = id;
  entry.state = CKPT_CHECKPOINT_COMMITTED;
  entry.summary = std::move(slot->summary);
  entry.bytes = entry.summary.part_bytes + (*file)->size();
  return entry;
}

// The id that most checkpoints carry; in a tie, that of the highest token (FORMAT §7).
static Id vote_store_id(std::span<const CheckpointEntry> entries) {
  std::map<Id, std::tuple<uint64_t, uint64_t>> votes;
  for (const auto& entry : entries) {
    if (entry.state != CKPT_CHECKPOINT_COMMITTED) continue;
    auto& [count, token] = votes[entry.summary.store_id];
    count++;
    token = std::max(token, entry.summary.token);
  }
  auto best =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == votes.end() ? Id{} : best->first;
}

// NOT_FOUND if the store has no id file.
static Result<Id> read_store_id(const store::Store& store) {
  CKPT_ASSIGN(auto bytes, store.get(format::kStoreId, 4096));
  auto id = id_from_hex(as_text(bytes).substr(0, 32));
  if (!id.ok())
    return Status(CKPT_FORMAT, store.path(format::kStoreId) + ": " + id.status().message())
        .with("path", store.path(format::kStoreId));
  return id;
}

// Whether this user may not read a directory.
static bool is_barred(const Status& status) {
  const std::string* error = status.detail("errno");
  return error && (*error == std::to_string(EACCES) || *error == std::to_string(EPERM));
}

// In the order of the store's entries, including damaged and open ones.
static Result<std::vector<CheckpointEntry>> read_entries(const store::Store& store) {
  std::vector<CheckpointEntry> entries;
  CKPT_ASSIGN(auto directories, store.list(""));
  for (const auto& directory : directories) {
    if (!directory.directory || directory.name.starts_with('.')) continue;
    auto entry = read_entry(store, directory.name);
    if (entry.ok()) {
      entries.push_back(entry.take());
    } else if (is_barred(entry.status())) {
      // Without a checkpoint's name the directory is not ours: a disk's lost+found, for example.
      if (format::parse_checkpoint_dir(directory.name))
        entries.push_back(entry_of_name(directory.name, std::move(entry).status()));
    } else if (entry.status().code() != CKPT_NOT_FOUND) {  // otherwise it vanished meanwhile, or is something else
      return std::move(entry).status();
    }
  }
  return entries;
}

Result<Id> find_store_id(const store::Store& store) {
  auto id = read_store_id(store);
  if (id.ok() || id.status().code() != CKPT_NOT_FOUND) return id;
  CKPT_ASSIGN(auto entries, read_entries(store));
  return vote_store_id(entries);
}

Result<std::vector<CheckpointEntry>> list_checkpoints(const store::Store& store) {
  CKPT_ASSIGN(auto entries, read_entries(store));
  auto id = read_store_id(store);
  if (!id.ok() && id.status().code() != CKPT_NOT_FOUND) return std::move(id).status();
  Id own = id.ok() ? *id : vote_store_id(entries);
  for (auto& entry : entries) entry.foreign = entry.state == CKPT_CHECKPOINT_COMMITTED && entry.summary.store_id != own;
  auto order = [](const CheckpointEntry& e) {
    return std::tie(e.summary.run, e.summary.token, e.summary.sequence, e.summary.attempt, e.id);
  };
  std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return entries;
}

static bool eligible(const CheckpointEntry& entry, std::string_view run) {
  return entry.state == CKPT_CHECKPOINT_COMMITTED && !entry.foreign && entry.summary.run == run;
}

static Result<CheckpointEntry> not_found(const store::Store& store, std::string_view selector, std::string_view run) {
  return Status(CKPT_NOT_FOUND,
                strformat("{}: no committed checkpoint \"{}\" of run \"{}\"", store.uri(), selector, run))
      .with("path", store.uri())
      .with("expected", std::string(selector));
}

// Returns `entry`, which was named exactly, if it can be loaded.
static Result<CheckpointEntry> loadable(const store::Store& store, CheckpointEntry entry) {
  if (entry.state == CKPT_CHECKPOINT_COMMITTED) {
    auto own = find_store_id(store);
    entry.foreign = own.ok() && *own != entry.summary.store_id;
    return entry;
  }
  if (entry.state == CKPT_CHECKPOINT_DAMAGED) return entry.problem;
  const char* why =
      entry.state == CKPT_CHECKPOINT_ABORTED ? "was aborted" : "has no MANIFEST: it was never committed, or lost it";
  return Status(entry.state == CKPT_CHECKPOINT_ABORTED ? CKPT_ABORTED : CKPT_INCOMPLETE,
                store.path(entry.id) + " " + why)
      .with("path", store.path(entry.id));
}

Result<CheckpointEntry> find_checkpoint(const store::Store& store, std::string_view selector, std::string_view run) {
  std::string_view label = selector;
  bool by_label = label.starts_with("label:");
  if (by_label) label.remove_prefix(6);
  int64_t step = -1;
  bool by_step = selector.starts_with("step:");
  if (by_step) {
    std::string digits(selector.substr(5));
    char* end = nullptr;
    step = std::strtoll(digits.c_str(), &end, 10);
    if (digits.empty() || *end || step < 0)
      return Status(CKPT_INVALID, "selector \"" + std::string(selector) + "\": expected step:N");
  }
  bool latest = selector == "latest";
  if (!latest && !by_step && !by_label && !selector.empty() && selector.find('/') == std::string_view::npos &&
      selector[0] != '.') {
    auto entry = read_entry(store, selector);
    if (entry.ok()) return loadable(store, entry.take());
    if (entry.status().code() != CKPT_NOT_FOUND) return entry;
  }
  auto entries = list_checkpoints(store);
  if (!entries.ok() && entries.status().code() == CKPT_NOT_FOUND) return not_found(store, selector, run);
  if (!entries.ok()) return std::move(entries).status();
  for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry) {
    if (!eligible(*entry, run)) continue;
    if (latest || (by_step ? entry->summary.step == step : entry->summary.label == label)) return std::move(*entry);
  }
  return not_found(store, selector, run);
}

Result<uint64_t> highest_token(const store::Store& store, std::span<const CheckpointEntry> entries) {
  uint64_t highest = 0;
  for (const auto& entry : entries) highest = std::max(highest, entry.summary.token);
  auto owners = store.list(format::kOwnersDir);
  if (!owners.ok())
    return owners.status().code() == CKPT_NOT_FOUND ? Result<uint64_t>(highest) : std::move(owners).status();
  for (const auto& owner : *owners)
    if (auto token = format::parse_owner_name(owner.name)) highest = std::max(highest, *token);
  return highest;
}

Result<format::Slot> peek_slot(const store::Store& store, std::string_view id) {
  CKPT_ASSIGN(auto file, store.open(slot_key(id)));
  auto slot = read_slot_tail(*file);
  if (slot.ok()) return slot;
  return std::move(slot).status().in(store.path(slot_key(id))).with("path", store.path(slot_key(id)));
}

Result<SlotFile> read_slot(const store::Store& store, std::string_view id) {
  SlotFile file;
  CKPT_ASSIGN(file.bytes, store.get(slot_key(id), uint64_t{1} << 32));
  auto slot = format::open_slot(file.bytes);
  if (!slot.ok()) return std::move(slot).status().in(store.path(slot_key(id))).with("path", store.path(slot_key(id)));
  file.slot = slot.take();
  return file;
}

template <size_t N>
static void put_text(char (&out)[N], std::string_view text) {
  size_t size = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), size);
  out[size] = 0;
}

void fill_info(const CheckpointEntry& entry, ckpt_checkpoint_info* out) {
  const format::Summary& summary = entry.summary;
  out->state = entry.state;
  out->flags = (entry.foreign ? uint32_t{CKPT_CHECKPOINT_FOREIGN} : 0u) |
               (summary.rebuilt ? uint32_t{CKPT_CHECKPOINT_REBUILT} : 0u);
  out->revision = summary.revision;
  out->step = summary.step;
  out->token = summary.token;
  out->attempt = summary.attempt;
  out->sequence = summary.sequence;
  out->bytes = entry.bytes;
  out->tensor_count = summary.tensor_count;
  out->object_count = summary.object_count;
  out->created_unix_ms = summary.created_unix_ms;
  out->world_size = summary.world_size;
  out->part_count = summary.part_count;
  put_text(out->id, entry.id);
  put_text(out->label, summary.label);
  put_text(out->run, summary.run);
  put_text(out->save_id, to_hex(summary.save_id));
  put_text(out->store_id, to_hex(summary.store_id));
  put_text(out->session_id, to_hex(summary.session_id));
  put_text(out->writer, summary.writer);
}

}  // namespace ckpt::checkpoint
