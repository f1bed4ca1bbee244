// What a save reads of memory of any kind, against the bytes in their order. Memory of devices: tests/cuda.
#include "save/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace ckpt::save {
namespace {

SaveTensor tensor_of_rows(const RowSource& rows) {
  SaveTensor tensor;
  tensor.rows = &rows;
  tensor.arrangement = Arrangement::kTable;
  return tensor;
}

// More rows and fewer than are fetched ahead; sizes of which the compiler knows and does not; a piece may begin and end
// within a row, as chunks of large rows do.
TEST(Source, CopiesRowsOfATableOfAnySizeFromAnyByteOn) {
  std::mt19937_64 random(3);
  for (uint64_t row_bytes : {1, 4, 8, 31, 32, 64, 100, 4096}) {
    const uint64_t rows = 200, in_block = 23;
    std::vector<std::vector<uint8_t>> memory;
    std::vector<const std::byte*> blocks;
    for (uint64_t block = 0; block * in_block < 2 * rows; block++) {
      std::vector<uint8_t>& bytes = memory.emplace_back(in_block * row_bytes);
      std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(random()); });
      blocks.push_back(reinterpret_cast<const std::byte*>(bytes.data()));
    }
    std::vector<uint64_t> positions(2 * rows), order(rows);
    std::iota(positions.begin(), positions.end(), uint64_t{0});
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::ranges::shuffle(positions, random);
    std::ranges::shuffle(order, random);
    const RowSource table{.blocks = blocks.data(),
                          .rows_per_block = in_block,
                          .row_bytes = row_bytes,
                          .positions = positions.data(),
                          .order = order.data()};
    const SaveTensor tensor = tensor_of_rows(table);
    std::vector<uint8_t> all;
    for (uint64_t number : order) {
      const uint64_t at = positions[number];
      const auto row = memory[at / in_block].begin() + static_cast<ptrdiff_t>(at % in_block * row_bytes);
      all.insert(all.end(), row, row + static_cast<ptrdiff_t>(row_bytes));
    }
    for (int i = 0; i < 50; i++) {
      const uint64_t first = random() % (all.size() + 1), size = random() % (all.size() - first + 1);
      std::vector<uint8_t> copied(size);
      ASSERT_TRUE(Source::of(tensor, first).read(0, std::as_writable_bytes(std::span(copied)), nullptr).ok());
      ASSERT_TRUE(std::ranges::equal(copied, std::span(all).subspan(first, size)))
          << size << " bytes of rows of " << row_bytes << " from byte " << first << " on";
    }
  }
}

SaveTensor tensor_of(const std::vector<uint32_t>& memory, std::array<int64_t, 2> shape, int64_t pitch,
                     SaveContent* content) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_U32;
  desc.ndim = 2;
  desc.flags = CKPT_TENSOR_STRIDED;
  std::ranges::copy(shape, desc.shape);
  desc.strides[0] = pitch, desc.strides[1] = 1;
  device::RegionRequest request;
  EXPECT_TRUE(device::read_desc(desc, memory.data(), memory.size() * 4, &request).ok());
  return *keep_tensor("t", request, {}, &content->memory);
}

TEST(Source, GivesTheSameBytesHoweverTheyLie) {
  constexpr uint64_t kRows = 50, kColumns = 6, kPitch = 11;
  std::vector<uint32_t> in_a_row(kRows * kColumns), strided(kRows * kPitch), scattered(in_a_row.size());
  std::iota(in_a_row.begin(), in_a_row.end(), 1u);
  std::vector<uint64_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), uint64_t{0});
  std::ranges::shuffle(positions, std::mt19937_64(1));
  for (uint64_t i = 0; i < in_a_row.size(); i++) {
    strided[i / kColumns * kPitch + i % kColumns] = in_a_row[i];
    scattered[positions[i / kColumns] * kColumns + i % kColumns] = in_a_row[i];
  }
  const auto* block = reinterpret_cast<const std::byte*>(scattered.data());
  const RowSource rows{.blocks = &block, .row_bytes = kColumns * 4, .positions = positions.data()};
  SaveContent content;
  const SaveTensor tensors[] = {tensor_of(in_a_row, {kRows, kColumns}, kColumns, &content),
                                tensor_of(strided, {kRows, kColumns}, kPitch, &content), tensor_of_rows(rows)};
  const Bytes all = std::as_bytes(std::span(in_a_row));
  std::mt19937_64 random(2);
  std::vector<std::byte> scratch;
  for (int i = 0; i < 300; i++) {
    const uint64_t first = random() % in_a_row.size() * 4, at = random() % (all.size() - first) / 4 * 4,
                   size = random() % (all.size() - first - at) / 4 * 4 + 4;
    const Bytes expected = all.subspan(first + at, size);
    for (const Source& source : {Source::of(tensors[0], first), Source::of(tensors[1], first),
                                 Source::of(tensors[2], first), Source::of(all.subspan(first))}) {
      const bool lies_so = !source.tensor || source.tensor->arrangement == Arrangement::kRow;
      ASSERT_EQ(source.direct(at, size).data(), lies_so ? expected.data() : nullptr);
      std::vector<std::byte> copy(size);
      ASSERT_TRUE(source.read(at, copy, nullptr).ok());
      ASSERT_TRUE(std::ranges::equal(copy, expected));
      const auto seen = source.view(at, size, &scratch, nullptr);
      ASSERT_TRUE(seen.ok() && std::ranges::equal(*seen, expected));
      ASSERT_EQ(seen->data() == expected.data(), lies_so) << "what lies in a row is not copied";
    }
  }
}

}  // namespace
}  // namespace ckpt::save
