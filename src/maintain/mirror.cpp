#include "maintain/mirror.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "checkpoint/catalog.h"
#include "commit/retention.h"
#include "maintain/copy.h"

namespace ckpt::maintain {

// So many that wait are kept from retention: a link that is slow for a while costs no checkpoint, and one that is too
// slow for good does not fill the disk.
static constexpr size_t kHeld = 2;
static constexpr int64_t kFirstPauseMs = 1000, kLongestPauseMs = 60000;
static constexpr CopyOptions kGently{.full = false, .threads = 2, .memory = 128 << 20};

using checkpoint::Checkpoint;
using checkpoint::CheckpointEntry;

// What another try may mend.
static bool may_pass(const Status& status) {
  const ckpt_status code = status.code();
  return code == CKPT_IO || code == CKPT_NO_SPACE || code == CKPT_NOMEM || code == CKPT_TIMEOUT ||
         code == CKPT_COMMIT_UNKNOWN;
}

static bool was_removed(const Status& status) { return status.code() == CKPT_NOT_FOUND || status.code() == CKPT_GONE; }

Result<std::shared_ptr<Mirror>> Mirror::start(MirrorPlan plan) {
  std::shared_ptr<Mirror> mirror(new Mirror(std::move(plan)));
  Status started = mirror->worker_.start(CKPT_JOB_DONE, [self = mirror.get()](Job&) {
    struct End {
      Mirror* of;
      ~End() { of->end(); }  // also where memory has run out
    } end{self};
    self->work();
    return Ok();
  });
  mirror->started_ = started.ok();
  CKPT_TRY(std::move(started));
  return mirror;
}

Mirror::~Mirror() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (started_) (void)worker_.wait(CKPT_JOB_DONE, -1);
}

// What this run has here and not there. With retention there, only what is newer than all that is there: the rest may
// have been removed.
Status Mirror::queue_missing() {
  CKPT_TRY(plan_.fenced());
  CKPT_ASSIGN(const auto own, checkpoint::list_checkpoints(*plan_.store));
  CKPT_ASSIGN(const auto there, checkpoint::list_checkpoints(*plan_.mirror));
  std::set<std::string_view> known;
  std::pair<uint64_t, uint64_t> newest{0, 0};
  for (const CheckpointEntry& entry : there) {
    if (entry.state != CKPT_CHECKPOINT_COMMITTED) continue;
    known.insert(entry.id);
    if (entry.summary.run == plan_.run) newest = std::max(newest, entry.summary.when());
  }
  std::lock_guard lock(mutex_);
  std::deque<Item> missing;
  for (const CheckpointEntry& entry : own) {
    if (!entry.counts() || !entry.own_name() || entry.summary.run != plan_.run || known.contains(entry.id)) continue;
    if (plan_.keep_last != 0 && entry.summary.when() < newest) continue;
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
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < std::min(kHeld + 1, queue_.size()); i++) {
    Item& item = queue_[i];
    if (item.held) continue;
    auto opened = Checkpoint::open(plan_.store, {item.id, plan_.run});
    if (!opened.ok()) continue;  // its turn tells why
    item.held = *opened;
    item.bytes = item.held->entry().bytes;
  }
}

void Mirror::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !looked_ || !queue_.empty() || closing_; });
      if (looked_ && queue_.empty()) break;
    }
    Status status = step();
    if (status.ok()) continue;
    std::unique_lock lock(mutex_);
    failures_++;
    failure_ = std::move(status);
    changed_.notify_all();
    const bool for_good = !may_pass(failure_);
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
  {
    std::lock_guard lock(mutex_);
    job_ = job;
  }
  const OnErrand own{Errand(job->tally.get())};
  Status status = looked() ? mirror_front(*job) : queue_missing();
  std::lock_guard lock(mutex_);
  end_try();
  return status;
}

void Mirror::end_try() {
  if (job_) asked_.add(*job_->tally);
  job_.reset();
}

Status Mirror::mirror_front(Job& job) {
  hold_oldest();
  Item item;
  {
    std::lock_guard lock(mutex_);
    item = queue_.front();
  }
  CKPT_TRY(plan_.fenced());
  Status copied = copy(item, job);
  if (may_pass(copied)) return std::move(copied).in("mirror " + plan_.mirror->uri());
  settle(item, std::move(copied));
  return Ok();
}

Status Mirror::copy(Item& item, Job& job) {
  if (!item.held) {
    CKPT_ASSIGN(item.held, Checkpoint::open(plan_.store, {item.id, plan_.run}));
  }
  Report report;
  CKPT_TRY(copy_checkpoint(*item.held, *plan_.mirror, kGently, &report, job));
  // The copy is there; what retention cannot do now, it does after the next one.
  (void)commit::apply_retention(*plan_.mirror, {plan_.run, plan_.keep_last, 0, "", false}, &report, job);
  return Ok();
}

// The front has its end, good or bad.
void Mirror::settle(const Item& item, Status status) {
  std::lock_guard lock(mutex_);
  if (was_removed(status))
    lost_.add(CKPT_FINDING_MISSING, status.code(), item.id,
              item.id + ": was removed before the mirror had it: it takes longer to copy than to save");
  else if (!status.ok())
    lost_.add(CKPT_FINDING_DAMAGED, status.code(), item.id, item.id + ": cannot be mirrored: " + status.message());
  if (!status.ok()) {
    failures_++;
    failure_ = std::move(status).in("mirror " + plan_.mirror->uri());
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
  changed_.wait_for(lock, std::chrono::milliseconds(pause_ms_), [&] { return closing_; });
}

Status Mirror::follow(Job& job, Report* report) {
  std::unique_lock lock(mutex_);
  const uint64_t failures = failures_, before = bytes_settled_;
  uint64_t goal = 0;
  Tally asked_before;  // but for the try that runs, which is for what was added
  asked_before.add(asked_);
  auto end = [&](Status status) {
    *report = lost_;
    return status;
  };
  for (;;) {
    if (goal == 0 && looked_) {
      goal = added_;
      for (const Item& item : queue_) job.counters.bytes_total += item.bytes;
    }
    Tally asked;
    asked.add(asked_);
    if (job_) asked.add(*job_->tally);
    job.tally->become(asked, asked_before);
    job.counters.bytes_done = bytes_settled_ - before + (job_ ? job_->counters.bytes_done.load() : 0);
    if (failures_ != failures) return end(failure_);
    if (looked_ && settled_ >= goal) return end(Ok());
    if (ended_) return end(failure_.ok() ? Status(CKPT_NOMEM, "the mirror's thread ran out of memory") : failure_);
    CKPT_TRY(job.check());
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
}

}  // namespace ckpt::maintain
