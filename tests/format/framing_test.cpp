#include "format/framing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "codec/checksum.h"

namespace ckpt::format {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

PartHeader some_header() { return {CKPT_FORMAT_REVISION, {1, 2}, 3, 8, {4, 5}, 6, 7}; }
PartTrailer some_trailer() { return {8192, 1000, 500, {11, 12}, {1, 2}}; }
ManifestTrailer some_manifest() {
  return {1001, 400, 640, 333, {21, 22}, {23, 24}, ManifestKind::kManifest, CKPT_FORMAT_REVISION};
}

template <size_t kSize>
void put_u32(std::array<std::byte, kSize>& bytes, size_t at, uint32_t value) {
  std::memcpy(bytes.data() + at, &value, 4);
}

// Recomputes the checksum over the first `size` bytes.
template <size_t kSize>
void reseal(std::array<std::byte, kSize>& bytes, size_t size) {
  uint64_t sum = codec::xxh3_64(Bytes(bytes).first(size));
  std::memcpy(bytes.data() + size, &sum, 8);
}

template <size_t kSize, typename Decode>
void expect_every_flip_refused(std::array<std::byte, kSize> bytes, size_t magic, Decode decode) {
  for (size_t bit = 0; bit < 8 * kSize; bit++) {
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
    auto result = decode(bytes);
    bool in_magic = bit / 8 >= magic && bit / 8 < magic + 8;
    ASSERT_FALSE(result.ok()) << bit;
    ASSERT_EQ(result.status().code(), in_magic ? CKPT_FORMAT : CKPT_CORRUPT) << bit;
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
  }
  EXPECT_TRUE(decode(bytes).ok());
}

TEST(PartHeader, RefusesEveryBitFlip) {
  expect_every_flip_refused(encode_part_header(some_header()), 0,
                            [](Bytes bytes) { return decode_part_header(bytes); });
}

TEST(PartHeader, SaysWhatItFoundInsteadOfTheMagic) {
  auto bytes = encode_part_header(some_header());
  std::memcpy(bytes.data(), "\x89PNG\r\n\x1a\n", 8);
  EXPECT_EQ(decode_part_header(bytes).status().message(),
            "no part: expected magic CKPTPART, found bytes 89504e470d0a1a0a");
  std::memcpy(bytes.data(), "\x1bPART pt", 8);
  EXPECT_EQ(decode_part_header(bytes).status().message(),
            "no part: expected magic CKPTPART, found bytes 1b50415254207074");
  std::memcpy(bytes.data(), "PARTCKPT", 8);
  EXPECT_EQ(decode_part_header(bytes).status().message(), "no part: expected magic CKPTPART, found PARTCKPT");
}

TEST(PartHeader, RefusesANewerRevisionOnlyIfItIsSound) {
  auto bytes = encode_part_header(some_header());
  put_u32(bytes, 8, CKPT_FORMAT_REVISION + 1);
  EXPECT_EQ(decode_part_header(bytes).status().code(), CKPT_CORRUPT);
  reseal(bytes, 72);
  bytes[100] = std::byte{1};  // a newer revision may use bytes that are zero today
  EXPECT_EQ(decode_part_header(bytes).status().code(), CKPT_REVISION);
}

TEST(PartHeader, RefusesARankThatItsWorldDoesNotHave) {
  for (const uint32_t world_size : {0u, 3u}) {
    PartHeader header = some_header();
    header.world_size = world_size;
    EXPECT_EQ(decode_part_header(encode_part_header(header)).status().code(), CKPT_FORMAT);
  }
}

TEST(PartHeader, RefusesAnotherStartOfData) {
  auto bytes = encode_part_header(some_header());
  put_u32(bytes, 12, 8192);
  reseal(bytes, 72);
  EXPECT_EQ(decode_part_header(bytes).status().code(), CKPT_FORMAT);
}

TEST(PartHeader, RefusesOtherSizes) {
  auto bytes = encode_part_header(some_header());
  for (size_t size : {0, 8, 80, 4095})
    EXPECT_EQ(decode_part_header(Bytes(bytes).first(size)).status().code(), CKPT_FORMAT);
}

TEST(PartTrailer, RefusesEveryBitFlip) {
  expect_every_flip_refused(encode_part_trailer(some_trailer()), 56,
                            [](Bytes bytes) { return decode_part_trailer(bytes); });
}

TEST(PartTrailer, RefusesOtherSizes) {
  auto bytes = encode_part_trailer(some_trailer());
  EXPECT_EQ(decode_part_trailer(Bytes(bytes).first(71)).status().code(), CKPT_FORMAT);
  EXPECT_EQ(decode_part_trailer({}).status().code(), CKPT_FORMAT);
}

TEST(PartLayout, IndexLiesBetweenHeaderAndTrailer) {
  struct Case {
    uint64_t offset, size, file;
    bool ok;
    uint64_t root = 0;
  };
  const Case cases[] = {
      {4096, 100, 8192, true},
      {4096, 100, 8192, true, 100},
      {4096, 100, 8192, false, 101},
      {4096, 4024, 8192, true},
      {4096, 4025, 8192, false},
      {4032, 100, 8192, false},
      {0, 100, 8192, false},
      {4100, 100, 8192, false},
      {8064, 0, 8192, true},
      {8128, 0, 8192, false},
      {8192, 0, 8192, false},
      {4096, 100, 8193, false},
      {4096, 0, 4096, false},
      {4096, 0, 0, false},
      {kMax - 63, 64, 8192, false},
      {kMax - 63, 100, 8192, false},
      {4096, kMax, 8192, false},
      {4096, kMax - 4095, 8192, false},
      {4096, uint64_t{1} << 33, uint64_t{1} << 34, true, 2147483647},
      {4096, uint64_t{1} << 33, uint64_t{1} << 34, false, 2147483648},
  };
  for (const Case& c : cases) {
    Status status = check_part_layout({c.offset, c.size, c.root, {}, {}}, c.file);
    EXPECT_EQ(status.code(), c.ok ? CKPT_OK : CKPT_FORMAT) << c.offset << " " << c.size << " " << c.file;
  }
}

TEST(ManifestTrailer, RefusesEveryBitFlip) {
  expect_every_flip_refused(encode_manifest_trailer(some_manifest()), 72,
                            [](Bytes bytes) { return decode_manifest_trailer(bytes); });
}

TEST(ManifestTrailer, RefusesOtherRevisions) {
  for (uint32_t revision : {0, CKPT_FORMAT_REVISION + 1}) {
    auto bytes = encode_manifest_trailer(some_manifest());
    put_u32(bytes, 68, revision);
    EXPECT_EQ(decode_manifest_trailer(bytes).status().code(), CKPT_CORRUPT);
    reseal(bytes, 80);
    const Status status = decode_manifest_trailer(bytes).status();
    EXPECT_EQ(status.code(), CKPT_REVISION);
    EXPECT_NE(status.message().find("revision " + std::to_string(revision)), std::string::npos) << status.message();
  }
}

TEST(ManifestTrailer, RefusesUnknownKinds) {
  for (uint32_t kind : {0u, 3u, 0xffffffffu}) {
    ManifestTrailer trailer = some_manifest();
    trailer.kind = ManifestKind{kind};
    EXPECT_EQ(decode_manifest_trailer(encode_manifest_trailer(trailer)).status().code(), CKPT_FORMAT);
  }
}

ManifestTrailer of_sizes(uint64_t index, uint64_t root, uint64_t copies, uint64_t summary,
                         ManifestKind kind = ManifestKind::kManifest) {
  return {index, root, copies, summary, {}, {}, kind, 1};
}

TEST(ManifestLayout, AddsUpToExactlyTheFile) {
  for (uint64_t index : {0, 1, 63, 64, 65, 1001})
    for (uint64_t copies : {0, 64, 640})
      for (uint64_t summary : {0, 1, 8, 333}) {
        const ManifestTrailer trailer = of_sizes(index, index / 2, copies, summary);
        const uint64_t begin = (index + 63) / 64 * 64, size = begin + copies + (summary + 7) / 8 * 8 + 88;
        EXPECT_TRUE(check_manifest_layout(trailer, size).ok());
        EXPECT_EQ(manifest_copies_offset(trailer), begin);
        EXPECT_EQ(manifest_summary_offset(trailer), begin + copies);
        for (uint64_t wrong : {uint64_t{0}, size - 88, size - 1, size + 1, size + 8, size + 64, kMax})
          EXPECT_EQ(check_manifest_layout(trailer, wrong).code(), CKPT_FORMAT);
      }
}

TEST(ManifestLayout, RefusesSizesThatWouldOverflow) {
  for (uint64_t size : {kMax, kMax - 7, kMax - 63, kMax - 87, uint64_t{1} << 63, uint64_t{1} << 40})
    for (uint64_t file : {uint64_t{88}, uint64_t{64}, uint64_t{0}, size, size + 88})
      for (const ManifestTrailer& trailer : {of_sizes(size, 0, 0, 0), of_sizes(0, 0, size / 64 * 64, 0),
                                             of_sizes(0, 0, 0, size), of_sizes(size, 0, size / 64 * 64, size)}) {
        const bool fits = file > size && trailer.summary_size <= kMaxSlotText && size == file - 88 &&
                          trailer.index_size + trailer.copies_size + trailer.summary_size == size;
        EXPECT_EQ(check_manifest_layout(trailer, file).code(), fits ? CKPT_OK : CKPT_FORMAT) << size << " " << file;
      }
}

TEST(ManifestLayout, RefusesARootThatIsNotInTheIndexAndCopiesThatAreNotAligned) {
  EXPECT_TRUE(check_manifest_layout(of_sizes(128, 128, 64, 0), 280).ok());
  EXPECT_EQ(check_manifest_layout(of_sizes(128, 129, 64, 0), 280).code(), CKPT_FORMAT);
  EXPECT_EQ(check_manifest_layout(of_sizes(128, 128, 32, 0), 248).code(), CKPT_FORMAT);
  const uint64_t large = uint64_t{1} << 32;
  EXPECT_TRUE(check_manifest_layout(of_sizes(large, kMaxRootSize, 0, 0), large + 88).ok());
  EXPECT_EQ(check_manifest_layout(of_sizes(large, kMaxRootSize + 1, 0, 0), large + 88).code(), CKPT_FORMAT);
}

TEST(ManifestLayout, TombstoneHasNothingElse) {
  EXPECT_TRUE(check_manifest_layout(of_sizes(8, 0, 0, 0, ManifestKind::kTombstone), 152).ok());
  EXPECT_EQ(check_manifest_layout(of_sizes(8, 0, 0, 8, ManifestKind::kTombstone), 160).code(), CKPT_FORMAT);
  EXPECT_EQ(check_manifest_layout(of_sizes(8, 0, 64, 0, ManifestKind::kTombstone), 216).code(), CKPT_FORMAT);
  EXPECT_EQ(check_manifest_layout(of_sizes(8, 8, 0, 0, ManifestKind::kTombstone), 152).code(), CKPT_FORMAT);
}

TEST(AllZero, FindsAnyOtherByte) {
  for (size_t size = 0; size < 40; size++) {
    std::vector<std::byte> bytes(size);
    EXPECT_TRUE(all_zero(bytes));
    for (size_t i = 0; i < size; i++) {
      bytes[i] = std::byte{1};
      EXPECT_FALSE(all_zero(bytes));
      bytes[i] = std::byte{0};
    }
  }
}

// Whoever lists a store makes memory for them, and a sparse file of any size costs its maker nothing.
TEST(Manifest, ASummaryOrTombstoneOfMoreThanAMiBIsRefused) {
  for (const uint64_t size : {uint64_t{1} << 20, (uint64_t{1} << 20) + 8, uint64_t{1} << 40}) {
    ManifestTrailer summary, tombstone;
    summary.summary_size = tombstone.index_size = size;
    tombstone.kind = ManifestKind::kTombstone;
    const ckpt_status expected = size > kMaxSlotText ? CKPT_FORMAT : CKPT_OK;
    EXPECT_EQ(check_manifest_layout(summary, size + kManifestTrailerSize).code(), expected) << size;
    EXPECT_EQ(check_manifest_layout(tombstone, size + kManifestTrailerSize).code(), expected) << size;
  }
}

}  // namespace
}  // namespace ckpt::format
