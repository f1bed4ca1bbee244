// A bucket of Google Cloud Storage, by its JSON API. May be used by many threads.
#pragma once

#include "store/cloud/bucket.h"
#include "store/gcs/credentials.h"

namespace ckpt::store::gcs {

class GcsBucket final : public cloud::Bucket {
 public:
  // INVALID, UNSUPPORTED. Sends nothing.
  static Result<std::shared_ptr<GcsBucket>> make(std::string_view uri, const S3Options& options);

  Result<std::optional<ObjectInfo>> look(std::string_view key, bool once = false) override;
  Status read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out) override;
  Outcome put(const Put& put) override;
  Status copy(std::string_view key, std::string_view version, std::string_view to) override;
  uint64_t most_copied() const override { return UINT64_MAX; }
  Result<Page> list(std::string_view directory, const Wanted& wanted) override;
  Result<std::string> begin_upload(std::string_view key, std::string_view put_by, bool* with_checksums) override;
  Result<Piece> send_piece(const Upload& upload, size_t number, std::span<const Bytes> bytes,
                           std::string_view checksum) override;
  Result<Piece> copy_piece(const Upload& upload, size_t number, std::string_view from, std::string_view version,
                           uint64_t first, uint64_t size) override;
  Outcome complete_upload(const Upload& upload, std::span<const Piece> pieces) override;
  Status abort_upload(const Upload& upload) override;
  Result<std::vector<Upload>> list_uploads(std::string_view directory) override;
  Words words() const override {
    return {"Google Cloud Storage", "gcs_reason", "x-guploader-uploadid", "ifGenerationMatch=0", "ifGenerationMatch"};
  }
  std::string no_version() const override { return "1"; }
  bool owns_uploads() const override { return true; }

 private:
  GcsBucket(const std::shared_ptr<const Place>& place, std::unique_ptr<Http> http)
      : Bucket(place, std::move(http)), credentials_(this->place(), this->http()) {}

  Result<Who> dress(const Request& request, HttpRequest* http) override;
  void read_error(const Request& request, const HttpRequest& sent, const Who& who, Answer* answer) const override;
  bool is_passing_code(const Answer& answer) const override;
  bool repair(const Request& request, const Answer& answer, const Who& who, Try* tries) override;
  ckpt_status code_of(const Answer& answer, const Request& request) const override;
  std::string hint_of(const Answer& answer, const Request& request) const override;

  std::string objects_path(std::string_view before = {}) const;
  std::string object_path(std::string_view key) const;
  Result<ObjectInfo> describe(std::string_view key, const Answer& answer) const;
  Status check_bucket();
  Status try_to_read(std::string_view key, const ObjectInfo& object, uint64_t offset, MutableBytes out, bool* again);
  Outcome outcome_of(const Answer& answer, const Request& request) const;
  Outcome insert(const Put& put, bool of_upload);
  Outcome compose(std::string_view to, std::span<const std::string> sources, const Upload* finishes,
                  bool removes = true);
  Result<std::vector<std::string>> merge(const Upload& upload, std::vector<std::string> sources);

  struct Lone {
    std::string piece, key, id;  // its own key; that of the upload, and its id
    int64_t age = -1;
  };
  Result<std::vector<Lone>> list_pieces(std::string_view directory);

  TokenChain credentials_;
  std::atomic<bool> bucket_is_there_{false};  // it has answered so
};

}  // namespace ckpt::store::gcs
