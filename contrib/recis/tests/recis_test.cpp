// RecIS' directories, forged here by what its sources say of them: what an import makes of them, what it refuses, and
// that an export is what its reader asks for.
#include <ctime>
#include <filesystem>
#include <functional>

#include "contrib/recis/files/format.h"
#include "contrib/recis/files/layout.h"
#include "interop/src/formats.h"
#include "interop/src/json.h"
#include "interop/src/read_back.h"
#include "recis_fixture.h"
#include "s3/server.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

std::string table(const std::string& name) { return record("ckpt.Table", R"("data":)" + leaf(name)); }

class Recis : public StoreTest {
 protected:
  void forge(const std::string& directory, Forge made) {
    made.make();
    made.write(path(directory));
  }
  void pt(const std::string& file, const Saved& state) {
    const std::string label = "s" + std::to_string(saves_++);
    save(label, state);
    const Failure out = export_to(path(file), label, {{"format", "pt"}});
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
  }
  // All of it: two shards, two workers.
  void whole(const std::string& directory, int shards = 2) {
    forge(directory, {.tables = sample_tables(), .shards = shards});
    pt(directory + "/model.pt", {{floats("w", {3, 2})}, {}, R"({"w":)" + leaf("w") + "}"});
    pt(directory + "/extra.pt",
       {{{"global_step", CKPT_DTYPE_I64, {}, pattern(8)}}, {}, R"({"global_step":)" + leaf("global_step") + "}"});
    for (int i = 0; i < 2; i++)
      pt(directory + "/io_state_" + std::to_string(i) + ".pt",
         {{}, {}, R"({"train_io":{"offset":)" + std::to_string(i * 100) + "}}"});
    write_file(path(directory + "/io_state_count"), "2");
  }
  std::string imported(const std::string& from) {
    const std::string label = "i" + std::to_string(saves_++);
    const Failure in = import_from(path(from), label, {{"verify_after", 1}});
    EXPECT_EQ(in.code, CKPT_OK) << in.message;
    return label;
  }

  // The rows of a column by their ids.
  std::map<int64_t, std::string> rows(ckpt_reader* reader, const std::string& table, const std::string& column,
                                      size_t row_bytes) {
    ckpt_share_desc all{};
    all.struct_size = sizeof all;
    ckpt_share* share = nullptr;
    uint64_t count = 0;
    must([&](auto** err) { return ckpt_share_open(&share, reader, table.c_str(), &all, nullptr, 0, nullptr, err); });
    must([&](auto** err) { return ckpt_share_window_rows(share, 0, &count, err); });
    std::vector<int64_t> ids(count);
    std::string data(count * row_bytes, '\0');
    const char* name = column.c_str();
    void* memory = data.data();
    const uint64_t bytes = data.size();
    ckpt_load* load = nullptr;
    must([&](auto** err) { return ckpt_load_new(&load, reader, nullptr, err); });
    must([&](auto** err) {
      return ckpt_load_add_table(load, share, 0, ids.data(), count * 8, 1, &name, &memory, &bytes, CKPT_DEVICE_CPU, 0,
                                 0, err);
    });
    must([&](auto** err) { return ckpt_load_run(load, err); });
    ckpt_load_free(load);
    ckpt_share_free(share);
    std::map<int64_t, std::string> found;
    for (size_t i = 0; i < count; i++) found[ids[i]] = data.substr(i * row_bytes, row_bytes);
    return found;
  }
  void expect_tables(const std::string& label) {
    ckpt_reader* reader = open(label, "import");
    EXPECT_EQ(ckpt_reader_table_count(reader), 3U);
    for (const ForgedTable& table : sample_tables())
      for (const Slot& slot : table.slots) {
        const auto found = rows(reader, "tables/" + table.name, slot.name, slot.row_bytes);
        EXPECT_EQ(found.size(), table.ids.size()) << table.name;
        for (const int64_t id : table.ids) EXPECT_EQ(found.at(id), row(id, slot)) << table.name << ' ' << id;
      }
    ckpt_reader_free(reader);
  }
  void expect_refused(const std::string& directory, ckpt_status code, const std::string& words) {
    const size_t before = checkpoint_count();
    const Failure failure = import_from(path(directory), "refused");
    EXPECT_EQ(failure.code, code) << failure.message;
    EXPECT_NE(failure.message.find(words), std::string::npos) << failure.message;
    EXPECT_EQ(checkpoint_count(), before) << "something was left behind";
  }
  // A forged directory that is changed before it is written.
  void expect_refused(const std::function<void(Forge&)>& change, ckpt_status code, const std::string& words) {
    Forge made{.tables = sample_tables()};
    made.make();
    change(made);
    const std::string directory = "bad" + std::to_string(saves_++);
    made.write(path(directory));
    expect_refused(directory, code, words);
  }
  int saves_ = 0;
};

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST_F(Recis, ADirectoryBecomesTablesModelExtraAndAStateForEachWorker) {
  whole("ckpt_30");
  const std::string label = imported("ckpt_30");
  EXPECT_EQ(
      tree_of(label, "import"),
      R"({"model":{"w":)" + leaf("model/w") + R"(},"tables":{"empty":)" + table("tables/empty") + R"(,"item":)" +
          table("tables/item") + R"(,"user.emb":)" + table("tables/user.emb") +
          R"(},"sparse_optim":{"sparse_adamw_step":)" + leaf("sparse_optim/sparse_adamw_step") +
          R"(},"extra":{"global_step":)" + leaf("extra/global_step") + R"(},"io_state":)" +
          record(CKPT_PER_RANK_CLASS, R"("rank0":{"train_io":{"offset":0}},"rank1":{"train_io":{"offset":100}})") +
          "}");
  expect_tables(label);
  EXPECT_EQ(info_.world_size, 2U);  // a shard each
}

