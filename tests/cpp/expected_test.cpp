// ckpt.hpp with CKPT_HPP_EXPECTED: failures are returned, nothing is thrown. In one program with the throwing form.
#define CKPT_HPP_EXPECTED
#include "ckpt.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace {

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

static_assert(!std::is_copy_constructible_v<ckpt::Store> && std::is_nothrow_move_constructible_v<ckpt::Store>);

}  // namespace
