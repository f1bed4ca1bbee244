// The digests by which members of a replica group prove that their values are equal.
#include "save/replica_values.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "codec/checksum.h"

namespace ckpt::save {
namespace {

constexpr uint64_t kPiece = 8 << 20;

Digest digest_of_digests(std::vector<Digest> digests) { return codec::xxh3_128(std::as_bytes(std::span(digests))); }

class ReplicaValues : public ::testing::Test {
 protected:
  ReplicaValues() {
    std::mt19937_64 engine(1);
    for (size_t i = 0; i < memory.size(); i += 8) {
      const uint64_t value = engine();
      std::memcpy(&memory[i], &value, 8);
    }
  }
  void add(std::string_view name, int32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {},
           Replica replica = {.group = 0, .index = 0, .count = 2}) {
    ckpt_tensor_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = dtype;
    desc.ndim = static_cast<int32_t>(shape.size());
    std::ranges::copy(shape, desc.shape);
    std::ranges::copy(strides, desc.strides);
    if (!strides.empty()) desc.flags = CKPT_TENSOR_STRIDED;
    device::RegionRequest request;
    ASSERT_TRUE(device::read_desc(desc, memory.data(), memory.size(), &request).ok());
    content.tensors.push_back(keep_tensor(name, request, replica, &content.memory));
  }
  std::vector<Digest> digests(ReplicaCheck check, unsigned threads = 2) {
    auto found = digest_replicas(content, check, threads, job);
    EXPECT_TRUE(found.ok());
    return {found->begin(), found->end()};
  }
  Bytes bytes(uint64_t first, uint64_t size) const { return Bytes(memory).subspan(first, size); }

  std::vector<std::byte> memory = std::vector<std::byte>(20 << 20);
  SaveContent content;
  Job job;
};

TEST_F(ReplicaValues, AreDigestsOfDigestsOfPiecesAsTheFormatSays) {
  add("small", CKPT_DTYPE_F32, {10});
  add("large", CKPT_DTYPE_U8, {kPiece + 5});
  add("odd", CKPT_DTYPE(200, 24), {kPiece / 3 + 1});
  const uint64_t odd = kPiece / 3 * 3;
  EXPECT_EQ(digests(ReplicaCheck::kAll),
            (std::vector{digest_of_digests({codec::xxh3_128(bytes(0, 40))}),
                         digest_of_digests({codec::xxh3_128(bytes(0, kPiece)), codec::xxh3_128(bytes(kPiece, 5))}),
                         digest_of_digests({codec::xxh3_128(bytes(0, odd)), codec::xxh3_128(bytes(odd, 3))})}));
}

TEST_F(ReplicaValues, OfASampleAreOfSixteenPlacesFromTheFirstToTheLastElement) {
  add("small", CKPT_DTYPE_F32, {16384});
  add("large", CKPT_DTYPE_F32, {100000});
  std::vector<Digest> places;
  const uint64_t last = (400000 - 4096) / 4;
  for (uint64_t i = 0; i < 15; i++) places.push_back(codec::xxh3_128(bytes(last / 15 * i * 4, 4096)));
  places.push_back(codec::xxh3_128(bytes(400000 - 4096, 4096)));
  EXPECT_EQ(digests(ReplicaCheck::kSample),
            (std::vector{digest_of_digests({codec::xxh3_128(bytes(0, 65536))}), digest_of_digests(places)}));
}

TEST_F(ReplicaValues, DoNotDependOnTheOrderOfMemoryOrOnThreads) {
  constexpr int64_t kRows = 1500, kColumns = 1501;
  add("transposed", CKPT_DTYPE_F32, {kRows, kColumns}, {1, kRows});
  const Digest strided = digests(ReplicaCheck::kAll)[0], sampled = digests(ReplicaCheck::kSample)[0];
  EXPECT_EQ(digests(ReplicaCheck::kAll, 1)[0], strided);
  std::vector<float> values(kRows * kColumns), rows(values.size());
  std::memcpy(values.data(), memory.data(), values.size() * 4);
  for (int64_t i = 0; i < kRows; i++)
    for (int64_t j = 0; j < kColumns; j++) rows[i * kColumns + j] = values[j * kRows + i];
  std::memcpy(memory.data(), rows.data(), rows.size() * 4);
  content.tensors.clear();
  add("rows", CKPT_DTYPE_F32, {kRows, kColumns});
  EXPECT_EQ(digests(ReplicaCheck::kAll)[0], strided);
  EXPECT_EQ(digests(ReplicaCheck::kSample)[0], sampled);
}

TEST_F(ReplicaValues, LeaveOutTheUnusedBitsOfTheLastByte) {
  add("nibbles", CKPT_DTYPE_U4, {5});
  const Digest before = digests(ReplicaCheck::kAll)[0];
  memory[2] ^= std::byte{0xf0};
  EXPECT_EQ(digests(ReplicaCheck::kAll)[0], before);
  memory[2] ^= std::byte{0x01};
  EXPECT_NE(digests(ReplicaCheck::kAll)[0], before);
}

TEST_F(ReplicaValues, AreNotReadWhereNobodyComparesThem) {
  add("own", CKPT_DTYPE_U8, {100}, {}, {.count = 1});
  add("first", CKPT_DTYPE_U8, {100}, {}, {.count = 2, .first_only = true});
  EXPECT_TRUE(digests(ReplicaCheck::kAll).empty());
  add("both", CKPT_DTYPE_U8, {100});
  const auto found = digests(ReplicaCheck::kAll);
  EXPECT_TRUE(found[0].zero() && found[1].zero() && !found[2].zero());
}

TEST_F(ReplicaValues, StopWhenTheJobIsCancelled) {
  add("both", CKPT_DTYPE_U8, {100});
  job.cancel();
  EXPECT_EQ(digest_replicas(content, ReplicaCheck::kAll, 1, job).status().code(), CKPT_CANCELLED);
}

}  // namespace
}  // namespace ckpt::save