// Rows are sorted from a copy of what lies there.
class S3Recis : public Recis, public testing::WithParamInterface<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Recis);
INSTANTIATE_TEST_SUITE_P(S3, S3Recis,
                         testing::ValuesIn(store::s3_endpoint() ? std::vector<std::string>{store::s3_endpoint()}
                                                                : std::vector<std::string>()));

TEST_P(S3Recis, ADirectoryIsImportedFromThereAsFromHere) {
  std::vector<ForgedTable> tables = sample_tables();
  for (int64_t i = 1000; i < 40'000; i++) tables[0].ids.push_back(i * 7'777'777'777 - 90);
  for (const int shards : {1, 3}) {
    SCOPED_TRACE(shards);
    const std::string run = "run" + std::to_string(shards), uri = store::fresh_s3_uri();
    whole(run + "/ckpt_30", shards);
    forge(run + "/ckpt_30", {.tables = tables, .shards = shards});
    write_file(path(run + "/checkpoint"), "ckpt_30\n");
    store::put_directory_on_s3(path(run), uri);
    const std::string here = imported(run), there = "there" + std::to_string(shards);
    setenv("AWS_ENDPOINT_URL", GetParam().c_str(), 1);
    const Failure in = import_from(uri, there, {{"verify_after", 1}});
    unsetenv("AWS_ENDPOINT_URL");
    ASSERT_EQ(in.code, CKPT_OK) << in.message;
    EXPECT_EQ(differences(here, "import", there, "import"), std::vector<std::string>());
    EXPECT_EQ(tree_of(here, "import"), tree_of(there, "import"));
  }
}

TEST_F(Recis, ARunsDirectoryIsItsNewestCheckpoint) {
  forge("run/ckpt_20", {.tables = {}});
  whole("run/ckpt_30", 3);
  write_file(path("run/checkpoint"), "ckpt_20\nckpt_30\n\n");
  expect_tables(imported("run"));
  EXPECT_EQ(info_.world_size, 3U);
}

TEST_F(Recis, ExportedWithOtherShardsItIsImportedAsItWas) {
  whole("ckpt_30", 3);
  const std::string first = imported("ckpt_30");
  for (const char* shards : {"1", "2", "5"}) {
    const std::string to = std::string("run") + shards;
    const Failure out =
        export_to(path(to), first, {{"format", "recis"}, {"shards", shards}, {"verify_after", "1"}}, "import");
    ASSERT_EQ(out.code, CKPT_OK) << out.message;
    EXPECT_EQ(read_file(path(to + "/checkpoint")), "ckpt_3\n");  // the step that import_from gives
    EXPECT_EQ(read_file(path(to + "/ckpt_3/io_state_count")), "2");
    const std::string again = imported(to);
    EXPECT_EQ(std::to_string(info_.world_size), shards);
    expect_tables(again);
    EXPECT_EQ(tree_of(again, "import"), tree_of(first, "import"));
  }
}

