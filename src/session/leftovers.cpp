#include "session/leftovers.h"

#include <algorithm>

#include "checkpoint/catalog.h"
#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::session {

Status close_attempt(store::Store& store, std::string_view directory, const format::Tombstone& tombstone) {
  Status status = store.put_if_absent(format::slot_key(directory), format::frame_tombstone(tombstone));
  return status.code() == CKPT_EXISTS ? Ok() : status;
}

static Status forget(store::Store& store, const std::string& key) {
  Status removed = store.remove(key, false);
  if (removed.code() == CKPT_IO) removed = store.remove(key, false);  // the answer may have been lost
  return removed.code() == CKPT_NOT_FOUND ? Ok() : removed;
}

// A record appears together with its content, so an empty one is left by a crash. The owner record tells whose it was.
static bool is_abandoned(store::Store& store, const SessionPlan& plan, uint64_t token) {
  Status unreadable;
  auto owner = read_owner(store, token, &unreadable);
  return unreadable.ok() && (!owner || owner->run == plan.run);
}

// False if it cannot be closed now: its record must then stay for the next session.
static Result<bool> close_older_attempt(store::Store& store, const SessionPlan& plan, const format::DirName& attempt) {
  const std::string directory = format::checkpoint_dir(attempt.label, attempt.token, attempt.attempt);
  auto is_gone = [&] { return store.list(directory).status().code() == CKPT_NOT_FOUND; };
  format::Tombstone tombstone{.save_id = {},
                              .rank = 0,
                              .status = CKPT_FENCED,
                              .reason = strformat("closed by session {}", plan.token),
                              .closed_by_token = plan.token};
  Status closed = close_attempt(store, directory, tombstone);
  // A network file system also answers "not found" for a stale handle.
  if (closed.code() == CKPT_NOT_FOUND) return is_gone();
  CKPT_TRY(std::move(closed));
  auto entry = checkpoint::read_entry(store, directory);
  if (!entry.ok() && entry.status().code() != CKPT_NOT_FOUND) return std::move(entry).status();
  // Where there are no directories, the tombstone of a removed checkpoint stays in the slot for a while: nothing is
  // left to close, although something lies there.
  if (!entry.ok()) return !store.traits().directories || is_gone();
  // Closed is closed. NOT_FOUND: a session that opens at the same moment removed it. What cannot be removed now, such
  // as a directory that somebody put there, waits for the next session.
  if (entry->state == CKPT_CHECKPOINT_ABORTED) {
    // For ranks that still ask. NOT_FOUND: nobody is left of that session.
    Status word =
        store.put_if_absent(format::closed_key(attempt.token, attempt.attempt, attempt.label), as_bytes("\n"));
    if (!word.ok() && word.code() != CKPT_EXISTS && word.code() != CKPT_NOT_FOUND) return false;
    return store.retire(directory, format::kManifestName, {}).ok() || is_gone();
  }
  // What cannot be read now may be a tombstone.
  return entry->state == CKPT_CHECKPOINT_COMMITTED;
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
      CKPT_ASSIGN(bool finished, close_older_attempt(store, plan, *record));
      if (!finished) continue;
    } else if (!text->empty() || !is_abandoned(store, plan, record->token)) {
      continue;
    }
    CKPT_TRY(forget(store, key));
  }
  return Ok();
}

// Ranks of the session before this one may still be asking for an outcome, so its directory stays until the next start.
static Status forget_session(store::Store& store, uint64_t token, const std::string& key) {
  if (store.traits().tells_age) (void)store.remove_directory(format::beats_dir(token));
  Status removed = store.remove_directory(format::session_dir(token));
  if (removed.code() == CKPT_CONFLICT) return Ok();  // a process of it lives, and has its claim open: the next start's
  if (!removed.ok() && removed.code() != CKPT_NOT_FOUND) return removed;
  return forget(store, key);
}

Status forget_older_owners(store::Store& store, const SessionPlan& plan) {
  const std::string directory = format::run_dir(plan.run);
  CKPT_ASSIGN(auto files, store.list(directory));
  std::vector<std::pair<uint64_t, std::string>> older;
  for (const auto& file : files)
    if (auto session = format::parse_run_session_name(file.name); session && session->token < plan.token)
      older.emplace_back(session->token, directory + "/" + file.name);
  std::sort(older.begin(), older.end());
  for (size_t i = 0; i < older.size(); i++) {
    CKPT_TRY(forget(store, format::owner_key(older[i].first)));
    if (i + 1 < older.size()) CKPT_TRY(forget_session(store, older[i].first, older[i].second));
  }
  // Those of sessions that died before they took the run.
  CKPT_ASSIGN(auto owners, store.list(format::kOwnersDir));
  for (const auto& owner : owners) {
    auto token = format::parse_owner_name(owner.name);
    if (!token || *token >= plan.token) continue;
    Status unreadable;
    auto other = read_owner(store, *token, &unreadable);
    if (other && other->run == plan.run) CKPT_TRY(forget(store, format::owner_key(*token)));
  }
  return Ok();
}

}  // namespace ckpt::session
