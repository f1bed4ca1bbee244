// Rows that each rank counts for itself: any number of ranks saves them, and any part of the tensor that they make
// together loads, like that of any other tensor.
#include <filesystem>
#include <numeric>

#include "api/ranks.h"
#include "api/sample.h"
#include "golden/catalogue.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Rows);

ckpt_tensor_desc rows_desc(int32_t dtype, const Ints& shape) {
  ckpt_tensor_desc desc = whole(dtype, shape);
  desc.region_kind = CKPT_REGION_ROWS;
  return desc;
}

Ints with_rows(int64_t rows, const Ints& row) {
  Ints shape{rows};
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

// A tensor of which each rank has some rows, and the whole of it.
struct Ragged {
  int32_t dtype = CKPT_DTYPE_F32;
  Ints row;  // the shape of a row
  Ints counts;
  Bytes bytes;

  size_t row_bytes() const { return static_cast<size_t>(volume(row) * ckpt_dtype_bits(dtype) / 8); }
  int64_t first(uint32_t rank) const { return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0}); }
  Ints shape() const { return with_rows(first(static_cast<uint32_t>(counts.size())), row); }
  void add_to(ckpt_save* save, uint32_t rank) const {
    add(save, "t", rows_desc(dtype, with_rows(counts[rank], row)),
        bytes.data() + static_cast<size_t>(first(rank)) * row_bytes(), static_cast<size_t>(counts[rank]) * row_bytes());
  }
};

Ragged random_rows(std::mt19937_64& random, uint32_t world, int32_t dtype) {
  Ragged made;
  made.dtype = dtype;
  for (uint64_t d = random() % 3; d > 0; d--) made.row.push_back(static_cast<int64_t>(random() % 9 + 1));
  if (ckpt_dtype_bits(dtype) % 8 != 0) made.row = {2, 3};
  for (uint32_t rank = 0; rank < world; rank++)
    made.counts.push_back(random() % 3 == 0 ? 0 : static_cast<int64_t>(random() % 900));
  made.bytes = pattern(static_cast<size_t>(made.first(world)) * made.row_bytes(), random());
  return made;
}

TEST_P(Rows, OfAnyNumberOfRanksLoadAsOneTensor) {
  std::mt19937_64 random(20261124);
  const char* codecs[] = {"none", "lz4", "auto"};
  for (uint32_t world_size = 1; world_size <= 9; world_size++) {
    World world(place.uri() + "/" + std::to_string(world_size), world_size, {{"chunk_bytes", 4096}});
    for (const char* codec : codecs) {
      const Ragged made = random_rows(random, world_size, random() % 2 ? CKPT_DTYPE_F32 : CKPT_DTYPE(0x7f, 24));
      world.commit(codec, {{"compression", codec}}, [&](uint32_t rank, ckpt_save* save) { made.add_to(save, rank); });
      Reader reader = open_reader(world.store, codec);
      const Ints shape = made.shape();
      const ckpt_tensor_info info = tensor_info(reader, "t");
      ASSERT_EQ(Ints(info.shape, info.shape + info.ndim), shape);
      ASSERT_EQ(load_one(reader, "t", whole(made.dtype, shape), made.bytes.size()), made.bytes);
      if (made.bytes.empty()) continue;
      const size_t width = static_cast<size_t>(ckpt_dtype_bits(made.dtype)) / 8;
      for (int i = 0; i < 8; i++) {
        const TestBox want = random_box(random, shape);
        ASSERT_EQ(load_one(reader, "t", box(made.dtype, shape, want.offset, want.extent),
                           static_cast<size_t>(volume(want.extent)) * width),
                  take_box(made.bytes, width, shape, want.offset, want.extent));
        const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(volume(shape)));
        const auto size = static_cast<int64_t>(random() % static_cast<uint64_t>(volume(shape) - begin + 1));
        const auto at = made.bytes.begin() + begin * static_cast<int64_t>(width);
        ASSERT_EQ(load_one(reader, "t", flat(made.dtype, shape, begin, size), static_cast<size_t>(size) * width),
                  Bytes(at, at + size * static_cast<int64_t>(width)));
      }
    }
  }
}

