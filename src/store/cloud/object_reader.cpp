#include "store/cloud/object_reader.h"

#include <algorithm>

#include "store/keys.h"

namespace ckpt::store::cloud {

// The end of a part and all of a small manifest are in it.
static constexpr size_t kTail = 128 << 10;

static constexpr int kTries = 3;  // of bytes that arrive damaged

// False if the server knows no such range.
Result<bool> ObjectReader::open_with_tail() {
  tail_.resize(kTail);
  CKPT_ASSIGN(Bucket::End end, bucket_->read_end(key_, tail_));
  if (!end.info) return false;
  info_ = *std::move(end.info);
  const bool whole = end.received == std::min<uint64_t>(info_.size, kTail);
  tail_.resize(whole ? end.received : 0);
  tail_.shrink_to_fit();
  return whole;
}

// CORRUPT if all of the object is here and is not what was put.
Status ObjectReader::check_whole() const {
  if (tail_.size() != info_.size || info_.checksum.empty()) return Ok();
  const Bytes all = tail_;
  const std::string found = crc32c_header({&all, 1});
  if (found == info_.checksum) return Ok();
  return Status(CKPT_CORRUPT, strformat("{}: expected CRC-32C {}, found {}", path(), info_.checksum, found))
      .with("path", path())
      .with("expected", info_.checksum)
      .with("found", found);
}

Result<std::unique_ptr<ObjectReader>> ObjectReader::open(std::shared_ptr<Bucket> bucket, std::string_view key,
                                                         bool with_tail) {
  std::unique_ptr<ObjectReader> reader(new ObjectReader(std::move(bucket), key));
  bool opened = false;
  for (int i = 0; with_tail && (i == 0 || (i < kTries && !reader->damage_.ok())); i++) {
    CKPT_ASSIGN(opened, reader->open_with_tail());
    reader->damage_ = opened ? reader->check_whole() : Ok();
  }
  if (!opened) {
    reader->tail_ = {};
    CKPT_ASSIGN(auto info, reader->bucket_->look(key));
    if (!info) return not_found(reader->path());
    reader->info_ = *std::move(info);
  }
  return reader;
}

std::string ObjectReader::known_copy() const {
  std::lock_guard lock(mutex_);
  return copy_;
}

// The version of the copy. GONE if there is none.
Result<std::string> ObjectReader::find_copy() const {
  CKPT_ASSIGN(const auto there, bucket_->look(retired_key(key_)));
  if (!there || info_.put_by.empty() || there->put_by != info_.put_by || there->size != info_.size)
    return gone_object(path());
  std::lock_guard lock(mutex_);
  return copy_ = there->version;
}

Status ObjectReader::fetch(uint64_t offset, MutableBytes out) const {
  ObjectInfo copy{.size = info_.size, .version = known_copy()};
  if (copy.version.empty()) {
    Status found = bucket_->read(key_, info_, offset, out);
    if (found.code() != CKPT_GONE) return found;
    CKPT_ASSIGN(copy.version, find_copy());
  }
  return bucket_->read(retired_key(key_), copy, offset, out);
}

}  // namespace ckpt::store::cloud
