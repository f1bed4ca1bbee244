// Where a store is and how it is reached, from its URI, its options, the environment and ~/.aws, in this order.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "store/store.h"

namespace ckpt::store::s3 {

// What ~/.aws/config and ~/.aws/credentials say of one profile.
using Profile = std::map<std::string, std::string, std::less<>>;

// Those of the environment that matter here, as they were when the store was opened: a program may change its own
// while other threads would read it.
using Variables = std::map<std::string, std::string, std::less<>>;

struct Config {
  std::string bucket, root;  // "s3://bucket/root"; no slash around root, which may be empty
  std::string scheme, host;  // of the endpoint; host with its port
  std::string base;          // of a path: "" or "/bucket"
  std::string region, ca_file, profile_name;
  Variables variables;
  bool profile_asked = false;  // by option: then the environment has no keys for it
  bool conditional = true;     // the server honours If-None-Match
  bool uniform = false;        // parts of an upload must have one size
  int64_t grace_ms = 0;        // how long what is removed stays for its readers
  S3Timing timing;

  std::string uri() const { return "s3://" + bucket + (root.empty() ? "" : "/" + root); }
  // The key in the bucket of a key of the store.
  std::string key(std::string_view of) const;
  // A variable; "" if it is not set.
  std::string variable(std::string_view name) const;
  // "http://127.0.0.1:9000", as errors name it.
  std::string endpoint() const { return scheme + "://" + host; }
};

// INVALID
Result<Config> make_config(std::string_view uri, const S3Options& options);

// What the files of ~/.aws say now of the profile, the credentials file last. INVALID if it was asked for and is
// nowhere.
Result<Profile> read_profile(const Config& config);
// Of a profile; "" if it is not set.
std::string setting(const Profile& profile, std::string_view key);

// The settings of one section of a file like ~/.aws/config. Settings that belong to another setting are left out.
Profile read_section(std::string_view text, std::string_view section);

// The whole of a small file: a token, settings. NOT_FOUND, IO, FORMAT if it has more than a MiB.
Result<std::string> read_small_file(const std::string& path);

}  // namespace ckpt::store::s3
