// One chunk of 1 MiB: encoding and decoding by codec and content, checksums from memory and while copying.
#include <benchmark/benchmark.h>

#include "codec/checksum.h"
#include "codec/codec.h"
#include "data.h"

namespace ckpt_bench {
namespace {

using namespace ckpt;

constexpr size_t kChunk = 1 << 20;

struct Case {
  const char* name;
  Content content;
  codec::CodecSpec spec;
};
const Case kCases[] = {
    {"bf16/lz4", Content::kGaussianBf16, {Codec::kLz4, Filter::kNone, 0}},
    {"bf16/shuffle-lz4", Content::kGaussianBf16, {Codec::kLz4, Filter::kByteShuffle, 2}},
    {"bf16/bitplane-lz4", Content::kGaussianBf16, {Codec::kLz4, Filter::kBitPlanes, 2}},
    {"f32/bitplane-lz4", Content::kGaussianF32, {Codec::kLz4, Filter::kBitPlanes, 4}},
    {"upcast/bitplane-lz4", Content::kUpcastF32, {Codec::kLz4, Filter::kBitPlanes, 4}},
    {"zeros/lz4", Content::kZeros, {Codec::kLz4, Filter::kNone, 0}},
};

void encode(benchmark::State& state, const Case& test) {
  auto raw = make_content(test.content, kChunk);
  std::vector<std::byte> stored(kChunk);
  codec::CodecScratch scratch;
  size_t size = 0;
  for (auto _ : state) benchmark::DoNotOptimize(size = codec::encode_chunk(test.spec, raw, stored, scratch));
  state.SetBytesProcessed(state.iterations() * kChunk);
  state.counters["stored"] = static_cast<double>(size) / kChunk;
}

void decode(benchmark::State& state, const Case& test) {
  auto raw = make_content(test.content, kChunk);
  std::vector<std::byte> stored(kChunk);
  codec::CodecScratch scratch;
  size_t size = codec::encode_chunk(test.spec, raw, stored, scratch);
  if (size == kChunk) return state.SkipWithError("stored raw");
  for (auto _ : state)
    if (!codec::decode_chunk(test.spec, Bytes(stored).first(size), raw, scratch).ok())
      return state.SkipWithError("does not decode");
  state.SetBytesProcessed(state.iterations() * kChunk);
}

// The cost of compression=auto for a tensor that stays raw, by the size of the sample.
void choose(benchmark::State& state) {
  auto raw = make_content(Content::kGaussianF32, kChunk);
  for (auto _ : state) benchmark::DoNotOptimize(codec::choose_codec("auto", CKPT_DTYPE_F32, raw));
}
BENCHMARK(choose)->Name("codec/auto/f32");

// In cache (one chunk over and over) and from memory (a different chunk each time).
void hash(benchmark::State& state) {
  std::vector<std::byte> data(static_cast<size_t>(state.range(0)), std::byte{7});
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(codec::xxh3_128(Bytes(data).subspan(at, kChunk)));
    at = (at + kChunk) % data.size();
  }
  state.SetBytesProcessed(state.iterations() * kChunk);
}
BENCHMARK(hash)->Name("xxh3_128")->Arg(1 << 20)->Arg(512 << 20);

void copy_hash(benchmark::State& state) {
  size_t size = static_cast<size_t>(state.range(0)), at = 0;
  std::vector<std::byte> from(size, std::byte{7}), to(size);
  for (auto _ : state) {
    benchmark::DoNotOptimize(codec::copy_xxh3_128(from.data() + at, to.data() + at, kChunk));
    at = (at + kChunk) % size;
  }
  state.SetBytesProcessed(state.iterations() * kChunk);
}
BENCHMARK(copy_hash)->Name("copy_xxh3_128")->Arg(1 << 20)->Arg(512 << 20);

const bool kRegistered = [] {
  for (const Case& test : kCases) {
    benchmark::RegisterBenchmark(("encode/" + std::string(test.name)).c_str(),
                                 [&test](benchmark::State& state) { encode(state, test); });
    if (test.spec.filter == Filter::kNone && test.content != Content::kZeros)
      continue;  // stored raw: nothing to decode
    benchmark::RegisterBenchmark(("decode/" + std::string(test.name)).c_str(),
                                 [&test](benchmark::State& state) { decode(state, test); });
  }
  return true;
}();

}  // namespace
}  // namespace ckpt_bench
