#include "codec/checksum.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <string>
#include <vector>

// The reference: xxHash compiled with the options of this file, without dispatch.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codec/checksum_variant.h"

namespace ckpt::codec {
namespace {

std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Digest reference_128(Bytes data) {
  XXH128_hash_t hash = XXH3_128bits(data.data(), data.size());
  return {hash.low64, hash.high64};
}

Digest hash_with(const ChecksumVariant& variant, Bytes data) {
  uint64_t words[2];
  variant.hash_128(data.data(), data.size(), words);
  return {words[0], words[1]};
}

Digest copy_with(const ChecksumVariant& variant, Bytes from, std::byte* to) {
  uint64_t words[2];
  variant.copy_128(from.data(), to, from.size(), words);
  return {words[0], words[1]};
}

Digest stream_with(const ChecksumVariant& variant, Bytes data, size_t step) {
  alignas(64) std::byte state[576];
  uint64_t words[2];
  variant.reset(state);
  for (size_t at = 0; at < data.size(); at += step)
    variant.update(state, data.data() + at, std::min(step, data.size() - at));
  variant.digest(state, words);
  return {words[0], words[1]};
}

template <typename Check>
void for_each_variant(Check check) {
  ChecksumVariants variants = checksum_variants();
  ASSERT_GE(variants.count, 1);
  for (int i = 0; i < variants.count; i++) {
    SCOPED_TRACE(variants.list[i]->name);
    check(*variants.list[i]);
  }
}

TEST(Checksum, KnownVectors) {
  EXPECT_EQ(xxh3_64({}), 0x2d06800538d394c2u);
  EXPECT_EQ(xxh3_128({}), (Digest{0x6001c324468d497f, 0x99aa06d3014798d8}));
  EXPECT_EQ(xxh3_64(as_bytes("abc")), 0x78af5f94892f3950u);
  EXPECT_EQ(xxh3_128(as_bytes("abc")), (Digest{0x78af5f94892f3950, 0x06b05ab6733a6185}));
}

TEST(Checksum, EveryVariantAgreesWithXxhashOnEveryShortLength) {
  auto data = random_bytes(4096 + 64, 1);
  for_each_variant([&](const ChecksumVariant& variant) {
    for (size_t size = 0; size <= 4096; size++) {
      Bytes piece = Bytes(data).subspan(size % 61, size);  // unaligned starts
      ASSERT_EQ(hash_with(variant, piece), reference_128(piece)) << size;
      ASSERT_EQ(variant.hash_64(piece.data(), size), XXH3_64bits(piece.data(), size)) << size;
    }
  });
}

TEST(Checksum, EveryVariantAgreesWithXxhashOnLongUnalignedData) {
  auto data = random_bytes((2 << 20) + 100, 2);
  for_each_variant([&](const ChecksumVariant& variant) {
    for (size_t size : {65535, 65536, 1 << 20, (1 << 20) + 1, 2 << 20})
      for (size_t start : {0, 1, 31, 64}) {
        Bytes piece = Bytes(data).subspan(start, size);
        ASSERT_EQ(hash_with(variant, piece), reference_128(piece)) << size << " from " << start;
      }
  });
}

TEST(Checksum, EveryVariantStreamsInAnySteps) {
  auto data = random_bytes(70001, 3);
  for_each_variant([&](const ChecksumVariant& variant) {
    for (size_t step : {1, 3, 64, 240, 241, 256, 1000, 1024, 4096, 65536, 70001})
      ASSERT_EQ(stream_with(variant, data, step), reference_128(data)) << step;
  });
}

TEST(Checksum, EveryVariantCopiesExactlyAndHashesTheCopy) {
  auto data = random_bytes((1 << 20) + 200, 4);
  std::vector<std::byte> copy(data.size() + 1000);
  for_each_variant([&](const ChecksumVariant& variant) {
    for (size_t size : {0, 1, 17, 240, 4095, 16384, 16385, 32768, 100000, 1 << 20})
      for (size_t start : {0, 5, 64}) {
        Bytes piece = Bytes(data).subspan(start, size);
        std::fill(copy.begin(), copy.end(), std::byte{0xee});
        std::byte* to = copy.data() + 7 * start;
        ASSERT_EQ(copy_with(variant, piece, to), reference_128(piece)) << size;
        ASSERT_TRUE(std::equal(piece.begin(), piece.end(), to)) << size;
        ASSERT_EQ(to[size], std::byte{0xee}) << "wrote past the end of " << size;
        if (start > 0) {
          ASSERT_EQ(to[-1], std::byte{0xee});
        }
      }
  });
}

// Around the size from which copies bypass the caches, from and to every alignment.
TEST(Checksum, EveryVariantCopiesEveryLengthAroundTheStreamedOnes) {
  auto data = random_bytes(12000 + 64, 8);
  std::vector<std::byte> room(12000 + 256, std::byte{0xee});
  std::byte* aligned = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  for_each_variant([&](const ChecksumVariant& variant) {
    for (size_t size = 0; size < 12000; size += size < 4096 ? 1 : 7) {
      Bytes piece = Bytes(data).subspan(size % 61, size);
      std::byte* to = aligned + (size % 3 == 0 ? 1 + size % 63 : 0);
      to[size] = std::byte{0xee};
      ASSERT_EQ(copy_with(variant, piece, to), reference_128(piece)) << size;
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), to)) << size;
      ASSERT_EQ(to[size], std::byte{0xee}) << "wrote past the end of " << size;
    }
  });
}

