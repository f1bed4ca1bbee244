#include "commit/commit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/parallel.h"
#include "checkpoint/part_file.h"
#include "checkpoint/select.h"
#include "commit/anew.h"
#include "commit/collect.h"
#include "commit/holders.h"
#include "commit/merge.h"
#include "commit/outcome.h"
#include "commit/retention.h"
#include "commit/trees.h"
#include "format/names.h"
#include "session/leftovers.h"

namespace ckpt::commit {

using session::Attempt;
using session::Session;

// ---- opening the attempt ----

// A damaged checkpoint does not keep its label: a trainer that went back past it saves that step again. It stays, for
// whoever wants to look at it or repair it.
static Status leader_label_taken(Session& session, const Attempt& attempt, const CommitSettings& settings,
                                 const std::string& anew, Report* report) {
  if (settings.on_existing != "error") return Ok();
  const session::SessionPlan& plan = session.plan();
  const store::Store& store = session.store();
  CKPT_ASSIGN(auto holders, checkpoint::find_label(store, {plan.store_id, plan.run, attempt.label},
                                                   [&](const auto& entry) { return check_quick(store, entry.id); }));
  if (const auto& taken = holders.sound)
    return Status(
               CKPT_EXISTS,
               strformat("run \"{}\" has a checkpoint \"{}\" already: {} (option on_existing says what to do then){}{}",
                         plan.run, attempt.label, taken->id, anew.empty() ? "" : "; ", anew))
        .with("found", taken->id);
  for (const checkpoint::CheckpointEntry& entry : holders.damaged)
    report->add(CKPT_FINDING_DAMAGED, entry.problem.code(), entry.id,
                entry.id + ": damaged, so this save takes its label; it stays as it is: " + entry.problem.message());
  return Ok();
}

// The record comes first, so that the next session finds the directory whatever happens. If a rank has refused the
// attempt, both exist already.
static Status make_attempt(Session& session, const Attempt& attempt) {
  const std::string record = session.plan().run + "\n";
  return session.store().open_attempt(attempt_record_key(session, attempt), as_bytes(record), attempt.directory);
}

static Status lead_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings, Report* report) {
  CKPT_TRY(session.hold_run());
  std::string anew;
  CKPT_TRY(tell_anew(session, settings.step, settings.goes_back, report, &anew));
  CKPT_TRY(leader_label_taken(session, attempt, settings, anew, report));
  CKPT_TRY(make_attempt(session, attempt));
  // A rank has refused it, or a checkpoint was copied here under its name.
  if (Status outcome = read_slot(session, attempt); is_closed(outcome) || outcome.code() == CKPT_CONFLICT)
    return outcome;
  Status fenced = session.check_fence();
  return fenced.ok() ? Ok() : give_up(session, attempt, std::move(fenced));
}

static Status check_leader(Session& session, const Attempt& attempt) {
  static constexpr uint32_t kLeader[] = {0};
  return session.check_alive(attempt, kLeader);
}

// Rank 0, or one that refused it, has another label for the save of this number. It and all others are told: they would
// wait for this rank.
static Status check_label(Session& session, const Attempt& attempt) {
  store::Store& store = session.store();
  const auto records = store.list(format::kAttemptsDir);
  if (!records.ok()) return Ok();  // another look may tell
  for (const store::Entry& record : *records) {
    const auto name = format::parse_attempt_name(record.name);
    if (!name || name->token != session.plan().token || name->attempt != attempt.number || name->label == attempt.label)
      continue;
    const auto text = store.get(std::string(format::kAttemptsDir) + "/" + record.name, 4096);
    if (!text.ok() || format::is_copy_record(as_text(*text))) continue;
    const std::string directory = format::checkpoint_dir(name->label, name->token, name->attempt);
    if (store.traits().directories) {  // else it is a record that somebody is writing, or was killed writing
      const auto there = store.has_directory(directory);
      if (!there.ok() || !*there) continue;
    }
    const auto slot = checkpoint::peek_slot(store, directory);
    const uint32_t other = slot.ok() && !slot->committed ? slot->tombstone.rank : 0;
    Status differ = Status(CKPT_MISMATCH, strformat("save {} of this session has label {} on rank {} and {} on rank {}",
                                                    attempt.number, in_quotes(name->label), other,
                                                    in_quotes(attempt.label), session.rank()))
                        .with("ranks", std::to_string(session.rank()))
                        .with("expected", name->label)
                        .with("found", attempt.label)
                        .with("rank", uint64_t{session.rank()})
                        .with("status", status_name(CKPT_MISMATCH));
    (void)session::close_attempt(store, directory,
                                 {.save_id = {},
                                  .rank = session.rank(),
                                  .status = CKPT_MISMATCH,
                                  .reason = differ.message(),
                                  .closed_by_token = 0,
                                  .facts = differ.details()});
    return differ;
  }
  return Ok();
}

