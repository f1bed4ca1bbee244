// Saving: who writes what, regions of every kind, and whether the bytes that come back are those that went in.
#include <cinttypes>
#include <map>
#include <mutex>
#include <numeric>
#include <set>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Assignment);
CKPT_ON_EVERY_STORE(Sharding);
CKPT_ON_EVERY_STORE(Strided);
CKPT_ON_EVERY_STORE(Shapes);
CKPT_ON_EVERY_STORE(Codecs);

std::map<uint32_t, uint64_t> bytes_by_part(const Reader& reader, const std::vector<std::string>& names) {
  std::map<uint32_t, uint64_t> bytes;
  for (const auto& name : names)
    for (const auto& segment : segments_of(reader, name)) bytes[segment.part] += segment.stored_bytes;
  return bytes;
}

TEST_P(Assignment, ReplicatedTensorsAreAssignedEvenlyAndWrittenOnce) {
  World world(place.uri(), 4);
  std::vector<std::string> names;
  std::map<std::string, Bytes> source;
  uint64_t total = 0, largest = 0;
  for (int i = 0; i < 60; i++) {
    names.push_back("layer." + std::to_string(i));
    source[names.back()] = pattern(static_cast<size_t>(1000 + 997 * (i % 17)) / 4 * 4, static_cast<uint64_t>(i));
    total += source[names.back()].size();
    largest = std::max<uint64_t>(largest, source[names.back()].size());
  }
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    for (const auto& [name, data] : source)
      add(save, name, whole(CKPT_DTYPE_F32, {static_cast<int64_t>(data.size() / 4)}), data);
  });
  Reader reader = open_reader(world.store);
  auto assigned = bytes_by_part(reader, names);
  ASSERT_EQ(assigned.size(), 4u);
  uint64_t sum = 0;
  for (auto [part, bytes] : assigned) {
    sum += bytes;
    EXPECT_LE(bytes, total / 4 + largest) << part;
    EXPECT_GE(bytes + largest, total / 4) << part;
  }
  EXPECT_EQ(sum, total);
  for (const auto& [name, data] : source)
    EXPECT_EQ(load_one(reader, name, whole(CKPT_DTYPE_F32, {static_cast<int64_t>(data.size() / 4)}), data.size()),
              data);
}

TEST_P(Assignment, LargeReplicatedTensorsAreCutOverAllParts) {
  World world(place.uri(), 3, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}});
  Bytes data = pattern(4 * 251 * 67, 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "big", whole(CKPT_DTYPE_F32, {251, 67}), data); });
  Reader reader = open_reader(world.store);
  auto assigned = bytes_by_part(reader, {"big"});
  ASSERT_EQ(assigned.size(), 3u);
  for (auto [part, bytes] : assigned) EXPECT_NEAR(double(bytes), double(data.size()) / 3, 4096) << part;
  EXPECT_EQ(load_one(reader, "big", whole(CKPT_DTYPE_F32, {251, 67}), data.size()), data);
}

TEST_P(Assignment, LargeTensorsOfEveryWidthSurviveBeingCut) {
  World world(place.uri(), 3, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 4096}});
  // Some widths (3, 31, 16 bytes) divide a chunk and some do not; 6, 7 and 12 bits do not end where chunks do.
  const std::vector<int32_t> dtypes = {CKPT_DTYPE_U8,        CKPT_DTYPE_BF16,      CKPT_DTYPE_C128,
                                       CKPT_DTYPE_I4,        CKPT_DTYPE_F6_E2M3FN, CKPT_DTYPE(0x7f, 24),
                                       CKPT_DTYPE(200, 248), CKPT_DTYPE(0x7f, 7),  CKPT_DTYPE(0x7f, 12)};
  const int64_t count = 20008;
  std::map<int32_t, Bytes> source;
  for (int32_t dtype : dtypes) {
    uint64_t bits = static_cast<uint64_t>(count) * static_cast<uint64_t>(ckpt_dtype_bits(dtype));
    Bytes data = pattern((bits + 7) / 8, static_cast<uint64_t>(dtype));
    if (bits % 8) data.back() &= static_cast<unsigned char>((1 << bits % 8) - 1);
    source[dtype] = data;
  }
  for (const char* codec : {"none", "bitplane-lz4"}) {
    world.commit(codec, {{"compression", codec}}, [&](uint32_t, ckpt_save* save) {
      for (const auto& [dtype, data] : source) add(save, "t" + std::to_string(dtype), whole(dtype, {count}), data);
    });
    Reader reader = open_reader(world.store, codec);
    for (const auto& [dtype, data] : source) {
      std::string name = "t" + std::to_string(dtype);
      EXPECT_EQ(load_one(reader, name, whole(dtype, {count}), data.size()), data) << std::hex << dtype;
      EXPECT_GE(bytes_by_part(reader, {name}).size(), 2u) << std::hex << dtype;
    }
  }
}

