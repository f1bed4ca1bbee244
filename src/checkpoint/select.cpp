#include "checkpoint/select.h"

#include <algorithm>
#include <map>

#include "base/job.h"
#include "base/text.h"
#include "checkpoint/given_names.h"
#include "checkpoint/not_found.h"
#include "checkpoint/selector.h"
#include "codec/checksum.h"

namespace ckpt::checkpoint {

static bool eligible(const CheckpointEntry& entry, std::string_view run) {
  return entry.counts() && entry.summary.run == run;
}

// Whether a listing calls it a copy. A directory that bears the save's name never is one, so it needs no listing.
static Result<bool> is_copy(const store::Store& store, const CheckpointEntry& entry) {
  if (entry.own_name()) return false;
  auto all = list_checkpoints(store);
  if (ends_call(all.status().code())) return std::move(all).status();
  return all.ok() &&
         std::any_of(all->begin(), all->end(), [&](const auto& other) { return other.id == entry.id && other.copy; });
}

// Returns `entry`, which was named exactly, if it can be loaded.
static Result<CheckpointEntry> loadable(const store::Store& store, CheckpointEntry entry) {
  if (entry.state == CKPT_CHECKPOINT_COMMITTED) {
    auto own = find_store_id(store);
    if (ends_call(own.status().code())) return std::move(own).status();
    entry.foreign = own.ok() && *own != entry.summary.store_id;
    CKPT_ASSIGN(entry.copy, is_copy(store, entry));
    return entry;
  }
  if (entry.unusable()) return entry.problem;
  const char* why =
      entry.state == CKPT_CHECKPOINT_ABORTED ? "was aborted" : "has no MANIFEST: it was never committed, or lost it";
  return Status(entry.state == CKPT_CHECKPOINT_ABORTED ? CKPT_ABORTED : CKPT_INCOMPLETE,
                store.path(entry.id) + " " + why)
      .with("path", store.path(entry.id));
}

// What is wrong with a checkpoint, as against what is wrong with this process or with the question.
static bool is_damage(const Status& status) {
  const ckpt_status code = status.code();
  return code == CKPT_CORRUPT || code == CKPT_FORMAT || code == CKPT_REVISION || code == CKPT_IO ||
         code == CKPT_INCOMPLETE || code == CKPT_MISMATCH;
}

static bool was_removed(const Status& status) {
  return status.code() == CKPT_NOT_FOUND || status.code() == CKPT_GONE || status.code() == CKPT_CONFLICT;
}

// Whether an entry may have the label that is asked for. What is damaged may tell its run no more.
static bool may_hold(const CheckpointEntry& entry, const LabelQuestion& question) {
  const format::Summary& summary = entry.summary;
  if (summary.label != question.label) return false;
  if (entry.state == CKPT_CHECKPOINT_COMMITTED)
    return summary.store_id == question.store_id && summary.run == question.run;
  const bool damaged = entry.state == CKPT_CHECKPOINT_DAMAGED || entry.state == CKPT_CHECKPOINT_UNREADABLE;
  return damaged && (summary.run.empty() || summary.run == question.run);
}

Result<LabelHolders> find_label(const store::Store& store, const LabelQuestion& question,
                                const std::function<Status(const CheckpointEntry&)>& load) {
  LabelHolders holders;
  CKPT_ASSIGN(auto names, list_ids(store));
  for (const std::string& name : names) {
    if (auto parsed = format::parse_checkpoint_dir(name); parsed && parsed->label != question.label) continue;
    auto entry = read_entry(store, name);
    if (was_removed(entry.status())) continue;
    if (!entry.ok()) return std::move(entry).status();
    if (!may_hold(*entry, question)) continue;
    if (entry->state == CKPT_CHECKPOINT_COMMITTED) {
      Status loaded = load(*entry);
      if (was_removed(loaded)) continue;
      // A newer ckpt's checkpoint is not damaged.
      if (loaded.ok() || loaded.code() == CKPT_REVISION) {
        holders.sound = entry.take();
        continue;
      }
      if (!is_damage(loaded)) return loaded;
      entry->state = state_of(loaded);
      entry->problem = std::move(loaded);
    }
    holders.damaged.push_back(entry.take());
  }
  return holders;
}

// Whether a damaged entry may be a newer checkpoint of the run than `chosen`. Without a readable part nothing but its
// token is known.
static bool may_be_newer(const CheckpointEntry& damaged, const CheckpointEntry* chosen, std::string_view run) {
  const format::Summary& summary = damaged.summary;
  if (!damaged.unusable() || (!summary.run.empty() && summary.run != run)) return false;
  if (!chosen || summary.token != chosen->summary.token) return !chosen || summary.token > chosen->summary.token;
  return summary.run.empty() || summary.sequence > chosen->summary.sequence;
}

// ---- two places ----

// Whoever keeps a mirror must learn that it cannot be asked: something newer may be there.
static Status of_mirror(const store::Store& mirror, Status status) {
  return std::move(status).in("mirror " + mirror.uri());
}

Status check_same_store(const Places& places, const Id& own, const Id& there) {
  if (own.zero() || there.zero() || own == there) return Ok();  // a place without an id holds nothing yet
  return Status(CKPT_MISMATCH, strformat("{} is no mirror of {}: it is store {}, expected {}; each store needs a "
                                         "mirror of its own",
                                         places.mirror->uri(), places.store.uri(), to_hex(there), to_hex(own)))
      .with("path", places.mirror->uri())
      .with("expected", to_hex(own))
      .with("found", to_hex(there));
}

static std::string mirror_record(const store::Store& mirror) {
  return format::mirror_key(codec::xxh3_128(as_bytes(mirror.identity())));
}

Status check_mirror_there(const store::Store& mirror) {
  if (read_store_id(mirror).status().code() != CKPT_NOT_FOUND) return Ok();
  return Status(CKPT_IO, strformat("mirror {} was used before, and {} is not there any more: it was removed, or its "
                                   "disk is not mounted",
                                   mirror.uri(), mirror.path(format::kStoreId)))
      .with("path", mirror.path(format::kStoreId))
      .with("store", mirror.uri());
}

Status check_known_mirror(const Places& places) {
  Status there = check_mirror_there(*places.mirror);
  if (there.ok()) return there;
  const std::string record = mirror_record(*places.mirror);
  auto known = places.store.exists(record);
  if (!known.ok() || !*known) return known.ok() || known.status().code() == CKPT_NOT_FOUND ? Ok() : known.status();
  return Status(there.code(), there.message() + "; to begin with an empty one, remove " + places.store.path(record))
      .with("path", *there.detail("path"))
      .with("store", places.mirror->uri());
}

Status note_mirror(store::Store& store, const store::Store& mirror) {
  const std::string text = mirror.uri() + "\n", record = mirror_record(mirror);
  CKPT_ASSIGN(const bool known, store.exists(record));
  Status put = known ? Ok() : store.put_if_absent(record, as_bytes(text));
  return put.code() == CKPT_EXISTS ? Ok() : put;
}

static Status check_same_store(const Places& places) {
  auto own = read_store_id(places.store), there = read_store_id(*places.mirror);
  if (there.status().code() == CKPT_NOT_FOUND) return check_known_mirror(places);
  for (const auto* id : {&own, &there})
    if (ends_call(id->status().code())) return id->status();
  return own.ok() && there.ok() ? check_same_store(places, *own, *there) : Ok();
}

static bool is_before(const CheckpointEntry& a, const CheckpointEntry& b) {
  // Of one checkpoint in both places the store's comes last, as the newer one would.
  return a.order() != b.order() ? a.order() < b.order() : a.in_mirror() && !b.in_mirror();
}

// The entries of both places, each by itself.
static Result<std::vector<CheckpointEntry>> list_each(const Places& places, bool keep_open = false) {
  auto listed = list_checkpoints(places.store, keep_open);
  if (!places.mirror) return listed;
  CKPT_TRY(check_same_store(places));
  std::vector<CheckpointEntry> entries;
  // A disk that was lost: the mirror has it all.
  if (listed.ok())
    entries = listed.take();
  else if (listed.status().code() != CKPT_NOT_FOUND)
    return listed;
  auto there = list_checkpoints(*places.mirror, keep_open);
  if (!there.ok() && there.status().code() != CKPT_NOT_FOUND)
    return of_mirror(*places.mirror, std::move(there).status());
  for (size_t i = 0; there.ok() && i < there->size(); i++) {
    (*there)[i].mirror = CKPT_CHECKPOINT_MIRROR_ONLY;
    entries.push_back(std::move((*there)[i]));
  }
  std::sort(entries.begin(), entries.end(), is_before);
  return entries;
}

// What the mirror has of an entry of the store.
static uint32_t mirror_flag(const CheckpointEntry& own, const CheckpointEntry& there) {
  if (there.state == CKPT_CHECKPOINT_OPEN) return CKPT_CHECKPOINT_MIRRORING;
  const bool same = own.state != CKPT_CHECKPOINT_COMMITTED || own.summary.save_id == there.summary.save_id;
  return there.state == CKPT_CHECKPOINT_COMMITTED && same ? uint32_t{CKPT_CHECKPOINT_MIRRORED} : 0;
}

Result<std::vector<CheckpointEntry>> list_places(const Places& places) {
  CKPT_ASSIGN(auto entries, list_each(places));
  std::map<std::string_view, CheckpointEntry*> own;
  for (CheckpointEntry& entry : entries)
    if (!entry.in_mirror()) own[entry.id] = &entry;
  for (const CheckpointEntry& entry : entries)
    if (auto found = own.find(entry.id); entry.in_mirror() && found != own.end())
      found->second->mirror |= mirror_flag(*found->second, entry);
  std::vector<CheckpointEntry> merged;
  for (CheckpointEntry& entry : entries)
    if (!entry.in_mirror() || !own.contains(entry.id)) merged.push_back(entry);
  return merged;
}

void measure(const Places& places, std::vector<CheckpointEntry>& entries) {
  for (auto& entry : entries)
    if (entry.state != CKPT_CHECKPOINT_COMMITTED)
      if (auto bytes = places.of(entry).bytes_in(entry.id); bytes.ok()) entry.bytes = *bytes;
  // Looks at each file, so only where any checkpoint has files of another one.
  if (!std::ranges::any_of(entries, [](const auto& entry) { return entry.summary.base_bytes != 0; })) return;
  for (auto& entry : entries) measure_shared(places, entry);
}

void measure_shared(const Places& places, CheckpointEntry& entry) {
  const store::Store& store = places.of(entry);
  if (entry.state != CKPT_CHECKPOINT_COMMITTED || !store.traits().directories || store.traits().remote) return;
  if (auto bytes = store.bytes_shared(entry.id); bytes.ok()) entry.shared = *bytes;
}

// ---- picking ----

// Whether the other place may have what this one gives no more.
static bool may_be_elsewhere(const Status& status) {
  return is_damage(status) || was_removed(status) || status.code() == CKPT_ABORTED;
}

static Result<Selection> pick_by_id(const store::Store& store, std::string_view id, uint32_t mirror,
                                    const std::function<Status(const CheckpointEntry&)>& load) {
  CKPT_ASSIGN(auto entry, read_entry(store, id, store.traits().remote));  // elsewhere it is opened under its lock
  CKPT_ASSIGN(entry, loadable(store, std::move(entry)));
  entry.mirror = mirror;
  CKPT_TRY(load(entry));
  entry.manifest.reset();
  return Selection{std::move(entry), {}};
}

static Result<Selection> pick_by_id(const Places& places, std::string_view id,
                                    const std::function<Status(const CheckpointEntry&)>& load) {
  auto picked = pick_by_id(places.store, id, 0, load);
  if (picked.ok() || !places.mirror || !may_be_elsewhere(picked.status())) return picked;
  auto there = pick_by_id(*places.mirror, id, CKPT_CHECKPOINT_MIRROR_ONLY, load);
  if (there.ok()) return there;
  if (picked.status().code() != CKPT_NOT_FOUND) return picked;
  if (there.status().code() != CKPT_NOT_FOUND) return of_mirror(*places.mirror, std::move(there).status());
  CKPT_TRY(check_known_mirror(places));
  return picked;
}

// One look. NOT_FOUND: nothing fits. GONE: look again.
static Result<Selection> select_once(const Places& places, const Selector& wanted, std::string_view run,
                                     const std::function<Status(const CheckpointEntry&)>& load) {
  CKPT_ASSIGN(auto entries, list_each(places, true));
  Selection selection;
  const CheckpointEntry* chosen = nullptr;
  for (auto entry = entries.rbegin(); entry != entries.rend() && !chosen; ++entry) {
    if (!eligible(*entry, run) || !wanted.matches(entry->summary)) continue;
    Status loaded = load(*entry);
    entry->manifest.reset();
    if (loaded.ok()) {
      chosen = &*entry;
    } else if (is_damage(loaded)) {
      entry->state = state_of(loaded);
      entry->problem = std::move(loaded);
    } else {
      return was_removed(loaded) ? Status(CKPT_GONE, loaded.message()) : std::move(loaded);
    }
  }
  auto loaded_elsewhere = [&](const CheckpointEntry& entry) { return chosen && chosen->id == entry.id; };
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    if (may_be_newer(*entry, chosen, run) && wanted.matches(entry->summary) && !loaded_elsewhere(*entry))
      selection.passed_over.push_back(*entry);
  if (chosen) selection.entry = *chosen;
  if (!chosen) return selection.passed_over.empty() ? Status(CKPT_NOT_FOUND, "") : selection.passed_over[0].problem;
  return selection;
}

// By what is in the store, or by what is in the mirror, if there is nothing in the store.
static Status explain(const Places& places, const Question& question) {
  auto own = list_ids(places.store);
  if (!own.ok() && own.status().code() != CKPT_NOT_FOUND && places.mirror) return std::move(own).status();
  const bool nothing = !own.ok() || own->empty();
  return explain_not_found(places.mirror && nothing ? *places.mirror : places.store, question.selector, question.run);
}

// Whoever moves a name may then remove what had it: so that is looked for again, unless it is the same.
static Result<Selection> pick_by_name(const Places& places, const Question& question, std::string_view name,
                                      const std::function<Status(const CheckpointEntry&)>& load) {
  constexpr int kTries = 4;
  std::string id;
  for (int i = 0; i < kTries; i++) {
    CKPT_ASSIGN(std::string found, named_id(places.store, question.run, name));
    if (found.empty()) return explain(places, question);
    if (found == id) break;
    id = std::move(found);
    auto picked = pick_by_id(places, id, load);
    if (!was_removed(picked.status())) return picked;
  }
  return Status(CKPT_NOT_FOUND,
                strformat("{}: run {} has no checkpoint named {}: it was {}, which is not there any more",
                          places.store.uri(), in_quotes(question.run), in_quotes(name), id))
      .with("path", places.store.uri())
      .with("expected", std::string(question.selector))
      .with("found", id);
}

// An error that passes must not cost a training the steps since an older checkpoint. Requests to a server were repeated
// before.
static constexpr int64_t kFaultPassesMs = 500;
static bool may_be_read_soon(const Places& places, const Selection& selection) {
  return !places.store.traits().remote && std::ranges::any_of(selection.passed_over, [](const CheckpointEntry& entry) {
    return entry.problem.code() == CKPT_IO;
  });
}

Result<Selection> select_checkpoint(const Places& places, const Question& question,
                                    const std::function<Status(const CheckpointEntry&)>& load) {
  CKPT_ASSIGN(const Selector wanted, parse_selector(question.selector));
  if (!wanted.name.empty()) return pick_by_name(places, question, wanted.name, load);
  if (can_be_id(question.selector)) {
    auto picked = pick_by_id(places, question.selector, load);
    if (picked.ok() || picked.status().code() != CKPT_NOT_FOUND || !places.store.traits().lists) return picked;
  }
  const Backoff fault(kFaultPassesMs);
  for (Backoff backoff(kPatienceMs);; backoff.sleep()) {
    auto selection = select_once(places, wanted, question.run, load);
    if (selection.status().code() == CKPT_NOT_FOUND) return explain(places, question);
    if (selection.ok() && may_be_read_soon(places, *selection) && !fault.expired()) continue;
    if (selection.ok() && question.refuse_damaged && !selection->passed_over.empty())
      return selection->passed_over[0].problem;
    if (selection.status().code() != CKPT_GONE || backoff.expired()) return selection;
  }
}

void fill_info(const Selection& selection, ckpt_checkpoint_info* out) {
  fill_info(selection.entry, out);
  out->passed_over = selection.passed_over.size();
}

}  // namespace ckpt::checkpoint
