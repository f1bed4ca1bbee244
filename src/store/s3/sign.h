// AWS' Signature Version 4: proves to a server that a request comes from whoever has the secret key, and that nobody
// changed it on its way. Five rules that servers enforce by a bare 400 or 403: x-amz-content-sha256 is always there;
// the query is sorted by name; a parameter without a value keeps its '='; a '/' in a value is %2F; no header is empty.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/cloud/http.h"

namespace ckpt::store::s3 {

using namespace cloud;

// No access key: requests are sent unsigned.
struct Keys {
  std::string access_key, secret_key, session_token;
  bool anonymous() const { return access_key.empty(); }
};

// "20130524T000000Z"
std::string amz_date(int64_t seconds);

struct ToSign {
  std::string_view method, path, query;  // encoded as they are sent
  std::vector<Header> headers;           // with host, x-amz-date and x-amz-content-sha256
  std::string_view payload_hash;         // the value of x-amz-content-sha256
};
std::string canonical_request(const ToSign& request);
// The value of header "authorization".
std::string authorization(const ToSign& request, const Keys& keys, std::string_view region, std::string_view service,
                          std::string_view date);

}  // namespace ckpt::store::s3
