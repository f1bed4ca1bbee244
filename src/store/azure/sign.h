// What proves to Azure's Blob service that a request comes from whoever has the key of the account: the signature of a
// request, and a shared access signature, which lets somebody else read one object. Pure.
#pragma once

#include <string>
#include <string_view>

#include "store/cloud/http.h"

namespace ckpt::store::azure {

using namespace cloud;

inline constexpr const char* kVersion = "2021-12-02";  // of the service, as requests name it

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(int64_t seconds);

struct ToSign {
  std::string_view account, method, path;  // the path as it is sent
  Query query;                             // not encoded
  std::vector<Header> headers;             // as they are sent
  uint64_t size = 0;                       // of the body
};
std::string string_to_sign(const ToSign& request);
// The value of header "authorization". `key`: not encoded.
std::string shared_key(const ToSign& request, const std::string& key);

// A query that lets its bearer read the object "container/name" until then.
std::string read_signature(std::string_view account, std::string_view object, const std::string& key, int64_t until);

}  // namespace ckpt::store::azure