TEST_P(Rows, OfPackedElementsLoadWhereverTheirBytesEnd) {
  std::mt19937_64 random(5);
  World world(place.uri(), 3, {{"chunk_bytes", 4096}});
  Ragged made = random_rows(random, 3, CKPT_DTYPE_U4);  // rows of [2, 3]: three bytes each
  made.counts = {3, 0, 1000};
  made.bytes = pattern(3 * 1003, 8);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) { made.add_to(save, rank); });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "t", whole(CKPT_DTYPE_U4, {1003, 2, 3}), made.bytes.size()), made.bytes);
  EXPECT_EQ(load_one(reader, "t", flat(CKPT_DTYPE_U4, {1003, 2, 3}, 12, 24), 12),
            Bytes(made.bytes.begin() + 6, made.bytes.begin() + 18));
}

TEST_P(Rows, MayBeStridedInMemory) {
  World world(place.uri(), 2);
  const Bytes memory = pattern(100, 3);
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    ckpt_tensor_desc desc = rows_desc(CKPT_DTYPE_U8, {rank ? 2 : 3, 4});
    desc.flags = CKPT_TENSOR_STRIDED;
    desc.strides[0] = 10;
    desc.strides[1] = 2;
    add(save, "t", desc, memory.data() + rank, memory.size() - rank);
  });
  Bytes expected;
  for (size_t rank : {0, 1})
    for (size_t row = 0; row < (rank ? 2 : 3); row++)
      for (size_t i = 0; i < 4; i++) expected.push_back(memory[rank + 10 * row + 2 * i]);
  EXPECT_EQ(load_one(open_reader(world.store), "t", whole(CKPT_DTYPE_U8, {5, 4}), 20), expected);
}

TEST_P(Rows, OfNoRankMakeATensorWithoutElements) {
  World world(place.uri(), 3);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add(save, "t", rows_desc(CKPT_DTYPE_F32, {0, 7}), {}); });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(tensor_info(reader, "t").shape[0], 0);
  EXPECT_TRUE(segments_of(reader, "t").empty());
  EXPECT_EQ(load_one(reader, "t", whole(CKPT_DTYPE_F32, {0, 7}), 0), Bytes());
}

TEST_P(Rows, AreTheSamePiecesAsFlatRangesAtTheirPlaces) {
  World world(place.uri(), 3);
  const Ragged made{CKPT_DTYPE_U8, {4}, {3, 0, 5}, pattern(32, 2)};
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) { made.add_to(save, rank); });
  Reader reader = open_reader(world.store);
  const auto segments = segments_of(reader, "t");
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].part, 0u);
  EXPECT_EQ(segments[1].part, 2u);
  EXPECT_EQ(segments[1].ndim, -1);
  EXPECT_EQ(segments[1].flat_offset, 12);
  EXPECT_EQ(segments[1].flat_size, 20);
}

TEST_P(Rows, LoadWithOptionOwnPartAsWithout) {
  World world(place.uri(), 2);
  // Rank 1's own rows have the shape of the whole tensor's first half.
  const Ragged made{CKPT_DTYPE_U8, {4}, {4, 4}, pattern(32, 2)};
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) { made.add_to(save, rank); });
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "t", whole(CKPT_DTYPE_U8, {8, 4}), 32, {{"own_part", 1}}), made.bytes);
  Load load = new_load(reader, {{"own_part", 1}});
  Bytes memory(16);
  auto desc = whole(CKPT_DTYPE_U8, {4, 4});
  Error error;
  EXPECT_EQ(ckpt_load_add_tensor(load.get(), "t", &desc, memory.data(), 16, CKPT_DEVICE_CPU, 0, error), CKPT_MISMATCH);
}

