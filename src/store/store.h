// A place that keeps files: the engine's only door to the outside. Keys are paths relative to the store's root, with
// '/' between their elements ("step-100.7.1/PART_000", ".ckpt/owners/7"). format/names makes them; they are never read
// from a file. Every call refuses links inside a key (FORMAT).
// Every call on a Store may run concurrently. Whatever is called "durable" survives a power cut once the call has
// returned OK.
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

// A new file. Several threads write it once, at any offsets; then publish() makes it appear under its key in one step.
// Destroying it without publish() removes it, as if it had never existed.
class Writer {
 public:
  virtual ~Writer() = default;
  // Whether direct I/O is in use: offset, size and address of write_at must then be multiples of kAlign. Only files
  // that were announced with 1 MiB or more use it.
  virtual bool direct() const = 0;
  // Calls on disjoint ranges may run concurrently. A short write is completed or is an error.
  virtual Status write_at(uint64_t offset, Bytes data) = 0;
  // A descriptor to which IoQueue may write directly, as write_at would; -1 if only write_at will do. The writer owns
  // it and closes it in publish.
  virtual int descriptor() const { return -1; }
  // Whether it overwrites a retired file (Store::retire_directory): bytes that are not written then are old bytes, not
  // zeros.
  virtual bool recycled() const { return false; }
  // Cuts or extends the file to `size`, makes it durable, and creates `key` if it is absent, durably.
  // EXISTS: the key is taken. NOT_FOUND: its directory is gone. Neither leaves anything behind. After a failed sync the
  // file is given up, never synced again. Whatever publish returns, the writer cannot be used again.
  virtual Status publish(uint64_t size) = 0;
};

// An open file. Some stores can read it even after its key was removed.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t size() const = 0;
  // Fills `out` completely. INCOMPLETE if the file ends before.
  virtual Status read_at(uint64_t offset, MutableBytes out) const = 0;

  // ---- bypassing the page cache ----
  // Whether read_at would find this range in memory. A guess from a few of its pages; true if nobody can tell.
  virtual bool cached(uint64_t /*offset*/, uint64_t /*size*/) const { return true; }
  // The alignment that direct reads need for addresses; 0 if there are no direct reads. Offset and size must be
  // multiples of kAlign.
  virtual uint64_t direct_align() const { return 0; }
  // Like read_at, but bypasses the page cache. INCOMPLETE if the file ends before.
  virtual Status read_direct(uint64_t offset, MutableBytes out) const { return read_at(offset, out); }
  // A descriptor from which IoQueue may read directly, as read_direct would; -1 if only read_direct will do.
  virtual int direct_descriptor() const { return -1; }

  // The whole file in memory, valid as long as this Reader; UNSUPPORTED if the store cannot map files.
  virtual Result<Bytes> map() const = 0;
  // Maps the file and gives up what else the reader holds open. Afterwards only map() may be called.
  virtual Status keep_map() { return map().status(); }
};

// A lock, held as long as this object exists.
class Lock {
 public:
  virtual ~Lock() = default;
};

class Store {
 public:
  virtual ~Store() = default;

  virtual std::string uri() const = 0;
  // The key as a person would look for it: "/data/run7/step-100.7.1/PART_000".
  virtual std::string path(std::string_view key) const = 0;

  // Makes the root if it is absent, and tests that create-if-absent works here (UNSUPPORTED if not).
  virtual Status prepare() = 0;

  // Makes a directory and its parents, durably. Existing ones are fine.
  virtual Status make_directory(std::string_view key) = 0;

  // Creates `key` with these bytes, durably, if it is absent. EXISTS otherwise, but only once the existing file is
  // durable. Commits rest on this one primitive: of any number of concurrent callers exactly one gets OK, and readers
  // see nothing or all the bytes. NOT_FOUND: its directory does not exist.
  virtual Status put_if_absent(std::string_view key, Bytes data) = 0;

  // A file that will be published as `key`. Preallocates `expected_size` bytes if possible. `at_most`: the file may
  // become far smaller, so lack of space for all these bytes is no error yet. Only publish() reports an existing key.
  virtual Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) = 0;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size) {
    return create(key, expected_size, false);
  }

  // For transfers of this store's files; see io_queue.h.
  virtual Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const = 0;

  // NOT_FOUND; FORMAT if it is not a regular file (links are not followed).
  virtual Result<std::unique_ptr<Reader>> open(std::string_view key) const = 0;

  // The whole of a small file; FORMAT if it is larger than `limit`.
  Result<std::vector<std::byte>> get(std::string_view key, uint64_t limit) const;

  // The entries of a directory, in the order of their names; NOT_FOUND. "" is the root.
  virtual Result<std::vector<Entry>> list(std::string_view directory) const = 0;

  // Removes a file, durably if `sync` is set. NOT_FOUND.
  virtual Status remove(std::string_view key, bool sync) = 0;

  // Moves a directory to another key in one step, durably; EXISTS, NOT_FOUND.
  virtual Status move_directory(std::string_view from, std::string_view to) = 0;

  // Removes a directory with the files in it. `first` (a name in it, may be "") goes before all others, and that is
  // synced.
  virtual Status remove_directory(std::string_view key, std::string_view first) = 0;

  // The same, but the store may keep large files that nobody has open, out of sight, for create() to overwrite.
  virtual Status retire_directory(std::string_view key, std::string_view first) { return remove_directory(key, first); }

  // A shared lock on an existing file: while one is held, try_lock_exclusive of that file is CONFLICT. NOT_FOUND.
  // A store without locks returns a lock that protects nothing.
  virtual Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const = 0;
  virtual Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const = 0;
};

struct StoreOptions {
  bool direct_io = true;  // if possible
  bool uring = true;      // if possible
  bool recycle = true;    // if safe
};

// "/dir", "file:///dir" or "mem:NAME". Creates nothing. INVALID, UNSUPPORTED.
Result<std::shared_ptr<Store>> open_store(std::string_view uri, const StoreOptions& options);

// The backends, for open_store and the tests: posix.cpp, memory.cpp.
Result<std::shared_ptr<Store>> open_posix(std::string_view path, const StoreOptions& options);
Result<std::shared_ptr<Store>> open_memory(std::string_view name);

}  // namespace ckpt::store
