// Large manifests: building, framing, opening, finding names; and the read plan of a load on 12 ranks of rows that 16
// ranks saved.
#include <benchmark/benchmark.h>

#include <string>

#include "checkpoint/index_coverage.h"
#include "format/slot.h"
#include "load/load.h"

namespace ckpt_bench {
namespace {

using namespace ckpt;
using format::Index;

std::string name_of(size_t i) {
  std::string number = std::to_string(i);
  return "model.layers." + std::string(7 - std::min<size_t>(7, number.size()), '0') + number + ".weight";
}

format::Summary summary(uint64_t tensors, uint32_t parts, uint64_t part_bytes) {
  format::Summary out;
  out.save_id = out.store_id = out.session_id = {1, 2};
  out.run = "main";
  out.label = "s";
  out.writer = "bench";
  out.token = out.attempt = 1;
  out.world_size = out.part_count = parts;
  out.tensor_count = tensors;
  out.part_bytes = part_bytes * parts;
  return out;
}

// `tensors` matrices, the rows of each divided among all ranks; each segment is one chunk.
format::Buffer build(size_t tensors, uint32_t ranks) {
  constexpr uint64_t kRows = 3840, kRowBytes = 128;
  const uint64_t extents[] = {kRows, kRowBytes / 2};
  const uint64_t stride = round_up(kRows * kRowBytes / ranks + kRowBytes, kAlign),
                 part_bytes = 3 * kAlign + tensors * stride;
  format::IndexBuilder builder;
  Shape shape = Shape::of(extents);
  for (size_t i = 0; i < tensors; i++) {
    builder.add_tensor(name_of(i), CKPT_DTYPE_BF16, shape);
    for (uint32_t rank = 0; rank < ranks; rank++) {
      Region region{.kind = RegionKind::kBox, .box = Box::whole(shape)};
      region.box.offset[0] = kRows * rank / ranks;
      region.box.extent[0] = kRows * (rank + 1) / ranks - region.box.offset[0];
      uint32_t bytes = static_cast<uint32_t>(region.box.extent[0] * kRowBytes);
      fb::Chunk chunk(kAlign + i * stride, bytes, bytes, fb::Digest(i, rank));
      builder.add_segment(rank, region, shape, Codec::kRaw, Filter::kNone, 0, {&chunk, 1});
    }
  }
  for (uint32_t rank = 0; rank < ranks; rank++)
    builder.parts.emplace_back(part_bytes, fb::Digest(1, 2), fb::Digest(1, 2), rank, uint8_t{0}, uint8_t{0},
                               uint16_t{0});
  builder.summary = summary(tensors, ranks, part_bytes);
  return builder.encode().take();
}

void manifest_build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(build(static_cast<size_t>(state.range(0)), 1));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(manifest_build)->Name("manifest/build")->Arg(1000)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);

void manifest_frame(benchmark::State& state) {
  auto identity = summary(static_cast<uint64_t>(state.range(0)), 1, kAlign);
  for (auto _ : state) {
    state.PauseTiming();
    auto index = build(static_cast<size_t>(state.range(0)), 1);
    state.ResumeTiming();
    benchmark::DoNotOptimize(format::frame_manifest(std::move(index), identity));
  }
}
BENCHMARK(manifest_frame)->Name("manifest/frame")->Arg(1000000)->Unit(benchmark::kMillisecond);

// The cost of an open beyond reading the file: digest, validation, coverage.
void manifest_open(benchmark::State& state) {
  auto index = build(static_cast<size_t>(state.range(0)), static_cast<uint32_t>(state.range(1)));
  for (auto _ : state) {
    auto opened = Index::open(index, format::IndexKind::kManifest);
    if (!opened.ok()) return state.SkipWithError(opened.status().message().c_str());
    if (!checkpoint::check_index_coverage(*opened).ok()) return state.SkipWithError("not covered");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(manifest_open)
    ->Name("manifest/open")
    ->Args({1000, 1})
    ->Args({100000, 1})
    ->Args({1000000, 1})
    ->Args({1000, 1024})
    ->Unit(benchmark::kMillisecond);

void manifest_digest(benchmark::State& state) {
  auto index = build(static_cast<size_t>(state.range(0)), 1);
  auto opened = Index::open(index, format::IndexKind::kManifest);
  if (!opened.ok()) return state.SkipWithError(opened.status().message().c_str());
  auto file = format::frame_manifest(format::Buffer(Bytes(index)), opened->summary);
  for (auto _ : state)
    if (!format::open_slot(file).ok()) return state.SkipWithError("no manifest");
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(file.size()));
}
BENCHMARK(manifest_digest)->Name("manifest/slot")->Arg(1000000)->Unit(benchmark::kMillisecond);

void find_tensor(benchmark::State& state) {
  auto bytes = build(static_cast<size_t>(state.range(0)), 1);
  auto index = Index::open(bytes, format::IndexKind::kManifest).take();
  size_t i = 0;
  for (auto _ : state) {
    std::string name = name_of(i = (i * 7919 + 13) % static_cast<size_t>(state.range(0)));
    if (!index.find_tensor(name)) return state.SkipWithError("not found");
  }
}
BENCHMARK(find_tensor)->Name("manifest/find")->Arg(1000)->Arg(1000000);

// The plan of rank 5 of 12. Its rows of every tensor overlap those of two or three of the 16 ranks that saved.
void plan_load(benchmark::State& state) {
  size_t tensors = static_cast<size_t>(state.range(0));
  uint64_t saved = static_cast<uint64_t>(state.range(1)), loading = static_cast<uint64_t>(state.range(2)),
           rank = loading / 2;
  auto bytes = build(tensors, static_cast<uint32_t>(saved));
  auto index = Index::open(bytes, format::IndexKind::kManifest).take();
  std::vector<std::byte> memory(1 << 20);
  for (auto _ : state) {
    load::LoadPlan plan(index);
    for (uint32_t i = 0; i < index.tensors.size(); i++) {
      Shape shape = index.shape_of(index.tensors[i]);
      Region region{.kind = RegionKind::kBox, .box = Box::whole(shape)};
      region.box.offset[0] = shape[0] * rank / loading;
      region.box.extent[0] = shape[0] * (rank + 1) / loading - region.box.offset[0];
      device::Memory to{.data = memory.data(), .dtype = CKPT_DTYPE_BF16, .strides = {shape[1], 1}, .ndim = 2};
      load::add_boxes(&plan, i, *plan::geometry_of(CKPT_DTYPE_BF16, shape), region, to);
    }
    if (!load::plan_reads(&plan).ok()) return state.SkipWithError("no plan");
    benchmark::DoNotOptimize(load::group_reads(plan, 4 << 20));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(plan_load)
    ->Name("plan_load/tensors/saved_by/loaded_by")
    ->Args({10000, 16, 12})
    ->Args({1000, 1024, 768})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ckpt_bench
