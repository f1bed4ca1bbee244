// A bucket of S3, or of a server that speaks as it does. May be used by many threads.
#pragma once

#include "store/cloud/xml_bucket.h"
#include "store/s3/credentials.h"

namespace ckpt::store::s3 {

class S3Bucket final : public cloud::XmlBucket {
 public:
  // INVALID, UNSUPPORTED. Sends nothing.
  static Result<std::shared_ptr<S3Bucket>> make(std::string_view uri, const S3Options& options);

  Result<std::optional<ObjectInfo>> look(std::string_view key, bool once = false) override;
  Result<End> read_end(std::string_view key, MutableBytes into) override;
  Status copy(std::string_view key, std::string_view version, std::string_view to) override;
  // One request for 5 GiB, the most that S3 allows, takes minutes, and looks like a server that stalls.
  uint64_t most_copied() const override { return 512 << 20; }
  Result<Page> list(std::string_view directory, const Wanted& wanted) override;
  Result<std::string> begin_upload(std::string_view key, std::string_view put_by, bool* with_checksums) override;
  Result<Piece> send_piece(const Upload& upload, size_t number, std::span<const Bytes> bytes,
                           std::string_view checksum) override;
  Result<Piece> copy_piece(const Upload& upload, size_t number, std::string_view from, std::string_view version,
                           uint64_t first, uint64_t size) override;
  Outcome complete_upload(const Upload& upload, std::span<const Piece> pieces) override;
  Status abort_upload(const Upload& upload) override;
  Result<std::vector<Upload>> list_uploads(std::string_view directory) override;
  Words words() const override { return {"S3", "s3_code", "x-amz-request-id", "If-None-Match", "If-Match"}; }
  std::string no_version() const override { return "\"another\""; }

 private:
  S3Bucket(const std::shared_ptr<const Config>& config, std::unique_ptr<Http> http)
      : XmlBucket(config, std::move(http)), config_(config), credentials_(*config, this->http()) {}

  Names names() const override { return {"x-amz-meta-ckpt-put", "x-amz-meta-ckpt-crc32c"}; }
  Result<Who> dress(const Request& request, HttpRequest* http) override;
  void read_error(const Request& request, const HttpRequest& sent, const Who& who, Answer* answer) const override;
  bool is_passing_code(const Answer& answer) const override;
  bool repair(const Request& request, const Answer& answer, const Who& who, Try* tries) override;
  ckpt_status code_of(const Answer& answer, const Request& request) const override;
  std::string hint_of(const Answer& answer, const Request& request) const override;

  std::vector<Header> copy_headers(std::string_view key, std::string_view version) const;

  const std::shared_ptr<const Config> config_;
  CredentialChain credentials_;
  // Whether the server knows x-amz-checksum-crc32c. It does until it says otherwise.
  std::atomic<bool> knows_checksums_ = true;
};

}  // namespace ckpt::store::s3
