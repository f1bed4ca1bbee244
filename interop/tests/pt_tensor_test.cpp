// Tensors of a .pt: numbers that lie about where their elements are. What torch writes: tests/torch/read_test.py.
#include "interop/src/pt/tensor.h"

#include <gtest/gtest.h>

#include "interop/src/pt/dtype.h"
#include "pt_fixture.h"

namespace ckpt::interop {
namespace {

using namespace pickled;

// The source must outlive what is taken from it; the bytes must outlive the source.
struct Opened {
  std::string bytes;
  Result<PtSource> source = Status(CKPT_INVALID, "not opened");
  explicit Opened(std::string file) : bytes(std::move(file)), source(PtSource::parse("x.pt", as_bytes(bytes), {})) {}
  Result<PtTensor> tensor() const {
    if (!source.ok()) return source.status();
    return tensor_of(*source, source->pickle().root());
  }
  PtObjectKind kind() const { return kind_of(*source, source->pickle().root()); }
};

const std::string kTen = "0123456789";

void expect_tensor_refused(const std::string& value, const char* reason, ckpt_status code = CKPT_FORMAT) {
  const Opened opened(pt_of(value, {{"0", kTen}}));
  const Status status = opened.tensor().status();
  EXPECT_EQ(status.code(), code) << reason << "\n" << status.message();
  EXPECT_NE(status.message().find(reason), std::string::npos) << "expected: " << reason << "\n" << status.message();
}

// What no tensor of the zoo shows: a storage's own dtype where the elements are quantized, and names nobody has.
TEST(PtTensor, EveryStorageTypeHasItsDtype) {
  const std::pair<const char*, int32_t> rows[] = {{"torch.QInt8Storage", CKPT_DTYPE_I8},
                                                  {"torch QInt8Storage", CKPT_DTYPE_I8},
                                                  {"torch QUInt8Storage", CKPT_DTYPE_U8},
                                                  {"torch QInt32Storage", CKPT_DTYPE_I32},
                                                  {"torch QUInt4x2Storage", CKPT_DTYPE_U4},
                                                  {"torch UntypedStorage", CKPT_DTYPE_U8},
                                                  {"torch OddStorage", 0},
                                                  {"mytorch FloatStorage", 0}};
  for (const auto& [name, dtype] : rows) EXPECT_EQ(torch_dtype_of_storage(name).dtype, dtype) << name;
  EXPECT_EQ(torch_dtype_of_name("numpy float32").dtype, 0);
}

TEST(PtTensor, ScalarsAndEmptyTensorsAreTensors) {
  auto scalar = Opened(pt_of(tensor(storage("0", "ByteStorage", 10), 9, {}, {}), {{"0", kTen}})).tensor();
  ASSERT_TRUE(scalar.ok()) << scalar.status().message();
  EXPECT_EQ(scalar->elements(), 1u);
  EXPECT_EQ(scalar->span(), 1u);
  const int64_t huge = int64_t{1} << 62;
  auto empty =
      Opened(pt_of(tensor(storage("0", "ByteStorage", 0), 7, {huge, huge, 0}, {1, 1, 1}), {{"0", ""}})).tensor();
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(empty->elements(), 0u);
  EXPECT_TRUE(empty->bytes().empty());
  EXPECT_TRUE(empty->contiguous());
}

TEST(PtTensor, NumbersThatReachPastTheStorageAreRefused) {
  const std::string ten = storage("0", "ByteStorage", 10);
  expect_tensor_refused(tensor(ten, 0, {11}, {1}), "shape [11] at element 0 reaches past its 10 elements");
  expect_tensor_refused(tensor(ten, 10, {1}, {1}), "reaches past its 10 elements");
  expect_tensor_refused(tensor(ten, 0, {2, 2}, {9, 1}), "reaches past");
  expect_tensor_refused(tensor(ten, INT64_MAX, {1}, {1}), "reaches past");
  expect_tensor_refused(tensor(ten, 0, {3, 3}, {INT64_MAX, INT64_MAX}), "reaches past");
  expect_tensor_refused(tensor(ten, 0, {INT64_MAX, 2}, {0, 0}), "more elements than fit 63 bits");
  expect_tensor_refused(tensor(ten, -1, {1}, {1}), "its offset is no number");
  expect_tensor_refused(tensor(ten, 0, {-1}, {1}), "extent -1");
  expect_tensor_refused(tensor(ten, 0, {2}, {-1}), "stride -1");
  expect_tensor_refused(tensor(ten, 0, {2}, {1, 1}), "1 dimensions, but 2 strides");
  expect_tensor_refused(tensor(ten, 0, std::vector<int64_t>(17, 1), std::vector<int64_t>(17, 1)), "17 dimensions",
                        CKPT_UNSUPPORTED);
}

TEST(PtTensor, AStorageSmallerThanItIsSaidToBeIsRefused) {
  expect_tensor_refused(tensor(storage("0", "ByteStorage", 11), 0, {1}, {1}), "expected 11 elements");
  expect_tensor_refused(tensor(storage("0", "FloatStorage", INT64_MAX), 0, {1}, {1}), "elements of 4");
  expect_tensor_refused(tensor(storage("1", "ByteStorage", 10), 0, {1}, {1}), "the file has no such storage");
  expect_tensor_refused(tensor(storage("0", "OddStorage", 10), 0, {1}, {1}), "unknown type of storage",
                        CKPT_UNSUPPORTED);
  expect_tensor_refused(tensor(storage("0", "ByteStorage", 10, "meta"), 0, {1}, {1}), "device meta", CKPT_UNSUPPORTED);
}

TEST(PtTensor, ElementsPastThoseThatTheStorageIsSaidToHaveAreNotThere) {
  expect_tensor_refused(tensor(storage("0", "ShortStorage", 2), 0, {3}, {1}), "reaches past its 2 elements");
  expect_tensor_refused(tensor(storage("0", "ShortStorage", 2), 2, {1}, {1}), "reaches past its 2 elements");
  const Opened opened(pt_of(tensor(storage("0", "ShortStorage", 2), 0, {2}, {1}), {{"0", kTen}}));
  const auto two = opened.tensor();
  ASSERT_TRUE(two.ok()) << two.status().message();
  EXPECT_EQ(as_text(two->bytes()), "0123");
  EXPECT_EQ(to_text(Opened(pt_of(storage("0", "ShortStorage", 2), {{"0", kTen}})).tensor()->shape), "[2]");
}

// All tensors of a storage have its key and location, and may share one metadata.
TEST(PtTensor, WhatManyTensorsMayShareIsSmall) {
  const std::string longest(255, 'k');
  auto found = Opened(pt_of(tensor(storage(longest, "ByteStorage", 10, longest), 0, {1}, {1}), {{longest, kTen}}));
  ASSERT_TRUE(found.tensor().ok()) << found.tensor().status().message();
  EXPECT_EQ(found.tensor()->location, longest);
  expect_tensor_refused(tensor(storage(longest + "k", "ByteStorage", 10), 0, {1}, {1}), "its key is longer than 255");
  expect_tensor_refused(tensor(storage("0", "ByteStorage", 10, longest + "k"), 0, {1}, {1}),
                        "its location is longer than 255");
  auto with_metadata = [](size_t entries) {
    Items metadata = {text("conj"), boolean(true)};
    while (metadata.size() < 2 * entries) metadata.insert(metadata.end(), {text("other"), boolean(false)});
    return call(torch_util("_rebuild_tensor_v2"), {storage("0", "ByteStorage", 10), integer(0), integers({1}),
                                                   integers({1}), boolean(false), ordered_dict(), dict(metadata)});
  };
  const Opened most(pt_of(with_metadata(16), {{"0", kTen}}));
  ASSERT_TRUE(most.tensor().ok()) << most.tensor().status().message();
  EXPECT_TRUE(most.tensor()->conj);
  expect_tensor_refused(with_metadata(17), "metadata of 17 entries, at most 16", CKPT_UNSUPPORTED);
}

std::string rebuilt_v3(const std::string& dtype, int64_t offset, const std::vector<int64_t>& size,
                       const std::vector<int64_t>& stride) {
  return call(torch_util("_rebuild_tensor_v3"),
              {storage("0", "UntypedStorage", 10), integer(offset), integers(size), integers(stride), boolean(false),
               ordered_dict(), global("torch", dtype)});
}

TEST(PtTensor, ADtypeThatNobodyKnowsIsRefused) {
  expect_tensor_refused(rebuilt_v3("uint99", 0, {2}, {2}), "unknown dtype \"torch uint99\"", CKPT_UNSUPPORTED);
}

TEST(PtTensor, IntegersOfFewBitsAreBytesWithTorchsName) {
  for (const char* name : {"uint1", "int7", "uint4"}) {
    const Opened opened(pt_of(rebuilt_v3(name, 2, {3}, {1}), {{"0", kTen}}));
    auto found = opened.tensor();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->dtype, *name == 'u' ? CKPT_DTYPE_U8 : CKPT_DTYPE_I8);
    EXPECT_STREQ(found->torch_dtype, name);
    EXPECT_EQ(as_text(found->bytes()), "234");
  }
}

// torch counts a byte of two as one element of float4_e2m1fn_x2.
TEST(PtTensor, PairsOfFourBitsAreElementsOfTheLastDimension) {
  const Opened opened(pt_of(rebuilt_v3("float4_e2m1fn_x2", 1, {2, 3}, {3, 1}), {{"0", kTen}}));
  const auto whole = opened.tensor();
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->dtype, CKPT_DTYPE_F4_E2M1FN);
  EXPECT_EQ(whole->torch_dtype, nullptr);
  EXPECT_EQ(to_text(whole->shape), "[2, 6]");
  EXPECT_TRUE(whole->contiguous());
  EXPECT_EQ(as_text(whole->bytes()), "123456");
  // What has no last dimension in a row stays bytes, with torch's name for them.
  for (const auto& [size, stride] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{
           {{2, 3}, {1, 2}}, {{}, {}}, {{2, 2}, {4, 1}}}) {
    const auto bytes = Opened(pt_of(rebuilt_v3("float4_e2m1fn_x2", 0, size, stride), {{"0", kTen}})).tensor();
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(bytes->dtype, CKPT_DTYPE_U8);
    EXPECT_STREQ(bytes->torch_dtype, "float4_e2m1fn_x2");
    EXPECT_EQ(bytes->shape.ndim, static_cast<int>(size.size()));
  }
  expect_tensor_refused(rebuilt_v3("float4_e2m1fn_x2", 0, {11}, {1}), "past its 10 elements");
}

