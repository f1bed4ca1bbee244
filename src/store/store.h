// A place that keeps files: the engine's only door to the outside. Keys are paths relative to the store's root, with
// '/' between their elements ("step-100.7.1/PART_000", ".ckpt/owners/7"). format/names makes them; they are never read
// from a file. Every call refuses links inside a key (FORMAT).
// Every call on a Store may run concurrently. Whatever is called "durable" survives a power cut once the call has
// returned OK.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/call_options.h"
#include "base/status.h"
#include "base/types.h"

namespace ckpt::store {

class IoQueue;

// What a file takes. Files with the same `inode` are one file under several names; 0: it has no other name, or nobody
// can tell.
struct FileUse {
  std::string name;  // the last element of the key
  uint64_t size = 0, links = 1, inode = 0;
};

// What a part holds, whatever its key is: parts of the same `id`, and no others, have the same bytes. "": nobody can
// tell, and the key counts.
struct Content {
  Content(uint64_t its_size, std::string its_id = "")  // NOLINT: a size is the least that is known
      : size(its_size), id(std::move(its_id)) {}
  uint64_t size;
  std::string id;
};

struct Entry {
  std::string name;  // the last element of the key
  bool directory = false;
  // Of a file, if the store tells it with the name:
  int64_t age_ms = -1;    // see Store::age_ms
  int64_t size = -1;      // of its bytes
  std::string version{};  // see Reader::version
};

// What a store is like, for those who plan transfers and waits.
struct Traits {
  // Writes of so many bytes, so many at once, are what it does best; none but the last of a file should be smaller than
  // the least.
  uint64_t block_bytes = 8 << 20;
  uint64_t least_block_bytes = 0;
  // A file should have no more writes than this, and what does not keep to these rules is copied by the writer, of
  // which so many bytes may be in memory beside the blocks.
  uint64_t most_blocks = UINT64_MAX;
  uint64_t copied_bytes = 0;
  unsigned write_depth = 4;
  unsigned read_depth = 8;
  // Neighbouring bytes are best read together up to this size: on a server each read is a request, which costs money.
  uint64_t read_bytes = 4 << 20;
  // A listing may lack what was put, and show what was removed, less than so many milliseconds before.
  int64_t list_delay_ms = 0;
  // What can be read is durable. So a put whose answer was lost is settled by reading.
  bool visible_is_durable = false;
  // Bytes may be damaged on their way here: what does not match its checksum is asked for once more.
  bool remote = false;
  // open_cached may give bytes that a crash or this machine's disk has damaged: they are checked, whatever the caller
  // wants.
  bool cached = false;
  // Files are in directories: nothing can be put into one that is not there, and removing it ends all writing to it.
  bool directories = true;
  // Of several processes that put a file if it is absent, one gets OK. If not, only one process may write.
  bool exclusive = true;
  // Other machines reach its files by mounts of their own: a lock that is free may only have been forgotten by a
  // server.
  bool shared = false;
  // All of them see each lock. If not, another machine may remove what this one has locked.
  bool common_locks = true;
  // It can tell what it holds. If not, a checkpoint is found by its id alone.
  bool lists = true;
  // borrow() copies the file, which takes its time and room: whoever may not need it waits until he knows.
  bool borrows_by_copy = false;
  // Its client on this machine looks ahead of whoever reads a file from front to back by a descriptor of his own. So
  // each of `read_depth` threads reads such a stream, ranges of this size. 0: reads are in order, by io_uring.
  uint64_t stream_bytes = 0;
  // What retire() takes out of sight stays for so long, for those who have it open. 0 where locks keep it for them.
  int64_t grace_ms = 0;
  // It has no locks, but knows how old a file is: so those who work show signs of life (heartbeat.h).
  bool tells_age = false;
};

// A new file. Several threads write it once; then publish() makes it appear under its key in one step. Destroying it
// without publish() removes it, as if it had never existed. The engine writes from front to back, without holes and
// with no more than a few blocks under way, so that a store without random access can do it too.
class Writer {
 public:
  virtual ~Writer() = default;
  // Whether direct I/O is in use: offset and size of write_at must then be multiples of kAlign, its address one of
  // direct_align(). Only files that were announced with 1 MiB or more use it.
  virtual bool direct() const = 0;
  virtual uint64_t direct_align() const { return kAlign; }
  // Calls on disjoint ranges may run concurrently. A short write is completed or is an error.
  virtual Status write_at(uint64_t offset, Bytes data) = 0;
  // A descriptor to which IoQueue may write directly, as write_at would; -1 if only write_at will do. The writer owns
  // it and closes it in publish.
  virtual int descriptor() const { return -1; }
  // Whether it overwrites a retired file (Store::retire): bytes that are not written then are old bytes, not
  // zeros.
  virtual bool recycled() const { return false; }
  // What a person looks for, while it is being written to; "" if descriptor() is -1.
  virtual std::string_view where() const { return {}; }
  // Before what ends there is written. Preallocates more than that, if possible, where create() was told `at_most`.
  virtual void make_room(uint64_t /*end*/) {}
  // Cuts or extends the file to `size`, makes it durable, and creates `key` if it is absent, durably.
  // EXISTS: the key is taken. NOT_FOUND: its directory is gone. Neither leaves anything behind. After a failed sync the
  // file is given up, never synced again. Whatever publish returns, the writer cannot be used again.
  virtual Status publish(uint64_t size) = 0;
  // Some of its bytes will never come: a write that waits for those before it ends with an error.
  virtual void abandon() {}
};

// An open file: always the same bytes. Some stores can read them even after the key was removed; in others every later
// call is GONE then.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t size() const = 0;
  // What tells its bytes from those of any other file that was or will be under this key; "" if nothing does.
  virtual std::string version() const { return {}; }
  // What a person looks for; "" where direct_descriptor() is always -1.
  virtual std::string_view where() const { return {}; }
  // Fills `out` completely. INCOMPLETE if the file ends before.
  virtual Status read_at(uint64_t offset, MutableBytes out) const = 0;
  // The same for what did not match its checksum: from where the file really is.
  virtual Status read_again(uint64_t offset, MutableBytes out) const { return read_at(offset, out); }
  Status read(uint64_t offset, MutableBytes out, bool again) const {
    return again ? read_again(offset, out) : read_at(offset, out);
  }

