#include "codec/codec.h"

#include <gtest/gtest.h>
#include <lz4.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "codec/filter.h"

namespace ckpt::codec {
namespace {

using Buffer = std::vector<std::byte>;
constexpr CodecSpec kLz4{Codec::kLz4, Filter::kNone, 0};

Buffer random_buffer(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Buffer buffer(size);
  for (auto& byte : buffer) byte = static_cast<std::byte>(random());
  return buffer;
}

// bfloat16 weights as initialised: random mantissas, few exponents.
Buffer weights(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  Buffer buffer(size);
  for (size_t i = 0; i + 2 <= size; i += 2) {
    float value = normal(random);
    std::memcpy(&buffer[i], reinterpret_cast<const char*>(&value) + 2, 2);
  }
  return buffer;
}

Buffer counters(size_t size) {  // int64 that rise slowly
  Buffer buffer(size);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t value = 1000000 + i * 37;
    std::memcpy(&buffer[i], &value, 8);
  }
  return buffer;
}

std::vector<CodecSpec> all_specs() {
  std::vector<CodecSpec> specs = {CodecSpec{}, kLz4};
  for (Codec codec : {Codec::kRaw, Codec::kLz4})
    for (Filter filter : {Filter::kByteShuffle, Filter::kBitPlanes})
      for (int width : {1, 2, 4, 8}) specs.push_back({codec, filter, width});
  return specs;
}

Buffer encode(const CodecSpec& spec, Bytes raw) {
  CodecScratch scratch;
  Buffer stored(raw.size() + kEncodeSlack);
  stored.resize(encode_chunk(spec, raw, stored, scratch));
  return stored;
}

ckpt_status decode(const CodecSpec& spec, Bytes stored, size_t raw_size, Buffer* raw = nullptr) {
  CodecScratch scratch;
  Buffer out(raw_size);
  ckpt_status code = decode_chunk(spec, stored, out, scratch).code();
  if (raw) *raw = out;
  return code;
}

TEST(Codec, DecodeUndoesEncode) {
  CodecScratch scratch;  // one for all: sizes go up and down
  for (const CodecSpec& spec : all_specs())
    for (size_t size : {0, 1, 7, 13, 64, 4096, 4097, 65536, 1 << 20})
      for (int kind = 0; kind < 4; kind++) {
        Buffer raw = kind == 0   ? random_buffer(size, size)
                     : kind == 1 ? weights(size, size)
                     : kind == 2 ? counters(size)
                                 : Buffer(size);
        Buffer stored(size + kEncodeSlack), back(size, std::byte{1});
        size_t stored_size = encode_chunk(spec, raw, stored, scratch);
        ASSERT_LE(stored_size, size);
        ASSERT_TRUE(decode_chunk(spec, Bytes(stored).first(stored_size), back, scratch).ok());
        ASSERT_EQ(back, raw);
      }
}

TEST(Codec, ChunkThatDoesNotShrinkIsStoredRawAndUnfiltered) {
  for (const CodecSpec& spec : all_specs()) {
    Buffer raw = random_buffer(10000, 1);
    EXPECT_EQ(encode(spec, raw), raw);
  }
}

TEST(Codec, RawCodecIgnoresTheFilter) {
  Buffer raw(4096);
  EXPECT_EQ(encode({Codec::kRaw, Filter::kBitPlanes, 2}, raw), raw);
}

TEST(Codec, StoredFormIsFilterThenOneLz4Block) {
  Buffer raw = weights(65536, 3), filtered(raw.size()), unpacked(raw.size());
  CodecSpec spec{Codec::kLz4, Filter::kBitPlanes, 2};
  Buffer stored = encode(spec, raw);
  ASSERT_LT(stored.size(), raw.size());
  filter_encode(spec.filter, spec.filter_width, raw, filtered);
  ASSERT_EQ(LZ4_decompress_safe(reinterpret_cast<char*>(stored.data()), reinterpret_cast<char*>(unpacked.data()),
                                static_cast<int>(stored.size()), static_cast<int>(unpacked.size())),
            static_cast<int>(raw.size()));
  EXPECT_EQ(unpacked, filtered);
}

TEST(Codec, RefusesAnotherRawSizeThanTheBlockHas) {
  for (const CodecSpec& spec : all_specs()) {
    Buffer stored = encode(spec, Buffer(10000));
    for (size_t wrong : {0, 1, 9999, 10001, 20000}) EXPECT_EQ(decode(spec, stored, wrong), CKPT_FORMAT) << wrong;
  }
}

TEST(Codec, RefusesEveryTruncation) {
  for (const CodecSpec& spec : all_specs()) {
    if (spec.codec == Codec::kRaw) continue;
    Buffer stored = encode(spec, counters(3000));
    ASSERT_LT(stored.size(), 3000u);
    for (size_t size = 0; size < stored.size(); size++)
      ASSERT_EQ(decode(spec, Bytes(stored).first(size), 3000), CKPT_FORMAT) << size;
  }
}

TEST(Codec, SurvivesRandomBytes) {
  std::mt19937_64 random(5);
  CodecSpec specs[] = {kLz4, {Codec::kLz4, Filter::kByteShuffle, 8}, {Codec::kLz4, Filter::kBitPlanes, 4}};
  for (int round = 0; round < 20000; round++) {
    Buffer stored = random_buffer(random() % 200, random());
    ckpt_status code = decode(specs[round % 3], stored, random() % 2000);
    ASSERT_TRUE(code == CKPT_OK || code == CKPT_FORMAT);
  }
}

TEST(Codec, SurvivesMutatedBlocks) {
  std::mt19937_64 random(6);
  for (const CodecSpec& spec : all_specs()) {
    Buffer stored = encode(spec, counters(4000));
    for (int round = 0; round < 2000; round++) {
      Buffer hostile = stored;
      for (uint64_t flips = 1 + random() % 4; flips > 0; flips--)
        hostile[random() % hostile.size()] = static_cast<std::byte>(random());
      ckpt_status code = decode(spec, hostile, 4000);
      ASSERT_TRUE(code == CKPT_OK || code == CKPT_FORMAT);
    }
  }
}

TEST(Codec, RefusesUnknownCodecFilterAndWidth) {
  Buffer bytes(64);
  EXPECT_EQ(decode({static_cast<Codec>(2), Filter::kNone, 0}, bytes, 64), CKPT_FORMAT);
  EXPECT_EQ(decode({Codec::kLz4, static_cast<Filter>(3), 1}, bytes, 64), CKPT_FORMAT);
  for (int width : {0, 3, 5, 16, 255})
    EXPECT_EQ(decode({Codec::kLz4, Filter::kBitPlanes, width}, bytes, 64), CKPT_FORMAT);
  EXPECT_EQ(decode({Codec::kLz4, Filter::kNone, 2}, bytes, 64), CKPT_FORMAT);
}

TEST(Codec, ErrorSaysWhatWasExpected) {
  CodecScratch scratch;
  Buffer stored = encode(kLz4, Buffer(1000)), raw(1001);
  Status status = decode_chunk(kLz4, stored, raw, scratch);
  EXPECT_EQ(status.message(), "LZ4 block: expected 1001 bytes, found 1000");
}

TEST(ChooseCodec, TakesTheOptionAtItsWord) {
  Buffer noise = random_buffer(1000, 1);
  EXPECT_EQ(choose_codec("none", CKPT_DTYPE_F32, noise), CodecSpec{});
  EXPECT_EQ(choose_codec("lz4", CKPT_DTYPE_F32, noise), kLz4);
  EXPECT_EQ(choose_codec("bitplane-lz4", CKPT_DTYPE_F32, noise), (CodecSpec{Codec::kLz4, Filter::kBitPlanes, 4}));
  EXPECT_EQ(choose_codec("bitplane-lz4", CKPT_DTYPE_C128, noise), (CodecSpec{Codec::kLz4, Filter::kBitPlanes, 8}));
}

TEST(ChooseCodec, AutoStoresNoiseRaw) {
  for (size_t size : {1, 100, 4096, 65536, 1000000}) {
    EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_F32, random_buffer(size, size)), CodecSpec{}) << size;
  }
}

