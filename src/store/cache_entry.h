// One file of a cache: the bytes of an object at the offsets that they have there, as far as they were read; a map with
// one byte for each block of 1 MiB, which is 1 once the block is there; and a footer that says what object it is. What
// has no such footer, or that of another version, is written anew, so a crash leaves nothing that counts.
// As long as it is open, a shared lock keeps others from removing it. Whoever reads a block from the server has a lock
// of the block's byte in the map, which ends with its process.
// May be used by many threads; those that lock the same block must agree among themselves.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "store/cache_directory.h"

namespace ckpt::store {

inline constexpr uint64_t kCacheBlock = 1 << 20;

class CacheEntry {
 public:
  // Opens the file `name`, or makes it. `identity`: store and key. Null if it cannot be had, for whatever reason.
  static std::unique_ptr<CacheEntry> open(const CacheDirectory& directory, const std::string& name,
                                          std::string_view identity, const Reader& object);
  // The version of the object of `size` bytes that the file `name` was made for; none if there is no such file.
  static std::optional<std::string> version_of(const CacheDirectory& directory, const std::string& name,
                                               std::string_view identity, uint64_t size);
  ~CacheEntry();
  CacheEntry(const CacheEntry&) = delete;
  CacheEntry& operator=(const CacheEntry&) = delete;

  int fd() const { return file_.get(); }
  uint64_t blocks() const { return (size_ + kCacheBlock - 1) / kCacheBlock; }
  // What the map says now of [first, first + out.size()); false if it cannot be read.
  bool read_map(uint64_t first, MutableBytes out) const;
  // Locks the blocks [first, end), or as many of them as nobody else has. The end of those; `first` if it is none.
  uint64_t lock(uint64_t first, uint64_t end) const;
  void unlock(uint64_t first, uint64_t end) const;
  Status write(uint64_t offset, Bytes data) const;
  // Blocks that were written whole.
  Status mark(uint64_t first, uint64_t end) const;

 private:
  CacheEntry(Fd file, std::string path, uint64_t size) : file_(std::move(file)), path_(std::move(path)), size_(size) {}
  static uint64_t map_offset(uint64_t size) { return round_up(size, kAlign); }

  const Fd file_;
  const std::string path_;
  const uint64_t size_;
};

}  // namespace ckpt::store
