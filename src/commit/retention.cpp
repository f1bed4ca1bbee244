#include "commit/retention.h"

#include <algorithm>

#include "base/job.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/line.h"
#include "checkpoint/not_found.h"
#include "checkpoint/part_file.h"
#include "commit/kept.h"
#include "format/names.h"
#include "format/part_record.h"
#include "session/leftovers.h"

namespace ckpt::commit {

Status check_file_quick(const store::Store& store, std::string_view id, const fb::Part& record) {
  const std::string name = format::file_name(record);
  auto file = store.open(format::file_key(id, name));
  if (!file.ok()) return checkpoint::at_file(std::move(file).status(), store, id, name);
  if ((*file)->size() != record.size())
    return checkpoint::at_file(
        Status(CKPT_INCOMPLETE, strformat("{} bytes, expected {}", (*file)->size(), record.size())), store, id, name);
  CKPT_ASSIGN(checkpoint::PartFile part, checkpoint::open_file(store, id, record));
  if (part.trailer.root_digest != format::id_of(record.root_digest()) ||
      part.header.save_id != format::id_of(record.save_id()))
    return checkpoint::at_file(Status(CKPT_CORRUPT, "not the part that the manifest names"), store, id, name);
  return Ok();
}

Status check_quick(const store::Store& store, std::string_view id) {
  CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open_quietly(store, id));
  for (uint32_t i = 0; i < checkpoint->file_count(); i++) {
    CKPT_ASSIGN(const fb::Part record, checkpoint->part_record(i));
    CKPT_TRY(check_file_quick(store, id, record));
  }
  return Ok();
}

// The lock of whoever removes the same checkpoint is held for as long as the move takes, that of a reader for longer.
static constexpr int64_t kRivalMs = 50;

static Result<std::unique_ptr<store::Lock>> lock_for_removal(store::Store& store, std::string_view id) {
  for (Backoff backoff(kRivalMs);; backoff.sleep()) {
    auto lock = store.try_lock_exclusive(format::slot_key(id));
    if (lock.ok() || lock.status().code() != CKPT_CONFLICT) return lock;
    if (!backoff.expired()) continue;
    return Status(CKPT_CONFLICT, store.path(id) + " is being read: somebody holds a lock on its MANIFEST")
        .with("path", store.path(id));
  }
}

// What a link leads to may be another's, and is nothing that ckpt made there.
static Status refuse_link(const store::Store& store, std::string_view id) {
  const std::string to = store.link_of(id);
  if (to.empty()) return Ok();
  return Status(CKPT_UNSUPPORTED, strformat("{} is a symbolic link to {}, and nothing is removed behind a link: remove "
                                            "both by hand",
                                            store.path(id), to))
      .with("path", store.path(id))
      .with("found", to);
}

// What is in a directory: a checkpoint, or an attempt whose slot is empty or holds a tombstone.
enum class Content { kCommitted, kOpen, kClosed };

// Clears `*guarded` if no lock could keep a reader's checkpoint.
static Status remove_directory(store::Store& store, std::string_view id, Content content, bool* guarded = nullptr) {
  auto lock = lock_for_removal(store, id);
  // An attempt may have no slot yet, and a damaged slot may be something that cannot be locked.
  const ckpt_status code = lock.status().code();
  if (!lock.ok() && code != CKPT_NOT_FOUND && code != CKPT_FORMAT) return std::move(lock).status();
  if (guarded) *guarded = !lock.ok() || (*lock)->protects();
  uint64_t words = 0;  // about whether it is kept
  if (content == Content::kCommitted) {
    CKPT_ASSIGN(words, claim_removal(store, id, lock.ok() && (*lock)->protects()));
  }
  const auto tombstone = format::frame_tombstone(
      {.save_id = {}, .rank = 0, .status = CKPT_GONE, .reason = "it was removed", .closed_by_token = 0});
  CKPT_TRY(store.retire(id, format::kManifestName, content == Content::kClosed ? Bytes() : Bytes(tombstone)));
  forget_kept(store, id, words);
  return Ok();
}

// Whoever still asks for the outcome of a checkpoint that is removed gets his answer here: another rank, or rank 0,
// which may just have put MANIFEST and finds the directory gone. `session`: whose retention removes it; nobody else
// asks for what a session of one rank saves.
static Status leave_word(store::Store& store, const format::Summary& summary, session::Session* session) {
  std::string key = format::pruned_key(summary.token, summary.attempt, summary.label);
  const bool own = session && summary.token == session->plan().token;
  const bool only_own = own && summary.world_size == 1;
  Status put;
  if (!only_own) {
    // Its session has ended, and a newer one has tidied up.
    CKPT_ASSIGN(bool asks, store.exists(format::claim_key(summary.token, 0)));
    if (!asks) return Ok();
    put = store.put_if_absent(key, as_bytes("\n"));
    if (put.code() == CKPT_NOT_FOUND) return Ok();
    if (put.code() == CKPT_EXISTS) put = Ok();
    if (!put.ok() && put.code() != CKPT_NO_SPACE) return put;
  }
  const std::string old = own ? session->keep_word(std::move(key)) : "";
  if (!old.empty() && !only_own) (void)store.remove(old, false);
  return put;
}

