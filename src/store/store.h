// What the engine needs of a place that keeps files: the only door to the outside. Keys are paths relative to the
// store's root with '/' between their elements ("step-100.7.1/PART_000", ".ckpt/owners/7"); they are made by
// format/names, never taken from a file. Links inside a key are refused (FORMAT) by every call.
// Every call on a Store may run concurrently. Everything that says "durable" survives a power cut once it returned OK.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::store {

class IoQueue;

struct Entry {
  std::string name;  // the last element of the key
  bool directory = false;
  uint64_t size = 0;  // of a file
};

// A new file that is written once, at any offsets, by several threads, and then published under its key in one step.
// Destroyed without publish(): removed, as if it had never been.
class Writer {
 public:
  virtual ~Writer() = default;
  // Direct I/O is in use: write_at wants offset, size and address to be multiples of kAlign. Only files that were
  // announced with 1 MiB or more get it.
  virtual bool direct() const = 0;
  // Concurrent calls on disjoint ranges are fine. A short write is completed or an error.
  virtual Status write_at(uint64_t offset, Bytes data) = 0;
  // What IoQueue may write to by itself, as write_at would; -1 where only write_at will do. Ours until publish.
  virtual int descriptor() const { return -1; }
  // It overwrites a retired file (Store::retire_directory): what is not written holds that file's bytes, not zeros.
  virtual bool recycled() const { return false; }
  // Cuts or extends the file to `size`, makes it durable, and creates `key` if it is absent, durably.
  // EXISTS: the key was taken; NOT_FOUND: its directory has gone. In both cases nothing is left behind.
  // After a failed sync the file is given up, never synced again. Whatever it answers, the writer is used up.
  virtual Status publish(uint64_t size) = 0;
};

// An open file. It can be read even after its key was removed (not on every store).
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t size() const = 0;
  // Fills `out` completely. INCOMPLETE where the file ends before.
  virtual Status read_at(uint64_t offset, MutableBytes out) const = 0;

  // ---- past the page cache ----
  // Whether read_at would find this range in memory: a guess from a few pages of it; true where nobody can tell.
  virtual bool cached(uint64_t /*offset*/, uint64_t /*size*/) const { return true; }
  // The multiple that addresses of direct reads must have; 0 where there are none. Offset and size: of kAlign.
  virtual uint64_t direct_align() const { return 0; }
  // Fills `out` completely, past the page cache. INCOMPLETE where the file ends before.
  virtual Status read_direct(uint64_t offset, MutableBytes out) const { return read_at(offset, out); }
  // What IoQueue may read from by itself, as read_direct would; -1 where only read_direct will do.
  virtual int direct_descriptor() const { return -1; }

  // The whole file in memory, valid as long as this Reader; UNSUPPORTED where a store cannot.
  virtual Result<Bytes> map() const = 0;
};

// Held while in existence.
class Lock {
 public:
  virtual ~Lock() = default;
};

class Store {
 public:
  virtual ~Store() = default;

  virtual std::string uri() const = 0;
  // The key as a person would find it: "/data/run7/step-100.7.1/PART_000".
  virtual std::string path(std::string_view key) const = 0;

  // Makes the root if it is absent, and proves that create-if-absent works here (UNSUPPORTED if not).
  virtual Status prepare() = 0;

  // Makes a directory and its parents, durably. Existing ones are fine.
  virtual Status make_directory(std::string_view key) = 0;

  // Creates `key` with these bytes, durably, unless it is there: EXISTS (said once that is durable). The one primitive
  // on which commits rest: of any number of callers at once exactly one gets OK, and readers see nothing or all the
  // bytes. NOT_FOUND: its directory is not there.
  virtual Status put_if_absent(std::string_view key, Bytes data) = 0;

  // A file that will be published as `key`; `expected_size` bytes are preallocated where that is possible. `at_most`:
  // it may end far smaller, so that no room for all of them is no error yet. That the key is taken is said by publish
  // only.
  virtual Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) = 0;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size) {
    return create(key, expected_size, false);
  }

  // For the transfers of the files of this store; see io_queue.h.
  virtual Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const = 0;

  // NOT_FOUND; FORMAT for what is not a regular file (links are not followed).
  virtual Result<std::unique_ptr<Reader>> open(std::string_view key) const = 0;

  // The whole of a small file; FORMAT if it is larger than `limit`.
  Result<std::vector<std::byte>> get(std::string_view key, uint64_t limit) const;

  // The entries of a directory in the order of their names; NOT_FOUND. "" is the root.
  virtual Result<std::vector<Entry>> list(std::string_view directory) const = 0;

  // Removes a file, durably where `sync`. NOT_FOUND if it is not there.
  virtual Status remove(std::string_view key, bool sync) = 0;

  // Moves a directory to another key in one step, durably; EXISTS, NOT_FOUND.
  virtual Status move_directory(std::string_view from, std::string_view to) = 0;

  // Removes a directory with the files in it, `first` (a name in it, may be "") before all others and synced.
  virtual Status remove_directory(std::string_view key, std::string_view first) = 0;

  // The same, but a store may keep the large files that nobody has open, out of sight, for create() to write into.
  virtual Status retire_directory(std::string_view key, std::string_view first) { return remove_directory(key, first); }

  // A shared lock on an existing file: while one is held, try_lock_exclusive of that file is CONFLICT. NOT_FOUND.
  // A store without locks returns a lock that protects nothing.
  virtual Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const = 0;
  virtual Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const = 0;
};

struct StoreOptions {
  bool direct_io = true;  // where possible
  bool uring = true;      // where possible
  bool recycle = true;    // where that is safe
};

// "/dir", "file:///dir" or "mem:NAME". Creates nothing. INVALID, UNSUPPORTED.
Result<std::shared_ptr<Store>> open_store(std::string_view uri, const StoreOptions& options);

// The backends, for open_store and the tests: posix.cpp, memory.cpp.
Result<std::shared_ptr<Store>> open_posix(std::string_view path, const StoreOptions& options);
Result<std::shared_ptr<Store>> open_memory(std::string_view name);

}  // namespace ckpt::store
