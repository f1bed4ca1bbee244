// A file of a web server that is open: its size, what tells its content from another, and its last bytes, which the
// first request brings. Every other read is of the same content, or GONE.
#pragma once

#include <mutex>

#include "store/tail_reader.h"
#include "store/web/client.h"

namespace ckpt::store::web {

// What tells one content of a file from another, as far as the server says it. "": it does not.
struct Identity {
  uint64_t size = 0;
  std::string etag, modified;

  // Conditions for a request.
  std::vector<cloud::Header> conditions() const;
  // Whether an answer is of this content.
  bool matches(const cloud::HttpReply& reply) const;
};

class WebReader final : public TailReader {
 public:
  // NOT_FOUND; UNSUPPORTED for a large file of a server that gives no ranges.
  // `expected`: what names it was read, so it should be there.
  static Result<std::unique_ptr<WebReader>> open(std::shared_ptr<Client> client, std::string_view key,
                                                 bool expected = false);

  uint64_t size() const override { return identity_.size; }
  std::string version() const override { return identity_.etag.empty() ? identity_.modified : identity_.etag; }

 private:
  WebReader(std::shared_ptr<Client> client, std::string_view key) : client_(std::move(client)), key_(key) {}
  std::string path() const override { return client_->path(key_); }
  Bytes tail() const override { return std::as_bytes(std::span(tail_)); }
  Result<bool> open_by(const std::string& range, bool expected);
  Result<Identity> describe(const cloud::HttpReply& reply) const;
  Status no_ranges() const;
  Status fetch(uint64_t offset, MutableBytes out) const override;
  Answer ask_for(Get get) const;

  const std::shared_ptr<Client> client_;
  const std::string key_;
  Identity identity_;
  std::string tail_;
  mutable std::mutex mutex_;
  mutable Url found_at_;  // where redirects led last
};

}  // namespace ckpt::store::web