TEST(PtTensor, DtypesThatAreTorchsOnlyKeepTheirNames) {
  const std::pair<const char*, int32_t> rows[] = {{"bits8", CKPT_DTYPE_U8},   {"bits16", CKPT_DTYPE_U16},
                                                  {"bits1x8", CKPT_DTYPE_U8}, {"bits2x4", CKPT_DTYPE_U8},
                                                  {"bits4x2", CKPT_DTYPE_U8}, {"bcomplex32", CKPT_DTYPE_U32}};
  for (const auto& [name, dtype] : rows) {
    const auto found = Opened(pt_of(rebuilt_v3(name, 0, {2}, {1}), {{"0", kTen}})).tensor();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->dtype, dtype) << name;
    EXPECT_STREQ(found->torch_dtype, name);
  }
}

TEST(PtTensor, PackedElementsMustLieInARow) {
  const std::string four = storage("0", "QUInt4x2Storage", 10);
  auto found = Opened(pt_of(tensor(four, 0, {4, 5}, {5, 1}), {{"0", kTen}})).tensor();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->dtype, CKPT_DTYPE_U4);
  EXPECT_EQ(found->bytes().size(), 10u);
  expect_tensor_refused(tensor(four, 0, {5, 4}, {1, 5}), "packed", CKPT_UNSUPPORTED);
  expect_tensor_refused(tensor(four, 1, {2}, {1}), "packed", CKPT_UNSUPPORTED);
  expect_tensor_refused(tensor(four, 0, {21}, {1}), "past its 20 elements");
}