TEST_F(Recis, RowsPassInManyWindowsAsInOne) {
  whole("ckpt_30", 3);
  const std::string first = imported("ckpt_30");
  ckpt_reader* opened = open(first, "import");
  {
    const Borrowed<client::Reader> reader(opened);
    Job job;
    const ExportRequest request{State(*reader), path("run"), {.shards = 2}, job};
    const Result<ExportPlan> plan = plan_recis(request, 200);  // a few rows
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const Status written = write_export(request, *plan);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  ckpt_reader_free(opened);
  expect_tables(imported("run"));
}

TEST_F(Recis, ReadingBackFindsARowThatDiffersAndARowThatIsMissing) {
  const std::vector<int64_t> ids = {1, 2, 70000};
  const auto compare = [&](const ForgedTable& written) {
    Forge right{.tables = {{"t", ids, {kEmbedding}}}}, wrong{.tables = {written}};
    const std::string number = std::to_string(saves_++);
    forge("right" + number + "/ckpt_1", right);
    forge("wrong" + number + "/ckpt_1", wrong);
    write_file(path("right" + number + "/checkpoint"), "ckpt_1");
    write_file(path("wrong" + number + "/checkpoint"), "ckpt_1");
    ckpt_reader* opened = open(imported("right" + number), "import");
    Result<ForeignCheckpoint> files = read_foreign(path("wrong" + number), {});
    EXPECT_TRUE(files.ok()) << files.status().message();
    const Status status = compare_export(State(*Borrowed<client::Reader>(opened)), *files, {}, {});
    ckpt_reader_free(opened);
    return status.code();
  };
  EXPECT_EQ(compare({"t", {70000, 2, 1}, {kEmbedding}}), CKPT_OK);  // in another order
  EXPECT_EQ(compare({"t", {1, 2}, {kEmbedding}}), CKPT_MISMATCH);
  EXPECT_EQ(compare({"t", {1, 3, 70000}, {kEmbedding}}), CKPT_CORRUPT);
  Slot other = kEmbedding;
  other.row_shape = ",8";
  other.row_bytes = 32;
  EXPECT_EQ(compare({"t", ids, {other}}), CKPT_MISMATCH);
  EXPECT_EQ(compare({"u", ids, {kEmbedding}}), CKPT_MISMATCH);
}

TEST_F(Recis, TheSameShardsAreTheSameBlocksByTheirNames) {
  Forge made{.tables = sample_tables(), .shards = 3};
  made.make();
  made.write(path("ckpt_3"));
  const Failure out =
      export_to(path("out/ckpt_7"), imported("ckpt_3"), {{"format", "recis"}, {"shards", "3"}}, "import");
  EXPECT_EQ(out.code, CKPT_NOT_FOUND) << "the run's directory must be there";
  fs::create_directories(path("out"));
  const Failure second =
      export_to(path("out/ckpt_7"), imported("ckpt_3"), {{"format", "recis"}, {"shards", "3"}}, "import");
  ASSERT_EQ(second.code, CKPT_OK) << second.message;
  EXPECT_FALSE(fs::exists(path("out/checkpoint")));
  const auto map = parse_string_map(read_file(path("out/ckpt_7/tensorkey.json")));
  ASSERT_TRUE(map.ok());
  EXPECT_EQ((std::map<std::string, std::string>(map->begin(), map->end())), made.keys);
  const auto layout =
      parse_recis_layout(read_file(path("out/ckpt_7/index")), read_file(path("out/ckpt_7/tensorkey.json")));
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->files.size(), 3U);
  EXPECT_EQ(layout->files[2], "model-000002-of-000003.safetensors");
  ASSERT_EQ(layout->dense.size(), 1U);
  EXPECT_EQ(layout->dense[0].name, "sparse_adamw_step^ ");
}

// By its name alone, and as the bindings have it.
class NativeTable : public Recis, public testing::WithParamInterface<std::string> {};
INSTANTIATE_TEST_SUITE_P(Spelling, NativeTable, testing::Values(leaf("net/emb"), table("net/emb")));