// Pieces must stay inside the sample, whatever `stands_for` is.
TEST(ChooseCodec, AutoTakesAnySizeOfSample) {
  for (size_t size : {1, 2, 63, 2047, 2048, 4097, 65535, 131073, 1 << 20})
    for (uint64_t stands_for : {uint64_t{0}, uint64_t{100000}, uint64_t{1} << 40}) {
      EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_F32, random_buffer(size, size), stands_for), CodecSpec{}) << size;
      EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_F32, Buffer(size), stands_for) == CodecSpec{}, size < 63) << size;
    }
}

TEST(ChooseCodec, AutoTakesBitPlanesForUpcastMastersOfAnySize) {
  for (size_t size : {64 << 10, 1 << 20, 4 << 20}) {
    Buffer masters(size), bf16 = weights(size / 2, 8);
    for (size_t i = 0; i < size / 4; i++) std::memcpy(&masters[4 * i + 2], &bf16[2 * i], 2);
    EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_F32, masters), (CodecSpec{Codec::kLz4, Filter::kBitPlanes, 4})) << size;
  }
}

TEST(ChooseCodec, AutoTakesTheShuffleForWordsInOneByteOfEachElement) {
  std::mt19937_64 random(4);
  Buffer words = random_buffer(1000, 4), data(1 << 20);
  for (size_t at = 0; at + 20 <= data.size();) {  // 20 words of 5 to 9 bytes in any order, above six noisy bits
    size_t word = random() % 20;
    for (size_t i = 0; i < 5 + word % 5 && at + 2 <= data.size(); i++, at += 2) {
      data[at] = static_cast<std::byte>(random() % 64);
      data[at + 1] = words[word * 50 + i];
    }
  }
  EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_U16, data), (CodecSpec{Codec::kLz4, Filter::kByteShuffle, 2}));
}