  // How a range is best read: at once by read_at, on the thread that needs it, or through an IoQueue, several at a
  // time, while threads do other things. The store decides: what lies in memory, or is too little to wait for, is read
  // at once.
  struct Way {
    bool queued = false;
    uint64_t unit = 1;   // if queued: offset and size must be multiples of it
    uint64_t align = 1;  // if queued: addresses must be multiples of it
  };
  virtual Way way(uint64_t /*offset*/, uint64_t /*size*/) const { return {}; }

  // ---- bypassing the page cache ----
  // Whether read_at would find this range in memory. A guess from a few of its pages; true if nobody can tell.
  virtual bool cached(uint64_t /*offset*/, uint64_t /*size*/) const { return true; }
  // The alignment that direct reads need for addresses; 0 if there are no direct reads. Offset and size must be
  // multiples of kAlign.
  virtual uint64_t direct_align() const { return 0; }
  // Like read_at, but bypasses the page cache. INCOMPLETE if the file ends before.
  virtual Status read_direct(uint64_t offset, MutableBytes out) const { return read_at(offset, out); }
  // A descriptor from which IoQueue may read this range directly, as read_direct would; -1 if only read_direct will do.
  virtual int direct_descriptor(uint64_t /*offset*/, uint64_t /*size*/) const { return -1; }

  // The whole file in memory, valid as long as this Reader; UNSUPPORTED if the store cannot map files.
  virtual Result<Bytes> map() const = 0;
  // Maps the file and gives up what else the reader holds open. Afterwards only map() may be called.
  virtual Status keep_map() { return map().status(); }
};

// A file that gets a second name: Store::borrow.
class Borrowed {
 public:
  virtual ~Borrowed() = default;
  // The file, open under its new name if it has that already. What nobody has looked at may be any regular file.
  virtual const Reader& file() const = 0;
  // Now it has its new name, which lasts once a file of the same directory has been published.
  virtual Status publish() { return Ok(); }
  // The same where nothing else will be published there: it lasts at once.
  virtual Status publish_durably() { return publish(); }
  // It is not what was wanted: the new name goes, unless it was there before.
  virtual void drop() = 0;
};

