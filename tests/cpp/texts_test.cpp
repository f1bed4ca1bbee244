// Text with a NUL in it: C would cut it there, so ckpt.hpp refuses it and does nothing.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt.hpp"

namespace {

using namespace std::string_literals;

const std::string kNul = "a\0b"s;

using Calls = std::vector<std::pair<const char*, std::function<void()>>>;
void expect_refused(const Calls& calls) {
  for (const auto& [what, call] : calls) try {
      call();
      ADD_FAILURE() << what << " was taken";
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), CKPT_INVALID) << what;
      EXPECT_NE(std::string(error.what()).find("holds a NUL at byte 1 of 3: \"a\\0b\""), std::string::npos)
          << what << ": " << error.what();
    }
}

TEST(CppTexts, EveryTextOfASaveIsRefusedWhereItHoldsANul) {
  auto store = ckpt::Store::open("mem:cpp-texts-save");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  auto tree = ckpt::Tree::parse("[]");
  const std::vector<float> w(1);
  const auto tensor = ckpt::Tensor::of<float>({1});
  expect_refused({{"label", [&] { (void)ckpt::Save::create(session, kNul); }},
                  {"tensor", [&] { save.add_tensor(kNul, tensor, w); }},
                  {"object", [&] { save.add_object(kNul, "text/plain", CKPT_OBJECT_SHARED, w); }},
                  {"media type", [&] { save.add_object("o", kNul, CKPT_OBJECT_SHARED, w); }},
                  {"alias", [&] { save.add_alias(kNul, "w"); }},
                  {"target", [&] { save.add_alias("t", kNul); }},
                  {"alias of a view", [&] { save.add_alias(kNul, "w", tensor); }},
                  {"target of a view", [&] { save.add_alias("t", kNul, tensor); }},
                  {"tree", [&] { save.add_tree(tree, kNul); }},
                  {"key", [&] { save.set_attr(kNul, "v"); }},
                  {"value", [&] { save.set_attr("k", kNul); }},
                  {"tensor of an attribute", [&] { save.set_tensor_attr(kNul, "k", "v"); }},
                  {"key of a tensor's attribute", [&] { save.set_tensor_attr("w", kNul, "v"); }},
                  {"value of a tensor's attribute", [&] { save.set_tensor_attr("w", "k", kNul); }}});
  save.add_tensor("a", tensor, w);  // which is not taken yet
  save.run();
  auto reader = ckpt::Reader::open(store);
  EXPECT_EQ(reader.tensor_count(), 1u);
  EXPECT_EQ(reader.object_count(), 0u);
  EXPECT_TRUE(reader.attrs().empty());
}

TEST(CppTexts, EveryTextOfAReaderIsRefusedWhereItHoldsANul) {
  auto store = ckpt::Store::open("mem:cpp-texts-reader");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  std::vector<float> w(1);
  const auto tensor = ckpt::Tensor::of<float>({1});
  save.add_tensor("a", tensor, w);
  save.add_object("a", "text/plain", CKPT_OBJECT_SHARED, "text");
  save.set_attr("a", "cut");
  save.set_tensor_attr("a", "a", "cut");
  save.run();
  auto reader = ckpt::Reader::open(store);
  auto load = ckpt::Load::create(reader);
  expect_refused({{"selector", [&] { (void)ckpt::Reader::open(store, kNul); }},
                  {"tensor", [&] { reader.tensor(kNul); }},
                  {"alias", [&] { reader.alias(kNul); }},
                  {"segment", [&] { reader.segment(kNul, 0); }},
                  {"object", [&] { reader.object(kNul); }},
                  {"attributes", [&] { reader.tensor_attrs(kNul); }},
                  {"map", [&] { reader.map(kNul); }},
                  {"tree", [&] { (void)reader.tree(kNul); }},
                  {"export", [&] { reader.export_to(kNul); }},
                  {"load of a tensor", [&] { load.add_tensor(kNul, tensor, w); }},
                  {"load of an object", [&] { load.add_object(kNul, 0, w); }}});
  EXPECT_EQ(reader.attr("a"), "cut");
  EXPECT_EQ(reader.attr(kNul), std::nullopt);
  EXPECT_EQ(reader.tensor_attr("a", kNul), std::nullopt);
  EXPECT_EQ(reader.tensor_attr(kNul, "a"), std::nullopt);
}

TEST(CppTexts, EveryOtherTextIsRefusedWhereItHoldsANul) {
  auto store = ckpt::Store::open("mem:cpp-texts-other");
  auto tree = ckpt::Tree::create();
  tree.begin_list();
  expect_refused({{"uri", [&] { (void)ckpt::Store::open(kNul); }},
                  {"selector", [&] { store.find(kNul); }},
                  {"removed id", [&] { store.remove(kNul); }},
                  {"repaired id", [&] { (void)store.repair(kNul); }},
                  {"imported path", [&] { store.import(kNul, "label"); }},
                  {"imported label", [&] { store.import("path", kNul); }},
                  {"session string", [&] { (void)ckpt::Session::open(store, 1, 2, kNul); }},
                  {"file", [&] { (void)ckpt::File::open(kNul); }},
                  {"digits", [&] { tree.add_bigint(kNul); }},
                  {"tensor of a tree", [&] { tree.add_tensor(kNul); }},
                  {"class of a record", [&] { tree.begin_record(kNul); }},
                  {"option", [&] { (void)ckpt::Store::open("mem:x", ckpt::Options().set(kNul, 1)); }},
                  {"value of an option", [&] { (void)ckpt::Store::open("mem:x", {{"io_engine", kNul}}); }}});
  EXPECT_EQ(ckpt::dtype_find("f32\0x"s), std::nullopt);
}

TEST(CppTexts, ALongTextIsNotRepeatedInTheMessage) {
  auto store = ckpt::Store::open("mem:cpp-texts-long");
  try {
    store.remove(std::string(1000, 'x') + kNul);
    FAIL() << "it was taken";
  } catch (const ckpt::Error& error) {
    EXPECT_STREQ(error.what(), "id holds a NUL at byte 1001 of 1003");
  }
}

TEST(CppTexts, AKeyThatHoldsANulIsFoundInATree) {
  const auto tree = ckpt::Tree::parse(R"({"a":1,"a\u0000b":2,"c":[{"a\u0000b":3}]})");
  EXPECT_EQ(tree.at(tree.find(0, "a")).int_value, 1);
  EXPECT_EQ(tree.at(tree.find(0, kNul)).int_value, 2);
  EXPECT_EQ(tree.at(tree.find(tree.find(tree.find(0, "c"), int64_t{0}), kNul)).int_value, 3);
  try {
    tree.find(0, "a\0c"s);
    FAIL() << "a key that is not there was found";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_NOT_FOUND);
    EXPECT_STREQ(error.what(), "node 0 has no key \"a\\0c\"");
  }
  EXPECT_THROW(tree.find(99, kNul), ckpt::Error);
}

TEST(CppTexts, CountedTextsOfATreeMayHoldNuls) {
  auto tree = ckpt::Tree::create();
  tree.begin_dict();
  tree.key(kNul);
  tree.add_text(kNul);
  tree.end();
  const ckpt::Node node = tree.at(tree.find(0, kNul));
  EXPECT_EQ(std::string(node.text, node.text_size), kNul);
}

}  // namespace