TEST_P(NativeTable, InAModelIsExportedBesideTheModel) {
  ckpt_session* session = nullptr;
  ckpt_save* save = nullptr;
  must([&](auto** err) { return ckpt_session_open(&session, store_, 0, 1, nullptr, nullptr, err); });
  must([&](auto** err) { return ckpt_save_new(&save, session, "native", 9, nullptr, err); });
  const std::vector<uint64_t> ids = {3, UINT64_MAX, 70000};
  const std::string embedding = pattern(3 * 8), count = pattern(3 * 4), weight = pattern(8);
  ckpt_table_desc desc{};
  desc.struct_size = sizeof desc;
  desc.id_dtype = CKPT_DTYPE_U64;
  desc.row_count = 3;
  desc.bucket_count = CKPT_TABLE_BUCKETS;
  desc.column_count = 2;
  const ckpt_column_desc columns[] = {{sizeof columns[0], CKPT_DTYPE_F32, 1, 0, {2}},
                                      {sizeof columns[0], CKPT_DTYPE_I32, 0, 0, {}}};  // a number for each row
  const char* names[] = {"embedding", "count"};
  const void* data[] = {embedding.data(), count.data()};
  const uint64_t sizes[] = {embedding.size(), count.size()};
  must([&](auto** err) {
    return ckpt_save_add_table(save, "net/emb", &desc, ids.data(), 24, names, columns, data, sizes, nullptr,
                               CKPT_DEVICE_CPU, 0, 0, err);
  });
  const ckpt_tensor_desc dense = describe(CKPT_DTYPE_F32, {2});
  must([&](auto** err) {
    return ckpt_save_add_tensor(save, "net/w", &dense, weight.data(), 8, CKPT_DEVICE_CPU, 0, err);
  });
  const std::string tree = R"({"emb":)" + GetParam() + R"(,"w":)" + leaf("net/w") + "}";
  must([&](auto** err) {
    return ckpt_save_add_object(save, CKPT_TREE_OBJECT, CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, tree.data(),
                                tree.size(), err);
  });
  must([&](auto** err) { return ckpt_save_run(save, err); });
  ckpt_save_free(save);
  ckpt_session_free(session);

  const Failure out = export_to(path("run"), "native", {{"format", "recis"}, {"shards", "2"}});
  ASSERT_EQ(out.code, CKPT_OK) << out.message;
  const std::string label = imported("run");
  EXPECT_EQ(tree_of(label, "import"),
            R"({"model":{"w":)" + leaf("model/w") + R"(},"tables":{"emb":)" + table("tables/emb") + "}}");
  ckpt_reader* reader = open(label, "import");
  const auto found = rows(reader, "tables/emb", "embedding", 8), counts = rows(reader, "tables/emb", "count", 4);
  ckpt_reader_free(reader);
  for (size_t i = 0; i < ids.size(); i++) {
    EXPECT_EQ(found.at(static_cast<int64_t>(ids[i])), embedding.substr(i * 8, 8));
    EXPECT_EQ(counts.at(static_cast<int64_t>(ids[i])), count.substr(i * 4, 4));
  }
  const Failure cast = export_to(path("cast"), "native", {{"format", "recis"}, {"cast", "f16"}});
  EXPECT_EQ(cast.code, CKPT_UNSUPPORTED) << cast.message;
  EXPECT_FALSE(fs::exists(path("cast")));
}