TEST(ChooseCodec, AutoStoresNothingRaw) { EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_F32, {}), CodecSpec{}); }

TEST(ChooseCodec, AutoTakesBitPlanesForWeights) {
  EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_BF16, weights(1 << 20, 1)),
            (CodecSpec{Codec::kLz4, Filter::kBitPlanes, 2}));
}

TEST(ChooseCodec, AutoTakesPlainLz4WhereFiltersGainNothing) {
  Buffer text(1 << 20);
  for (size_t i = 0; i < text.size(); i++)
    text[i] = static_cast<std::byte>("the quick brown fox jumps over it "[i % 34]);
  EXPECT_EQ(choose_codec("auto", CKPT_DTYPE_U8, text), kLz4);
}

TEST(ChooseCodec, AutoNeverTakesASpecThatGainsLessThanFivePercentOnItsSample) {
  std::mt19937_64 random(9);
  for (int zeros = 0; zeros <= 100; zeros += 4) {  // the percentage of zeros in a sample
    Buffer data = random_buffer(65536, static_cast<uint64_t>(zeros));
    std::fill(data.begin(), data.begin() + static_cast<ptrdiff_t>(data.size() * static_cast<size_t>(zeros) / 100),
              std::byte{0});
    CodecSpec spec = choose_codec("auto", CKPT_DTYPE_U8, data, 2 << 20);  // large enough for trying all of it
    EXPECT_TRUE(zeros > 4 || spec == CodecSpec{}) << zeros;
    EXPECT_TRUE(zeros < 8 || spec != CodecSpec{}) << zeros;
    EXPECT_TRUE(spec == CodecSpec{} || encode(spec, data).size() * 100 <= data.size() * 95) << zeros;
  }
}

TEST(ChooseCodec, AutoLooksAtEveryShareOfALargeTensor) {
  Buffer data = random_buffer(4 << 20, 2);  // the first half is noise, the rest zero
  std::fill(data.begin() + (2 << 20), data.end(), std::byte{0});
  EXPECT_NE(choose_codec("auto", CKPT_DTYPE_F32, data), CodecSpec{});
}

}  // namespace
}  // namespace ckpt::codec
