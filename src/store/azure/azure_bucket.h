// A container of Azure Blob Storage, by its REST interface. May be used by many threads.
#pragma once

#include "store/azure/credentials.h"
#include "store/cloud/xml_bucket.h"

namespace ckpt::store::azure {

class AzureBucket final : public cloud::XmlBucket {
 public:
  // INVALID, UNSUPPORTED. Sends nothing.
  static Result<std::shared_ptr<AzureBucket>> make(std::string_view uri, const S3Options& options);

  Result<std::optional<ObjectInfo>> look(std::string_view key, bool once = false) override;
  Status copy(std::string_view key, std::string_view version, std::string_view to) override;
  uint64_t most_copied() const override { return 256 << 20; }  // the most that the service copies at once
  Status remove_directory(std::string_view key) override;
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
    return {"Azure Blob Storage", "azure_code", "x-ms-request-id", "If-None-Match", "If-Match"};
  }
  std::string no_version() const override { return "\"another\""; }

 private:
  AzureBucket(const std::shared_ptr<const Config>& config, std::unique_ptr<Http> http)
      : XmlBucket(config, std::move(http)), config_(config), credentials_(*config, this->http()) {}

  // They must be names of C#.
  Names names() const override { return {"x-ms-meta-ckptput", "x-ms-meta-ckptcrc32c"}; }
  Result<Who> dress(const Request& request, HttpRequest* http) override;
  void read_error(const Request& request, const HttpRequest& sent, const Who& who, Answer* answer) const override;
  bool is_refusal(const Answer& answer) const override;
  bool is_passing_code(const Answer& answer) const override;
  bool repair(const Request& request, const Answer& answer, const Who& who, Try* tries) override;
  ckpt_status code_of(const Answer& answer, const Request& request) const override;
  std::string hint_of(const Answer& answer, const Request& request) const override;

  Status add_checksum(const Request& request, HttpRequest* http) const;
  Result<std::vector<Header>> copy_headers(std::string_view key, std::string_view version);
  Status failed_copy(std::string_view from, const Answer& answer, const Request& request);

  const std::shared_ptr<const Config> config_;
  CredentialChain credentials_;
  // Whether the server knows x-ms-content-crc64. It does until it says otherwise.
  std::atomic<bool> knows_crc64_ = true;
};

}  // namespace ckpt::store::azure
