// Many real processes save one checkpoint through a directory, with few descriptors each, and three load it.
// By default 32; CKPT_MANY_RANKS=1024 (tools/test --all) takes so many.
#include <sys/resource.h>

#include <cstdlib>

#include "api/process.h"

using namespace ckpt_test;

namespace {

constexpr rlim_t kDescriptors = 256;

uint32_t rank_count() {
  const char* many = std::getenv("CKPT_MANY_RANKS");
  return many ? static_cast<uint32_t>(std::stoul(many)) : 32;
}

// Running programs with few descriptors.
class Processes {
 public:
  Processes(const std::string& uri, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
      programs_.push_back(std::make_unique<Program>(uri));
      const rlimit few{kDescriptors, kDescriptors};
      EXPECT_EQ(prlimit(programs_.back()->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
    }
  }
  // Gives a command to all, made for each; the number that answered OK.
  uint32_t all(const std::function<std::string(uint32_t rank)>& command) {
    uint32_t fine = 0;
    for (uint32_t rank = 0; rank < programs_.size(); rank++) programs_[rank]->send(command(rank));
    for (auto& program : programs_) {
      const Reply reply = program->read();
      fine += reply.status == "OK";
      EXPECT_EQ(reply.status, "OK") << reply;
    }
    return fine;
  }

 private:
  std::vector<std::unique_ptr<Program>> programs_;
};

// One for each of the test's own ends of the channels.
void allow_descriptors(uint64_t count) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, count);
  limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0) << "the test needs " << count << " descriptors";
}

TEST(ManyRanks, MeetSaveAndAreLoadedByThreeWithFewDescriptors) {
  const uint32_t ranks = rank_count();
  const Scratch scratch;
  const std::string store = scratch / "store", timeout = " timeout_ms=600000";
  allow_descriptors(ranks + 100);
  {
    Processes savers(store, ranks);
    ASSERT_EQ(savers.all([&](uint32_t rank) {
      return "open " + std::to_string(rank) + " " + std::to_string(ranks) + " - rendezvous=1" + timeout;
    }),
              ranks);
    for (int step = 1; step <= 2; step++)
      ASSERT_EQ(savers.all([&](uint32_t) {
        return "save s" + std::to_string(step) + " " + std::to_string(step) + " keep_last=1" + timeout;
      }),
                ranks);
  }
  EXPECT_EQ(names_in(store).size(), 2u) << ".ckpt and the newest checkpoint";
  Processes loaders(store, 3);
  ASSERT_EQ(loaders.all([](uint32_t) { return "hold latest"; }), 3u);
  EXPECT_EQ(loaders.all([](uint32_t) { return "check"; }), 3u);
}

}  // namespace
