// A store over the table of calls of somebody else: an object store without numbers of its own on its objects. What
// each verb of Store becomes is in README.md.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "base/parallel.h"
#include "base/text.h"
#include "store/backend.h"
#include "store/io_queue.h"
#include "store/keys.h"
#include "store/tail_reader.h"

namespace ckpt::store {
namespace {

constexpr size_t kMostNames = 1 << 20;  // no directory of a store has so many

class BackendReader final : public TailReader {
 public:
  BackendReader(std::shared_ptr<const BackendCalls> calls, std::string_view key, const ckpt_backend_file& file)
      : calls_(std::move(calls)), key_(key), size_(static_cast<uint64_t>(file.size)), version_(file.version) {}
  uint64_t size() const override { return size_; }
  std::string version() const override { return version_; }

 private:
  std::string path() const override { return calls_->path(key_); }
  Bytes tail() const override { return {}; }
  Status fetch(uint64_t offset, MutableBytes out) const override { return calls_->read(key_, version_, offset, out); }

  const std::shared_ptr<const BackendCalls> calls_;
  const std::string key_;
  const uint64_t size_;
  const std::string version_;
};

// Appends what comes in turns: the engine writes several blocks at once.
class BackendWriter final : public Writer {
 public:
  BackendWriter(std::shared_ptr<const BackendCalls> calls, std::string_view key, void* file)
      : calls_(std::move(calls)), key_(key), file_(file) {}
  ~BackendWriter() override {
    if (!ended_) calls_->discard(key_, file_);
  }
  bool direct() const override { return false; }
  Status write_at(uint64_t offset, Bytes data) override;
  Status publish(uint64_t size) override;
  void abandon() override {
    std::lock_guard lock(mutex_);
    if (error_.ok()) error_ = Status(CKPT_IO, calls_->path(key_) + " was given up while it was written");
    changed_.notify_all();
  }

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Until `holds`, or nobody may wait any longer.
  template <typename Holds>
  Status wait(Lock& lock, Holds&& holds) {
    constexpr std::chrono::milliseconds kAsk{50};
    while (!changed_.wait_for(lock, kAsk, holds)) CKPT_TRY(CallContext::current().check());
    return Ok();
  }

  const std::shared_ptr<const BackendCalls> calls_;
  const std::string key_;
  void* const file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0;  // bytes
  bool appending_ = false, ended_ = false;
  Status error_;
};

Status BackendWriter::write_at(uint64_t offset, Bytes data) {
  Lock lock(mutex_);
  CKPT_TRY(wait(lock, [&] { return ended_ || !error_.ok() || (!appending_ && offset <= taken_); }));
  if (ended_) return already_published(calls_->path(key_));
  CKPT_TRY(error_);
  if (offset != taken_)
    return Status(CKPT_INVALID,
                  strformat("{}: a write at {} where {} bytes were written", calls_->path(key_), offset, taken_));
  if (data.empty()) return Ok();
  appending_ = true;
  lock.unlock();
  Status appended = calls_->append(key_, file_, data);
  lock.lock();
  appending_ = false;
  taken_ += data.size();
  if (error_.ok()) error_ = appended;
  changed_.notify_all();
  return appended;
}

Status BackendWriter::publish(uint64_t size) {
  Lock lock(mutex_);
  CKPT_TRY(wait(lock, [&] { return !appending_; }));
  if (ended_) return already_published(calls_->path(key_));
  ended_ = true;
  changed_.notify_all();
  if (error_.ok() && size != taken_)
    error_ = Status(CKPT_INVALID,
                    strformat("{}: published with {} bytes where {} were written", calls_->path(key_), size, taken_));
  if (error_.ok()) return calls_->publish(key_, file_);
  calls_->discard(key_, file_);
  return error_;
}

class NoLock final : public Lock {
  bool protects() const override { return false; }
};

// What is being removed: whose slot has this tombstone, or had one before (`keeps_slot`), which then stays for good.
struct Note {
  std::string directory, slot, tombstone;
  bool keeps_slot = false;
};

std::string slot_key(const Note& note) { return note.directory + "/" + note.slot; }

class BackendStore final : public Store {
 public:
  explicit BackendStore(std::shared_ptr<BackendCalls> calls) : calls_(std::move(calls)) {}

