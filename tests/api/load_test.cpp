// Loading: any box of any tensor, however the tensor was tiled when saved; refusals; how much is read.
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Resharding);
CKPT_ON_EVERY_STORE(Refusals);
CKPT_ON_EVERY_STORE(Strict);
CKPT_ON_EVERY_STORE(Reading);

// A destination for a box, with random strides: gaps between elements and rows, prefilled with a pattern.
struct Target {
  ckpt_tensor_desc desc;
  Ints strides;
  Bytes memory;
};

Target random_target(std::mt19937_64& random, int32_t dtype, size_t width, const Ints& shape, const TestBox& want) {
  Target target{box(dtype, shape, want.offset, want.extent), packed_strides(want.extent), {}};
  int64_t step = 1 + static_cast<int64_t>(random() % 2), last = 0;
  for (size_t d = want.extent.size(); d-- > 0;) {
    target.strides[d] = step;
    last += (want.extent[d] - 1) * step;
    step = step * want.extent[d] + static_cast<int64_t>(random() % 3);
    target.desc.strides[d] = target.strides[d];
  }
  target.desc.flags |= CKPT_TENSOR_STRIDED;
  target.memory.assign((static_cast<size_t>(last) + 1) * width, 0xa5);
  return target;
}

// What the memory must hold: the elements of the box at their strides, and everywhere else what was there before.
Bytes expected_memory(const Target& target, const Bytes& tensor, size_t width, const Ints& shape, const TestBox& want) {
  Bytes expected(target.memory.size(), 0xa5);
  Ints at(shape.size(), 0);
  for_each_element(shape, want.offset, want.extent, [&](int64_t element) {
    int64_t to = 0;
    for (size_t d = 0; d < at.size(); d++) to += at[d] * target.strides[d];
    std::copy_n(tensor.begin() + element * static_cast<int64_t>(width), width,
                expected.begin() + to * static_cast<int64_t>(width));
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < want.extent[d]) break;
      at[d] = 0;
    }
  });
  return expected;
}

TEST_P(Resharding, AnyBoxesOfAnyTilingEqualTheSource) {
  const std::vector<std::pair<int32_t, size_t>> dtypes = {
      {CKPT_DTYPE_U8, 1}, {CKPT_DTYPE_BF16, 2}, {CKPT_DTYPE(0x7f, 24), 3}, {CKPT_DTYPE_F32, 4}, {CKPT_DTYPE_C128, 16}};
  const std::vector<const char*> codecs = {"none", "lz4", "bitplane-lz4", "auto"};
  std::mt19937_64 random(20261121);
  World world(place.uri(), 3, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 4096}});
  const int rounds = place.in_memory() ? 60 : 12;
  for (int round = 0; round < rounds; round++) {
    auto [dtype, width] = dtypes[random() % dtypes.size()];
    Ints shape = random_shape(random, 5, 20000);
    Bytes data = pattern(static_cast<size_t>(volume(shape)) * width, random());
    std::string label = "round-" + std::to_string(round);
    auto boxes = random_tiling(random, shape, 3);
    boxes.resize(3, {Ints(shape.size(), 0), Ints(shape.size(), 0)});
    if (shape.empty()) boxes.resize(1);
    world.commit(label, {{"compression", codecs[random() % codecs.size()]}, {"staging_bytes", 8 << 20}},
                 [&, dtype = dtype, width = width](uint32_t rank, ckpt_save* save) {
                   if (rank >= boxes.size()) return;
                   const TestBox& mine = boxes[rank];
                   add(save, "w", box(dtype, shape, mine.offset, mine.extent),
                       world.keep(take_box(data, width, shape, mine.offset, mine.extent)));
                 });
    Reader reader = open_reader(world.store, label);
    Load load = new_load(reader);
    std::vector<TestBox> wanted;
    for (int i = 0; i < 8; i++) wanted.push_back(random_box(random, shape));
    std::vector<Target> targets;
    for (const auto& want : wanted) targets.push_back(random_target(random, dtype, width, shape, want));
    for (auto& target : targets) ask(load, "w", target.desc, target.memory.data(), target.memory.size());
    run(load);
    for (size_t i = 0; i < targets.size(); i++)
      ASSERT_EQ(targets[i].memory, expected_memory(targets[i], data, width, shape, wanted[i])) << label << " box " << i;
    int64_t begin = static_cast<int64_t>(random() % static_cast<uint64_t>(volume(shape)));
    int64_t size = static_cast<int64_t>(random() % static_cast<uint64_t>(volume(shape) - begin + 1));
    Bytes range = load_one(reader, "w", flat(dtype, shape, begin, size), static_cast<size_t>(size) * width);
    ASSERT_EQ(range, Bytes(data.begin() + begin * static_cast<int64_t>(width),
                           data.begin() + (begin + size) * static_cast<int64_t>(width)));
  }
}

