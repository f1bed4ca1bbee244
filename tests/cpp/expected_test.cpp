// ckpt.hpp with CKPT_HPP_EXPECTED: failures are returned, nothing is thrown. In one program with the throwing form, but
// compiled as C++17 without exceptions (../CMakeLists.txt).
#define CKPT_HPP_EXPECTED
#include "ckpt.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#if defined(__cpp_exceptions) || __cplusplus != 201703L
#error "compile it with -std=c++17 -fno-exceptions"
#endif

namespace {

const std::string kNul("a\0b", 3);

TEST(CppExpected, WhatIsSavedIsLoaded) {
  auto store = ckpt::Store::open("mem:cpp-expected");
  ASSERT_TRUE(store);
  auto session = ckpt::Session::open(*store);
  ASSERT_TRUE(session) << session.error().what();
  auto save = ckpt::Save::create(*session, "a", 5);
  ASSERT_TRUE(save);
  std::vector<float> w = {1, 2, 3};
  ASSERT_TRUE(save->add_tensor("w", ckpt::Tensor::of<float>({3}), w));
  ASSERT_TRUE(save->run());
  auto reader = ckpt::Reader::open(*store);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->info()->step, 5);
  std::vector<float> read(3);
  auto load = ckpt::Load::create(*reader);
  ASSERT_TRUE(load);
  ASSERT_TRUE(load->add_tensor("w", ckpt::Tensor::of<float>({3}), read));
  ASSERT_TRUE(load->run());
  EXPECT_EQ(read, w);
  EXPECT_EQ(reader->read<float>("w").value(), w);
  EXPECT_EQ(reader->read<double>("w").error().status(), CKPT_MISMATCH);
  const auto tensors = reader->tensors();
  EXPECT_STREQ((*tensors.begin()).name, "w");
}

TEST(CppExpected, AFailureIsReturnedWithItsFacts) {
  auto store = ckpt::Store::open("mem:cpp-expected-empty");
  ASSERT_TRUE(store);
  auto reader = ckpt::Reader::open(*store, "label:none");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().status(), CKPT_NOT_FOUND);
  auto refused = ckpt::Store::open("mem:x", {{"threads", "four"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status(), CKPT_INVALID);
}

TEST(CppExpected, WhatTheHeaderItselfRefusesIsReturned) {
  auto store = ckpt::Store::open("mem:cpp-expected-refused").value();
  auto session = ckpt::Session::open(store).value();
  auto save = ckpt::Save::create(session, "a").value();
  const std::vector<double> doubles(4);
  EXPECT_EQ(ckpt::Store::open(kNul).error().status(), CKPT_INVALID);
  EXPECT_EQ(save.set_attr("k", kNul).error().status(), CKPT_INVALID);
  EXPECT_EQ(save.add_tensor("w", ckpt::Tensor::of<float>({4}), doubles).error().status(), CKPT_INVALID);
  EXPECT_EQ(ckpt::Store::open("mem:x", {{"threads", UINT64_MAX}}).error().status(), CKPT_INVALID);
  const auto tree = ckpt::Tree::parse(R"({"a\u0000b":2})").value();
  EXPECT_EQ(tree.at(tree.find(0, kNul).value()).value().int_value, 2);
  EXPECT_EQ(tree.find(0, kNul + "c").error().status(), CKPT_NOT_FOUND);
  EXPECT_EQ(tree.root()->find(kNul)->as_int().value(), 2);
  EXPECT_EQ((*tree.root())["c"].error().status(), CKPT_NOT_FOUND);
  EXPECT_EQ(tree.root()->as_text().error().status(), CKPT_MISMATCH);
}

TEST(CppExpected, ValueGivesWhatIsThereAndElseEndsTheProgramWithTheReason) {
  auto store = ckpt::Store::open("mem:cpp-expected-value");
  EXPECT_EQ(store.value().get(), store->get());
  const ckpt::Store taken = std::move(store).value();
  EXPECT_TRUE(taken);
  const ckpt::Expected<void> nothing(taken.find("latest").error());
  EXPECT_DEATH((void)ckpt::Store::open(kNul).value(), "ckpt::Expected::value\\(\\): INVALID: uri holds a NUL");
  EXPECT_DEATH(nothing.value(), "ckpt::Expected::value\\(\\): NOT_FOUND: ");
}

static_assert(!std::is_copy_constructible_v<ckpt::Store> && std::is_nothrow_move_constructible_v<ckpt::Store>);

}  // namespace
