// Second names of files, of every store. What a hard link is beside that: posix_test.cpp.
#include "store_suite.h"

namespace ckpt::store {

TEST_P(NamesSuite, ABorrowedFileHasASecondNameThatNeedsNotTheFirst) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  ASSERT_TRUE(store_->put_if_absent("d/MANIFEST", as_bytes("slot")).ok());
  ASSERT_TRUE(store_->make_directory("e").ok());
  auto borrowed = store_->borrow("d/a", "e/b");
  ASSERT_TRUE(borrowed.ok()) << borrowed.status().message();
  EXPECT_EQ((*borrowed)->file().size(), 4u);
  char text[5] = {};
  EXPECT_TRUE((*borrowed)->file().read_at(0, std::as_writable_bytes(std::span(text, 4))).ok());
  EXPECT_STREQ(text, "four");
  EXPECT_TRUE((*borrowed)->publish().ok());
  borrowed->reset();
  EXPECT_EQ(read_text(*store_, "e/b"), "four");
  ASSERT_TRUE(store_->retire("d", "MANIFEST", as_bytes("removed")).ok());
  EXPECT_EQ(code(store_->open("d/a").status()), "NOT_FOUND");
  EXPECT_EQ(read_text(*store_, "e/b"), "four");
  ASSERT_TRUE(store_->remove("e/b", true).ok());
}

TEST_P(NamesSuite, AFileIsBorrowedTwiceAndDroppedByWhomItIsNot) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  auto first = store_->borrow("d/a", "d/b"), again = store_->borrow("d/a", "d/b");
  ASSERT_TRUE(first.ok() && again.ok());
  (*again)->drop();
  EXPECT_EQ(read_text(*store_, "d/b"), "four") << "another made that name";
  (*first)->drop();
  EXPECT_EQ(code(store_->open("d/b").status()), "NOT_FOUND");
  EXPECT_EQ(read_text(*store_, "d/a"), "four");
}

TEST_P(NamesSuite, ANameThatIsTakenIsForTheBorrowerToLookAt) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  ASSERT_TRUE(store_->put_if_absent("d/b", as_bytes("another")).ok());
  auto borrowed = store_->borrow("d/a", "d/b");
  ASSERT_TRUE(borrowed.ok()) << borrowed.status().message();
  EXPECT_EQ((*borrowed)->file().size(), 7u);
  (*borrowed)->drop();
  EXPECT_EQ(read_text(*store_, "d/b"), "another");
}

TEST_P(StoreSuite, AKeyThatIsNoneIsNotBorrowed) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  for (const char* to : {"d/../b", "/b", ""}) EXPECT_EQ(code(store_->borrow("d/a", to).status()), "INVALID") << to;
  EXPECT_EQ(code(store_->borrow("d//a", "d/b").status()), "INVALID");
}

TEST_P(DirectorySuite, ABorrowedFileIsTheSameFileAndCountsOnce) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  ASSERT_TRUE(store_->make_directory("e").ok());
  ASSERT_TRUE(store_->borrow("d/a", "e/b").ok());
  ASSERT_TRUE(store_->borrow("d/a", "d/c").ok());
  EXPECT_EQ(*store_->bytes_in("d"), 4u);
  const auto first = store_->usage("d"), second = store_->usage("e");
  ASSERT_TRUE(first.ok() && second.ok() && first->size() == 2 && second->size() == 1);
  EXPECT_EQ((*first)[0].links, 3u);
  EXPECT_NE((*first)[0].inode, 0u);
  EXPECT_EQ((*first)[0].inode, (*second)[0].inode);
  EXPECT_EQ((*second)[0].name, "b");
  ASSERT_TRUE(store_->retire("d", "MANIFEST", {}).ok());
  EXPECT_EQ((*store_->usage("e"))[0].links, 1u);
}

TEST_P(DirectorySuite, WhatIsNoFileOrGoesNowhereIsNotBorrowed) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  ASSERT_TRUE(store_->make_directory("d/sub").ok());
  EXPECT_EQ(code(store_->borrow("d/a", "none/b").status()), "NOT_FOUND");
  EXPECT_FALSE(store_->borrow("d/sub", "d/b").ok());
  EXPECT_FALSE(store_->borrow("d/a", "d/sub").ok());
  EXPECT_EQ(names(*store_, "d"), "a sub/");
}

}  // namespace ckpt::store
