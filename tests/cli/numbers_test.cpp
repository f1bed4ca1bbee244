// Decoding and printing elements: reference values of each dtype. That a text is nearest to its own number, for all
// patterns of the floats of 8 and 16 bits: scenario_tables.sh.
#include "cli/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace cli {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), std::data(values), out.size());
  return out;
}

template <typename T>
std::string text_of(int32_t dtype, T pattern) {
  return number_text(dtype, bytes_of<T>({pattern}), 0);
}

double value_of(int32_t dtype, uint32_t pattern) { return decode_float(*float_format(dtype), pattern); }

TEST(Numbers, SmallFloatsDecodeToTheirReferenceValues) {
  struct Case {
    int32_t dtype;
    uint32_t pattern;
    double value;
  };
  const Case cases[] = {
      {CKPT_DTYPE_F16, 0x3c00, 1.0},
      {CKPT_DTYPE_F16, 0x7bff, 65504.0},
      {CKPT_DTYPE_F16, 0x0001, 5.9604644775390625e-08},
      {CKPT_DTYPE_BF16, 0x3f80, 1.0},
      {CKPT_DTYPE_BF16, 0xc040, -3.0},
      {CKPT_DTYPE_BF16, 0x7f7f, 3.3895313892515355e+38},
      {CKPT_DTYPE_F8_E4M3FN, 0x7e, 448.0},
      {CKPT_DTYPE_F8_E4M3FN, 0x01, 0.001953125},
      {CKPT_DTYPE_F8_E5M2, 0x7b, 57344.0},
      {CKPT_DTYPE_F8_E5M2, 0x01, 1.52587890625e-05},
      {CKPT_DTYPE_F8_E4M3, 0x77, 240.0},
      {CKPT_DTYPE_F8_E3M4, 0x6f, 15.5},
      {CKPT_DTYPE_F8_E4M3FNUZ, 0x7f, 240.0},
      {CKPT_DTYPE_F8_E5M2FNUZ, 0x7f, 57344.0},
      {CKPT_DTYPE_F8_E4M3B11FNUZ, 0x7f, 30.0},
      {CKPT_DTYPE_F6_E2M3FN, 0x1f, 7.5},
      {CKPT_DTYPE_F6_E3M2FN, 0x1f, 28.0},
      {CKPT_DTYPE_F4_E2M1FN, 0x7, 6.0},
      {CKPT_DTYPE_F4_E2M1FN, 0xf, -6.0},
      {CKPT_DTYPE_F4_E2M1FN, 0x1, 0.5},
  };
  for (const Case& c : cases) EXPECT_EQ(value_of(c.dtype, c.pattern), c.value) << c.dtype << " " << c.pattern;
}

TEST(Numbers, SpecialPatternsFollowTheFormat) {
  EXPECT_TRUE(std::isinf(value_of(CKPT_DTYPE_F16, 0x7c00)));
  EXPECT_TRUE(std::isnan(value_of(CKPT_DTYPE_BF16, 0x7fc0)));
  EXPECT_TRUE(std::isnan(value_of(CKPT_DTYPE_F8_E4M3FN, 0x7f)));
  EXPECT_TRUE(std::isnan(value_of(CKPT_DTYPE_F8_E4M3FN, 0xff)));
  EXPECT_EQ(value_of(CKPT_DTYPE_F8_E4M3FN, 0x78), 256.0);
  EXPECT_TRUE(std::isinf(value_of(CKPT_DTYPE_F8_E5M2, 0xfc)));
  EXPECT_TRUE(std::isnan(value_of(CKPT_DTYPE_F8_E5M2FNUZ, 0x80)));
  EXPECT_TRUE(std::isnan(value_of(CKPT_DTYPE_F8_E4M3B11FNUZ, 0x80)));
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_F8_E8M0FNU, 0xff), "nan");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_F8_E8M0FNU, 127), "1.0");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_F8_E8M0FNU, 130), "8.0");
}

