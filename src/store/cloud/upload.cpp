#include "store/cloud/upload.h"

#include <new>

#include "store/keys.h"

namespace ckpt::store::cloud {

Multipart::Multipart(std::shared_ptr<Bucket> bucket, std::string_view key)
    : bucket_(std::move(bucket)), upload_{std::string(key), "", to_hex(random_id())} {}

void Multipart::give_up() {
  try {
    if (begun()) (void)bucket_->abort_upload(upload_);
  } catch (const std::bad_alloc&) {
  }
  upload_.id.clear();
}

Status Multipart::begin(bool with_checksums) {
  with_checksums_ = with_checksums;
  CKPT_ASSIGN(upload_.id, bucket_->begin_upload(upload_.key, upload_.put_by, &with_checksums_));
  return Ok();
}

// All of its pieces have a checksum, or none.
Result<Multipart::Piece> Multipart::send(size_t number, std::span<const Bytes> bytes) const {
  return bucket_->send_piece(upload_, number, bytes, with_checksums_ ? crc32c_header(bytes) : "");
}

Result<Multipart::Piece> Multipart::copy(size_t number, std::string_view from, std::string_view version, uint64_t first,
                                         uint64_t size) const {
  return bucket_->copy_piece(upload_, number, from, version, first, size);
}

// Also where the object is there and only the answer got lost: pieces of their own would stay.
Status Multipart::complete(std::span<const Piece> pieces) {
  Status done = finish(pieces);
  give_up();
  return done;
}

// Only an answer that says so is a success. In any other case the object that is there tells.
Status Multipart::finish(std::span<const Piece> pieces) {
  const std::string& key = upload_.key;
  if (!bucket_->place().conditional) {
    CKPT_ASSIGN(const auto there, bucket_->look(key));
    if (there) return exists(bucket_->path(key));
  }
  Outcome end = bucket_->complete_upload(upload_, pieces);
  if (end.what == Outcome::kDone) {
    upload_.id.clear();
    return Ok();
  }
  if (end.what == Outcome::kRefused) return settle_put(*bucket_, key, upload_.put_by, exists(bucket_->path(key)));
  Status settled = settle_put(*bucket_, key, upload_.put_by, std::move(end.error));
  if (settled.ok() || settled.code() == CKPT_EXISTS) return settled;
  // An upload that was given up is not completed later; before that, it may have been.
  if (!bucket_->abort_upload(upload_).ok()) return settled;
  upload_.id.clear();
  return settle_put(*bucket_, key, upload_.put_by, std::move(settled));
}

}  // namespace ckpt::store::cloud
