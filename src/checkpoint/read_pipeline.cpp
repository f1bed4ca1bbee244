#include "checkpoint/read_pipeline.h"

#include <algorithm>

#include "base/parallel.h"
#include "checkpoint/chunk_io.h"
#include "device/arena.h"
#include "store/io_queue.h"

namespace ckpt::checkpoint {

static constexpr uint64_t kMinDirect = 65536;  // below this, waiting costs more than the page cache

namespace {

class Pipeline {
 public:
  Pipeline(const store::Store& store, PipelineWork& work, size_t count, const PipelineLimits& limits, Job& job)
      : store_(store), work_(work), count_(count), limits_(limits), job_(job), slots_(limits.slots) {
    for (Slot& slot : slots_) free_.push_back(&slot);
    ready_.reserve(slots_.size());
  }
  Status run();

 private:
  // State of one direct read, from its start until its bytes were worked on.
  struct Slot {
    size_t number = 0;
    PipelineRead read{};
    device::Mapping buffer;
    uint64_t begin = 0;  // offset in the file
    MutableBytes into;   // the target without its tail, or the buffer
    Status status;
  };
  using Lock = std::unique_lock<std::mutex>;

  Status work(unsigned worker);
  Status step(unsigned worker, Lock& lock);
  Status start(unsigned worker, Lock& lock);
  bool prepare_direct(Slot& slot);
  void start_direct(Slot& slot);
  void arrive(Slot& slot, Status status);
  Status finish(Slot& slot, unsigned worker);
  void leave(Slot& slot);
  store::IoQueue* queue();

  const store::Store& store_;
  PipelineWork& work_;
  const size_t count_;
  const PipelineLimits limits_;
  Job& job_;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;
  size_t started_ = 0;  // slots that were started and whose bytes are not there yet
  bool stopped_ = false, done_ = false, queue_tried_ = false;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_, ready_;
  std::unique_ptr<store::IoQueue> queue_;  // last member: its destructor waits for what is in flight
};

// A single read gains nothing from a queue. Without a queue, direct reads block.
store::IoQueue* Pipeline::queue() {
  std::lock_guard lock(mutex_);
  if (!queue_tried_ && count_ > 1)
    if (auto made = store_.make_queue(limits_.slots); made.ok()) queue_ = made.take();
  queue_tried_ = true;
  return queue_.get();
}

// Whether a read can bypass the page cache and is worth it. If so, its memory is ready afterwards.
bool Pipeline::prepare_direct(Slot& slot) {
  const PipelineRead& read = slot.read;
  uint64_t align = read.file->direct_align();
  if (align == 0 || read.size < kMinDirect || read.file->cached(read.offset, read.size)) return false;
  slot.begin = read.offset / kAlign * kAlign;
  if (read.target && slot.begin == read.offset && reinterpret_cast<uintptr_t>(read.target) % align == 0) {
    slot.into = {read.target, read.size / kAlign * kAlign};
    return true;
  }
  uint64_t end = round_up(read.offset + read.size, kAlign), size = end - slot.begin;
  if (size > limits_.buffer_bytes || end > read.file->size()) return false;
  if (slot.buffer.bytes().empty()) {
    auto buffer = device::Mapping::make(limits_.buffer_bytes);
    if (!buffer.ok()) return false;
    slot.buffer = buffer.take();
  }
  if (size != read.size && !work_.may_pad(size - read.size)) return false;
  slot.into = slot.buffer.bytes().first(size);
  return true;
}

void Pipeline::start_direct(Slot& slot) {
  job_.counters.direct_io = 1;
  job_.counters.io_count++;
  job_.counters.bytes_read += slot.into.size();
  store::IoQueue* queue = this->queue();
  if (!queue) return arrive(slot, slot.read.file->read_direct(slot.begin, slot.into));
  job_.counters.io_engine = static_cast<uint32_t>(queue->engine());
  queue->read(*slot.read.file, slot.begin, slot.into,
              [this, &slot](Status status) { arrive(slot, std::move(status)); });
}

void Pipeline::arrive(Slot& slot, Status status) {
  std::lock_guard lock(mutex_);
  slot.status = std::move(status);
  ready_.push_back(&slot);
  started_--;
  changed_.notify_one();
}

void Pipeline::leave(Slot& slot) {
  std::lock_guard lock(mutex_);
  free_.push_back(&slot);
  changed_.notify_one();
}

Status Pipeline::start(unsigned worker, Lock& lock) {
  size_t number = next_++;
  if (slots_.empty()) {
    lock.unlock();
    return work_.read(number, worker);
  }
  Slot& slot = *free_.back();
  free_.pop_back();
  started_++;
  lock.unlock();
  auto described = work_.describe(number);
  slot.number = number;
  if (described.ok()) slot.read = *described;
  if (described.ok() && prepare_direct(slot)) {
    start_direct(slot);
    return Ok();
  }
  lock.lock();
  started_--;
  lock.unlock();
  leave(slot);
  CKPT_TRY(described.status());
  return work_.read(number, worker);
}

// Works on bytes that arrived. Reads the last bytes here, since no direct read could bring them.
Status Pipeline::finish(Slot& slot, unsigned worker) {
  const PipelineRead& read = slot.read;
  Status status = std::move(slot.status);
  Bytes bytes(read.target, read.size);
  if (slot.into.data() != read.target) {
    bytes = slot.into.subspan(read.offset - slot.begin, read.size);
  } else if (uint64_t have = slot.into.size(); status.ok() && have < read.size) {
    status = plain_read(job_, *read.file, read.offset + have, {read.target + have, read.size - have});
  }
  status = status.ok() ? work_.arrived(slot.number, bytes, worker) : work_.read(slot.number, worker);
  leave(slot);
  return status;
}

// Does the next thing; sets `done_` if nothing is left. Starts reads first, so that the disk always has some.
Status Pipeline::step(unsigned worker, Lock& lock) {
  if (next_ < count_ && (!free_.empty() || slots_.empty())) return start(worker, lock);
  if (!ready_.empty()) {
    Slot& slot = *ready_.back();
    ready_.pop_back();
    lock.unlock();
    return finish(slot, worker);
  }
  if (next_ >= count_ && started_ == 0)
    done_ = true;
  else
    changed_.wait(lock);
  return Ok();
}

Status Pipeline::work(unsigned worker) {
  // Whoever leaves, even by an exception, wakes those who wait.
  struct Wake {
    Pipeline& pipeline;
    bool failed = true;
    ~Wake() {
      std::lock_guard lock(pipeline.mutex_);
      pipeline.stopped_ |= failed;
      pipeline.changed_.notify_all();
    }
  } wake{*this};
  for (;;) {
    CKPT_TRY(job_.check());
    Lock lock(mutex_);
    if (stopped_ || done_) break;
    CKPT_TRY(step(worker, lock));
  }
  wake.failed = false;
  return Ok();
}

Status Pipeline::run() {
  Status status =
      run_parallel(limits_.threads, [this](unsigned worker, const std::atomic<bool>&) { return work(worker); });
  queue_.reset();
  for (const Slot& slot : slots_) job_.counters.staging_peak_bytes += slot.buffer.bytes().size();
  return status;
}

}  // namespace

Status run_pipeline(const store::Store& store, PipelineWork& work, size_t count, const PipelineLimits& limits,
                    Job& job) {
  return Pipeline(store, work, count, limits, job).run();
}

}  // namespace ckpt::checkpoint