TEST(Numbers, FloatsPrintWithTheFewestDigits) {
  EXPECT_EQ(text_of<float>(CKPT_DTYPE_F32, 0.1f), "0.1");
  EXPECT_EQ(text_of<float>(CKPT_DTYPE_F32, -2.0f), "-2.0");
  EXPECT_EQ(text_of<float>(CKPT_DTYPE_F32, 1e30f), "1e+30");
  EXPECT_EQ(text_of<double>(CKPT_DTYPE_F64, 0.1), "0.1");
  EXPECT_EQ(text_of<double>(CKPT_DTYPE_F64, -INFINITY), "-inf");
  EXPECT_EQ(text_of<float>(CKPT_DTYPE_F32, NAN), "nan");
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE_F16, 0x2e66), "0.1");
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE_BF16, 0x3dcd), "0.1");
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE_BF16, 0x8000), "-0.0");
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE_BF16, 0x3fc0), "1.5");
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE_BF16, 0x7f7f), "3.39e+38");
}

TEST(Numbers, WholeNumbersArePrintedExactly) {
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE_F16, 0x7bff), "65504.0");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_F8_E4M3FN, 0xfe), "-448.0");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_F8_E5M2, 0x7b), "57344.0");
}

TEST(Numbers, IntegersKeepTheirSignAndWidth) {
  EXPECT_EQ(text_of<int8_t>(CKPT_DTYPE_I8, -128), "-128");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_U8, 255), "255");
  EXPECT_EQ(text_of<int16_t>(CKPT_DTYPE_I16, -2), "-2");
  EXPECT_EQ(text_of<int32_t>(CKPT_DTYPE_I32, INT32_MIN), "-2147483648");
  EXPECT_EQ(text_of<int64_t>(CKPT_DTYPE_I64, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(text_of<uint64_t>(CKPT_DTYPE_U64, UINT64_MAX), "18446744073709551615");
}

TEST(Numbers, PackedElementsAreReadLowestBitsFirst) {
  auto nibbles = bytes_of<uint8_t>({0x21, 0xf8});
  EXPECT_EQ(number_text(CKPT_DTYPE_U4, nibbles, 0), "1");
  EXPECT_EQ(number_text(CKPT_DTYPE_U4, nibbles, 1), "2");
  EXPECT_EQ(number_text(CKPT_DTYPE_I4, nibbles, 2), "-8");
  EXPECT_EQ(number_text(CKPT_DTYPE_I4, nibbles, 3), "-1");
  EXPECT_EQ(number_text(CKPT_DTYPE_F4_E2M1FN, nibbles, 1), "1.0");
  auto sixes = bytes_of<uint8_t>({0xc1, 0x07, 0x00});  // 000001, 011111, 000000, 000000
  EXPECT_EQ(element_pattern(sixes, 6, 0), 1u);
  EXPECT_EQ(element_pattern(sixes, 6, 1), 31u);
  EXPECT_EQ(number_text(CKPT_DTYPE_F6_E2M3FN, sixes, 1), "7.5");
}

TEST(Numbers, ComplexAndBoolReadAsInPython) {
  EXPECT_EQ(number_text(CKPT_DTYPE_C64, bytes_of<float>({1.0f, -2.5f}), 0), "(1.0-2.5j)");
  EXPECT_EQ(number_text(CKPT_DTYPE_C128, bytes_of<double>({0, 0, 0.5, 3}), 1), "(0.5+3.0j)");
  EXPECT_EQ(number_text(CKPT_DTYPE_C32, bytes_of<uint16_t>({0x3c00, 0x4000}), 0), "(1.0+2.0j)");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_BOOL, 1), "True");
  EXPECT_EQ(text_of<uint8_t>(CKPT_DTYPE_BOOL, 0), "False");
}

TEST(Numbers, UnknownDtypesPrintTheirBits) {
  EXPECT_EQ(text_of<uint16_t>(CKPT_DTYPE(99, 12), 0x0abc), "0xabc");
  auto wide = bytes_of<uint64_t>({1, 0x8000000000000000u});
  EXPECT_EQ(number_text(CKPT_DTYPE(99, 128), wide, 0), "0x80000000000000000000000000000001");
}

TEST(Numbers, SmallFloatsConvertToF32Exactly) {
  EXPECT_TRUE(has_f32(CKPT_DTYPE_F8_E4M3FN));
  EXPECT_FALSE(has_f32(CKPT_DTYPE_I8));
  EXPECT_EQ(to_f32(CKPT_DTYPE_F8_E5M2, bytes_of<uint8_t>({0, 0x7b}), 1), 57344.0f);
  EXPECT_EQ(to_f32(CKPT_DTYPE_F8_E8M0FNU, bytes_of<uint8_t>({0}), 0), std::ldexp(1.0f, -127));
}

}  // namespace
}  // namespace cli
