// ckpt.hpp as its users have it by default: failures are thrown.
#include "ckpt.hpp"

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

std::vector<float> counted(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

ckpt::Store memory_store(const char* name) { return ckpt::Store::open(std::string("mem:cpp-") + name); }

TEST(CppHandles, WhatIsSavedIsLoaded) {
  auto store = memory_store("round-trip");
  auto session = ckpt::Session::open(store);
  const std::vector<float> w = counted(12);
  const std::array<int64_t, 3> steps = {1, -2, int64_t{1} << 60};
  {
    auto save = ckpt::Save::create(session, "step-1", 1);
    save.add_tensor("w", ckpt::Tensor::of<float>({3, 4}), w);
    save.add_tensor("steps", ckpt::Tensor::of<int64_t>({3}), steps);
    save.add_alias("tied", "w");
    save.add_object("note", "text/plain", CKPT_OBJECT_SHARED, std::string("hello"));
    save.set_attr("project", "cpp");
    save.set_tensor_attr("w", "layout", "oi");
    save.run();
  }
  auto reader = ckpt::Reader::open(store);
  EXPECT_EQ(reader.info().step, 1);
  EXPECT_EQ(reader.tensor_count(), 3u);
  EXPECT_STREQ(reader.tensor("tied").alias_of, "w");
  EXPECT_EQ(reader.attr("project"), "cpp");
  EXPECT_EQ(reader.attr("nothing"), std::nullopt);
  EXPECT_EQ(reader.tensor_attrs("w"), (std::map<std::string, std::string>{{"layout", "oi"}}));
  EXPECT_EQ(reader.tensor_attr("w", "layout"), "oi");

  std::vector<float> w_read(12), half(6);
  std::array<int64_t, 3> steps_read{};
  std::string note(reader.object("note").size, ' ');
  auto load = ckpt::Load::create(reader);
  load.add_tensor("w", ckpt::Tensor::of<float>({3, 4}), w_read);
  load.add_tensor("tied", ckpt::Tensor::of<float>({3, 4}).box({0, 1}, {3, 2}), half);
  load.add_tensor("steps", ckpt::Tensor::of<int64_t>({3}), steps_read);
  load.add_object("note", 0, note);
  load.run();
  EXPECT_EQ(w_read, w);
  EXPECT_EQ(half, (std::vector<float>{2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(steps_read, steps);
  EXPECT_EQ(note, "hello");
}

TEST(CppHandles, AThrownErrorHasStatusMessageAndDetails) {
  auto store = memory_store("errors");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  const std::vector<float> w = counted(4);
  save.add_tensor("w", ckpt::Tensor::of<float>({4}), w);
  save.run();
  auto reader = ckpt::Reader::open(store);
  auto load = ckpt::Load::create(reader);
  std::vector<float> room(5);
  try {
    load.add_tensor("w", ckpt::Tensor::of<float>({5}), room);
    FAIL() << "a wrong shape was taken";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_MISMATCH);
    EXPECT_STREQ(error.status_name(), "MISMATCH");
    EXPECT_NE(std::string(error.what()).find("w"), std::string::npos);
    EXPECT_EQ(error.details().at("tensor"), "w");
  }
  EXPECT_THROW(ckpt::Reader::open(store, "label:none"), ckpt::Error);
}

TEST(CppHandles, AWrongOptionIsToldByTheCallThatGetsIt) {
  try {
    ckpt::Store::open("mem:cpp-options", {{"no_such_option", 1}});
    FAIL() << "an unknown option was taken";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_INVALID);
    EXPECT_NE(std::string(error.what()).find("no_such_option"), std::string::npos);
  }
}

TEST(CppHandles, AnOptionMayBeAnyIntegerThatFits) {
  const std::vector<char> room(1 << 20);
  const ckpt::Options options = {{"staging_bytes", room.size()},  // std::size_t
                                 {"threads", uint32_t{2}},
                                 {"keep_last", 1ll},
                                 {"keep_every", short{1}},
                                 {"wait", true},
                                 {"verify", CKPT_OK}};
  EXPECT_EQ(ckpt::Options::Value(room.size()).integer, 1 << 20);
  EXPECT_EQ(ckpt::Options::Value(int8_t{-1}).integer, -1);
  EXPECT_EQ(ckpt::Options::Value(INT64_MIN).integer, INT64_MIN);
  EXPECT_EQ(ckpt::Options::Value(uint64_t{INT64_MAX}).wrong, "");
  static_assert(!std::is_constructible_v<ckpt::Options::Value, double>);
  EXPECT_TRUE(ckpt::Store::open("mem:cpp-options-taken", {{"threads", std::size_t{2}}}));
}

TEST(CppHandles, AnOptionThatNoSetterTakesIsInvalid) {
  const char* none = nullptr;
  const std::pair<ckpt::Options, const char*> cases[] = {
      {{{"threads", UINT64_MAX}}, "option threads: at most 9223372036854775807 expected, found 18446744073709551615"},
      {{{"io_engine", none}}, "option io_engine: text expected, found a null pointer"},
      {{{none, 1}}, "unknown option \"\"; ckpt_option_at lists them"}};
  for (const auto& [options, message] : cases) {
    try {
      ckpt::Store::open("mem:cpp-options-refused", options);
      FAIL() << "it was taken: " << message;
    } catch (const ckpt::Error& error) {
      EXPECT_EQ(error.status(), CKPT_INVALID);
      EXPECT_STREQ(error.what(), message);
    }
  }
}

TEST(CppHandles, ATensorMadeInOneExpressionMayBeKept) {
  const auto& kept = ckpt::Tensor::of<float>({2, 3}).strides({1, 2}).box({0, 0}, {1, 3}).convert().replica(7, 1, 2);
  static_assert(std::is_same_v<decltype(ckpt::Tensor::of<float>({2}).strides({1})), ckpt::Tensor>);
  EXPECT_EQ(kept.desc().strides[1], 2);
  EXPECT_EQ(kept.desc().extent[1], 3);
  EXPECT_EQ(kept.desc().flags, CKPT_TENSOR_STRIDED | CKPT_TENSOR_CONVERT);
  EXPECT_EQ(kept.desc().replica_group, 7u);
  EXPECT_EQ(ckpt::Tensor::of<float>({6}).flat(2, 3).desc().flat_size, 3);
  EXPECT_EQ(ckpt::Tensor::of<float>({6}).view_offset(4).desc().flat_offset, 4);
  EXPECT_EQ(ckpt::Tensor::of<float>({6}).first_replica().desc().flags, CKPT_TENSOR_FIRST_REPLICA);
  ckpt::Tensor same = kept;
  EXPECT_EQ(&same.convert(), &same);
}

TEST(CppHandles, ShapesThatDoNotFitTheDescriptorAreRefused) {
  auto store = memory_store("shapes");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  const std::vector<float> one(1);
  EXPECT_THROW(save.add_tensor("17d", ckpt::Tensor::of<float>(std::vector<int64_t>(17, 1)), one), ckpt::Error);
  EXPECT_THROW(save.add_tensor("short", ckpt::Tensor::of<float>({2, 2}).box({0}, {1}), one), ckpt::Error);
  EXPECT_THROW(save.add_tensor("long", ckpt::Tensor::of<float>({2}).box({0, 0}, {1, 1}), one), ckpt::Error);
}

TEST(CppHandles, HandlesMayEndInAnyOrder) {
  std::vector<float> w = counted(1000);
  auto job = [&] {
    auto store = memory_store("order");
    auto session = ckpt::Session::open(store);
    auto save = ckpt::Save::create(session, "a");
    save.add_tensor("w", ckpt::Tensor::of<float>({1000}), w);
    return save.start();
  }();
  job.wait_staged();
  job.wait_committed();
  EXPECT_EQ(job.state(), CKPT_JOB_COMMITTED);
  EXPECT_GT(job.stats().bytes_written, 4000u);
}

TEST(CppHandles, StoresListFindCompareVerifyPruneAndRemove) {
  auto store = memory_store("store");
  auto session = ckpt::Session::open(store);
  for (int step = 1; step <= 3; step++) {
    auto save = ckpt::Save::create(session, "step-" + std::to_string(step), step);
    const std::vector<float> w = {1.0f, static_cast<float>(step)};
    save.add_tensor("w", ckpt::Tensor::of<float>({2}), w);
    save.run();
  }
  EXPECT_EQ(store.list().size(), 3u);
  {
    auto one = ckpt::Reader::open(store, "step:1"), three = ckpt::Reader::open(store, "latest");
    EXPECT_EQ(one.diff(three).size(), 1u);
    EXPECT_TRUE(one.diff(one).empty());
    auto verify = three.verify({{"verify_mode", "full"}});
    verify.wait_done();
    EXPECT_TRUE(verify.report().empty());
  }
  store.remove(store.find("step:2").id);
  EXPECT_EQ(store.list().size(), 2u);
  const auto would_go = store.prune({{"keep_last", 1}, {"dry_run", 1}});
  ASSERT_EQ(would_go.size(), 1u);
  EXPECT_STREQ(would_go.at(0).name, store.find("step:1").id);
  EXPECT_EQ(store.prune({{"keep_last", 1}}).size(), 1u);
  ASSERT_EQ(store.list().size(), 1u);
  EXPECT_EQ(store.list()[0].step, 3);
}

TEST(CppHandles, AMappedViewNeedsNoCopy) {
  auto store = memory_store("map");
  auto session = ckpt::Session::open(store);
  const std::vector<float> w = counted(64);
  auto save = ckpt::Save::create(session, "a");
  save.add_tensor("w", ckpt::Tensor::of<float>({64}), w);
  save.run();
  auto reader = ckpt::Reader::open(store);
  const ckpt::Memory view = reader.map("w");
  ASSERT_EQ(view.bytes, 256u);
  EXPECT_EQ(std::vector<float>(static_cast<const float*>(view.data), static_cast<const float*>(view.data) + 64), w);
}

TEST(CppHandles, TreesKeepTheirStructure) {
  auto store = memory_store("tree");
  auto session = ckpt::Session::open(store);
  auto tree = ckpt::Tree::create();
  tree.begin_dict();
  tree.key("epoch");
  tree.add_int(3);
  tree.key(7);
  tree.begin_tuple();
  tree.add_float(0.5);
  tree.add_text("seven");
  tree.end();
  tree.key("w");
  const std::string name = tree.add_tensor();
  tree.end();
  EXPECT_EQ(name, "w");
  auto save = ckpt::Save::create(session, "a");
  const std::vector<float> w = counted(2);
  save.add_tensor(name, ckpt::Tensor::of<float>({2}), w);
  save.add_tree(tree);
  save.run();

  auto read = ckpt::Reader::open(store).tree();
  EXPECT_EQ(std::string(read.json()), std::string(tree.json()));
  EXPECT_EQ(read.at(read.find(0, "epoch")).int_value, 3);
  const auto tuple = read.at(read.find(0, 7));
  EXPECT_EQ(tuple.kind, CKPT_NODE_TUPLE);
  EXPECT_EQ(tuple.child_count, 2u);
  EXPECT_STREQ(read.at(read.find(0, "w")).text, "w");
}

TEST(CppHandles, DtypesFollowTheElementType) {
  EXPECT_EQ(ckpt::dtype_of<float>(), CKPT_DTYPE_F32);
  EXPECT_EQ(ckpt::dtype_of<const double>(), CKPT_DTYPE_F64);
  EXPECT_EQ(ckpt::dtype_of<int8_t>(), CKPT_DTYPE_I8);
  EXPECT_EQ(ckpt::dtype_of<uint64_t>(), CKPT_DTYPE_U64);
  EXPECT_EQ(ckpt::dtype_of<bool>(), CKPT_DTYPE_BOOL);
  EXPECT_EQ(ckpt::dtype_of<std::complex<float>>(), CKPT_DTYPE_C64);
}

}  // namespace
