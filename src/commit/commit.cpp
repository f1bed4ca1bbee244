#include "commit/commit.h"

#include "base/parallel.h"
#include "commit/merge.h"
#include "commit/retention.h"
#include "format/names.h"

namespace ckpt::commit {

using session::Attempt;
using session::Session;

static std::string attempt_record_key(const Session& session, const Attempt& attempt) {
  return format::attempt_key(session.plan().token, attempt.number, attempt.label);
}

// ---- the slot ----

static Status tombstone_status(const format::Tombstone& tombstone, const Session& session, const Attempt& attempt) {
  if (tombstone.closed_by_token > session.plan().token)
    return Status(CKPT_FENCED, strformat("{} was closed by session {}, which owns the run now", attempt.directory,
                                         tombstone.closed_by_token));
  if (tombstone.status == CKPT_EXISTS) return Status(CKPT_EXISTS, tombstone.reason);
  if (tombstone.status == CKPT_GONE) return Status(CKPT_GONE, attempt.directory + " is being removed");
  return Status(CKPT_ABORTED, strformat("{} was aborted by rank {} ({}): {}", attempt.directory, tombstone.rank,
                                        status_name(tombstone.status), tombstone.reason))
      .with("rank", uint64_t{tombstone.rank})
      .with("found", status_name(tombstone.status));
}

// What the slot says about this attempt. NOT_FOUND: nothing, so the attempt is open, or its directory is gone.
// COMMIT_UNKNOWN: it cannot be read.
static Status read_slot(const Session& session, const Attempt& attempt) {
  auto slot = checkpoint::peek_slot(session.store(), attempt.directory);
  if (slot.ok() && !slot->committed) return tombstone_status(slot->tombstone, session, attempt);
  if (slot.ok() && slot->summary.save_id == attempt.save_id) return Ok();
  if (slot.ok())
    return Status(CKPT_CONFLICT, attempt.directory + " holds the commit of another save")
        .with("found", to_hex(slot->summary.save_id));
  if (slot.status().code() == CKPT_NOT_FOUND) return std::move(slot).status();
  return Status(CKPT_COMMIT_UNKNOWN, "the commit record cannot be read: " + slot.status().message());
}

// NOT_FOUND: the attempt has its directory, so it is open if its slot is empty. GONE: there is none: not yet, or no
// more. COMMIT_UNKNOWN: nobody can tell.
static Status find_directory(const Session& session, const Attempt& attempt) {
  auto there = session.store().attempt_exists(attempt_record_key(session, attempt), attempt.directory);
  if (!there.ok()) return Status(CKPT_COMMIT_UNKNOWN, "the attempt cannot be read: " + there.status().message());
  return *there ? Status(CKPT_NOT_FOUND, attempt.directory + " is open")
                : Status(CKPT_GONE, attempt.directory + " is gone");
}

static Status read_outcome(const Session& session, const Attempt& attempt) {
  Status outcome = read_slot(session, attempt);
  if (outcome.code() != CKPT_NOT_FOUND) return outcome;
  Status place = find_directory(session, attempt);
  if (place.code() != CKPT_GONE) return place;
  // A store without directories has only the record to tell, which goes once the slot is taken.
  outcome = read_slot(session, attempt);
  return outcome.code() == CKPT_NOT_FOUND ? place : outcome;
}

// As read_outcome, but asks one thing only: usually whether the slot is taken, and now and then whether the directory
// is still there.
static Status poll_outcome(const Session& session, const Attempt& attempt, Turns& turns) {
  if (turns.other()) {
    Status place = find_directory(session, attempt);
    return place.code() == CKPT_GONE ? read_outcome(session, attempt) : place;
  }
  auto taken = session.store().exists(format::slot_key(attempt.directory));
  return taken.ok() && !*taken ? Status(CKPT_NOT_FOUND, attempt.directory + " is open")
                               : read_outcome(session, attempt);
}

// The outcome of an attempt whose directory was there and is no more. Whoever removes a directory of several ranks
// leaves word for those that still ask.
static Status outcome_of_gone(const Session& session, const Attempt& attempt) {
  const uint64_t token = session.plan().token;
  if (session.store().open(format::pruned_key(token, attempt.number, attempt.label)).ok()) return Ok();
  if (session.store().open(format::closed_key(token, attempt.number, attempt.label)).ok())
    return Status(CKPT_FENCED, attempt.directory + " was closed by a newer session, which owns the run now");
  std::string text = attempt.directory + " is gone: it was aborted, or committed and removed since";
  if (Status fenced = session.check_fence(); fenced.code() == CKPT_FENCED) text += "; " + fenced.message();
  return Status(CKPT_COMMIT_UNKNOWN, std::move(text));
}

// A failure that only followed from another session's taking over is told as what it is.
static Status explain(const Session& session, Status cause) {
  Status fenced = session.check_fence();
  return fenced.code() == CKPT_FENCED ? fenced : cause;
}

// Whether an outcome means a tombstone in the slot: such an attempt will never be committed.
static bool is_closed(const Status& outcome) {
  return outcome.code() == CKPT_ABORTED || outcome.code() == CKPT_EXISTS || outcome.code() == CKPT_FENCED;
}

// ---- opening the attempt ----

static Status leader_label_taken(Session& session, const Attempt& attempt, const CommitSettings& settings) {
  if (settings.on_existing != "error") return Ok();
  const session::SessionPlan& plan = session.plan();
  CKPT_ASSIGN(auto taken, checkpoint::find_label(session.store(), {plan.store_id, plan.run, attempt.label}));
  if (!taken) return Ok();
  return Status(CKPT_EXISTS,
                strformat("run \"{}\" has a checkpoint \"{}\" already: {} (option on_existing says what to do then)",
                          plan.run, attempt.label, taken->id))
      .with("found", taken->id);
}

// The record comes first, so that the next session finds the directory whatever happens. If a rank has refused the
// attempt, both exist already.
static Status make_attempt(Session& session, const Attempt& attempt) {
  const std::string record = session.plan().run + "\n";
  return session.store().open_attempt(attempt_record_key(session, attempt), as_bytes(record), attempt.directory);
}

static Status lead_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings) {
  CKPT_TRY(session.hold_run());
  CKPT_TRY(leader_label_taken(session, attempt, settings));
  CKPT_TRY(make_attempt(session, attempt));
  if (Status outcome = read_slot(session, attempt); is_closed(outcome)) return outcome;  // a rank has refused it
  Status fenced = session.check_fence();
  return fenced.ok() ? Ok() : give_up(session, attempt, std::move(fenced));
}