// ---- refusals come before the first byte changes ----

struct Weights {
  explicit Weights(const StorePlace& place) : world(place.uri(), 1, {{"chunk_bytes", 4096}}) {
    world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
      add(save, "w", whole(CKPT_DTYPE_F32, {100, 50}), data);
      add(save, "v", whole(CKPT_DTYPE_F32, {5000}), data);
    });
    reader = open_reader(world.store);
  }
  World world;
  Bytes data = pattern(20000, 3);
  Reader reader;
};

TEST_P(Refusals, AnotherDtypeOrShapeIsAMismatchAndNothingIsTouched) {
  Weights weights(place);
  Bytes memory(20000, 0xa5), untouched = memory;
  Load load = new_load(weights.reader);
  ask(load, "w", whole(CKPT_DTYPE_F32, {100, 50}), memory.data(), memory.size());
  Error error;
  auto refuse = [&](const ckpt_tensor_desc& desc, ckpt_status expected) {
    EXPECT_EQ(ckpt_load_add_tensor(load.get(), "v", &desc, memory.data(), memory.size(), CKPT_DEVICE_CPU, 0, error),
              expected)
        << error.text();
    EXPECT_EQ(error.detail("tensor"), "v");
  };
  refuse(whole(CKPT_DTYPE_F64, {2500}), CKPT_MISMATCH);
  refuse(whole(CKPT_DTYPE_BF16, {5000}), CKPT_MISMATCH);
  EXPECT_EQ(error.detail("expected"), "f32");
  EXPECT_EQ(error.detail("found"), "bf16");
  refuse(whole(CKPT_DTYPE_I32, {5000}), CKPT_MISMATCH);
  refuse(whole(CKPT_DTYPE_F32, {4999}), CKPT_MISMATCH);
  refuse(whole(CKPT_DTYPE_F32, {100, 50}), CKPT_MISMATCH);
  refuse(whole(CKPT_DTYPE_F32, {5000, 1}), CKPT_MISMATCH);
  refuse(box(CKPT_DTYPE_F32, {5000}, {1}, {5000}), CKPT_INVALID);
  refuse(box(CKPT_DTYPE_F32, {5000}, {INT64_MAX}, {1}), CKPT_INVALID);
  refuse(flat(CKPT_DTYPE_F32, {5000}, 4999, 2), CKPT_INVALID);
  refuse(flat(CKPT_DTYPE_F32, {5000}, -1, 2), CKPT_INVALID);
  ckpt_tensor_desc strided = whole(CKPT_DTYPE_F32, {5000});
  strided.flags = CKPT_TENSOR_STRIDED;
  strided.strides[0] = 2;
  refuse(strided, CKPT_INVALID);
  strided.strides[0] = -1;
  refuse(strided, CKPT_INVALID);
  strided.strides[0] = INT64_MAX;
  refuse(strided, CKPT_INVALID);
  EXPECT_EQ(memory, untouched);
}

TEST(MissingPart, AMissingPartEndsTheLoadBeforeAnyByteIsWritten) {
  StorePlace place("dir");
  World world(place.uri(), 2);
  Bytes data = pattern(200000, 1);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    add(save, "w", box(CKPT_DTYPE_U8, {200000}, {rank * 100000}, {100000}), data.data() + rank * 100000, 100000);
  });
  Reader reader = open_reader(world.store);
  std::filesystem::remove(place.uri() + "/a.1.1/PART_001");
  Bytes memory(200000, 0xa5), untouched = memory;
  Load load = new_load(reader);
  ask(load, "w", whole(CKPT_DTYPE_U8, {200000}), memory.data(), memory.size());
  Error error;
  EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_INCOMPLETE) << error.text();
  EXPECT_EQ(error.detail("part"), "PART_001");
  EXPECT_EQ(memory, untouched);
}

