// State trees as JSON: the bytes of every kind of node, in both directions, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tree/tree.h"

namespace ckpt::tree {
namespace {

using namespace std::string_literals;

void good(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

std::string rewritten(std::string_view json) {
  auto tree = parse_tree_json(json);
  if (!tree.ok()) return std::string(status_name(tree.status().code())) + ": " + tree.status().message();
  return tree->complete() ? tree_json(*tree) : "unfinished";
}

void expect_refused(std::string_view json, ckpt_status code, const std::string& message) {
  auto tree = parse_tree_json(json);
  ASSERT_FALSE(tree.ok()) << json;
  EXPECT_EQ(tree.status().code(), code) << json << ": " << tree.status().message();
  EXPECT_NE(tree.status().message().find(message), std::string::npos) << json << ": " << tree.status().message();
}

// One of every kind, each in its only spelling.
const char* const kCanonical[] = {
    "null",
    "true",
    "false",
    "0",
    "-9223372036854775808",
    "9223372036854775807",
    R"({"$":"int","value":"9223372036854775808"})",
    R"({"$":"int","value":"-9223372036854775809"})",
    "1.0",
    "-0.0",
    "0.1",
    "5e-324",
    "1.7976931348623157e+308",
    "1e+22",
    R"({"$":"float","value":"nan"})",
    R"({"$":"float","value":"inf"})",
    R"({"$":"float","value":"-inf"})",
    "\"\"",
    R"("a\u0000\n\"\\/ä😀")",
    R"({"$":"bytes","base64":""})",
    R"({"$":"bytes","base64":"AP8="})",
    R"({"$":"tensor","name":"a/~s0"})",
    "[]",
    "{}",
    R"({"$":"tuple","items":[]})",
    R"({"$":"set","items":[1,"1"]})",
    R"({"$":"dict","items":[[0,{"$":"dict","items":[["$",1]]}],["0",[]],[-1,{"a":null}]]})",
    R"({"$":"record","class":"torch.Size","items":{"items":[2,3]}})",
    R"({"$":"record","class":"C","items":{"$":"tensor","name":"N"}})",
    R"({"$":"record","class":"C","items":{}})",
    R"({"b":{"a":[1,[2,{"$":"tuple","items":[3,{"c":[]}]}]]},"a":{"":0}})"};

TEST(TreeJson, EveryKindOfNodeComesBackAsTheSameBytes) {
  for (const char* json : kCanonical) EXPECT_EQ(rewritten(json), json);
}

TEST(TreeJson, OtherSpellingsBecomeTheOne) {
  const std::pair<const char*, const char*> rows[] = {
      {" [ 1 ,\n 2 ] ", "[1,2]"},
      {"1E2", "100.0"},
      {"-0", "0"},
      {"9223372036854775808", R"({"$":"int","value":"9223372036854775808"})"},
      {R"({"$":"int","value":"007"})", "7"},
      {R"({"$":"dict","items":[["a",1]]})", R"({"a":1})"},
      {R"({"$":"dict","items":[]})", "{}"},
      {R"({"\u0024":"tuple","items":[]})", R"({"$":"tuple","items":[]})"},
      {R"("\u00e4\/")", R"("ä/")"}};
  for (const auto& [json, canonical] : rows) EXPECT_EQ(rewritten(json), canonical);
}

TEST(TreeJson, DoublesComeBackToTheBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; i++) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    Tree tree;
    good(tree.add_float(value));
    const std::string json = tree_json(tree);
    auto back = parse_tree_json(json);
    ASSERT_TRUE(back.ok()) << json;
    ASSERT_EQ((*back)[0].kind, CKPT_NODE_FLOAT) << json;
    ASSERT_EQ(std::memcmp(&(*back)[0].real, &value, sizeof value), 0) << json;
  }
}

TEST(TreeJson, AnUnknownKindIsOfANewerRevision) {
  expect_refused(R"({"a":{"$":"quaternion","x":1}})", CKPT_REVISION, "\"quaternion\"");
  expect_refused(R"({"$":"","items":[]})", CKPT_REVISION, "unknown kind");
}

