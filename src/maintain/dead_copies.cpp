#include "maintain/dead_copies.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "checkpoint/catalog.h"
#include "commit/retention.h"
#include "format/names.h"

namespace ckpt::maintain {

// A copy that was stopped can go on; so it is given a day where nobody can tell at once that its process is gone.
static constexpr int64_t kSilenceMs = int64_t{24} * 3600 * 1000;

namespace {

class DeadCopies {
 public:
  DeadCopies(store::Store& store, bool dry_run, Report* report) : store_(store), dry_run_(dry_run), report_(report) {}
  Status run(const Job& job);

 private:
  Status look_at_beats();
  bool is_silent(const store::Entry& record, const std::string& id) const;
  void forget_silent();
  Status remove(const store::Entry& record, const format::DirName& name);
  void tell(const std::string& id, uint64_t bytes, const Status& status);

  store::Store& store_;
  const bool dry_run_;
  Report* const report_;
  // The signs of life of each copy: several processes may work on it, or have done so.
  std::map<std::string, std::vector<store::Entry>> beats_;
};

Status DeadCopies::run(const Job& job) {
  auto records = store_.list(format::kAttemptsDir);
  if (!records.ok() && records.status().code() != CKPT_NOT_FOUND) return std::move(records).status();
  if (store_.traits().tells_age) CKPT_TRY(look_at_beats());
  if (!records.ok()) records = std::vector<store::Entry>{};
  for (const store::Entry& record : *records) {
    CKPT_TRY(job.check());
    if (const auto name = format::parse_attempt_name(record.name)) CKPT_TRY(remove(record, *name));
  }
  if (!dry_run_) forget_silent();
  return Ok();
}

Status DeadCopies::look_at_beats() {
  auto beats = store_.list(format::kCopyBeatsDir);
  if (!beats.ok()) return beats.status().code() == CKPT_NOT_FOUND ? Ok() : std::move(beats).status();
  for (const store::Entry& beat : *beats)
    if (auto id = format::parse_copy_beat_name(beat.name)) beats_[*id].push_back(beat);
  return Ok();
}

static bool silent(const store::Entry& one) { return one.age_ms >= kSilenceMs; }

bool DeadCopies::is_silent(const store::Entry& record, const std::string& id) const {
  const auto beats = beats_.find(id);
  return silent(record) && (beats == beats_.end() || std::ranges::all_of(beats->second, silent));
}

// Also those of processes that were killed in copies that others finished: these have no record any more.
void DeadCopies::forget_silent() {
  for (const auto& [id, beats] : beats_)
    for (const store::Entry& beat : beats)
      if (silent(beat)) (void)store_.remove(std::string(format::kCopyBeatsDir) + "/" + beat.name, false);
}

Status DeadCopies::remove(const store::Entry& record, const format::DirName& name) {
  const std::string key = std::string(format::kAttemptsDir) + "/" + record.name;
  const std::string id = format::checkpoint_dir(name.label, name.token, name.attempt);
  const bool by_age = store_.traits().tells_age;
  if (by_age && !is_silent(record, id)) return Ok();
  const auto text = store_.get(key, 4096);
  if (!text.ok() || !format::is_copy_record(as_text(*text))) return Ok();
  std::unique_ptr<store::Lock> lock;  // keeps out who would go on with the copy
  if (!by_age) {
    auto locked = store_.try_lock_exclusive(key);
    if (!locked.ok() || !(*locked)->protects()) return Ok();
    lock = locked.take();
  }
  auto entry = checkpoint::read_entry(store_, id);
  const ckpt_status code = entry.status().code();
  if (!entry.ok() && code != CKPT_NOT_FOUND) return Ok();  // nobody knows what it is
  const bool is_there = entry.ok() && entry->state != CKPT_CHECKPOINT_COMMITTED;
  if (entry.ok() && is_there && entry->state != CKPT_CHECKPOINT_OPEN && entry->state != CKPT_CHECKPOINT_ABORTED)
    return Ok();
  const auto bytes = is_there ? store_.bytes_in(id) : Result<uint64_t>(uint64_t{0});
  Status removed = is_there && !dry_run_ ? commit::remove_attempt(store_, id, "its copy was never finished") : Ok();
  if (removed.ok() && !dry_run_) (void)store_.remove(key, false);
  if (is_there) tell(id, bytes.ok() ? *bytes : 0, removed);
  return Ok();
}

void DeadCopies::tell(const std::string& id, uint64_t bytes, const Status& status) {
  if (!status.ok()) {
    report_->add(CKPT_FINDING_KEPT, status.code(), id, id + ": an unfinished copy, kept, since " + status.message(),
                 bytes);
    return;
  }
  std::string what = dry_run_ ? "would be removed" : "removed";
  if (!store_.traits().directories) what += "; nothing can be put under its name here again";
  report_->add(CKPT_FINDING_REMOVED, CKPT_OK, id, id + ": a copy that nobody finishes, " + what, bytes);
}

}  // namespace

void remove_dead_copies(store::Store& store, bool dry_run, Report* report, const Job& job) {
  const Status looked = DeadCopies(store, dry_run, report).run(job);
  if (!looked.ok())
    report->add(CKPT_FINDING_KEPT, looked.code(), "", "unfinished copies may stay, since " + looked.message());
}

}  // namespace ckpt::maintain
