// Sparse tables of a file, in place: the same rows as of the checkpoint that it was exported from, whoever asks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ckpt.hpp"

namespace {

using Rows = std::map<uint64_t, std::vector<float>>;

// A checkpoint with table tables/t of ids that fall into many buckets, and RecIS' directory of it.
struct Place {
  explicit Place(const std::string& name, uint64_t rows = 3000, int64_t shards = 3)
      : folder(
            (std::filesystem::temp_directory_path() / ("ckpt-file-table-" + name + std::to_string(getpid()))).string()),
        store(ckpt::Store::open("mem:cpp-file-table-" + name)) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    auto session = ckpt::Session::open(store);
    auto save = ckpt::Save::create(session, "a", 7);
    std::vector<uint64_t> ids;
    std::vector<float> values;
    std::vector<uint16_t> seen;
    for (uint64_t i = 0; i < rows; i++) {
      ids.push_back(i * 0x9e3779b97f4a7c15);
      values.insert(values.end(), {static_cast<float>(i), 1, -static_cast<float>(i)});
      seen.push_back(static_cast<uint16_t>(i));
    }
    save.add_table("tables/t", {ids.data(),
                                rows,
                                {{"embedding", CKPT_DTYPE_F32, {3}, {ckpt::Memory(values)}},
                                 {"seen", CKPT_DTYPE(0, 16), {}, {ckpt::Memory(seen)}}}});
    auto tree = ckpt::Tree::create();
    tree.begin_dict();
    tree.key("tables");
    tree.begin_dict();
    tree.key("t");
    tree.add_tensor("tables/t");
    tree.end();
    tree.end();
    save.add_tree(tree);
    save.run();
    ckpt::Reader::open(store).export_to(folder + "/run", {{"format", "recis"}, {"shards", shards}});
  }
  ~Place() { std::filesystem::remove_all(folder); }

  std::string folder;
  ckpt::Store store;
};

// All windows of a share; `read` reads one.
template <class Share, class Read>
Rows rows_of(const Share& share, uint64_t most, Read read) {
  Rows all;
  const ckpt::ShareInfo info = share.info();
  uint64_t count = 0;
  for (uint64_t window = 0; window < info.window_count; window++) {
    std::vector<uint64_t> ids(share.window_rows(window));
    std::vector<float> values(3 * ids.size());
    EXPECT_LE(ids.size(), most);
    count += ids.size();
    read(window, ids, values);
    for (size_t i = 0; i < ids.size(); i++) all[ids[i]] = {values[3 * i], values[3 * i + 1], values[3 * i + 2]};
  }
  EXPECT_EQ(count, info.row_count);
  EXPECT_EQ(all.size(), count) << "an id came twice";
  return all;
}

TEST(CppFileTables, SayWhatTheyHold) {
  const Place place("info");
  const auto file = ckpt::File::open(place.folder + "/run");
  const auto tables = file.tables();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_STREQ(tables[0].info().name, "tables/t");
  EXPECT_EQ(tables[0].info().row_count, 3000u);
  EXPECT_EQ(tables[0].info().bytes, 3000u * (8 + 12 + 2));
  ASSERT_EQ(tables[0].columns().size(), 2u);
  EXPECT_STREQ(tables[0].columns()[0].name, "embedding");
  EXPECT_EQ(tables[0].columns()[0].row_bytes, 12u);
  EXPECT_STREQ(tables[0].columns()[1].name, "seen");
}

TEST(CppFileTables, AnyRowsInAnyWindowsAreThoseOfTheCheckpoint) {
  const Place place("rows");
  const auto file = ckpt::File::open(place.folder + "/run", {{"tensor_data", 0}});
  const auto table = file.tables()[0];
  const auto reader = ckpt::Reader::open(place.store);
  std::vector<uint64_t> listed{5, 0, 3 * 0x9e3779b97f4a7c15, 2999 * 0x9e3779b97f4a7c15, 77, 12 * 0x9e3779b97f4a7c15};
  std::vector<ckpt::Rowset> all{ckpt::Rowset::all(), ckpt::Rowset::buckets(7, 20000), ckpt::Rowset::buckets(9, 9),
                                ckpt::Rowset::ids(listed), ckpt::Rowset::ids({})};
  for (uint64_t i = 0; i < 7; i++) {
    all.push_back(ckpt::Rowset::slice(i, 7));
    all.push_back(ckpt::Rowset::mod(i, 7));
  }
  for (ckpt::Rowset& rows : all)
    for (const uint64_t window : {uint64_t{0}, uint64_t{64}}) {
      const auto share = reader.share("tables/t", rows.window(0));
      const auto in_file = table.share(rows.window(window));
      const Rows expected = rows_of(share, UINT64_MAX, [&](uint64_t at, auto& ids, auto& values) {
        auto load = ckpt::Load::create(reader);
        load.add_table(share, at, ids, {{"embedding", values}});
        load.run();
      });
      const Rows found = rows_of(in_file, window ? window : UINT64_MAX, [&](uint64_t at, auto& ids, auto& values) {
        in_file.read(at, ids, {{"embedding", values}});
      });
      EXPECT_EQ(found, expected);
      EXPECT_EQ(in_file.missing(), share.missing());
    }
  std::vector<uint64_t> ids(4);
  table.share(ckpt::Rowset::ids(listed)).read(0, ids, {});
  EXPECT_EQ(ids, (std::vector<uint64_t>{0, listed[2], listed[3], listed[5]}));  // in the order of the list
}

TEST(CppFileTables, WhatCannotBeReadIsNamed) {
  const Place place("wrong", 10, 1);
  const auto file = ckpt::File::open(place.folder + "/run");
  const auto table = file.tables()[0];
  const auto share = table.share(ckpt::Rowset::all());
  std::vector<uint64_t> ids(10);
  std::vector<float> few(29);
  const auto fails = [](ckpt_status status, auto&& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), status) << error.what();
    }
  };
  fails(CKPT_NOT_FOUND, [&] { share.read(1, ids, {}); });
  fails(CKPT_NOT_FOUND, [&] { share.read(0, ids, {{"none", few}}); });
  fails(CKPT_INVALID, [&] { share.read(0, ids, {{"embedding", few}}); });
  fails(CKPT_INVALID, [&] { share.read(0, ckpt::MutableMemory(ids.data(), 79), {}); });
  fails(CKPT_INVALID, [&] { table.share(ckpt::Rowset::slice(3, 3)); });
  fails(CKPT_INVALID, [&] { table.share(ckpt::Rowset::mod(0, 0)); });
  EXPECT_EQ(share.window_rows(1), 0u);
}

// The ids lie in the file as they are: id 0 of row 0 takes the place of another row's.
TEST(CppFileTables, AnIdThatIsThereTwiceIsNamed) {
  const Place place("twice", 2, 1);
  const std::string path = place.folder + "/run/ckpt_7/model-000000-of-000001.safetensors";
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  std::string bytes = text.str();
  const uint64_t second = 0x9e3779b97f4a7c15;
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&second), sizeof second));
  ASSERT_NE(at, bytes.npos);
  bytes.replace(at, sizeof second, sizeof second, '\0');
  std::ofstream(path, std::ios::binary) << bytes;
  const auto file = ckpt::File::open(place.folder + "/run");
  const auto table = file.tables()[0];
  for (int again = 0; again < 2; again++) try {
      table.share(ckpt::Rowset::slice(0, 2));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), CKPT_MISMATCH);
      EXPECT_NE(std::string(error.what()).find("id 0 is there twice"), std::string::npos) << error.what();
    }
}

}  // namespace
