#include "save/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>

namespace ckpt::save {
namespace {

ckpt_tensor_desc desc_of(int32_t dtype, std::initializer_list<int64_t> shape) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = dtype;
  desc.ndim = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), desc.shape);
  return desc;
}

// What a caller added, without a session.
struct Added {
  SaveContent content;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20);

  const SaveTensor& add(std::string_view name, const ckpt_tensor_desc& desc, const Replica& replica = {}) {
    return add_at(name, desc, memory.data(), memory.size(), replica);
  }
  const SaveTensor& add_at(std::string_view name, const ckpt_tensor_desc& desc, const void* data, size_t size,
                           const Replica& replica = {}) {
    device::RegionRequest request;
    Status status = device::read_desc(desc, data, size, &request);
    EXPECT_TRUE(status.ok()) << status.message();
    content.tensors.push_back(keep_tensor(name, request, replica, &content.memory));
    return *content.tensors.back();
  }
  PartLayout layout(std::string compression = "none", bool in_place = false) {
    sort_tensors(&content.tensors);
    auto layout = lay_out(content, {.chunk_bytes = 1 << 16,
                                    .large_tensor_bytes = 1 << 18,
                                    .block_bytes = 8 << 20,
                                    .compression = std::move(compression),
                                    .in_place = in_place});
    EXPECT_TRUE(layout.ok()) << layout.status().message();
    return layout.take();
  }
};

TEST(SaveTensor, GivesBackTheRegionAndTheMemoryThatWereAdded) {
  Added added;
  ckpt_tensor_desc desc = desc_of(CKPT_DTYPE_F32, {8, 6});
  desc.region_kind = CKPT_REGION_BOX;
  desc.offset[0] = 2, desc.offset[1] = 1;
  desc.extent[0] = 4, desc.extent[1] = 5;
  desc.flags = CKPT_TENSOR_STRIDED;
  desc.strides[0] = 10, desc.strides[1] = 2;
  const SaveTensor& box = added.add("box", desc);
  EXPECT_EQ(to_text(box.region()), "box [2:6, 1:6]");
  EXPECT_EQ(to_text(box.shape()), "[8, 6]");
  EXPECT_EQ(box.bytes, 80u);
  EXPECT_EQ(box.arrangement, Arrangement::kStrided);
  EXPECT_EQ(box.strides(2)[0], 10u);
  EXPECT_EQ(box.strides(2)[1], 2u);

  desc = desc_of(CKPT_DTYPE_U4, {100});
  desc.region_kind = CKPT_REGION_FLAT;
  desc.flat_offset = 10, desc.flat_size = 20;
  const SaveTensor& flat = added.add("flat", desc);
  EXPECT_EQ(to_text(flat.region()), "flat 10:30");
  EXPECT_EQ(flat.bytes, 10u);
  EXPECT_EQ(flat.arrangement, Arrangement::kRow);
}

TEST(Layout, OnAGridChunksOfARegionEndWhereThoseOfAnyOtherDo) {
  Added added;
  ckpt_tensor_desc desc = desc_of(CKPT_DTYPE_F32, {64, 8000});
  desc.region_kind = CKPT_REGION_BOX;
  desc.offset[0] = 3, desc.extent[0] = 20, desc.extent[1] = 8000;  // from byte 96000 on
  const std::vector<std::byte> memory(640000);
  added.add_at("t", desc, memory.data(), memory.size());
  const auto layout = lay_out(
      added.content, {.chunk_bytes = 1 << 16, .large_tensor_bytes = 1 << 30, .block_bytes = 8 << 20, .on_grid = true});
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->items.size(), 2u);
  EXPECT_EQ(layout->items[0].size, 2 * 65536u - 96000);
  EXPECT_EQ(layout->items[1].source.first, 2 * 65536u - 96000);
  EXPECT_EQ(layout->items[1].raw_size(0), 65536u);
  EXPECT_EQ(layout->items[0].size + layout->items[1].size, 640000u);
}

