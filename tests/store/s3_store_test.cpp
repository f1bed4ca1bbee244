// The store on an S3 server: StoreSuite, and what is special about it. Runs where tests/s3/run.sh has started one.
#include "s3/server.h"
#include "store/store_suite.h"

namespace ckpt::store {
namespace {

class S3Home final : public Home {
 public:
  std::shared_ptr<Store> open() override {
    auto store = open_s3(uri_, s3_options());
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? store.take() : nullptr;
  }

 private:
  const std::string uri_ = fresh_s3_uri();
};

std::vector<Backend> s3_backends() {
  if (!s3_endpoint()) return {};
  return {Backend{"S3", [] { return std::make_unique<S3Home>(); }}};
}
INSTANTIATE_TEST_SUITE_P(S3, StoreSuite, testing::ValuesIn(s3_backends()), testing::PrintToStringParamName());

}  // namespace
}  // namespace ckpt::store