static Status remove_committed(store::Store& store, const checkpoint::CheckpointEntry& entry, session::Session* session,
                               bool* guarded = nullptr) {
  const Status said = leave_word(store, entry.summary, session);
  if (said.code() != CKPT_NO_SPACE) CKPT_TRY(said);
  CKPT_TRY(remove_directory(store, entry.id, Content::kCommitted, guarded));
  // A full disk has room for the word now. A rank that has asked since got COMMIT_UNKNOWN, which is never wrong.
  if (!said.ok()) (void)leave_word(store, entry.summary, session);
  return Ok();
}

// The slot decides between the writer and us, as it does between ranks.
Status remove_attempt(store::Store& store, std::string_view id, std::string_view reason) {
  CKPT_TRY(needs_room(session::close_attempt(
      store, id,
      {.save_id = {}, .rank = 0, .status = CKPT_ABORTED, .reason = std::string(reason), .closed_by_token = 0})));
  CKPT_ASSIGN(const auto entry, checkpoint::read_entry(store, id));
  if (entry.state == CKPT_CHECKPOINT_COMMITTED)
    return Status(CKPT_CONFLICT, store.path(id) + " was committed just now").with("path", store.path(id));
  return remove_directory(store, id, entry.state == CKPT_CHECKPOINT_ABORTED ? Content::kClosed : Content::kOpen);
}

Status remove_by_id(store::Store& store, std::string_view id) {
  if (id.empty() || id[0] == '.' || id.find('/') != std::string_view::npos)
    return Status(CKPT_INVALID, "\"" + std::string(id) + "\" is not a checkpoint id");
  CKPT_TRY(refuse_link(store, id));
  auto found = checkpoint::read_entry(store, id);
  if (found.status().code() == CKPT_NOT_FOUND && store.traits().lists) return checkpoint::explain_no_id(store, id);
  CKPT_ASSIGN(const auto entry, std::move(found));
  if (entry.state == CKPT_CHECKPOINT_COMMITTED) {
    CKPT_TRY(remove_committed(store, entry, nullptr));
    Call::settle_current(Ok());
    (void)store.finish_removals();  // what files are left, the next removal takes
    return Ok();
  }
  const std::string record = format::attempt_key(entry.summary.token, entry.summary.attempt, entry.summary.label);
  auto text = store.get(record, 4096);
  const bool copied = text.ok() && format::is_copy_record(as_text(*text));
  if (entry.state == CKPT_CHECKPOINT_OPEN) {
    CKPT_ASSIGN(uint64_t highest, checkpoint::highest_token(store));
    // A session of another run may have a higher token. A session's owner record stays until its own run has a newer
    // one.
    bool owned = store.open(format::owner_key(entry.summary.token)).status().code() != CKPT_NOT_FOUND;
    if (!copied && (entry.summary.token == 0 || entry.summary.token >= highest || owned))
      return Status(CKPT_CONFLICT, store.path(id) + " may still be written by its session")
          .with("path", store.path(id));
    CKPT_TRY(remove_attempt(store, id, "removed by hand"));
  } else {
    const bool closed = entry.state == CKPT_CHECKPOINT_ABORTED;  // or it was a checkpoint, and is damaged
    CKPT_TRY(remove_directory(store, id, closed ? Content::kClosed : Content::kCommitted));
  }
  Call::settle_current(Ok());
  if (copied) (void)store.remove(record, false);
  return Ok();
}

static void add_finding(Report* report, int32_t kind, const checkpoint::CheckpointEntry& entry, const std::string& text,
                        ckpt_status status = CKPT_OK) {
  report->add(kind, status, entry.id, entry.id + ": " + text, entry.bytes - std::min(entry.shared, entry.bytes));
}

// What becomes of those who read what no lock could keep for them.
static std::string unguarded(const store::Store& store) {
  const int64_t grace_ms = store.traits().grace_ms;
  if (grace_ms == 0 && store.traits().shared)
    return "; other machines see no locks here, so whoever was reading it there gets GONE";
  if (grace_ms == 0) return "; this store has no locks, so whoever was reading it gets GONE";
  return strformat("; this store has no locks, so its files stay for {} ms for whoever was reading it", grace_ms);
}