TEST_P(Assignment, ReplicasOfShardsAreAssignedAmongTheirGroupOnly) {
  // Hybrid sharding: ranks 0 and 2 hold the upper half, ranks 1 and 3 the lower half.
  World world(place.uri(), 4, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 16384}});
  Bytes data = pattern(256 * 64 * 4, 3), small = pattern(64, 4);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    uint32_t half = rank % 2;
    ckpt_tensor_desc desc = box(CKPT_DTYPE_F32, {256, 64}, {half * 128, 0}, {128, 64});
    desc.replica_group = 100 + half;
    desc.replica_count = 2;
    desc.replica_index = rank / 2;
    add(save, "w", desc, data.data() + half * 128 * 64 * 4, 128 * 64 * 4);
    desc = box(CKPT_DTYPE_F32, {16}, {half * 8}, {8});
    desc.replica_group = 100 + half;
    desc.replica_count = 2;
    desc.replica_index = rank / 2;
    add(save, "s", desc, small.data() + half * 32, 32);
  });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_F32, {256, 64}), data.size()), data);
  EXPECT_EQ(load_one(reader, "s", whole(CKPT_DTYPE_F32, {16}), small.size()), small);
  auto assigned = bytes_by_part(reader, {"w"});
  ASSERT_EQ(assigned.size(), 4u);
  for (auto [part, bytes] : assigned) EXPECT_EQ(bytes, data.size() / 4) << part;
  for (const auto& segment : segments_of(reader, "w")) {
    ASSERT_EQ(segment.ndim, 2);
    EXPECT_EQ(segment.offset[0] / 128, segment.part % 2) << "a part holds rows of another group";
  }
}

TEST_P(Assignment, TensorsThatOnlySomeRanksHoldStayWithThem) {
  World world(place.uri(), 4);
  Bytes stage0 = pattern(4000, 1), stage1 = pattern(8000, 2), tied = pattern(1200, 3);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    ckpt_tensor_desc own = whole(CKPT_DTYPE_U8, {4000});
    own.replica_count = 1;
    if (rank == 0) add(save, "stage0", own, stage0);
    ckpt_tensor_desc pair = whole(CKPT_DTYPE_U8, {8000});
    pair.replica_group = 7;
    pair.replica_count = 2;
    pair.replica_index = rank - 1;
    if (rank == 1 || rank == 2) add(save, "stage1", pair, stage1);
    ckpt_tensor_desc ends = whole(CKPT_DTYPE_U8, {1200});
    ends.replica_group = 8;
    ends.replica_count = 2;
    ends.replica_index = rank == 0 ? 0 : 1;
    if (rank == 0 || rank == 3) add(save, "tied", ends, tied);
  });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "stage0", whole(CKPT_DTYPE_U8, {4000}), 4000), stage0);
  EXPECT_EQ(load_one(reader, "stage1", whole(CKPT_DTYPE_U8, {8000}), 8000), stage1);
  EXPECT_EQ(load_one(reader, "tied", whole(CKPT_DTYPE_U8, {1200}), 1200), tied);
  EXPECT_EQ(segments_of(reader, "stage0")[0].part, 0u);
  EXPECT_TRUE(std::set<uint32_t>({1, 2}).count(segments_of(reader, "stage1")[0].part));
}

