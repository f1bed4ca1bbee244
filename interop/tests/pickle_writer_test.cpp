// What the writer of pickles writes, read back by the machine that reads them, and by its bytes where others are
// particular about those.
#include "interop/src/pickle/writer.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "interop/src/pickle/pickle.h"

namespace ckpt::interop {
namespace {

// A pickle and its values; the text must live as long.
struct Read {
  std::string bytes;
  Result<PickleDocument> document;
  explicit Read(PickleWriter& writer) : bytes(writer.finish()), document(parse_pickle(as_bytes(bytes), "test")) {}
  const PickleValue& root() const { return (*document)[document->root()]; }
  const PickleValue& item(size_t i) const { return (*document)[root().items[i]]; }
};

#define ASSERT_PICKLE(read) ASSERT_TRUE((read).document.ok()) << (read).document.status().message()

TEST(PickleWriter, NumbersComeBackExactly) {
  const std::vector<int64_t> integers = {0,           1,           -1,        255,        256,
                                         65535,       65536,       -65536,    2147483647, 2147483648,
                                         -2147483648, -2147483649, 1LL << 40, INT64_MAX,  INT64_MIN};
  const std::vector<double> reals = {0.0, -0.0, 0.1, -1e300, 5e-324, std::numeric_limits<double>::infinity()};
  PickleWriter writer;
  writer.begin_list();
  for (int64_t value : integers) writer.integer(value);
  for (double value : reals) writer.real(value);
  writer.real(std::nan(""));
  writer.end_list();
  const Read read(writer);
  ASSERT_PICKLE(read);
  ASSERT_EQ(read.root().items.size(), integers.size() + reals.size() + 1);
  for (size_t i = 0; i < integers.size(); i++) {
    EXPECT_EQ(read.item(i).kind, PickleKind::kInt);
    EXPECT_EQ(read.item(i).integer, integers[i]);
  }
  for (size_t i = 0; i < reals.size(); i++) {
    EXPECT_EQ(read.item(integers.size() + i).real, reals[i]);
    EXPECT_EQ(std::signbit(read.item(integers.size() + i).real), std::signbit(reals[i]));
  }
  EXPECT_TRUE(std::isnan(read.item(integers.size() + reals.size()).real));
}

TEST(PickleWriter, BigIntegersComeBackInTheirDigits) {
  const std::vector<std::string> digits = {"9223372036854775808",
                                           "-9223372036854775809",
                                           "18446744073709551615",
                                           "18446744073709551616",
                                           "-18446744073709551616",
                                           "340282366920938463463374607431768211456",
                                           "-340282366920938463463374607431768211456",
                                           "-340282366920938463463374607431768211457",
                                           "1" + std::string(600, '0')};
  PickleWriter writer;
  writer.begin_list();
  for (const std::string& text : digits) ASSERT_TRUE(writer.big_integer(text).ok());
  writer.end_list();
  const Read read(writer);
  ASSERT_PICKLE(read);
  ASSERT_EQ(read.root().items.size(), digits.size());
  for (size_t i = 0; i < digits.size(); i++) EXPECT_EQ(read.item(i).text, digits[i]);
}

TEST(PickleWriter, BigIntegersThatFitComeBackAsIntegers) {
  PickleWriter writer;
  writer.begin_list();
  for (const char* text : {"0", "-0", "-1", "-128", "128", "-256", "-00000000000000000000000000000000000255"})
    ASSERT_TRUE(writer.big_integer(text).ok());
  writer.end_list();
  const Read read(writer);
  ASSERT_PICKLE(read);
  const int64_t expected[] = {0, 0, -1, -128, 128, -256, -255};
  for (size_t i = 0; i < std::size(expected); i++) EXPECT_EQ(read.item(i).integer, expected[i]);
}

TEST(PickleWriter, IntegersThatNobodyReadsAreRefused) {
  PickleWriter writer;
  EXPECT_EQ(writer.big_integer("1" + std::string(614, '0')).code(), CKPT_UNSUPPORTED);
  EXPECT_EQ(writer.big_integer(std::string(1'000'000, '9')).code(), CKPT_UNSUPPORTED);
  EXPECT_EQ(writer.big_integer("12x").code(), CKPT_INVALID);
  EXPECT_EQ(writer.big_integer("-").code(), CKPT_INVALID);
}

TEST(PickleWriter, TextAndBytesComeBackAndTextIsWrittenOnce) {
  const std::string bytes("\x00\x7f\x80\xff\n", 5), text = "exp_avg\xc3\xa9";
  PickleWriter writer;
  writer.begin_list();
  ASSERT_TRUE(writer.text(text).ok());
  ASSERT_TRUE(writer.bytes(bytes).ok());
  ASSERT_TRUE(writer.text(text).ok());
  ASSERT_TRUE(writer.bytes("").ok());
  ASSERT_TRUE(writer.text("").ok());
  writer.end_list();
  const Read read(writer);
  ASSERT_PICKLE(read);
  EXPECT_EQ(read.item(0).text, text);
  EXPECT_EQ(read.item(1).kind, PickleKind::kBytes);
  EXPECT_EQ(read.item(1).text, bytes);
  EXPECT_EQ(read.item(2).kind, PickleKind::kText);
  EXPECT_EQ(read.item(2).text, text);
  EXPECT_EQ(read.item(3).text, "");
  EXPECT_EQ(read.item(4).text, "");
  EXPECT_EQ(read.bytes.find(text, read.bytes.find(text) + 1), std::string::npos);
}

TEST(PickleWriter, ObjectsComeBackByTheirClasses) {
  PickleWriter writer;
  writer.begin_list();
  for (int i = 0; i < 2; i++) {
    writer.ordered_dict();
    writer.begin_items();
    ASSERT_TRUE(writer.text("w").ok());
    writer.integer(i);
    writer.end_items();
  }
  writer.end_list();
  const Read read(writer);
  ASSERT_PICKLE(read);
  for (size_t i = 0; i < 2; i++) {
    EXPECT_EQ(read.document->class_of(read.root().items[i]), "collections OrderedDict");
    EXPECT_NE(read.document->find(read.root().items[i], "w"), kNoValue);
  }
  EXPECT_EQ(read.bytes.find("OrderedDict", read.bytes.find("OrderedDict") + 1), std::string::npos);
}

// More than 256 texts need the long form of the memo.
TEST(PickleWriter, MemoOfManyTextsIsReadBack) {
  PickleWriter writer;
  writer.begin_list();
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 1000; i++) ASSERT_TRUE(writer.text("name" + std::to_string(i)).ok());
  writer.end_list();
  const Read read(writer);
  ASSERT_PICKLE(read);
  ASSERT_EQ(read.root().items.size(), 2000u);
  for (size_t i = 0; i < 2000; i++) EXPECT_EQ(read.item(i).text, "name" + std::to_string(i % 1000));
}

}  // namespace
}  // namespace ckpt::interop
