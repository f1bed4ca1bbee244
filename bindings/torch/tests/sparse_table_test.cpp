// Sparse tables: any ranks save the rows that they have, beside a model, and any number of ranks loads them.
#include "util.h"

namespace {

// Of each id the row {id, -id}, of two dimensions of which the first is not the one in memory, and the id as a counter.
ct::SparseTable rows_of_ids(const at::Tensor& ids) {
  return {ids, {{"row", at::stack({ids, -ids}).to(at::kFloat).t()}, {"count", ids.to(at::kInt)}}};
}

void expect_own_rows(const ct::SparseTable& table) {
  const ct::SparseTable wanted = rows_of_ids(table.ids);
  ASSERT_EQ(table.columns.size(), wanted.columns.size());
  for (const auto& [name, tensor] : wanted.columns) EXPECT_TRUE(at::equal(table.columns.at(name), tensor)) << name;
}

// Ids -50 to 49, the even ones on rank 0 and the odd ones on rank 1.
void save_table_of_two(const std::string& uri, Net net) {
  ThreadGroup(2).run([&](ct::Ranks ranks) {
    const uint32_t rank = ranks.rank;
    const at::Tensor ids = at::arange(static_cast<int64_t>(rank) - 50, 50, 2, at::kLong);
    ct::Session keeper(uri, ranks);
    keeper.save({net, {}, {{"epoch", 3}}, {}, {{"items", rows_of_ids(ids)}}});
  });
}

ckpt::Reader newest(const std::string& uri) { return ckpt::Reader::open(ckpt::Store::open(uri)); }

TEST(SparseTables, ThatTwoRanksSaveAreLoadedByThreeEachRowOnce) {
  StorePlace place;
  save_table_of_two(place.uri(), seeded_net(1));
  const auto reader = newest(place.uri());
  std::vector<at::Tensor> ids;
  for (uint64_t rank = 0; rank < 3; rank++) {
    const ct::SparseTable mine = ct::load_table(reader, "items", ckpt::Rowset::slice(rank, 3));
    expect_own_rows(mine);
    EXPECT_LT(mine.ids.numel(), 100);
    ids.push_back(mine.ids);
  }
  const at::Tensor sorted = std::get<0>(at::cat(ids).sort());
  EXPECT_TRUE(at::equal(sorted, at::arange(-50, 50, at::kLong)));
}

TEST(SparseTables, AreBesideTheModelAndNotAmongOthers) {
  StorePlace place;
  const Net net = seeded_net(1), loaded = seeded_net(2);
  save_table_of_two(place.uri(), net);
  const ct::Loaded found = ct::load(place.uri(), loaded);
  expect_same(*net, *loaded);
  EXPECT_EQ(found.others.at("epoch").toInt(), 3);
  EXPECT_FALSE(found.others.contains("items"));
  ASSERT_EQ(found.ignored.size(), 1u);
  EXPECT_NE(found.ignored[0].find("items"), std::string::npos) << found.ignored[0];
}

TEST(SparseTables, GiveTheRowsOfListedIdsInTheirOrderAndListWhatIsMissing) {
  StorePlace place;
  save_table_of_two(place.uri(), seeded_net(1));
  const auto reader = newest(place.uri());
  const auto minus = static_cast<uint64_t>(int64_t{-50});
  const ct::SparseTable found = ct::load_table(reader, "items", ckpt::Rowset::ids({7, 1000, minus, 8}), {"count"});
  EXPECT_TRUE(at::equal(found.ids, at::tensor({7, -50, 8}, at::kLong)));
  EXPECT_TRUE(at::equal(found.columns.at("count"), at::tensor({7, -50, 8}, at::kInt)));
  EXPECT_EQ(found.columns.size(), 1u);
  EXPECT_EQ(found.missing, std::vector<int64_t>{1000});
  expect_error([&] { ct::load_table(reader, "items", ckpt::Rowset::all(), {"none"}); }, CKPT_NOT_FOUND, "none");
  expect_error([&] { ct::load_table(reader, "items", ckpt::Rowset::all(), {}, at::kMeta); }, CKPT_UNSUPPORTED, "meta");
}

TEST(SparseTables, AreCountedAndRefusedBeforeTheFirstStep) {
  StorePlace place;
  ct::Checkpointer keeper(place.uri());
  const at::Tensor ids = at::tensor({5, 3}, at::kLong);
  const ct::Check good = keeper.check({{}, {}, {}, {}, {{"t", {ids, {{"x", at::zeros({2, 4})}}}}}});
  EXPECT_TRUE(good.ok()) << good.text();
  EXPECT_EQ(good.names, (std::map<std::string, uint64_t>{{"t/ids", 16}, {"t/x", 32}}));
  EXPECT_EQ(good.bytes, 48u);
  EXPECT_FALSE(keeper.check({{}, {}, {}, {}, {{"t", {ids, {{"x", at::zeros({3})}}}}}}).ok());
}

// A table of one row.
const ct::SparseTable& a_row() {
  static const ct::SparseTable table{at::tensor({5}, at::kLong), {}};
  return table;
}

TEST(SparseTables, WhoseNamesArePathsLieInDictsAsThoseOfPythonDo) {
  StorePlace place;
  ct::Session keeper(place.uri());
  const auto& row = a_row();
  keeper.save({{}, {}, {{"epoch", 3}}, {}, {{"emb/a/x", row}, {"emb/a/y", row}, {"emb/b", row}, {"top", row}}});
  const auto reader = newest(place.uri());
  const auto tree = reader.tree();
  const auto root = tree.root();
  const std::vector<std::pair<std::string, ckpt::Node>> found{{"emb/a/x", root["emb"]["a"]["x"]},
                                                              {"emb/a/y", root["emb"]["a"]["y"]},
                                                              {"emb/b", root["emb"]["b"]},
                                                              {"top", root["top"]}};
  EXPECT_EQ(root.child_count, 3u);
  for (const auto& [name, node] : found) {
    EXPECT_EQ(node.text_view(), "ckpt.Table") << name;
    EXPECT_EQ(node["data"].text_view(), name);
    EXPECT_TRUE(at::equal(ct::load_table(reader, name).ids, row.ids)) << name;
  }
}

TEST(SparseTables, AreLeftOutOfDictsAndListsOfOthers) {
  StorePlace place;
  auto save = ckpt::Save::create(ckpt::Session::open(ckpt::Store::open(place.uri())), "a");
  const auto table = [&](const std::string& name) {
    ct::add_table(save, name, a_row());
    return R"({"$":"record","class":"ckpt.Table","items":{"data":{"$":"tensor","name":")" + name + "\"}}}";
  };
  const std::string json = "{\"list\":[" + table("list/0") + ",2],\"only\":{\"x\":" + table("only/x") +
                           "},\"both\":{\"n\":1,\"x\":" + table("both/x") + "}}";
  save.add_tree(ckpt::Tree::parse(json));
  save.run();
  const ct::Loaded loaded = ct::Session(place.uri()).load({});
  EXPECT_EQ(loaded.ignored.size(), 3u);
  EXPECT_FALSE(loaded.others.contains("only"));
  EXPECT_EQ(loaded.others.at("both").toGenericDict().size(), 1u);
  const auto list = loaded.others.at("list").toListRef();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0].isNone());
  EXPECT_EQ(list[1].toInt(), 2);
}