// As of a host with several devices: rank r holds tiles r and 5 - r of six.
TEST_P(Sharding, ARankMayAddSeveralRegionsOfATensor) {
  World world(place.uri(), 3, {{"chunk_bytes", 4096}});
  const Ints shape = {100, 61}, columns = {0, 20, 41, 61};
  Bytes data = pattern(100 * 61 * 2, 5);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    for (uint32_t tile : {5 - rank, rank}) {
      size_t r = tile / 3, c = tile % 3;
      Ints offset = {r ? 50 : 0, columns[c]}, extent = {50, columns[c + 1] - columns[c]};
      Bytes held = take_box(data, 2, shape, offset, extent);
      add(save, "w", box(CKPT_DTYPE_BF16, shape, offset, extent), world.keep(std::move(held)));
    }
    add(save, "empty", box(CKPT_DTYPE_U8, {0, 4}, {0, 0}, {0, 2}), nullptr, 0);
    add(save, "empty", box(CKPT_DTYPE_U8, {0, 4}, {0, 0}, {0, 2}), nullptr, 0);
  });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_BF16, shape), data.size()), data);
  const Ints offset = {40, 10}, extent = {20, 45};
  EXPECT_EQ(load_one(reader, "w", box(CKPT_DTYPE_BF16, shape, offset, extent), 20 * 45 * 2),
            take_box(data, 2, shape, offset, extent));
  EXPECT_EQ(segments_of(reader, "w").size(), 6u);
}

TEST_P(Sharding, ARegionThatWasAddedBeforeOrDoesNotFitIsRefused) {
  World world(place.uri(), 1);
  Save save = new_save(world.sessions[0], "a");
  const Bytes data = pattern(64, 1);
  auto again = [&](const ckpt_tensor_desc& desc) {
    return ckpt_save_add_tensor(save.get(), "w", &desc, data.data(), data.size(), CKPT_DEVICE_CPU, 0, nullptr);
  };
  ASSERT_EQ(again(box(CKPT_DTYPE_U8, {8, 8}, {0, 0}, {4, 8})), CKPT_OK);
  EXPECT_EQ(again(box(CKPT_DTYPE_U8, {8, 8}, {0, 0}, {4, 8})), CKPT_EXISTS);
  EXPECT_EQ(again(whole(CKPT_DTYPE_U8, {8, 8})), CKPT_EXISTS);
  EXPECT_EQ(again(box(CKPT_DTYPE_U8, {8, 4}, {4, 0}, {4, 4})), CKPT_INVALID);
  EXPECT_EQ(again(box(CKPT_DTYPE_I8, {8, 8}, {4, 0}, {4, 8})), CKPT_INVALID);
  ASSERT_EQ(again(box(CKPT_DTYPE_U8, {8, 8}, {4, 0}, {4, 8})), CKPT_OK);
  ASSERT_EQ(again(box(CKPT_DTYPE_U8, {8, 8}, {4, 0}, {4, 8})), CKPT_OK);  // not the first one: told when the save runs
  EXPECT_EQ(ckpt_save_run(save.get(), nullptr), CKPT_EXISTS);
}

TEST_P(Sharding, RegionsOfARankThatOverlapAreRefused) {
  World world(place.uri(), 1);
  Save save = new_save(world.sessions[0], "a");
  const Bytes data = pattern(64, 1);
  add(save.get(), "w", box(CKPT_DTYPE_U8, {8, 8}, {0, 0}, {5, 8}), data.data(), 40);
  add(save.get(), "w", box(CKPT_DTYPE_U8, {8, 8}, {4, 0}, {4, 8}), data.data(), 32);
  Error error;
  EXPECT_EQ(ckpt_save_run(save.get(), error), CKPT_MISMATCH) << error.text();
  EXPECT_EQ(committed_count(world.store), 0u);
}