static Status follow_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  Turns turns;
  for (Backoff backoff(settings.timeout_ms, session.world_size());; backoff.sleep()) {
    CKPT_TRY(job.check());
    if (turns.other())
      CKPT_TRY(session.check_fence());
    else if (find_directory(session, attempt).code() == CKPT_NOT_FOUND) {
      Status outcome = read_slot(session, attempt);
      if (outcome.code() == CKPT_NOT_FOUND) return Ok();
      if (outcome.code() != CKPT_COMMIT_UNKNOWN) return outcome;
    }
    if (!backoff.expired()) continue;
    CKPT_TRY(session.check_fence());
    return Status(CKPT_TIMEOUT,
                  strformat("rank 0 did not open {} within {} ms", attempt.directory, settings.timeout_ms))
        .with("ranks", "0");
  }
}

Status open_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  Status opened =
      session.rank() == 0 ? lead_attempt(session, attempt, settings) : follow_attempt(session, attempt, settings, job);
  bool others_know = session.rank() != 0 && is_closed(opened);  // whoever closed it has told everybody
  return opened.ok() || others_know ? opened : refuse_attempt(session, attempt, std::move(opened));
}

// ---- giving up ----

// Frees the space of a closed attempt, but leaves the tombstone for ranks that still ask.
static void remove_parts(store::Store& store, const Attempt& attempt) {
  auto files = store.list(attempt.directory);
  if (!files.ok()) return;
  for (const auto& file : *files)
    if (file.name != format::kManifestName) (void)store.remove(attempt.directory + "/" + file.name, false);
}

// For when the tombstone could not be created. Rank 0 alone commits, so its own failure is final. It needs every rank's
// part, so the failure of a rank without a part is final too. Otherwise nobody knows yet what rank 0 did or will do.
static Status give_up_open(Session& session, const Attempt& attempt, Status cause, const Status& not_closed,
                           const Status& outcome, bool published) {
  // A failed publish may still have put the part there.
  published |= session.store().open(format::part_key(attempt.directory, session.rank())).ok();
  if (session.rank() == 0 || !published) return explain(session, std::move(cause));
  if (outcome.code() == CKPT_GONE) return outcome_of_gone(session, attempt);
  return Status(CKPT_COMMIT_UNKNOWN,
                "rank 0 may still commit: this rank's part is there, and closing the attempt failed (" +
                    not_closed.message() + ") after: " + cause.message())
      .with("found", status_name(cause.code()));
}

