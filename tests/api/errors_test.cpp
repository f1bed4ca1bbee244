// What errors say, and which facts they have.
#include <map>
#include <thread>

#include "api/tables.h"

namespace ckpt_test {
namespace {

TEST(Errors, FactsCanBeEnumerated) {
  const StorePlace place("dir");
  const Store store = open_store(place.uri() + "/absent");
  ckpt_reader* reader = nullptr;
  ckpt_error* error = nullptr;
  ASSERT_EQ(ckpt_reader_open(&reader, store.get(), "latest", nullptr, &error), CKPT_NOT_FOUND);
  std::map<std::string, std::string> facts;
  const char* value = nullptr;
  size_t count = 0;
  for (; const char* key = ckpt_error_detail_at(error, count, &value); count++) facts[key] = value;
  EXPECT_GE(count, 1u);
  for (const auto& [key, text] : facts) EXPECT_EQ(ckpt_error_detail(error, key.c_str()), text) << key;
  EXPECT_TRUE(facts.contains("path"));
  EXPECT_STREQ(ckpt_error_detail_at(error, 0, nullptr), ckpt_error_detail_at(error, 0, &value));
  EXPECT_EQ(ckpt_error_detail_at(nullptr, 0, &value), nullptr);
  ckpt_error_free(error);
}

TEST(Errors, AreShortLinesWithoutHiddenCharacters) {
  const StorePlace place("mem");
  World world(place.uri(), 1);
  world.commit("a", {}, [](uint32_t, ckpt_save*) {});
  const Reader reader = open_reader(world.store);
  std::string name = "begin\u202e\u200b\u0085\n";
  for (int i = 0; i < 1300; i++) name += "ä";
  name += "end";
  auto info = sized<ckpt_tensor_info>();
  Error error;
  ASSERT_EQ(ckpt_reader_tensor_find(reader.get(), name.c_str(), &info, error), CKPT_NOT_FOUND);
  EXPECT_LE(error.text().size(), 1024u);
  EXPECT_GE(error.text().size(), 900u);
  for (const char* part : {"begin\\xe2\\x80\\xae\\xe2\\x80\\x8b\\xc2\\x85\\n", "ä[...]ä", "äend\""})
    EXPECT_NE(error.text().find(part), std::string::npos) << part << ": " << error.text();
  EXPECT_GT(error.detail("tensor").size(), 2600u) << "facts are whole";
}

TEST(Errors, ReservedFieldsMustBeZero) {
  const StorePlace place("mem");
  World world(place.uri(), 1);
  const Save save = new_save(world.sessions[0], "a");
  ckpt_tensor_desc desc = whole(CKPT_DTYPE_U8, {1});
  desc.reserved = 77;
  const char byte = 1;
  Error error;
  EXPECT_EQ(ckpt_save_add_tensor(save.get(), "w", &desc, &byte, 1, CKPT_DEVICE_CPU, 0, error), CKPT_UNSUPPORTED);
  EXPECT_EQ(error.detail("found"), "77");
  EXPECT_EQ(error.detail("tensor"), "w");
  EXPECT_EQ(ckpt_save_add_alias(save.get(), "v", "w", &desc, error), CKPT_UNSUPPORTED);
  const uint64_t id = 1, bytes = 4;
  const char* name = "c";
  const void* data = &bytes;
  ckpt_column_desc column = kColumns[1].desc();
  column.reserved = 5;
  auto table = sized<ckpt_table_desc>();
  table.id_dtype = CKPT_DTYPE_U64;
  table.row_count = table.column_count = 1;
  table.bucket_count = 4;
  EXPECT_EQ(ckpt_save_add_table(save.get(), "t", &table, &id, 8, &name, &column, &data, &bytes, nullptr,
                                CKPT_DEVICE_CPU, 0, 0, error),
            CKPT_UNSUPPORTED);
  EXPECT_EQ(error.detail("found"), "5");
  EXPECT_EQ(ckpt_save_add_tensors(nullptr, 0, nullptr, nullptr, nullptr, nullptr, CKPT_DEVICE_CPU, 0, error),
            CKPT_INVALID);
  EXPECT_EQ(ckpt_load_add_tensors(nullptr, 0, nullptr, nullptr, nullptr, nullptr, CKPT_DEVICE_CPU, 0, error),
            CKPT_INVALID);
}

TEST(Errors, HaveTheSameFactsOnAllRanks) {
  const StorePlace place("dir");
  World world(place.uri(), 3);
  const auto nothing = [](uint32_t, ckpt_save*) {};
  world.commit("taken", {}, nothing);
  for (const Outcome& outcome : world.save("taken", {}, nothing)) {
    EXPECT_EQ(outcome.status, CKPT_EXISTS) << outcome.text;
    EXPECT_EQ(outcome.found, "taken.1.1") << outcome.text;
    EXPECT_EQ(outcome.rank, "0") << outcome.text;
  }
  const Bytes bytes(8);
  const auto differ = [&](uint32_t rank, ckpt_save* save) {
    add(save, "w", whole(CKPT_DTYPE_U8, {rank == 2 ? 4 : 8}), bytes.data(), rank == 2 ? 4 : 8);
  };
  const auto outcomes = world.save("b", {}, differ);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.found, outcomes[0].found) << outcome.text;
    EXPECT_TRUE(outcome.status == CKPT_MISMATCH || outcome.status == CKPT_ABORTED) << outcome.text;
    EXPECT_NE(outcome.ranks.find('2'), std::string::npos) << outcome.text;
    EXPECT_EQ(outcome.tensor, "w") << outcome.text;
    EXPECT_EQ(outcome.rank, "0") << outcome.text;
  }
}

TEST(Errors, OfRanksThatGiveOneSaveTwoLabelsNameBothAtOnce) {
  const StorePlace place("dir");
  World world(place.uri(), 3);
  std::vector<Error> errors(3);
  std::vector<ckpt_status> statuses(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; rank++)
    threads.emplace_back([&, rank] {
      const Save save = new_save(world.sessions[rank], rank == 1 ? "step-2" : "step-1");
      statuses[rank] = ckpt_save_run(save.get(), errors[rank]);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statuses, (std::vector<ckpt_status>{CKPT_ABORTED, CKPT_MISMATCH, CKPT_ABORTED}));
  for (Error& error : errors) {
    EXPECT_NE(error.text().find("\"step-1\" on rank 0 and \"step-2\" on rank 1"), std::string::npos) << error.text();
    EXPECT_EQ(error.detail("expected") + error.detail("found"), "step-1step-2") << error.text();
    EXPECT_EQ(error.detail("status") + error.detail("rank"), "MISMATCH1") << error.text();
  }
}

}  // namespace
}  // namespace ckpt_test
