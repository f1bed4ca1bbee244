// Checkpoints of many tensors and ranks, simulated in a memory store: what rank 0 does at the end of a save (reads and
// merges the parts' indexes), and what a reader does before the first byte of data (opens, finds a name, plans a load).
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "commit/merge.h"
#include "commit/rank_groups.h"
#include "format/index_builder.h"
#include "format/names.h"
#include "load/load.h"

namespace ckpt_bench {
namespace {

using namespace ckpt;

constexpr const char* kDirectory = "step-1.1.1";
constexpr uint64_t kColumns = 128;

std::string name_of(const char* kind, uint64_t number) {
  char name[64];
  std::snprintf(name, sizeof name, "model.layers.%07llu.%s.weight", static_cast<unsigned long long>(number), kind);
  return name;
}

// How many ranks; tensors that are sharded over all of them; tensors that one rank each holds (as in pipeline stages).
struct Scale {
  uint32_t ranks;
  uint64_t sharded, tensors;
};

// The index of one rank's part: its row of the sharded tensors, and its share of the others. All chunks lie at the same
// place: nobody reads them here.
format::EncodedIndex part_index(uint32_t rank, const Scale& scale) {
  format::IndexBuilder builder;
  builder.summary.run = "main";
  builder.summary.label = "step-1";
  builder.summary.writer = "scale_bench";
  builder.summary.token = builder.summary.attempt = 1;
  builder.summary.world_size = scale.ranks;
  builder.summary.save_id = builder.summary.store_id = {1, 2};
  auto add = [&](const std::string& name, const Shape& shape, const Region& region, uint64_t elements) {
    const auto bytes = static_cast<uint32_t>(2 * elements);
    const fb::Chunk chunk(kAlign, bytes, bytes, fb::Digest(1, rank));
    builder.add_tensor(name, CKPT_DTYPE_BF16, shape.span());
    builder.add_region(region, shape.span());
    builder.add_segment(0, elements, {}, {&chunk, 1});
  };
  const uint64_t rows[] = {scale.ranks, kColumns}, own[] = {4, kColumns};
  Region row{.kind = RegionKind::kBox, .box = Box::whole(Shape::of(rows))};
  row.box.offset[0] = rank;
  row.box.extent[0] = 1;
  for (uint64_t i = 0; i < scale.sharded; i++) add(name_of("attn", i), Shape::of(rows), row, kColumns);
  for (uint64_t i = scale.tensors * rank / scale.ranks; i < scale.tensors * (rank + 1) / scale.ranks; i++)
    add(name_of("mlp", scale.sharded + i), Shape::of(own), Region{}, 4 * kColumns);
  return builder.encode(format::IndexKind::kPart).take();
}

bool put_part(store::Store& store, uint32_t rank, const Scale& scale) {
  const format::EncodedIndex index = part_index(rank, scale);
  std::vector<std::byte> file(round_up(2 * kAlign + index.bytes.size() + format::kPartTrailerSize, kAlign));
  auto header = format::encode_part_header(
      {.save_id = {1, 2}, .rank = rank, .world_size = scale.ranks, .store_id = {1, 2}, .token = 1, .attempt = 1});
  auto trailer =
      format::encode_part_trailer({2 * kAlign, index.bytes.size(), index.root_size, index.root_digest, {1, 2}});
  std::memcpy(file.data(), header.data(), header.size());
  std::memcpy(&file[2 * kAlign], index.bytes.data(), index.bytes.size());
  std::memcpy(&file[file.size() - trailer.size()], trailer.data(), trailer.size());
  return store.put_if_absent(format::part_key(kDirectory, rank), file).ok();
}

Result<std::vector<checkpoint::PartFile>> open_parts(const store::Store& store, uint32_t first, uint32_t count) {
  std::vector<checkpoint::PartFile> parts(count);
  for (uint32_t i = 0; i < count; i++) {
    CKPT_ASSIGN(parts[i], checkpoint::open_part(store, kDirectory, first + i));
    parts[i].file.reset();
  }
  return parts;
}

// A store with the parts of one save, and its manifest.
class Simulated {
 public:
  Simulated(benchmark::State& state) {
    static int number = 0;
    scale = {static_cast<uint32_t>(state.range(0)), static_cast<uint64_t>(state.range(1)),
             static_cast<uint64_t>(state.range(2))};
    store = store::open_memory("scale" + std::to_string(number++)).take();
    bool ok = store->make_directory(kDirectory).ok();
    for (uint32_t rank = 0; rank < scale.ranks && ok; rank++) ok = put_part(*store, rank, scale);
    auto parts = open_parts(*store, 0, scale.ranks);
    auto merged = commit::merge_parts(*parts, {}, *store, kDirectory, false);
    if (!ok || !merged.ok() || !store->put_if_absent(format::slot_key(kDirectory), merged->file).ok())
      state.SkipWithError("no checkpoint");
    else
      state.counters["manifest_bytes"] = static_cast<double>(merged->file.size());
  }
  ~Simulated() { (void)store->remove_directory(kDirectory); }
  std::shared_ptr<store::Store> store;
  Scale scale{};
};

void arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "sharded", "tensors"})->Unit(benchmark::kMillisecond);
  for (int64_t ranks : {64, 1024, 4096}) bench->Args({ranks, 2230, 0});
  for (int64_t ranks : {1, 64, 1024}) bench->Args({ranks, 100, 1000000});
}

