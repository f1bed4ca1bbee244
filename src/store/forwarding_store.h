// A store that passes every call on to another one: for those that change a few of them.
#pragma once

#include <memory>
#include <utility>

#include "store/io_queue.h"
#include "store/store.h"

namespace ckpt::store {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}

  std::string uri() const override { return inner_->uri(); }
  std::string identity() const override { return inner_->identity(); }
  std::string path(std::string_view key) const override { return inner_->path(key); }
  Traits traits() const override { return inner_->traits(); }
  Status make_root() override { return inner_->make_root(); }
  Status prepare() override { return inner_->prepare(); }
  Status make_directory(std::string_view key) override { return inner_->make_directory(key); }
  Status put_if_absent(std::string_view key, Bytes data) override { return inner_->put_if_absent(key, data); }
  Result<std::unique_ptr<Writer>> create(std::string_view key, uint64_t expected_size, bool at_most) override {
    return inner_->create(key, expected_size, at_most);
  }
  Result<std::unique_ptr<IoQueue>> make_queue(unsigned depth) const override { return inner_->make_queue(depth); }
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override { return inner_->open(key); }
  Result<std::unique_ptr<Reader>> open_lazily(std::string_view key) const override { return inner_->open_lazily(key); }
  Result<std::unique_ptr<Reader>> open_cached(std::string_view key, const Content& content, bool ask) const override {
    return inner_->open_cached(key, content, ask);
  }
  Result<bool> exists(std::string_view key) const override { return inner_->exists(key); }
  Result<bool> has_directory(std::string_view key) const override { return inner_->has_directory(key); }
  std::string link_of(std::string_view name) const override { return inner_->link_of(name); }
  Result<std::vector<Entry>> list(std::string_view directory) const override { return inner_->list(directory); }
  Result<std::vector<Entry>> list_at_most(std::string_view directory, size_t most) const override {
    return inner_->list_at_most(directory, most);
  }
  Result<std::vector<FileUse>> usage(std::string_view directory) const override { return inner_->usage(directory); }
  Result<std::unique_ptr<Borrowed>> borrow(std::string_view from, std::string_view to) override {
    return inner_->borrow(from, to);
  }
  Status remove(std::string_view key, bool sync) override { return inner_->remove(key, sync); }
  Status remove_directory(std::string_view key) override { return inner_->remove_directory(key); }
  Status put_over(std::string_view key, Bytes data) override { return inner_->put_over(key, data); }
  Result<int64_t> age_ms(std::string_view key) const override { return inner_->age_ms(key); }
  Status open_attempt(std::string_view record, Bytes text, std::string_view directory) override {
    return inner_->open_attempt(record, text, directory);
  }
  Result<bool> attempt_exists(std::string_view record, std::string_view directory) const override {
    return inner_->attempt_exists(record, directory);
  }
  Status retire(std::string_view directory, std::string_view slot, Bytes tombstone) override {
    return inner_->retire(directory, slot, tombstone);
  }
  Status finish_removals() override { return inner_->finish_removals(); }
  void sweep(std::string_view directory) override { inner_->sweep(directory); }
  Result<std::unique_ptr<Lock>> lock_shared(std::string_view key) const override { return inner_->lock_shared(key); }
  Result<std::unique_ptr<Lock>> try_lock_exclusive(std::string_view key) const override {
    return inner_->try_lock_exclusive(key);
  }

 protected:
  Result<std::vector<std::byte>> get_once(std::string_view key, uint64_t limit) const override {
    return inner_->get(key, limit);
  }

  const std::shared_ptr<Store> inner_;
};

}  // namespace ckpt::store
