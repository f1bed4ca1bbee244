// Loads into memory that requests share: refused by both names before anything changes, unless they bring equal bytes.
#include "api/tables.h"

namespace ckpt_test {
namespace {

struct Ask {
  const char* name;
  ckpt_tensor_desc desc;
  size_t offset;  // bytes into the memory
};

ckpt_tensor_desc strided(Ints shape, const Ints& strides) {
  ckpt_tensor_desc desc = whole(CKPT_DTYPE_F32, shape);
  desc.flags = CKPT_TENSOR_STRIDED;
  std::copy(strides.begin(), strides.end(), desc.strides);
  return desc;
}

// Tensors: `a` of 20 x 10, `b`, `c` and `b2` of 100, the last with the values of `b`; aliases of `a`: `tied`, and
// `rows`, 5 and 6 of them; object `o` of 40 bytes; table `t` of three rows.
class Overlaps : public ::testing::Test {
 protected:
  Overlaps() : place_("dir"), world_(place_.uri(), 1) {
    world_.commit("s", {}, [&](uint32_t, ckpt_save* save) {
      Error error;
      ckpt_tensor_desc rows = whole(CKPT_DTYPE_F32, {2, 10});
      rows.flat_offset = 50;
      add(save, "a", whole(CKPT_DTYPE_F32, {20, 10}), a_);
      add(save, "b", whole(CKPT_DTYPE_F32, {100}), b_);
      add(save, "c", whole(CKPT_DTYPE_F32, {100}), c_);
      add(save, "b2", whole(CKPT_DTYPE_F32, {100}), b_);
      add_alias(save, "tied", "a");
      add_alias(save, "rows", "a", &rows);
      EXPECT_EQ(ckpt_save_add_object(save, "o", nullptr, CKPT_OBJECT_SHARED, a_.data(), 40, error), CKPT_OK);
      table_.add(save);
    });
    reader_ = open_reader(world_.store);
  }

  Load loading(const std::vector<Ask>& asks) {
    Load load = new_load(reader_);
    for (const Ask& of : asks) ask(load, of.name, of.desc, memory_.data() + of.offset, memory_.size() - of.offset);
    return load;
  }
  void refuse(const Load& load, const char* first, const char* second) {
    Error error;
    EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_INVALID) << first << " and " << second << ": " << error.text();
    EXPECT_EQ(error.detail("found"), first);
    EXPECT_EQ(error.detail("tensor"), second);
    EXPECT_NE(error.text().find(first), std::string::npos) << error.text();
    EXPECT_EQ(memory_, Bytes(memory_.size(), 0xa5)) << "nothing changes before";
  }
  void take(const Load& load) { run(load); }