TEST(PtTensor, ArgumentsThatAreMissingOrOfAnotherKindAreRefused) {
  expect_tensor_refused(call(torch_util("_rebuild_tensor_v2"), {storage("0", "ByteStorage", 10)}),
                        "expected 6 arguments");
  expect_tensor_refused(tensor(text("no"), 0, {1}, {1}), "a persistent id that is no storage");
  expect_tensor_refused(
      call(torch_util("_rebuild_tensor"), {storage("0", "ByteStorage", 10), integer(0), text("2"), integers({})}),
      "expected a tuple of numbers");
  expect_tensor_refused(call(torch_util("_rebuild_tensor"),
                             {storage("0", "ByteStorage", 10), integer(0), tuple({text("2")}), integers({})}),
                        "expected a tuple of numbers");
  expect_tensor_refused(call(torch_util("_rebuild_parameter"), {text("no"), boolean(true), none}), "no plain tensor",
                        CKPT_UNSUPPORTED);
}

// ---- numpy ----

std::string numpy_dtype(const std::string& name, const std::string& order = "<") {
  return with_state(call(global("numpy", "dtype"), {text(name), boolean(false), boolean(true)}),
                    tuple({integer(3), text(order), none, none, none, integer(-1), integer(-1), integer(0)}));
}

std::string array(const std::string& dtype, const std::vector<int64_t>& shape, const std::string& data,
                  bool fortran = false) {
  return with_state(
      call(global("numpy.core.multiarray", "_reconstruct"), {global("numpy", "ndarray"), integers({0}), bytes("b")}),
      tuple({integer(1), integers(shape), dtype, boolean(fortran), data}));
}

