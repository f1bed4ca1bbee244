#include "checkpoint/index_coverage.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ckpt::checkpoint {
namespace {

using format::Index;

Region box(std::initializer_list<uint64_t> offset, std::initializer_list<uint64_t> extent) {
  return {RegionKind::kBox, {Shape::of(std::vector<uint64_t>(offset)), Shape::of(std::vector<uint64_t>(extent))}, 0, 0};
}
Region flat(uint64_t offset, uint64_t size) { return {RegionKind::kFlat, {}, offset, size}; }

struct Held {
  std::vector<uint64_t> extents;
  std::vector<Region> regions;
};

// The message for tensors of bytes "t10000", "t10001", … that have these regions as segments, with one thread or more.
std::string said_of(const std::vector<Held>& tensors, unsigned threads = 1) {
  format::IndexBuilder builder;
  uint64_t offset = kAlign;
  for (size_t i = 0; i < tensors.size(); i++) {
    Shape shape = Shape::of(tensors[i].extents);
    builder.add_tensor("t" + std::to_string(10000 + i), CKPT_DTYPE_U8, shape);
    for (const Region& region : tensors[i].regions) {
      uint32_t bytes = static_cast<uint32_t>(region.kind == RegionKind::kFlat ? region.flat_size : region.box.volume());
      fb::Chunk chunk(offset, bytes, bytes, fb::Digest());
      offset += bytes;
      builder.add_segment(0, region, shape, Codec::kRaw, Filter::kNone, 0, {&chunk, 1});
    }
  }
  builder.summary.run = builder.summary.label = "c";
  auto bytes = builder.encode();
  auto index = Index::open(*bytes, format::IndexKind::kPart);
  EXPECT_TRUE(index.ok()) << index.status().message();
  Status status = check_index_coverage(*index, threads);
  EXPECT_TRUE(status.ok() || status.code() == CKPT_FORMAT);
  return status.message();
}

std::string said_of(std::initializer_list<uint64_t> extents, std::vector<Region> regions) {
  return said_of({Held{extents, std::move(regions)}});
}

TEST(IndexCoverage, SlabsRangesAndGridsInAnyOrderCover) {
  EXPECT_EQ(said_of({4, 6}, {box({0, 0}, {4, 6})}), "");
  EXPECT_EQ(said_of({4, 6}, {box({0, 0}, {1, 6}), box({1, 0}, {2, 6}), box({3, 0}, {1, 6})}), "");
  EXPECT_EQ(said_of({4, 6}, {box({2, 0}, {2, 6}), box({0, 0}, {2, 6})}), "");
  EXPECT_EQ(said_of({4, 6}, {box({0, 0}, {4, 1}), box({0, 1}, {4, 5})}), "");
  EXPECT_EQ(said_of({2, 2}, {box({0, 0}, {1, 1}), box({0, 1}, {1, 1}), box({1, 0}, {1, 1}), box({1, 1}, {1, 1})}), "");
  EXPECT_EQ(said_of({4, 6}, {flat(0, 5), flat(5, 19)}), "");
  EXPECT_EQ(said_of({4, 6}, {flat(5, 19), flat(0, 5)}), "");
  EXPECT_EQ(said_of({4, 6}, {flat(0, 12), box({2, 0}, {2, 6})}), "");
  EXPECT_EQ(said_of({}, {box({}, {})}), "");
  EXPECT_EQ(said_of({0, 6}, {}), "");
}

TEST(IndexCoverage, GapsAndDoublesAreRefusedWithTheName) {
  auto refused = [](std::initializer_list<uint64_t> extents, std::vector<Region> regions, std::string_view why) {
    std::string said = said_of(extents, std::move(regions));
    EXPECT_NE(said.find("tensor \"t10000\""), std::string::npos) << said;
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  refused({4, 6}, {}, "no region");
  refused({}, {}, "no region");
  refused({4, 6}, {box({0, 0}, {3, 6})}, "no region");
  refused({4, 6}, {box({0, 0}, {1, 6}), box({2, 0}, {2, 6})}, "no region");
  refused({4, 6}, {box({0, 0}, {1, 6}), box({1, 0}, {2, 6})}, "no region");
  refused({4, 6}, {box({0, 0}, {2, 6}), box({2, 0}, {2, 5})}, "no region");
  refused({4, 6}, {box({0, 0}, {2, 6}), box({1, 0}, {3, 6})}, "hold the same");
  refused({4, 6}, {box({0, 0}, {2, 6}), box({2, 0}, {2, 6}), box({3, 5}, {1, 1})}, "hold the same");
  refused({4, 6}, {flat(0, 5), flat(6, 18)}, "no region");
  refused({4, 6}, {flat(0, 5), flat(4, 20)}, "hold the same");
  refused({4, 6}, {flat(0, 12), box({1, 0}, {3, 6})}, "hold the same");
  refused({}, {box({}, {}), flat(0, 1)}, "hold the same");
}

TEST(IndexCoverage, ThreadsNameTheFirstTensorThatIsNotCovered) {
  std::vector<Held> tensors(20000, Held{{2, 2}, {box({0, 0}, {1, 2}), box({1, 0}, {1, 2})}});
  EXPECT_EQ(said_of(tensors, 4), "");
  for (size_t first : {size_t{0}, size_t{777}, size_t{19000}}) {
    auto broken = tensors;
    for (size_t i : {first, size_t{19998}}) broken[i].regions[1].box.extent[1] = 1;
    std::string said = said_of(broken, 4);
    EXPECT_NE(said.find("\"t" + std::to_string(10000 + first) + "\""), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace ckpt::checkpoint
