#include "cli/npy.h"

#include "cli/numbers.h"

namespace cli {

std::optional<std::string> npy_descr(int32_t dtype) {
  struct Row {
    int32_t dtype;
    std::string_view numpy;
  };
  constexpr Row kRows[] = {
#define CKPT_DTYPE_ROW(constant, name, exponent, mantissa, bias, specials, torch, storage, safetensors, numpy) \
  {CKPT_DTYPE_##constant, numpy},
#include "base/dtypes.def"
#undef CKPT_DTYPE_ROW
  };
  for (const auto& [known, numpy] : kRows)
    if (known == dtype && !numpy.empty()) return (numpy.substr(1) == "1" ? "|" : "<") + std::string(numpy);
  return std::nullopt;
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