TEST_P(Sharding, FlatRangesWithPaddingAndEmptyRanksAreOneTensorAgain) {
  // FSDP: a flat parameter of 10 tensors over 4 ranks, with padding at the end. Most ranks hold pieces of few tensors.
  World world(place.uri(), 4, {{"chunk_bytes", 4096}});
  std::vector<Bytes> source;
  std::vector<int64_t> starts = {0};
  for (int i = 0; i < 10; i++) {
    int64_t count = 37 * (i % 4) * (i + 1) + (i == 8 ? 9000 : 1);
    source.push_back(pattern(static_cast<size_t>(count) * 4, static_cast<uint64_t>(i)));
    starts.push_back(starts.back() + count);
  }
  const int64_t share = (starts.back() + 3) / 4;
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    for (size_t i = 0; i < source.size(); i++) {
      int64_t count = starts[i + 1] - starts[i];
      int64_t begin = std::clamp<int64_t>(rank * share - starts[i], 0, count);
      int64_t end = std::clamp<int64_t>((rank + 1) * share - starts[i], begin, count);
      Bytes memory(source[i].begin() + begin * 4, source[i].begin() + end * 4);
      memory.resize(memory.size() + 64, 0xee);  // padding
      add(save, "p" + std::to_string(i), flat(CKPT_DTYPE_F32, {count}, begin, end - begin), world.keep(memory));
    }
  });
  Reader reader = open_reader(world.store);
  for (size_t i = 0; i < source.size(); i++) {
    int64_t count = starts[i + 1] - starts[i];
    EXPECT_EQ(load_one(reader, "p" + std::to_string(i), whole(CKPT_DTYPE_F32, {count}), source[i].size()), source[i]);
  }
}

TEST_P(Sharding, FlatRangesOfAMatrixMayEndInsideRowsAndMixWithBoxes) {
  World world(place.uri(), 3);
  Bytes data = pattern(30 * 7 * 8, 6);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    if (rank == 0) add(save, "w", flat(CKPT_DTYPE_F64, {30, 7}, 0, 45), data.data(), 45 * 8);
    if (rank == 1) add(save, "w", flat(CKPT_DTYPE_F64, {30, 7}, 45, 25), data.data() + 45 * 8, 25 * 8);
    if (rank == 2) add(save, "w", box(CKPT_DTYPE_F64, {30, 7}, {10, 0}, {20, 7}), data.data() + 70 * 8, 140 * 8);
  });
  EXPECT_EQ(load_one(open_reader(world.store), "w", whole(CKPT_DTYPE_F64, {30, 7}), data.size()), data);
}

TEST_P(Strided, TransposedBroadcastAndSlicedMemoryIsGathered) {
  World world(place.uri(), 1, {{"chunk_bytes", 4096}});
  Bytes memory = pattern(90 * 50 * 4, 7), row = pattern(50 * 4, 8);
  auto strided = [](ckpt_tensor_desc desc, const Ints& strides) {
    desc.flags |= CKPT_TENSOR_STRIDED;
    for (size_t i = 0; i < strides.size(); i++) desc.strides[i] = strides[i];
    return desc;
  };
  for (const char* codec : {"none", "lz4"}) {
    world.commit(codec, {{"compression", codec}}, [&](uint32_t, ckpt_save* save) {
      add(save, "transposed", strided(whole(CKPT_DTYPE_F32, {50, 90}), {1, 50}), memory);
      add(save, "broadcast", strided(whole(CKPT_DTYPE_F32, {300, 50}), {0, 1}), row);
      add(save, "scalar", strided(whole(CKPT_DTYPE_F32, {77, 33}), {0, 0}), row.data(), 4);
      // Every second row and every third column, from element [1, 2] on.
      add(save, "sliced", strided(whole(CKPT_DTYPE_F32, {44, 16}), {100, 3}), memory.data() + 52 * 4, 88 * 50 * 4);
    });
    Reader reader = open_reader(world.store, codec);
    Bytes transposed, broadcast, scalar, sliced;
    auto put = [](Bytes& to, const Bytes& from, size_t element) {
      to.insert(to.end(), from.begin() + static_cast<long>(element * 4),
                from.begin() + static_cast<long>(element * 4 + 4));
    };
    for (size_t r = 0; r < 50; r++)
      for (size_t c = 0; c < 90; c++) put(transposed, memory, c * 50 + r);
    for (size_t r = 0; r < 300; r++) broadcast.insert(broadcast.end(), row.begin(), row.end());
    for (size_t i = 0; i < 77 * 33; i++) put(scalar, row, 0);
    for (size_t r = 0; r < 44; r++)
      for (size_t c = 0; c < 16; c++) put(sliced, memory, 52 + r * 100 + c * 3);
    EXPECT_EQ(load_one(reader, "transposed", whole(CKPT_DTYPE_F32, {50, 90}), transposed.size()), transposed);
    EXPECT_EQ(load_one(reader, "broadcast", whole(CKPT_DTYPE_F32, {300, 50}), broadcast.size()), broadcast);
    EXPECT_EQ(load_one(reader, "scalar", whole(CKPT_DTYPE_F32, {77, 33}), scalar.size()), scalar);
    EXPECT_EQ(load_one(reader, "sliced", whole(CKPT_DTYPE_F32, {44, 16}), sliced.size()), sliced);
  }
}

