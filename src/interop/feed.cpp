#include "interop/feed.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "base/call.h"
#include "base/parallel.h"
#include "base/thread.h"

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

Feed::Feed(std::vector<std::shared_ptr<RemoteFile>> files) : files_(by_address(std::move(files))) {}

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
  std::map<RemoteFile*, std::vector<ByteRange>> wanted;
  for (const Bytes sample : samples)
    if (Piece piece; place_of(sample, &piece)) wanted[piece.file].push_back(piece.range);
  for (auto& [file, ranges] : wanted) CKPT_TRY(file->fetch(std::move(ranges)));
  return Ok();
}

// Ranges that overlap are spilled now: giving one back would take it from the others.
Status Feed::begin(std::vector<std::vector<Bytes>> blocks) {
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
    if (!start_thread(&worker, [this, context = CallContext::current()] {
          const ContextScope on(context);
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

Status Feed::wait(size_t block, const std::function<Status()>& go_on) {
  for (;;) {
    CKPT_TRY(go_on());
    std::unique_lock lock(mutex_);
    if (!error_.ok()) return error_;
    if (blocks_[block].waiting == 0) return Ok();
    changed_.wait_for(lock, std::chrono::milliseconds(50));
  }
}

void Feed::done(size_t block) {
  for (const Piece& piece : blocks_[block].ranges) piece.file->give_back(piece.range);
  std::lock_guard lock(mutex_);
  done_++;
  changed_.notify_all();
}

}  // namespace ckpt::interop
