// The work of rank 0 at the end of a save by very many ranks, simulated: the parts' indexes are made in memory, then
// merged, checked, framed and put into a memory store.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "commit/merge.h"
#include "format/slot.h"

namespace ckpt_bench {
namespace {

using namespace ckpt;

constexpr size_t kShardedTensors = 100;
constexpr uint64_t kColumns = 128;

std::string name_of(const char* kind, uint64_t number) {
  char name[64];
  std::snprintf(name, sizeof name, "model.layers.%07llu.%s.weight", static_cast<unsigned long long>(number), kind);
  return name;
}

// The index of one rank's part: its tensors that no other rank holds (as in pipeline stages), and its rows of those
// that are sharded over all ranks.
std::vector<std::byte> part_index(uint32_t rank, uint32_t ranks, uint64_t tensors) {
  format::IndexBuilder builder;
  builder.summary.run = "main";
  builder.summary.label = "step-1";
  builder.summary.writer = "merge_bench";
  builder.summary.world_size = ranks;
  builder.summary.save_id = {1, 2};
  uint64_t offset = kAlign;
  auto add = [&](const std::string& name, const Shape& shape, const Region& region, uint64_t bytes) {
    fb::Chunk chunk(offset, static_cast<uint32_t>(bytes), static_cast<uint32_t>(bytes), fb::Digest(offset, rank));
    offset += round_up(bytes, kAlign);
    builder.add_tensor(name, CKPT_DTYPE_BF16, shape);
    builder.add_segment(rank, region, shape, Codec::kRaw, Filter::kNone, 0, {&chunk, 1});
  };
  const uint64_t rows[] = {ranks, kColumns}, own[] = {4, kColumns};
  Region row{.kind = RegionKind::kBox, .box = Box::whole(Shape::of(rows))};
  row.box.offset[0] = rank;
  row.box.extent[0] = 1;
  for (uint64_t i = 0; i < kShardedTensors; i++) add(name_of("attn", i), Shape::of(rows), row, kColumns * 2);
  for (uint64_t i = tensors * rank / ranks; i < tensors * (rank + 1) / ranks; i++)
    add(name_of("mlp", kShardedTensors + i), Shape::of(own), Region{}, 4 * kColumns * 2);
  format::Buffer encoded = builder.encode().take();
  return {encoded.begin(), encoded.end()};
}

std::vector<checkpoint::PartFile> make_parts(uint32_t ranks, uint64_t tensors) {
  std::vector<checkpoint::PartFile> parts(ranks);
  for (uint32_t rank = 0; rank < ranks; rank++) {
    checkpoint::PartFile& part = parts[rank];
    part.number = part.header.rank = rank;
    part.header.world_size = ranks;
    part.header.save_id = {1, 2};
    part.size = uint64_t{1} << 40;
    part.index_bytes = part_index(rank, ranks, tensors);
    part.index = *format::Index::open(part.index_bytes, format::IndexKind::kPart);
  }
  return parts;
}

void arguments(benchmark::internal::Benchmark* bench) {
  for (int64_t tensors : {10000, 100000, 1000000})
    for (int64_t ranks : {64, 256, 1024}) bench->Args({ranks, tensors});
}

void merge(benchmark::State& state) {
  auto parts = make_parts(static_cast<uint32_t>(state.range(0)), static_cast<uint64_t>(state.range(1)));
  auto store = store::open_memory("merge_bench");
  if (!store.ok()) return state.SkipWithError(store.status().message().c_str());
  for (auto _ : state) {
    auto merged = commit::merge_parts(parts, **store, "step-1.1.1", false);
    if (!merged.ok()) return state.SkipWithError(merged.status().message().c_str());
    benchmark::DoNotOptimize(merged->index.data());
  }
  state.counters["segments"] = static_cast<double>(state.range(1) + state.range(0) * int64_t{kShardedTensors});
  state.SetItemsProcessed(state.iterations() * (state.range(1) + state.range(0) * int64_t{kShardedTensors}));
}
BENCHMARK(merge)->Apply(arguments)->ArgNames({"ranks", "tensors"})->Unit(benchmark::kMillisecond);

// The step after the merge: frame the manifest and take the slot.
void commit(benchmark::State& state) {
  auto parts = make_parts(static_cast<uint32_t>(state.range(0)), static_cast<uint64_t>(state.range(1)));
  auto store = store::open_memory("merge_bench");
  if (!store.ok()) return state.SkipWithError(store.status().message().c_str());
  if (!(*store)->make_directory("step-1.1.1").ok()) return state.SkipWithError("no directory");
  for (auto _ : state) {
    state.PauseTiming();
    auto merged = commit::merge_parts(parts, **store, "step-1.1.1", false);
    if (!merged.ok()) return state.SkipWithError(merged.status().message().c_str());
    state.ResumeTiming();
    auto file = format::frame_manifest(std::move(merged->index), merged->summary);
    if (!(*store)->put_if_absent("step-1.1.1/MANIFEST", file).ok()) return state.SkipWithError("not committed");
    state.PauseTiming();
    if (!(*store)->remove("step-1.1.1/MANIFEST", false).ok()) return state.SkipWithError("not removed");
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * (state.range(1) + state.range(0) * int64_t{kShardedTensors}));
}
BENCHMARK(commit)->Apply(arguments)->ArgNames({"ranks", "tensors"})->Unit(benchmark::kMillisecond);

// The step before the merge: open and check every part's index.
void open_parts(benchmark::State& state) {
  auto parts = make_parts(static_cast<uint32_t>(state.range(0)), static_cast<uint64_t>(state.range(1)));
  for (auto _ : state)
    for (const auto& part : parts)
      if (!format::Index::open(part.index_bytes, format::IndexKind::kPart).ok())
        return state.SkipWithError("not opened");
  state.SetItemsProcessed(state.iterations() * (state.range(1) + state.range(0) * int64_t{kShardedTensors}));
}
BENCHMARK(open_parts)->Apply(arguments)->ArgNames({"ranks", "tensors"})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ckpt_bench
