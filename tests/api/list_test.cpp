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
      add_alias(save, "eel", "deep");
    });
    reader = open_reader(world_.store);
  }

 private:
  World world_;

 public:
  Reader reader;
};

std::vector<std::string> runs_of(const Store& store) {
  ckpt_runs* runs = nullptr;
  Error error;
  EXPECT_EQ(ckpt_store_runs(store.get(), &runs, error), CKPT_OK) << error.text();
  std::vector<std::string> texts;
  for (size_t i = 0; i < ckpt_runs_count(runs); i++) {
    auto info = sized<ckpt_run_info>();
    EXPECT_EQ(ckpt_runs_at(runs, i, &info, error), CKPT_OK) << error.text();
    texts.push_back(std::string(info.name) + " token " + std::to_string(info.token) + ": " +
                    std::to_string(info.checkpoint_count) + ", " + info.newest_id + " " + info.newest_label + " " +
                    std::to_string(info.newest_step));
  }
  auto past = sized<ckpt_run_info>();
  EXPECT_EQ(ckpt_runs_at(runs, texts.size(), &past, error), CKPT_NOT_FOUND);
  ckpt_runs_free(runs);
  return texts;
}

TEST_P(Lists, RunsTellTheirOwnerAndTheirNewestCheckpoint) {
  using Texts = std::vector<std::string>;
  Store store = open_store(place.uri());
  Session main = open_session(store);
  EXPECT_EQ(runs_of(store), (Texts{"main token 1: 0,   -1"}));
  Session side = open_session(store, 0, 1, nullptr, {{"run", "side"}});
  auto save = [&](const Session& session, const char* label, int64_t step) {
    Error error;
    EXPECT_EQ(ckpt_save_run(new_save(session, label, {}, step).get(), error), CKPT_OK) << error.text();
  };
  save(main, "a", 7);
  save(main, "b", 3);
  save(side, "c", -1);
  EXPECT_EQ(runs_of(store), (Texts{"main token 1: 2, b.1.1 b 3", "side token 2: 1, c.2.1 c -1"}));
  Session newer = open_session(store);
  EXPECT_EQ(runs_of(store)[0], "main token 3: 2, b.1.1 b 3") << "the newest checkpoint is not the owner's";
  EXPECT_EQ(ckpt_runs_count(nullptr), 0u);
  ckpt_runs_free(nullptr);
}

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
