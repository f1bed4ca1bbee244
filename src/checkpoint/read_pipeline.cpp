#include "checkpoint/read_pipeline.h"

#include <algorithm>

#include "base/mapping.h"
#include "base/parallel.h"
#include "checkpoint/chunk_io.h"
#include "store/io_queue.h"

namespace ckpt::checkpoint {

namespace {

class Pipeline {
 public:
  Pipeline(const store::Store& store, PipelineWork& work, size_t count, const PipelineLimits& limits, Job& job)
      : store_(store), work_(work), count_(count), limits_(limits), job_(job), in_flight_(limits.slots) {
    for (InFlight& flight : in_flight_) free_.push_back(&flight);
    ready_.reserve(in_flight_.size());
    if (const uint64_t stream = store.traits().stream_bytes; stream != 0) order_by_streams(stream);
  }
  Status run();

 private:
  // State of one direct read, from its start until its bytes were worked on.
  struct InFlight {
    size_t number = 0;
    PipelineRead read{};
    Mapping buffer;
    uint64_t begin = 0;  // offset in the file
    MutableBytes into;   // the target without its tail, or the buffer
    Status status;
  };
  using Lock = std::unique_lock<std::mutex>;

  void order_by_streams(uint64_t stream_bytes);
  Status work(unsigned worker);
  Status step(unsigned worker, Lock& lock);
  Status start(unsigned worker, Lock& lock);
  bool prepare_direct(InFlight& flight);
  void start_direct(InFlight& flight);
  void arrive(InFlight& flight, Status status);
  Status finish(InFlight& flight, unsigned worker);
  void leave(InFlight& flight);
  store::IoQueue* queue();

  const store::Store& store_;
  PipelineWork& work_;
  const size_t count_;
  const PipelineLimits limits_;
  Job& job_;

