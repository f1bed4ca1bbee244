#include "checkpoint/catalog.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/job.h"
#include "base/parallel.h"
#include "base/text.h"
#include "checkpoint/not_found.h"
#include "checkpoint/part_file.h"
#include "format/names.h"

namespace ckpt::checkpoint {

using format::slot_key;

// One read is enough for nearly every manifest: a summary takes some hundred bytes.
static constexpr uint64_t kTailBytes = 4096;

Result<format::Slot> read_slot_end(const store::Reader& file) {
  uint64_t size = file.size(), want = std::min(size, kTailBytes), needed = 0;
  for (;;) {
    std::vector<std::byte> tail(want);
    CKPT_TRY(file.read_at(size - want, tail));
    auto slot = format::open_slot(tail, size, &needed);
    if (slot.ok() || slot.status().code() != CKPT_INVALID || needed <= want || needed > size) return slot;
    want = needed;
  }
}

static bool holds_parts(const std::vector<store::Entry>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const auto& file) { return format::parse_part_name(file.name).has_value(); });
}

int32_t state_of(const Status& problem) {
  if (problem.code() == CKPT_REVISION) return CKPT_CHECKPOINT_REVISION;
  return problem.code() == CKPT_IO ? CKPT_CHECKPOINT_UNREADABLE : CKPT_CHECKPOINT_DAMAGED;
}

struct Peek {
  format::Slot slot;
  std::shared_ptr<const store::Reader> file;
};

static Result<Peek> peek(const store::Store& store, std::string_view id) {
  return store::read_checked(store, [&]() -> Result<Peek> {
    CKPT_ASSIGN(auto file, store.open(slot_key(id)));
    auto slot = read_slot_end(*file);
    if (slot.ok()) return Peek{slot.take(), std::move(file)};
    const std::string path = store.path(slot_key(id));
    return std::move(slot).status().in(path).with("path", path);
  });
}

// What the name of a directory tells.
static CheckpointEntry entry_of_name(std::string_view id, Status problem) {
  CheckpointEntry entry;
  entry.id = id;
  entry.state = problem.ok() ? CKPT_CHECKPOINT_OPEN : state_of(problem);
  entry.problem = std::move(problem);
  if (auto name = format::parse_checkpoint_dir(id)) {
    entry.summary.label = name->label;
    entry.summary.token = name->token;
    entry.summary.attempt = name->attempt;
  }
  return entry;
}

// Whether this user may not read a directory.
static bool is_barred(const Status& status) {
  const std::string* error = status.detail("errno");
  return error && (*error == std::to_string(EACCES) || *error == std::to_string(EPERM));
}

// What the name and files of a directory without a readable commit record tell. GONE if it was removed meanwhile.
static Result<CheckpointEntry> entry_without_record(const store::Store& store, std::string_view id,
                                                    const Status& problem) {
  if (!store.traits().lists) return entry_of_name(id, problem);
  const bool named = format::parse_checkpoint_dir(id).has_value();
  // Unlike a removed directory, a link that leads nowhere now may be the newest checkpoint, on a disk that is not
  // there.
  if (const std::string to = problem.ok() ? store.link_of(id) : ""; !to.empty())
    return !named ? Result<CheckpointEntry>(Status(CKPT_NOT_FOUND, store.path(id) + ": no checkpoint"))
                  : entry_of_name(id, Status(CKPT_IO, strformat("{} is a symbolic link to {}, where no checkpoint is",
                                                                store.path(id), to))
                                          .with("path", store.path(id)));
  if (auto there = named && problem.ok() ? store.has_directory(id) : Result<bool>(false); there.ok() && *there)
    return entry_of_name(id, Ok());  // its name tells all, so nobody looks into it
  auto files = store.list(id);
  const ckpt_status code = files.status().code();
  if (code == CKPT_NOT_FOUND) {
    // Where directories are only what keys have before a '/', a key that ends in one makes a name with nothing in it:
    // consoles make such keys for folders, and no patience fills them.
    if (!store.traits().directories) return Status(CKPT_NOT_FOUND, store.path(id) + ": no checkpoint");
    return Status(CKPT_GONE, store.path(id) + " was removed while it was being read");
  }
  if (ends_call(code)) return std::move(files).status();
  // Without a checkpoint's name the directory is not ours: a disk's lost+found, for example.
  if (!named && (files.ok() ? problem.ok() && !holds_parts(*files) : is_barred(files.status())))
    return Status(CKPT_NOT_FOUND, store.path(id) + ": no checkpoint");
  const bool damaged = !problem.ok();
  CheckpointEntry entry = entry_of_name(id, damaged ? problem : files.status());
  // Rank 0's part holds the same summary, but for the counts.
  if (damaged)
    if (auto summary = part_summary(store, id, 0); summary.ok()) entry.summary = summary.take();
  return entry;
}

