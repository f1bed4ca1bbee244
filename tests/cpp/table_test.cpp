// Sparse tables in ckpt.hpp: rows that two ranks save, in one piece and in slabs, and shares that load them.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ckpt.hpp"

namespace {

// Ids 0 to 19: the even ones on rank 0 in one piece, the odd ones on rank 1 backwards in slabs of four rows. Row of id
// i: {i, -i}.
ckpt::Reader saved(const std::string& name) {
  const auto store = ckpt::Store::open("mem:cpp-table-" + name);
  auto first = ckpt::Session::open(store, 0, 2);
  auto second = ckpt::Session::open(store, 1, 2, first.string());
  auto save = [](ckpt::Session& session, uint32_t rank) {
    std::vector<int64_t> ids;
    std::vector<float> rows;
    for (int64_t id = rank; id < 20; id += 2) {
      ids.push_back(id);
      rows.insert(rank ? rows.begin() : rows.end(), {static_cast<float>(id), static_cast<float>(-id)});
    }
    const std::vector<uint64_t> positions = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    std::vector<ckpt::Memory> blocks;
    for (size_t at = 0; at < 10; at += rank ? 4 : 10)
      blocks.emplace_back(rows.data() + 2 * at, 8 * (rank ? std::min<size_t>(4, 10 - at) : 10));
    auto made = ckpt::Save::create(session, "a", 7);
    made.add_table("t", {ids.data(),
                         10,
                         {{"row", CKPT_DTYPE_F32, {2}, blocks}},
                         CKPT_DTYPE_I64,
                         8,
                         rank ? uint64_t{4} : 0,
                         rank ? positions.data() : nullptr});
    made.run();
  };
  std::thread other([&] { save(second, 1); });
  save(first, 0);
  other.join();
  return ckpt::Reader::open(store);
}

std::vector<uint64_t> load_all(const ckpt::Reader& reader, const ckpt::Share& share) {
  std::vector<uint64_t> all;
  for (uint64_t window = 0; window < share.info().window_count; window++) {
    std::vector<uint64_t> ids(share.window_rows(window));
    std::vector<float> rows(2 * ids.size());
    auto load = ckpt::Load::create(reader);
    load.add_table(share, window, ids, {{"row", rows}});
    load.run();
    for (size_t i = 0; i < ids.size(); i++) {
      EXPECT_EQ(rows[2 * i], static_cast<float>(ids[i]));
      EXPECT_EQ(rows[2 * i + 1], -static_cast<float>(ids[i]));
    }
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

TEST(CppTables, SayWhatTheyHold) {
  const auto reader = saved("info");
  uint64_t rows = 0;
  for (const ckpt::TableInfo& table : reader.tables()) rows += table.row_count;
  EXPECT_EQ(rows, 20u);
  EXPECT_EQ(reader.table("t").bucket_count, 8u);
  ASSERT_EQ(reader.columns("t").size(), 1u);
  EXPECT_STREQ(reader.columns("t")[0].name, "row");
  EXPECT_EQ(ckpt::shape_of(reader.columns("t")[0]), ckpt::Extents{2});
  EXPECT_THROW(reader.table("t/row"), ckpt::Error);
}

TEST(CppTables, LoadByShare) {
  const auto reader = saved("share");
  EXPECT_EQ(load_all(reader, reader.share("t", ckpt::Rowset::all())).size(), 20u);
  EXPECT_EQ(load_all(reader, reader.share("t", ckpt::Rowset::all().window(3))).size(), 20u);
  EXPECT_EQ(load_all(reader, reader.share("t", ckpt::Rowset::slice(1, 8))), (std::vector<uint64_t>{1, 9, 17}));
  EXPECT_EQ(load_all(reader, reader.share("t", ckpt::Rowset::buckets(6, 7))), (std::vector<uint64_t>{6, 14}));
  EXPECT_EQ(load_all(reader, reader.share("t", ckpt::Rowset::mod(0, 7))).size(), 3u);
  const auto listed = reader.share("t", ckpt::Rowset::ids({19, 99, 4}));
  EXPECT_EQ(load_all(reader, listed), (std::vector<uint64_t>{19, 4}));
  EXPECT_EQ(listed.missing(), (std::vector<uint64_t>{99}));
}

TEST(CppTables, WithColumnsOfOtherBlocksAreRefused) {
  auto session = ckpt::Session::open(ckpt::Store::open("mem:cpp-table-refused"));
  auto save = ckpt::Save::create(session, "a");
  const uint64_t id = 5;
  const float row = 1;
  const ckpt::Memory memory(&row, sizeof row);
  EXPECT_THROW(save.add_table("t", {&id, 1, {{"a", CKPT_DTYPE_F32, {}, {memory}}, {"b", CKPT_DTYPE_F32, {}, {}}}}),
               ckpt::Error);
  EXPECT_THROW(save.add_table("t", {&id, 1, {{std::string("a\0b", 3), CKPT_DTYPE_F32, {}, {memory}}}}), ckpt::Error);
}

}  // namespace
