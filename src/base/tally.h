// What the work of a job asks of servers, by the kinds that providers bill. A store knows no jobs, and one handle of it
// serves several at once: so each thread that works for a job has the tally of that job, and whoever hands work to
// another thread (Job, run_parallel, IoQueue) hands on the tally, too.
// All members may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace ckpt {

enum class RequestKind { kGet, kPut, kList, kDelete };

struct Tally : std::enable_shared_from_this<Tally> {
  std::atomic<uint64_t> gets{0}, puts{0}, lists{0}, deletes{0};
  std::atomic<uint64_t> retries{0};  // of all these
  std::atomic<uint64_t> bytes_sent{0}, bytes_received{0};
  std::shared_ptr<Tally> outer;  // of the job that this one is a part of; set before the work begins

  // That of the work of this thread; null if that belongs to no job.
  static Tally* current();
};

// Makes a tally that of this thread, as long as it lives.
class Tallying {
 public:
  explicit Tallying(Tally* tally);
  ~Tallying();
  Tallying(const Tallying&) = delete;
  Tallying& operator=(const Tallying&) = delete;

 private:
  Tally* const before_;
};

// Counts a request of this thread's work, and the bytes of the bodies. `again`: an earlier try of it failed.
void count_request(RequestKind kind, bool again, uint64_t sent, uint64_t received);

}  // namespace ckpt
