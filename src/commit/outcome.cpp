#include "commit/outcome.h"

#include "checkpoint/catalog.h"
#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::commit {

using session::Attempt;
using session::Session;

std::string attempt_record_key(const Session& session, const Attempt& attempt) {
  return format::attempt_key(session.plan().token, attempt.number, attempt.label);
}

// What the rank that gave up knows, on all ranks.
static Status with_facts(Status status, const format::Tombstone& tombstone) {
  for (const auto& [key, value] : tombstone.facts) status = std::move(status).with(key, value);
  return std::move(status).with("rank", uint64_t{tombstone.rank}).with("status", status_name(tombstone.status));
}

static Status tombstone_status(const format::Tombstone& tombstone, const Session& session, const Attempt& attempt) {
  if (tombstone.closed_by_token > session.plan().token)
    return session::fenced(
        session.plan(),
        strformat("{} was closed by session {}, which owns the run now", attempt.directory, tombstone.closed_by_token),
        tombstone.closed_by_token);
  if (tombstone.status == CKPT_EXISTS) return with_facts(Status(CKPT_EXISTS, tombstone.reason), tombstone);
  if (tombstone.status == CKPT_GONE) return Status(CKPT_GONE, attempt.directory + " is being removed");
  return with_facts(Status(CKPT_ABORTED, strformat("{} was aborted by rank {} ({}): {}", attempt.directory,
                                                   tombstone.rank, status_name(tombstone.status), tombstone.reason)),
                    tombstone);
}

Status read_slot(const Session& session, const Attempt& attempt) {
  auto slot = checkpoint::peek_slot(session.store(), attempt.directory);
  if (slot.ok() && !slot->committed) return tombstone_status(slot->tombstone, session, attempt);
  if (slot.ok() && slot->summary.save_id == attempt.save_id) return Ok();
  if (slot.ok())
    return Status(CKPT_CONFLICT, attempt.directory + " holds the commit of another save")
        .with("found", to_hex(slot->summary.save_id));
  if (slot.status().code() == CKPT_NOT_FOUND) return std::move(slot).status();
  return Status(CKPT_COMMIT_UNKNOWN, "the commit record cannot be read: " + slot.status().message());
}

Status find_directory(const Session& session, const Attempt& attempt) {
  auto there = session.store().attempt_exists(attempt_record_key(session, attempt), attempt.directory);
  if (!there.ok()) return Status(CKPT_COMMIT_UNKNOWN, "the attempt cannot be read: " + there.status().message());
  return *there ? Status(CKPT_NOT_FOUND, attempt.directory + " is open")
                : Status(CKPT_GONE, attempt.directory + " is gone");
}

Status read_outcome(const Session& session, const Attempt& attempt) {
  Status outcome = read_slot(session, attempt);
  if (outcome.code() != CKPT_NOT_FOUND) return outcome;
  Status place = find_directory(session, attempt);
  if (place.code() != CKPT_GONE) return place;
  // A store without directories has only the record to tell, which goes once the slot is taken.
  outcome = read_slot(session, attempt);
  return outcome.code() == CKPT_NOT_FOUND ? place : outcome;
}

Status OutcomePoll::ask() {
  if (turns_.other()) {
    Status place = find_directory(session_, attempt_);
    return place.code() == CKPT_GONE ? read_outcome(session_, attempt_) : place;
  }
  auto taken = session_.store().exists(format::slot_key(attempt_.directory));
  Status outcome = taken.ok() && !*taken ? Status(CKPT_NOT_FOUND, attempt_.directory + " is open")
                                         : read_outcome(session_, attempt_);
  fails_ = faults_.lasts(outcome.code() == CKPT_COMMIT_UNKNOWN);
  return outcome;
}

Status outcome_of_gone(const Session& session, const Attempt& attempt) {
  const uint64_t token = session.plan().token;
  const std::string pruned = format::pruned_key(token, attempt.number, attempt.label);
  if (session.has_word(pruned) || session.store().open(pruned).ok()) return Ok();
  if (session.store().open(format::closed_key(token, attempt.number, attempt.label)).ok())
    return session::fenced(session.plan(),
                           attempt.directory + " was closed by a newer session, which owns the run now");
  std::string text = attempt.directory + " is gone: it was aborted, or committed and removed since";
  if (Status fenced = session.check_fence(); fenced.code() == CKPT_FENCED) text += "; " + fenced.message();
  return Status(CKPT_COMMIT_UNKNOWN, std::move(text));
}

Status explain(const Session& session, Status cause) {
  Status fenced = session.check_fence();
  return fenced.code() == CKPT_FENCED ? fenced : cause;
}

bool is_closed(const Status& outcome) {
  return outcome.code() == CKPT_ABORTED || outcome.code() == CKPT_EXISTS || outcome.code() == CKPT_FENCED;
}

bool FaultWatch::lasts(bool failed) {
  if (!failed)
    since_.reset();
  else if (!since_)
    since_.emplace(kFaultMs);
  return since_ && since_->expired();
}

}  // namespace ckpt::commit
