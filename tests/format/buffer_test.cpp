#include "format/buffer.h"

#include <gtest/gtest.h>

namespace ckpt::format {
namespace {

std::string_view text_of(const Buffer& buffer) { return as_text(buffer); }

TEST(Buffer, KeepsItsBytesWhileItGrowsFromEmptyToHugePages) {
  Buffer buffer;
  std::vector<std::byte> expected;
  for (size_t size = 0; expected.size() < (size_t{9} << 20); size = size * 2 + 1) {
    std::vector<std::byte> piece(size, static_cast<std::byte>(size));
    buffer.append(piece);
    expected.insert(expected.end(), piece.begin(), piece.end());
    ASSERT_TRUE(std::equal(buffer.begin(), buffer.end(), expected.begin(), expected.end())) << expected.size();
  }
}

TEST(Buffer, TakesTheRoomBehindItsBytesBeforeItMoves) {
  auto* memory = static_cast<std::byte*>(allocate_large(64));
  std::memcpy(memory + 16, "index", 5);
  Buffer buffer(memory, 64, 16, 5);
  buffer.append(as_bytes(std::string(43, '.')));
  EXPECT_EQ(buffer.data(), memory + 16);
  EXPECT_EQ(text_of(buffer), "index" + std::string(43, '.'));
  buffer.append(as_bytes("!"));
  EXPECT_EQ(text_of(buffer), "index" + std::string(43, '.') + "!");
}

TEST(Buffer, MovesAndIsACopyOfWhatItWasGiven) {
  std::string source = "bytes";
  Buffer first{as_bytes(source)};
  source[0] = 'X';
  Buffer second = std::move(first);
  EXPECT_EQ(text_of(second), "bytes");
  second = Buffer();
  EXPECT_EQ(second.size(), 0u);
}

}  // namespace
}  // namespace ckpt::format