TEST(PtTensor, NumpyArraysAreTensors) {
  const Opened opened(pt_of(array(numpy_dtype("i2"), {2, 2}, bytes("01234567"))));
  ASSERT_EQ(opened.kind(), PtObjectKind::kNumpyArray);
  auto found = opened.tensor();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->dtype, CKPT_DTYPE_I16);
  EXPECT_TRUE(found->contiguous());
  EXPECT_EQ(as_text(found->bytes()), "01234567");
  auto fortran = Opened(pt_of(array(numpy_dtype("i2"), {2, 2}, bytes("01234567"), true))).tensor();
  ASSERT_TRUE(fortran.ok()) << fortran.status().message();
  EXPECT_EQ(fortran->strides[0], 1);
  EXPECT_EQ(fortran->strides[1], 2);
}

TEST(PtTensor, NumpyArraysThatLieAreRefused) {
  expect_tensor_refused(array(numpy_dtype("i2"), {2, 3}, bytes("01234567")), "shape [2, 3] in 8 bytes");
  expect_tensor_refused(array(numpy_dtype("i2"), {INT64_MAX, 4}, bytes("01234567")), "numpy: an array of shape");
  expect_tensor_refused(array(numpy_dtype("i2"), {-4}, bytes("01234567")), "negative extent");
}

// _frombuffer(data, dtype, shape, order[, axes]), of protocol 5.
TEST(PtTensor, NumpyArraysOfAnyOrderOfAxesAreTensors) {
  auto from_buffer = [](const std::string& order, const Items& axes = {}) {
    Items args = {bytes("0123456789ab"), numpy_dtype("i2"), integers({1, 2, 3}), text(order)};
    args.insert(args.end(), axes.begin(), axes.end());
    return call(global("numpy._core.numeric", "_frombuffer"), args);
  };
  auto transposed = Opened(pt_of(from_buffer("K", {integers({2, 0, 1})}))).tensor();
  ASSERT_TRUE(transposed.ok()) << transposed.status().message();
  EXPECT_EQ(to_text(transposed->shape), "[3, 1, 2]");
  EXPECT_EQ(transposed->strides[0], 1);
  EXPECT_EQ(transposed->strides[2], 3);
  EXPECT_EQ(Opened(pt_of(from_buffer("F"))).tensor()->strides[2], 2);
  EXPECT_EQ(Opened(pt_of(from_buffer("C"))).tensor()->strides[2], 1);
  expect_tensor_refused(from_buffer("K"), "none of C, F and K");
  expect_tensor_refused(from_buffer("A"), "none of C, F and K");
  expect_tensor_refused(from_buffer("K", {integers({0, 1})}), "no order of 3 dimensions");
  expect_tensor_refused(from_buffer("K", {integers({0, 1, 1})}), "no order of 3 dimensions");
  expect_tensor_refused(from_buffer("K", {integers({0, 1, 3})}), "no order of 3 dimensions");
}

TEST(PtTensor, NumpyArraysOfOtherThingsAreNotTensors) {
  EXPECT_EQ(Opened(pt_of(array(numpy_dtype("i2", ">"), {4}, bytes("01234567")))).kind(), PtObjectKind::kNotOurs);
  EXPECT_EQ(Opened(pt_of(array(numpy_dtype("O8", "|"), {1}, list({text("x")})))).kind(), PtObjectKind::kNotOurs);
  EXPECT_EQ(Opened(pt_of(array(numpy_dtype("M8"), {1}, bytes("01234567")))).kind(), PtObjectKind::kNotOurs);
  EXPECT_EQ(Opened(pt_of(array(numpy_dtype("U2"), {1}, bytes("01234567")))).kind(), PtObjectKind::kNotOurs);
}

TEST(PtTensor, NumpyScalarsAreNumbersOfTheirWidth) {
  const std::string scalar = call(global("numpy.core.multiarray", "scalar"), {numpy_dtype("f4"), bytes("abcd")});
  const Opened opened(pt_of(scalar));
  ASSERT_EQ(opened.kind(), PtObjectKind::kNumpyScalar);
  EXPECT_EQ(opened.tensor()->dtype, CKPT_DTYPE_F32);
  expect_tensor_refused(call(global("numpy.core.multiarray", "scalar"), {numpy_dtype("f4"), bytes("abcde")}),
                        "a scalar of 32 bits in 5 bytes");
}

}  // namespace
}  // namespace ckpt::interop