  std::string uri() const override { return calls_->path(""); }
  std::string path(std::string_view key) const override { return calls_->path(key); }
  Traits traits() const override;
  Status make_root() override { return Ok(); }
  Status prepare() override;
  Status make_directory(std::string_view key) override { return check_key(key); }
  Status put_if_absent(std::string_view key, Bytes data) override {
    CKPT_TRY(check_new_file(key));
    return calls_->put(key, data, CKPT_BACKEND_IF_ABSENT);
  }
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool /*at_most*/) override {
    CKPT_TRY(check_new_file(key));
    CKPT_ASSIGN(void* const file, calls_->create(key, expected_size, CKPT_BACKEND_IF_ABSENT));
    return std::unique_ptr<Writer>(std::make_unique<BackendWriter>(calls_, key, file));
  }
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, false); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    CKPT_ASSIGN(const ckpt_backend_file file, calls_->look(key));
    return std::unique_ptr<Reader>(std::make_unique<BackendReader>(calls_, key, file));
  }
  Result<bool> exists(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    const Status found = calls_->look(key).status();
    if (found.ok() || found.code() == CKPT_NOT_FOUND) return found.ok();
    return found;
  }
  Result<bool> has_directory(std::string_view key) const override;
  Result<std::vector<Entry>> list(std::string_view directory) const override {
    return list_at_most(directory, kMostNames);
  }
  Result<std::vector<Entry>> list_at_most(std::string_view directory, size_t most) const override;
  Result<std::vector<FileUse>> usage(std::string_view directory) const override;
  Status remove(std::string_view key, bool /*sync*/) override {
    CKPT_TRY(check_key(key));
    return calls_->remove(key);
  }
  Status remove_directory(std::string_view key) override;
  Status put_over(std::string_view key, Bytes data) override {
    CKPT_TRY(check_new_file(key));
    return calls_->put(key, data, CKPT_BACKEND_OVER);
  }
  Result<int64_t> age_ms(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    CKPT_ASSIGN(const ckpt_backend_file file, calls_->look(key));
    return std::max<int64_t>(file.age_ms, -1);
  }
  Status open_attempt(std::string_view record, Bytes text, std::string_view directory) override {
    CKPT_TRY(check_key(directory));
    return put_same(record, text);
  }
  Result<bool> attempt_exists(std::string_view record, std::string_view /*directory*/) const override {
    return exists(record);
  }
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override;
  Status finish_removals() override { return work_off_notes(false); }
  // A reader of what is removed gets GONE.
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return no_lock(key); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override { return no_lock(key); }

 private:
  Result<std::unique_ptr<Lock>> no_lock(std::string_view key) const {
    CKPT_TRY(check_key(key));
    return std::unique_ptr<Lock>(std::make_unique<NoLock>());
  }
  Result<std::vector<std::string>> keys_in(std::string_view directory, bool directories) const;
  Status remove_all(const std::vector<std::string>& keys);
  Status remove_parts(const Note& note);
  Status probe();
  Result<bool> has_tombstone(const Note& note) const;
  bool is_over(const Entry& entry, bool prepares) const;
  bool is_old(std::string_view key) const;
  Status work_off(const Entry& entry, bool prepares);
  Status work_off_notes(bool prepares);

  const std::shared_ptr<BackendCalls> calls_;
  std::atomic<bool> probed_ = false;
};

// Within what the engine can use; 0 is its own choice.
template <typename Number>
Number chosen(Number said, Number otherwise, Number least, Number most) {
  return said == 0 ? otherwise : std::clamp(said, least, most);
}

Traits BackendStore::traits() const {
  const ckpt_backend_traits& said = calls_->traits();
  const bool remote = calls_->promises(CKPT_BACKEND_REMOTE);
  constexpr uint64_t kLeast = 64 << 10, kMost = 256 << 20;
  return {.block_bytes = round_up(chosen<uint64_t>(said.write_bytes, 8 << 20, kLeast, kMost), kAlign),
          .write_depth = chosen<unsigned>(said.write_depth, 4, 1, 64),
          .read_depth = chosen<unsigned>(said.read_depth, remote ? 16 : 8, 1, 64),
          .read_bytes = chosen<uint64_t>(said.read_bytes, (remote ? 16 : 4) << 20, kLeast, kMost),
          .list_delay_ms = said.list_delay_ms,
          .visible_is_durable = calls_->promises(CKPT_BACKEND_DURABLE),
          .remote = remote,
          .directories = false,
          .exclusive = calls_->promises(CKPT_BACKEND_EXCLUSIVE),
          .tells_age = calls_->promises(CKPT_BACKEND_AGES)};
}

// ---- lists ----

// OK also where nothing is.
Result<bool> BackendStore::has_directory(std::string_view key) const {
  CKPT_TRY(check_key(key));
  bool any = false;
  CKPT_TRY(calls_->list(key, [&](const char*, const ckpt_backend_file&) -> Result<bool> { return any = true; }));
  return any;
}

