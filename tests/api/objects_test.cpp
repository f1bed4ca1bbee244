// Objects: named bytes, shared or for each rank, and what a run with another world size gets.
#include <filesystem>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Objects);

Bytes load_object(const Reader& reader, const char* name, uint32_t rank, size_t size,
                  const std::vector<Setting>& settings = {}) {
  Bytes data(size, 0xa5);
  Load load = new_load(reader, settings);
  Error error;
  EXPECT_EQ(ckpt_load_add_object(load.get(), name, rank, data.data(), size, error), CKPT_OK) << error.text();
  run(load);
  return data;
}

TEST_P(Objects, SharedOnesOfEverySizeComeBackOnEveryRank) {
  World world(place.uri(), 3, {{"chunk_bytes", 4096}});
  const std::vector<size_t> sizes = {0, 1, 4095, 4096, 4097, 100000};
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    for (size_t size : sizes)
      if (rank != 2)
        add_object(save, ("o" + std::to_string(size)).c_str(), CKPT_OBJECT_SHARED, pattern(size, size), "text/x");
  });
  Reader reader = open_reader(world.store);
  ASSERT_EQ(ckpt_reader_object_count(reader.get()), sizes.size());
  Error error;
  for (size_t size : sizes) {
    std::string name = "o" + std::to_string(size);
    auto info = sized<ckpt_object_info>();
    ASSERT_EQ(ckpt_reader_object_find(reader.get(), name.c_str(), 17, &info, error), CKPT_OK) << error.text();
    EXPECT_EQ(info.size, size);
    EXPECT_EQ(info.scope, CKPT_OBJECT_SHARED);
    EXPECT_STREQ(info.media_type, "text/x");
    for (uint32_t rank : {0u, 2u, 17u}) EXPECT_EQ(load_object(reader, name.c_str(), rank, size), pattern(size, size));
  }
}

// An object that is too large for the manifest is in the part of its rank: the random state of torch, for example.
TEST(ObjectsInParts, WhosePartIsGoneAreIncompleteBeforeATensorChanges) {
  Scratch scratch;
  World world(scratch / "store", 2);
  ckpt_tensor_desc alone = whole(CKPT_DTYPE_U8, {100});
  alone.replica_count = 1;
  world.commit("a", {}, [&](uint32_t rank, ckpt_save* save) {
    if (rank == 0) add(save, "w", alone, world.keep(pattern(100, 1)));
    add_object(save, "rng", CKPT_OBJECT_PER_RANK, pattern(5056, rank));
  });
  ASSERT_TRUE(std::filesystem::remove(scratch / "store/a.1.1/PART_001"));
  Reader reader = open_reader(world.store);
  Load load = new_load(reader);
  Bytes data(100, 0xa5), rng(5056);
  Error error;
  ask(load, "w", whole(CKPT_DTYPE_U8, {100}), data.data(), data.size());
  ASSERT_EQ(ckpt_load_add_object(load.get(), "rng", 1, rng.data(), rng.size(), error), CKPT_OK) << error.text();
  EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_INCOMPLETE) << error.text();
  EXPECT_EQ(error.detail("tensor"), "rng");
  EXPECT_EQ(data, Bytes(100, 0xa5));
}

TEST_P(Objects, TooLittleMemoryIsRefusedAndMoreIsLeftAlone) {
  World world(place.uri(), 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) { add_object(save, "o", CKPT_OBJECT_SHARED, pattern(64, 1)); });
  Reader reader = open_reader(world.store);
  Bytes data(80, 0xa5);
  Load load = new_load(reader);
  Error error;
  EXPECT_EQ(ckpt_load_add_object(load.get(), "o", 0, data.data(), 63, error), CKPT_INVALID);
  EXPECT_EQ(error.detail("expected"), "64");
  EXPECT_EQ(error.detail("found"), "63");
  EXPECT_EQ(ckpt_load_add_object(load.get(), "o", 0, data.data(), 80, error), CKPT_OK);
  run(load);
  EXPECT_EQ(Bytes(data.begin(), data.begin() + 64), pattern(64, 1));
  EXPECT_EQ(Bytes(data.begin() + 64, data.end()), Bytes(16, 0xa5));
}

TEST_P(Objects, AreCopiedWhenAddedAndNamedOnce) {
  World world(place.uri(), 1);
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    Bytes data = pattern(70000, 1);
    add_object(save, "o", CKPT_OBJECT_SHARED, data);
    std::fill(data.begin(), data.end(), static_cast<unsigned char>(0xee));
    Error error;
    EXPECT_EQ(ckpt_save_add_object(save, "o", nullptr, CKPT_OBJECT_SHARED, "x", 1, error), CKPT_EXISTS);
    EXPECT_EQ(ckpt_save_add_object(save, "p", nullptr, 2, "x", 1, error), CKPT_INVALID);
    EXPECT_EQ(ckpt_save_add_object(save, "p", nullptr, CKPT_OBJECT_SHARED, nullptr, 1, error), CKPT_INVALID);
    // Tensors and objects have separate namespaces.
    add(save, "o", whole(CKPT_DTYPE_U8, {4}), world.keep(pattern(4, 1)));
  });
  EXPECT_EQ(load_object(open_reader(world.store), "o", 0, 70000), pattern(70000, 1));
}

}  // namespace
}  // namespace ckpt_test
