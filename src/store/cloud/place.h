// Where a store in a bucket is, and how it is reached.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "store/store.h"

namespace ckpt::store::cloud {

// Those of the environment that matter here, as they were when the store was opened: a program may change its own
// while other threads would read it.
using Variables = std::map<std::string, std::string, std::less<>>;
// Those whose names begin with one of these, and HOME.
Variables read_variables(std::initializer_list<std::string_view> prefixes);

struct Place {
  std::string address;       // "s3://bucket": what its URI begins with
  std::string bucket, root;  // "s3://bucket/root"; no slash around root, which may be empty
  std::string scheme, host;  // of the endpoint; host with its port
  std::string ca_file;
  Variables variables;
  bool conditional = true;  // the server honours the condition that an object must be absent
  bool uniform = false;     // parts of an upload must have one size
  int64_t grace_ms = 0;     // how long what is removed stays for its readers
  S3Timing timing;

  std::string uri() const { return address + (root.empty() ? "" : "/" + root); }
  // The key in the bucket of a key of the store.
  std::string key(std::string_view of) const;
  // What the keys of all that is in a directory of the store begin with.
  std::string prefix(std::string_view directory) const;
  // A variable; "" if it is not set.
  std::string variable(std::string_view name) const;
  // "http://127.0.0.1:9000", as errors name it.
  std::string endpoint() const { return scheme + "://" + host; }
};

// Reads address, bucket and root. INVALID
Status read_uri(std::string_view uri, Place* place);
// Reads scheme and host, without a port that is the scheme's own. INVALID
Status read_endpoint(std::string_view uri, const std::string& endpoint, Place* place);
Status invalid_place(std::string_view uri, std::string_view reason);

// The first that is set.
std::string first_of(std::initializer_list<std::string> values);

// The whole of a small file: a token, settings. NOT_FOUND, IO, FORMAT if it has more than a MiB.
Result<std::string> read_small_file(const std::string& path);

}  // namespace ckpt::store::cloud
