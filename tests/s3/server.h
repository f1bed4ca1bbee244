// The S3 server that tests/s3/run.sh has started, for tests that need one: CKPT_TEST_S3 is its endpoint, and the
// AWS_… variables have its keys.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "store/store.h"

namespace ckpt::store {

inline const char* s3_endpoint() { return std::getenv("CKPT_TEST_S3"); }

inline S3Options s3_options() {
  S3Options options;
  options.endpoint = s3_endpoint();
  return options;
}

// A prefix that nobody else uses.
inline std::string fresh_s3_uri() { return "s3://ckpt-test/" + to_hex(random_id()); }

}  // namespace ckpt::store
