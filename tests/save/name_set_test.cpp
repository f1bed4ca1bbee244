#include "save/name_set.h"

#include <gtest/gtest.h>

#include <string>

namespace ckpt::save {
namespace {

TEST(NameSet, KeepsACopyOfEachNameAndRefusesItTheSecondTime) {
  std::pmr::monotonic_buffer_resource memory;
  NameSet names(&memory);
  std::string text = "w";
  const std::string_view kept = names.insert(text).first.name();
  text = "v";
  EXPECT_EQ(kept, "w");
  EXPECT_FALSE(names.insert("w").second);
  EXPECT_TRUE(names.insert(text).second);
}

TEST(NameSet, FindsWhatWasInsertedHoweverManyThereAre) {
  std::pmr::monotonic_buffer_resource memory;
  NameSet names(&memory);
  EXPECT_FALSE(names.contains("t0"));
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; i++) ASSERT_TRUE(names.insert("t" + std::to_string(i)).second);
  for (int i = 0; i < kCount; i++) {
    ASSERT_TRUE(names.contains("t" + std::to_string(i)));
    ASSERT_FALSE(names.insert("t" + std::to_string(i)).second);
  }
  EXPECT_FALSE(names.contains("t" + std::to_string(kCount)));
}

TEST(NameSet, WhatItForgetsItsTextOutlives) {
  std::pmr::monotonic_buffer_resource memory;
  NameSet names(&memory);
  const std::string_view kept = names.insert("w").first.name();
  names.forget();
  EXPECT_EQ(kept, "w");
  EXPECT_FALSE(names.contains("w"));
}

}  // namespace
}  // namespace ckpt::save