// A lock, held as long as this object exists.
class Lock {
 public:
  virtual ~Lock() = default;
  // False if the store has no locks: then this one keeps nobody out.
  virtual bool protects() const { return true; }
};

// All of a file. FORMAT if it is larger than `limit`; `path` is for the error.
Result<std::vector<std::byte>> read_all(const Reader& file, uint64_t limit, std::string_view path);

// What is read of a key that may be replaced, or removed, between its opening and its reading.
template <typename Read>
auto read_whole(const Read& read) {
  constexpr int kTries = 4;
  auto data = read();
  for (int i = 1; i < kTries && data.status().code() == CKPT_GONE; i++) data = read();
  return data;
}

class Store {
 public:
  virtual ~Store() = default;

  virtual std::string uri() const = 0;
  // No other store has it: the URI, and the server if the URI does not name it.
  virtual std::string identity() const { return uri(); }
  // The key as a person would look for it: "/data/run7/step-100.7.1/PART_000".
  virtual std::string path(std::string_view key) const = 0;
  virtual Traits traits() const { return {}; }

  // Makes the root if it is absent.
  virtual Status make_root() = 0;
  // The same, and tests that create-if-absent works here (UNSUPPORTED if not), and removes what crashes left.
  virtual Status prepare() = 0;

  // Makes a directory and its parents, durably. Existing ones are fine. A store without directories does nothing.
  virtual Status make_directory(std::string_view key) = 0;

  // Creates `key` with these bytes, durably, if it is absent. EXISTS otherwise, but only once the existing file is
  // durable. Commits rest on this one primitive: of any number of concurrent callers exactly one gets OK, and readers
  // see nothing or all the bytes. NOT_FOUND: its directory does not exist.
  virtual Status put_if_absent(std::string_view key, Bytes data) = 0;
  // The same for data that nobody else would put there: if its answer is lost, what is there tells whether it was done.
  Status put_own(std::string_view key, Bytes data);
  // The same for data that several may put there: OK also if it is there already, CONFLICT if something else is.
  Status put_same(std::string_view key, Bytes data);

