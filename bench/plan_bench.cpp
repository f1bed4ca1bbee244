// Moving elements between a chunk and strided memory, and planning: assigning replicated tensors, loading boxes that
// cross the saved ones, coverage.
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "data.h"
#include "device/scatter.h"
#include "plan/assign.h"
#include "plan/box.h"
#include "plan/coverage.h"
#include "plan/declare.h"

namespace ckpt_bench {
namespace {

using namespace ckpt;

constexpr uint64_t kRows = 512, kColumns = 1024;  // 1 MiB of bf16

Box matrix(uint64_t rows, uint64_t columns) {
  const uint64_t extents[] = {rows, columns};
  return Box::whole(Shape::of(extents));
}

void scatter(benchmark::State& state, uint16_t to_dtype, uint64_t row_stride, uint64_t column_stride) {
  auto chunk = make_content(Content::kGaussianBf16, kRows * kColumns * 2);
  std::vector<std::byte> memory((kRows * row_stride + kColumns * column_stride) *
                                static_cast<uint64_t>(dtype_bits(to_dtype)) / 8);
  device::Memory to{.data = memory.data(), .dtype = to_dtype, .strides = {row_stride, column_stride}, .ndim = 2};
  Box box = matrix(kRows, kColumns);
  for (auto _ : state)
    benchmark::DoNotOptimize(device::scatter(chunk, CKPT_DTYPE_BF16, box, 0, kRows * kColumns, box, to));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(chunk.size()));
}
BENCHMARK_CAPTURE(scatter, contiguous, CKPT_DTYPE_BF16, kColumns, 1);
BENCHMARK_CAPTURE(scatter, rows, CKPT_DTYPE_BF16, kColumns + 64, 1);
BENCHMARK_CAPTURE(scatter, every_second, CKPT_DTYPE_BF16, 2 * kColumns, 2);
BENCHMARK_CAPTURE(scatter, transposed, CKPT_DTYPE_BF16, 1, kRows);
BENCHMARK_CAPTURE(scatter, convert_to_f32, CKPT_DTYPE_F32, kColumns, 1);

void gather(benchmark::State& state, uint64_t row_stride, uint64_t column_stride) {
  std::vector<std::byte> memory((kRows * row_stride + kColumns * column_stride) * 2), out(kRows * kColumns * 2);
  device::Memory from{
      .data = memory.data(), .dtype = CKPT_DTYPE_BF16, .strides = {row_stride, column_stride}, .ndim = 2};
  for (auto _ : state) device::gather(from, matrix(kRows, kColumns).extent, 0, kRows * kColumns, out);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(out.size()));
}
BENCHMARK_CAPTURE(gather, rows, kColumns + 64, 1);
BENCHMARK_CAPTURE(gather, transposed, 1, kRows);

std::vector<std::string> make_names(size_t count) {
  std::vector<std::string> list;
  for (size_t i = 0; i < count; i++) list.push_back("model.layers." + std::to_string(i) + ".weight");
  return list;
}

// Replicated matrices of bf16, in the order of their names.
struct Replicated {
  std::vector<std::string> names;
  std::vector<std::array<uint64_t, 2>> shapes;
  std::vector<plan::ReplicaRegion> entries;

  explicit Replicated(size_t count) : names(make_names(count)), shapes(count) {
    for (size_t i = 0; i < count; i++) {
      shapes[i] = {1 + i % 977, 128};
      entries.push_back({.name = names[i],
                         .bytes = shapes[i][0] * 256,
                         .numbers = shapes[i].data(),
                         .dtype = CKPT_DTYPE_BF16,
                         .kind = RegionKind::kWhole,
                         .ndim = 2});
    }
  }
};

// One rank's plan to save replicated tensors, in a world of 1024.
void assign(benchmark::State& state) {
  Replicated group(static_cast<size_t>(state.range(0)));
  for (auto _ : state)
    benchmark::DoNotOptimize(
        plan::assign(group.entries, 511, 1024, {.chunk_bytes = 1 << 20, .large_tensor_bytes = 256 << 20}));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(assign)->Name("assign/1024_ranks")->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

void declare(benchmark::State& state) {
  Replicated group(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(plan::declaration_list(group.entries));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(declare)->Name("declaration_list")->Arg(100000)->Unit(benchmark::kMillisecond);

std::vector<Region> rows_over(uint64_t ranks, uint64_t rows, uint64_t columns) {
  std::vector<Region> regions;
  for (uint64_t rank = 0; rank < ranks; rank++) {
    Region region{.kind = RegionKind::kBox, .box = matrix(rows, columns)};
    region.box.offset[0] = rows * rank / ranks;
    region.box.extent[0] = rows * (rank + 1) / ranks - region.box.offset[0];
    regions.push_back(region);
  }
  return regions;
}

void coverage(benchmark::State& state) {
  auto regions = rows_over(static_cast<uint64_t>(state.range(0)), 1 << 20, 128);
  Shape shape = matrix(1 << 20, 128).extent;
  for (auto _ : state)
    if (!plan::check_coverage(shape, regions).ok()) return state.SkipWithError("not covered");
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(coverage)->Arg(16)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ckpt_bench