TEST(Layout, WhatIsLeftOfAnItemInPlaceGoesWithTheBlockBeforeItIfItIsTooLittle) {
  const std::vector<std::byte> memory(20 << 20);
  auto sizes = [&](int64_t bytes, bool in_place, uint64_t least) {
    Added added;
    added.add_at("w", desc_of(CKPT_DTYPE_U8, {bytes}), memory.data(), memory.size());
    const auto layout = lay_out(added.content, {.chunk_bytes = 1 << 16,
                                                .large_tensor_bytes = 1 << 30,
                                                .block_bytes = 8 << 20,
                                                .compression = "none",
                                                .rank = 0,
                                                .in_place = in_place,
                                                .least_block_bytes = least});
    EXPECT_TRUE(layout.ok()) << layout.status().message();
    std::vector<uint64_t> found;
    for (const Block& block : layout->blocks) found.push_back(block.raw_bytes);
    return found;
  };
  using Sizes = std::vector<uint64_t>;
  EXPECT_EQ(sizes(20 << 20, true, 5 << 20), (Sizes{8 << 20, 12 << 20}));
  EXPECT_EQ(sizes(14 << 20, true, 5 << 20), (Sizes{8 << 20, 6 << 20}));
  EXPECT_EQ(sizes(3 << 20, true, 5 << 20), (Sizes{3 << 20}));
  EXPECT_EQ(sizes(20 << 20, true, 0), (Sizes{8 << 20, 8 << 20, 4 << 20}));
  EXPECT_EQ(sizes(20 << 20, false, 5 << 20), (Sizes{8 << 20, 8 << 20, 4 << 20})) << "a buffer has a block's size";
}

TEST(SaveTensor, StridesOfAContiguousMemoryCountAsNone) {
  Added added;
  ckpt_tensor_desc desc = desc_of(CKPT_DTYPE_F32, {1, 3, 5});
  desc.flags = CKPT_TENSOR_STRIDED;
  desc.strides[0] = 77, desc.strides[1] = 5, desc.strides[2] = 1;
  EXPECT_EQ(added.add("t", desc).arrangement, Arrangement::kRow);
  desc.strides[1] = 6;
  EXPECT_EQ(added.add("u", desc).arrangement, Arrangement::kStrided);
}

TEST(Layout, ItemsAreInTheOrderOfNamesHoweverTheyWereAdded) {
  Added added;
  for (const char* name : {"b", "model.layers.10", "a", "model.layers.2", "model"})
    added.add(name, desc_of(CKPT_DTYPE_F32, {16}));
  added.add("empty", desc_of(CKPT_DTYPE_F32, {0, 4}));
  std::string order;
  for (const Item& item : added.layout().items) order += std::string(item.source.tensor->name) + " ";
  EXPECT_EQ(order, "a b model model.layers.10 model.layers.2 ");
}