static void remove_one(store::Store& store, checkpoint::CheckpointEntry entry, bool dry_run, const char* why,
                       Report* report, session::Session* session) {
  bool guarded = true;
  const auto kept = is_kept(store, entry.id);
  if (kept.ok() && *kept) return add_finding(report, CKPT_FINDING_KEPT, entry, "kept: somebody said so (ckpt keep)");
  checkpoint::measure_shared({store, nullptr}, entry);
  Status status = kept.ok() ? refuse_link(store, entry.id) : kept.status();
  if (status.ok() && !dry_run) status = remove_committed(store, entry, session, &guarded);
  std::string text = why;
  if (!guarded) text += unguarded(store);
  if (entry.shared != 0) text += strformat("; {} bytes of it stay, which other checkpoints have, too", entry.shared);
  if (status.ok())
    add_finding(report, CKPT_FINDING_REMOVED, entry, text);
  else if (status.code() != CKPT_NOT_FOUND)
    add_finding(report, CKPT_FINDING_KEPT, entry,
                (status.detail("undecided") ? "kept or removed, since " : "kept, since ") + status.message(),
                status.code());
}

// Of what was taken out of sight, now or earlier.
static void finish_removals(store::Store& store, Report* report) {
  const Status status = store.finish_removals();
  if (!status.ok())
    report->add(CKPT_FINDING_KEPT, status.code(), "",
                "files of removed checkpoints may stay, since " + status.message());
}

Status check_policy(const RetentionPolicy& policy) {
  if (policy.keep_last != 0 || (policy.keep_every == 0 && policy.protect.empty())) return Ok();
  return Status(CKPT_INVALID, strformat("option {} has no effect without keep_last, which says how many of the newest "
                                        "checkpoints stay: without it all are kept",
                                        policy.keep_every ? "keep_every" : "protect"))
      .with("expected", "keep_last of 1 or more")
      .with("found", uint64_t{0});
}

// Who commits right now, if that is why retention runs.
struct Committer {
  session::Session& session;
  const format::Summary& committed;
};

// Whether it is a committed checkpoint of the run that bears its own name.
static bool is_candidate(const checkpoint::CheckpointEntry& entry, std::string_view run) {
  return entry.counts() && entry.own_name() && entry.summary.run == run;
}

static bool is_numbered(const format::Summary& summary) { return checkpoint::is_numbered(summary.label, summary.step); }

// Leaves what the policy does not concern.
static void keep_others(std::vector<checkpoint::CheckpointEntry>* entries, const RetentionPolicy& policy,
                        Report* report) {
  if (policy.holds)
    std::erase_if(*entries, [&](const checkpoint::CheckpointEntry& entry) {
      const bool other = is_numbered(entry.summary) && !policy.holds(entry.summary);
      if (other)
        add_finding(report, CKPT_FINDING_KEPT, entry, "kept: of an earlier session, from which this one did not go on");
      return other;
    });
}

// Starts from the newest: whatever the policy says, one that can be loaded must stay. The number of entries if none
// can; an error if that cannot be told.
static Result<size_t> newest_sound(const store::Store& store, const std::vector<checkpoint::CheckpointEntry>& entries,
                                   const Committer* by, Job& job) {
  Status unread;
  for (size_t i = entries.size(); i-- > 0;) {
    CKPT_TRY(job.check());
    if (!is_numbered(entries[i].summary)) continue;
    if (by && entries[i].summary.save_id == by->committed.save_id) return i;
    Status checked = check_quick(store, entries[i].id);
    if (checked.ok()) return i;
    if (is_unanswered(checked.code())) unread = std::move(checked);
  }
  if (!unread.ok()) return std::move(unread).in("none could be shown to be sound, so nothing was removed");
  return entries.size();
}

// Why a checkpoint beyond the newest keep_last stays; "" if it goes.
static std::string reason_to_keep(const format::Summary& summary, const RetentionPolicy& policy) {
  if (!is_numbered(summary)) return "kept: its label is a name, not the number of its step";
  if (policy.keep_every > 0 && summary.step % policy.keep_every == 0) return strformat("kept: step {}", summary.step);
  const std::vector<std::string_view> labels = split(policy.protect, ',');
  const bool named = std::find(labels.begin(), labels.end(), summary.label) != labels.end();
  return named ? "kept: its label is protected" : "";
}

// The same for one that is about to go where no trainer says what to protect: its own word. What cannot be read has
// none, unless its disk or server fails.
static Result<std::string> own_reason_to_keep(const store::Store& store, std::string_view id) {
  const auto opened = checkpoint::Checkpoint::open_quietly(store, id);
  const format::Page* page = nullptr;
  const auto attributes =
      opened.ok() ? (*opened)->attrs_of("", &page) : Result<std::span<const fb::Attr>>(opened.status());
  const ckpt_status code = attributes.status().code();
  if (is_unanswered(code)) return attributes.status();
  if (!attributes.ok()) return std::string();
  for (const fb::Attr& one : *attributes)
    if (page->text(one.key()) == checkpoint::kKeptAttr) return std::string("kept: its trainer was given its label");
  return std::string();
}

