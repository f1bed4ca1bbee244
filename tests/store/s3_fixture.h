// What the tests of stores on an S3 server share. They run where tests/s3/run.sh has started one.
#pragma once

#include "s3/bucket.h"
#include "s3/fault_proxy.h"
#include "store/cloud/object_writer.h"
#include "store/keys.h"
#include "store/store_suite.h"

namespace ckpt::store {

class S3Home final : public Home {
 public:
  std::shared_ptr<Store> open() override { return open(s3_options()); }
  std::shared_ptr<Store> open(const S3Options& options) const {
    auto store = open_bucket(uri_, options);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? store.take() : nullptr;
  }
  std::shared_ptr<Store> open(const FaultProxy& proxy, const S3Timing& timing = {}) const {
    S3Options options = s3_options();
    options.endpoint = proxy.endpoint();
    options.timing = timing;
    return open(options);
  }
  const std::string& uri() const { return uri_; }
  std::shared_ptr<cloud::Bucket> client(const S3Options& options = s3_options()) const {
    return bucket_at(uri_, options);
  }

 private:
  const std::string uri_ = fresh_s3_uri();
};

inline std::vector<Backend> s3_backends() {
  if (!s3_endpoint()) return {};
  return {Backend{"S3", [] { return std::make_unique<S3Home>(); }}};
}
// Its tests take nothing of their parameter: there are none without a server.
class S3Special : public testing::TestWithParam<Backend> {
 protected:
  S3Home home;
  std::shared_ptr<Store> store = home.open();
};
#define CKPT_S3_SUITE(Suite)                                                                                \
  INSTANTIATE_TEST_SUITE_P(S3, Suite, testing::ValuesIn(s3_backends()), testing::PrintToStringParamName()); \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite)

// Writes the bytes in pieces as a part has them: a page, blocks, a tail. Its blocks come from several threads.
inline Status write_in_pieces(Store& store, std::string_view key, Bytes bytes, uint64_t expected) {
  CKPT_ASSIGN(auto writer, store.create(key, expected));
  constexpr size_t kSizes[] = {4096, 8 << 20, 5 << 20, 1 << 20, 3 << 20, 7 << 20, 8 << 20, 100000, 9 << 20};
  std::vector<Status> told(std::size(kSizes) + 1);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0, at = 0; at < bytes.size(); i++) {
      const size_t size = i < std::size(kSizes) ? std::min(kSizes[i], bytes.size() - at) : bytes.size() - at;
      threads.emplace_back([&, i, at, size] { told[i] = writer->write_at(at, bytes.subspan(at, size)); });
      at += size;
    }
  }
  for (const Status& status : told) CKPT_TRY(status);
  return writer->publish(bytes.size());
}

inline void put_checkpoint(Store& store, const std::string& directory) {
  for (const char* file : {"PART_000", "MANIFEST"})
    ASSERT_EQ(code(store.put_if_absent(directory + "/" + file, as_bytes("x"))), "OK");
}

inline constexpr int64_t kMinute = 60;  // of FaultProxy::shift_dates

// An option or a variable of the environment, as long as a test runs.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

inline void expect_refused(const Status& status, const std::string& http, const std::string& s3_code) {
  EXPECT_EQ(code(status), "IO") << status.message();
  for (const char* key : {"path", "bucket", "key", "http_status", "s3_code", "request_id"})
    EXPECT_NE(status.detail(key), nullptr) << key << ": " << status.message();
  EXPECT_EQ(status.detail("http_status") ? *status.detail("http_status") : "", http);
  EXPECT_EQ(status.detail("s3_code") ? *status.detail("s3_code") : "", s3_code);
  EXPECT_NE(status.message().find("HTTP status " + http + " " + s3_code), std::string::npos) << status.message();
  for (const char* secret : {"testsecret", "not the secret"}) {
    EXPECT_EQ(status.message().find(secret), std::string::npos) << status.message();
    for (const char* key : {"path", "bucket", "key", "s3_code", "request_id"})
      EXPECT_EQ((status.detail(key) ? *status.detail(key) : "").find(secret), std::string::npos) << key;
  }
}

}  // namespace ckpt::store