TEST_F(Recis, TablesAreSeenInPlaceAsTheirColumns) {
  whole("ckpt_30");
  ckpt_file* file = nullptr;
  must([&](auto** err) { return ckpt_file_open(&file, path("ckpt_30").c_str(), nullptr, err); });
  EXPECT_STREQ(ckpt_file_format(file), "recis");
  std::string text;
  for (uint64_t i = 0; i < ckpt_file_tensor_count(file); i++) {
    ckpt_file_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    must([&](auto** err) { return ckpt_file_tensor_at(file, i, &tensor, err); });
    if (std::string_view(tensor.name).starts_with("tables/item"))
      text += std::string(tensor.name) + ' ' + std::to_string(tensor.shape[0]) + (tensor.alias_of ? " alias\n" : "\n");
    if (std::string_view(tensor.name) != "tables/item/embedding") continue;
    std::string data(tensor.bytes, '\0');
    const ckpt_tensor_desc desc = describe(CKPT_DTYPE_F32, {4, 4});
    must([&](auto** err) { return ckpt_file_read(file, i, &desc, data.data(), data.size(), err); });
    std::string expected;
    for (const int64_t id : {5, 65536 + 5, 2 * 65536 + 5, 40000}) expected += row(id, kEmbedding);
    EXPECT_EQ(data, expected);
  }
  EXPECT_EQ(text,
            "tables/item/ids 4\ntables/item/embedding 4\ntables/item/sparse_adamw_exp_avg 4\ntables/item 4 alias\n");
  ckpt_file_free(file);
}

TEST_F(Recis, ATableIsChosenAndRenamedAsAWholeAndMayLoseColumns) {
  whole("ckpt_30");
  const Failure some = import_from(path("ckpt_30"), "some", {},
                                   {{"only", "tables/item,model"}, {"exclude", "tables/item/sparse_adamw_exp_avg"}});
  ASSERT_EQ(some.code, CKPT_OK) << some.message;
  ckpt_reader* reader = open("some", "import");
  EXPECT_EQ(ckpt_reader_table_count(reader), 1U);
  EXPECT_EQ(rows(reader, "tables/item", "embedding", 16).size(), 4U);
  EXPECT_EQ(ckpt_reader_tensor_count(reader), 5U);  // item, ids, buckets, embedding; w
  ckpt_reader_free(reader);
  const Failure no_ids = import_from(path("ckpt_30"), "no-ids", {}, {{"exclude", "tables/item/ids"}});
  EXPECT_EQ(no_ids.code, CKPT_UNSUPPORTED) << no_ids.message;
  const Failure cast = import_from(path("ckpt_30"), "cast", {}, {{"cast", "f16"}});
  EXPECT_EQ(cast.code, CKPT_UNSUPPORTED) << cast.message;
}

// ---- what is refused ----

TEST_F(Recis, WhatIsMissingIsNamed) {
  const std::string block = "item.embedding/part_1_2";
  expect_refused([&](Forge& made) { made.names.pop_back(); }, CKPT_FORMAT, "is in file 3 of 3");
  expect_refused([&](Forge& made) { made.blocks.erase(block); }, CKPT_INCOMPLETE, "index has no \"" + block);
  expect_refused([&](Forge& made) { made.keys.erase(block); }, CKPT_INCOMPLETE, "which tensorkey.json does not tell");
  expect_refused(
      [&](Forge& made) {
        made.blocks.erase(block);
        made.keys.erase(block);
      },
      CKPT_INCOMPLETE, "table \"item\": shard 1 has no embedding");
  expect_refused(
      [&](Forge& made) {
        std::erase_if(made.blocks,
                      [](const auto& row) { return row.first.starts_with("item.") && row.first.ends_with("0_2"); });
        std::erase_if(made.keys,
                      [](const auto& row) { return row.first.starts_with("item.") && row.first.ends_with("0_2"); });
      },
      CKPT_INCOMPLETE, "table \"item\": shard 0 of 2 is missing");
  expect_refused([&](Forge& made) { made.blocks[block] ^= 1; }, CKPT_INCOMPLETE, "has no block \"" + block);
  expect_refused(
      [&](Forge& made) { replace(made.headers[made.blocks["item.id/part_0_2"]].first, "item.id", "item.xx"); },
      CKPT_INCOMPLETE, "has no block");
  fs::create_directories(path("ckpt_v2"));
  write_file(path("ckpt_v2/index"), R"({"file_index":{"0.bin":0},"block_index":{"t@id^00000@65536@65536":0}})");
  write_file(path("ckpt_v2/0.bin"), "");
  expect_refused("ckpt_v2", CKPT_UNSUPPORTED, "older layout of RecIS");
  whole("ckpt_1");
  fs::remove(path("ckpt_1/model-000002-of-000004.safetensors"));
  expect_refused("ckpt_1", CKPT_INCOMPLETE, "model-000002-of-000004.safetensors is missing");
}

