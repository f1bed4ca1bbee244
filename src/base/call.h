// One call of the engine: how long what it asks of a store may take, whether it is over, what its threads wait for, and
// what it asked of servers. A store knows no jobs, and one handle of it serves several at once: so each thread that
// works for a call has a context, and whoever hands work to another thread (Job, run_parallel, IoQueue) hands it on.
//
// What a call's time means. Each operation of a store (a read, a write, a request with all its repetitions) may take
// `patience_ms` from its own beginning, less what those before it took that got no answer; one of a wait until the
// wait's end. One that takes longer ends the call: all other operations end at once then, but for those that tell
// others or tidy up (CallContext::shielded), which have kClosingMs together. So a call ends patience_ms and some
// seconds after the last thing that succeeded, and computing is never cut short. All of Call may be used from any
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ckpt {

// The kinds of requests that providers bill.
enum class RequestKind { kGet, kPut, kList, kDelete };

struct RequestCounters {
  std::atomic<uint64_t> gets{0}, puts{0}, lists{0}, deletes{0};
  std::atomic<uint64_t> retries{0};  // of all these
  std::atomic<uint64_t> bytes_sent{0}, bytes_received{0};

  void add(const RequestCounters& other);
  // Becomes what `now` has more than `before`.
  void become(const RequestCounters& now, const RequestCounters& before);
};

class Busy;

// A time that never goes back, in milliseconds.
int64_t steady_ms();

class Call : public std::enable_shared_from_this<Call> {
 public:
  static constexpr int64_t kNever = INT64_MAX;
  // Once a call is over, others are told and things tidied up within this time.
  static constexpr int64_t kClosingMs = 6000;
  // So long after it is over, a thread that the kernel still holds is left behind: its operation must be at least
  // kHeldMs old, until kLeaveAnyMs. An operation of a wait ends the call if it goes on for kHeldMs after the wait's
  // end.
  static constexpr int64_t kLeaveMs = 7000, kHeldMs = 1000, kLeaveAnyMs = 9000;

  RequestCounters requests;
  std::shared_ptr<Call> outer;  // the call that this one is a part of; set before the work begins
  std::shared_ptr<void> above;  // what a library above ckpt has of it; the same

  // Set before the work begins.
  void bound(int64_t patience_ms) { patience_ms_ = patience_ms; }
  int64_t patience_ms() const { return least(&Call::patience_ms_); }

  // Where no thread looks after the call: whoever asks whether it is over calls `hear` first, which may end it. Not
  // more than fifty times a second, and one at a time.
  void hear_by(std::function<void()> hear) { hear_ = std::move(hear); }

  void cancel();
  bool cancelled() const;
  // It has failed, and ends. The first cause counts; returns this one.
  Status end(Status cause);
  // The same of an operation that took too long: whatever else the call does is to end, too.
  Status end_late(Status cause);
  // The same of something else that this call is over with, since then.
  void end_at(Status cause, int64_t over_ms);
  // OK unless it was cancelled or is late. Work that asks no store goes on where the call has failed for another cause,
  // until whoever waits for it knows.
  Status check_work() const;
  // OK, or why this call, or one that it is a part of, is over: CANCELLED, or TIMEOUT with the cause of its end.
  Status check() const;
  // Since when it is over, of steady_ms(); kNever.
  int64_t over_ms() const;

  // From here on a thread that is left behind may still do what the call is to do: so that is the answer then. Fails if
  // the call is over, and then nothing may be done that cannot be undone.
  Status answer_if_left(Status answer);
  // Its end is known, and only tidying up is left. Returns it.
  Status settle(Status answer);
  // The same of the call that this thread works for, if any.
  static void settle_current(Status answer);
  bool is_settled() const { return settled_; }
  // Lives as long as the call and all that is a part of it, if a part was left behind; else not at all.
  void keep_if_left(std::shared_ptr<const void> memory);

  // What to tell where one of its threads is left behind: what is known of its end, or the reason.
  Status answer_of_left(Status reason) const;

  // A thread looks after this call, and leaves its threads behind if the kernel holds them (Job).
  void watch() { watched_ = true; }
  // Ends the call if one of its operations has taken too long. Whether it is to be left: what holds it, and what to
  // answer then.
  bool is_stuck(Status* answer);

 private:
  friend class Busy;
  friend class CallContext;
  // Of this call and those that it is a part of.
  int64_t least(std::atomic<int64_t> Call::* of) const;
  void hear() const;
  bool is_left(const Busy& held, int64_t now) const;
  void note_end(const Busy& operation);
  void end_outer(const Status& cause) const;
  Status why_over() const;

  std::atomic<int64_t> patience_ms_{kNever}, over_ms_{kNever};
  std::atomic<bool> cancelled_{false}, late_{false}, settled_{false}, part_is_left_{false};
  bool watched_ = false;
  std::function<void()> hear_;
  mutable std::atomic<int64_t> hear_from_ms_{0};
  mutable std::mutex mutex_;  // guards all below
  Status cause_;
  Status if_left_;
  bool has_answer_ = false;
  std::vector<std::shared_ptr<const void>> kept_;
  const Busy* busy_ = nullptr;  // the first of what its threads are busy with
  // How long its operations have got no answer since the last one that did, and until when that was counted; how many
  // did.
  int64_t in_vain_ms_ = 0, in_vain_until_ms_ = 0;
  std::atomic<uint64_t> answers_{0};
};

// As long as it lives, its thread does what may take as long as a disk or a server likes: a system call on a file, or a
// request with its repetitions.
// Nothing is allocated, and the texts must live as long.
class Busy {
 public:
  // "write", "/data/run7", "step-1.1.1/PART_000"; `name` may be empty.
  Busy(const char* verb, std::string_view path, std::string_view name = {});
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  int64_t since_ms() const { return since_ms_; }
  // When it has taken too long, if an operation may take `patience_ms`; of a wait's operation, with the wait's end.
  int64_t until_ms(int64_t patience_ms) const;
  int64_t late_ms(int64_t patience_ms) const;
  // Its result: one that says that the store did not answer.
  void ended(const Status& status);
  // The same of what this thread is busy with, for whoever makes the error. Returns it.
  static Status of_thread_ended(Status status);
  // "write of /data/run7/step-1.1.1/PART_000"
  std::string text() const;
  std::string path() const;

 private:
  friend class Call;
  const char* const verb_;
  const std::string_view path_, name_;
  const int64_t since_ms_, wait_ends_ms_;
  const std::thread::id thread_ = std::this_thread::get_id();
  Call* call_ = nullptr;  // in whose list it is
  uint64_t answers_before_ = 0;
  int64_t lost_ms_ = 0;  // of its time, by those before it
  mutable bool unanswered_ = false;
  mutable const Busy *before_ = nullptr, *after_ = nullptr;
};

// For which call a thread works, and what else ends its waits.
class CallContext {
 public:
  CallContext() = default;
  explicit CallContext(Call* call) : call_(call) {}
  // That of this thread; of nobody if it works for no call.
  static const CallContext& current();

  Call* call() const { return call_; }
  // OK as long as it may wait. CANCELLED, TIMEOUT.
  Status check() const;
  // How long it may wait; kNever.
  int64_t left_ms() const;
  // Waits so long, or until it may not any more: that status then.
  Status pause(int64_t ms) const;
  // The same with an end at `until`, of steady_ms(), unless it has an earlier one.
  CallContext ending_at(int64_t until_ms) const;
  // For this operation, which must live as long.
  CallContext of(const Busy& operation) const;
  // For what is to be done although the call is over.
  CallContext shielded() const;
  // The same for another call, which is a part of this one.
  CallContext with(Call* part) const;

 private:
  friend class Busy;
  friend class Closing;
  int64_t end_ms() const;

  Call* call_ = nullptr;
  const Busy* operation_ = nullptr;
  int64_t until_ms_ = Call::kNever;
  bool shielded_ = false;
};

// Gives this thread a context, as long as it lives.
class ContextScope {
 public:
  explicit ContextScope(const CallContext& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const CallContext before_;
};

// What this thread does while it lives is to be done although the call is over.
class CancelShield : ContextScope {
 public:
  CancelShield() : ContextScope(CallContext::current().shielded()) {}
};

// The call has failed: what this thread does while it lives tells others, or tidies up.
class Closing {
 public:
  explicit Closing(const Status& cause);

 private:
  std::shared_ptr<Call> own_;  // of a thread that works for nobody
  ContextScope scope_;
};

// Counts a request of this thread's work, and the bytes of the bodies. `again`: an earlier try of it failed.
void count_request(RequestKind kind, bool again, uint64_t sent, uint64_t received);

}  // namespace ckpt
