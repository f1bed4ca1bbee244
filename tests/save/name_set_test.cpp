#include "save/name_set.h"

#include <gtest/gtest.h>

#include <string>

namespace ckpt::save {
namespace {

TEST(NameSet, KeepsACopyOfEachNameAndRefusesItTheSecondTime) {
  std::pmr::monotonic_buffer_resource memory;
  NameSet names(&memory);
  std::string text = "w";
  std::string_view kept = names.insert(text);
  text = "v";
  EXPECT_EQ(kept, "w");
  EXPECT_TRUE(names.insert("w").empty());
  EXPECT_EQ(names.insert(text), "v");
}

TEST(NameSet, FindsWhatWasInsertedHoweverManyThereAre) {
  std::pmr::monotonic_buffer_resource memory;
  NameSet names(&memory);
  EXPECT_FALSE(names.contains("t0"));
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; i++) ASSERT_FALSE(names.insert("t" + std::to_string(i)).empty());
  for (int i = 0; i < kCount; i++) {
    ASSERT_TRUE(names.contains("t" + std::to_string(i)));
    ASSERT_TRUE(names.insert("t" + std::to_string(i)).empty());
  }
  EXPECT_FALSE(names.contains("t" + std::to_string(kCount)));
}

TEST(NameSet, WhatItForgetsItsTextOutlives) {
  std::pmr::monotonic_buffer_resource memory;
  NameSet names(&memory);
  std::string_view kept = names.insert("w");
  names.forget();
  EXPECT_EQ(kept, "w");
  EXPECT_FALSE(names.contains("w"));
}

}  // namespace
}  // namespace ckpt::save
