#include "cli/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "ckpt.h"

namespace cli {
namespace {

// The dictionary of a header, after its fixed preamble was checked.
std::string dictionary_of(const std::string& header) {
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  size_t size = static_cast<unsigned char>(header[8]) + 256u * static_cast<unsigned char>(header[9]);
  EXPECT_EQ(header.size(), 10 + size);
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.back(), '\n');
  std::string text = header.substr(10, size - 1);
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string dictionary(const std::vector<int64_t>& shape) { return dictionary_of(npy_header("<f4", shape)); }

TEST(Npy, HeaderIsAPythonDictionaryWithATupleForTheShape) {
  EXPECT_EQ(dictionary({2, 3}), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ(dictionary({7}), "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }");
  EXPECT_EQ(dictionary({}), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
  EXPECT_EQ(dictionary({0, 5}), "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }");
}

TEST(Npy, HeaderIsAlignedForEveryLengthOfShape) {
  for (size_t ndim = 0; ndim <= CKPT_MAX_NDIM; ++ndim) {
    for (int64_t extent : {int64_t{1}, int64_t{1000}, INT64_MAX}) dictionary(std::vector<int64_t>(ndim, extent));
  }
}

TEST(Npy, DescrExistsExactlyForTheDtypesOfNumPy) {
  EXPECT_EQ(npy_descr(CKPT_DTYPE_BOOL), "|b1");
  EXPECT_EQ(npy_descr(CKPT_DTYPE_I64), "<i8");
  EXPECT_EQ(npy_descr(CKPT_DTYPE_F16), "<f2");
  EXPECT_EQ(npy_descr(CKPT_DTYPE_C128), "<c16");
  for (int32_t dtype : {CKPT_DTYPE_BF16, CKPT_DTYPE_F8_E4M3FN, CKPT_DTYPE_I4, CKPT_DTYPE_C32, CKPT_DTYPE_F4_E2M1FN}) {
    EXPECT_EQ(npy_descr(dtype), std::nullopt) << dtype;
  }
}

}  // namespace
}  // namespace cli
