#include "device/scatter.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../plan/random_boxes.h"
#include "device/convert.h"

namespace ckpt::device {
namespace {

using namespace plan::testing;

std::vector<std::byte> noise(Random& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

// One more than the last element that a memory of this extent and strides reaches.
uint64_t reach(const Shape& extent, const Shape& strides) {
  uint64_t last = 0;
  for (int d = 0; d < extent.ndim; d++) {
    if (extent[d] == 0) return 0;
    last += (extent[d] - 1) * strides[d];
  }
  return last + 1;
}

uint64_t element_at(const Shape& coordinates, const Shape& strides) {
  uint64_t at = 0;
  for (int d = 0; d < coordinates.ndim; d++) at += coordinates[d] * strides[d];
  return at;
}

// Whether two elements of the memory share a place. Which of them stays is then undefined.
bool overlaps(const Shape& extent, const Shape& strides) {
  std::vector<bool> seen(reach(extent, strides));
  Box all = Box::whole(extent);
  for (uint64_t i = 0; i < all.volume(); i++) {
    uint64_t at = element_at(coordinates(all, i), strides);
    if (seen[at]) return true;
    seen[at] = true;
  }
  return false;
}

Memory memory_of(std::byte* data, uint16_t dtype, const Shape& strides) {
  Memory memory{data, dtype, {}, strides.ndim};
  memory.strides = strides.dims;
  return memory;
}

// A stored box, a chunk of it, and a wanted box of one tensor. Any of them may be empty; they may be disjoint.
struct Case {
  Box stored, wanted;
  uint64_t first, count;
  Shape strides;
  explicit Case(Random& random) {
    Shape shape = random.shape(static_cast<int>(random.below(6)), 1, random.below(2) ? 3 : 6);
    // Rows longer than a cache line, for which transposed memory is walked in slices.
    if (shape.ndim > 0 && shape.ndim < 4 && random.below(2)) shape[shape.ndim - 1] = random.between(1, 150);
    stored = random.box(shape);
    wanted = random.below(3) ? random.box(shape) : stored;
    first = random.below(stored.volume() + 1);
    count = random.between(0, stored.volume() - first);
    strides = random.strides(wanted.extent);
  }
};

// Has the exact size, so that ASan sees any byte too many, and an odd start, so that UBSan sees an aligned access.
struct Buffer {
  std::vector<std::byte> bytes;
  explicit Buffer(size_t size) : bytes(size + 1, std::byte{0xaa}) {}
  std::byte* data() { return bytes.data() + 1; }
};

TEST(Scatter, PutsEveryWantedElementOfTheChunkInItsPlaceAndTouchesNothingElse) {
  Random random(12);
  for (int round = 0; round < 6000; round++) {
    Case the(random);
    size_t width = random.between(1, 31);
    uint16_t dtype = static_cast<uint16_t>(0x2000 | width * 8);
    std::vector<std::byte> chunk = noise(random, the.count * width);
    uint64_t size = reach(the.wanted.extent, the.strides) * width;
    Buffer found(size), expected(size);
    uint64_t copied = 0;
    for (uint64_t i = 0; i < the.count; i++) {
      Shape place = place_of(the.stored, the.first + i);
      if (!holds(the.wanted, place)) continue;
      for (int d = 0; d < place.ndim; d++) place[d] -= the.wanted.offset[d];
      std::memcpy(expected.data() + element_at(place, the.strides) * width, chunk.data() + i * width, width);
      copied++;
    }
    ASSERT_EQ(scatter(chunk, dtype, the.stored, the.first, the.count, the.wanted,
                      memory_of(found.data(), dtype, the.strides)),
              copied);
    ASSERT_TRUE(found.bytes == expected.bytes || overlaps(the.wanted.extent, the.strides)) << width;
  }
}

TEST(Scatter, ChunksOfATilingFillTheWholeMemory) {
  Random random(13);
  for (int round = 0; round < 500; round++) {
    Shape shape = random.shape(static_cast<int>(random.between(1, 4)), 1, 6);
    uint64_t volume = Box::whole(shape).volume();
    std::vector<std::byte> tensor = noise(random, volume * 4), found(volume * 4);
    uint64_t cut = random.below(volume + 1), copied = 0;
    for (auto [begin, end] : {std::pair<uint64_t, uint64_t>{0, cut}, {cut, volume}})
      for (const Box& box : plan::boxes_of_range(Box::whole(shape), begin, end - begin)) {
        std::vector<std::byte> chunk(box.volume() * 4);
        Memory from = memory_of(tensor.data(), CKPT_DTYPE_F32, plan::contiguous_strides(shape));
        from.data += 4 * element_at(box.offset, plan::contiguous_strides(shape));
        gather(from, box.extent, 0, box.volume(), chunk);
        copied += scatter(chunk, CKPT_DTYPE_F32, box, 0, box.volume(), Box::whole(shape),
                          memory_of(found.data(), CKPT_DTYPE_F32, plan::contiguous_strides(shape)));
      }
    ASSERT_EQ(copied, volume);
    ASSERT_EQ(found, tensor);
  }
}

TEST(Scatter, ConvertsWhereTheMemoryHasAnotherFloat) {
  Random random(14);
  constexpr uint16_t kFloats[] = {CKPT_DTYPE_F32, CKPT_DTYPE_BF16, CKPT_DTYPE_F16};
  for (int round = 0; round < 2000; round++) {
    Case the(random);
    uint16_t from = kFloats[random.below(3)], to = kFloats[random.below(3)];
    size_t in_width = static_cast<size_t>(dtype_bits(from)) / 8, out_width = static_cast<size_t>(dtype_bits(to)) / 8;
    std::vector<std::byte> chunk = noise(random, the.count * in_width), converted(the.count * out_width);
    if (from == to)
      converted = chunk;
    else
      convert(from, chunk.data(), to, converted.data(), the.count, 1);
    uint64_t size = reach(the.wanted.extent, the.strides) * out_width;
    Buffer found(size), expected(size);
    uint64_t a =
        scatter(chunk, from, the.stored, the.first, the.count, the.wanted, memory_of(found.data(), to, the.strides));
    uint64_t b = scatter(converted, to, the.stored, the.first, the.count, the.wanted,
                         memory_of(expected.data(), to, the.strides));
    ASSERT_EQ(a, b);
    ASSERT_TRUE(found.bytes == expected.bytes || overlaps(the.wanted.extent, the.strides));
  }
}

TEST(Gather, ReadsElementsInRowMajorOrder) {
  Random random(15);
  for (int round = 0; round < 6000; round++) {
    Case the(random);
    const Shape& extent = the.wanted.extent;
    size_t width = random.between(1, 31);
    uint64_t volume = the.wanted.volume(), first = random.below(volume + 1), count = random.between(0, volume - first);
    std::vector<std::byte> memory = noise(random, reach(extent, the.strides) * width);
    std::vector<std::byte> found(count * width), expected(count * width);
    for (uint64_t i = 0; i < count; i++) {
      uint64_t at = element_at(coordinates(Box::whole(extent), first + i), the.strides);
      std::memcpy(expected.data() + i * width, memory.data() + at * width, width);
    }
    gather(memory_of(memory.data(), static_cast<uint16_t>(0x2000 | width * 8), the.strides), extent, first, count,
           found);
    ASSERT_EQ(found, expected);
  }
}

TEST(Gather, ScatterIsItsInverse) {
  Random random(16);
  for (uint16_t dtype : {CKPT_DTYPE_BOOL, CKPT_DTYPE_F16, CKPT_DTYPE_F32, CKPT_DTYPE_F64, CKPT_DTYPE_C128}) {
    Shape extent = make_shape({7, 5, 9}), strides = make_shape({1, 80, 8});
    size_t width = static_cast<size_t>(dtype_bits(dtype)) / 8;
    std::vector<std::byte> elements = noise(random, 7 * 5 * 9 * width), memory(reach(extent, strides) * width),
                           back(elements.size());
    Memory at = memory_of(memory.data(), dtype, strides);
    for (uint64_t first = 0; first < 315; first += 45)
      scatter(std::span(elements).subspan(first * width, 45 * width), dtype, Box::whole(extent), first, 45,
              Box::whole(extent), at);
    gather(at, extent, 0, 315, back);
    EXPECT_EQ(back, elements);
  }
}

TEST(Gather, StrideZeroRepeatsOneElement) {
  uint32_t value = 7;
  std::vector<uint32_t> out(6);
  Memory memory = memory_of(reinterpret_cast<std::byte*>(&value), CKPT_DTYPE_U32, make_shape({0, 0}));
  gather(memory, make_shape({2, 3}), 0, 6, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, std::vector<uint32_t>(6, 7));
}

}  // namespace
}  // namespace ckpt::device
