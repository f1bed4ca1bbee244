#include "maintain/mirror.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <set>

#include "base/parallel.h"
#include "checkpoint/line.h"
#include "checkpoint/select.h"
#include "commit/retention.h"
#include "maintain/copy.h"

namespace ckpt::maintain {

// So many that wait are kept from retention: a link that is slow for a while costs no checkpoint, and one that is too
// slow for good does not fill the disk.
static constexpr size_t kHeld = 2;
static constexpr int64_t kFirstPauseMs = 1000, kLongestPauseMs = 60000;

using checkpoint::Checkpoint;
using checkpoint::CheckpointEntry;

// What another try may mend.
static bool may_pass(const Status& status) {
  const ckpt_status code = status.code();
  return code == CKPT_IO || code == CKPT_NO_SPACE || code == CKPT_NOMEM || code == CKPT_TIMEOUT ||
         code == CKPT_COMMIT_UNKNOWN;
}

static bool was_removed(const Status& status) { return status.code() == CKPT_NOT_FOUND || status.code() == CKPT_GONE; }

static bool is_damage(const Status& status) {
  const ckpt_status code = status.code();
  return code == CKPT_CORRUPT || code == CKPT_FORMAT || code == CKPT_INCOMPLETE || code == CKPT_MISMATCH ||
         code == CKPT_REVISION;
}

bool Mirror::is_of_mirror(const Status& status) const {
  const std::string* store = status.detail("store");
  return store && *store == plan_.mirror->uri();
}

// Whether a copy is over: it is made, or no other try would make it. A server in front of the mirror may answer
// whatever it likes; only what is there decides.
bool Mirror::is_final(const Item& item, const Status& status) const {
  if (status.ok()) return true;
  if (!is_of_mirror(status)) return was_removed(status) || is_damage(status);
  if (status.code() == CKPT_EXISTS || status.code() == CKPT_MISMATCH) return true;
  if (status.code() != CKPT_ABORTED) return false;
  const auto slot = checkpoint::peek_slot(*plan_.mirror, item.id);
  return slot.ok() && !slot->committed;
}

// Which of the two stores an error is of.
Status Mirror::told(Status status) const {
  const std::string which =
      is_of_mirror(status) ? "mirror " + plan_.mirror->uri() : "store " + plan_.store->uri() + ", to be mirrored";
  return std::move(status).in(which);
}

Status Mirror::check_fenced() const {
  Status fenced = plan_.fenced();
  return fenced.ok() ? Ok() : told(std::move(fenced).with("store", plan_.mirror->uri()));
}

// Its directory is not made anew: it may be on a disk that is not mounted.
Status Mirror::check_there() const { return checkpoint::check_mirror_there(*plan_.mirror); }

// The thread has the mirror as long as it needs it; what callers share is a handle.
Result<std::shared_ptr<Mirror>> Mirror::start(MirrorPlan plan) {
  const std::shared_ptr<Mirror> mirror(new Mirror(std::move(plan)));
  const auto worker = std::make_shared<Job>();
  const ContextScope nobody{CallContext()};  // it outlives the call that opens the session
  CKPT_TRY(worker->start(CKPT_JOB_DONE, [mirror](Job&) {
    struct End {
      Mirror* of;
      ~End() { of->end(); }  // also where memory has run out
    } end{mirror.get()};
    mirror->work();
    return Ok();
  }));
  return std::shared_ptr<Mirror>(mirror.get(), [mirror, worker](Mirror*) { mirror->close(*worker); });
}

void Mirror::close(Job& worker) {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  worker.call->bound(plan_.patience_ms);
  (void)worker.wait(CKPT_JOB_DONE, -1);
}

// What this run has here and not there. With retention there, only what is not older than all that it keeps.
Status Mirror::queue_missing() {
  CKPT_TRY(check_there());
  CKPT_TRY(check_fenced());
  auto own = checkpoint::list_checkpoints(*plan_.store), there = checkpoint::list_checkpoints(*plan_.mirror);
  if (!own.ok()) return told(own.status());
  if (!there.ok()) return told(Status(there.status()).with("store", plan_.mirror->uri()));
  std::set<std::string_view> known;
  std::vector<std::pair<uint64_t, uint64_t>> numbered;
  for (const CheckpointEntry& entry : *there) {
    if (entry.state != CKPT_CHECKPOINT_COMMITTED) continue;
    known.insert(entry.id);
    if (entry.summary.run == plan_.run && checkpoint::is_numbered(entry.summary.label, entry.summary.step))
      numbered.push_back(entry.summary.when());
  }
  std::ranges::sort(numbered, std::greater());
  const auto keep = static_cast<size_t>(plan_.keep_last);
  const auto oldest = keep != 0 && numbered.size() >= keep ? numbered[keep - 1] : std::pair<uint64_t, uint64_t>{};
  std::lock_guard lock(mutex_);
  std::deque<Item> missing;
  for (const CheckpointEntry& entry : *own) {
    if (!entry.counts() || !entry.own_name() || entry.summary.run != plan_.run || known.contains(entry.id)) continue;
    if (entry.summary.when() < oldest) continue;
    if (std::any_of(queue_.begin(), queue_.end(), [&](const Item& item) { return item.id == entry.id; })) continue;
    missing.push_back({entry.id, entry.bytes, nullptr});
  }
  added_ += missing.size();
  queue_.insert(queue_.begin(), std::make_move_iterator(missing.begin()), std::make_move_iterator(missing.end()));
  looked_ = true;
  return Ok();
}

void Mirror::add(const std::string& id) {
  try {
    {
      std::lock_guard lock(mutex_);
      if (ended_) return;
      queue_.push_back({id, 0, nullptr});
      added_++;
    }
    hold_oldest();
  } catch (const std::bad_alloc&) {
    // The save is committed all the same. What is not in the queue is found by another look.
    std::lock_guard lock(mutex_);
    looked_ = false;
  }
  changed_.notify_all();
}

// Opens the oldest that wait: their readers' locks keep them.
void Mirror::hold_oldest() {
  std::vector<std::string> wanted;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < std::min(kHeld + 1, queue_.size()); i++)
      if (!queue_[i].held) wanted.push_back(queue_[i].id);
  }
  for (const std::string& id : wanted) {
    auto opened = Checkpoint::open(plan_.store, {id, plan_.run});
    if (!opened.ok()) continue;  // its turn tells why
    std::lock_guard lock(mutex_);
    for (Item& item : queue_) {
      if (item.id != id || item.held) continue;
      item.held = *opened;
      item.bytes = item.held->entry().bytes;
    }
  }
}

