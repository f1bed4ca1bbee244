// A part that is read from a cache as far as it is there, exactly as a file of a directory, and from its store as far
// as not; what comes from there then is in the cache. Nothing that goes wrong with the cache is an error of a read. May
// be used by many threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "store/cache_entry.h"
#include "store/posix_reader.h"

namespace ckpt::store {

class CacheReader final : public Reader {
 public:
  // `file` is that of the entry; it may be longer than the object.
  CacheReader(std::shared_ptr<CacheDirectory> directory, std::unique_ptr<Reader> source,
              std::unique_ptr<CacheEntry> entry, std::unique_ptr<PosixReader> file);

  uint64_t size() const override { return source_->size(); }
  std::string version() const override { return source_->version(); }
  Status read_at(uint64_t offset, MutableBytes out) const override;
  Status read_again(uint64_t offset, MutableBytes out) const override;
  Way way(uint64_t offset, uint64_t size) const override;
  bool cached(uint64_t offset, uint64_t size) const override;
  uint64_t direct_align() const override { return file_->direct_align(); }
  Status read_direct(uint64_t offset, MutableBytes out) const override;
  int direct_descriptor(uint64_t offset, uint64_t size) const override {
    return is_there(offset, size) ? file_->direct_descriptor(offset, size) : -1;
  }
  Result<Bytes> map() const override { return source_->map(); }

 private:
  // Blocks [first, end) that this thread is to bring: nobody else does.
  class Claim;
  enum class Block : uint8_t { kMissing, kComing, kThere };

  bool is_there(uint64_t offset, uint64_t size) const;
  void look_at_map(uint64_t first, uint64_t end) const;
  Status read_some(uint64_t offset, MutableBytes out, size_t* done) const;
  Status bring(const Claim& claim, uint64_t offset, MutableBytes out, size_t* done) const;
  void keep(const Claim& claim, Bytes bytes) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const std::unique_ptr<Reader> source_;
  const std::unique_ptr<CacheEntry> entry_;
  const std::unique_ptr<PosixReader> file_;
  mutable std::atomic<bool> unreadable_{false}, unwritable_{false};  // the cache's file
  mutable std::atomic<bool> hurried_{false};                         // waits for no other process any more
  mutable std::mutex mutex_;                                         // of changes of blocks_
  mutable std::condition_variable changed_;
  mutable std::vector<std::atomic<Block>> blocks_;
};

}  // namespace ckpt::store
