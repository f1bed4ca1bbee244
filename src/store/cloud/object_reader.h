// An object that is open: its size, its version, and its last bytes, which one request brings. Every other read asks
// for the object with that version, so that what was replaced is GONE and never other bytes. A copy that was made for
// its readers when it was replaced bears its number, and is read then.
#pragma once

#include <mutex>

#include "store/cloud/objects.h"
#include "store/tail_reader.h"

namespace ckpt::store::cloud {

class ObjectReader final : public TailReader {
 public:
  // NOT_FOUND. Without the tail it brings no bytes.
  static Result<std::unique_ptr<ObjectReader>> open(std::shared_ptr<Bucket> bucket, std::string_view key,
                                                    bool with_tail = true);

  // CORRUPT if all of the object came with its opening, each time with other bytes than were put.
  const Status& damage() const { return damage_; }

  uint64_t size() const override { return info_.size; }
  std::string version() const override { return info_.version; }

 private:
  ObjectReader(std::shared_ptr<Bucket> bucket, std::string_view key) : bucket_(std::move(bucket)), key_(key) {}
  Result<bool> open_with_tail();
  Status check_whole() const;
  std::string path() const override { return bucket_->path(key_); }
  Bytes tail() const override { return tail_; }
  Status fetch(uint64_t offset, MutableBytes out) const override;
  std::string known_copy() const;
  Result<std::string> find_copy() const;

  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  ObjectInfo info_;
  std::vector<std::byte> tail_;
  Status damage_;
  mutable std::mutex mutex_;
  mutable std::string copy_;  // the version of the copy, once it is needed
};

}  // namespace ckpt::store::cloud