void Mirror::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !looked_ || !queue_.empty() || closing_; });
      if (looked_ && queue_.empty()) break;
    }
    Status status = call_guarded([this] { return step(); });
    if (status.ok()) continue;
    std::unique_lock lock(mutex_);
    failures_++;
    failure_ = std::move(status);
    changed_.notify_all();
    const bool for_good = failure_.code() == CKPT_FENCED;
    if (closing_ || for_good) break;
    lock.unlock();
    pause();
  }
}

void Mirror::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  queue_.clear();
  changed_.notify_all();
}

bool Mirror::looked() {
  std::lock_guard lock(mutex_);
  return looked_;
}

// One look at what is missing, or one copy. Fails with what concerns all copies.
Status Mirror::step() {
  const auto job = std::make_shared<Job>();
  job->call->bound(plan_.patience_ms);
  job->call->outer = CallContext::current().call()->shared_from_this();
  {
    std::lock_guard lock(mutex_);
    job_ = job;
  }
  const ContextScope own{CallContext(job->call.get())};
  Status status = looked() ? mirror_front(*job) : queue_missing();
  std::lock_guard lock(mutex_);
  end_try();
  return status;
}

void Mirror::end_try() {
  if (job_) asked_.add(job_->call->requests);
  job_.reset();
}

Status Mirror::mirror_front(Job& job) {
  hold_oldest();
  Item item;
  {
    std::lock_guard lock(mutex_);
    item = queue_.front();
  }
  CKPT_TRY(check_there());
  CKPT_TRY(check_fenced());
  Status copied = copy(item, job);
  if (is_final(item, copied)) {
    end_copy(item, std::move(copied));
    return Ok();
  }
  // What concerns this one alone keeps no other back.
  std::lock_guard lock(mutex_);
  if (!may_pass(copied)) std::rotate(queue_.begin(), queue_.begin() + 1, queue_.end());
  return told(std::move(copied));
}

