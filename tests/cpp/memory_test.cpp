// What ckpt.hpp takes as the memory of a tensor, and what it refuses so that no other bytes are saved than were meant.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ckpt.hpp"

namespace {

struct Half {
  uint16_t bits;
};
struct Point {
  float x, y;
};

template <class C>
bool can_be(int32_t dtype, C container) {
  return ckpt::detail::fits(ckpt::Memory(container).element, dtype);
}

TEST(CppMemory, ElementsOfAnotherDtypeAreRefusedBySaveAndLoad) {
  auto store = ckpt::Store::open("mem:cpp-memory-elements");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  std::vector<double> doubles = {1, 2, 3, 4};
  try {
    save.add_tensor("w", ckpt::Tensor::of<float>({4}), doubles);
    FAIL() << "doubles were taken as floats";
  } catch (const ckpt::Error& error) {
    EXPECT_EQ(error.status(), CKPT_INVALID);
    EXPECT_STREQ(error.what(),
                 "tensor \"w\": its memory was described as f32, but its elements are f64; give {pointer, bytes} to "
                 "reinterpret it");
    EXPECT_EQ(error.details().at("tensor"), "w");
    EXPECT_EQ(error.details().at("expected"), "f32");
    EXPECT_EQ(error.details().at("found"), "f64");
  }
  save.add_tensor("w", ckpt::Tensor::of<double>({4}), doubles);
  save.run();
  auto reader = ckpt::Reader::open(store);
  auto load = ckpt::Load::create(reader);
  std::vector<int64_t> integers(4);
  EXPECT_THROW(load.add_tensor("w", ckpt::Tensor::of<double>({4}), integers), ckpt::Error);
  load.add_tensor("w", ckpt::Tensor::of<double>({4}), {integers.data(), 32});  // reinterpreted as they are
  load.run();
  EXPECT_EQ(integers[0], 0x3ff0000000000000);
}

TEST(CppMemory, BytesMayBeAnyDtype) {
  for (int32_t dtype : {CKPT_DTYPE_F32, CKPT_DTYPE_BF16, CKPT_DTYPE_F4_E2M1FN, CKPT_DTYPE_BOOL, CKPT_DTYPE_C128}) {
    EXPECT_TRUE(can_be(dtype, std::vector<char>(16)));
    EXPECT_TRUE(can_be(dtype, std::vector<signed char>(16)));
    EXPECT_TRUE(can_be(dtype, std::vector<unsigned char>(16)));
    EXPECT_TRUE(can_be(dtype, std::vector<std::byte>(16)));
    EXPECT_TRUE(can_be(dtype, std::string(16, 'x')));
    EXPECT_TRUE(can_be(dtype, ckpt::Memory()));
  }
}

TEST(CppMemory, OtherElementsMustBeOfTheDtypeWhereCppHasIt) {
  EXPECT_TRUE(can_be(CKPT_DTYPE_F32, std::vector<float>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_I64, std::vector<long>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_I64, std::vector<long long>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_C64, std::vector<std::complex<float>>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_BOOL, std::array<bool, 2>{}));
  EXPECT_FALSE(can_be(CKPT_DTYPE_U8, std::array<bool, 2>{}));
  EXPECT_FALSE(can_be(CKPT_DTYPE_F32, std::vector<int32_t>(1)));
  EXPECT_FALSE(can_be(CKPT_DTYPE_F32, std::vector<uint32_t>(1)));
  EXPECT_FALSE(can_be(CKPT_DTYPE_F32, std::vector<Point>(1)));
  EXPECT_FALSE(can_be(CKPT_DTYPE_C128, std::vector<long double>(1)));
}

TEST(CppMemory, IntegersAndStructsOfItsWidthAreADtypeThatCppLacks) {
  EXPECT_TRUE(can_be(CKPT_DTYPE_F16, std::vector<uint16_t>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_BF16, std::vector<int16_t>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_BF16, std::vector<Half>(1)));
  EXPECT_TRUE(can_be(CKPT_DTYPE_C32, std::vector<uint32_t>(1)));
  EXPECT_FALSE(can_be(CKPT_DTYPE_F16, std::vector<float>(1)));
  EXPECT_FALSE(can_be(CKPT_DTYPE_C32, std::vector<float>(1)));
  EXPECT_FALSE(can_be(CKPT_DTYPE_F4_E2M1FN, std::vector<uint16_t>(1)));
}

TEST(CppMemory, NestedArraysAreTheirNumbers) {
  float table[2][3] = {};
  EXPECT_EQ(ckpt::Memory(table).bytes, sizeof table);
  EXPECT_EQ(ckpt::Memory(table).element.dtype, CKPT_DTYPE_F32);
  std::vector<std::array<float, 4>> rows(8);
  EXPECT_EQ(ckpt::Memory(rows).bytes, 128u);
  EXPECT_EQ(ckpt::MutableMemory(rows).element.dtype, CKPT_DTYPE_F32);
  const std::array<const double, 2> constants = {1, 2};
  EXPECT_EQ(ckpt::Memory(constants).element.dtype, CKPT_DTYPE_F64);
}

TEST(CppMemory, AStringLiteralIsItsTextWithoutTheNul) {
  EXPECT_EQ(ckpt::Memory("hello").bytes, 5u);
  EXPECT_EQ(ckpt::Memory("a\0b").bytes, 3u);
  EXPECT_EQ(ckpt::Memory("").bytes, 0u);
  char buffer[16] = "hello";
  EXPECT_EQ(ckpt::Memory(buffer).bytes, 16u);
  EXPECT_EQ(ckpt::MutableMemory(buffer).bytes, 16u);
  const unsigned char bytes[2] = {1, 0};
  EXPECT_EQ(ckpt::Memory(bytes).bytes, 2u);

  auto store = ckpt::Store::open("mem:cpp-memory-literal");
  auto session = ckpt::Session::open(store);
  auto save = ckpt::Save::create(session, "a");
  save.add_object("note", "text/plain", CKPT_OBJECT_SHARED, "hello");
  save.run();
  EXPECT_EQ(ckpt::Reader::open(store).object("note").size, 5u);
  auto tree = ckpt::Tree::create();
  tree.add_bytes("ab");
  EXPECT_EQ(tree.at(0).text_size, 2u);
}

// ---- what does not compile ----

template <class Handle, class C, class = void>
constexpr bool kAddsTensor = false;
template <class Handle, class C>
constexpr bool kAddsTensor<Handle, C,
                           std::void_t<decltype(std::declval<Handle&>().add_tensor(
                               std::string(), std::declval<const ckpt::Tensor&>(), std::declval<C>()))>> = true;

TEST(CppMemory, TemporaryContainersAreNoMemoryOfATensor) {
  EXPECT_TRUE((kAddsTensor<ckpt::Save, std::vector<float>&>));
  EXPECT_TRUE((kAddsTensor<ckpt::Save, const std::vector<float>&>));
  EXPECT_TRUE((kAddsTensor<ckpt::Save, float(&)[4]>));
  EXPECT_TRUE((kAddsTensor<ckpt::Save, std::string_view>));  // a view may be temporary
  EXPECT_TRUE((kAddsTensor<ckpt::Save, ckpt::Memory>));
  EXPECT_FALSE((kAddsTensor<ckpt::Save, std::vector<float>>));
  EXPECT_FALSE((kAddsTensor<ckpt::Save, const std::vector<float>>));
  EXPECT_FALSE((kAddsTensor<ckpt::Save, std::array<float, 4>>));
  EXPECT_FALSE((kAddsTensor<ckpt::Save, float(&&)[4]>));
  EXPECT_FALSE((kAddsTensor<ckpt::Save, std::string>));
  EXPECT_TRUE((kAddsTensor<ckpt::Load, std::vector<float>&>));
  EXPECT_FALSE((kAddsTensor<ckpt::Load, std::vector<float>>));
  EXPECT_FALSE((kAddsTensor<ckpt::Load, const std::vector<float>&>));
}

TEST(CppMemory, PointersAreNoElements) {
  EXPECT_FALSE((std::is_constructible_v<ckpt::Memory, const std::vector<float*>&>));
  EXPECT_FALSE((std::is_constructible_v<ckpt::Memory, const std::array<std::array<const char*, 2>, 2>&>));
  EXPECT_FALSE((std::is_constructible_v<ckpt::Memory, const char*(&)[2]>));
  EXPECT_FALSE((std::is_constructible_v<ckpt::MutableMemory, std::vector<void*>&>));
  EXPECT_FALSE((std::is_constructible_v<ckpt::Memory, const std::vector<std::string>&>));
}

}  // namespace
