// One HTTP request and its answer, over connections that are kept for the next ones. Knows no service.
// May be used by many threads at once; each request blocks its thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "store/cloud/curl.h"
#include "store/cloud/encoding.h"

namespace ckpt::store::cloud {

struct Header {
  std::string name, value;  // the name in lower case
};

struct HttpReply {
  // 0: there was no answer; `trouble` says why.
  long status = 0;
  std::vector<Header> headers;  // names in lower case
  std::string text;             // the body, unless it went to HttpRequest::into
  uint64_t received = 0;        // bytes that went there

  std::string trouble;
  bool final = false;    // trouble that a repetition would meet again: a certificate, a setting
  bool sent = false;     // something of the request may have reached the server
  bool absent = false;   // nobody listens there
  bool refused = false;  // `accept` said no
  bool no_memory = false;
  Status ended;  // why, if the call was over

  bool good() const { return status >= 200 && status < 300; }
  // Null if there is none.
  const std::string* header(std::string_view name) const;
};

struct HttpRequest {
  std::string method, url;
  std::vector<Header> headers;
  std::span<const Bytes> body;  // of PUT and POST, one piece after the other
  // A body of a good answer goes here, and must not be longer. Without memory it becomes text.
  MutableBytes into;
  bool wants_bytes = false;
  // Asked once, when the headers of a good answer are there: whether its body is what was asked for.
  std::function<bool(const HttpReply&)> accept;
  size_t most_text = 16 << 20;  // of a body that becomes text; a listing of 1,000 keys takes a tenth of it
  long connect_ms = 10000;
  long stall_s = 20;                     // so long with less than a KiB each second
  long most_ms = 60000;                  // for all of it
  bool direct = false;                   // passes by any proxy
  const CallContext* context = nullptr;  // if not null: waits no longer than that says
};

class Http {
 public:
  // `ca_file`: the certificates to trust; "": those of the system.
  static Result<std::unique_ptr<Http>> make(std::string_view ca_file);
  ~Http();
  HttpReply exchange(const HttpRequest& request);
  // "Sun, 06 Nov 1994 08:49:37 GMT"; -1 if it is no date.
  int64_t seconds_of(const std::string& date) const { return curl_.getdate(date.c_str(), nullptr); }

 private:
  Http(const Curl& curl, std::string_view ca_file);
  class Handle;
  CURL* take();
  void give(CURL* handle);

  const Curl& curl_;
  const std::string ca_file_;
  const std::vector<std::string> secrets_;  // of proxies, which libcurl's words may hold
  std::mutex mutex_;
  std::vector<CURL*> idle_;  // each with its connections
};

}  // namespace ckpt::store::cloud
