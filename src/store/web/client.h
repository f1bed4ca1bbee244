// Reading from one web server: a range of a file, asked for again while that makes sense, through redirects, and its
// failures as Status.
// May be used by many threads.
#pragma once

#include <memory>
#include <string>

#include "store/cloud/patience.h"
#include "store/web/url.h"

namespace ckpt::store::web {

// What a request got.
struct Answer {
  cloud::HttpReply http;
  Status failure;  // there was no answer, or a redirect that is not followed
  Status over;     // the time was up before it could be asked for again
  Url from;        // whose answer it is, after all redirects

  bool is(long status) const { return failure.ok() && over.ok() && http.status == status; }
  bool is_absent() const { return is(404) || is(410); }
};

struct Get {
  explicit Get(Url its_address) : address(std::move(its_address)) {}

  Url address;
  std::string range;                  // "bytes=0-9"
  bool expected = false;              // it is there, as far as is known: a 404 is asked again, as it may be a proxy's
  std::vector<cloud::Header> pinned;  // conditions
  bool wants_bytes = false;
  MutableBytes into;
  std::function<bool(const cloud::HttpReply&)> accept;
};

class Client {
 public:
  // INVALID, UNSUPPORTED. Sends nothing.
  static Result<std::shared_ptr<Client>> make(std::string_view uri, const WebOptions& options);

  const Url& root() const { return root_; }
  // As errors name it: without a user and a query.
  std::string path(std::string_view key) const;
  Answer ask(const Get& get);
  // An answer that is no good, as an error that names the address and the HTTP status.
  Status error(const Answer& answer, std::string_view key) const;

 private:
  Client(Url root, const WebOptions& options) : root_(std::move(root)), timing_(options.timing), patience_(timing_) {}
  Status take_authority(const WebOptions& options);
  Status take_token(const char* variable);
  Answer follow(const Get& get, bool again);
  cloud::HttpReply ask_once(const Get& get, const Url& address);

  Url root_;  // its user is in `secrets_`
  const S3Timing timing_;
  cloud::Patience patience_;
  std::unique_ptr<cloud::Http> http_;
  std::vector<cloud::Header> secrets_;  // headers that only the host of `root_` gets
  std::string withheld_;                // why it does not get the token of CKPT_HTTP_TOKEN
};

}  // namespace ckpt::store::web
