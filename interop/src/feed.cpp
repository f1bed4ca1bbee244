#include "interop/src/feed.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "base/parallel.h"
#include "base/thread.h"
#include "ckpt_layer.h"
#include "interop/src/outer_call.h"

namespace ckpt::interop {

namespace {

// Blocks that were begun and are not done. By number, not by bytes: whenever one is done, the next one that the save
// waits for is fetched, so the two never wait for each other.
constexpr size_t kWindow = 16;

uintptr_t start_of(Bytes bytes) { return reinterpret_cast<uintptr_t>(bytes.data()); }

}  // namespace

static std::vector<std::shared_ptr<RemoteFile>> by_address(std::vector<std::shared_ptr<RemoteFile>> files) {
  std::erase_if(files, [](const auto& file) { return file->bytes().empty(); });
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return start_of(a->bytes()) < start_of(b->bytes()); });
  return files;
}

static std::shared_ptr<Call> call_of_thread() {
  Call* const call = CallContext::current().call();
  return call ? call->shared_from_this() : nullptr;
}

Feed::Feed(std::vector<std::shared_ptr<RemoteFile>> files)
    : files_(by_address(std::move(files))), call_(call_of_thread()) {}

Feed::~Feed() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_)
    if (worker.joinable()) worker.join();
}

// False: memory of something else.
bool Feed::place_of(Bytes bytes, Piece* piece) const {
  const uintptr_t at = start_of(bytes);
  auto found = std::upper_bound(files_.begin(), files_.end(), at,
                                [](uintptr_t address, const auto& file) { return address < start_of(file->bytes()); });
  if (bytes.empty() || found == files_.begin()) return false;
  const auto& file = *--found;
  const uint64_t begin = at - start_of(file->bytes());
  if (begin >= file->bytes().size()) return false;
  piece->file = file.get();
  piece->range = {begin, begin + bytes.size()};
  return true;
}

Status Feed::fill(const std::vector<Bytes>& samples) {
  const ContextScope on(CallContext(call_.get()));
  std::map<RemoteFile*, std::vector<ByteRange>> wanted;
  for (const Bytes sample : samples)
    if (Piece piece; place_of(sample, &piece)) wanted[piece.file].push_back(piece.range);
  for (auto& [file, ranges] : wanted) CKPT_TRY(file->fetch(std::move(ranges)));
  return Ok();
}

// Ranges that overlap are spilled now: giving one back would take it from the others.
Status Feed::begin(std::vector<std::vector<Bytes>> blocks) {
  const ContextScope on(CallContext(call_.get()));
  std::vector<Piece> all, alone;
  std::map<RemoteFile*, std::vector<ByteRange>> shared;
  blocks_.resize(blocks.size());
  for (size_t i = 0; i < blocks.size(); i++)
    for (const Bytes bytes : blocks[i])
      if (Piece piece{nullptr, {}, i}; place_of(bytes, &piece)) all.push_back(piece);
  auto order = [](const Piece& piece) { return std::tuple(piece.file, piece.range.begin, piece.range.end); };
  std::sort(all.begin(), all.end(), [&](const Piece& a, const Piece& b) { return order(a) < order(b); });
  for (size_t i = 0; i < all.size();) {
    uint64_t end = all[i].range.end;
    size_t last = i + 1;
    for (; last < all.size() && all[last].file == all[i].file && all[last].range.begin < end; last++)
      end = std::max(end, all[last].range.end);
    if (last == i + 1)
      alone.push_back(all[i]);
    else
      shared[all[i].file].push_back({all[i].range.begin, end});
    i = last;
  }
  for (const auto& [file, ranges] : shared) CKPT_TRY(file->spill(ranges));
  plan(alone);
  workers_.resize(kRequestsAtOnce);
  for (std::thread& worker : workers_)
    if (!start_thread(&worker, [this] {
          const ContextScope here(CallContext(call_.get()));
          work();
        }))
      break;
  if (workers_[0].joinable()) return Ok();
  return Status(CKPT_NOMEM, "the system gives no thread to fetch what is imported");
}