  std::vector<size_t> order_;  // of the reads; empty: as they are numbered
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;
  size_t started_ = 0;  // slots that were started and whose bytes are not there yet
  bool stopped_ = false, done_ = false, queue_tried_ = false;
  std::vector<InFlight> in_flight_;
  std::vector<InFlight*> free_, ready_;
  std::unique_ptr<store::IoQueue> queue_;  // last member: its destructor waits for what is in flight
};

// As many streams as there are slots take turns, each through neighbouring reads.
void Pipeline::order_by_streams(uint64_t stream_bytes) {
  const size_t streams = limits_.slots, most = streams < 2 ? 0 : stream_bytes / limits_.buffer_bytes;
  if (most < 2) return;
  order_.reserve(count_);
  for (size_t first = 0; first < count_; first += streams * most) {
    const size_t reads = std::min(count_ - first, streams * most), of_each = (reads + streams - 1) / streams;
    for (size_t turn = 0; turn < of_each; turn++)
      for (size_t at = turn; at < reads; at += of_each) order_.push_back(first + at);
  }
}

// A single read gains nothing from a queue. Without a queue, direct reads block.
store::IoQueue* Pipeline::queue() {
  std::lock_guard lock(mutex_);
  if (!queue_tried_ && count_ > 1)
    if (auto made = store_.make_queue(limits_.slots); made.ok()) queue_ = made.take();
  queue_tried_ = true;
  return queue_.get();
}

// Whether a read goes through the queue. If so, its memory is ready afterwards.
bool Pipeline::prepare_direct(InFlight& flight) {
  const PipelineRead& read = flight.read;
  const store::Reader::Way way = read.file->way(read.offset, read.size);
  if (!way.queued) return false;
  flight.begin = read.offset / way.unit * way.unit;
  if (read.target && flight.begin == read.offset && reinterpret_cast<uintptr_t>(read.target) % way.align == 0) {
    flight.into = {read.target, read.size / way.unit * way.unit};
    return true;
  }
  uint64_t end = round_up(read.offset + read.size, way.unit), size = end - flight.begin;
  if (size > limits_.buffer_bytes || end > read.file->size()) return false;
  if (flight.buffer.bytes().size() < size) {  // a little read touches little memory
    auto buffer = Mapping::make(size < Mapping::kHugeFrom ? size : limits_.buffer_bytes);
    if (!buffer.ok()) return false;
    flight.buffer = buffer.take();
    (void)Mapping::make_pages(flight.buffer.bytes().first(size));  // here, not on the one thread of a ring
  }
  if (size != read.size && !work_.may_pad(size - read.size)) return false;
  flight.into = flight.buffer.bytes().first(size);
  return true;
}

void Pipeline::start_direct(InFlight& flight) {
  job_.counters.direct_io = 1;
  job_.counters.io_count++;
  job_.counters.bytes_read += flight.into.size();
  store::IoQueue* queue = this->queue();
  if (!queue) return arrive(flight, flight.read.file->read_direct(flight.begin, flight.into));
  const bool by_ring = flight.read.file->direct_descriptor(flight.begin, flight.into.size()) >= 0;
  job_.counters.io_engine = static_cast<uint32_t>(by_ring ? queue->engine() : store::IoEngine::kThreads);
  queue->read(*flight.read.file, flight.begin, flight.into,
              [this, &flight](Status status) { arrive(flight, std::move(status)); });
}

void Pipeline::arrive(InFlight& flight, Status status) {
  std::lock_guard lock(mutex_);
  flight.status = std::move(status);
  ready_.push_back(&flight);
  started_--;
  changed_.notify_one();
}

void Pipeline::leave(InFlight& flight) {
  std::lock_guard lock(mutex_);
  free_.push_back(&flight);
  changed_.notify_one();
}

Status Pipeline::start(unsigned worker, Lock& lock) {
  size_t number = order_.empty() ? next_ : order_[next_];
  next_++;
  if (in_flight_.empty()) {
    lock.unlock();
    return work_.read(number, worker);
  }
  InFlight& flight = *free_.back();
  free_.pop_back();
  started_++;
  lock.unlock();
  auto described = work_.describe(number);
  flight.number = number;
  if (described.ok()) flight.read = described.take();
  if (described.ok() && prepare_direct(flight)) {
    start_direct(flight);
    return Ok();
  }
  lock.lock();
  started_--;
  lock.unlock();
  flight.read.file.reset();
  leave(flight);
  CKPT_TRY(described.status());
  return work_.read(number, worker);
}

// Works on bytes that arrived. Reads the last bytes here, since no direct read could bring them.
Status Pipeline::finish(InFlight& flight, unsigned worker) {
  const PipelineRead& read = flight.read;
  Status status = std::move(flight.status);
  Bytes bytes(read.target, read.size);
  if (flight.into.data() != read.target) {
    bytes = flight.into.subspan(read.offset - flight.begin, read.size);
  } else if (uint64_t have = flight.into.size(); status.ok() && have < read.size) {
    status = plain_read(job_, *read.file, read.offset + have, {read.target + have, read.size - have});
  }
  status = status.ok() ? work_.arrived(flight.number, bytes, worker) : work_.read(flight.number, worker);
  flight.read.file.reset();
  leave(flight);
  return status;
}

// Does the next thing; sets `done_` if nothing is left. Starts reads first, so that the disk always has some.
Status Pipeline::step(unsigned worker, Lock& lock) {
  if (next_ < count_ && (!free_.empty() || in_flight_.empty())) return start(worker, lock);
  if (!ready_.empty()) {
    InFlight& flight = *ready_.back();
    ready_.pop_back();
    lock.unlock();
    return finish(flight, worker);
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
  for (const InFlight& flight : in_flight_) job_.counters.staging_peak_bytes += flight.buffer.bytes().size();
  return status;
}

}  // namespace

Status run_pipeline(const store::Store& store, PipelineWork& work, size_t count, const PipelineLimits& limits,
                    Job& job) {
  return Pipeline(store, work, count, limits, job).run();
}

}  // namespace ckpt::checkpoint
