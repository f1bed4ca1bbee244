// An object of which the size and the version are known: its store is asked for it when the first byte is wanted, and
// for a part that lies in a cache, whole, never.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "store/store.h"

namespace ckpt::store {

class LateReader final : public Reader {
 public:
  using Open = std::function<Result<std::unique_ptr<Reader>>()>;
  LateReader(std::string path, uint64_t size, std::string version, Open open)
      : path_(std::move(path)), size_(size), version_(std::move(version)), open_(std::move(open)) {}

  uint64_t size() const override { return size_; }
  std::string version() const override { return version_; }
  // It may be another version of the same size, put by a copy that came again: whoever reads checks each byte.
  Status read_at(uint64_t offset, MutableBytes out) const override {
    CKPT_ASSIGN(const Reader* const object, opened());
    return object->read_at(offset, out);
  }
  Status read_again(uint64_t offset, MutableBytes out) const override {
    CKPT_ASSIGN(const Reader* const object, opened());
    return object->read_again(offset, out);
  }
  Way way(uint64_t /*offset*/, uint64_t /*size*/) const override { return {.queued = true}; }
  bool cached(uint64_t /*offset*/, uint64_t /*size*/) const override { return false; }
  Result<Bytes> map() const override {
    CKPT_ASSIGN(const Reader* const object, opened());
    return object->map();
  }

 private:
  Result<const Reader*> opened() const {
    std::lock_guard lock(mutex_);
    if (object_) return object_.get();
    CKPT_ASSIGN(auto object, open_());
    if (object->size() != size_) return Status(CKPT_GONE, path_ + " was replaced").with("path", path_);
    object_ = std::move(object);
    return object_.get();
  }

  const std::string path_;
  const uint64_t size_;
  const std::string version_;
  const Open open_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Reader> object_;
};

}  // namespace ckpt::store
