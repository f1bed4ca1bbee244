// Keys that a file chooses, in tables.
#include "interop/src/seeded_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ckpt::interop {
namespace {

// Multiples of the number of a table's buckets, which all are in one bucket where an integer is its own hash.
TEST(SeededHash, ChosenIntegersAreSpreadOverTheBuckets) {
  for (const int64_t buckets : {42043, 85229, 172933}) {
    std::set<uint64_t> used;
    for (int64_t i = 0; i < 1000; i++) used.insert(SeededHash()(i * buckets) % static_cast<uint64_t>(buckets));
    EXPECT_GT(used.size(), 900u) << buckets;
  }
}

TEST(SeededHash, EqualKeysHaveEqualHashesAndOthersDoNot) {
  EXPECT_EQ(SeededHash()(std::string("weight")), SeededHash()("weight"));
  EXPECT_NE(SeededHash()("weight"), SeededHash()("weighs"));
  EXPECT_EQ(SeededHash()(int64_t{7}), SeededHash()(int64_t{7}));
}

}  // namespace
}  // namespace ckpt::interop