TEST_P(Shapes, PackedElementsAreShardedAtWholeBytes) {
  World world(place.uri(), 2);
  Bytes data = pattern(6 * 12 / 2, 3);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    Bytes mine = take_box(data, 1, {6, 6}, {0, rank ? 2 : 0}, {6, rank ? 4 : 2});
    add(save, "w", box(CKPT_DTYPE_I4, {6, 12}, {0, rank ? 4 : 0}, {6, rank ? 8 : 4}), world.keep(mine));
    ckpt_tensor_desc odd = box(CKPT_DTYPE_I4, {6, 12}, {0, 3}, {6, 4});
    Error error;
    EXPECT_EQ(ckpt_save_add_tensor(save, "odd", &odd, data.data(), data.size(), CKPT_DEVICE_CPU, 0, error),
              CKPT_INVALID);
    EXPECT_EQ(error.detail("tensor"), "odd");
  });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "w", whole(CKPT_DTYPE_I4, {6, 12}), 36), data);
  EXPECT_EQ(load_one(reader, "w", box(CKPT_DTYPE_I4, {6, 12}, {1, 2}, {4, 6}), 12),
            take_box(data, 1, {6, 6}, {1, 1}, {4, 3}));
  EXPECT_EQ(load_one(reader, "w", flat(CKPT_DTYPE_I4, {6, 12}, 10, 20), 10),
            Bytes(data.begin() + 5, data.begin() + 15));
}

TEST_P(Codecs, WeightsZerosAndNoiseSurviveAtEveryChunkBoundary) {
  World world(place.uri(), 1, {{"chunk_bytes", 4096}});
  std::map<std::string, Bytes> source;
  for (size_t size : {1u, 2u, 4094u, 4096u, 4098u, 8192u, 65536u, 200002u}) {
    std::string at = "." + std::to_string(size);
    source["noise" + at] = pattern(size, size);
    source["zeros" + at] = Bytes(size, 0);
    Bytes weights = pattern(size, size + 1);  // bf16 in a narrow range of exponents
    for (size_t i = 1; i < size; i += 2) weights[i] = static_cast<unsigned char>(0x3c | (weights[i] & 0x81));
    source["weights" + at] = weights;
  }
  std::map<std::string, uint64_t> stored;
  for (const char* codec : {"none", "lz4", "bitplane-lz4", "auto"}) {
    world.commit(codec, {{"compression", codec}}, [&](uint32_t, ckpt_save* save) {
      for (const auto& [name, data] : source) {
        int64_t size = static_cast<int64_t>(data.size());
        add(save, name, size % 2 ? whole(CKPT_DTYPE_U8, {size}) : whole(CKPT_DTYPE_BF16, {size / 2}), data);
      }
    });
    Reader reader = open_reader(world.store, codec);
    for (const auto& [name, data] : source) {
      int64_t size = static_cast<int64_t>(data.size());
      auto desc = size % 2 ? whole(CKPT_DTYPE_U8, {size}) : whole(CKPT_DTYPE_BF16, {size / 2});
      EXPECT_EQ(load_one(reader, name, desc, data.size()), data) << name << " " << codec;
      EXPECT_LE(tensor_info(reader, name).stored_bytes, data.size()) << name << " " << codec;
      stored[codec + (" " + name)] = tensor_info(reader, name).stored_bytes;
    }
  }
  EXPECT_LT(stored["lz4 zeros.200002"], 200002u / 20);
  EXPECT_LT(stored["bitplane-lz4 weights.200002"], 200002u * 4 / 5);
  EXPECT_LT(stored["auto weights.200002"], 200002u * 4 / 5);
  EXPECT_EQ(stored["auto noise.200002"], 200002u);
  EXPECT_EQ(stored["none zeros.200002"], 200002u);
}