TEST(TreeJson, AKnownKindHasItsMembersAndNoOthers) {
  expect_refused(R"({"$":"tensor"})", CKPT_FORMAT, "tensor without \"name\"");
  expect_refused(R"({"$":"tensor","name":"a","shape":[1]})", CKPT_FORMAT, "tensor: member \"shape\"");
  expect_refused(R"({"$":"tensor","name":"a","name":"b"})", CKPT_FORMAT, "tensor: member \"name\"");
  expect_refused(R"({"$":"tuple","$":"set"})", CKPT_FORMAT, "member \"$\", expected \"items\"");
  expect_refused(R"({"$":"record","class":"C"})", CKPT_FORMAT, "record without \"items\"");
  expect_refused(R"({"$":"record","items":{},"class":"C"})", CKPT_FORMAT, "expected \"class\"");
  expect_refused(R"({"$":"record","class":"","items":{}})", CKPT_FORMAT, "without a class");
  expect_refused(R"({"a":1,"$":"tuple"})", CKPT_FORMAT, "not the first member");
  expect_refused(R"({"$":"dict","items":[["a",1]],"x":1})", CKPT_FORMAT, "member \"x\"");
}

TEST(TreeJson, AMemberOfTheWrongTypeIsRefused) {
  for (const char* json : {R"({"$":1})",
                           R"({"$":null})",
                           R"({"$":[]})",
                           R"({"$":{}})",
                           R"({"$":"tensor","name":1})",
                           R"({"$":"tensor","name":[]})",
                           R"({"$":"tuple","items":{}})",
                           R"({"$":"tuple","items":"a"})",
                           R"({"$":"set","items":1})",
                           R"({"$":"record","class":[],"items":{}})",
                           R"({"$":"record","class":"C","items":[]})",
                           R"({"$":"record","class":"C","items":"a"})",
                           R"({"$":"dict","items":{}})",
                           R"({"$":"dict","items":[1]})",
                           R"({"$":"dict","items":[{}]})",
                           R"({"$":"dict","items":["a"]})",
                           R"({"$":"dict","items":[[null,1]]})",
                           R"({"$":"dict","items":[[1.0,1]]})",
                           R"({"$":"dict","items":[[[],1]]})",
                           R"({"$":"dict","items":[[{},1]]})",
                           R"({"$":"dict","items":[[true,1]]})",
                           R"({"$":"dict","items":[[9223372036854775808,1]]})",
                           R"({"$":"dict","items":[["a",1,2]]})",
                           R"({"$":"float","value":1.5})",
                           R"({"$":"int","value":5})",
                           R"({"$":"bytes","base64":[]})"})
    expect_refused(json, CKPT_FORMAT, "unexpected");
  expect_refused(R"({"$":"dict","items":[[]]})", CKPT_FORMAT, "a pair of 0");
  expect_refused(R"({"$":"dict","items":[["a"]]})", CKPT_FORMAT, "a pair of 1");
}

TEST(TreeJson, WhatTheBuilderRefusesIsAFaultOfTheFile) {
  expect_refused(R"({"a":{"b":1,"b":2}})", CKPT_FORMAT, "at \"a\": key \"b\" comes twice");
  expect_refused(R"({"$":"dict","items":[[1,0],[1,0]]})", CKPT_FORMAT, "key 1 comes twice");
  expect_refused(R"({"$":"record","class":"C","items":{"a":1,"a":2}})", CKPT_FORMAT, "comes twice");
  expect_refused(R"({"$":"tensor","name":"../a"})", CKPT_FORMAT, "\"..\"");
  expect_refused(R"({"$":"int","value":"1.5"})", CKPT_FORMAT, "not decimal digits");
  expect_refused(R"({"$":"float","value":"NaN"})", CKPT_FORMAT, "expected nan, inf or -inf");
  expect_refused(R"({"$":"bytes","base64":"AP8"})", CKPT_FORMAT, "not base64");
  expect_refused("", CKPT_FORMAT, "not JSON");
  expect_refused("[1", CKPT_FORMAT, "not JSON");
  expect_refused("[1] 2", CKPT_FORMAT, "not JSON");
  expect_refused("\"\\ud800\"", CKPT_FORMAT, "not JSON");
  expect_refused("1e999", CKPT_FORMAT, "not JSON");
}