TEST_P(Rows, MayHaveAliasesAndViewsOfTheWhole) {
  World world(place.uri(), 2);
  const Ragged made{CKPT_DTYPE_U8, {4}, {3, 5}, pattern(32, 2)};
  ckpt_tensor_desc column = whole(CKPT_DTYPE_U8, {8});
  column.flags = CKPT_TENSOR_STRIDED;
  column.strides[0] = 4;
  column.flat_offset = 1;
  auto fill = [&](uint32_t rank, ckpt_save* save) {
    made.add_to(save, rank);
    add_alias(save, "tied", "t");
    add_alias(save, "column", "t", &column);
  };
  world.commit("a", {}, fill);
  Reader reader = open_reader(world.store);
  EXPECT_EQ(load_one(reader, "tied", whole(CKPT_DTYPE_U8, {8, 4}), 32), made.bytes);
  Bytes expected;
  for (size_t row = 0; row < 8; row++) expected.push_back(made.bytes[4 * row + 1]);
  EXPECT_EQ(load_one(reader, "column", whole(CKPT_DTYPE_U8, {8}), 8), expected);
  column.shape[0] = 9;  // one row more than there are together
  EXPECT_EQ(world.save("b", {}, fill)[0].status, CKPT_MISMATCH);
}

// ---- refusals ----

Outcome refused_add(const std::string& uri, const ckpt_tensor_desc& desc, bool again = false) {
  World world(uri, 2);
  Save save = new_save(world.sessions[0], "a");
  const Bytes memory = pattern(4096, 1);
  if (again) add(save.get(), "t", desc, memory);
  Error error;
  const ckpt_status status =
      ckpt_save_add_tensor(save.get(), "t", &desc, memory.data(), memory.size(), CKPT_DEVICE_CPU, 0, error);
  return outcome_of(status, error);
}

TEST_P(Rows, WithReplicasAreInvalid) {
  ckpt_tensor_desc desc = rows_desc(CKPT_DTYPE_F32, {2, 4});
  desc.replica_count = 1;
  EXPECT_EQ(refused_add(place.uri(), desc).status, CKPT_INVALID);
  desc.replica_count = 0;
  desc.flags = CKPT_TENSOR_FIRST_REPLICA;
  const Outcome outcome = refused_add(place.uri(), desc);
  EXPECT_EQ(outcome.status, CKPT_INVALID);
  EXPECT_EQ(outcome.tensor, "t");
  EXPECT_NE(outcome.text.find("have no replicas"), std::string::npos) << outcome.text;
}

TEST_P(Rows, OfNoElementsOrOfAScalarAreInvalidAndOfSplitBytesUnsupported) {
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_F32, {})).status, CKPT_INVALID);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_F32, {3, 0})).status, CKPT_INVALID);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_F32, {0, 2, 0})).status, CKPT_INVALID);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_F32, {3, -1})).status, CKPT_INVALID);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_F32, {int64_t{1} << 40, int64_t{1} << 40})).status,
            CKPT_INVALID);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_U4, {4})).status, CKPT_UNSUPPORTED);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_U4, {4, 3})).status, CKPT_UNSUPPORTED);
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_U4, {4, 2})).status, CKPT_OK);
}

TEST_P(Rows, OfATensorAddedTwiceByARankExist) {
  EXPECT_EQ(refused_add(place.uri(), rows_desc(CKPT_DTYPE_F32, {2, 4}), true).status, CKPT_EXISTS);
}

