// An object store at its weakest, for tests: no directories, no renames, no locks, no mappings; listings that lag
// behind by up to `list_delay_ms`, each name for itself; objects that can only be written from front to back; objects
// that are gone for their readers once they are removed or replaced; and answers that get lost, of requests that were
// or were not carried out. Puts are still conditional, and reads of one key are exact: without these nothing can be
// built.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "store/io_queue.h"
#include "store/keys.h"
#include "store/store.h"

namespace ckpt::store {

struct Weakness {
  int64_t list_delay_ms = 20;
  unsigned lost_per_mille = 0;  // of the answers to changes
  unsigned seed = 1;
  int64_t grace_ms = 0;  // Traits::grace_ms
};

// What all handles of one store share.
class Bucket {
 public:
  using Object = std::shared_ptr<const std::vector<std::byte>>;
  explicit Bucket(const Weakness& weakness) : weakness_(weakness), random_(weakness.seed) {}

  // The object of a key; null if there is none.
  Object get(const std::string& key) const {
    std::lock_guard lock(mutex_);
    return current(key);
  }
  // Each change is carried out or not; IO leaves open which.
  Status put_if_absent(const std::string& key, Object object) {
    return change(key, [&](const Object& there) { return there ? exists("weak:" + key) : Ok(); }, std::move(object));
  }
  Status put(const std::string& key, Object object) {
    return change(key, [](const Object&) { return Ok(); }, std::move(object));
  }
  Status replace(const std::string& key, const Object& expected, Object object) {
    return change(
        key, [&](const Object& there) { return there == expected ? Ok() : not_found("weak:" + key); },
        std::move(object));
  }
  Status remove(const std::string& key) {
    return change(key, [&](const Object& there) { return there ? Ok() : not_found("weak:" + key); }, nullptr);
  }
  // The keys below a prefix, as a lagging index shows them.
  std::vector<std::string> keys(const std::string& prefix) const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (auto at = history_.lower_bound(prefix); at != history_.end() && at->first.starts_with(prefix); ++at) {
      const auto lag = std::chrono::milliseconds(weakness_.list_delay_ms ? random_() % weakness_.list_delay_ms : 0);
      const Version* shown = nullptr;
      for (const Version& version : at->second)
        if (version.since <= Clock::now() - lag) shown = &version;
      if (shown && shown->object) found.push_back(at->first);
    }
    return found;
  }
  const Weakness& weakness() const { return weakness_; }
  // How long ago the object of a key was put, in milliseconds of a clock that can be set forward.
  int64_t age(const std::string& key) const {
    std::lock_guard lock(mutex_);
    auto at = history_.find(key);
    if (at == history_.end()) return 0;
    const Version& last = at->second.back();
    return ahead_ms_ - last.ahead_ms +
           std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last.since).count();
  }
  void set_forward(int64_t ms) {
    std::lock_guard lock(mutex_);
    ahead_ms_ += ms;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Version {
    Clock::time_point since;
    Object object;         // null: removed
    int64_t ahead_ms = 0;  // of the clock, by then
  };
  Object current(const std::string& key) const {
    auto at = history_.find(key);
    return at == history_.end() ? nullptr : at->second.back().object;
  }
  template <typename Check>
  Status change(const std::string& key, Check&& check, Object object) {
    std::lock_guard lock(mutex_);
    const bool lost = random_() % 1000 < weakness_.lost_per_mille, done = !lost || random_() % 2;
    Status status = done ? check(current(key)) : Ok();
    if (done && status.ok()) history_[key].push_back({Clock::now(), std::move(object), ahead_ms_});
    return lost ? Status(CKPT_IO, "weak:" + key + ": the answer was lost") : status;
  }

  const Weakness weakness_;
  mutable std::mutex mutex_;
  mutable std::minstd_rand random_;
  std::map<std::string, std::deque<Version>> history_;
  int64_t ahead_ms_ = 0;
};