Status give_up(Session& session, const Attempt& attempt, Status cause, bool published) {
  if (cause.code() == CKPT_COMMIT_UNKNOWN) return cause;
  std::string reason = cause.message();
  Status closed = session.store().put_if_absent(format::slot_key(attempt.directory),
                                                format::frame_tombstone({.save_id = attempt.save_id,
                                                                         .rank = session.rank(),
                                                                         .status = cause.code(),
                                                                         .reason = reason,
                                                                         .closed_by_token = 0}));
  Status outcome = closed.ok() ? cause : read_outcome(session, attempt);
  // It was committed before this rank failed. Saying otherwise would be wrong.
  if (outcome.ok()) return Ok();
  bool was_open =
      outcome.code() == CKPT_NOT_FOUND || outcome.code() == CKPT_COMMIT_UNKNOWN || outcome.code() == CKPT_GONE;
  if (was_open) return give_up_open(session, attempt, std::move(cause), closed, outcome, published);
  if (session.rank() == 0) remove_parts(session.store(), attempt);
  // Whoever closed the slot first knows the cause. A failure that only followed from it must not hide it.
  bool consequence = cause.code() == CKPT_NOT_FOUND || cause.code() == CKPT_CANCELLED || cause.code() == CKPT_TIMEOUT ||
                     cause.code() == CKPT_EXISTS;
  return !closed.ok() && consequence ? outcome : cause;
}

Status refuse_attempt(Session& session, const Attempt& attempt, Status cause) {
  cause = explain(session, std::move(cause));
  if (session.world_size() == 1 || cause.code() == CKPT_FENCED) return cause;  // no other rank waits
  if (Status made = make_attempt(session, attempt); !made.ok()) return cause;
  return give_up(session, attempt, std::move(cause));
}

// ---- rank 0: waiting for the parts ----

static std::string list_ranks(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 20; i++) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 20 ? text + strformat(" and {} more", ranks.size() - 20) : text;
}

// Ranks that counted differently write under another attempt of the label. That explains a rank that never comes.
static std::string found_elsewhere(const Session& session, const Attempt& attempt) {
  auto entries = session.store().list("");
  if (!entries.ok()) return "";
  std::string text;
  for (const auto& entry : *entries) {
    auto name = format::parse_checkpoint_dir(entry.name);
    if (!name || name->label != attempt.label || name->token != session.plan().token || name->attempt == attempt.number)
      continue;
    auto files = session.store().list(entry.name);
    if (!files.ok()) continue;
    for (const auto& file : *files)
      if (format::parse_part_name(file.name))
        text += (text.empty() ? "; found elsewhere: " : ", ") + entry.name + "/" + file.name;
  }
  return text;
}

static Status missing_parts(const Session& session, const Attempt& attempt, const std::vector<uint32_t>& missing,
                            int64_t timeout_ms) {
  return Status(CKPT_TIMEOUT, strformat("{}: no part of rank {} within {} ms{}", attempt.directory, list_ranks(missing),
                                        timeout_ms, found_elsewhere(session, attempt)))
      .with("ranks", list_ranks(missing))
      .with("expected", uint64_t{session.world_size()})
      .with("found", session.world_size() - missing.size());
}

static Status check_belongs(const checkpoint::PartFile& part, const Session& session, const Attempt& attempt,
                            uint32_t rank) {
  const format::PartHeader& header = part.header;
  if (header.save_id == attempt.save_id && header.rank == rank && header.world_size == session.world_size())
    return Ok();
  return checkpoint::at_part(
      Status(CKPT_MISMATCH,
             strformat("part of save {}, rank {} of {}, expected save {}, rank {} of {}", to_hex(header.save_id),
                       header.rank, header.world_size, to_hex(attempt.save_id), rank, session.world_size())),
      session.store(), attempt.directory, rank);
}

// So many parts are worth several threads.
static constexpr size_t kManyParts = 16;

// The parts of an attempt as rank 0 gathers them.
struct Collection {
  std::vector<checkpoint::PartFile> parts;
  std::vector<bool> have;
  size_t count = 0;
  std::vector<uint32_t> missing() const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < have.size(); rank++)
      if (!have[rank]) ranks.push_back(rank);
    return ranks;
  }
};

