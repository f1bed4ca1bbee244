// Trees of several ranks: what they have together, what they contradict each other in, and what is each rank's own.
#include "tree/merge.h"

#include <gtest/gtest.h>

#include <deque>

namespace ckpt::tree {
namespace {

Tree parsed(std::string_view json) {
  auto tree = parse_tree_json(json);
  EXPECT_TRUE(tree.ok()) << tree.status().message() << " in " << json;
  return tree.ok() ? tree.take() : Tree();
}

// Rank 10 * i has the i-th tree. The result as JSON, or the error.
std::string merged(std::initializer_list<const char*> trees) {
  std::deque<Tree> all;
  std::vector<RankTree> ranks;
  for (const char* json : trees) {
    all.push_back(parsed(json));
    ranks.push_back({10 * static_cast<uint32_t>(ranks.size()), &all.back()});
  }
  auto tree = merge_trees(ranks);
  return tree.ok() ? tree_json(*tree) : std::string(tree.status().message());
}

TEST(MergedTrees, HaveTheKeysOfAllRanksInTheOrderInWhichRanksBringThem) {
  EXPECT_EQ(merged({R"({"b":1,"m":{"x":[1,{}]}})", R"({"a":2,"m":{"y":null,"x":[1,{"q":true}]}})", R"({"c":3,"b":1})"}),
            R"({"b":1,"m":{"x":[1,{"q":true}],"y":null},"a":2,"c":3})");
  EXPECT_EQ(merged({R"({"$":"dict","items":[[1,"int"]]})", R"({"1":"text"})"}),
            R"({"$":"dict","items":[[1,"int"],["1","text"]]})");
}

TEST(MergedTrees, KeepWhatAllRanksHaveOnce) {
  for (const char* json :
       {"null", "true", "-7", R"({"$":"int","value":"123456789012345678901"})", "0.1", R"({"$":"float","value":"nan"})",
        R"("text")", R"({"$":"bytes","base64":"AP8="})", R"({"$":"tensor","name":"w"})", R"([1,[2],{"a":3}])",
        R"({"$":"tuple","items":[1,2]})", R"({"$":"set","items":[1]})",
        R"({"$":"record","class":"torch.Size","items":{"items":[1]}})"})
    EXPECT_EQ(merged({json, json, json}), json);
}

TEST(MergedTrees, NameThePlaceAndTwoRanksThatDiffer) {
  const std::string hint = "; what is each rank's own is saved as a ckpt.PerRank";
  EXPECT_EQ(merged({R"({"a":{"n":1}})", R"({"a":{"n":1}})", R"({"a":{"n":2}})"}),
            "state at \"a/n\": rank 0 has 1, rank 20 has 2" + hint);
  EXPECT_EQ(merged({R"({"a":[1]})", R"({"a":[1,2]})"}),
            "state at \"a\": rank 0 has a list of 1, rank 10 has a list of 2" + hint);
  EXPECT_EQ(merged({R"({"a":0.0})", R"({"a":-0.0})"}), "state at \"a\": rank 0 has 0, rank 10 has -0" + hint);
  EXPECT_EQ(merged({R"({"x":1})", R"({"a":0})", R"({"a":{}})"}),
            "state at \"a\": rank 10 has 0, rank 20 has a dict" + hint);
  EXPECT_EQ(merged({R"({"$":"tensor","name":"w"})", R"({"$":"tensor","name":"v"})"}),
            "state at \"\": rank 0 has tensor \"w\", rank 10 has tensor \"v\"" + hint);
}

TEST(MergedTrees, TakeRecordsOnlyWhole) {
  EXPECT_NE(merged({R"({"$":"record","class":"C","items":{"a":1}})", R"({"$":"record","class":"D","items":{"a":1}})"})
                .find("rank 0 has a C of 1 items, rank 10 has a D of 1 items"),
            std::string::npos);
  EXPECT_NE(merged({R"({"$":"record","class":"C","items":{"a":1}})", R"({"$":"record","class":"C","items":{"b":1}})"})
                .find("state at \"a\": rank 0 has 1, rank 10 has nothing"),
            std::string::npos);
}

TEST(PerRank, IsTakenOutOfATreeAndPutBackForTheRanksThatAreAskedFor) {
  auto tree_of = [](int rank) {
    return parsed(
        strformat(R"({{"n":1,"l":[{{"$":"record","class":"ckpt.PerRank","items":{{"rank{}":{{"seed":{}}}}}}}]}})", rank,
                  100 + rank));
  };
  const SplitTree zero = split_ranks(tree_of(0), 0).take(), three = split_ranks(tree_of(3), 3).take();
  EXPECT_EQ(tree_json(zero.common), R"({"n":1,"l":[{"$":"record","class":"ckpt.PerRank","items":{}}]})");
  EXPECT_EQ(tree_json(zero.common), tree_json(three.common));
  EXPECT_EQ(tree_json(*three.own), R"({"l/0":{"seed":103}})");
  const RankTree both[] = {{0, &*zero.own}, {3, &*three.own}};
  EXPECT_EQ(
      tree_json(*join_ranks(zero.common, both)),
      R"({"n":1,"l":[{"$":"record","class":"ckpt.PerRank","items":{"rank0":{"seed":100},"rank3":{"seed":103}}}]})");
  EXPECT_EQ(tree_json(*join_ranks(zero.common, std::span(both).subspan(1))), tree_json(tree_of(3)));
  EXPECT_FALSE(split_ranks(parsed("[1]"), 0)->own.has_value());
}

TEST(PerRank, OnlyThatOfARankIsLeftWhereOneTreeHasThatOfSeveral) {
  auto json = [](const std::string& items) {
    return R"({"a":1,"io":{"$":"record","class":"ckpt.PerRank","items":{)" + items + "}}}";
  };
  auto only = [](const std::string& from, uint32_t rank) { return tree_json(only_rank(parsed(from), rank).take()); };
  const std::string several = json(R"("rank0":{"x":[5]},"rank1":null,"rank7":{"$":"tensor","name":"w"})");
  EXPECT_EQ(only(several, 0), json(R"("rank0":{"x":[5]})"));
  EXPECT_EQ(only(several, 1), json(R"("rank1":null)"));
  EXPECT_EQ(only(several, 7), json(R"("rank7":{"$":"tensor","name":"w"})"));
  EXPECT_EQ(only(several, 8), json(R"("rank0":{"x":[5]})"));  // there were fewer ranks
  EXPECT_EQ(only(several, 2), json(""));                      // which had nothing there
  EXPECT_EQ(only(json(R"("rank1":1,"rank3":2)"), 0), json(""));
  EXPECT_EQ(only(json(R"("rank1":1,"rank3":2)"), 9), json(""));
  EXPECT_EQ(only(json(R"("rank3":1)"), 3), json(R"("rank3":1)"));
  EXPECT_EQ(only(json(""), 0), json(""));
}

TEST(PerRank, OfAnotherRankIsRefused) {
  const auto split = split_ranks(parsed(R"({"r":{"$":"record","class":"ckpt.PerRank","items":{"rank1":1}}})"), 2);
  EXPECT_EQ(split.status().code(), CKPT_INVALID);
  EXPECT_EQ(split.status().message(),
            "state tree at \"r\": expected a ckpt.PerRank with the one key rank2, found 1 keys");
}

}  // namespace
}  // namespace ckpt::tree