class WeakReader final : public Reader {
 public:
  WeakReader(std::shared_ptr<const Bucket> bucket, std::string key, Bucket::Object object)
      : bucket_(std::move(bucket)), key_(std::move(key)), object_(std::move(object)) {}
  uint64_t size() const override { return object_->size(); }
  Status read_at(uint64_t offset, MutableBytes out) const override {
    if (bucket_->get(key_) != object_ && bucket_->get(retired_key(key_)) != object_)
      return Status(CKPT_GONE, "weak:" + key_ + " was removed or replaced");
    uint64_t end = 0;
    if (add_overflows(offset, out.size(), &end) || end > size())
      return out.empty() ? Ok() : ends_early("weak:" + key_, offset, out.size(), size());
    std::copy_n(object_->begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return Ok();
  }
  Result<Bytes> map() const override { return Status(CKPT_UNSUPPORTED, "weak:" + key_ + ": no mappings"); }

 private:
  const std::shared_ptr<const Bucket> bucket_;
  const std::string key_;
  const Bucket::Object object_;
};

// Takes writes from front to back: none may leave a hole, or begin far ahead of what is complete.
class WeakWriter final : public Writer {
 public:
  WeakWriter(std::shared_ptr<Bucket> bucket, std::string key) : bucket_(std::move(bucket)), key_(std::move(key)) {}
  bool direct() const override { return false; }
  Status write_at(uint64_t offset, Bytes data) override {
    std::lock_guard lock(mutex_);
    if (!object_) return already_published("weak:" + key_);
    if (offset < end_ || offset > end_ + kWindow)
      return Status(CKPT_INVALID, strformat("weak:{}: a write at {} where {} is complete", key_, offset, end_));
    object_->resize(std::max<uint64_t>(object_->size(), offset + data.size()));
    std::copy(data.begin(), data.end(), object_->begin() + static_cast<ptrdiff_t>(offset));
    ahead_[offset] = offset + data.size();
    for (auto next = ahead_.begin(); next != ahead_.end() && next->first <= end_; next = ahead_.erase(next))
      end_ = next->second;
    return Ok();
  }
  Status publish(uint64_t size) override {
    std::lock_guard lock(mutex_);
    if (!object_) return already_published("weak:" + key_);
    if (size != end_ || !ahead_.empty())
      return Status(CKPT_INVALID,
                    strformat("weak:{}: published with {} bytes where {} are complete", key_, size, end_));
    return bucket_->put_if_absent(key_, std::move(object_));
  }

 private:
  static constexpr uint64_t kWindow = 256 << 20;
  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  std::mutex mutex_;
  std::shared_ptr<std::vector<std::byte>> object_ = std::make_shared<std::vector<std::byte>>();
  uint64_t end_ = 0;                    // all bytes before it are there
  std::map<uint64_t, uint64_t> ahead_;  // ranges after a gap
};

class WeakName final : public Borrowed {
 public:
  WeakName(std::shared_ptr<Bucket> bucket, std::string key, std::unique_ptr<Reader> file, bool made)
      : bucket_(std::move(bucket)), key_(std::move(key)), file_(std::move(file)), made_(made) {}
  const Reader& file() const override { return *file_; }
  void drop() override {
    if (std::exchange(made_, false)) (void)bucket_->remove(key_);
  }

 private:
  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  const std::unique_ptr<Reader> file_;
  bool made_;
};

class WeakStore final : public Store {
 public:
  explicit WeakStore(std::shared_ptr<Bucket> bucket) : bucket_(std::move(bucket)) {}