// ---- strict ----

std::vector<std::pair<int, std::string>> names_of(const Load& load) {
  ckpt_report* report = nullptr;
  Error error;
  EXPECT_EQ(ckpt_load_report(load.get(), &report, error), CKPT_OK) << error.text();
  std::vector<std::pair<int, std::string>> names;
  for (const Found& found : findings_of(Report(report).get())) names.emplace_back(found.kind, found.name);
  return names;
}

TEST_P(Strict, MissingAndUnreadNamesAreReportedAndTheOptionSaysWhichAreErrors) {
  Weights weights(place);
  struct Case {
    const char* strict;
    bool missing;
    ckpt_status expected;
  };
  for (auto [strict, missing, expected] :
       {Case{"none", true, CKPT_OK}, Case{"none", false, CKPT_OK}, Case{"missing", true, CKPT_NOT_FOUND},
        Case{"missing", false, CKPT_OK}, Case{"exact", true, CKPT_NOT_FOUND}, Case{"exact", false, CKPT_MISMATCH}}) {
    Bytes memory(20000, 0xa5), untouched = memory;
    Load load = new_load(weights.reader, {{"strict", strict}});
    ask(load, "w", whole(CKPT_DTYPE_F32, {100, 50}), memory.data(), memory.size());
    Bytes other(4, 0xa5);
    if (missing) ask(load, "absent", whole(CKPT_DTYPE_F32, {1}), other.data(), 4);
    Error error;
    EXPECT_EQ(ckpt_load_run(load.get(), error), expected) << strict << " " << missing << " " << error.text();
    EXPECT_EQ(memory, expected == CKPT_OK ? weights.data : untouched);
    EXPECT_EQ(other, Bytes(4, 0xa5));
    std::vector<std::pair<int, std::string>> names;
    if (missing) names.emplace_back(CKPT_FINDING_MISSING, "absent");
    names.emplace_back(CKPT_FINDING_EXTRA, "v");
    EXPECT_EQ(names_of(load), names);
  }
}

TEST_P(Strict, ARequestThatWasRefusedHasNotAskedForTheName) {
  Weights weights(place);
  Bytes w(20000), v(20000);
  Load load = new_load(weights.reader, {{"strict", "exact"}});
  ask(load, "w", whole(CKPT_DTYPE_F32, {100, 50}), w.data(), w.size());
  Error error;
  const ckpt_tensor_desc wrong = whole(CKPT_DTYPE_F32, {7});
  EXPECT_EQ(ckpt_load_add_tensor(load.get(), "v", &wrong, v.data(), v.size(), CKPT_DEVICE_CPU, 0, error),
            CKPT_MISMATCH);
  EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_MISMATCH) << error.text();
  EXPECT_EQ(error.detail("tensor"), "v");
  EXPECT_EQ(names_of(load), (std::vector<std::pair<int, std::string>>{{CKPT_FINDING_EXTRA, "v"}}));
}

TEST_P(Strict, ExactIsContentWithAllNames) {
  Weights weights(place);
  Bytes w(20000), v(20000);
  Load load = new_load(weights.reader, {{"strict", "exact"}});
  ask(load, "w", whole(CKPT_DTYPE_F32, {100, 50}), w.data(), w.size());
  ask(load, "v", box(CKPT_DTYPE_F32, {5000}, {0}, {0}), nullptr, 0);
  run(load);
  EXPECT_TRUE(names_of(load).empty());
}

// ---- how much is read ----

ckpt_job_stats load_stats(const Reader& reader, const ckpt_tensor_desc& desc, Bytes* memory) {
  Load load = new_load(reader);
  ask(load, "w", desc, memory->data(), memory->size());
  const Job job = start(load);
  finish(job);
  return stats_of(job);
}

