#include "cli/npy.h"

#include "cli/numbers.h"

namespace cli {

std::optional<std::string> npy_descr(int32_t dtype) {
  switch (dtype) {
    case CKPT_DTYPE_BOOL:
      return "|b1";
    case CKPT_DTYPE_I8:
      return "|i1";
    case CKPT_DTYPE_I16:
      return "<i2";
    case CKPT_DTYPE_I32:
      return "<i4";
    case CKPT_DTYPE_I64:
      return "<i8";
    case CKPT_DTYPE_U8:
      return "|u1";
    case CKPT_DTYPE_U16:
      return "<u2";
    case CKPT_DTYPE_U32:
      return "<u4";
    case CKPT_DTYPE_U64:
      return "<u8";
    case CKPT_DTYPE_F16:
      return "<f2";
    case CKPT_DTYPE_F32:
      return "<f4";
    case CKPT_DTYPE_F64:
      return "<f8";
    case CKPT_DTYPE_C64:
      return "<c8";
    case CKPT_DTYPE_C128:
      return "<c16";
    default:
      return std::nullopt;
  }
}

std::string npy_header(std::string_view descr, std::span<const int64_t> shape) {
  constexpr size_t kPreamble = 10, kAlign = 64;
  std::string tuple;
  for (int64_t extent : shape) tuple += std::to_string(extent) + ", ";
  if (!tuple.empty()) tuple.erase(tuple.size() - (shape.size() == 1 ? 1 : 2));
  std::string dictionary =
      "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (" + tuple + "), }";
  size_t end = (kPreamble + dictionary.size() + 1 + kAlign - 1) / kAlign * kAlign;
  dictionary.append(end - kPreamble - dictionary.size() - 1, ' ');
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

}  // namespace cli
