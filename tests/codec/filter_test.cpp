#include "codec/filter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "codec/filter_variant.h"

namespace ckpt::codec {
namespace {

using Buffer = std::vector<uint8_t>;

Buffer random_buffer(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Buffer buffer(size);
  for (auto& byte : buffer) byte = static_cast<uint8_t>(random());
  return buffer;
}

// FORMAT §5, word by word.
Buffer literal_shuffle(const Buffer& raw, size_t w) {
  Buffer out;
  size_t n = raw.size() / w;
  for (size_t k = 0; k < w; k++)
    for (size_t i = 0; i < n; i++) out.push_back(raw[i * w + k]);
  out.insert(out.end(), raw.begin() + static_cast<ptrdiff_t>(n * w), raw.end());
  return out;
}

Buffer literal_planes(const Buffer& raw, size_t w) {
  size_t n = 8 * (raw.size() / (8 * w));
  Buffer out(n * w, 0);
  for (size_t b = 0; b < 8 * w; b++)
    for (size_t i = 0; i < n; i++) {
      uint64_t element = 0;
      std::memcpy(&element, raw.data() + i * w, w);
      if (element >> b & 1) out[b * (n / 8) + i / 8] |= static_cast<uint8_t>(1u << (i % 8));
    }
  out.insert(out.end(), raw.begin() + static_cast<ptrdiff_t>(n * w), raw.end());
  return out;
}

Buffer encode(Filter filter, int width, const Buffer& raw) {
  Buffer out(raw.size(), 0xcc);
  filter_encode(filter, width, std::as_bytes(std::span(raw)), std::as_writable_bytes(std::span(out)));
  return out;
}

Buffer decode(Filter filter, int width, const Buffer& filtered) {
  Buffer out(filtered.size(), 0xcc);
  filter_decode(filter, width, std::as_bytes(std::span(filtered)), std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<size_t> sizes() {
  std::vector<size_t> list;
  for (size_t size = 0; size < 1200; size++) list.push_back(size);
  for (size_t size : {4095, 4096, 4097, 4159, 8192, 16384, 20011, 65536, 65543}) list.push_back(size);
  return list;
}

TEST(Filter, ByteShuffleIsWhatFormatSays) {
  for (int width : {1, 2, 4, 8})
    for (size_t size : sizes()) {
      Buffer raw = random_buffer(size, size);
      ASSERT_EQ(encode(Filter::kByteShuffle, width, raw), literal_shuffle(raw, width)) << width << " " << size;
    }
}

TEST(Filter, BitPlanesAreWhatFormatSays) {
  for (int width : {1, 2, 4, 8})
    for (size_t size : sizes()) {
      Buffer raw = random_buffer(size, size);
      ASSERT_EQ(encode(Filter::kBitPlanes, width, raw), literal_planes(raw, width)) << width << " " << size;
    }
}

TEST(Filter, DecodeUndoesEncode) {
  for (Filter filter : {Filter::kNone, Filter::kByteShuffle, Filter::kBitPlanes})
    for (int width : {1, 2, 4, 8})
      for (size_t size : sizes()) {
        Buffer raw = random_buffer(size, size + 1);
        ASSERT_EQ(decode(filter, width, encode(filter, width, raw)), raw)
            << static_cast<int>(filter) << " " << width << " " << size;
      }
}

TEST(Filter, EncodeUndoesDecode) {  // a permutation of bits: any stored bytes decode to some data
  for (int width : {1, 2, 4, 8})
    for (Filter filter : {Filter::kByteShuffle, Filter::kBitPlanes}) {
      Buffer stored = random_buffer(12345, 9);
      EXPECT_EQ(encode(filter, width, decode(filter, width, stored)), stored);
    }
}

TEST(Filter, NoneCopies) {
  Buffer raw = random_buffer(1000, 3);
  EXPECT_EQ(encode(Filter::kNone, 0, raw), raw);
}

// Compares every variant with the literal reading, on whole blocks and with a stride wider than the data. Nothing else
// may be touched.
TEST(FilterVariants, AgreeOnWholeBlocksAndStayInTheirRows) {
  FilterVariants variants = filter_variants();
  for (int v = 0; v < variants.count; v++)
    for (int width : {1, 2, 4, 8})
      for (size_t blocks : {0, 1, 2, 3, 7}) {
        SCOPED_TRACE(variants.list[v]->name);
        size_t w = static_cast<size_t>(width), n = blocks * kFilterBlock, gap = 5;
        Buffer raw = random_buffer(n * w + 1, blocks);  // reads from an odd address
        Buffer exact(raw.begin() + 1, raw.end());

        Buffer planes((n / 8 + gap) * 8 * w, 0xee), shuffled((n + gap) * w, 0xee);
        variants.list[v]->to_planes(width, raw.data() + 1, blocks, planes.data(), n / 8 + gap);
        variants.list[v]->to_shuffle(width, raw.data() + 1, blocks, shuffled.data(), n + gap);
        Buffer want_planes = literal_planes(exact, w), want_shuffled = literal_shuffle(exact, w);
        for (size_t b = 0; b < 8 * w; b++)
          for (size_t i = 0; i < n / 8 + gap; i++)
            ASSERT_EQ(planes[b * (n / 8 + gap) + i], i < n / 8 ? want_planes[b * (n / 8) + i] : 0xee);
        for (size_t k = 0; k < w; k++)
          for (size_t i = 0; i < n + gap; i++)
            ASSERT_EQ(shuffled[k * (n + gap) + i], i < n ? want_shuffled[k * n + i] : 0xee);

        Buffer back(n * w + 2, 0xee);
        variants.list[v]->from_planes(width, planes.data(), n / 8 + gap, blocks, back.data() + 1);
        ASSERT_EQ(Buffer(back.begin() + 1, back.end() - 1), exact);
        std::fill(back.begin(), back.end(), uint8_t{0xee});
        variants.list[v]->from_shuffle(width, shuffled.data(), n + gap, blocks, back.data() + 1);
        ASSERT_EQ(Buffer(back.begin() + 1, back.end() - 1), exact);
        ASSERT_EQ(back.front(), 0xee);
        ASSERT_EQ(back.back(), 0xee);
      }
}

TEST(FilterWidth, OnlyPowersOfTwoUpToEight) {
  for (int width = -1; width < 300; width++)
    EXPECT_EQ(filter_width_ok(width), width == 1 || width == 2 || width == 4 || width == 8);
}

}  // namespace
}  // namespace ckpt::codec