void read_indexes(benchmark::State& state) {
  Simulated save(state);
  for (auto _ : state)
    if (!open_parts(*save.store, 0, save.scale.ranks).ok()) return state.SkipWithError("not opened");
}
BENCHMARK(read_indexes)->Apply(arguments);

// Without groups of ranks: what a repair does, and a commit of few ranks.
void merge(benchmark::State& state) {
  Simulated save(state);
  auto parts = open_parts(*save.store, 0, save.scale.ranks);
  for (auto _ : state)
    if (!commit::merge_parts(*parts, {}, *save.store, kDirectory, false).ok()) return state.SkipWithError("not merged");
}
BENCHMARK(merge)->Apply(arguments);

// What the leader of a group does once its parts are there.
void lead_group(benchmark::State& state) {
  Simulated save(state);
  const commit::RankGroups groups(save.scale.ranks, 2);
  const uint32_t last = groups.count() - 1;
  for (auto _ : state) {
    auto parts = open_parts(*save.store, groups.first(last), groups.ranks(last));
    auto gathered = commit::gather_parts(*parts);
    if (!gathered.ok()) return state.SkipWithError("not gathered");
    state.counters["group_bytes"] = static_cast<double>(gathered->encode().size());
  }
}
BENCHMARK(lead_group)->Apply(arguments);

// What rank 0 does then: reads the parts of its group and the files of the others, and merges them.
void merge_groups(benchmark::State& state) {
  Simulated save(state);
  const commit::RankGroups groups(save.scale.ranks, 2);
  for (uint32_t group = 1; group < groups.count(); group++) {
    auto parts = open_parts(*save.store, groups.first(group), groups.ranks(group));
    if (!commit::put_group(*save.store, kDirectory, group, *parts).ok()) return state.SkipWithError("not put");
  }
  for (auto _ : state) {
    auto parts = open_parts(*save.store, 0, groups.ranks(0));
    std::vector<commit::Gathered> gathered;
    for (uint32_t group = 1; group < groups.count(); group++)
      gathered.push_back(commit::get_group(*save.store, kDirectory, group, groups, {1, 2}).take());
    if (!commit::merge_parts(*parts, gathered, *save.store, kDirectory, false).ok())
      return state.SkipWithError("not merged");
  }
}
BENCHMARK(merge_groups)->Apply(arguments);

void open_and_find(benchmark::State& state) {
  Simulated save(state);
  const std::string name =
      save.scale.tensors ? name_of("mlp", save.scale.sharded + save.scale.tensors / 3) : name_of("attn", 7);
  for (auto _ : state) {
    auto checkpoint = checkpoint::Checkpoint::open_quietly(*save.store, kDirectory);
    if (!checkpoint.ok() || !(*checkpoint)->find(name)->tensor) return state.SkipWithError("not found");
  }
}
BENCHMARK(open_and_find)->Apply(arguments);

// Plans the load of one rank's share of the sharded tensors on half as many ranks.
void plan_share(benchmark::State& state) {
  Simulated save(state);
  const uint64_t rows = std::max<uint64_t>(save.scale.ranks / 2, 1);
  std::vector<std::byte> memory(2 * 2 * kColumns);
  for (auto _ : state) {
    auto checkpoint = checkpoint::Checkpoint::open_quietly(*save.store, kDirectory);
    load::LoadPlan plan(**checkpoint);
    for (uint64_t i = 0; i < save.scale.sharded; i++) {
      const checkpoint::TensorRef tensor = (*checkpoint)->find(name_of("attn", i))->tensor;
      Region share{.kind = RegionKind::kBox, .box = Box::whole(tensor.shape())};
      share.box.offset[0] = save.scale.ranks / rows * (rows / 3);
      share.box.extent[0] = save.scale.ranks / rows;
      load::add_boxes(&plan, tensor, *plan::geometry_of(CKPT_DTYPE_BF16, tensor.shape()), share,
                      {.data = memory.data(), .dtype = CKPT_DTYPE_BF16, .strides = {kColumns, 1}, .ndim = 2});
    }
    if (!load::plan_reads(&plan).ok()) return state.SkipWithError("no plan");
    benchmark::DoNotOptimize(load::group_reads(plan, 4 << 20));
  }
}
BENCHMARK(plan_share)->Apply(arguments);

}  // namespace
}  // namespace ckpt_bench