  // A file that will be published as `key`. Preallocates `expected_size` bytes if possible. `at_most`: the file may
  // become far smaller, so its room grows with it (Writer::make_room), and lack of space is no error yet. Only
  // publish() reports an existing key.
  virtual Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) = 0;
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size) {
    return create(key, expected_size, false);
  }

  // For transfers of this store's files; see io_queue.h.
  virtual Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const = 0;

  // NOT_FOUND; FORMAT if it is not a regular file (links are not followed).
  virtual Result<std::unique_ptr<Reader>> open(std::string_view key) const = 0;
  // The same for whoever has its bytes already if it is the version that he knows: brings none of them.
  virtual Result<std::unique_ptr<Reader>> open_lazily(std::string_view key) const { return open(key); }
  // The same for a part of which each byte that is used is checked: it may come from a cache on this machine, and then
  // the store is not asked for it, unless `ask` is set.
  virtual Result<std::unique_ptr<Reader>> open_cached(std::string_view key, const Content& /*content*/,
                                                      bool /*ask*/) const {
    return open(key);
  }

  // The whole of a small file; FORMAT if it is larger than `limit`. CORRUPT if the store knows that it is not what was
  // put: records have no other protection. Files that check themselves are opened, so that they can be looked into.
  Result<std::vector<std::byte>> get(std::string_view key, uint64_t limit) const;

  // Whether a file is there: the cheapest question, for those who wait for one name. A store with directories may say
  // yes of one.
  virtual Result<bool> exists(std::string_view key) const = 0;
  // Whether there is a directory, or anything below such a name.
  virtual Result<bool> has_directory(std::string_view key) const = 0;
  // Where the directory `name` of the root lies, if it is a symbolic link; else "". What is below is read there, and
  // never written or removed.
  virtual std::string link_of(std::string_view /*name*/) const { return {}; }

  // The entries of a directory, in the order of their names; NOT_FOUND. "" is the root. Looks at no entry by itself.
  virtual Result<std::vector<Entry>> list(std::string_view directory) const = 0;
  // The same of a directory that anybody may have filled: UNSUPPORTED where it has more than `most` entries.
  virtual Result<std::vector<Entry>> list_at_most(std::string_view directory, size_t most) const;
  // What the files in a directory take, in no order; NOT_FOUND. Looks at each.
  virtual Result<std::vector<FileUse>> usage(std::string_view directory) const = 0;
  // Their sizes in all. A file that has two names there counts once.
  Result<uint64_t> bytes_in(std::string_view directory) const;
  // Of these, those of files that have another name elsewhere: they stay when the directory is removed.
  Result<uint64_t> bytes_shared(std::string_view directory) const;

  // Gives the file `from` the second name `to`, so that neither of the two directories needs the other one. Its bytes
  // must not change any more. It is fine if `to` is there: the caller looks at what it is. UNSUPPORTED: this file can
  // have no other name, or not there; then detail "errno" is EMLINK if only this file has too many names. NOT_FOUND;
  // GONE: it was removed or replaced meanwhile.
  virtual Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to);

  // Removes a file, durably if `sync` is set. NOT_FOUND.
  virtual Status remove(std::string_view key, bool sync) = 0;
  // Removes a directory with the files in it. NOT_FOUND.
  virtual Status remove_directory(std::string_view key) = 0;

  // ---- signs of life, where Traits::tells_age; else UNSUPPORTED ----

  // Puts a small file, whatever is there. Tries once: who calls it will call it again.
  virtual Status put_over(std::string_view key, Bytes data);
  // How long ago a file was put, by the store's own clock, in whole seconds or better; -1 if it does not say now.
  // NOT_FOUND.
  virtual Result<int64_t> age_ms(std::string_view key) const;

  // ---- attempts: the directory that the parts and the commit record of one save go into ----

  // Puts `record`, unless it is there, and then makes the directory, durably. So what exists is recorded. CONFLICT: the
  // record that is there says something else.
  virtual Status open_attempt(std::string_view record, Bytes text, std::string_view directory);
  // Whether an attempt was opened and is still there. For polls: asks one thing.
  virtual Result<bool> attempt_exists(std::string_view record, std::string_view directory) const;
  // Removes a checkpoint or attempt for good: out of sight first, in one step, and then its files. Once it is out of
  // sight this is OK, whatever else fails: who prepares or finishes removals later ends it. NOT_FOUND; CONFLICT if it
  // holds a directory that ckpt did not make, and then nothing is lost.
  // `slot` is the name of its commit record. A store without directories replaces that by `tombstone`. Its files stay
  // for Traits::grace_ms: what was open before, also the slot, can be read to its end. The tombstone stays as long as a
  // request that was made before may arrive; NOT_FOUND if it is there. If `tombstone` is empty, the slot has one
  // already, which stays for good: it keeps out a writer that wakes up late. A store with directories may keep large
  // files that nobody has open, out of sight, for create() to overwrite.
  virtual Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) = 0;
  // Removes what retire() left for later, by whomever, as far as it is time for it. What fails is left to the next one;
  // returns the first such error.
  virtual Status finish_removals() { return Ok(); }
  // Removes what writers that died left in a directory, as far as the store can tell that they are dead.
  virtual void sweep(std::string_view /*directory*/) {}

  // A shared lock on an existing file: while one is held, try_lock_exclusive of that file is CONFLICT. NOT_FOUND.
  // A store without locks returns a lock that protects nothing, and need not look whether the file is there.
  virtual Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const = 0;
  virtual Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const = 0;

 protected:
  // One try of get(); GONE if the key was replaced or removed meanwhile.
  virtual Result<std::vector<std::byte>> get_once(std::string_view key, uint64_t limit) const;
};

// What is read of a store, as a Status or Result. Of one that is remote, what makes no sense may have been damaged on
// its way, so it is read once more.
template <typename Read>
auto read_checked(const Store& store, Read&& read) -> decltype(read()) {
  auto told = read();
  ckpt_status code;
  if constexpr (requires { told.code(); })
    code = told.code();
  else
    code = told.status().code();
  const bool damaged = code == CKPT_CORRUPT || code == CKPT_FORMAT;
  if (damaged && store.traits().remote) return read();
  return told;
}

// How patient the requests of an object store are.
struct S3Timing {
  long connect_ms = 10000;
  long stall_s = 20;         // so long without a KiB each second
  int64_t retry_ms = 30000;  // so long after its first failure a request is tried again
  int64_t first_ms = 5000;   // the same, as long as the server has never answered
};

