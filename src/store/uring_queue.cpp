#include "store/uring_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "store/transfer.h"
#include "store/uring.h"

namespace ckpt::store {
namespace {

// Callers put direct transfers into the inbox; the ring's own thread submits them and finishes them. All other
// transfers, and those that the kernel fails, go to threads as blocking calls: these know the rules, the workarounds
// for file systems that refuse, and the words for errors.
class UringQueue final : public TransferQueue {
 public:
  explicit UringQueue(unsigned depth) : TransferQueue(depth) {}
  ~UringQueue() override;
  bool start(unsigned depth);
  IoEngine engine() const override { return IoEngine::kUring; }

 private:
  static constexpr uint64_t kWakeUp = 0;  // the tag of the request that reads wake_

  void begin(Transfer* transfer) override;
  void wake_up();
  void work();
  bool stopped();
  void listen();
  void take_inbox();
  void prepare(Transfer* transfer);
  void complete(const Ring::Completion& completion);
  void do_without_ring();

  std::mutex mutex_;
  TransferList inbox_;
  bool stop_ = false;

  // For the ring's thread only.
  std::unique_ptr<Ring> ring_;
  bool listening_ = false;
  uint64_t wake_count_ = 0;

  Fd wake_;
  std::thread thread_;
};

bool UringQueue::start(unsigned depth) {
  ring_ = Ring::make(depth + 1);
  if (!ring_ || !start_threads(depth).ok()) return false;
  wake_ = Fd(eventfd(0, EFD_CLOEXEC));
  return wake_ && start_thread(&thread_, [this] { work(); });
}

UringQueue::~UringQueue() {
  places_.wait_until_all_free();
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_up();
  }
  thread_.join();
}

bool is_aligned(uint64_t offset, Bytes data, uint64_t align) {
  return !data.empty() && (offset | data.size()) % kAlign == 0 && reinterpret_cast<uintptr_t>(data.data()) % align == 0;
}

bool suits_ring(const Transfer& transfer) {
  if (transfer.writer)
    return transfer.writer->descriptor() >= 0 &&
           is_aligned(transfer.offset, transfer.from, transfer.writer->direct_align());
  return transfer.reader->direct_descriptor(transfer.offset, transfer.into.size()) >= 0 &&
         is_aligned(transfer.offset, transfer.into, transfer.reader->direct_align());
}

void UringQueue::begin(Transfer* transfer) {
  if (!suits_ring(*transfer)) return threads_->post(transfer);
  std::lock_guard lock(mutex_);
  if (inbox_.empty()) wake_up();
  inbox_.push(transfer);
}

// The counter stays far below the value at which a write would block.
void UringQueue::wake_up() {
  uint64_t one = 1;
  retry([&] { return ::write(wake_.get(), &one, sizeof one); });
}

void UringQueue::work() {
  for (;;) {
    if (!listening_) {
      if (stopped()) return;
      listen();
    }
    take_inbox();
    if (ring_->submit_and_wait() != 0) do_without_ring();
    while (auto completion = ring_->reap()) complete(*completion);
  }
}

bool UringQueue::stopped() {
  std::lock_guard lock(mutex_);
  return stop_;
}

void UringQueue::listen() {
  listening_ = true;
  ring_->prepare_read(wake_.get(), 0, std::as_writable_bytes(std::span(&wake_count_, 1)), kWakeUp);
}

void UringQueue::take_inbox() {
  std::lock_guard lock(mutex_);
  while (Transfer* transfer = inbox_.pop()) prepare(transfer);
}

void UringQueue::prepare(Transfer* transfer) {
  uint64_t offset = transfer->offset + transfer->moved, tag = reinterpret_cast<uintptr_t>(transfer);
  if (transfer->writer)
    ring_->prepare_write(transfer->writer->descriptor(), offset, transfer->from.subspan(transfer->moved), tag);
  else
    ring_->prepare_read(transfer->reader->direct_descriptor(offset, transfer->into.size() - transfer->moved), offset,
                        transfer->into.subspan(transfer->moved), tag);
}

// The kernel hands back numbers: those that prepare() gave it.
Transfer* transfer_of(uint64_t tag) { return reinterpret_cast<Transfer*>(tag); }  // NOLINT(performance-no-int-to-ptr)

void UringQueue::complete(const Ring::Completion& completion) {
  if (completion.tag == kWakeUp) {
    listening_ = false;
    return;
  }
  Transfer* transfer = transfer_of(completion.tag);
  // An error, or the end of the file. A thread transfers everything again, including what was transferred: alignment
  // counts from the beginning.
  if (completion.result <= 0) return threads_->post(transfer);
  transfer->moved += static_cast<size_t>(completion.result);
  if (transfer->moved < (transfer->writer ? transfer->from.size() : transfer->into.size())) return prepare(transfer);
  places_.finish(transfer, Ok());
}

// The kernel lacks the memory for more requests. Those that it has will still complete.
void UringQueue::do_without_ring() {
  while (auto tag = ring_->withdraw()) {
    if (*tag == kWakeUp)
      listening_ = false;
    else
      threads_->post(transfer_of(*tag));
  }
  usleep(1000);
}

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(unsigned depth) {
  auto queue = std::make_unique<UringQueue>(depth);
  return queue->start(depth) ? std::move(queue) : nullptr;
}

}  // namespace ckpt::store
