#include "store/cloud/object_borrow.h"

#include <algorithm>

#include "base/parallel.h"
#include "store/cloud/object_reader.h"
#include "store/cloud/upload.h"
#include "store/keys.h"

namespace ckpt::store::cloud {

static constexpr unsigned kPiecesAtOnce = 8;
static constexpr uint64_t kMostPieces = 9000;  // S3 allows 10,000

namespace {

class CopiedObject final : public Borrowed {
 public:
  CopiedObject(std::shared_ptr<Bucket> bucket, std::string_view key, std::unique_ptr<ObjectReader> file, bool made)
      : bucket_(std::move(bucket)), key_(key), file_(std::move(file)), made_(made) {}
  const Reader& file() const override { return *file_; }
  void drop() override {
    if (std::exchange(made_, false)) (void)bucket_->remove(key_);
  }

 private:
  const std::shared_ptr<Bucket> bucket_;
  const std::string key_;
  const std::unique_ptr<ObjectReader> file_;
  bool made_;  // by this call
};

}  // namespace

// All pieces but the last have one size, which R2 wants.
static Status copy_by_server(const std::shared_ptr<Bucket>& bucket, std::string_view from, const ObjectInfo& object,
                             std::string_view to, uint64_t piece) {
  if (object.size <= piece) return bucket->copy(from, object.version, to);
  const uint64_t size = std::max(piece, round_up(object.size / kMostPieces, kAlign));
  Multipart upload(bucket, to);
  CKPT_TRY(upload.begin(false));
  std::vector<Multipart::Piece> parts((object.size + size - 1) / size);
  CKPT_TRY(for_each_parallel(kPiecesAtOnce, parts.size(), [&](size_t i) -> Status {
    const uint64_t first = i * size;
    CKPT_ASSIGN(parts[i], upload.copy(i, from, object.version, first, std::min(size, object.size - first)));
    return Ok();
  }));
  return upload.complete(parts);
}

// A server may look at the range of a copy before it looks at the condition (versitygw 1.8), and then says nothing of
// an object that was replaced.
static Status unless_replaced(Bucket& bucket, std::string_view from, const ObjectInfo& object, Status failed) {
  if (failed.code() == CKPT_GONE) return failed;
  const auto now = bucket.look(from);
  if (!now.ok() || (*now && (*now)->version == object.version)) return failed;
  return Status(CKPT_GONE, bucket.path(from) + ": it was replaced or removed while it was copied; " + failed.message())
      .with("path", bucket.path(from));
}

// Another rank may copy the same object at the same time: then one of them replaces what the other one has made, which
// is the same.
Result<std::unique_ptr<Borrowed>> borrow_object(const std::shared_ptr<Bucket>& bucket, std::string_view from,
                                                std::string_view to, uint64_t piece) {
  auto file = ObjectReader::open(bucket, to);
  bool made = false;
  if (file.status().code() == CKPT_NOT_FOUND) {
    CKPT_ASSIGN(const auto object, bucket->look(from));
    if (!object) return not_found(bucket->path(from));
    Status copied = copy_by_server(bucket, from, *object, to, piece);
    if (!copied.ok() && copied.code() != CKPT_EXISTS) return unless_replaced(*bucket, from, *object, std::move(copied));
    made = copied.ok();
    file = ObjectReader::open(bucket, to);
  }
  CKPT_TRY(file.status());
  return std::unique_ptr<Borrowed>(std::make_unique<CopiedObject>(bucket, to, file.take(), made));
}

}  // namespace ckpt::store::cloud