// Of all object stores; "" means: as the environment, or ~/.aws, says.
struct S3Options {
  ByName by_name{};
  std::string endpoint{}, region{}, profile{}, ca_file{}, account{}, sas_token{};
  std::string path_style = "auto";
  bool conditional = true;  // false: for one writer on a server without that condition
  bool uniform = false;     // all parts of an upload but the last have one size; R2 wants it anyway
  int64_t grace_ms = 0;     // Traits::grace_ms
  S3Timing timing{};
};

struct WebOptions {
  ByName by_name{};
  std::string header{};  // "Authorization: Bearer x": sent to the store's own host, and to no other
  std::string ca_file{};
  S3Timing timing{};
};

// Why a cache stopped keeping what is read: the first failure of its disk. Loads do without, so nobody else is told.
// May be used by many threads.
class CacheTrouble {
 public:
  void note(Status status) {
    std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = std::move(status).in("loads read the store itself");
  }
  Status first() const {
    std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  Status first_;
};

struct CacheOptions {
  ByName by_name{};
  std::string directory{};                  // "": none
  uint64_t bytes = 0;                       // at most; 0: as many as leave 5 % of the file system free
  int64_t patience_ms = 10000;              // so long a reader waits for what another process is reading
  uint64_t credit = 64 << 20;               // what a handle may add before it looks at the others again
  std::shared_ptr<CacheTrouble> trouble{};  // hears of a disk that fails later; may be null
};

struct StoreSettings {
  ByName by_name{};
  bool direct_io = true;  // if possible
  bool uring = true;      // if possible
  bool recycle = true;    // if safe
  CacheOptions cache{};   // of a remote store
  S3Options s3{};
  WebOptions web{};
};

// What calls that reach a server say of it: StoreOptions, and those of files of other programs.
StoreSettings server_settings(const auto& options) {
  return {.s3 = {.endpoint = options.endpoint,
                 .region = options.region,
                 .profile = options.profile,
                 .ca_file = options.ca_file,
                 .account = options.account,
                 .sas_token = options.sas_token,
                 .path_style = options.path_style},
          .web = {.header = options.http_header, .ca_file = options.ca_file}};
}

// "/dir", "file:///dir", "mem:NAME", "s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix" or
// "https://host/dir", without a cache. Creates nothing. INVALID, UNSUPPORTED.
Result<std::shared_ptr<Store>> open_store(std::string_view uri, const StoreSettings& options);

// A store and the one that is to hold the same, which may be null; and why the cache has no effect, null without one.
struct OpenedPlaces {
  std::shared_ptr<Store> store, mirror;
  std::shared_ptr<CacheTrouble> cache_trouble;
};
// Opens both. A cache is put before those that are remote: INVALID if neither is. What else is wrong with a cache costs
// time and nothing more, so it ends no trainer: loads do without, and the trouble says why.
Result<OpenedPlaces> open_places(std::string_view uri, const StoreOptions& options);

// Whether it begins with http:// or https://, and is no object store (base/address.h).
bool is_web_url(std::string_view text);

// The file "https://host/a/b.pt?x" is "b.pt" in the store "https://host/a?x". INVALID if the address names no file.
struct WebFile {
  std::string store, key;
};
Result<WebFile> split_web_url(std::string_view url);

// The backends, for open_store and the tests: posix.cpp, memory.cpp, cloud/object_store.cpp, web/web_store.cpp. The
// last two are UNSUPPORTED by a library built without S3.
Result<std::shared_ptr<Store>> open_posix(std::string_view path, const StoreSettings& options);
Result<std::shared_ptr<Store>> open_memory(std::string_view name);
// `uri`: of an object store (base/address.h).
Result<std::shared_ptr<Store>> open_bucket(std::string_view uri, const S3Options& options);
Result<std::shared_ptr<Store>> open_web(std::string_view uri, const WebOptions& options);
// The same store with a cache of its parts in a directory of this machine, which it makes: cache.cpp. INVALID for a
// store that is not remote. For open_places and the tests.
Result<std::shared_ptr<Store>> open_cache(std::shared_ptr<Store> source, const StoreSettings& options);

}  // namespace ckpt::store