Result<std::vector<Entry>> BackendStore::list_at_most(std::string_view directory, size_t most) const {
  if (!directory.empty()) CKPT_TRY(check_key(directory));
  std::map<std::string, Entry> names;  // in the order of bytes; a name may be both
  const bool ages = calls_->promises(CKPT_BACKEND_AGES);
  CKPT_TRY(calls_->list(directory, [&](const char* name, const ckpt_backend_file& file) -> Result<bool> {
    Entry& entry = names[name];
    entry.name = name;
    entry.directory |= file.is_directory != 0;
    if (!file.is_directory) {
      entry.age_ms = ages ? std::max<int64_t>(file.age_ms, -1) : -1;
      entry.size = file.size;
      entry.version = file.version;
    }
    if (names.size() <= most) return false;
    return Status(CKPT_UNSUPPORTED, strformat("{}: more than {} names in one directory", path(directory), most))
        .with("path", path(directory));
  }));
  if (names.empty() && !directory.empty()) return not_found(path(directory));
  std::vector<Entry> entries;
  for (auto& [name, entry] : names) entries.push_back(entry.directory ? Entry{name, true} : std::move(entry));
  return entries;
}

Result<std::vector<FileUse>> BackendStore::usage(std::string_view directory) const {
  CKPT_ASSIGN(const auto entries, list(directory));
  std::vector<FileUse> files;
  for (const Entry& entry : entries)
    if (!entry.directory) files.push_back({entry.name, static_cast<uint64_t>(entry.size)});
  return files;
}

// ---- removal ----
// As in a bucket (cloud/README.md): a note in .ckpt/trash, then the tombstone in the place of what the slot holds, then
// the parts; later the tombstone and the note. The tombstone is known by its bytes.

constexpr int64_t kSweepAfterMs = 3600 * 1000;  // of the store's clock: nothing that was on its way arrives later

std::string to_text(const Note& note) {
  return strformat("{}\n{}\n{}\n{}", note.directory, note.slot, note.keeps_slot ? "keeps" : "goes", note.tombstone);
}

std::optional<Note> parse_note(std::string_view text) {
  std::string_view lines[3];
  for (std::string_view& line : lines) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {};
    line = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  if (!check_key(lines[0]).ok() || !check_element(lines[1]).ok()) return {};
  return Note{std::string(lines[0]), std::string(lines[1]), std::string(text), lines[2] == "keeps"};
}

// CONFLICT with a directory in it.
Result<std::vector<std::string>> BackendStore::keys_in(std::string_view directory, bool directories) const {
  CKPT_ASSIGN(const auto entries, list(directory));
  std::vector<std::string> keys;
  for (const Entry& entry : entries) {
    if (entry.directory && !directories) return foreign_directory(path(directory), entry.name);
    if (!entry.directory) keys.push_back(strformat("{}/{}", directory, entry.name));
  }
  return keys;
}

Status BackendStore::remove_all(const std::vector<std::string>& keys) {
  const unsigned threads = keys.size() < 4 ? 1 : traits().write_depth;
  return for_each_parallel(threads, keys.size(), [&](size_t i) {
    Status removed = calls_->remove(keys[i]);
    return removed.code() == CKPT_NOT_FOUND ? Ok() : removed;
  });
}

Status BackendStore::remove_directory(std::string_view key) {
  CKPT_TRY(check_key(key));
  auto keys = keys_in(key, false);
  if (keys.status().code() == CKPT_CONFLICT) return Status(CKPT_IO, keys.status().message()).with("path", path(key));
  CKPT_TRY(keys.status());
  return remove_all(*keys);
}

// All but the slot.
Status BackendStore::remove_parts(const Note& note) {
  auto keys = keys_in(note.directory, true);
  if (keys.status().code() == CKPT_NOT_FOUND) return Ok();
  CKPT_TRY(keys.status());
  std::erase(*keys, slot_key(note));
  return remove_all(*keys);
}

Result<bool> BackendStore::has_tombstone(const Note& note) const {
  return read_whole([&]() -> Result<bool> {
    CKPT_ASSIGN(const auto file, open(slot_key(note)));
    if (note.keeps_slot) return true;
    if (file->size() != note.tombstone.size()) return false;
    CKPT_ASSIGN(const auto held, read_all(*file, note.tombstone.size(), path(slot_key(note))));
    return as_text(held) == note.tombstone;
  });
}

Status BackendStore::retire(std::string_view directory, std::string_view slot, Bytes tombstone) {
  const CancelShield also_when_cancelled;
  CKPT_TRY(check_key(directory));
  CKPT_TRY(check_element(slot));
  const Note note{std::string(directory), std::string(slot), std::string(as_text(tombstone)), tombstone.empty()};
  CKPT_ASSIGN(const bool was_removed, has_tombstone(note));
  if (was_removed && !note.keeps_slot) return not_found(path(slot_key(note)));
  const Status only_files = keys_in(directory, false).status();
  if (!only_files.ok() && only_files.code() != CKPT_NOT_FOUND) return only_files;  // a list may lag behind
  const std::string key = trash_key(last_of(directory), random_id());
  CKPT_TRY(put_own(key, as_bytes(to_text(note))));
  if (!note.keeps_slot) {
    Status replaced = calls_->put(slot_key(note), tombstone, CKPT_BACKEND_OVER);
    if (!replaced.ok()) return std::move(replaced).with("undecided", "its tombstone may be there, or may come");
  }
  // It is removed. Where the rest fails, or meets a crash, the note has it done later.
  (void)remove_parts(note);
  return Ok();
}