// Opens the parts of `ranks`. One that the store fails to read counts as missing, since the next try may succeed; the
// last such error goes to `unreadable`.
static Status take_parts(const Session& session, const Attempt& attempt, unsigned threads,
                         const std::vector<uint32_t>& ranks, Collection* all, Status* unreadable) {
  std::vector<Status> taken(ranks.size());
  CKPT_TRY(for_each_parallel(ranks.size() < kManyParts ? 1 : threads, ranks.size(), [&](size_t i) {
    const uint32_t rank = ranks[i];
    auto part = checkpoint::open_part(session.store(), attempt.directory, rank);
    taken[i] = part.ok() ? check_belongs(*part, session, attempt, rank) : part.status();
    if (!taken[i].ok()) return Ok();
    all->parts[rank] = part.take();
    all->parts[rank].file.reset();  // a thousand ranks must not take a thousand descriptors
    return Ok();
  }));
  for (size_t i = 0; i < taken.size(); i++) {
    if (taken[i].ok()) {
      all->have[ranks[i]] = true;
      all->count++;
      continue;
    }
    if (taken[i].code() != CKPT_NOT_FOUND && taken[i].code() != CKPT_IO) return std::move(taken[i]);
    if (taken[i].code() == CKPT_IO) *unreadable = std::move(taken[i]);
  }
  return Ok();
}

// Errors of the store end a save only if they last.
static constexpr int64_t kFaultMs = 5000;

// Whether tries have failed for so long, without one in between that did not.
class FaultWatch {
 public:
  bool lasts(bool failed) {
    if (!failed)
      since_.reset();
    else if (!since_)
      since_.emplace(kFaultMs);
    return since_ && since_->expired();
  }

 private:
  std::optional<Backoff> since_;
};

// What one listing of the attempt's directory tells.
struct Arrivals {
  std::vector<uint32_t> ranks;  // whose parts are there and not collected yet
  bool closed = false;          // the slot is taken
};

static Result<Arrivals> list_arrivals(const Session& session, const Attempt& attempt, const Collection& all) {
  CKPT_ASSIGN(auto files, session.store().list(attempt.directory));
  Arrivals found;
  for (const auto& file : files) {
    found.closed |= file.name == format::kManifestName;
    if (auto rank = format::parse_part_name(file.name); rank && *rank < all.have.size() && !all.have[*rank])
      found.ranks.push_back(*rank);
  }
  return found;
}

// Only this rank commits, and it has not yet. So a slot that cannot be read holds no commit: OK if it is not known to
// be closed.
static Status check_closed(const Session& session, const Attempt& attempt, Status* unreadable) {
  Status outcome = read_slot(session, attempt);
  if (outcome.code() == CKPT_NOT_FOUND) return Ok();  // on its way
  if (outcome.ok()) return Status(CKPT_INTERNAL, "committed before all parts were there");
  if (outcome.code() != CKPT_COMMIT_UNKNOWN) return outcome;
  *unreadable = Status(CKPT_ABORTED, outcome.message());
  return Ok();
}

// One look at the attempt: takes what has come. An error of the store that may pass goes to `unreadable`.
static Status collect_once(Session& session, const Attempt& attempt, unsigned threads, Collection* all,
                           Status* unreadable) {
  auto found = list_arrivals(session, attempt, *all);
  if (found.status().code() == CKPT_NOT_FOUND) {  // without directories, one that has no files yet is not listed
    Status place = find_directory(session, attempt);
    return place.code() == CKPT_GONE ? Status(CKPT_ABORTED, place.message()) : Ok();
  }
  if (found.status().code() == CKPT_IO) *unreadable = found.status();
  if (!found.ok()) return found.status().code() == CKPT_IO ? Ok() : std::move(found).status();
  // Another rank's failure shows at once; only silence takes until the deadline.
  if (found->closed) CKPT_TRY(check_closed(session, attempt, unreadable));
  return take_parts(session, attempt, threads, found->ranks, all, unreadable);
}

// Rank 0's own part is there before it asks, and its listing serves all ranks, so its pauses grow more slowly.
static constexpr uint32_t kRanksPerListing = 10;

