#include "base/text.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>

namespace ckpt {
namespace {

// What libstdc++ says, whose from_chars reads all of them.
std::optional<double> as_charconv(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

TEST(Text, ANumberIsWhatFromCharsTakes) {
  for (const char* text :
       {"0",   "1.5",   "-2e9", ".5",       "5.",  "1e+16", "1e-7",   "0.1", "5e-324", "1.7976931348623157e308",
        "inf", "-inf",  "INF",  "infinity", "",    " 1",    "1 ",     "+1",  "0x10",   "1x",
        "1,5", "1.5.2", "-",    ".",        "-+1", "1e999", "1e-999", "i",   "nanx"})
    EXPECT_EQ(to_double(text), as_charconv(text)) << '"' << text << '"';
  EXPECT_TRUE(std::isnan(to_double("nan").value_or(0)));
}

TEST(Text, ANumberEndsWhereItsTextEnds) { EXPECT_EQ(to_double(std::string_view("1.25", 3)), 1.2); }

}  // namespace
}  // namespace ckpt
