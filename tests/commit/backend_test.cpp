// Saves and loads on a store from outside that loses answers, brings other bytes, or promises little.
#include "commit/any_store.h"
#include "store/puppet_backend.h"

namespace ckpt::commit {
namespace {

using store::open_puppet;
using store::puppet;

class OnPuppet : public ::testing::Test {
 protected:
  const std::shared_ptr<store::Store> first = open_puppet();
  const Handles handles = [] { return open_puppet(false); };
};

TEST_F(OnPuppet, OtherBytesThanWereSavedAreCorruptAndNeverLoaded) {
  Start start(handles, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  std::string& part = puppet()->objects["s1.1.1/PART_000"].bytes;
  int corrupt = 0;
  for (size_t at = 0; at < part.size(); at += 61) {
    part[at] = static_cast<char>(part[at] ^ 1);
    corrupt += load(handles, "s1").status().code() == CKPT_CORRUPT ? 1 : 0;  // what it loads it compares
    part[at] = static_cast<char>(part[at] ^ 1);
  }
  EXPECT_GT(corrupt, 0);
  EXPECT_EQ(*load(handles, "s1"), 1);
}

TEST_F(OnPuppet, WithoutExclusivePutsOneRankSavesAndTwoAreRefusedWithTheReason) {
  puppet()->traits.promises = 0;
  auto two = session::Session::open(handles(), 0, 2, nullptr, {});
  EXPECT_EQ(two.status().code(), CKPT_UNSUPPORTED);
  EXPECT_NE(two.status().message().find("without exclusive puts"), std::string::npos) << two.status().message();
  Start start(handles, 1);
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE(all_ok(start.save(step, {.keep_last = 2})).ok());
  EXPECT_EQ(*load(handles, "latest"), 3);
  EXPECT_EQ(load(handles, "s1").status().code(), CKPT_NOT_FOUND);
}

TEST_F(OnPuppet, ACommitWhoseAnswerGotLostIsSettledOnlyWhereWhatIsSeenIsDurable) {
  const auto lose = [](const std::string& key) { return key.ends_with("/MANIFEST"); };
  for (const bool durable : {true, false}) {
    puppet()->lost = nullptr;
    puppet()->traits.promises = CKPT_BACKEND_EXCLUSIVE | (durable ? CKPT_BACKEND_DURABLE : 0);
    Start start(handles, 1);
    puppet()->lost = lose;
    const Status told = start.save(1, {.on_existing = "replace"})[0];
    EXPECT_EQ(told.code(), durable ? CKPT_OK : CKPT_COMMIT_UNKNOWN) << told.message();
    EXPECT_EQ(*load(handles, "s1"), 1);
  }
}

TEST_F(OnPuppet, AWaitForItsListsEndsWithTheCall) {
  puppet()->traits.list_delay_ms = 60000;
  const auto ask = [kept = handles()](Job&) { return checkpoint::list_ids(*kept); };
  const Status told = make_apart<std::vector<std::string>>(std::make_shared<Job>(), 100, ask).status();
  EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
  EXPECT_NE(told.message().find("a wait for the lists"), std::string::npos) << told.message();
}

TEST_F(OnPuppet, ACommitThatDidNotReachItIsNoCommit) {
  Start start(handles, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  puppet()->before = [](const std::string& call, const std::string& key, ckpt_error**) {
    return call == "publish" && key.ends_with("/MANIFEST") ? CKPT_IO : CKPT_OK;
  };
  EXPECT_FALSE(all_ok(start.save(2)).ok());
  puppet()->before = nullptr;
  EXPECT_EQ(*load(handles, "latest"), 1);
  ASSERT_TRUE(all_ok(start.save(3)).ok());
  EXPECT_EQ(*load(handles, "latest"), 3);
}

}  // namespace
}  // namespace ckpt::commit
