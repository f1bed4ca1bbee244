// What came with the opening of a file on a server is read from there, and from the server if it did not match.
#include "store/tail_reader.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ckpt::store {
namespace {

// A file of 100 bytes, each its offset. A bit of the last ten flipped on the way.
class Tail : public TailReader {
 public:
  Tail() {
    EXPECT_TRUE(fetch(90, tail_).ok());
    tail_[5] ^= std::byte{1};
    fetched_ = 0;
  }
  uint64_t size() const override { return 100; }
  std::string path() const override { return "file"; }
  Bytes tail() const override { return tail_; }
  Status fetch(uint64_t offset, MutableBytes out) const override {
    for (std::byte& byte : out) byte = static_cast<std::byte>(offset++);
    fetched_ += out.size();
    return Ok();
  }
  uint64_t fetched() const { return std::exchange(fetched_, 0); }

 private:
  std::vector<std::byte> tail_ = std::vector<std::byte>(10);
  mutable uint64_t fetched_ = 0;
};

TEST(TailReader, WhatDidNotMatchIsAskedOfTheServerThoughItIsHere) {
  const Tail file;
  std::vector<std::byte> found(20), right(20);
  ASSERT_TRUE(file.fetch(80, right).ok());
  EXPECT_EQ(file.fetched(), 20u);
  ASSERT_TRUE(file.read_at(80, found).ok());
  EXPECT_EQ(file.fetched(), 10u) << "the last bytes are here";
  EXPECT_NE(found, right);
  ASSERT_TRUE(file.read_again(80, found).ok());
  EXPECT_EQ(file.fetched(), 20u);
  EXPECT_EQ(found, right);
}

TEST(TailReader, ReadsThatEndBehindTheFileAreRefused) {
  const Tail file;
  std::vector<std::byte> out(11);
  EXPECT_FALSE(file.read_at(90, out).ok());
  EXPECT_FALSE(file.read_again(90, out).ok());
  EXPECT_FALSE(file.read_again(UINT64_MAX, out).ok());
  EXPECT_TRUE(file.read_again(100, std::span(out).first(0)).ok());
}

}  // namespace
}  // namespace ckpt::store