// As read_entry, but GONE if the directory was removed meanwhile. A tombstone of a removal is no checkpoint.
static Result<CheckpointEntry> look_at(const store::Store& store, std::string_view id, bool keep_open = false) {
  auto peeked = peek(store, id);
  const ckpt_status code = peeked.status().code();
  if (ends_call(code) || code == CKPT_GONE) return std::move(peeked).status();
  if (code == CKPT_NOT_FOUND && !store.traits().lists) return no_manifest(store, id);
  if (!peeked.ok())
    return entry_without_record(
        store, id, code == CKPT_NOT_FOUND ? Ok() : std::move(peeked).status().with("path", store.path(slot_key(id))));
  format::Slot* slot = &peeked->slot;
  if (!slot->committed && slot->tombstone.status == CKPT_GONE)
    return Status(CKPT_NOT_FOUND, store.path(id) + " was removed").with("path", store.path(id));
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
  entry.bytes = entry.summary.part_bytes + entry.summary.base_bytes + peeked->file->size();
  if (keep_open) entry.manifest = std::move(peeked->file);
  return entry;
}

Result<CheckpointEntry> read_entry(const store::Store& store, std::string_view id, bool keep_open) {
  auto entry = look_at(store, id, keep_open);
  if (entry.ok() || entry.status().code() != CKPT_GONE) return entry;
  return Status(CKPT_NOT_FOUND, store.path(id) + ": no such checkpoint").with("path", store.path(id));
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

Result<Id> read_store_id(const store::Store& store) {
  CKPT_ASSIGN(auto bytes, store.get(format::kStoreId, 4096));
  auto id = id_from_hex(as_text(bytes).substr(0, 32));
  if (!id.ok())
    return Status(CKPT_FORMAT, store.path(format::kStoreId) + ": " + id.status().message())
        .with("path", store.path(format::kStoreId));
  return id;
}

Status await_listings(const store::Store& store) {
  const int64_t delay = store.traits().list_delay_ms;
  if (delay == 0) return Ok();
  const std::string uri = store.uri();
  const Busy busy("a wait for the lists", uri);
  return CallContext::current().of(busy).pause(delay + 1);
}

// Unless the MANIFEST there is a stranger's file. Of a bucket those who look for a checkpoint ask its list whether it
// is a store.
Status check_is_store(const store::Store& store) {
  if (!store.traits().directories) return Ok();
  auto file = store.open(format::kManifestName);
  if (!file.ok() || read_slot_end(**file).status().code() == CKPT_FORMAT) return Ok();
  return Status(CKPT_INVALID,
                strformat("{}: a checkpoint's own directory; its store is the directory that holds it", store.uri()))
      .with("path", store.uri());
}

Result<std::vector<std::string>> list_ids(const store::Store& store) {
  CKPT_TRY(await_listings(store));
  CKPT_ASSIGN(auto entries, store.list(""));
  std::vector<std::string> names;
  for (auto& entry : entries) {
    if (!entry.directory && entry.name == format::kManifestName) CKPT_TRY(check_is_store(store));
    if (entry.directory && !entry.name.starts_with('.')) names.push_back(std::move(entry.name));
  }
  return names;
}

// A directory that is removed between being listed and being read may have been the newest checkpoint, and a newer one
// may have appeared since: then all is listed again. What was seen committed stays so, and is read once.
class Picture {
 public:
  explicit Picture(const store::Store& store, bool keep_open = false) : store_(store), keep_open_(keep_open) {}
  Result<std::vector<CheckpointEntry>> take() {
    for (Backoff backoff(kPatienceMs);; backoff.sleep()) {
      std::vector<CheckpointEntry> entries;
      CKPT_ASSIGN(bool holds, try_once(backoff.expired(), &entries));
      if (holds) return entries;
    }
  }

 private:
  // So many names come in one system call, and so from one moment. A longer list is taken twice.
  static constexpr size_t kListedAtOnce = 256;

  // Whether all that was listed could be read. `last`: what vanishes now is DAMAGED.
  Result<bool> try_once(bool last, std::vector<CheckpointEntry>* entries) {
    CKPT_ASSIGN(auto names, list_ids(store_));
    bool holds = names.size() <= kListedAtOnce || names == names_ || last;
    std::vector<std::optional<Result<CheckpointEntry>>> looks(names.size());
    const store::Traits traits = store_.traits();
    const std::string* newest = keep_open_ && traits.remote ? newest_of(names) : nullptr;
    CKPT_TRY(for_each_parallel(traits.remote ? traits.read_depth : 1, names.size(), [&](size_t i) {
      auto known = committed_.find(names[i]);
      if (known != committed_.end())
        looks[i] = known->second;
      else if (!others_.contains(names[i]))
        looks[i] = look_at(store_, names[i], &names[i] == newest);
      return Ok();
    }));
    for (size_t i = 0; i < names.size(); i++) {
      if (!looks[i]) continue;
      const std::string& name = names[i];
      Result<CheckpointEntry>& entry = *looks[i];
      if (entry.status().code() == CKPT_NOT_FOUND) {
        // A store without renames shows what was removed until its tombstone goes, and that may have been just now.
        others_.insert(name);
        holds &= traits.directories || last;
        continue;
      }
      if (entry.status().code() == CKPT_GONE && last) entry = entry_of_name(name, std::move(entry).status());
      holds &= entry.status().code() != CKPT_GONE;
      if (entry.status().code() == CKPT_GONE) continue;
      if (!entry.ok()) return std::move(entry).status();
      if (entry->state == CKPT_CHECKPOINT_COMMITTED) committed_.emplace(name, *entry);
      entries->push_back(entry.take());
    }
    names_ = std::move(names);
    return holds;
  }

  // By the names alone, which tell no run and no sequence: a guess. Null if none is a checkpoint's.
  static const std::string* newest_of(std::span<const std::string> names) {
    const auto age = [](const std::string& name) {
      auto parsed = format::parse_checkpoint_dir(name);
      return parsed ? std::pair(parsed->token, parsed->attempt) : std::pair<uint64_t, uint64_t>();
    };
    auto newest = std::max_element(names.begin(), names.end(), [&](auto& a, auto& b) { return age(a) < age(b); });
    return newest == names.end() ? nullptr : &*newest;
  }

  const store::Store& store_;
  const bool keep_open_;
  std::vector<std::string> names_;  // of the listing before
  std::map<std::string, CheckpointEntry> committed_;
  std::set<std::string> others_;  // no checkpoints
};

Result<Id> find_store_id(const store::Store& store) {
  auto id = read_store_id(store);
  if (id.ok() || ends_call(id.status().code())) return id;
  CKPT_ASSIGN(auto entries, Picture(store).take());
  const Id voted = vote_store_id(entries);
  // Nobody voted, but somebody may: those whose manifests cannot be read now.
  if (voted.zero())
    for (const CheckpointEntry& entry : entries)
      if (entry.problem.code() == CKPT_IO) return entry.problem;
  return voted;
}

Result<Id> adopt_store_id(store::Store& store, const Id& id) {
  CKPT_ASSIGN(const Id own, find_store_id(store));
  if (!own.zero() || id.zero()) return own;
  CKPT_TRY(store.make_directory(format::kControlDir));
  const std::string text = to_hex(id) + "\n";
  Status put = store.put_own(format::kStoreId, as_bytes(text));
  if (put.code() == CKPT_EXISTS) return find_store_id(store);  // another was faster, or the record is damaged
  CKPT_TRY(std::move(put));
  return id;
}

// One save counts once: in the directory that bears its name, or else in the first one. The others are copies, which
// may be unfinished.
static void mark_copies(std::vector<CheckpointEntry>& entries) {
  auto before = [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::pair(!a.own_name(), std::string_view(a.id)) < std::pair(!b.own_name(), std::string_view(b.id));
  };
  std::map<Id, const CheckpointEntry*> originals;
  for (const auto& entry : entries) {
    if (entry.state != CKPT_CHECKPOINT_COMMITTED) continue;
    auto [original, fresh] = originals.try_emplace(entry.summary.save_id, &entry);
    if (before(entry, *original->second)) original->second = &entry;
  }
  for (auto& entry : entries)
    entry.copy = entry.state == CKPT_CHECKPOINT_COMMITTED && originals[entry.summary.save_id] != &entry;
}

Result<std::vector<CheckpointEntry>> list_checkpoints(const store::Store& store, bool keep_open) {
  std::vector<CheckpointEntry> entries;
  std::optional<Result<Id>> id;
  const auto take = [&]() -> Status {
    CKPT_ASSIGN(entries, Picture(store, keep_open).take());
    return Ok();
  };
  // On a server, one answer is not waited for before the other question is asked.
  CKPT_TRY(for_each_parallel(store.traits().remote ? 2 : 1, 2, [&](size_t i) {
    if (i == 0) return take();
    id = read_store_id(store);
    return Ok();
  }));
  // A server that does not answer now must not make our checkpoints those of another store.
  const bool asks_server = store.traits().remote && store.traits().lists;
  if (ends_call(id->status().code()) || (id->status().code() == CKPT_IO && asks_server)) return std::move(*id).status();
  mark_copies(entries);
  Id own = id->ok() ? **id : vote_store_id(entries);
  for (auto& entry : entries) entry.foreign = entry.state == CKPT_CHECKPOINT_COMMITTED && entry.summary.store_id != own;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.order() < b.order(); });
  return entries;
}

