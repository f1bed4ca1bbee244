#include "store/s3/s3_borrow.h"

#include <algorithm>

#include "base/parallel.h"
#include "store/keys.h"
#include "store/s3/multipart.h"
#include "store/s3/s3_reader.h"

namespace ckpt::store::s3 {

static constexpr unsigned kPiecesAtOnce = 8;
static constexpr uint64_t kMostPieces = 9000;  // S3 allows 10,000

namespace {

class CopiedObject final : public Borrowed {
 public:
  CopiedObject(std::shared_ptr<Client> client, std::string_view key, std::unique_ptr<S3Reader> file, bool made)
      : client_(std::move(client)), key_(key), file_(std::move(file)), made_(made) {}
  const Reader& file() const override { return *file_; }
  void drop() override {
    if (std::exchange(made_, false)) (void)delete_object(*client_, key_);
  }

 private:
  const std::shared_ptr<Client> client_;
  const std::string key_;
  const std::unique_ptr<S3Reader> file_;
  bool made_;  // by this call
};

}  // namespace

// All pieces but the last have one size, which R2 wants.
static Status copy_by_server(const std::shared_ptr<Client>& client, std::string_view from, const ObjectInfo& object,
                             std::string_view to, uint64_t piece) {
  if (object.size <= piece) return copy_object(*client, from, object.etag, to);
  const uint64_t size = std::max(piece, round_up(object.size / kMostPieces, kAlign));
  Multipart upload(client, to);
  CKPT_TRY(upload.begin(false));
  std::vector<Multipart::Part> parts((object.size + size - 1) / size);
  CKPT_TRY(for_each_parallel(kPiecesAtOnce, parts.size(), [&](size_t i) -> Status {
    const uint64_t first = i * size;
    CKPT_ASSIGN(parts[i], upload.copy(i, from, object.etag, first, std::min(size, object.size - first)));
    return Ok();
  }));
  return upload.complete(parts);
}

// A server may look at the range of a copy before it looks at the condition (versitygw 1.8), and then says nothing of
// an object that was replaced.
static Status unless_replaced(Client& client, std::string_view from, const ObjectInfo& object, Status failed) {
  if (failed.code() == CKPT_GONE) return failed;
  const auto now = look_at_object(client, from);
  if (!now.ok() || (*now && (*now)->etag == object.etag)) return failed;
  return Status(CKPT_GONE, client.path(from) + ": it was replaced or removed while it was copied; " + failed.message())
      .with("path", client.path(from));
}

// Another rank may copy the same object at the same time: then one of them replaces what the other one has made, which
// is the same.
Result<std::unique_ptr<Borrowed>> borrow_object(const std::shared_ptr<Client>& client, std::string_view from,
                                                std::string_view to, uint64_t piece) {
  auto file = S3Reader::open(client, to);
  bool made = false;
  if (file.status().code() == CKPT_NOT_FOUND) {
    CKPT_ASSIGN(const auto object, look_at_object(*client, from));
    if (!object) return not_found(client->path(from));
    Status copied = copy_by_server(client, from, *object, to, piece);
    if (!copied.ok() && copied.code() != CKPT_EXISTS) return unless_replaced(*client, from, *object, std::move(copied));
    made = copied.ok();
    file = S3Reader::open(client, to);
  }
  CKPT_TRY(file.status());
  return std::unique_ptr<Borrowed>(std::make_unique<CopiedObject>(client, to, file.take(), made));
}

}  // namespace ckpt::store::s3
