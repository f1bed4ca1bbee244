// Handwritten digits as digits.py writes them: for each image 64 bytes of pixels (0 to 16), then the digit in one byte.
#pragma once

#include <torch/torch.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

struct Digits {
  torch::Tensor images;  // [count, 1, 8, 8], 0 to 1
  torch::Tensor labels;  // [count]

  int64_t count() const { return labels.size(0); }
  Digits slice(int64_t begin, int64_t end) const { return {images.slice(0, begin, end), labels.slice(0, begin, end)}; }
  Digits pick(const torch::Tensor& which) const {
    return {images.index_select(0, which), labels.index_select(0, which)};
  }
};

inline Digits read_digits(const std::string& path) {
  constexpr int64_t kPixels = 64, kRecord = kPixels + 1;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto size = static_cast<int64_t>(bytes.size());
  if (!file || size == 0 || size % kRecord != 0) {
    throw std::runtime_error(path + ": expected records of 65 bytes, found " + std::to_string(size) + " bytes");
  }
  torch::Tensor table = torch::from_blob(bytes.data(), {size / kRecord, kRecord}, torch::kUInt8);
  torch::Tensor pixels = table.slice(1, 0, kPixels).to(torch::kFloat32).div(16);
  return {pixels.reshape({-1, 1, 8, 8}), table.select(1, kPixels).to(torch::kInt64)};
}
