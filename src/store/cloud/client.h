// Requests to one bucket: dressed by the dialect of its service, sent, tried again while that makes sense, and their
// failures as Status. One request is one call; what is done by them is for others (bucket.h, objects.h).
// May be used by many threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "store/cloud/http.h"
#include "store/cloud/patience.h"
#include "store/cloud/place.h"

namespace ckpt::store::cloud {

struct Request {
  Request(std::string_view its_verb, std::string_view its_key, Query its_query = {})
      : verb(its_verb), key(its_key), query(std::move(its_query)) {}

  std::string verb;        // "PUT"
  std::string_view key;    // of the store
  bool of_bucket = false;  // instead of a key
  std::string path;        // as it is sent; "" where the dialect makes it of the key
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
  // A 404 of something else than the service: of what stands before the server, say, while that is away.
  bool stray = false;
  // The service says that there is no such object or upload. Anything may answer 404, so only its own code counts.
  bool absent = false;

  bool good() const { return failure.ok() && http.good() && code.empty(); }
  // Whether it is an answer with that HTTP status.
  bool is(long status) const { return failure.ok() && http.status == status; }
};

class Client {
 public:
  struct Words {
    const char *service, *code, *id;     // "S3"; the detail that has its code; the header with the id of a request
    const char *if_absent, *if_version;  // what its conditions are called
  };

  virtual ~Client() = default;
  virtual Words words() const = 0;

  const Place& place() const { return *place_; }
  std::string path(std::string_view key) const { return place().uri() + (key.empty() ? "" : "/") + std::string(key); }
  // When the server answered, by its own clock; -1 if it does not say.
  int64_t date_of(const HttpReply& reply, std::string_view header = "date") const;

  // One operation of this thread's call (base/call.h), with all tries.
  Answer ask(const Request& request);
  // An answer that is no good, as an error that names bucket, key, HTTP status, the service's code and the id of the
  // request.
  Status error(const Answer& answer, const Request& request) const;
  // It answers, but as no server of this kind does.
  Status stranger(std::string_view key, std::string_view what) const;

 protected:
  struct Try;
  // Whose request it is: what the dialect made of its credentials.
  using Who = std::shared_ptr<const void>;

  Client(std::shared_ptr<const Place> place, std::unique_ptr<Http> http)
      : place_(std::move(place)), http_(std::move(http)), patience_(place_->timing) {}
  Http& http() const { return *http_; }
  // The server's time, in seconds.
  int64_t server_time() const;
  // It is told by a refusal. False if that is nothing new.
  bool set_clock(const HttpReply& reply);

  // ---- the dialect ----
  // Address, headers and signature. Its path comes from `request`.
  virtual Result<Who> dress(const Request& request, HttpRequest* http) = 0;
  // Code, words and kind of an answer that is no good, or whose body tells how it ended.
  virtual void read_error(const Request& request, const HttpRequest& sent, const Who& who, Answer* answer) const = 0;
  // Whether a code tells of something that passes.
  virtual bool is_passing_code(const Answer& answer) const = 0;
  // Whether the next try may do better at once: with other keys, say.
  virtual bool repair(const Request& request, const Answer& answer, const Who& who, Try* tries) = 0;
  virtual ckpt_status code_of(const Answer& answer, const Request& request) const = 0;
  // What it means beyond what any service's answer does; "" if nothing.
  virtual std::string hint_of(const Answer& answer, const Request& request) const = 0;

 private:
  Answer ask_once(const Request& request, Who* who);
  Status is_over(const Request& request) const;
  bool is_passing(const Answer& answer) const;
  bool wait_to_try_again(const Answer& answer, const Try& tries);
  static void count(const Request& request, const Answer& answer, bool again);

  const std::shared_ptr<const Place> place_;
  const std::unique_ptr<Http> http_;
  Patience patience_;
  std::atomic<int64_t> skew_ = 0;  // seconds: the server's clock minus ours
};

struct Client::Try : Patience::Try {
  bool asked_keys = false, set_clock = false, signed_again = false;
};

uint64_t size_of(std::span<const Bytes> pieces);
// Of somebody else's text, for one line of an error. What is not ASCII could be cut, or be no UTF-8.
std::string printable(std::string text);

}  // namespace ckpt::store::cloud