TEST(Checksum, DigestIsThatOfTheCopyWhileSomeoneChangesTheSource) {
  constexpr size_t kSize = 256 << 10;
  void* shared = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* source = static_cast<std::byte*>(shared);
  pid_t writer = fork();  // another process, since threads would make this a data race
  ASSERT_GE(writer, 0);
  if (writer == 0)
    for (uint64_t turn = 0;; turn++) static_cast<volatile uint64_t*>(shared)[turn * 97 % (kSize / 8)] = turn;
  std::vector<std::byte> room(kSize + 64);
  std::byte* to = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  for_each_variant([&](const ChecksumVariant& variant) {
    for (int turn = 0; turn < 100; turn++) {
      Digest digest = copy_with(variant, {source, kSize}, to);
      ASSERT_EQ(digest, reference_128({to, kSize})) << turn;
    }
  });
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  munmap(shared, kSize);
}

TEST(Checksum, PublicFunctionsAgreeWithXxhash) {
  auto data = random_bytes(300000, 5);
  std::vector<std::byte> copy(data.size());
  EXPECT_EQ(xxh3_128(data), reference_128(data));
  EXPECT_EQ(xxh3_64(data), XXH3_64bits(data.data(), data.size()));
  EXPECT_EQ(copy_xxh3_128(data.data(), copy.data(), data.size()), reference_128(data));
  EXPECT_EQ(copy, data);
}

TEST(Checksum, EmptyDataNeedsNoPointer) {
  EXPECT_EQ(xxh3_128(Bytes()), reference_128(Bytes()));
  EXPECT_EQ(copy_xxh3_128(nullptr, nullptr, 0), reference_128(Bytes()));
}

TEST(Checksum, DigestHoldsTheLowHalfFirst) {
  auto data = random_bytes(100, 6);
  XXH128_hash_t hash = XXH3_128bits(data.data(), data.size());
  EXPECT_EQ(xxh3_128(data).lo, hash.low64);
  EXPECT_EQ(xxh3_128(data).hi, hash.high64);
}

TEST(Hasher, MayBeAskedEarlyAndCopied) {
  auto data = random_bytes(5000, 7);
  Hasher hasher;
  EXPECT_EQ(hasher.digest(), xxh3_128({}));
  hasher.update(Bytes(data).first(1234));
  hasher.update({});
  EXPECT_EQ(hasher.digest(), xxh3_128(Bytes(data).first(1234)));
  Hasher fork = hasher;
  fork.update(Bytes(data).subspan(1234));
  EXPECT_EQ(fork.digest(), xxh3_128(data));
  EXPECT_EQ(hasher.digest(), xxh3_128(Bytes(data).first(1234)));
}

}  // namespace
}  // namespace ckpt::codec
