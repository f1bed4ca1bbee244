// Rebuilds a MANIFEST from parts, by the same pure merge as the commit and so with the same bytes.
#include "maintain/repair.h"

#include <algorithm>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/not_found.h"
#include "commit/merge.h"
#include "commit/retention.h"
#include "format/names.h"
#include "maintain/lenders.h"

namespace ckpt::maintain {

// What keeps a part from being used, for people.
static std::string trouble_of(const Status& status, uint32_t number) {
  const bool missing = status.code() == CKPT_NOT_FOUND;
  return format::part_name(number) + (missing ? " is missing" : ": " + status.message());
}

static Result<std::vector<checkpoint::PartFile>> open_all_parts(const store::Store& store, std::string_view id,
                                                                const Job& job) {
  CKPT_ASSIGN(checkpoint::PartFile leader, checkpoint::open_part(store, id, 0));
  uint32_t world_size = leader.header.world_size;
  CKPT_TRY(checkpoint::await_listings(store));
  CKPT_ASSIGN(auto files, store.list(id));
  // A header can claim any world size. But no more ranks can have come than there are files, so the first missing
  // number is among that many and one more.
  uint32_t limit = static_cast<uint32_t>(std::min<uint64_t>(world_size, files.size() + 1));
  std::vector<checkpoint::PartFile> parts(limit);
  parts[0] = std::move(leader);
  std::vector<std::string> troubles;
  ckpt_status code = CKPT_INCOMPLETE;  // of the first that is not missing
  for (uint32_t i = 1; i < limit; i++) {
    CKPT_TRY(job.check());
    auto part = checkpoint::open_part(store, id, i);
    if (part.ok()) {
      parts[i] = part.take();
      parts[i].file.reset();
      continue;
    }
    if (part.status().code() != CKPT_NOT_FOUND && code == CKPT_INCOMPLETE) code = part.status().code();
    troubles.push_back(trouble_of(part.status(), i));
  }
  if (limit < world_size) troubles.push_back(strformat("{} and what follows are missing", format::part_name(limit)));
  if (troubles.empty()) return parts;
  return Status(code, strformat("{}: {} of {} parts cannot be used, and only another copy of the checkpoint has what "
                                "they hold: {}",
                                store.path(id), troubles.size() + (limit < world_size ? world_size - limit - 1 : 0),
                                world_size, list_some(troubles, 5, "; ")))
      .with("path", store.path(id));
}

// Whether this directory was committed in this store. A copy of an attempt, or one from another store, shows nothing.
// An attempt whose record still exists did not commit (or crashed just after it; option force is for that case). If
// .ckpt itself is missing, only a manifest that was there can tell.
static Result<bool> known_committed(const store::Store& store, std::string_view id, const format::Summary& summary,
                                    bool had_manifest) {
  CKPT_ASSIGN(Id store_id, checkpoint::find_store_id(store));
  if (!store_id.zero() && store_id != summary.store_id) return false;
  if (had_manifest) return true;
  if (id != format::checkpoint_dir(summary.label, summary.token, summary.attempt)) return false;
  const Status own = checkpoint::read_store_id(store).status();
  const Status open = store.get(format::attempt_key(summary.token, summary.attempt, summary.label), 4096).status();
  for (const Status& asked : {own, open})
    if (is_unanswered(asked.code())) return asked;  // that it cannot be read now shows nothing
  return own.ok() && open.code() == CKPT_NOT_FOUND;
}

static std::string damaged_name(const std::string& key) {
  return key + ".damaged." + to_hex(random_id()).substr(0, 16);
}

// Keeps the damaged file beside the new one. It may have any size, so it goes there in pieces.
static Status set_aside(store::Store& store, const std::string& slot) {
  constexpr uint64_t kMost = uint64_t{1} << 32, kPiece = 4 << 20;
  CKPT_ASSIGN(const auto file, store.open(slot));  // get() may refuse it
  if (file->size() > kMost)
    return Status(CKPT_UNSUPPORTED, strformat("{}: {} bytes, at most {} are set aside; move it away", store.path(slot),
                                              file->size(), kMost))
        .with("path", store.path(slot));
  // Announced as small: no direct writes, which need memory of their own.
  CKPT_ASSIGN(const auto to, store.create(damaged_name(slot), 0));
  std::vector<std::byte> piece(std::min(file->size(), std::max<uint64_t>(kPiece, store.traits().least_block_bytes)));
  for (uint64_t at = 0; at < file->size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), file->size() - at));
    CKPT_TRY(file->read_at(at, piece));
    CKPT_TRY(to->write_at(at, piece));
  }
  CKPT_TRY(to->publish(file->size()));
  return store.remove(slot, true);
}

// ---- files ----

