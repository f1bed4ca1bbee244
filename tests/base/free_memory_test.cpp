// What may be taken of the machine's memory and of the control group's.
#include "base/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ckpt {
namespace {

class FreeMemory : public ::testing::Test {
 protected:
  FreeMemory() { EXPECT_NE(mkdtemp(root.data()), nullptr); }
  ~FreeMemory() override { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  uint64_t free() const { return free_memory(root + "/proc", root + "/cgroup"); }
  std::string root = (std::filesystem::temp_directory_path() / "ckpt-memory.XXXXXX").string();
};

TEST_F(FreeMemory, IsUnlimitedIfNothingTells) { EXPECT_EQ(free(), UINT64_MAX); }

TEST_F(FreeMemory, OfTheMachineIsWhatTheKernelCallsAvailable) {
  write("/proc/meminfo", "MemTotal:       100 kB\nMemFree:         10 kB\nMemAvailable:    70 kB\n");
  EXPECT_EQ(free(), 70u << 10);
}

TEST_F(FreeMemory, OfAGroupIsItsLimitLessWhatItUsesWithoutPagesOfFiles) {
  write("/proc/meminfo", "MemAvailable:    70 kB\n");
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/cgroup/a/b/memory.max", "max\n");
  write("/cgroup/a/b/memory.current", "100\n");
  EXPECT_EQ(free(), 70u << 10) << "no limit";
  write("/cgroup/a/memory.max", "5000\n");
  write("/cgroup/a/memory.current", "3000\n");
  write("/cgroup/a/memory.stat", "anon 1\ninactive_file 1500\n");
  EXPECT_EQ(free(), 3500u) << "that of the group around it";
  write("/cgroup/memory.max", "10\n");
  write("/cgroup/memory.current", "30\n");
  EXPECT_EQ(free(), 0u);
}

TEST_F(FreeMemory, OfAGroupOfVersionOneCountsToo) {
  write("/cgroup/memory/memory.limit_in_bytes", "900\n");
  write("/cgroup/memory/memory.usage_in_bytes", "100\n");
  EXPECT_EQ(free(), 800u);
}

TEST_F(FreeMemory, OfThisMachineIsKnown) {
  EXPECT_GT(free_memory(), 0u);
  EXPECT_LT(free_memory(), uint64_t{1} << 50);
}

TEST(QuarterLeft, IsWhatAllMayStillTakeTogether) {
  EXPECT_EQ(quarter_left(1000, 1000), 250u);
  EXPECT_EQ(quarter_left(1000, 800), 50u);
  EXPECT_EQ(quarter_left(1000, 700), 0u);
  EXPECT_EQ(quarter_left(UINT64_MAX, UINT64_MAX), UINT64_MAX / 4);
}

}  // namespace
}  // namespace ckpt
