#include "session/leftovers.h"

#include "checkpoint/catalog.h"
#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::session {

Status close_attempt(store::Store& store, std::string_view directory, const format::Tombstone& tombstone) {
  Status status = store.put_if_absent(format::slot_key(directory), format::frame_tombstone(tombstone));
  return status.code() == CKPT_EXISTS ? Ok() : status;
}

Status discard_directory(store::Store& store, std::string_view directory) {
  std::string trash = format::trash_key(directory, random_id());
  CKPT_TRY(store.make_directory(format::kTrashDir));
  CKPT_TRY(store.move_directory(directory, trash));
  Status status = store.retire_directory(trash, format::kManifestName);
  // NOT_FOUND: another session has emptied the trash meanwhile. After any other error the next session deletes the
  // rest.
  return status.code() == CKPT_NOT_FOUND ? Ok() : status;
}

Status empty_trash(store::Store& store) {
  auto entries = store.list(format::kTrashDir);
  if (!entries.ok()) return entries.status().code() == CKPT_NOT_FOUND ? Ok() : std::move(entries).status();
  for (const auto& entry : *entries) {
    if (!entry.directory) continue;
    Status status = store.retire_directory(std::string(format::kTrashDir) + "/" + entry.name, format::kManifestName);
    (void)status;  // what cannot be deleted now harms nobody; the next session tries again
  }
  return Ok();
}

// A record appears together with its content, so an empty one is left by a crash. The owner record tells whose it was.
static bool is_abandoned(store::Store& store, const SessionPlan& plan, uint64_t token) {
  Status unreadable;
  auto owner = read_owner(store, token, &unreadable);
  return unreadable.ok() && (!owner || owner->run == plan.run);
}

// False if it cannot be closed now: its record must then stay for the next session.
static Result<bool> close_older_attempt(store::Store& store, const SessionPlan& plan, const std::string& directory) {
  format::Tombstone tombstone{.save_id = {},
                              .rank = 0,
                              .status = CKPT_FENCED,
                              .reason = strformat("closed by session {}", plan.token),
                              .closed_by_token = plan.token};
  Status closed = close_attempt(store, directory, tombstone);
  // A network file system also answers "not found" for a stale handle.
  if (closed.code() == CKPT_NOT_FOUND) return store.list(directory).status().code() == CKPT_NOT_FOUND;
  CKPT_TRY(std::move(closed));
  auto entry = checkpoint::read_entry(store, directory);
  if (!entry.ok() && entry.status().code() != CKPT_NOT_FOUND) return std::move(entry).status();
  if (!entry.ok()) return store.list(directory).status().code() == CKPT_NOT_FOUND;
  if (entry->state == CKPT_CHECKPOINT_ABORTED) CKPT_TRY(discard_directory(store, directory));
  return entry->state != CKPT_CHECKPOINT_OPEN;
}

Status close_older_attempts(store::Store& store, const SessionPlan& plan) {
  auto records = store.list(format::kAttemptsDir);
  if (!records.ok()) return records.status().code() == CKPT_NOT_FOUND ? Ok() : std::move(records).status();
  for (const auto& file : *records) {
    auto record = format::parse_attempt_name(file.name);
    if (!record || record->token >= plan.token) continue;
    std::string key = format::attempt_key(record->token, record->attempt, record->label);
    auto text = store.get(key, 4096);
    if (!text.ok()) continue;
    if (as_text(*text) == plan.run + "\n") {
      CKPT_ASSIGN(
          bool finished,
          close_older_attempt(store, plan, format::checkpoint_dir(record->label, record->token, record->attempt)));
      if (!finished) continue;
    } else if (!text->empty() || !is_abandoned(store, plan, record->token)) {
      continue;
    }
    Status removed = store.remove(key, false);
    if (!removed.ok() && removed.code() != CKPT_NOT_FOUND) return removed;
  }
  return Ok();
}

Status forget_older_owners(store::Store& store, const SessionPlan& plan) {
  CKPT_ASSIGN(auto owners, store.list(format::kOwnersDir));
  for (const auto& owner : owners) {
    auto token = format::parse_owner_name(owner.name);
    if (!token || *token >= plan.token) continue;
    Status unreadable;
    auto other = read_owner(store, *token, &unreadable);
    if (!other || other->run != plan.run) continue;
    Status removed = store.remove_directory(format::session_dir(*token), "");
    if (removed.ok() || removed.code() == CKPT_NOT_FOUND) removed = store.remove(format::owner_key(*token), false);
    if (!removed.ok() && removed.code() != CKPT_NOT_FOUND) return removed;
  }
  return Ok();
}

}  // namespace ckpt::session
