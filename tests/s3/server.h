// The server of a bucket, for tests that need one: of S3, that tests/s3/run.sh has started (CKPT_TEST_S3 is its
// endpoint, and the AWS_… variables have its keys), of Google Cloud Storage, by tests/gcs/run.sh (CKPT_TEST_GCS), or of
// Azure Blob Storage, by tests/azure/run.sh (CKPT_TEST_AZURE).
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

struct ServerKind {
  const char *scheme, *endpoint;  // of addresses; the variable of its own
  const char* removes_parts;      // what the first request for the removal of parts has in its line
  bool tells_all;                 // of an object together with its bytes; else each opening asks once more
  bool keeps_uploads;             // tells which are not complete, and ends them
  uint64_t copy_piece;            // by which objects are copied here: the least that S3 takes
  const char *done, *refused;     // the status of a put, and of one where an object is
};
inline constexpr ServerKind kServers[] = {
    {"s3://", "CKPT_TEST_S3", "uploads=", true, true, 5 << 20, " 200 ", " 412 "},
    {"gs://", "CKPT_TEST_GCS", "pieces", false, true, UINT64_MAX, " 200 ", " 412 "},
    {"az://", "CKPT_TEST_AZURE", "comp=list", false, false, 5 << 20, " 201 ", " 409 "}};
inline const ServerKind& server_kind() {
  for (const ServerKind& kind : kServers)
    if (std::getenv(kind.endpoint)) return kind;
  return kServers[0];
}
inline bool is_s3() { return &server_kind() == &kServers[0]; }
inline bool is_gcs() { return &server_kind() == &kServers[1]; }
inline const char* s3_endpoint() { return std::getenv(server_kind().endpoint); }

// The same server behind TLS, its certificate, which signs itself and is of 127.0.0.1, and that of somebody else.
inline std::string s3_tls_endpoint() { return std::getenv("CKPT_TEST_S3_TLS"); }
inline std::string s3_certificate() { return std::getenv("CKPT_TEST_S3_CERTIFICATE"); }
inline std::string s3_other_certificate() { return s3_certificate() + ".other"; }

// MinIO lists the uploads of one whole key, and none below a prefix.
inline bool s3_lists_uploads() {
  const char* server = std::getenv("CKPT_TEST_S3_SERVER");
  return server_kind().keeps_uploads && (!server || std::string(server) != "minio");
}

inline S3Options s3_options() {
  S3Options options;
  options.endpoint = s3_endpoint();
  return options;
}

// A prefix that nobody else uses.
inline std::string fresh_s3_uri() { return strformat("{}ckpt-test/{}", server_kind().scheme, to_hex(random_id())); }

// Whether the first line of a request puts the object whose key ends so.
inline bool puts_object(const std::string& line, std::string name) {
  if (!is_gcs()) return line.starts_with("PUT ") && line.ends_with(name);
  for (size_t slash; (slash = name.find('/')) != name.npos;) name.replace(slash, 1, "%2F");
  return line.starts_with("POST /upload/") && line.find(name + "&") != line.npos;
}

// The same of one that asks for its bytes.
inline bool reads_object(const std::string& line, std::string name) {
  if (!is_gcs()) return line.starts_with("GET ") && line.ends_with("/" + name);
  for (size_t slash; (slash = name.find('/')) != name.npos;) name.replace(slash, 1, "%2F");
  return line.starts_with("GET ") && line.find("%2F" + name + "?alt=media") != line.npos;
}

// Puts a directory there, with all that is in it; bytes in all.
inline uint64_t put_directory_on_s3(const std::filesystem::path& directory, const std::string& uri) {
  const auto store = *open_bucket(uri, s3_options());
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
