#include "store/cache_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/call.h"
#include "store/keys.h"

namespace ckpt::store {

static constexpr uint64_t kMostBlocks = 8;  // of one request

CacheReader::CacheReader(std::shared_ptr<CacheDirectory> directory, std::unique_ptr<Reader> source,
                         std::unique_ptr<CacheEntry> entry, std::unique_ptr<PosixReader> file)
    : directory_(std::move(directory)),
      source_(std::move(source)),
      entry_(std::move(entry)),
      file_(std::move(file)),
      blocks_(entry_->blocks()) {
  look_at_map(0, blocks_.size());
}

// ---- what is there ----

bool CacheReader::is_there(uint64_t offset, uint64_t size) const {
  if (unreadable_ || size == 0) return false;
  const uint64_t end = std::min<uint64_t>((offset + size - 1) / kCacheBlock + 1, blocks_.size());
  for (uint64_t i = offset / kCacheBlock; i < end; i++)
    if (blocks_[i] != Block::kThere) return false;
  return true;
}

// Takes over what others have brought meanwhile.
void CacheReader::look_at_map(uint64_t first, uint64_t end) const {
  std::vector<std::byte> map(end - first);
  if (!entry_->read_map(first, map)) {
    unwritable_ = true;  // somebody cut the file
    return;
  }
  std::lock_guard lock(mutex_);
  for (uint64_t i = first; i < end; i++)
    if (map[i - first] == std::byte{1}) blocks_[i] = Block::kThere;
}

bool CacheReader::cached(uint64_t offset, uint64_t size) const {
  return is_there(offset, size) ? file_->cached(offset, size) : source_->cached(offset, size);
}

Reader::Way CacheReader::way(uint64_t offset, uint64_t size) const {
  return is_there(offset, size) ? file_->way(offset, size) : source_->way(offset, size);
}

// ---- claims ----

class CacheReader::Claim {
 public:
  Claim(const CacheReader& reader, uint64_t first) : reader_(reader), first_(first), end_(first) {}
  // Takes missing blocks: from the other threads, then from the other processes.
  void take(uint64_t last) {
    if (take_from_threads(std::min(last + 1, first_ + kMostBlocks))) take_from_processes();
  }
  ~Claim() {
    if (locked_ > first_) reader_.entry_->unlock(first_, locked_);
    give_back(first_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // None: the first block is there, or another process does not get on with it.
  bool empty() const { return locked_ <= first_; }
  uint64_t first() const { return first_; }
  uint64_t end() const { return end_; }
  uint64_t begin_byte() const { return first_ * kCacheBlock; }
  uint64_t end_byte() const { return std::min(end_ * kCacheBlock, reader_.size()); }
  // They are in the cache.
  void landed() const {
    std::lock_guard lock(reader_.mutex_);
    for (uint64_t i = first_; i < end_; i++) reader_.blocks_[i] = Block::kThere;
  }

 private:
  bool take_from_threads(uint64_t end) {
    std::unique_lock lock(reader_.mutex_);
    while (reader_.blocks_[first_] == Block::kComing && CallContext::current().check().ok())
      reader_.changed_.wait_for(lock, std::chrono::milliseconds(100));
    if (reader_.blocks_[first_] == Block::kComing) return false;  // nobody waits for this thread any more
    while (end_ < end && reader_.blocks_[end_] == Block::kMissing) reader_.blocks_[end_++] = Block::kComing;
    return end_ > first_;
  }

  // What another process has, it brings: waits for it, unless it stands still.
  void take_from_processes() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(reader_.directory_->patience_ms());
    for (int64_t pause = 1;; pause = std::min<int64_t>(pause * 2, 50)) {
      locked_ = reader_.entry_->lock(first_, end_);
      give_back(std::max(locked_, first_ + 1));
      reader_.look_at_map(first_, end_);
      stop_at_what_is_there();
      if (locked_ > first_ || reader_.blocks_[first_] == Block::kThere || reader_.hurried_) return;
      if (!CallContext::current().check().ok()) return;
      if (std::chrono::steady_clock::now() >= until) {
        reader_.hurried_ = true;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    }
  }

  void stop_at_what_is_there() {
    uint64_t end = first_;
    while (end < end_ && reader_.blocks_[end] == Block::kComing) end++;
    if (locked_ > end) {
      reader_.entry_->unlock(end, locked_);
      locked_ = end;
    }
    give_back(std::max(end, first_ + 1));
  }

  void give_back(uint64_t from) {
    std::lock_guard lock(reader_.mutex_);
    for (uint64_t i = from; i < end_; i++)
      if (reader_.blocks_[i] == Block::kComing) reader_.blocks_[i] = Block::kMissing;
    if (from < end_) end_ = from;
    reader_.changed_.notify_all();
  }

  const CacheReader& reader_;
  const uint64_t first_;
  uint64_t end_, locked_ = 0;
};

// ---- reading ----

Status CacheReader::read_at(uint64_t offset, MutableBytes out) const {
  uint64_t end = 0;
  if (add_overflows(offset, out.size(), &end) || end > size()) return source_->read_at(offset, out);  // says why not
  if (is_there(offset, out.size()) && file_->read_at(offset, out).ok()) return Ok();
  for (size_t at = 0, done = 0; at < out.size(); at += done) CKPT_TRY(read_some(offset + at, out.subspan(at), &done));
  return Ok();
}

Status CacheReader::read_direct(uint64_t offset, MutableBytes out) const {
  if (is_there(offset, out.size()) && file_->read_direct(offset, out).ok()) return Ok();
  return read_at(offset, out);
}

// Reads the beginning of `out`: what is there, or what one request brings.
Status CacheReader::read_some(uint64_t offset, MutableBytes out, size_t* done) const {
  const uint64_t first = offset / kCacheBlock, last = (offset + out.size() - 1) / kCacheBlock;
  if (!unreadable_ && blocks_[first] == Block::kThere) {
    uint64_t end = first + 1;
    while (end <= last && blocks_[end] == Block::kThere) end++;
    *done = std::min<uint64_t>(out.size(), end * kCacheBlock - offset);
    if (file_->read_at(offset, out.first(*done)).ok()) return Ok();
    unreadable_ = unwritable_ = true;
  }
  *done = out.size();
  // What came with the opening costs no request; a block that came whole is kept for others.
  const bool is_here = source_->cached(offset, out.size()) && !source_->cached(first * kCacheBlock, kCacheBlock);
  if (unwritable_ || is_here) return source_->read_at(offset, out);
  Claim claim(*this, first);
  claim.take(last);
  if (!claim.empty()) return bring(claim, offset, out, done);
  *done = std::min<uint64_t>(out.size(), (first + 1) * kCacheBlock - offset);
  return is_there(offset, *done) ? read_some(offset, out.first(*done), done)
                                 : source_->read_at(offset, out.first(*done));
}

// Reads the blocks of a claim from the store, and keeps them.
Status CacheReader::bring(const Claim& claim, uint64_t offset, MutableBytes out, size_t* done) const {
  const uint64_t begin = claim.begin_byte(), end = claim.end_byte();
  *done = std::min<uint64_t>(out.size(), end - offset);
  if (!directory_->take_room(end - begin)) return source_->read_at(offset, out.first(*done));
  if (begin == offset && *done == end - begin) {
    CKPT_TRY(source_->read_at(begin, out.first(*done)));
    keep(claim, out.first(*done));
    return Ok();
  }
  std::vector<std::byte> whole(end - begin);
  CKPT_TRY(source_->read_at(begin, whole));
  keep(claim, whole);
  std::memcpy(out.data(), whole.data() + (offset - begin), *done);
  return Ok();
}

// The bytes first, so that what is marked is there.
void CacheReader::keep(const Claim& claim, Bytes bytes) const {
  Status kept = entry_->write(claim.begin_byte(), bytes);
  if (kept.ok()) kept = entry_->mark(claim.first(), claim.end());
  if (kept.ok()) return claim.landed();
  unwritable_ = true;
  directory_->note(std::move(kept));
}

// Past the cache, which then has what the store has.
Status CacheReader::read_again(uint64_t offset, MutableBytes out) const {
  CKPT_TRY(source_->read_again(offset, out));
  const uint64_t end = offset + out.size();
  for (uint64_t at = offset, next; at < end; at = next) {
    next = std::min(end, (at / kCacheBlock + 1) * kCacheBlock);
    if (is_there(at, next - at)) (void)entry_->write(at, out.subspan(at - offset, next - at));
  }
  return Ok();
}

}  // namespace ckpt::store
