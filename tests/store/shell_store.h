// A store that passes every call on to another one, after a test had its say: to change the store between two steps of
// the engine, or to answer in its place.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "store/forwarding_store.h"

namespace ckpt::store {

class ShellStore : public ForwardingStore {
 public:
  // Called before every operation with its name and key ("read" only with on_read); what is not OK is the answer. Not
  // called for what it does.
  using Before = std::function<Status(std::string_view operation, std::string_view key)>;

  using ForwardingStore::ForwardingStore;
  Store& inner() { return *inner_; }
  // Others may use the store meanwhile: those that are inside the hook before finish with that one.
  void before(Before hook) {
    auto next = std::make_shared<const Before>(std::move(hook));
    const std::lock_guard lock(mutex_);
    before_.swap(next);
  }
  // Called after each read of an opened file with its key and how many bytes were read.
  using Read = std::function<void(std::string_view key, uint64_t bytes)>;
  void on_read(Read hook) { read_ = std::move(hook); }
  // Runs `act` once, after the first opening of that key and before what was opened is read.
  void after_open(std::string key, std::function<void()> act) {
    opened_ = [key, act, done = std::make_shared<std::atomic<bool>>()](std::string_view at) {
      if (at == key && !done->exchange(true)) act();
    };
  }
  // Runs `act` once, before the first operation of that name on that key.
  void once(std::string operation, std::string key, std::function<void()> act) {
    before([operation, key, act, done = std::make_shared<std::atomic<bool>>()](std::string_view found,
                                                                               std::string_view at) {
      if (found == operation && at == key && !done->exchange(true)) act();
      return Ok();
    });
  }

  // A test's store is another one than what it stands before; and it hears of all that is opened.
  std::string identity() const override { return uri(); }
  Result<std::unique_ptr<Reader>> open_lazily(std::string_view key) const override { return open(key); }
  Result<std::unique_ptr<Reader>> open_cached(std::string_view key, const Content&, bool) const override {
    return open(key);
  }
  Result<std::vector<Entry>> list_at_most(std::string_view directory, size_t most) const override {
    return Store::list_at_most(directory, most);
  }
  Status make_root() override {
    CKPT_TRY(say("make_root", ""));
    return inner_->make_root();
  }
  Status prepare() override {
    CKPT_TRY(say("prepare", ""));
    return inner_->prepare();
  }
  Status make_directory(std::string_view key) override {
    CKPT_TRY(say("make_directory", key));
    return inner_->make_directory(key);
  }
  Status put_if_absent(std::string_view key, Bytes data) override {
    CKPT_TRY(say("put", key));
    return inner_->put_if_absent(key, data);
  }
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override {
    CKPT_TRY(say("create", key));
    return inner_->create(key, expected_size, at_most);
  }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override {
    CKPT_TRY(say("open", key));
    auto opened = inner_->open(key);
    if (opened_) opened_(key);
    if (!read_ || !opened.ok()) return opened;
    return std::unique_ptr<Reader>(std::make_unique<ShellReader>(*this, opened.take(), std::string(key), read_));
  }
  Result<bool> exists(std::string_view key) const override {
    CKPT_TRY(say("exists", key));
    return inner_->exists(key);
  }
  Result<bool> has_directory(std::string_view key) const override {
    CKPT_TRY(say("has_directory", key));
    return inner_->has_directory(key);
  }
  Result<std::vector<Entry>> list(std::string_view directory) const override {
    CKPT_TRY(say("list", directory));
    return inner_->list(directory);
  }
  Result<std::vector<FileUse>> usage(std::string_view directory) const override {
    CKPT_TRY(say("usage", directory));
    return inner_->usage(directory);
  }
  Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to) override {
    CKPT_TRY(say("borrow", to));
    return inner_->borrow(from, to);
  }
  Status remove(std::string_view key, bool sync) override {
    CKPT_TRY(say("remove", key));
    return inner_->remove(key, sync);
  }
  Status remove_directory(std::string_view key) override {
    CKPT_TRY(say("remove_directory", key));
    return inner_->remove_directory(key);
  }
  Status put_over(std::string_view key, Bytes data) override {
    CKPT_TRY(say("put_over", key));
    return inner_->put_over(key, data);
  }
  Result<int64_t> age_ms(std::string_view key) const override {
    CKPT_TRY(say("age_ms", key));
    return inner_->age_ms(key);
  }
  Status open_attempt(std::string_view record, Bytes text, std::string_view directory) override {
    CKPT_TRY(say("open_attempt", directory));
    return inner_->open_attempt(record, text, directory);
  }
  Result<bool> attempt_exists(std::string_view record, std::string_view directory) const override {
    CKPT_TRY(say("attempt_exists", directory));
    return inner_->attempt_exists(record, directory);
  }
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override {
    CKPT_TRY(say("retire", directory));
    return inner_->retire(directory, slot, tombstone);
  }
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override {
    CKPT_TRY(say("lock_shared", key));
    return inner_->lock_shared(key);
  }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override {
    CKPT_TRY(say("try_lock_exclusive", key));
    return inner_->try_lock_exclusive(key);
  }

 protected:
  Result<std::vector<std::byte>> get_once(std::string_view key, uint64_t limit) const override {
    return Store::get_once(key, limit);
  }

 private:
  // Has plain reads only, so that all of them are told.
  class ShellReader : public Reader {
   public:
    ShellReader(const ShellStore& shell, std::unique_ptr<Reader> inner, std::string key, Read read)
        : shell_(shell), inner_(std::move(inner)), key_(std::move(key)), read_(std::move(read)) {}
    uint64_t size() const override { return inner_->size(); }
    Status read_at(uint64_t offset, MutableBytes out) const override {
      CKPT_TRY(shell_.say("read", key_));
      CKPT_TRY(inner_->read_at(offset, out));
      read_(key_, out.size());
      return Ok();
    }
    Result<Bytes> map() const override { return inner_->map(); }

   private:
    const ShellStore& shell_;
    std::unique_ptr<Reader> inner_;
    std::string key_;
    const Read read_;
  };
  Status say(std::string_view operation, std::string_view key) const {
    std::unique_lock lock(mutex_);
    const auto hook = before_;
    lock.unlock();
    return hook && *hook ? (*hook)(operation, key) : Ok();
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const Before> before_;
  Read read_;
  std::function<void(std::string_view key)> opened_;
};

}  // namespace ckpt::store
