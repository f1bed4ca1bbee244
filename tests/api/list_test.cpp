// ckpt_reader_tensor_at fills every field of the caller's record, whatever it held before and however long it is.
#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Lists);

class ThreeNames {
 public:
  explicit ThreeNames(const std::string& uri) : world_(uri, 2) {
    Bytes data = pattern(24, 1);
    world_.commit("a", {}, [&](uint32_t, ckpt_save* save) {
      add(save, "deep", whole(CKPT_DTYPE_U8, {2, 3, 2, 1, 2}), data);
      add(save, "flat", whole(CKPT_DTYPE_F32, {6}), data);
      Error error;
      EXPECT_EQ(ckpt_save_add_alias(save, "eel", "deep", nullptr, error), CKPT_OK) << error.text();
    });
    reader = open_reader(world_.store);
  }

 private:
  World world_;

 public:
  Reader reader;
};

TEST_P(Lists, RecordsAreWrittenWholeOverWhateverTheyHeld) {
  ThreeNames three(place.uri());
  ASSERT_EQ(ckpt_reader_tensor_count(three.reader.get()), 3u);
  Error error;
  auto at = [&](uint64_t i) {
    ckpt_tensor_info info;
    std::memset(&info, 0xa5, sizeof info);
    info.struct_size = sizeof info;
    EXPECT_EQ(ckpt_reader_tensor_at(three.reader.get(), i, &info, error), CKPT_OK) << error.text();
    EXPECT_EQ(info.struct_size, sizeof info);
    for (int d = info.ndim; d < CKPT_MAX_NDIM; d++) EXPECT_EQ(info.shape[d], 0) << d;
    return info;
  };
  ckpt_tensor_info deep = at(0), eel = at(1), flat = at(2);
  EXPECT_STREQ(deep.name, "deep");
  EXPECT_EQ(deep.alias_of, nullptr);
  EXPECT_EQ(deep.ndim, 5);
  EXPECT_EQ(deep.bytes, 24u);
  EXPECT_EQ(deep.stored_bytes, 24u);
  EXPECT_STREQ(eel.name, "eel");
  EXPECT_STREQ(eel.alias_of, "deep");
  EXPECT_EQ(eel.ndim, 5);
  EXPECT_EQ(eel.bytes, 24u);
  EXPECT_EQ(eel.stored_bytes, 0u);
  EXPECT_EQ(eel.segment_count, 0u);
  EXPECT_STREQ(flat.name, "flat");
  EXPECT_EQ(flat.dtype, CKPT_DTYPE_F32);
  EXPECT_EQ(flat.shape[0], 6);
  EXPECT_EQ(flat.segment_count, 1u);
}

TEST_P(Lists, AnOlderCallersShorterRecordIsNotOverrun) {
  ThreeNames three(place.uri());
  Error error;
  ckpt_tensor_info info;
  std::memset(&info, 0xa5, sizeof info);
  info.struct_size = offsetof(ckpt_tensor_info, bytes);
  ASSERT_EQ(ckpt_reader_tensor_at(three.reader.get(), 2, &info, error), CKPT_OK) << error.text();
  EXPECT_EQ(info.shape[0], 6);
  EXPECT_EQ(info.bytes, 0xa5a5a5a5a5a5a5a5u);
  info.struct_size = 0;
  EXPECT_EQ(ckpt_reader_tensor_at(three.reader.get(), 2, &info, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_tensor_at(three.reader.get(), 2, nullptr, error), CKPT_INVALID);
  EXPECT_EQ(ckpt_reader_tensor_at(three.reader.get(), 3, &info, error), CKPT_NOT_FOUND);
}

}  // namespace
}  // namespace ckpt_test