TEST_P(Shapes, HundredThousandTensorsAreSavedAndFound) {
  constexpr uint32_t kCount = 100000;
  World world(place.uri(), 2);
  std::vector<uint32_t> values(kCount);
  std::iota(values.begin(), values.end(), 7u);
  auto name = [](uint32_t i) { return "model.layers." + std::to_string(i) + ".weight"; };
  world.commit("a", {{"staging_bytes", 8 << 20}}, [&](uint32_t, ckpt_save* save) {
    for (uint32_t i = 0; i < kCount; i++) add(save, name(i), whole(CKPT_DTYPE_U32, {1}), &values[i], 4);
  });
  Reader reader = open_reader(world.store);
  ASSERT_EQ(ckpt_reader_tensor_count(reader.get()), kCount);
  std::vector<uint32_t> loaded(kCount, 0);
  Load load = new_load(reader, {{"strict", "exact"}});
  for (uint32_t i = 0; i < kCount; i++) ask(load, name(i), whole(CKPT_DTYPE_U32, {1}), &loaded[i], 4);
  run(load);
  EXPECT_EQ(loaded, values);
}

TEST(BigTensor, MoreThanFourGibibytesAreSavedAndAnyBoxOfThemLoads) {
  // All rows are the same memory, so neither memory nor the (compressed) file must hold it all.
  const int64_t rows = (int64_t{4} << 10) + 3, columns = 1 << 20;
  Bytes row(static_cast<size_t>(columns), 0);
  for (size_t i = 0; i < row.size(); i += 4096) row[i] = static_cast<unsigned char>(i >> 12);
  StorePlace place("dir");
  World world(place.uri(), 1, {{"chunk_bytes", 16 << 20}});
  ckpt_tensor_desc desc = whole(CKPT_DTYPE_U8, {rows, columns});
  desc.flags = CKPT_TENSOR_STRIDED;
  desc.strides[1] = 1;
  world.commit("a", {{"compression", "lz4"}}, [&](uint32_t, ckpt_save* save) { add(save, "big", desc, row); });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(tensor_info(reader, "big").bytes, static_cast<uint64_t>(rows * columns));
  EXPECT_GT(tensor_info(reader, "big").bytes, uint64_t{1} << 32);
  EXPECT_LT(tensor_info(reader, "big").stored_bytes, uint64_t{1} << 28);
  EXPECT_EQ(load_one(reader, "big", box(CKPT_DTYPE_U8, {rows, columns}, {rows - 1, 0}, {1, columns}), row.size()), row);
  Bytes column = load_one(reader, "big", box(CKPT_DTYPE_U8, {rows, columns}, {rows - 50, 4096 * 9}, {50, 1}), 50);
  EXPECT_EQ(column, Bytes(50, row[4096 * 9]));
  int64_t flat_start = (int64_t{1} << 32) - 5;
  Bytes across = load_one(reader, "big", flat(CKPT_DTYPE_U8, {rows, columns}, flat_start, 10), 10);
  Bytes expected(10);
  for (int64_t i = 0; i < 10; i++)
    expected[static_cast<size_t>(i)] = row[static_cast<size_t>((flat_start + i) % columns)];
  EXPECT_EQ(across, expected);
}

TEST_P(Sharding, AttributesOfAMebibyteComeBackAndLargerOnesAreInvalid) {
  World world(place.uri(), 2);
  const Bytes data = pattern(8, 1);
  const std::string most(1 << 20, 'v');
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    add(save, "w", whole(CKPT_DTYPE_U8, {8}), data);
    Error error;
    EXPECT_EQ(ckpt_save_set_attr(save, "w", "big", (most + "v").c_str(), error), CKPT_INVALID);
    EXPECT_EQ(ckpt_save_set_attr(save, "w", "big", most.c_str(), error), CKPT_OK) << error.text();
  });
  EXPECT_EQ(ckpt_reader_attr(open_reader(world.store).get(), "w", "big"), most);
}

}  // namespace
}  // namespace ckpt_test