Status Mirror::copy(Item& item, Job& job) {
  if (!item.held) {
    CKPT_ASSIGN(item.held, Checkpoint::open(plan_.store, {item.id, plan_.run}));
  }
  Report report;
  // Gently, beside a training.
  CKPT_TRY(copy_checkpoint(*item.held, *plan_.mirror, {.staging_bytes = 128 << 20, .threads = 2}, &report, job));
  // The copy is there; what retention cannot do now, it does after the next one.
  (void)commit::apply_retention(*plan_.mirror, {.run = plan_.run, .keep_last = plan_.keep_last, .holds = plan_.holds},
                                &report, job);
  return Ok();
}

// The front has its end, good or bad.
void Mirror::end_copy(const Item& item, Status status) {
  std::lock_guard lock(mutex_);
  if (was_removed(status))
    lost_.add(CKPT_FINDING_MISSING, status.code(), item.id,
              item.id + ": was removed before the mirror had it: it takes longer to copy than to save");
  else if (!status.ok())
    lost_.add(CKPT_FINDING_DAMAGED, status.code(), item.id, item.id + ": cannot be mirrored: " + status.message());
  if (!status.ok()) {
    failures_++;
    failure_ = told(std::move(status));
  }
  settled_++;
  bytes_settled_ += item.bytes;
  pause_ms_ = 0;
  end_try();
  queue_.pop_front();
  changed_.notify_all();
}

void Mirror::pause() {
  std::unique_lock lock(mutex_);
  pause_ms_ = std::clamp(pause_ms_ * 2, kFirstPauseMs, kLongestPauseMs);
  changed_.wait_for(lock, std::chrono::milliseconds(pause_ms_), [&] { return closing_ || asked_for_; });
  asked_for_ = false;
}

// Whether anything moves: an operation ends by its patience unless the kernel holds its thread, which can tell nothing.
class Watch {
 public:
  explicit Watch(int64_t patience_ms)
      : longest_ms_(patience_ms == Call::kNever ? Call::kNever : patience_ms + Call::kLeaveMs) {}
  Status check(bool works, const std::array<uint64_t, 4>& figures) {
    const int64_t now = steady_ms();
    if (!works || figures != figures_) since_ms_ = now;
    figures_ = figures;
    if (now - since_ms_ < longest_ms_) return Ok();
    return Status(CKPT_TIMEOUT, strformat("nothing has moved for {} ms: a disk holds the copying", now - since_ms_));
  }

 private:
  const int64_t longest_ms_;
  std::array<uint64_t, 4> figures_{};
  int64_t since_ms_ = steady_ms();
};

Status Mirror::follow(Job& job, Report* report) {
  std::unique_lock lock(mutex_);
  const uint64_t failures = failures_, before = bytes_settled_;
  uint64_t goal = 0;
  RequestCounters asked_before;  // but for the try that runs, which is for what was added
  asked_before.add(asked_);
  auto end = [&](Status status) {
    *report = lost_;
    for (const Item& item : queue_)
      if (!status.ok())
        report->add(CKPT_FINDING_MISSING, status.code(), item.id,
                    item.id + ": is not in the mirror yet, and is tried again: " + status.message(), item.bytes);
    return status;
  };
  asked_for_ = true;
  changed_.notify_all();
  Watch watch(plan_.patience_ms);
  for (;;) {
    if (goal == 0 && looked_) {
      goal = added_;
      for (const Item& item : queue_) job.counters.bytes_total += item.bytes;
    }
    RequestCounters asked;
    asked.add(asked_);
    if (job_) asked.add(job_->call->requests);
    job.call->requests.become(asked, asked_before);
    job.counters.bytes_done = bytes_settled_ - before + (job_ ? job_->counters.bytes_done.load() : 0);
    if (failures_ != failures) return end(failure_);
    if (looked_ && settled_ >= goal) return end(Ok());
    if (ended_) return end(failure_.ok() ? Status(CKPT_NOMEM, "the mirror's thread ran out of memory") : failure_);
    CKPT_TRY(job.check());
    const Status moves = watch.check(
        job_ != nullptr, {settled_, failures_, job.counters.bytes_done, asked.gets + asked.puts + asked.lists});
    if (!moves.ok()) return end(Status(moves).in("mirror " + plan_.mirror->uri()));
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
}

}  // namespace ckpt::maintain