// What needs no table comes first, and T/buckets with what is sorted last, since it counts all rows.
TEST(Layout, BlocksComeInTheOrderOfTheWavesThatSortTheirRows) {
  Added added;
  SaveTable& table = added.content.tables.emplace_back();
  table.waves = {4096, 16384, 65536};
  const RowSource rows{.row_bytes = 16, .waves = table.waves};
  table.buckets_tensor = const_cast<SaveTensor*>(&added.add("t/buckets", desc_of(CKPT_DTYPE_U64, {4096})));
  auto& column = const_cast<SaveTensor&>(added.add("t/column", desc_of(CKPT_DTYPE_U8, {65536, 16})));
  column.arrangement = Arrangement::kTable;
  column.rows = &rows;
  added.add("z", desc_of(CKPT_DTYPE_U8, {100}));
  const auto layout =
      lay_out(added.content, {.chunk_bytes = 1 << 16, .large_tensor_bytes = 1 << 20, .block_bytes = 1 << 16});
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  std::vector<size_t> waves;
  for (const Block& block : layout->blocks) waves.push_back(block.wave);
  EXPECT_EQ(waves, (std::vector<size_t>{0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(layout->items[layout->blocks[0].item_first].source.tensor->name, "z");
  EXPECT_EQ(layout->items[layout->blocks[5].item_first].source.tensor->name, "t/buckets");
}

TEST(Layout, AMemberOfAReplicaGroupTakesItsCutsFromWhereTheyLieInItsMemory) {
  uint64_t total = 0;
  for (uint32_t member = 0; member < 3; member++) {
    Added added;
    const Replica replica{.group = 5, .index = member, .count = 3};
    added.add("large", desc_of(CKPT_DTYPE_F32, {1 << 18}), replica);
    PartLayout layout = added.layout();
    ASSERT_EQ(layout.items.size(), 2u);  // the tensor and the list
    const Item& item = layout.items[0];
    EXPECT_EQ(item.source.first, total);
    EXPECT_EQ(item.source.direct(0, item.size).data(), added.memory.data() + total);
    total += item.size;
  }
  EXPECT_EQ(total, uint64_t{1} << 20);
}

TEST(Layout, AMemoryThatIsNotContiguousIsGatheredChunkByChunk) {
  Added added;
  std::vector<uint32_t> memory(2 * 40000);
  std::iota(memory.begin(), memory.end(), 0u);
  ckpt_tensor_desc desc = desc_of(CKPT_DTYPE_U32, {40000});
  desc.flags = CKPT_TENSOR_STRIDED;
  desc.strides[0] = 2;
  added.add_at("t", desc, memory.data(), memory.size() * 4);
  PartLayout layout = added.layout();
  const Item& item = layout.items[0];
  EXPECT_TRUE(item.source.direct(0, item.size).empty());
  ASSERT_EQ(item.chunk_count, 3u);
  uint32_t expected = 0;
  for (uint64_t number = 0; number < item.chunk_count; number++) {
    std::vector<uint32_t> chunk(item.raw_size(number) / 4);
    ASSERT_TRUE(item.source.read(item.first_byte(number), std::as_writable_bytes(std::span(chunk)), nullptr).ok());
    for (uint32_t value : chunk) ASSERT_EQ(value, 2 * expected++);
  }
  EXPECT_EQ(expected, 40000u);
}

TEST(Layout, SmallTensorsOfOneDtypeShareAVerdictOfAuto) {
  std::vector<std::byte> zeros(4096), noise(4096 * 300);
  std::mt19937_64 random(1);
  std::generate(noise.begin(), noise.end(), [&] { return static_cast<std::byte>(random()); });
  Added added;
  std::vector<std::string> names;
  for (size_t i = 0; i < 600; i++) names.push_back("t" + std::to_string(i));
  for (size_t i = 0; i < 300; i++) {
    added.add_at(names[i], desc_of(CKPT_DTYPE_F32, {1024}), zeros.data(), zeros.size());
    added.add_at(names[300 + i], desc_of(CKPT_DTYPE_BF16, {2048}), noise.data() + i * 4096, 4096);
  }
  for (const Item& item : added.layout("auto").items)
    ASSERT_EQ(item.codec.codec, item.source.tensor->dtype == CKPT_DTYPE_F32 ? Codec::kLz4 : Codec::kRaw)
        << item.source.tensor->name;
}

TEST(Layout, BlocksOfLargeTensorsHoldNothingElseWhereTheyAreWrittenFromTheCallersMemory) {
  Added added;
  std::vector<unsigned char> large(10 << 20);
  added.add("a", desc_of(CKPT_DTYPE_U8, {1000}));
  added.add_at("b", desc_of(CKPT_DTYPE_U8, {10 << 20}), large.data(), large.size());
  added.add("c", desc_of(CKPT_DTYPE_U8, {1000}));
  auto layout_of = [&](bool in_place) {
    PartLayout layout = added.layout("none", in_place);
    std::vector<uint64_t> sizes;
    for (const Block& block : layout.blocks) sizes.push_back(block.raw_bytes);
    return sizes;
  };
  EXPECT_EQ(layout_of(true), (std::vector<uint64_t>{1000, 8 << 20, 2 << 20, 1000}));
  std::vector<uint64_t> packed = layout_of(false);
  ASSERT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed[0] + packed[1], 4096 + (10u << 20) + 1000) << "full but for the last";
}

}  // namespace
}  // namespace ckpt::save