TEST_F(Recis, WhatContradictsItselfIsNamed) {
  const auto keys = [](Forge& made, const std::string& from, const std::string& to) {
    for (auto& [name, text] : made.keys)
      if (text.starts_with("item@")) replace(text, text.ends_with(from) ? from : "^", text.ends_with(from) ? to : "^");
  };
  expect_refused([&](Forge& made) { keys(made, "00000@32768@65536", "00000@40000@65536"); }, CKPT_FORMAT,
                 "shards overlap, expected buckets from 40000, found 32768@65536@65536");
  expect_refused([&](Forge& made) { keys(made, "00000@32768@65536", "00000@30000@65536"); }, CKPT_INCOMPLETE,
                 "no shard has some buckets");
  expect_refused([&](Forge& made) { keys(made, "32768@65536@65536", "32768@65535@65536"); }, CKPT_INCOMPLETE,
                 "no shard has buckets from 65535 to 65535");
  expect_refused([&](Forge& made) { keys(made, "32768@65536@65536", "32768@65536@65537"); }, CKPT_MISMATCH,
                 "shards of 65536 and of 65537 buckets");
  expect_refused([](Forge& made) { made.keys["item.id/part_0_2"] = "item@id^00000@99999"; }, CKPT_FORMAT,
                 "no range of buckets");
  expect_refused([](Forge& made) { made.keys["item.id/part_0_2"] = "other@id^00000@32768@65536"; }, CKPT_FORMAT,
                 "expected TABLE.SLOT/part_SHARD_SHARDS");
  expect_refused([](Forge& made) { made.keys["item.id/part_0_2"] = "item@id^00001@32768@65536"; }, CKPT_MISMATCH,
                 "shard 0: buckets");
  expect_refused([](Forge& made) { made.names[1] = "../x.safetensors"; }, CKPT_FORMAT, "index: file");
  expect_refused([](Forge& made) { made.names[1] = made.names[0]; }, CKPT_FORMAT, "comes twice");
  expect_refused([](Forge& made) { made.names[1] = "1.bin"; }, CKPT_UNSUPPORTED, "an older layout of RecIS (v2)");
  expect_refused([](Forge& made) { made.blocks["item.id/part_0_2"] = 1ULL << 63; }, CKPT_FORMAT, "of 4");
  expect_refused([](Forge& made) { made.blocks["x^ "] = 0; }, CKPT_INCOMPLETE, "has no block \"x^ \"");
  expect_refused([](Forge& made) { made.add_block(3, "item.embedding/part_0_2", kEmbedding, "[0,4]", ""); },
                 CKPT_MISMATCH, "3 ids, but 0 rows");
  expect_refused(
      [](Forge& made) {
        const size_t file = made.blocks["item.embedding/part_0_2"];
        made.add_block(3 - file, "item.embedding/part_0_2", kEmbedding, "[0,4]", "");
        made.blocks["item.embedding/part_0_2"] = file;
      },
      CKPT_MISMATCH, "which index does not name there");
  expect_refused([](Forge& made) { made.headers[0].second.pop_back(); }, CKPT_FORMAT, "model-000000-of-000004");
  expect_refused(
      [](Forge& made) {
        for (auto& [header, data] : made.headers)
          if (const size_t at = header.find("item.embedding/part_1_2"); at != header.npos)
            replace(header, header.substr(at, header.find("data_offsets", at) - at),
                    R"(item.embedding/part_1_2":{"dtype":"F32","shape":[2,2],")");
      },
      CKPT_MISMATCH, "1 ids, but 2 rows");
}

TEST_F(Recis, AnIdInAShardThatIsNotItsOwnAndAnIdTwiceAreNamed) {
  const auto forged = [&](const std::string& directory, int in, std::vector<int64_t> more) {
    Forge made{.tables = {{"t", {5, 40000}, {kEmbedding}}}};
    made.change = [=](int shard, std::vector<int64_t>& ids) {
      if (shard == in) ids.insert(ids.end(), more.begin(), more.end());
    };
    forge(directory, made);
  };
  forged("ckpt_1", 1, {5});
  expect_refused("ckpt_1", CKPT_MISMATCH, "id 5 has bucket 5, shard 1 has buckets 32768@65536@65536");
  forged("ckpt_2", 0, {-1});
  expect_refused("ckpt_2", CKPT_MISMATCH, "id -1 has bucket 65535, shard 0");
  forged("ckpt_3", 1, {65535, 40000});
  expect_refused("ckpt_3", CKPT_MISMATCH, "40000");
  Forge alone{.tables = {{"t", {5, 40000, 5}, {kEmbedding}}}, .shards = 1};
  forge("ckpt_4", alone);
  expect_refused("ckpt_4", CKPT_MISMATCH, "5");
}

TEST_F(Recis, HostileTextsAreErrorsWhateverTheySay) {
  Forge made{.tables = sample_tables()};
  made.make();
  const std::string index = made.index(), keys = made.tensorkey();
  ASSERT_TRUE(parse_recis_layout(index, keys).ok());
  size_t refused = 0;
  unsigned seed = 7;
  for (int i = 0; i < 4000; i++) {
    std::string texts[2] = {index, keys};
    for (int changes = 0; changes < 1 + i % 3; changes++) {
      std::string& text = texts[(seed >> 9) & 1];
      seed = seed * 1664525 + 1013904223;
      const size_t at = (seed >> 8) % text.size();
      seed = seed * 1664525 + 1013904223;
      if (const unsigned kind = seed >> 30; kind == 0)
        text.resize(at);
      else
        text[at] = kind == 1 ? "0123456789"[(seed >> 8) % 10] : static_cast<char>(seed >> 16);
      if (text.empty()) text = "{";
    }
    const auto layout = parse_recis_layout(texts[0], texts[1]);
    if (!layout.ok()) {
      refused++;
      EXPECT_NE(layout.status().code(), CKPT_INTERNAL) << layout.status().message();
    }
  }
  EXPECT_GT(refused, 2000U);
  for (const char* text : {"", "[]", R"({"block_index":[],"file_index":{}})", R"({"file_index":{"a.safetensors":9}})"})
    EXPECT_FALSE(parse_recis_layout(text, "{}").ok()) << text;
}

TEST_F(Recis, ATableWithVeryManyColumnsCostsEachOnce) {
  constexpr int kSlots = 200000;
  std::string blocks, keys;
  const auto add = [&](const std::string& slot) {
    const char* comma = keys.empty() ? "" : ",";
    blocks += strformat("{}\"t.{}/part_0_1\":0", comma, slot);
    keys += strformat("{}\"t.{}/part_0_1\":\"t@{}^0@8@8\"", comma, slot, slot);
  };
  add("id");
  add("embedding");
  for (int i = 0; i < kSlots; i++) add("s" + std::to_string(i));
  const std::clock_t before = std::clock();
  const auto layout =
      parse_recis_layout(R"({"file_index":{"a.safetensors":0},"block_index":{)" + blocks + "}}", "{" + keys + "}");
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->tables[0].columns.size(), kSlots + 2U);
  EXPECT_LT((std::clock() - before) / CLOCKS_PER_SEC, 20);  // each with each it would be minutes
}

