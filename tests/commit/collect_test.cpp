// Rank 0 reads what others wrote: until its time is up, and what came just before.
#include <thread>

#include "checkpoint/engine.h"

namespace ckpt::commit {
namespace {

constexpr uint32_t kWorld = 14;  // few enough for one thread
constexpr int64_t kTimeMs = 1000;

// How a save ends of which each part takes rank 0 so long to open, and after how long. Rank `absent` saves nothing.
std::pair<Status, int64_t> save_with_slow_parts(int64_t open_ms, uint32_t absent = kWorld) {
  const auto inner = fresh_memory_store();
  const auto slow = std::make_shared<store::ShellStore>(inner);
  slow->before([open_ms](std::string_view operation, std::string_view key) {
    if (operation == "open" && key.find("/PART_") != key.npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(open_ms));
    return Ok();
  });
  std::vector<std::shared_ptr<session::Session>> ranks{open_session(slow, 0, kWorld)};
  for (uint32_t rank = 1; rank < kWorld; rank++)
    ranks.push_back(open_session(inner, rank, kWorld, ranks[0]->string().c_str()));
  std::vector<std::thread> others;
  for (uint32_t rank = 1; rank < kWorld; rank++)
    if (rank != absent)
      others.emplace_back([&, rank] { EXPECT_TRUE(save_step(ranks[rank], 1, {.wait = false}).ok()); });
  const int64_t begin = steady_ms();
  Status told = save_step(ranks[0], 1, {.timeout_ms = kTimeMs});
  const int64_t took = steady_ms() - begin;
  for (std::thread& other : others) other.join();
  return {std::move(told), took};
}

TEST(Collect, PartsThatAreAllThereAreReadWhenTheTimeIsUp) {
  const auto [told, took] = save_with_slow_parts(150);
  EXPECT_TRUE(told.ok()) << told.message();
  EXPECT_GT(took, kTimeMs);
}

TEST(Collect, PartsThatAreAllThereGiveNoTimeOfTheirOwn) {
  const auto [told, took] = save_with_slow_parts(600);
  EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
  EXPECT_NE(told.message().find("the time was up before it was read: no answer"), std::string::npos) << told.message();
  ASSERT_NE(told.detail("ranks"), nullptr) << told.message();
  EXPECT_TRUE(told.detail("ranks")->ends_with("13")) << *told.detail("ranks");
  EXPECT_LT(took, kTimeMs + 5000) << "all of them take more than eight seconds";
}

TEST(Collect, TheRankThatIsMissingIsNamedThoughPartsThatAreThereWereNotRead) {
  const auto [told, took] = save_with_slow_parts(600, 1);
  EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
  ASSERT_NE(told.detail("ranks"), nullptr) << told.message();
  EXPECT_EQ(*told.detail("ranks"), "1") << told.message();
  EXPECT_NE(told.detail("expected"), nullptr) << told.message();
  EXPECT_LT(took, kTimeMs + 5000) << "all of them take more than seven seconds";
}

}  // namespace
}  // namespace ckpt::commit