// Neighbours in a file that are of one block become one request.
void Feed::plan(const std::vector<Piece>& sorted) {
  for (size_t i = 0; i < sorted.size();) {
    Piece piece = sorted[i];
    Block& block = blocks_[piece.block];
    for (; i < sorted.size() && sorted[i].file == piece.file && sorted[i].block == piece.block &&
           sorted[i].range.begin <= piece.range.end + kRequestGap;
         i++) {
      piece.range.end = sorted[i].range.end;
      block.ranges.push_back(sorted[i]);
    }
    for (uint64_t at = piece.range.begin; at < piece.range.end; at += kRequestBytes)
      block.pieces.push_back({piece.file, {at, std::min(at + kRequestBytes, piece.range.end)}, piece.block});
  }
  for (Block& block : blocks_) block.waiting = block.pieces.size();
}

// The next piece to fetch; one without a file at the end.
Feed::Piece Feed::next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (next_block_ < blocks_.size() && next_piece_ == blocks_[next_block_].pieces.size()) {
      next_block_++;
      next_piece_ = 0;
    }
    if (ended_ || !error_.ok() || next_block_ == blocks_.size()) return {};
    if (next_block_ < done_ + kWindow) return blocks_[next_block_].pieces[next_piece_++];
    changed_.wait(lock);
  }
}

void Feed::work() {
  for (Piece piece = next(); piece.file; piece = next()) {
    Status fetched = call_guarded([&] { return piece.file->fetch({piece.range}); });
    std::lock_guard lock(mutex_);
    blocks_[piece.block].waiting--;
    if (error_.ok()) error_ = std::move(fetched);
    changed_.notify_all();
  }
}

Result<bool> Feed::wait(size_t block, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [&] { return !error_.ok() || blocks_[block].waiting == 0; });
  if (!error_.ok()) return error_;
  return blocks_[block].waiting == 0;
}

void Feed::done(size_t block) {
  for (const Piece& piece : blocks_[block].ranges) piece.file->give_back(piece.range);
  std::lock_guard lock(mutex_);
  done_++;
  changed_.notify_all();
}

// ---- as C calls it ----

namespace {

Feed& feed_of(void* user) { return *static_cast<Feed*>(user); }

ckpt_status give(const Status& status, ckpt_error** err) {
  if (!status.ok()) *err = error_of(status);
  return status.code();
}

ckpt_status fill_feed(void* user, const ckpt_late_range* samples, uint64_t count, ckpt_error** err) {
  return give(call_guarded([&] {
                std::vector<Bytes> memory;
                for (const ckpt_late_range& range : std::span(samples, count))
                  memory.emplace_back(static_cast<const std::byte*>(range.data), range.size);
                return feed_of(user).fill(memory);
              }),
              err);
}

ckpt_status begin_feed(void* user, const ckpt_late_range* ranges, const uint64_t* block_ends, uint64_t block_count,
                       ckpt_error** err) {
  return give(call_guarded([&] {
                std::vector<std::vector<Bytes>> blocks(block_count);
                uint64_t at = 0;
                for (uint64_t block = 0; block < block_count; block++)
                  for (; at < block_ends[block]; at++)
                    blocks[block].emplace_back(static_cast<const std::byte*>(ranges[at].data), ranges[at].size);
                return feed_of(user).begin(std::move(blocks));
              }),
              err);
}

ckpt_status wait_for_feed(void* user, uint64_t block, int64_t timeout_ms, int32_t* is_there, ckpt_error** err) {
  return give(call_guarded([&]() -> Status {
                CKPT_ASSIGN(const bool there, feed_of(user).wait(block, timeout_ms));
                *is_there = there ? 1 : 0;
                return Ok();
              }),
              err);
}

void end_block(void* user, uint64_t block) { feed_of(user).done(block); }
void end_feed(void* user) { delete static_cast<Feed*>(user); }

}  // namespace

Status Feed::feed(std::vector<std::shared_ptr<RemoteFile>> files, client::Save& save) {
  auto feed = std::make_unique<Feed>(std::move(files));
  const ckpt_late_memory memory{sizeof memory, 0,         feed.get(), fill_feed, begin_feed,
                                wait_for_feed, end_block, end_feed};
  ckpt_error* error = nullptr;
  if (const ckpt_status status = ckpt_save_set_late_memory(save.get(), &memory, &error); status != CKPT_OK)
    return status_of(client::Error(status, error));
  (void)feed.release();
  return Ok();
}

}  // namespace ckpt::interop
