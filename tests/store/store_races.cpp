// The part of StoreSuite in which many callers meet at one key.
#include <atomic>
#include <barrier>
#include <set>
#include <thread>
#include <vector>

#include "store_suite.h"

namespace ckpt::store {

TEST_P(StoreSuite, OfRacingPutsExactlyOneWinsAndReadersSeeAllOrNothing) {
  constexpr int kThreads = 16, kRounds = 200;
  std::vector<std::atomic<int>> winners(kRounds);
  std::atomic<int> strays{0}, torn{0};
  std::barrier line(kThreads);
  auto race = [&](int me) {
    auto store = home_->open();
    const std::string mine(5000 + me * 100, static_cast<char>('A' + me));
    for (int round = 0; round < kRounds; round++) {
      std::string key = "d/slot" + std::to_string(round);
      line.arrive_and_wait();
      Status status = me % 4 == 3 ? Ok() : store->put_if_absent(key, as_bytes(mine));
      if (me % 4 != 3 && status.ok()) winners[round]++;
      if (!status.ok() && status.code() != CKPT_EXISTS) strays++;
      auto data = store->get(key, 1 << 20);
      if (!data.ok() && (me % 4 != 3 || data.status().code() != CKPT_NOT_FOUND)) torn++;
      if (!data.ok()) continue;
      std::string_view text = as_text(*data);
      size_t wanted = 5000 + 100 * static_cast<size_t>(text.empty() ? 0 : text[0] - 'A');
      if (text.size() != wanted || text.find_first_not_of(text[0]) != text.npos) torn++;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; t++) threads.emplace_back(race, t);
  }
  for (int round = 0; round < kRounds; round++) EXPECT_EQ(winners[round], 1) << round;
  EXPECT_EQ(strays, 0);
  EXPECT_EQ(torn, 0);
  auto entries = store_->list("d");
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(entries->size(), size_t{kRounds}) << "no temporary file is left";
}

TEST_P(StoreSuite, RacingRetirementsRemoveOnceAndDisturbNobody) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 20; round++) {
    const std::string directory = "s" + std::to_string(round);
    ASSERT_TRUE(store_->open_attempt("records/" + directory, as_bytes("main"), directory).ok());
    ASSERT_TRUE(store_->put_if_absent(directory + "/MANIFEST", as_bytes("x")).ok());
    std::atomic<int> winners{0}, strays{0};
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; t++)
        threads.emplace_back([&] {
          const std::string answer = code(store_->retire(directory, "MANIFEST", as_bytes("a tombstone")));
          if (answer == "OK")
            winners++;
          else if (answer != "NOT_FOUND")
            strays++;
        });
    }
    EXPECT_GE(winners, 1);
    EXPECT_EQ(strays, 0);
    const bool stays = !store_->traits().directories;
    EXPECT_EQ(read_text(*store_, directory + "/MANIFEST"), stays ? "a tombstone" : "<NOT_FOUND>");
  }
}

TEST_P(DirectorySuite, MakingListingAndRemovingAtOnceNeverFailsOtherwise) {
  std::atomic<int> strays{0};
  auto check = [&](const Status& status, std::set<std::string> allowed) {
    if (!allowed.count(code(status))) strays++, ADD_FAILURE() << status.message();
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; t++)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; i++) {
          std::string key = "d/" + std::to_string(i % 5);
          if (t < 2) check(store_->make_directory(key), {"OK", "NOT_FOUND"});
          if (t == 2 || t == 3)
            check(store_->put_if_absent(key + "/x" + std::to_string(i), as_bytes("x")), {"OK", "EXISTS", "NOT_FOUND"});
          if (t == 4) check(store_->remove_directory(key), {"OK", "NOT_FOUND"});
          if (t == 5) check(store_->list(key).status(), {"OK", "NOT_FOUND"});
        }
      });
  }
  EXPECT_EQ(strays, 0);
}

}  // namespace ckpt::store