TEST_P(Reading, AtMostTwoChunksMoreThanAskedForEachContiguousRun) {
  const int64_t kChunk = 4096;
  const Ints shape = {60, 70, 50};
  World world(place.uri(), 3, {{"chunk_bytes", kChunk}, {"large_tensor_bytes", 8192}});
  Bytes data = pattern(static_cast<size_t>(volume(shape)) * 4, 1);
  std::mt19937_64 random(3);
  auto tiles = random_tiling(random, shape, 3);
  world.commit("assigned", {}, [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_F32, shape), data); });
  world.commit("tiled", {}, [&](uint32_t rank, ckpt_save* save) {
    add(save, "w", box(CKPT_DTYPE_F32, shape, tiles[rank].offset, tiles[rank].extent),
        world.keep(take_box(data, 4, shape, tiles[rank].offset, tiles[rank].extent)));
  });
  for (const char* label : {"assigned", "tiled"}) {
    Reader reader = open_reader(world.store, label);
    for (int i = 0; i < 150; i++) {
      TestBox want = random_box(random, shape);
      if (i % 3 == 0)
        for (auto& extent : want.extent)
          extent = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(extent)) / 8;
      Bytes memory(static_cast<size_t>(volume(want.extent)) * 4);
      auto stats = load_stats(reader, box(CKPT_DTYPE_F32, shape, want.offset, want.extent), &memory);
      ASSERT_EQ(memory, take_box(data, 4, shape, want.offset, want.extent));
      EXPECT_EQ(stats.bytes_requested, memory.size());
      EXPECT_EQ(stats.bytes_total, memory.size());
      EXPECT_GE(stats.bytes_read, stats.bytes_requested);
      EXPECT_GE(stats.run_count, 1u);
      // A box has at most one run for each of its rows and for each crossing into another part.
      EXPECT_LE(stats.run_count, 4 * static_cast<uint64_t>(want.extent[0] * want.extent[1]));
      EXPECT_LE(stats.bytes_read, stats.bytes_requested + 2 * static_cast<uint64_t>(kChunk) * stats.run_count)
          << label << " " << i;
    }
  }
}

TEST_P(Reading, AWholeLoadReadsEveryByteOnceAndOverlappingRequestsShareReads) {
  Weights weights(place);
  Bytes memory(20000), again(20000);
  EXPECT_EQ(load_stats(weights.reader, whole(CKPT_DTYPE_F32, {100, 50}), &memory).bytes_read, 20000u);
  Load load = new_load(weights.reader);
  ask(load, "w", whole(CKPT_DTYPE_F32, {100, 50}), memory.data(), memory.size());
  ask(load, "w", whole(CKPT_DTYPE_F32, {100, 50}), again.data(), again.size());
  const Job job = start(load);
  finish(job);
  EXPECT_EQ(stats_of(job).bytes_requested, 40000u);
  EXPECT_EQ(stats_of(job).bytes_read, 20000u);
  EXPECT_EQ(memory, weights.data);
  EXPECT_EQ(again, weights.data);
}

// ---- many parts ----

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd"), end;
  return static_cast<size_t>(std::distance(begin(all), end));
}

TEST(ManyParts, AreReadThroughFewDescriptorsHoweverLowTheLimit) {
  constexpr uint32_t kRanks = 80;
  StorePlace place("dir");
  World world(place.uri(), kRanks);
  const Bytes data = pattern(64, 1);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    add(save, "w", box(CKPT_DTYPE_U8, {kRanks, 64}, {rank, 0}, {1, 64}), data);
    ckpt_tensor_desc own = whole(CKPT_DTYPE_U8, {64});
    own.replica_count = 1;
    add(save, "own" + std::to_string(rank), own, data);
  });
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const size_t before = open_descriptors();
  rlimit low = usual;
  low.rlim_cur = before + 32;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    Reader reader = open_reader(world.store);
    Bytes expected;
    for (uint32_t rank = 0; rank < kRanks; rank++) expected.insert(expected.end(), data.begin(), data.end());
    EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_U8, {kRanks, 64}), expected.size()), expected);
    EXPECT_TRUE(verify(reader.get(), {}).empty());
    Error error;
    for (uint32_t rank = 0; rank < kRanks; rank++) {  // every view lives as long as the reader
      const void* view = nullptr;
      uint64_t size = 0;
      const std::string name = "own" + std::to_string(rank);
      ASSERT_EQ(ckpt_reader_map(reader.get(), name.c_str(), nullptr, &view, &size, error), CKPT_OK) << error.text();
      EXPECT_EQ(std::memcmp(view, data.data(), size), 0);
    }
    EXPECT_LE(open_descriptors(), before + 16);
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

}  // namespace
}  // namespace ckpt_test