static Status follow_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings,
                             const std::function<Status()>& go_on) {
  Turns turns;
  FaultWatch faults;
  Status unread;  // why this rank does not know
  int64_t pause_ms = 1000, look_ms = steady_ms() + pause_ms;
  for (Backoff backoff(settings.timeout_ms, session.world_size());; backoff.sleep()) {
    CKPT_TRY(go_on());
    const ContextScope within = backoff.within();
    if (turns.other()) {
      if (Status fenced = session.check_fence(); fenced.code() != CKPT_TIMEOUT) CKPT_TRY(std::move(fenced));
    } else {
      Status found = find_directory(session, attempt);
      if (found.code() == CKPT_NOT_FOUND) {  // it is open
        found = read_slot(session, attempt);
        if (found.code() == CKPT_NOT_FOUND) return Ok();
        if (found.code() != CKPT_COMMIT_UNKNOWN) return found;
      }
      unread = found.code() == CKPT_COMMIT_UNKNOWN ? found : Ok();
      if (faults.lasts(!unread.ok())) return Status(CKPT_IO, found.message());
    }
    CKPT_TRY(check_leader(session, attempt));
    if (steady_ms() >= look_ms) {
      CKPT_TRY(check_label(session, attempt));
      look_ms = steady_ms() + (pause_ms *= 2);
    }
    if (!backoff.expired()) continue;
    const std::string text =
        unread.ok() ? strformat("rank 0 did not open {} within {} ms", attempt.directory, settings.timeout_ms)
                    : strformat("rank {} could not see within {} ms whether rank 0 opened {}: {}", session.rank(),
                                settings.timeout_ms, attempt.directory, unread.message());
    Status late = Status(CKPT_TIMEOUT, text).with("ranks", "0");
    const Closing to_explain(late);
    CKPT_TRY(session.check_fence());
    CKPT_TRY(check_label(session, attempt));
    return late;
  }
}