// Whether nothing can come any more that began before an entry of the trash was put. Where no clock tells, that is so
// for the only process that writes, and for whoever prepares the store: he ends what was before.
bool BackendStore::is_over(const Entry& entry, bool prepares) const {
  if (!traits().tells_age) return prepares || !traits().exclusive;
  return entry.age_ms >= 0 ? entry.age_ms >= kSweepAfterMs : is_old(strformat("{}/{}", kTrashDir, entry.name));
}

bool BackendStore::is_old(std::string_view key) const {
  const auto age = age_ms(key);
  return age.ok() && *age >= kSweepAfterMs;
}

// Does what a note of .ckpt/trash says, as far as it is time for it.
Status BackendStore::work_off(const Entry& entry, bool prepares) {
  const std::string key = strformat("{}/{}", kTrashDir, entry.name);
  // Where no clock tells, one may be that of another session of this process.
  if (entry.name.starts_with(kProbePrefix))
    return traits().tells_age && is_over(entry, false) ? calls_->remove(key) : Ok();
  CKPT_ASSIGN(const auto text, get(key, 4096));
  const auto note = parse_note(as_text(text));
  if (!note) return Ok();
  const auto begun = has_tombstone(*note);
  const bool is_there = begun.ok() && *begun;
  if (!begun.ok() && begun.status().code() != CKPT_NOT_FOUND) return begun.status();
  if (is_there) CKPT_TRY(remove_parts(*note));
  if (!is_over(entry, prepares)) return Ok();
  const bool goes = is_there && !note->keeps_slot;
  if (goes && traits().tells_age && !is_old(slot_key(*note))) return Ok();  // its put came long after the note's
  if (goes) CKPT_TRY(calls_->remove(slot_key(*note)));
  return calls_->remove(key);
}

// One that cannot be worked off now waits, and keeps nobody from anything.
Status BackendStore::work_off_notes(bool prepares) {
  const auto notes = list(kTrashDir);
  if (notes.status().code() == CKPT_NOT_FOUND) return Ok();
  CKPT_TRY(notes.status());
  return for_each_parallel(traits().write_depth, (*notes).size(), [&](size_t i) {
    Status done = work_off((*notes)[i], prepares);
    return done.code() == CKPT_NOMEM ? done : Ok();
  });
}

// ---- preparing ----

// That what is there is not put again, also at the end of a file, and not by several at once.
Status BackendStore::probe() {
  const Bytes text = as_bytes("probe");
  const std::string key = strformat("{}/{}{}", kTrashDir, kProbePrefix, to_hex(random_id()));
  const auto unfit = [&](std::string_view what) {
    return Status(CKPT_UNSUPPORTED,
                  strformat("{}: the backend {}, so two processes could both believe that they committed", uri(), what))
        .with("path", uri());
  };
  constexpr unsigned kAtOnce = 4;
  std::atomic<unsigned> puts = 0;
  CKPT_TRY(for_each_parallel(traits().exclusive ? kAtOnce : 1, kAtOnce, [&](size_t) {
    Status put = put_if_absent(key, text);
    puts += put.ok() ? 1 : 0;
    return put.code() == CKPT_EXISTS ? Ok() : put;
  }));
  Status published;
  if (puts == 1) {
    CKPT_ASSIGN(auto writer, create(key, text.size(), false));
    CKPT_TRY(writer->write_at(0, text));
    published = writer->publish(text.size());
  }
  const Status removed = calls_->remove(key);
  if (removed.code() != CKPT_NOT_FOUND) CKPT_TRY(removed);
  if (puts != 1)
    return unfit(strformat("says of {} puts where there must be no file yet that they did it", puts.load()));
  if (published.ok()) return unfit("publishes over a file that is there");
  return published.code() == CKPT_EXISTS ? Ok() : published;
}

Status BackendStore::prepare() {
  if (!probed_) CKPT_TRY(probe());
  probed_ = true;
  return work_off_notes(true);
}

}  // namespace

Result<std::shared_ptr<Store>> open_backend(std::string_view uri, const Backend& backend) {
  CKPT_ASSIGN(auto calls, BackendCalls::open(uri, backend));
  return std::shared_ptr<Store>(std::make_shared<BackendStore>(std::move(calls)));
}

}  // namespace ckpt::store
