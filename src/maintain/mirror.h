// Keeps a second store as full as the first: whatever is committed is copied there in the background, oldest first.
// A copy that fails is tried again, for as long as this object lives, and by the next session of the run.
// All members may be used from any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/job.h"
#include "base/report.h"
#include "checkpoint/checkpoint.h"

namespace ckpt::maintain {

struct MirrorPlan {
  std::shared_ptr<store::Store> store, mirror;
  std::string run;
  int64_t keep_last = 0;                                // retention of the mirror, as of CommitSettings; 0 keeps all
  std::function<Status()> fenced;                       // FENCED once another session owns the run in the mirror
  std::function<bool(const format::Summary&)> holds{};  // see RetentionPolicy
  int64_t patience_ms = Call::kNever;                   // of each operation of the stores
};

class Mirror {
 public:
  // Begins with what the mirror lacks of the run. NOMEM. Who lets go of the last one waits until it has done what it
  // has to do, and what fails from then on is left to the next session; so is what a disk holds for longer than
  // patience_ms, with its thread.
  static Result<std::shared_ptr<Mirror>> start(MirrorPlan plan);

  // A checkpoint that was committed just now. Retention leaves the oldest few that wait alone.
  void add(const std::string& id);
  // Waits until the mirror has all that was added before, and counts the requests that this takes. Returns the first
  // failure from now on, though copying goes on, or why it has ended; TIMEOUT where a disk holds the thread, and
  // nothing moves for patience_ms and some seconds; CANCELLED if the job is. `report`: what will not be copied, and
  // why; after a failure also what waits.
  Status follow(Job& job, Report* report);

 private:
  struct Item {
    std::string id;
    uint64_t bytes = 0;
    std::shared_ptr<checkpoint::Checkpoint> held;  // null: not opened yet
  };
  explicit Mirror(MirrorPlan plan) : plan_(std::move(plan)) {}
  void work();
  void close(Job& worker);
  void end();
  bool looked();
  bool is_of_mirror(const Status& status) const;
  bool is_final(const Item& item, const Status& status) const;
  Status told(Status status) const;
  Status check_there() const;
  Status check_fenced() const;
  Status queue_missing();
  Status step();
  Status mirror_front(Job& job);
  Status copy(Item& item, Job& job);
  void end_copy(const Item& item, Status status);
  void end_try();
  void hold_oldest();
  void pause();

  const MirrorPlan plan_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;            // the front is what is being copied
  uint64_t added_ = 0, settled_ = 0;  // items
  uint64_t bytes_settled_ = 0;
  RequestCounters asked_;  // by the tries that have ended
  bool looked_ = false;    // queue_missing is through
  bool closing_ = false, ended_ = false;
  uint64_t failures_ = 0;
  Status failure_;  // the last one
  int64_t pause_ms_ = 0;
  bool asked_for_ = false;  // somebody waits: no pause
  Report lost_;
  std::shared_ptr<Job> job_;  // of the try that runs
};

}  // namespace ckpt::maintain