TEST_F(Recis, ANewestThatIsNotThereIsNamed) {
  fs::create_directories(path("run"));
  write_file(path("run/checkpoint"), "ckpt_20\n");
  expect_refused("run", CKPT_NOT_FOUND, "ckpt_20");
}

TEST_F(Recis, WorkersAndTheirCountMustFit) {
  whole("ckpt_1");
  write_file(path("ckpt_1/io_state_count"), "3\n");
  expect_refused("ckpt_1", CKPT_INCOMPLETE, "io_state_2.pt is missing: io_state_count says 3");
  write_file(path("ckpt_1/io_state_count"), "-2");
  expect_refused("ckpt_1", CKPT_FORMAT, "expected a number");
  fs::remove(path("ckpt_1/io_state_count"));
  expect_refused("ckpt_1", CKPT_INCOMPLETE, "and no io_state_count");
}

TEST_F(Recis, OtherFormatsStillRefuseATable) {
  whole("ckpt_30");
  const Failure out = export_to(path("x.pt"), imported("ckpt_30"), {{"format", "pt"}}, "import");
  EXPECT_EQ(out.code, CKPT_UNSUPPORTED);
  EXPECT_NE(out.message.find("recis or safetensors"), std::string::npos) << out.message;
}

}  // namespace
}  // namespace ckpt::interop