Result<uint64_t> highest_token(const store::Store& store) {
  uint64_t highest = 0;
  CKPT_ASSIGN(auto names, list_ids(store));
  for (const std::string& name : names) {
    if (auto parsed = format::parse_checkpoint_dir(name))
      highest = std::max(highest, parsed->token);
    else if (auto renamed = look_at(store, name); renamed.ok())
      highest = std::max(highest, renamed->summary.token);
    else if (ends_call(renamed.status().code()))
      return std::move(renamed).status();
  }
  auto owners = store.list(format::kOwnersDir);
  if (!owners.ok())
    return owners.status().code() == CKPT_NOT_FOUND ? Result<uint64_t>(highest) : std::move(owners).status();
  for (const auto& owner : *owners)
    if (auto token = format::parse_owner_name(owner.name)) highest = std::max(highest, *token);
  return highest;
}

Result<format::Slot> peek_slot(const store::Store& store, std::string_view id) {
  CKPT_ASSIGN(Peek peeked, peek(store, id));
  return std::move(peeked.slot);
}

void fill_info(const CheckpointEntry& entry, ckpt_checkpoint_info* out) {
  const format::Summary& summary = entry.summary;
  out->state = entry.state;
  out->flags = (entry.foreign ? uint32_t{CKPT_CHECKPOINT_FOREIGN} : 0u) |
               (summary.rebuilt ? uint32_t{CKPT_CHECKPOINT_REBUILT} : 0u) |
               (entry.copy ? uint32_t{CKPT_CHECKPOINT_COPY} : 0u) | (entry.kept ? uint32_t{CKPT_CHECKPOINT_KEPT} : 0u) |
               entry.mirror;
  out->revision = summary.revision;
  out->step = summary.step;
  out->token = summary.token;
  out->attempt = summary.attempt;
  out->sequence = summary.sequence;
  out->bytes = entry.bytes;
  out->base_bytes = summary.base_bytes;
  out->used_bytes = summary.used_bytes;
  out->shared_bytes = entry.shared;
  out->tensor_count = summary.tensor_count;
  out->object_count = summary.object_count;
  out->created_unix_ms = summary.created_unix_ms;
  out->world_size = summary.world_size;
  out->part_count = summary.part_count;
  put_text(out->id, entry.id);
  put_text(out->label, summary.label);
  put_text(out->names, entry.names);
  put_text(out->run, summary.run);
  put_text(out->save_id, to_hex(summary.save_id));
  put_text(out->store_id, to_hex(summary.store_id));
  put_text(out->session_id, to_hex(summary.session_id));
  put_text(out->writer, summary.writer);
}

}  // namespace ckpt::checkpoint