TEST(TreeJson, TwoHundredLevelsOfEveryContainerAreReadAndNoMore) {
  const std::pair<std::string, std::string> rows[] = {{"[", "]"},
                                                      {R"({"a":)", "}"},
                                                      {R"({"$":"tuple","items":[)", "]}"},
                                                      {R"({"$":"dict","items":[[1,)", "]]}"},
                                                      {R"({"$":"record","class":"C","items":{"a":)", "}}"}};
  for (const auto& [open, close] : rows)
    for (int levels : {200, 201}) {
      std::string json;
      for (int i = 0; i < levels; i++) json += open;
      json += R"({"$":"tensor","name":"t"})";
      for (int i = 0; i < levels; i++) json += close;
      if (levels == 200)
        EXPECT_EQ(rewritten(json), json);
      else
        expect_refused(json, CKPT_FORMAT, "more than 200 levels");
    }
  expect_refused(std::string(1 << 20, '['), CKPT_FORMAT, "");
}

// A random tree. Its text punishes any forgotten escape.
void grow(Tree& tree, std::mt19937& random, int depth) {
  auto text = [&] {
    const std::string pieces[] = {"", "$", "a", "0", "\0"s, "\"", "\\", "\x7f", "é", "😀", "\n", "items"};
    std::string out;
    for (auto n = random() % 3; n-- > 0;) out += pieces[random() % std::size(pieces)];
    return out;
  };
  const int kind = static_cast<int>(random() % (depth < 6 ? 13 : 8));
  switch (kind) {
    case 0:
      return good(tree.add_null());
    case 1:
      return good(tree.add_bool(random() % 2));
    case 2:
      return good(tree.add_int(static_cast<int64_t>(uint64_t{random()} << random() % 33)));
    case 3:
      return good(tree.add_bigint("-12345678901234567890"));
    case 4:
      return good(
          tree.add_float(random() % 4 ? static_cast<double>(random()) / 7 : -std::numeric_limits<double>::infinity()));
    case 5:
      return good(tree.add_text(text()));
    case 6:
      return good(tree.add_bytes(as_bytes(text())));
    case 7:
      return good(tree.add_tensor("t" + std::to_string(random() % 9)));
    default:
      break;
  }
  good(tree.begin(kind - 8 + CKPT_NODE_LIST, kind == 12 ? "C" + text() : ""));
  for (auto n = random() % 6; n-- > 0;) {
    const bool integer = kind == 11 && random() % 4 == 0;
    if (integer && !tree.key(static_cast<int64_t>(random() % 5)).ok()) continue;  // a duplicate key
    if (kind >= 11 && !integer && !tree.key(text()).ok()) continue;
    grow(tree, random, depth + 1);
  }
  good(tree.end());
}

TEST(TreeJson, RandomTreesComeBackNodeForNode) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; round++) {
    Tree tree;
    grow(tree, random, 0);
    const std::string json = tree_json(tree);
    auto back = parse_tree_json(json);
    ASSERT_TRUE(back.ok()) << json << "\n" << back.status().message();
    ASSERT_EQ(tree_json(*back), json);
    ASSERT_EQ(back->size(), tree.size());
    for (uint32_t i = 0; i < tree.size(); i++) {
      const TreeNode &a = tree[i], &b = (*back)[i];
      ASSERT_EQ(a.kind, b.kind) << json;
      ASSERT_EQ(a.key_kind, b.key_kind) << json;
      ASSERT_EQ(a.key_view(), b.key_view()) << json;
      ASSERT_EQ(a.text_view(), b.text_view()) << json;
      ASSERT_EQ(a.place, b.place) << json;
      ASSERT_EQ(a.integer, b.integer) << json;  // for a double: its bits
      ASSERT_EQ(a.parent, b.parent) << json;
      ASSERT_EQ(a.next, b.next) << json;
    }
  }
}

}  // namespace
}  // namespace ckpt::tree
