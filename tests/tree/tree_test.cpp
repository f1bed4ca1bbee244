// State trees: the rules of building, lookup, paths.
#include "tree/tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace ckpt::tree {
namespace {

using namespace std::string_literals;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

void expect_refused(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), CKPT_INVALID) << status.message();
  EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
}

void good(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

Tree dict(std::initializer_list<const char*> keys) {
  Tree tree;
  good(tree.begin(CKPT_NODE_DICT));
  for (const char* key : keys) {
    good(tree.key(key));
    good(tree.add_null());
  }
  return tree;
}

TEST(Tree, NodesAreInDocumentOrderAndKnowTheirNeighbours) {
  Tree tree;
  good(tree.begin(CKPT_NODE_DICT));  // 0
  good(tree.key("a"));
  good(tree.begin(CKPT_NODE_LIST));  // 1
  good(tree.add_int(5));             // 2
  good(tree.begin(CKPT_NODE_SET));   // 3
  good(tree.end());
  good(tree.add_bool(true));  // 4
  good(tree.end());
  good(tree.key(kMin));
  good(tree.add_float(-0.0));  // 5
  EXPECT_FALSE(tree.complete());
  good(tree.end());
  EXPECT_TRUE(tree.complete());
  ASSERT_EQ(tree.size(), 6u);
  const uint32_t parents[] = {kNoNode, 0, 1, 1, 1, 0}, nexts[] = {kNoNode, 5, 3, 4, kNoNode, kNoNode};
  const uint32_t counts[] = {2, 3, 0, 0, 0, 0}, firsts[] = {1, 2, kNoNode, kNoNode, kNoNode, kNoNode};
  for (uint32_t i = 0; i < 6; i++) {
    EXPECT_EQ(tree[i].parent, parents[i]) << i;
    EXPECT_EQ(tree[i].next, nexts[i]) << i;
    EXPECT_EQ(tree[i].child_count, counts[i]) << i;
    EXPECT_EQ(tree.first_child(i), firsts[i]) << i;
  }
  EXPECT_EQ(tree[5].key_kind, CKPT_KEY_INT);
  EXPECT_EQ(tree[5].place, kMin);
  EXPECT_TRUE(std::signbit(tree[5].real));
}

TEST(Tree, RefusesWhatIsOutOfPlaceAndStaysAsItWas) {
  Tree tree;
  expect_refused(tree.key("a"), "outside of a dict");
  expect_refused(tree.end(), "no container is open");
  expect_refused(tree.check_complete(), "empty");
  expect_refused(tree.begin(CKPT_NODE_INT), "no kind of container: 2");
  expect_refused(tree.begin(CKPT_NODE_RECORD), "without a class");
  expect_refused(tree.begin(CKPT_NODE_LIST, "C"), "what is no record");
  good(tree.begin(CKPT_NODE_RECORD, "C"));
  expect_refused(tree.key(1), "integer as key in a record");
  expect_refused(tree.add_null(), "without a key");
  expect_refused(tree.begin(CKPT_NODE_LIST), "without a key");
  good(tree.key("a"));
  expect_refused(tree.key("b"), "a key after a key");
  expect_refused(tree.end(), "a key without a value");
  good(tree.begin(CKPT_NODE_LIST));
  expect_refused(tree.key("c"), "at \"a\": a key outside");
  expect_refused(tree.check_complete(), "unfinished, 2 containers");
  good(tree.end());
  good(tree.end());
  expect_refused(tree.add_null(), "a value after the last");
  expect_refused(tree.begin(CKPT_NODE_LIST), "a value after the last");
  EXPECT_EQ(tree_json(tree), R"({"$":"record","class":"C","items":{"a":[]}})");
}

TEST(Tree, AKeyComesOnceAndIntegersAreNotText) {
  Tree tree = dict({"a", "1", ""});
  expect_refused(tree.key("a"), "\"a\" comes twice");
  expect_refused(tree.key(""), "\"\" comes twice");
  good(tree.key(1));
  good(tree.add_null());
  expect_refused(tree.key(1), "1 comes twice");
  good(tree.key("a\0"s));
  good(tree.begin(CKPT_NODE_DICT));
  good(tree.key("a"));  // a key of another dict
}

TEST(Tree, TextIsUtf8AndNamesAreTensorNames) {
  Tree tree = dict({});
  expect_refused(tree.key("\xff"), "a key that is not UTF-8");
  good(tree.key("k"));
  expect_refused(tree.add_text("\xed\xa0\x80"), "not UTF-8");
  expect_refused(tree.add_tensor(""), "name");
  expect_refused(tree.add_tensor("a/../b"), "\"..\"");
  expect_refused(tree.add_tensor(std::string(4097, 'n')), "4097");
  expect_refused(tree.begin(CKPT_NODE_RECORD, "\xff"), "a class that is not UTF-8");
  good(tree.add_text("a\0b"s));
  EXPECT_EQ(tree[1].text_view(), "a\0b"s);
  EXPECT_EQ(tree[1].text[3], 0);
}

TEST(Tree, IntegersOfAnySizeAreKeptExactly) {
  Tree tree;
  good(tree.begin(CKPT_NODE_LIST));
  for (const char* digits : {"0", "-0", "007", "9223372036854775807", "-9223372036854775808"})
    good(tree.add_bigint(digits));
  for (const char* digits : {"9223372036854775808", "-9223372036854775809", "000099999999999999999999"})
    good(tree.add_bigint(digits));
  for (const char* digits : {"", "-", "+1", "1.0", "0x1", " 1", "1-"})
    expect_refused(tree.add_bigint(digits), "not decimal digits");
  const int64_t integers[] = {0, 0, 7, kMax, kMin};
  for (uint32_t i = 0; i < 5; i++) {
    EXPECT_EQ(tree[i + 1].kind, CKPT_NODE_INT);
    EXPECT_EQ(tree[i + 1].integer, integers[i]);
  }
  EXPECT_EQ(tree[6].kind, CKPT_NODE_BIGINT);
  EXPECT_EQ(tree[6].text_view(), "9223372036854775808");
  EXPECT_EQ(tree[7].text_view(), "-9223372036854775809");
  EXPECT_EQ(tree[8].text_view(), "99999999999999999999");
}

TEST(Tree, TwoHundredLevelsAreTheLimit) {
  Tree tree;
  for (int i = 0; i < CKPT_TREE_MAX_DEPTH; i++) good(tree.begin(CKPT_NODE_LIST));
  expect_refused(tree.begin(CKPT_NODE_LIST), "more than 200 levels");
  good(tree.add_null());
  for (int i = 0; i < CKPT_TREE_MAX_DEPTH; i++) good(tree.end());
  EXPECT_TRUE(tree.complete());
}

TEST(Tree, FindsEveryChildOfALargeDictAndListAndNoOther) {
  constexpr int kCount = 100000;
  Tree tree;
  good(tree.begin(CKPT_NODE_LIST));
  for (int kind : {CKPT_NODE_DICT, CKPT_NODE_LIST}) {
    good(tree.begin(kind));
    for (int i = 0; i < kCount; i++) {
      if (kind == CKPT_NODE_DICT) good(i % 2 ? tree.key(i) : tree.key("k" + std::to_string(i)));
      good(tree.add_int(i));
    }
    good(tree.end());
  }
  good(tree.end());
  const uint32_t table = tree.find(0, 0), list = tree.find(0, 1);
  ASSERT_EQ(table, 1u);
  ASSERT_EQ(list, 2u + kCount);
  for (int i = 0; i < kCount; i++) {
    const uint32_t in_table = i % 2 ? tree.find(table, i) : tree.find(table, "k" + std::to_string(i));
    ASSERT_EQ(in_table, table + 1 + static_cast<uint32_t>(i));
    ASSERT_EQ(tree.find(list, i), list + 1 + static_cast<uint32_t>(i));
    ASSERT_EQ(i % 2 ? tree.find(table, std::to_string(i)) : tree.find(table, i), kNoNode);
  }
  EXPECT_EQ(tree.find(list, kCount), kNoNode);
  EXPECT_EQ(tree.find(list, -1), kNoNode);
  EXPECT_EQ(tree.find(list, "0"), kNoNode);
  EXPECT_EQ(tree.find(table + 1, 0), kNoNode);
  EXPECT_EQ(dict({}).find(0, "a"), kNoNode);
}

TEST(Tree, PathSegmentsAreUnambiguous) {
  const std::pair<std::string, std::string> rows[] = {{"encoder.layer.0.weight", "encoder.layer.0.weight"},
                                                      {"", "~e"},
                                                      {".", "~d"},
                                                      {"..", "~d~d"},
                                                      {"...", "..."},
                                                      {"a/b~c", "a~1b~0c"},
                                                      {"\n\x7f", "~x0A~x7F"},
                                                      {"0", "~s0"},
                                                      {"-12", "~s-12"},
                                                      {"-0", "-0"},
                                                      {"00", "00"},
                                                      {"99999999999999999999", "~s99999999999999999999"},
                                                      {"ä", "ä"}};
  for (const auto& [key, segment] : rows) EXPECT_EQ(path_segment(key), segment);
}

TEST(Tree, ATensorIsNamedByItsPath) {
  Tree tree;
  good(tree.begin(CKPT_NODE_DICT));
  std::vector<std::string> names;
  auto tensor = [&] {
    good(tree.add_tensor());
    names.push_back(tree[tree.size() - 1].text);
  };
  good(tree.key("optimizer"));
  good(tree.begin(CKPT_NODE_DICT));
  good(tree.key(0));
  tensor();
  good(tree.key("0"));
  tensor();
  good(tree.key("list"));
  good(tree.begin(CKPT_NODE_TUPLE));
  good(tree.add_null());
  tensor();
  good(tree.begin(CKPT_NODE_RECORD, "torch.Parameter"));
  good(tree.key("data"));
  tensor();
  good(tree.key("grad"));
  tensor();
  for (int i = 0; i < 4; i++) good(tree.end());
  EXPECT_EQ(names, (std::vector<std::string>{"optimizer/0", "optimizer/~s0", "optimizer/list/1", "optimizer/list/2",
                                             "optimizer/list/2/grad"}));
}

TEST(Tree, ATensorAloneIsCalledState) {
  Tree tree;
  good(tree.add_tensor());
  EXPECT_STREQ(tree[0].text, "state");
}

TEST(Tree, ThePathOfDataIsItsOwnWhereTheRecordHasNone) {
  Tree root;
  good(root.begin(CKPT_NODE_RECORD, "C"));
  good(root.key("data"));
  good(root.add_tensor());
  EXPECT_STREQ(root[1].text, "data");
  Tree nested;
  good(nested.begin(CKPT_NODE_LIST));
  good(nested.begin(CKPT_NODE_RECORD, "C"));
  good(nested.key("data"));
  good(nested.begin(CKPT_NODE_LIST));  // not a tensor: adds a segment, so that names of both cannot collide
  good(nested.add_tensor());
  EXPECT_STREQ(nested[3].text, "0/data/0");
}

TEST(Tree, APathTooLongForANameIsRefused) {
  Tree tree;
  good(tree.begin(CKPT_NODE_DICT));
  good(tree.key(std::string(4000, '/')));
  expect_refused(tree.add_tensor(), "8000 bytes");
  good(tree.add_tensor("short"));
}

}  // namespace
}  // namespace ckpt::tree
