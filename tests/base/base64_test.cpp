#include "base/base64.h"

#include <gtest/gtest.h>

#include <random>

namespace ckpt {
namespace {

std::string encoded(std::string_view bytes) {
  std::string out;
  append_base64(as_bytes(bytes), &out);
  return out;
}

TEST(Base64, IsThatOfRfc4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encoded("\xfb\xff\xfe"), "+//+");
}

TEST(Base64, AnyBytesComeBack) {
  std::mt19937 random(1);
  for (size_t size = 0; size < 200; size++) {
    std::string bytes;
    for (size_t i = 0; i < size; i++) bytes += static_cast<char>(random());
    EXPECT_EQ(parse_base64(encoded(bytes)), bytes);
  }
}

TEST(Base64, AnotherSpellingIsRefused) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "=g==", "Z===", "====", "Zm 9v", "Zm-_", "Zg=g"})
    EXPECT_FALSE(parse_base64(text).has_value()) << text;
}

}  // namespace
}  // namespace ckpt