  StorePlace place_;
  World world_;
  Bytes a_ = pattern(800, 1), b_ = pattern(400, 2), c_ = pattern(400, 3), memory_ = Bytes(10000, 0xa5);
  TestTable table_{{3, 1, 2}};
  Reader reader_;
  const ckpt_tensor_desc whole_a_ = whole(CKPT_DTYPE_F32, {20, 10}), whole_b_ = whole(CKPT_DTYPE_F32, {100});
};

TEST_F(Overlaps, OfTensorsInPartAreInvalid) {
  refuse(loading({{"a", whole_a_, 0}, {"b", whole_b_, 0}}), "a", "b");
  refuse(loading({{"b", whole_b_, 0}, {"a", whole_a_, 396}}), "b", "a");
  refuse(loading({{"a", whole_a_, 0}, {"b", strided({100}, {2}), 8}}), "a", "b");
  refuse(loading({{"a", strided({20, 10}, {1, 20}), 0}, {"a", whole_a_, 0}}), "a", "a");
  refuse(loading({{"a", whole_a_, 0}, {"a", whole_a_, 4}}), "a", "a");
  refuse(loading({{"a", strided({20, 10}, {1, 1}), 0}}), "a", "a");
  refuse(loading({{"a", strided({20, 10}, {10, 2}), 0}, {"b", strided({100}, {2}), 0}}), "a", "a");
  refuse(loading({{"b", flat(CKPT_DTYPE_F32, {100}, 0, 50), 0}, {"b", flat(CKPT_DTYPE_F32, {100}, 40, 50), 0}}), "b",
         "b");
  refuse(loading({{"rows", whole(CKPT_DTYPE_F32, {2, 10}), 100}, {"b", whole_b_, 0}}), "b", "rows");
  refuse(loading({{"b", whole_b_, 0}, {"tied", whole_a_, 0}}), "b", "tied");
}

TEST_F(Overlaps, OfOtherValuesInTheVerySameMemoryAreInvalid) {
  refuse(loading({{"b", whole_b_, 0}, {"c", whole_b_, 0}}), "b", "c");
  refuse(loading({{"b", box(CKPT_DTYPE_F32, {100}, {0}, {50}), 0}, {"b2", box(CKPT_DTYPE_F32, {100}, {50}, {50}), 0}}),
         "b", "b2");
  refuse(loading({{"b", whole_b_, 0}, {"b2", whole_b_, 0}, {"c", whole_b_, 0}}), "b", "c");
}

TEST_F(Overlaps, OfTwoNamesWithEqualValuesAreTaken) {
  take(loading({{"b", whole_b_, 0}, {"b2", whole_b_, 0}}));
  EXPECT_TRUE(std::equal(b_.begin(), b_.end(), memory_.begin()));
}

TEST_F(Overlaps, OfTablesAndObjectsAreInvalid) {
  auto with_object = [&](const std::vector<Ask>& asks, size_t offset) {
    Load load = loading(asks);
    Error error;
    EXPECT_EQ(ckpt_load_add_object(load.get(), "o", 0, memory_.data() + offset, 40, error), CKPT_OK) << error.text();
    return load;
  };
  refuse(with_object({{"b", whole_b_, 0}}, 399), "b", "o");

  ckpt_share* opened = nullptr;
  const ckpt_share_desc all = share_desc(CKPT_SHARE_ALL);
  Error error;
  ASSERT_EQ(ckpt_share_open(&opened, reader_.get(), "t", &all, nullptr, 0, nullptr, error), CKPT_OK) << error.text();
  const Share share(opened);
  auto with_table = [&](const std::vector<Ask>& asks, size_t ids, size_t seen) {
    Load load = loading(asks);
    const char* column = "seen";
    void* to = memory_.data() + seen;
    const uint64_t bytes = 9;
    EXPECT_EQ(ckpt_load_add_table(load.get(), share.get(), 0, memory_.data() + ids, 24, 1, &column, &to, &bytes,
                                  CKPT_DEVICE_CPU, 0, 0, error),
              CKPT_OK)
        << error.text();
    return load;
  };
  refuse(with_table({{"b", whole_b_, 0}}, 400, 399), "b", "t/seen");
  refuse(with_table({{"b", whole_b_, 100}}, 100 - 16, 0), "b", "t/ids");
  refuse(with_table({}, 0, 20), "t/ids", "t/seen");
  take(with_table({{"b", whole_b_, 33}}, 0, 24));
}

TEST_F(Overlaps, ThatBringEqualBytesAreTaken) {
  const ckpt_tensor_desc rows = whole(CKPT_DTYPE_F32, {2, 10});
  take(loading({{"a", whole_a_, 0}, {"tied", whole_a_, 0}, {"rows", rows, 200}, {"a", whole_a_, 0}}));
  EXPECT_TRUE(std::equal(a_.begin(), a_.end(), memory_.begin()));
  take(loading({{"a", box(CKPT_DTYPE_F32, {20, 10}, {0, 0}, {12, 10}), 0},
                {"a", box(CKPT_DTYPE_F32, {20, 10}, {8, 0}, {12, 10}), 320},
                {"a", flat(CKPT_DTYPE_F32, {20, 10}, 33, 100), 132}}));
  EXPECT_TRUE(std::equal(a_.begin(), a_.end(), memory_.begin()));
  // Transposed memory, and rows of it.
  take(loading({{"a", strided({20, 10}, {1, 20}), 0}, {"rows", strided({2, 10}, {1, 20}), 20}}));
  EXPECT_TRUE(std::equal(a_.begin() + 240, a_.begin() + 244, memory_.begin() + 4 * (6 + 0 * 20)));
}

TEST_F(Overlaps, WhatLiesBetweenEachOtherIsNone) {
  take(loading({{"a", strided({20, 10}, {24, 1}), 0},
                {"b", strided({100}, {24}), 40},
                {"rows", strided({2, 10}, {24, 1}), 44 + 7 * 96}}));
  EXPECT_TRUE(std::equal(a_.begin() + 40, a_.begin() + 80, memory_.begin() + 96));
}

}  // namespace
}  // namespace ckpt_test
