#include "store/transfer.h"

#include <utility>

#include "base/parallel.h"

namespace ckpt::store {

Status Transfer::run() const {
  const ContextScope on(context);
  return call_guarded([&] { return writer ? writer->write_at(offset, from) : reader->read_direct(offset, into); });
}

void TransferList::push(Transfer* transfer) {
  transfer->next = nullptr;
  (first_ ? last_->next : first_) = transfer;
  last_ = transfer;
}

Transfer* TransferList::pop() {
  Transfer* transfer = first_;
  if (transfer) first_ = transfer->next;
  return transfer;
}

// ---- places ----

InFlight::InFlight(unsigned depth) : places_(depth), busy_(depth) {
  for (Transfer& place : places_) free_.push(&place);
}

Transfer* InFlight::take(Transfer transfer) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return !free_.empty(); });
  taken_++;
  Transfer* place = free_.pop();
  *place = std::move(transfer);
  const bool writes = place->writer != nullptr;
  const std::string_view where = writes ? place->writer->where() : place->reader->where();
  if (!where.empty()) busy_of(*place).emplace(writes ? "write" : "read", where);
  return place;
}

void InFlight::finish(Transfer* transfer, Status status) {
  // Destroys `done` before the place is free: it may hold things that belong to a caller who waits for the last
  // transfer.
  if (std::optional<Busy>& busy = busy_of(*transfer)) {
    busy->ended(status);
    busy.reset();  // while its call lives
  }
  IoQueue::Done done = std::exchange(transfer->done, nullptr);
  done(std::move(status));
  done = nullptr;
  *transfer = Transfer();
  std::lock_guard lock(mutex_);
  free_.push(transfer);
  taken_--;
  freed_.notify_all();
}

void InFlight::wait_until_all_free() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return taken_ == 0; });
}

// ---- threads ----

Threads::Threads(InFlight& places, unsigned most) : places_(places), most_(most) {
  threads_.reserve(most);  // so that adding one cannot fail halfway
}

Result<std::unique_ptr<Threads>> Threads::make(InFlight& places, unsigned most) {
  std::unique_ptr<Threads> threads(new Threads(places, most));
  if (!threads->add_thread()) return Status(CKPT_NOMEM, "the system gives no thread for transfers of files");
  return threads;
}

bool Threads::add_thread() {
  std::thread thread;
  if (!start_thread(&thread, [this] { work(); })) return false;
  threads_.push_back(std::move(thread));
  return true;
}

void Threads::post(Transfer* transfer) {
  std::lock_guard lock(mutex_);
  waiting_.push(transfer);
  waiting_count_++;
  if (threads_.size() - busy_ < waiting_count_ && threads_.size() < most_) add_thread();
  wake_.notify_one();
}

void Threads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    Transfer* transfer = waiting_.pop();
    if (!transfer) return;
    waiting_count_--;
    busy_++;
    lock.unlock();
    places_.finish(transfer, transfer->run());
    lock.lock();
    busy_--;
  }
}

Threads::~Threads() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace ckpt::store