TEST(SparseTables, PassThroughInWindows) {
  StorePlace place;
  save_table_of_two(place.uri(), seeded_net(1));
  const auto reader = newest(place.uri());
  const auto share = reader.share("items", ckpt::Rowset::all().window(30));
  int64_t rows = 0;
  for (uint64_t window = 0; window < share.info().window_count; window++) {
    const ct::SparseTable some = ct::load_window(reader, "items", share, window);
    expect_own_rows(some);
    EXPECT_LE(some.ids.numel(), 30);
    rows += some.ids.numel();
  }
  EXPECT_EQ(rows, 100);
  expect_error([&] { ct::load_table(reader, "items", ckpt::Rowset::all().window(30)); }, CKPT_INVALID, "load_window");
}

TEST(SparseTables, OfEveryShapeAndTypeComeBackAndMayBeEmpty) {
  StorePlace place;
  ct::Session keeper(place.uri());
  const at::Tensor ids = at::tensor({5, 3}, at::kLong);
  const at::Tensor half = at::arange(24).view({2, 3, 4}).to(at::kBFloat16), flags = at::tensor({1, 0}).to(at::kBool);
  const ct::SparseTable none{at::empty({0}, at::kLong), {{"x", at::empty({0, 4})}}};
  keeper.save({{}, {}, {}, {}, {{"t", {ids, {{"half", half}, {"flag", flags}}}}, {"none", none}}});
  const auto reader = newest(place.uri());
  const ct::SparseTable loaded = ct::load_table(reader, "t", ckpt::Rowset::ids({5, 3}));
  EXPECT_TRUE(same_bits(loaded.columns.at("half"), half));
  EXPECT_TRUE(same_bits(loaded.columns.at("flag"), flags));
  EXPECT_EQ(ct::load_table(reader, "none").columns.at("x").sizes(), at::IntArrayRef({0, 4}));
}

TEST(SparseTables, WhoseTensorsDoNotFitAreRefusedAndNamed) {
  StorePlace place;
  ct::Session keeper(place.uri());
  auto refused = [&](const std::string& name, const ct::SparseTable& table, const std::string& words) {
    expect_error([&] { keeper.save({{}, {}, {{"epoch", 3}}, {}, {{name, table}}}); }, CKPT_INVALID, words);
  };
  const at::Tensor ids = at::tensor({5, 3}, at::kLong);
  refused("t", {ids.to(at::kInt), {}}, "int64");
  refused("t", {at::Tensor(), {}}, "int64");
  refused("t", {ids, {{"x", at::zeros({3, 4})}}}, "'t/x'");
  refused("t", {ids, {{"x", at::zeros({})}}}, "'t/x'");
  refused("t", {ids, {{"x", at::Tensor()}}}, "'t/x'");
  refused("epoch", {ids, {}}, "another part");
  refused("model", {ids, {}}, "another part");
  refused("epoch/t", {ids, {}}, "another part");
  expect_error([&] { keeper.save({{}, {}, {}, {}, {{"t", {ids, {}}}, {"t/u", {ids, {}}}}}); }, CKPT_INVALID, "'t/u'");
}

}  // namespace
