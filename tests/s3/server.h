// The S3 server that tests/s3/run.sh has started, for tests that need one: CKPT_TEST_S3 is its endpoint, and the
// AWS_… variables have its keys.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "store/store.h"

namespace ckpt::store {

inline const char* s3_endpoint() { return std::getenv("CKPT_TEST_S3"); }

// The same server behind TLS, its certificate, which signs itself and is of 127.0.0.1, and that of somebody else.
inline std::string s3_tls_endpoint() { return std::getenv("CKPT_TEST_S3_TLS"); }
inline std::string s3_certificate() { return std::getenv("CKPT_TEST_S3_CERTIFICATE"); }
inline std::string s3_other_certificate() { return s3_certificate() + ".other"; }

// MinIO lists the uploads of one whole key, and none below a prefix.
inline bool s3_lists_uploads() {
  const char* server = std::getenv("CKPT_TEST_S3_SERVER");
  return !server || std::string(server) != "minio";
}

inline S3Options s3_options() {
  S3Options options;
  options.endpoint = s3_endpoint();
  return options;
}

// A prefix that nobody else uses.
inline std::string fresh_s3_uri() { return "s3://ckpt-test/" + to_hex(random_id()); }

// Puts a directory there, with all that is in it; bytes in all.
inline uint64_t put_directory_on_s3(const std::filesystem::path& directory, const std::string& uri) {
  const auto store = *open_s3(uri, s3_options());
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const Status put = store->put_over(entry.path().lexically_relative(directory).string(), as_bytes(content));
    if (!put.ok()) throw std::runtime_error(put.message());
    bytes += content.size();
  }
  return bytes;
}

}  // namespace ckpt::store
