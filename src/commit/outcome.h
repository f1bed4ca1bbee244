// What became of an attempt, as its slot and its directory tell. Stateless; every call asks the store anew.
#pragma once

#include <string>

#include "base/job.h"
#include "session/session.h"

namespace ckpt::commit {

// The key of the record of an attempt.
std::string attempt_record_key(const session::Session& session, const session::Attempt& attempt);

// OK: it was committed. ABORTED, EXISTS, FENCED: a tombstone says so. NOT_FOUND: the slot is empty, so the attempt is
// open, or its directory is gone. GONE: it is being removed. CONFLICT: another save was committed there.
// COMMIT_UNKNOWN: the slot cannot be read.
Status read_slot(const session::Session& session, const session::Attempt& attempt);
// NOT_FOUND: the attempt has its directory, so it is open if its slot is empty. GONE: there is none: not yet, or no
// more. COMMIT_UNKNOWN: nobody can tell.
Status find_directory(const session::Session& session, const session::Attempt& attempt);
// Both: NOT_FOUND only if the attempt is open.
Status read_outcome(const session::Session& session, const session::Attempt& attempt);
// The outcome of an attempt whose directory was there and is no more, which its slot cannot tell: whoever removes a
// directory leaves word for those that still ask. OK, FENCED, COMMIT_UNKNOWN.
Status outcome_of_gone(const session::Session& session, const session::Attempt& attempt);
// A failure that only followed from another session's taking over is told as what it is.
Status explain(const session::Session& session, Status cause);
// Whether an outcome means a tombstone in the slot: such an attempt will never be committed.
bool is_closed(const Status& outcome);

// Whether tries have failed for five seconds, without one in between that did not: errors of the store end a save only
// if they last.
class FaultWatch {
 public:
  static constexpr int64_t kFaultMs = 5000;
  bool lasts(bool failed);

 private:
  std::optional<Backoff> since_;
};

// Asks again and again what became of an attempt, as read_outcome, but one thing at a time: usually whether the slot is
// taken, and now and then whether the directory is still there.
class OutcomePoll {
 public:
  OutcomePoll(const session::Session& session, const session::Attempt& attempt)
      : session_(session), attempt_(attempt) {}
  Status ask();
  // Whether the slot cannot be read, and that lasts. That the directory can be seen is no sign that it can.
  bool fails() const { return fails_; }

 private:
  const session::Session& session_;
  const session::Attempt& attempt_;
  Turns turns_;
  FaultWatch faults_;
  bool fails_ = false;
};

}  // namespace ckpt::commit
