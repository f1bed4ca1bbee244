// An index in a file or in memory: its root, and its pages, each read and checked when it is first needed, and several
// at once for whoever asks for one after the other.
// Concurrent use is fine. Texts and records live as long as the object.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "format/page.h"

namespace ckpt::checkpoint {

// Where an index lies, and what its root must be.
struct IndexPlace {
  format::IndexKind kind = format::IndexKind::kPart;
  uint64_t size = 0, root_size = 0;
  Digest root_digest;
  uint64_t data_end = 0;                  // of a part: where its index begins
  uint32_t rank = format::Root::kNoRank;  // of a part
  bool again = false;  // what does not match its digest may have been damaged on its way: it is read once more
};

// Memory that is read into, of whoever still has it: a thread that reads and is left behind (base/job.h) is one.
struct IndexMemory {
  std::shared_ptr<std::byte[]> data;
  uint64_t size = 0;
  operator MutableBytes() const { return {data.get(), size}; }
};

class IndexFile {
 public:
  // Reads bytes of the index. `again`: what it read before did not match.
  using Read = std::function<Status(uint64_t offset, const IndexMemory& out, bool again)>;
  // An index in memory, which must outlive it and be aligned to 64.
  static Result<std::unique_ptr<IndexFile>> open(const IndexPlace& place, Bytes memory);
  // An index that `read` reads: all of it at once if it is small, or `whole` and not very large; else its root now and
  // pages later, each of which gets memory once the root, or its own digest, vouches for its size.
  static Result<std::unique_ptr<IndexFile>> open(const IndexPlace& place, Read read, bool whole = false);
  ~IndexFile();

  const format::Root& root() const { return root_; }
  // The whole index, if it was read whole or lies in memory; else empty.
  Bytes bytes() const { return memory_; }
  size_t page_count() const { return root_.pages.size(); }
  // CORRUPT, FORMAT, UNSUPPORTED, or an error of the store.
  Result<const format::Page*> page(size_t number) const { return get(number); }
  Result<const format::Page*> page_of(std::string_view name) const { return get(root_.page_of(name)); }
  Result<const format::Page*> part_page(size_t number) const { return get(root_.pages.size() + number); }
  // Reads and checks what is not read yet.
  Status load_all(unsigned threads = 1) const;
  // The part record `number` of a manifest.
  Result<fb::Part> part(uint32_t number) const;

 private:
  struct Loaded {
    std::shared_ptr<std::byte[]> memory;  // of the page, and of those read with it; null: all of the index is in memory
    format::Page page;
  };
  IndexFile() = default;
  Status open_root(const IndexPlace& place, Bytes root);
  // Pages by number: first those of names, then those of parts. They lie in this order.
  const fb::PageRef& ref(size_t number) const {
    const size_t named = root_.pages.size();
    return number < named ? root_.pages[number] : root_.part_pages[number - named];
  }
  const format::Page* find(size_t number) const {
    const Loaded* there = pages_[number].load(std::memory_order_acquire);
    return there ? &there->page : nullptr;
  }
  Result<const format::Page*> get(size_t number) const;
  size_t loaded_before(size_t number) const;
  Status load(size_t number) const;
  void load_row(size_t first, size_t count, unsigned threads) const;
  Status keep(size_t number, Bytes bytes, std::shared_ptr<std::byte[]> memory) const;
  Status check(size_t number, Bytes bytes) const;
  // Where what follows it begins.
  uint64_t end_of(size_t number) const { return number + 1 < pages_.size() ? ref(number + 1).offset() : root_at_; }

  format::Root root_;
  uint64_t root_at_ = 0;
  IndexMemory own_;  // the root, or the whole index
  Bytes memory_;     // the whole index; empty: `read_` reads it
  Read read_;
  bool again_ = false;
  mutable std::vector<std::atomic<const Loaded*>> pages_;  // by number
};

}  // namespace ckpt::checkpoint
