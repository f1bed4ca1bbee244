// Reads a file from front to back, several blocks at a time, checks each of its bytes, and writes those that were
// checked to a new file. One thread works on it; queues of the stores keep reads and writes under way.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/job.h"
#include "base/mapping.h"
#include "store/io_queue.h"
#include "store/store.h"

namespace ckpt::maintain {

// A range of a file that has a checksum. The bytes between spans are zero.
struct Span {
  static constexpr size_t kNoChunk = SIZE_MAX;
  uint64_t offset = 0, size = 0;
  Digest digest;
  size_t chunk = kNoChunk;  // of the part that it was made of
  uint64_t end() const { return offset + size; }
};
void sort_by_offset(std::vector<Span>& spans);
// CORRUPT unless the bytes are those of the span; of zero padding if it is null.
Status check_span(const Span* span, uint64_t offset, Bytes bytes);
// CORRUPT, by the first of a whole file's spans and gaps that does not match.
Status check_spans(const std::vector<Span>& spans, Bytes file);

struct StreamLimits {
  uint64_t block = 8 << 20;  // what is read and written at once; a multiple of kAlign
  size_t blocks = 4;         // in memory at once, at least as many as the largest span lies in, and one more
};

class CheckedStream {
 public:
  struct From {
    const store::Store& store;
    const store::Reader& file;
    const std::vector<Span>& spans;  // ascending
    // Completes the error of a span, or of the padding that it is null for.
    std::function<Status(const Span*, Status)> blame;
  };
  // `writer` null: only checks.
  CheckedStream(const From& from, const store::Store& to, store::Writer* writer, StreamLimits limits, Job& job);
  // When it returns, nothing is under way. What does not match is read once more if the store is remote.
  Status run();
  // What it takes in memory.
  uint64_t memory() const { return std::min(slots_.size() * limits_.block, round_up(size_, kAlign)); }

 private:
  enum class State { kFree, kReading, kThere, kWriting };
  struct Slot {
    State state = State::kFree;
    Status read;
  };
  using Lock = std::unique_lock<std::mutex>;

  Status stream();
  bool step(Lock& lock, Status* failed);
  bool is_queued();
  Status read_queued(Lock& lock);
  Status read_here(Lock& lock);
  Status write(Lock& lock);
  Status check(Lock& lock);
  Status check_until(uint64_t end);
  Status checked(const Span* span, uint64_t begin, uint64_t end);
  template <typename Use>
  Status in_pieces(uint64_t begin, uint64_t end, Use&& use);
  Status check_range(const Span* span, uint64_t begin, uint64_t end);
  Status make_queues();
  void written(size_t block, Status status);
  Slot& slot(size_t block) { return slots_[block % slots_.size()]; }
  uint64_t begin_of(size_t block) const { return block * limits_.block; }
  uint64_t size_of(size_t block) const { return std::min(limits_.block, size_ - begin_of(block)); }
  MutableBytes bytes_of(size_t block) const {
    return memory_.bytes().subspan(block % slots_.size() * limits_.block, size_of(block));
  }

  const From from_;
  const store::Store& to_;
  store::Writer* const writer_;
  const StreamLimits limits_;
  Job& job_;
  const uint64_t size_;
  const size_t count_;  // of blocks

  std::mutex mutex_;  // guards the slots' states, and what is under way
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  Status failure_;  // of a write
  unsigned reading_ = 0, writing_ = 0;
  size_t written_ = 0;

  Mapping memory_;                                          // of all slots
  size_t next_read_ = 0, next_check_ = 0, next_write_ = 0;  // blocks
  std::optional<bool> queued_;                              // how next_read_ is best read
  size_t next_span_ = 0;
  uint64_t checked_ = 0;                            // all bytes before it match
  std::unique_ptr<store::IoQueue> reads_, writes_;  // last members: their destructors wait for what is under way
};

}  // namespace ckpt::maintain