static Result<std::vector<checkpoint::PartFile>> collect_parts(Session& session, const Attempt& attempt,
                                                               const CommitSettings& settings, Job& job) {
  const uint32_t world = session.world_size();
  Collection all{std::vector<checkpoint::PartFile>(world), std::vector<bool>(world), 0};
  FaultWatch faults;
  for (Backoff backoff(settings.timeout_ms, world / kRanksPerListing);; backoff.sleep()) {
    CKPT_TRY(job.check());
    const size_t before = all.count;
    Status unreadable;
    CKPT_TRY(collect_once(session, attempt, settings.threads, &all, &unreadable));
    if (all.count == world) return std::move(all.parts);
    if (all.count != before) backoff.reset();
    const bool lasts = faults.lasts(!unreadable.ok());
    if (!backoff.expired() && !lasts) continue;
    return unreadable.ok() ? missing_parts(session, attempt, all.missing(), settings.timeout_ms) : unreadable;
  }
}

// ---- the commit ----

static Status publish_manifest(Session& session, const Attempt& attempt, Bytes file) {
  Status fence = session.check_fence();
  for (Backoff backoff(kFaultMs); fence.code() == CKPT_IO && !backoff.expired(); backoff.sleep())
    fence = session.check_fence();
  CKPT_TRY(std::move(fence));
  Status created = session.store().put_if_absent(format::slot_key(attempt.directory), file);
  if (created.ok()) return created;
  // The slot was taken, or the call failed on its way: what the slot holds now is the truth.
  Status outcome = read_outcome(session, attempt);
  if (created.code() == CKPT_NOT_FOUND) return explain(session, std::move(created));  // the attempt was removed
  if (outcome.code() == CKPT_GONE) return outcome_of_gone(session, attempt);
  if (created.code() == CKPT_EXISTS) return outcome;
  if (outcome.code() == CKPT_NOT_FOUND) return created;
  if (outcome.ok() && !session.store().traits().visible_is_durable)
    return Status(CKPT_COMMIT_UNKNOWN,
                  "the commit record is there, but making it durable failed: " + created.message());
  return outcome;
}

// The checkpoint is safe. A failure to tidy up is a finding, and must not make the save look failed.
static void after_commit(Session& session, const Attempt& attempt, const format::Summary& summary,
                         const CommitSettings& settings, Report* report) {
  auto note = [report](const Status& status) {
    if (status.ok() || status.code() == CKPT_NOT_FOUND) return;
    report->add(CKPT_FINDING_KEPT, status.code(), "", "after the commit: " + status.message());
  };
  note(session.store().remove(attempt_record_key(session, attempt), false));
  const RetentionPolicy policy{session.plan().run, settings.keep_last, settings.keep_every, settings.protect, false};
  note(retire_older(session, summary, settings.on_existing == "replace", policy, report));
}

static Status lead_commit(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  auto parts = collect_parts(session, attempt, settings, job);
  if (!parts.ok()) return give_up(session, attempt, std::move(parts).status());
  auto merged = merge_parts(*parts, {}, session.store(), attempt.directory, false);
  if (!merged.ok()) return give_up(session, attempt, std::move(merged).status());
  if (Status cancelled = job.check(); !cancelled.ok()) return give_up(session, attempt, std::move(cancelled));
  Status published = publish_manifest(session, attempt, merged->file);
  if (!published.ok()) return give_up(session, attempt, std::move(published));
  after_commit(session, attempt, merged->summary, settings, &job.report);
  return Ok();
}

// Rank 0 knows which ranks are missing, so it gets to speak first.
static constexpr int64_t kFollowerGraceMs = 2000;

static Status await_outcome(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  FaultWatch faults;
  Turns turns;
  for (Backoff backoff(settings.timeout_ms + kFollowerGraceMs, session.world_size());; backoff.sleep()) {
    Status outcome = poll_outcome(session, attempt, turns);
    // Rank 0 removed the parts when it gave up. Ours may have come after that.
    if (is_closed(outcome)) (void)session.store().remove(format::part_key(attempt.directory, session.rank()), false);
    if (outcome.code() == CKPT_GONE) return outcome_of_gone(session, attempt);
    const bool unread = outcome.code() == CKPT_COMMIT_UNKNOWN;
    if (faults.lasts(unread) || (outcome.code() != CKPT_NOT_FOUND && !unread)) return outcome;
    Status failure = job.check();
    if (failure.ok() && backoff.expired())
      failure = Status(CKPT_TIMEOUT,
                       strformat("rank 0 did not finish {} within {} ms", attempt.directory, settings.timeout_ms))
                    .with("ranks", "0");
    if (!failure.ok()) return give_up(session, attempt, std::move(failure), true);
  }
}

Status finish_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  return session.rank() == 0 ? lead_commit(session, attempt, settings, job)
                             : await_outcome(session, attempt, settings, job);
}

}  // namespace ckpt::commit