  Traits traits() const override {
    return {.list_delay_ms = bucket_->weakness().list_delay_ms,
            .visible_is_durable = true,
            .directories = false,
            .borrows_by_copy = true,
            .grace_ms = bucket_->weakness().grace_ms,
            .tells_age = true};
  }
  std::string uri() const override { return "weak:"; }
  std::string path(std::string_view key) const override { return "weak:" + std::string(key); }
  Status make_root() override { return Ok(); }
  Status prepare() override { return finish_removals(); }
  Status make_directory(std::string_view key) override { return check_key(key); }
  Status put_if_absent(std::string_view key, Bytes data) override {
    CKPT_TRY(check_new_file(key));
    return bucket_->put_if_absent(std::string(key), copy_of(data));
  }
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t, bool) override {
    CKPT_TRY(check_new_file(key));
    return std::unique_ptr<Writer>(std::make_unique<WeakWriter>(bucket_, std::string(key)));
  }
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return IoQueue::make(depth, false); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    auto object = bucket_->get(std::string(key));
    if (!object) return not_found(path(key));
    return std::unique_ptr<Reader>(std::make_unique<WeakReader>(bucket_, std::string(key), std::move(object)));
  }
  Result<bool> exists(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    return bucket_->get(std::string(key)) != nullptr;
  }
  Result<bool> has_directory(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    return !below(key).empty();
  }
  Result<std::vector<Entry>> list(std::string_view directory) const override {
    if (!directory.empty()) CKPT_TRY(check_key(directory));
    std::map<std::string, bool> names;
    for (const std::string& key : below(directory)) {
      const size_t slash = key.find('/');
      names[key.substr(0, slash)] |= slash != key.npos;
    }
    if (names.empty() && !directory.empty()) return not_found(path(directory));
    std::vector<Entry> entries;
    for (const auto& [name, is_directory] : names) {
      const std::string key = (directory.empty() ? "" : std::string(directory) + "/") + name;
      entries.push_back({name, is_directory, is_directory ? -1 : bucket_->age(key)});
    }
    return entries;
  }
  Result<std::vector<FileUse>> usage(std::string_view directory) const override {
    CKPT_ASSIGN(auto entries, list(directory));
    std::vector<FileUse> files;
    for (const Entry& entry : entries)
      if (auto object = bucket_->get(std::string(directory) + "/" + entry.name))
        files.push_back({entry.name, object->size()});
    return files;
  }
  // As a server copies an object.
  Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to) override {
    CKPT_TRY(check_key(from));
    CKPT_TRY(check_new_file(to));
    const bool made = !bucket_->get(std::string(to));
    const auto object = bucket_->get(std::string(from));
    if (made && !object) return not_found(path(from));
    Status put = made ? bucket_->put(std::string(to), object) : Ok();
    while (put.code() == CKPT_IO) put = bucket_->put(std::string(to), object);
    CKPT_TRY(std::move(put));
    CKPT_ASSIGN(auto file, open(to));
    return std::unique_ptr<Borrowed>(std::make_unique<WeakName>(bucket_, std::string(to), std::move(file), made));
  }
  Status remove(std::string_view key, bool) override {
    CKPT_TRY(check_key(key));
    return bucket_->remove(std::string(key));
  }
  Status remove_directory(std::string_view key) override {
    CKPT_TRY(check_key(key));
    auto names = below(key);
    if (names.empty()) return not_found(path(key));
    for (const std::string& name : names) (void)bucket_->remove(std::string(key) + "/" + name);
    return Ok();
  }
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override {
    CKPT_TRY(check_key(directory));
    CKPT_TRY(check_element(slot));
    const std::string key = std::string(directory) + "/" + std::string(slot);
    auto held = bucket_->get(key);
    if (!held) return not_found(path(key));
    if (*held == *copy_of(tombstone)) return not_found(path(key));
    const bool stays = !tombstone.empty() && bucket_->weakness().grace_ms != 0;
    if (stays) CKPT_TRY(leave_note(directory, slot, tombstone, held));
    if (!tombstone.empty()) CKPT_TRY(bucket_->replace(key, held, copy_of(tombstone)));
    if (!stays) (void)remove_all_but(directory, slot);
    return Ok();
  }
  Status finish_removals() override {
    for (const std::string& name : below(kTrashDir)) {
      const std::string note = std::string(kTrashDir) + "/" + name;
      const auto text = bucket_->get(note);
      if (!text) continue;
      const std::string_view all = as_text(*text);
      const size_t end = all.find('\n');  // of the slot's key; the tombstone follows
      const std::string slot(all.substr(0, end));
      const auto held = bucket_->get(slot);
      const bool begun = held && as_text(*held) == all.substr(end + 1);
      if (!begun || bucket_->age(slot) < bucket_->weakness().grace_ms) continue;
      if (!remove_all_but(directory_of(slot), last_of(slot))) (void)bucket_->remove(note);
    }
    return Ok();
  }
  Status put_over(std::string_view key, Bytes data) override {
    CKPT_TRY(check_new_file(key));
    return bucket_->put(std::string(key), copy_of(data));
  }
  Result<int64_t> age_ms(std::string_view key) const override {
    CKPT_TRY(check_key(key));
    if (!bucket_->get(std::string(key))) return not_found(path(key));
    return bucket_->age(std::string(key));
  }
  Status open_attempt(std::string_view record, Bytes text, std::string_view) override { return put_same(record, text); }
  Result<bool> attempt_exists(std::string_view record, std::string_view) const override {
    return bucket_->get(std::string(record)) != nullptr;
  }
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return no_lock(key); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override { return no_lock(key); }

 private:
  class NoLock final : public Lock {
    bool protects() const override { return false; }
  };
  static Bucket::Object copy_of(Bytes data) {
    return std::make_shared<const std::vector<std::byte>>(data.begin(), data.end());
  }
  // What was there stays readable beside its tombstone. The note is for whoever removes the rest.
  Status leave_note(std::string_view directory, std::string_view slot, Bytes tombstone, const Bucket::Object& held) {
    const std::string key = strformat("{}/{}", directory, slot), text = key + "\n" + std::string(as_text(tombstone));
    for (const auto& [name, object] : {std::pair(strformat("{}/{}", kTrashDir, directory), copy_of(as_bytes(text))),
                                       std::pair(retired_key(key), held)})
      if (Status put = bucket_->put_if_absent(name, object); !put.ok() && put.code() != CKPT_EXISTS) return put;
    return Ok();
  }
  // Whether anything was there.
  bool remove_all_but(std::string_view directory, std::string_view slot) {
    bool found = false;
    for (const std::string& name : below(directory)) {
      found |= name != slot;
      if (name != slot) (void)bucket_->remove(std::string(directory) + "/" + name);
    }
    return found;
  }
  std::vector<std::string> below(std::string_view directory) const {
    const std::string prefix = directory.empty() ? "" : std::string(directory) + "/";
    auto keys = bucket_->keys(prefix);
    for (std::string& key : keys) key.erase(0, prefix.size());
    return keys;
  }
  Result<std::unique_ptr<Lock>> no_lock(std::string_view key) const {
    CKPT_TRY(check_key(key));
    if (!bucket_->get(std::string(key))) return not_found(path(key));
    return std::unique_ptr<Lock>(std::make_unique<NoLock>());
  }

  const std::shared_ptr<Bucket> bucket_;
};

}  // namespace ckpt::store
