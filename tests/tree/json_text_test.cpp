// JSON as events: what numbers become, how deep documents may nest, and text that comes back unchanged.
#include "tree/json_text.h"
#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace ckpt::tree {
namespace {

// Writes down its events.
class Log final : public JsonEvents {
 public:
  std::string text;
  Status begin_object() override { return note("{"); }
  Status end_object() override { return note("}"); }
  Status begin_array() override { return note("["); }
  Status end_array() override { return note("]"); }
  Status key(std::string key) override { return note("key:" + key); }
  Status string(std::string value) override { return note("string:" + value); }
  Status number(uint64_t value) override { return note("number:" + std::to_string(value)); }
  Status null() override { return note("null"); }
  Status boolean(bool value) override { return note(value ? "yes" : "no"); }
  Status negative(int64_t value) override { return note("negative:" + std::to_string(value)); }
  Status big_integer(std::string_view digits) override { return note("big:" + std::string(digits)); }
  Status real(double value, std::string_view) override {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.17g", value);
    return note(std::string("real:") + digits);
  }

 private:
  Status note(const std::string& event) {
    text += event + " ";
    return Ok();
  }
};

std::string events_of(std::string_view json) {
  Log log;
  Status status = parse_json(json, log);
  return status.ok() ? log.text : std::string(status_name(status.code())) + " ";
}

TEST(JsonText, EveryNumberComesAsWhatItIs) {
  EXPECT_EQ(events_of("0"), "number:0 ");
  EXPECT_EQ(events_of("18446744073709551615"), "number:18446744073709551615 ");
  EXPECT_EQ(events_of("18446744073709551616"), "big:18446744073709551616 ");
  EXPECT_EQ(events_of("-9223372036854775808"), "negative:-9223372036854775808 ");
  EXPECT_EQ(events_of("-9223372036854775809"), "big:-9223372036854775809 ");
  EXPECT_EQ(events_of("1.0"), "real:1 ");
  EXPECT_EQ(events_of("-0.0"), "real:-0 ");
  EXPECT_EQ(events_of("1e2"), "real:100 ");
  EXPECT_EQ(events_of("5e-324"), "real:4.9406564584124654e-324 ");
  EXPECT_EQ(events_of("[null,true,false]"), "[ null yes no ] ");
}

TEST(JsonText, WhatIsNoJsonIsRefused) {
  for (const char* text :
       {"", "[", "1e999", "nan", "+1", "01", "\"\xff\"", "\"\\ud800\"", "{}{}", "\xef\xbb\xbf{}", "[1,]"})
    EXPECT_EQ(events_of(text), "FORMAT ") << text;
  EXPECT_EQ(events_of(std::string_view("{}\0", 3)), "FORMAT ");
}

TEST(JsonText, DepthIsLimitedWhereTheCallerSays) {
  auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  Log log;
  EXPECT_TRUE(parse_json(nested(32), log).ok());
  EXPECT_EQ(parse_json(nested(33), log).code(), CKPT_FORMAT);
  EXPECT_TRUE(parse_json(nested(601), log, 601).ok());
  EXPECT_EQ(parse_json(nested(602), log, 601).code(), CKPT_FORMAT);
}

TEST(JsonText, QuotedTextComesBack) {
  std::string text;
  for (int c = 0; c < 0x80; c++) text += static_cast<char>(c);
  text += "äß→😀\xc2\x85";
  for (const std::string& some : {text, std::string(), std::string("plain"), std::string("\"")}) {
    EXPECT_EQ(events_of(json_quote(some)), "string:" + some + " ");
    EXPECT_EQ(events_of(json_quote_ascii(some)), "string:" + some + " ");
  }
}

}  // namespace
}  // namespace ckpt::tree
