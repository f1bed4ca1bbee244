#include "base/strformat.h"

#include <gtest/gtest.h>

namespace ckpt {
namespace {

TEST(Strformat, PutsEachArgumentIntoItsPlace) {
  const std::string name = "w";
  EXPECT_EQ(strformat("rank {} of {}: {} \"{}\" {}", 3u, int64_t{-4}, 'x', name, std::string_view("tail")),
            "rank 3 of -4: x \"w\" tail");
  EXPECT_EQ(strformat("{} {} {}", UINT64_MAX, INT64_MIN, uint8_t{7}), "18446744073709551615 -9223372036854775808 7");
  EXPECT_EQ(strformat("{}{}", true, 0.5), "10.5");
}

TEST(Strformat, PadsAndWritesHexadecimal) {
  EXPECT_EQ(strformat("0x{:04x} {:08x} {:02X} {:x} {:03} [{:3}]", 0x2b, 0xdeadbeefu, 10, 255u, 7, 5),
            "0x002b deadbeef 0A ff 007 [  5]");
}

TEST(Strformat, DoubledBracesAreBracesAndANullTextIsNamed) {
  EXPECT_EQ(strformat("{{{}}} {}", 1, static_cast<const char*>(nullptr)), "{1} (null)");
}

}  // namespace
}  // namespace ckpt