Status open_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job,
                    const std::function<Status()>& go_on) {
  const std::function<Status()> check = [&job] { return job.check(); };
  Status opened = call_guarded([&] {
    return session.rank() == 0 ? lead_attempt(session, attempt, settings, &job.report)
                               : follow_attempt(session, attempt, settings, go_on ? go_on : check);
  });
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

// The same of what this rank, or another one that failed, may have borrowed.
static void remove_bases(store::Store& store, const Attempt& attempt) {
  auto files = store.list(attempt.directory);
  if (!files.ok()) return;
  for (const auto& file : *files)
    if (format::parse_base_name(file.name)) (void)store.remove(attempt.directory + "/" + file.name, false);
}

// For when the tombstone could not be created. Rank 0 alone commits, so its own failure is final. It needs every rank's
// part, so the failure of a rank without a part is final too. Otherwise nobody knows yet what rank 0 did or will do.
static Status give_up_open(Session& session, const Attempt& attempt, Status cause, const Status& not_closed,
                           const Status& outcome, bool published) {
  if (session.rank() == 0) return explain(session, std::move(cause));
  // A failed publish may still have put the part there; and then it may have been committed and removed since.
  if (outcome.code() == CKPT_GONE) {
    Status told = outcome_of_gone(session, attempt);
    if (told.code() != CKPT_COMMIT_UNKNOWN || published || cause.code() == CKPT_NOT_FOUND) return told;
    return explain(session, std::move(cause));
  }
  const Status part = session.store().open(format::part_key(attempt.directory, session.rank())).status();
  const bool unknown = part.code() == CKPT_IO || part.code() == CKPT_TIMEOUT;
  if (!published && !part.ok() && !unknown) return explain(session, std::move(cause));
  return Status(CKPT_COMMIT_UNKNOWN,
                strformat("rank 0 may still commit: this rank's part {} there, and closing the attempt failed ({}) "
                          "after: {}",
                          published || part.ok() ? "is" : "may be", not_closed.message(), cause.message()))
      .with("status", status_name(cause.code()));
}

// Nothing of this attempt changes its outcome any more: whatever tidying up meets, this is the answer.
static Status settled(Status outcome) {
  Call* const call = CallContext::current().call();
  return call ? call->settle(std::move(outcome)) : outcome;
}

Status give_up(Session& session, const Attempt& attempt, Status cause, bool published) {
  const Closing telling(cause);
  if (cause.code() == CKPT_COMMIT_UNKNOWN) return settled(std::move(cause));
  // All ranks get the same facts.
  const ckpt_status code = cause.code();
  cause = std::move(cause).with("rank", uint64_t{session.rank()}).with("status", status_name(code));
  Status closed = session.store().put_if_absent(format::slot_key(attempt.directory),
                                                format::frame_tombstone({.save_id = attempt.save_id,
                                                                         .rank = session.rank(),
                                                                         .status = cause.code(),
                                                                         .reason = cause.message(),
                                                                         .closed_by_token = 0,
                                                                         .facts = cause.details()}));
  Status outcome = closed.ok() ? cause : read_outcome(session, attempt);
  // It was committed before this rank failed. Saying otherwise would be wrong.
  if (outcome.ok()) return settled(Ok());
  bool was_open =
      outcome.code() == CKPT_NOT_FOUND || outcome.code() == CKPT_COMMIT_UNKNOWN || outcome.code() == CKPT_GONE;
  if (was_open) return settled(give_up_open(session, attempt, std::move(cause), closed, outcome, published));
  const bool others =
      !closed.ok() && outcome.code() == CKPT_CONFLICT;  // another save's checkpoint, which was copied here
  // Whoever closed the slot first knows the cause. A failure that only followed from it must not hide it.
  // INCOMPLETE, GONE: files that were taken back.
  static constexpr std::array kFollow = {CKPT_NOT_FOUND, CKPT_CANCELLED, CKPT_TIMEOUT,
                                         CKPT_EXISTS,    CKPT_GONE,      CKPT_INCOMPLETE};
  const bool consequence = std::find(kFollow.begin(), kFollow.end(), code) != kFollow.end();
  const Status told = settled(!closed.ok() && consequence ? outcome : cause);
  if (session.rank() == 0 && !others) remove_parts(session.store(), attempt);
  if (session.rank() != 0 && !others) remove_bases(session.store(), attempt);
  return told;
}

Status refuse_attempt(Session& session, const Attempt& attempt, Status cause) {
  const Closing telling(cause);
  cause = explain(session, std::move(cause));
  if (session.world_size() == 1 || cause.code() == CKPT_FENCED) return cause;  // no other rank waits
  // An unfinished copy has the name: it gives way, so that the other ranks learn of this.
  if (Status made = make_attempt(session, attempt); !made.ok() && made.code() != CKPT_CONFLICT) return cause;
  return give_up(session, attempt, std::move(cause));
}

// ---- groups of ranks ----

// Step 4 on a leader.
static Status lead_group(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job,
                         const RankGroups& groups) {
  const uint32_t group = session.rank() / groups.size;
  CKPT_ASSIGN(auto parts, collect_parts(session, attempt, settings, job, groups.first(group), groups.ranks(group)));
  return put_group(session.store(), attempt.directory, group, parts);
}

static void remove_groups(store::Store& store, const Attempt& attempt, const RankGroups& groups) {
  for (uint32_t group = 1; group < groups.count(); group++)
    (void)store.remove(format::group_key(attempt.directory, group), false);
}

// ---- the commit ----

static Status publish_manifest(Session& session, const Attempt& attempt, Bytes file) {
  Status fence = session.check_fence();
  for (Backoff backoff(FaultWatch::kFaultMs); fence.code() == CKPT_IO && !backoff.expired(); backoff.sleep())
    fence = session.check_fence();
  CKPT_TRY(std::move(fence));
  Status created =
      call_guarded([&] { return session.store().put_if_absent(format::slot_key(attempt.directory), file); });
  if (created.ok()) return created;
  // The slot was taken, or the call failed on its way: what the slot holds now is the truth.
  Status outcome = read_outcome(session, attempt);
  // The directory is gone: the attempt was closed; or what was committed just now was removed.
  if (created.code() == CKPT_NOT_FOUND || outcome.code() == CKPT_GONE) return outcome_of_gone(session, attempt);
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
  const RetentionPolicy policy{.run = session.plan().run,
                               .keep_last = settings.keep_last,
                               .keep_every = settings.keep_every,
                               .protect = settings.protect,
                               .holds = [&](const format::Summary& one) { return session.continuation().holds(one); }};
  note(retire_older(session, summary, settings.on_existing == "replace", policy, report));
}

// All bases are there, since each rank had them before it published its part; and nothing else is: a rank may have
// found that it does not need what it borrowed, or have failed and come again.
static Status check_bases(store::Store& store, const Attempt& attempt, const Merged& merged) {
  auto files = store.list(attempt.directory);
  if (files.status().code() == CKPT_NOT_FOUND) files = std::vector<store::Entry>();  // a listing that lags behind
  CKPT_TRY(files.status());
  std::set<std::string_view> missing(merged.bases.begin(), merged.bases.end());
  for (const auto& file : *files)
    if (format::parse_base_name(file.name) && missing.erase(file.name) == 0)
      (void)store.remove(attempt.directory + "/" + file.name, false);
  for (const std::string_view name : missing) {  // or a listing that lags behind does not show it yet
    CKPT_ASSIGN(const bool there, store.exists(format::file_key(attempt.directory, std::string(name))));
    if (there) continue;
    return checkpoint::at_file(Status(CKPT_INCOMPLETE, "the base is missing"), store, attempt.directory,
                               std::string(name));
  }
  return Ok();
}

static Result<Merged> collect_and_merge(Session& session, const Attempt& attempt, const CommitSettings& settings,
                                        Job& job) {
  const RankGroups groups(session.world_size(), settings.group_from);
  CKPT_ASSIGN(auto parts, collect_parts(session, attempt, settings, job, 0, groups.ranks(0)));
  CKPT_ASSIGN(auto gathered, collect_groups(session, attempt, settings, job, groups));
  auto merged = merge_parts(parts, gathered, session.store(), attempt.directory, false);
  if (merged.ok()) CKPT_TRY(check_trees(parts, gathered, merged->trees, session.store(), attempt.directory));
  if (merged.ok() && (settings.incremental || !merged->bases.empty()))
    CKPT_TRY(check_bases(session.store(), attempt, *merged));
  remove_groups(session.store(), attempt, groups);  // a checkpoint has none; one that stays harms nobody
  if (settings.some_hold) remove_holders(session, attempt);
  return merged;
}

static Status lead_commit(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  std::optional<Merged> merged;
  Status collected = call_guarded([&]() -> Status {
    CKPT_ASSIGN(merged, collect_and_merge(session, attempt, settings, job));
    return Ok();
  });
  if (!collected.ok()) return give_up(session, attempt, std::move(collected));
  Status over = job.call->answer_if_left(
      Status(CKPT_COMMIT_UNKNOWN, "the commit record of " + attempt.directory + " may still be created"));
  if (!over.ok()) return give_up(session, attempt, std::move(over));
  const CancelShield until_it_is_known;
  Status published = publish_manifest(session, attempt, merged->file);
  if (!published.ok()) return give_up(session, attempt, std::move(published));
  (void)job.call->settle(Ok());
  after_commit(session, attempt, merged->summary, settings, &job.report);
  return Ok();
}

// Rank 0 knows which ranks are missing, so it gets to speak first.
static constexpr int64_t kFollowerGraceMs = 2000;

static void remove_own(Session& session, const Attempt& attempt, const CommitSettings& settings) {
  (void)session.store().remove(format::part_key(attempt.directory, session.rank()), false);
  if (settings.incremental) remove_bases(session.store(), attempt);
  const RankGroups groups(session.world_size(), settings.group_from);
  if (groups.leads(session.rank()))
    (void)session.store().remove(format::group_key(attempt.directory, session.rank() / groups.size), false);
}

static Status await_outcome(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  OutcomePoll poll(session, attempt);
  for (Backoff backoff(settings.timeout_ms + kFollowerGraceMs, session.world_size());; backoff.sleep()) {
    const ContextScope within = backoff.within();
    Status outcome = poll.ask();
    // Rank 0 removed the parts when it gave up. Ours may have come after that.
    if (is_closed(outcome)) {
      const Closing tidying(outcome);
      outcome = settled(std::move(outcome));
      remove_own(session, attempt, settings);
    }
    if (outcome.code() == CKPT_GONE) return outcome_of_gone(session, attempt);
    const bool unread = outcome.code() == CKPT_COMMIT_UNKNOWN;
    if (poll.fails() || (outcome.code() != CKPT_NOT_FOUND && !unread)) return outcome;
    // An operation that was too late for the wait has ended the call; the wait itself says more.
    Status failure = job.cancelled() || !backoff.expired() ? job.check() : Ok();
    if (failure.ok()) failure = check_leader(session, attempt);
    if (failure.ok() && backoff.expired())
      failure = Status(CKPT_TIMEOUT,
                       strformat("rank 0 did not finish {} within {} ms", attempt.directory, settings.timeout_ms))
                    .with("ranks", "0");
    if (!failure.ok()) return give_up(session, attempt, std::move(failure), true);
  }
}

static Status follow_commit(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  const RankGroups groups(session.world_size(), settings.group_from);
  if (groups.leads(session.rank())) {
    CommitSettings patient = settings;
    patient.timeout_ms += kFollowerGraceMs;
    Status gathered = lead_group(session, attempt, patient, job, groups);
    // What the slot says is for await_outcome to tell.
    if (!gathered.ok() && !is_closed(gathered)) return give_up(session, attempt, std::move(gathered), true);
  }
  return settings.wait ? await_outcome(session, attempt, settings, job) : Ok();
}

Status finish_attempt(Session& session, const Attempt& attempt, const CommitSettings& settings, Job& job) {
  if (session.rank() == 0) return lead_commit(session, attempt, settings, job);
  return call_guarded([&] { return follow_commit(session, attempt, settings, job); },
                      [&](Status why) { return give_up(session, attempt, std::move(why), true); });
}

}  // namespace ckpt::commit