TEST_P(Rows, AreNoRegionOfALoad) {
  World world(place.uri(), 2);
  const Ragged made{CKPT_DTYPE_U8, {4}, {3, 5}, pattern(32, 2)};
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) { made.add_to(save, rank); });
  Load load = new_load(open_reader(world.store));
  Bytes memory(32);
  const auto desc = rows_desc(CKPT_DTYPE_U8, {8, 4});
  Error error;
  const ckpt_status status = ckpt_load_add_tensor(load.get(), "t", &desc, memory.data(), 32, CKPT_DEVICE_CPU, 0, error);
  EXPECT_EQ(status, CKPT_INVALID);
  EXPECT_NE(error.text().find("a load asks for a box"), std::string::npos) << error.text();
}

// ---- maintenance ----

ckpt_golden::Contents rows_contents() {
  ckpt_golden::Contents contents{
      .label = "rows", .step = 3, .world = 3, .text_options = {}, .number_options = {{"chunk_bytes", 4096}}};
  contents.tensors = {ckpt_golden::filled("t", CKPT_DTYPE_F32, {900, 10}, ckpt_golden::Split::kOwnRows, 3),
                      ckpt_golden::filled("w", CKPT_DTYPE_F32, {30}, ckpt_golden::Split::kReplicated, 4)};
  return contents;
}

TEST(RowsOnDisk, OfALostManifestAreRebuiltByteForByte) {
  Sample sample(rows_contents());
  const std::string before = read_file(sample.file("MANIFEST"));
  std::filesystem::remove(sample.file("MANIFEST"));
  ckpt_report* report = nullptr;
  Error error;
  ASSERT_EQ(ckpt_store_repair(sample.store(), sample.id().c_str(), options({{"dry_run", 0}}).get(), &report, error),
            CKPT_OK)
      << error.text();
  Report owner(report);
  EXPECT_EQ(read_file(sample.file("MANIFEST")), before);
}

TEST(RowsOnDisk, ThatAreDamagedAreNamedByTheirElementsInTheWholeTensor) {
  Sample sample(rows_contents());
  Reader reader = sample.open();
  EXPECT_TRUE(verify(reader.get()).empty());
  const auto segments = segments_of(reader, "t");
  ASSERT_EQ(segments.size(), 2u);  // rank 1 has none; rank 2's begin at row 300
  const uint64_t offset = segments[1].part_offset;
  const auto byte = static_cast<unsigned char>(read_file(sample.file("PART_002"))[offset]);
  Patch patch(sample.file("PART_002"), offset, byte ^ 1);
  Reader damaged = sample.open();
  const auto found = verify(damaged.get());
  ASSERT_EQ(found.size(), 1u) << to_text(found);
  EXPECT_EQ(found[0].part, "PART_002");
  EXPECT_EQ(found[0].name, "t");
  EXPECT_EQ(found[0].first, 3000);
  EXPECT_EQ(found[0].last, 3000 + 1023);
  bool right = false;
  std::string problem;
  EXPECT_EQ(load_all(damaged.get(), sample.contents(), &right, &problem), CKPT_CORRUPT);
  EXPECT_NE(problem.find("elements 3000 to 4023"), std::string::npos) << problem;
}

TEST(RowsOnDisk, AreComparedWithTheSameTensorHoweverItWasSaved) {
  Sample sample(rows_contents());
  ckpt_golden::Contents other = rows_contents();
  other.label = "boxes";
  other.tensors[0].split = ckpt_golden::Split::kRows;
  other.tensors[0].bytes[4 * 5000] ^= 1;
  Reader a = sample.open(), b = open_reader(open_store(sample.scratch().path()), sample.save(other));
  ckpt_report* report = nullptr;
  Error error;
  ASSERT_EQ(ckpt_reader_diff(a.get(), b.get(), options({{"values", 1}}).get(), &report, error), CKPT_OK)
      << error.text();
  Report owner(report);
  const auto found = findings_of(report);
  ASSERT_EQ(found.size(), 1u) << to_text(found);
  EXPECT_EQ(found[0].name, "t");
  EXPECT_EQ(found[0].first, 5000);
  EXPECT_EQ(found[0].count, 1u);
}

}  // namespace
}  // namespace ckpt_test
