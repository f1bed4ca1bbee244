#include "cli/table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/progress.h"

namespace cli {
namespace {

TEST(Table, ColumnsAreAsWideAsTheirWidestCell) {
  Table table({{"NAME"}, {"SIZE", Align::kRight}, {"STATE"}});
  table.add({"a", "1", "open"});
  table.add({"longer", "22222", ""});
  EXPECT_EQ(table.render(0),
            "NAME     SIZE  STATE\n"
            "a           1  open\n"
            "longer  22222\n");
}

TEST(Table, CodePointsCountAsOneColumn) {
  Table table({{"NAME"}, {"X"}});
  table.add({"größe", "1"});
  table.add({"abcde", "2"});
  EXPECT_EQ(table.render(0), "NAME   X\ngröße  1\nabcde  2\n");
}

TEST(Table, OnlyFlexibleColumnsAreCutToTheWidth) {
  Table table({{"NAME", Align::kLeft, true}, {"BYTES", Align::kRight}});
  table.add({"model.layers.0.attention.weight", "123456789"});
  for (size_t width = 23; width < 60; ++width) {
    std::string text = table.render(width);
    size_t line = text.find('\n');
    EXPECT_LE(text_width(text.substr(line + 1)) - 1, std::max<size_t>(width, 23)) << width;
    EXPECT_NE(text.find("123456789"), std::string::npos);
  }
}

TEST(Table, WithoutAWidthNothingIsCut) {
  Table table({{"NAME", Align::kLeft, true}});
  table.add({std::string(500, 'x')});
  EXPECT_EQ(table.render(0), "NAME\n" + std::string(500, 'x') + "\n");
}

TEST(Table, CutMiddleKeepsBothEndsAndTheWidth) {
  EXPECT_EQ(cut_middle("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(cut_middle("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(cut_middle("abcdefghij", 4), "ab…j");
  EXPECT_EQ(cut_middle("äöüäöüäöü", 5), "äö…öü");
}

TEST(Text, BytesAndRatesHaveTheirUnits) {
  EXPECT_EQ(counted(1, "part"), "1 part");
  EXPECT_EQ(counted(0, "part"), "0 parts");
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(uint64_t{200} << 30), "200 GiB");
  EXPECT_EQ(human_rate(3.14e9), "3.1 GB/s");
  EXPECT_EQ(human_duration(5), "5 s");
  EXPECT_EQ(human_duration(3 * 86400), "3 d");
}

TEST(Text, EscapedTextHoldsNoControlCharactersAndKeepsUtf8) {
  EXPECT_EQ(escaped("größe…"), "größe…");
  EXPECT_EQ(escaped("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(escaped("\x1b[31m"), "\\x1b[31m");
  EXPECT_EQ(escaped("\xff\xc2"), "\\xff\\xc2");
  EXPECT_EQ(escaped("\xc2\x9b"), "\\xc2\\x9b");
}

TEST(Progress, LineSaysShareRateAndTimeLeft) {
  EXPECT_EQ(progress_line(0, 1 << 20, 0), "[------------------------]   0 %  0 B of 1.0 MiB");
  EXPECT_EQ(progress_line(5000000, 10000000, 1),
            "[############------------]  50 %  4.8 MiB of 9.5 MiB  5.0 MB/s  1 s left");
  EXPECT_EQ(progress_line(0, 0, 9), "[########################] 100 %  0 B of 0 B");
}

}  // namespace
}  // namespace cli