// The same of a part, which is large: where another checkpoint can lend a file, a file can have a second name.
static Status rename_file(store::Store& store, const std::string& key) {
  CKPT_TRY(store.borrow(key, damaged_name(key)).status());
  return store.remove(key, true);
}

// What is missing, or another file, comes from a checkpoint that shares it. Whether any did. An error names a file that
// nobody has: then only another copy of the checkpoint helps.
static Result<bool> repair_files(store::Store& store, const checkpoint::Checkpoint& checkpoint, bool dry_run,
                                 Report* report, const Job& job) {
  const std::string& id = checkpoint.entry().id;
  std::vector<checkpoint::CheckpointEntry> others;
  bool any = false;
  for (uint32_t i = 0; i < checkpoint.file_count(); i++) {
    CKPT_TRY(job.check());
    CKPT_ASSIGN(const fb::Part record, checkpoint.part_record(i));
    const std::string key = format::file_key(id, checkpoint.name_of(i));
    Status there = commit::check_file_quick(store, id, record);
    if (there.ok()) continue;
    if (is_unanswered(there.code())) return there;
    if (!any) {
      CKPT_ASSIGN(others, checkpoint::list_checkpoints(store));
    }
    const bool missing = there.code() == CKPT_NOT_FOUND;
    CKPT_ASSIGN(std::string lender, borrow_from_others(store, others, id, record, true, job));
    if (!lender.empty() && !dry_run) {
      if (!missing) CKPT_TRY(rename_file(store, key));
      CKPT_ASSIGN(lender, borrow_from_others(store, others, id, record, false, job));
    }
    if (lender.empty())
      return missing ? Status(CKPT_INCOMPLETE, "MANIFEST is sound, but a part is missing: " + there.message())
                           .with("path", store.path(id))
                     : there;
    any = true;
    report->add(CKPT_FINDING_REPAIRED, CKPT_OK, id,
                strformat("{}: {} taken from {}, which has the same file", store.path(key),
                          dry_run ? "would be" : "was", lender),
                record.size());
  }
  return any;
}

Status repair_checkpoint(store::Store& store, std::string_view id, bool dry_run, bool force, Report* report,
                         const Job& job) {
  CKPT_TRY(job.check());
  std::string slot = format::slot_key(id);
  auto present = checkpoint::Checkpoint::open_quietly(store, id);
  if (present.status().code() == CKPT_ABORTED) return std::move(present).status();
  if (present.ok())
    if (Status damaged = (*present)->check_manifest(); !damaged.ok()) present = std::move(damaged);
  if (present.ok()) {
    CKPT_ASSIGN(const bool repaired, repair_files(store, **present, dry_run, report, job));
    if (repaired) return Ok();
    return Status(CKPT_EXISTS, store.path(slot) + " is sound").with("path", store.path(slot));
  }
  const bool had_manifest = present.status().code() != CKPT_NOT_FOUND;
  // What cannot be read, or only by a newer library, may be sound.
  if (const ckpt_status code = present.status().code();
      had_manifest && code != CKPT_CORRUPT && code != CKPT_FORMAT && code != CKPT_INCOMPLETE)
    return std::move(present).status();
  auto parts = open_all_parts(store, id, job);
  const bool none = !parts.ok() && parts.status().code() == CKPT_NOT_FOUND;
  if (none && !had_manifest && store.traits().lists) {
    const auto there = store.has_directory(id);
    if (there.ok() && !*there) return checkpoint::explain_no_id(store, id);
  }
  if (none)
    return Status(CKPT_INCOMPLETE, store.path(id) + " has no PART_000, which alone holds what the manifest needs")
        .with("path", store.path(id));
  if (!parts.ok()) return std::move(parts).status();
  CKPT_ASSIGN(bool committed, known_committed(store, id, (*parts)[0].summary(), had_manifest));
  if (!committed && !force)
    return Status(CKPT_INCOMPLETE, store.path(id) +
                                       ": nothing shows that this attempt was ever committed; option force=1 rebuilds "
                                       "it, marked as rebuilt")
        .with("path", store.path(id));
  CKPT_ASSIGN(commit::Merged merged, commit::merge_parts(*parts, {}, store, id, !committed));
  report->add(CKPT_FINDING_REPAIRED, CKPT_OK, std::string(id),
              strformat("{}: {} from {} parts, {} bytes, {} tensors", store.path(slot),
                        dry_run ? "would be rebuilt" : "rebuilt", parts->size(), merged.file.size(),
                        merged.summary.tensor_count));
  if (dry_run) return Ok();
  CKPT_TRY(job.check());
  if (had_manifest) CKPT_TRY(set_aside(store, slot));
  CKPT_TRY(store.put_if_absent(slot, merged.file));
  Call::settle_current(Ok());
  (void)store.remove(format::attempt_key(merged.summary.token, merged.summary.attempt, merged.summary.label), false);
  return Ok();
}

}  // namespace ckpt::maintain
