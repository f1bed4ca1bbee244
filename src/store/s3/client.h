// Requests to one bucket: signed, sent, tried again while that makes sense, and their failures as Status. One request
// is one call; what several of them make is for others (objects.h, s3_reader.h, s3_writer.h).
// May be used by many threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "store/s3/credentials.h"
#include "store/s3/patience.h"
#include "store/s3/xml.h"

namespace ckpt::store::s3 {

struct Request {
  Request(std::string_view its_verb, std::string_view its_key, Query its_query = {})
      : verb(its_verb), key(its_key), query(std::move(its_query)) {}

  std::string verb;        // "PUT"
  std::string_view key;    // of the store
  bool of_bucket = false;  // instead of a key
  Query query;
  std::vector<Header> headers;  // beside those of the signature
  std::span<const Bytes> body;
  std::string checksum;        // crc32c_header(body), for the server to check
  bool has_checksums = false;  // it begins an upload whose parts have one each
  bool wants_bytes = false;
  MutableBytes into;
  std::function<bool(const HttpReply&)> accept;
  bool ends_late = false;  // status 200 comes before the work is done: the body tells how it ended
  bool once = false;       // no second try
  bool of_upload = false;  // a part of an upload that is not complete

  // What it leaves undone when it is broken off, nobody misses.
  bool may_end() const { return verb == "GET" || verb == "HEAD" || of_upload; }
};

// What the server said last.
struct Answer {
  HttpReply http;
  std::string code, words;  // of its error, if it gave one
  Status failure;           // there was no answer
  bool unsigned_request = false;
  // It is no good, but one of the tries may have been carried out, or may still be.
  bool maybe_done = false;
  // A 404 of something else than S3: of what stands before the server, say, while that is away.
  bool stray = false;

  bool good() const { return failure.ok() && http.good() && code.empty(); }
  // Whether it is an answer with that HTTP status.
  bool is(long status) const { return failure.ok() && http.status == status; }
  // Whether S3 says that there is no such object or upload. Anything may answer 404, so only its own code counts, which
  // an answer to HEAD cannot have.
  bool is_absent() const {
    return is(404) && !stray && (code == "NoSuchKey" || code == "NoSuchVersion" || code == "NoSuchUpload");
  }
};

class Client {
 public:
  // INVALID, UNSUPPORTED. Sends nothing.
  static Result<std::shared_ptr<Client>> make(std::string_view uri, const S3Options& options);

  const Config& config() const { return config_; }
  std::string path(std::string_view key) const { return config_.uri() + (key.empty() ? "" : "/") + std::string(key); }
  // Whether the server knows x-amz-checksum-crc32c. It does until it says otherwise.
  bool knows_checksums() const { return knows_checksums_; }
  // When the server answered, by its own clock; -1 if it does not say.
  int64_t date_of(const HttpReply& reply, std::string_view header = "date") const;

  // One operation of this thread's call (base/call.h), with all tries.
  Answer ask(const Request& request);
  // An answer that is no good, as an error that names bucket, key, HTTP status, S3's code and the id of the request.
  Status error(const Answer& answer, const Request& request) const;

 private:
  struct Try;
  explicit Client(Config config) : config_(std::move(config)), patience_(config_.timing) {}
  Answer ask_once(const Request& request, std::shared_ptr<const Credentials>* used);
  Status is_over(const Request& request) const;
  bool repair(const Request& request, const Answer& answer, const Credentials& used, Try* tries);
  bool wait_to_try_again(const Answer& answer, const Try& tries);
  static void count(const Request& request, const Answer& answer, bool again);
  int64_t server_time() const;

  const Config config_;
  std::unique_ptr<Http> http_;
  std::unique_ptr<CredentialChain> credentials_;
  Patience patience_;
  std::atomic<bool> knows_checksums_ = true;
  std::atomic<int64_t> skew_ = 0;  // seconds: the server's clock minus ours
};

}  // namespace ckpt::store::s3
