#include "store/io_queue.h"

#include <algorithm>

#include "store/transfer.h"
#include "store/uring_queue.h"

namespace ckpt::store {
namespace {

class ThreadQueue final : public TransferQueue {
 public:
  explicit ThreadQueue(unsigned depth) : TransferQueue(depth) {}
  ~ThreadQueue() override { places_.wait_until_all_free(); }
  static Result<std::unique_ptr<IoQueue>> make(unsigned depth) {
    auto queue = std::make_unique<ThreadQueue>(depth);
    CKPT_TRY(queue->start_threads(depth));
    return std::unique_ptr<IoQueue>(std::move(queue));
  }
  IoEngine engine() const override { return IoEngine::kThreads; }

 private:
  void begin(Transfer* transfer) override { threads_->post(transfer); }
};

}  // namespace

Result<std::unique_ptr<IoQueue>> IoQueue::make(unsigned depth, bool uring) {
  depth = std::max(depth, 1u);
  if (std::unique_ptr<IoQueue> queue = uring ? make_uring_queue(depth) : nullptr) return queue;
  return ThreadQueue::make(depth);
}

}  // namespace ckpt::store