// A label to protect that nothing has is mistyped, and what it was meant for would go. What is damaged or cannot be
// read has its label by its name, and may be of this run.
static Status check_protected(const std::vector<checkpoint::CheckpointEntry>& entries, const RetentionPolicy& policy) {
  const auto may_be_of_run = [&](const auto& entry) {
    return is_candidate(entry, policy.run) ||
           (entry.unusable() && (entry.summary.run.empty() || entry.summary.run == policy.run));
  };
  for (const std::string_view label : split(policy.protect, ',')) {
    const auto has_it = [&](const auto& entry) { return entry.summary.label == label && may_be_of_run(entry); };
    if (label.empty() || std::any_of(entries.begin(), entries.end(), has_it)) continue;
    return Status(CKPT_NOT_FOUND,
                  strformat("option protect: run {} has no checkpoint of the label {}; nothing was removed",
                            shown(policy.run), shown(label)))
        .with("found", std::string(label));
  }
  return Ok();
}

static Status apply_policy(store::Store& store, std::vector<checkpoint::CheckpointEntry> entries,
                           const RetentionPolicy& policy, const Committer* by, Report* report, Job& job) {
  keep_others(&entries, policy, report);
  uint64_t numbered = 0;  // from entry i on
  for (const auto& entry : entries) {
    job.counters.bytes_total += entry.bytes;
    numbered += is_numbered(entry.summary) ? 1 : 0;
  }
  CKPT_ASSIGN(const size_t sound, newest_sound(store, entries, by, job));
  for (size_t i = 0; i < entries.size(); i++) {
    const checkpoint::CheckpointEntry& entry = entries[i];
    CKPT_TRY(job.check());
    job.counters.bytes_done += entry.bytes;
    const bool is_old = numbered > static_cast<uint64_t>(policy.keep_last);
    numbered -= is_numbered(entry.summary) ? 1 : 0;
    if (!is_old) continue;
    std::string why = i == sound ? "kept: the newest that is sound" : reason_to_keep(entry.summary, policy);
    if (why.empty() && !by) {
      auto own = own_reason_to_keep(store, entry.id);
      if (!own.ok()) {
        add_finding(report, CKPT_FINDING_KEPT, entry, "kept, since " + own.status().message(), own.status().code());
        continue;
      }
      why = own.take();
    }
    if (why.empty())
      remove_one(store, entry, policy.dry_run, policy.dry_run ? "would be removed" : "removed", report,
                 by ? &by->session : nullptr);
    else
      add_finding(report, CKPT_FINDING_KEPT, entry, why);
  }
  return Ok();
}

Status apply_retention(store::Store& store, const RetentionPolicy& policy, Report* report, Job& job) {
  CKPT_TRY(check_policy(policy));
  if (policy.keep_last != 0) {
    CKPT_ASSIGN(auto entries, checkpoint::list_checkpoints(store));
    CKPT_TRY(check_protected(entries, policy));
    std::erase_if(entries, [&](const auto& entry) { return !is_candidate(entry, policy.run); });
    CKPT_TRY(apply_policy(store, std::move(entries), policy, nullptr, report, job));
  }
  if (!policy.dry_run) finish_removals(store, report);
  return Ok();
}

Status retire_older(session::Session& session, const format::Summary& committed, bool replace,
                    const RetentionPolicy& policy, Report* report) {
  if (!replace && policy.keep_last == 0) {
    // A directory knows without a question whether its session left something.
    if (session.store().traits().directories) finish_removals(session.store(), report);
    return Ok();
  }
  CKPT_ASSIGN(auto entries, checkpoint::list_checkpoints(session.store()));
  // What was copied here from a later session must not make the checkpoint that was just committed an old one.
  std::erase_if(entries, [&](const auto& entry) {
    return !is_candidate(entry, policy.run) || entry.summary.when() > committed.when();
  });
  auto replaced = [&](const checkpoint::CheckpointEntry& entry) {
    const format::Summary& summary = entry.summary;
    return replace && summary.label == committed.label && summary.save_id != committed.save_id &&
           summary.when() < committed.when();
  };
  for (const auto& entry : entries)
    if (replaced(entry)) remove_one(session.store(), entry, false, "replaced", report, &session);
  std::erase_if(entries, replaced);
  const Committer by{session, committed};
  Job uncounted;  // the save has its own figures, and is over
  if (policy.keep_last != 0)
    CKPT_TRY(apply_policy(session.store(), std::move(entries), policy, &by, report, uncounted));
  finish_removals(session.store(), report);
  return Ok();
}

}  // namespace ckpt::commit
