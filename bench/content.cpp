#include "content.h"

#include <ckpt.h>

#include <cmath>
#include <cstring>

#include "machine.h"

namespace ckpt_bench {

static constexpr size_t kQuantiles = 4096;

// The quantiles of the normal distribution; a value between two of them is interpolated.
static std::vector<float> normal_quantiles() {
  std::vector<float> result;
  for (double x = -5; result.size() <= kQuantiles && x < 5; x += 1e-5)
    while (0.5 * std::erfc(-x / std::sqrt(2.0)) * kQuantiles >= static_cast<double>(result.size()) &&
           result.size() <= kQuantiles)
      result.push_back(static_cast<float>(x));
  result.resize(kQuantiles + 1, 5.0f);
  return result;
}

ContentMaker::ContentMaker(const std::string& content) : content_(content), quantiles_(normal_quantiles()) {
  if (content != "gauss" && content != "random" && content != "zeros" && content != "upcast")
    fail("no content is named " + content);
}

uint64_t ContentMaker::next() {
  state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
  return state_ * 0x2545f4914f6cdd1d;
}

float ContentMaker::normal(uint32_t bits) const {
  uint32_t at = bits >> 20;  // 12 bits choose the interval, 20 the place in it
  float place = static_cast<float>(bits & 0xfffff) * (1.0f / 0x100000);
  return quantiles_[at] + (quantiles_[at + 1] - quantiles_[at]) * place;
}

// To nearest, as training rounds.
static uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void ContentMaker::fill(std::byte* data, size_t bytes, int32_t dtype, float deviation, bool squared) {
  if (content_ == "zeros") {
    std::memset(data, 0, bytes);
    return;
  }
  size_t width = dtype == CKPT_DTYPE_BF16 ? 2 : 4;
  for (size_t at = 0; at + 2 * width <= bytes; at += 2 * width) {
    uint64_t random = next();
    if (content_ == "random") {
      std::memcpy(data + at, &random, 2 * width);
      continue;
    }
    for (size_t i = 0; i < 2; i++) {
      float value = normal(static_cast<uint32_t>(random >> (32 * i))) * deviation;
      if (squared) value *= value;
      uint16_t half = bf16_of(value);
      if (width == 2) std::memcpy(data + at + i * width, &half, 2);
      uint32_t upcast = static_cast<uint32_t>(half) << 16;
      if (width == 4)
        std::memcpy(data + at + i * width, content_ == "upcast" ? static_cast<void*>(&upcast) : &value, 4);
    }
  }
}

}  // namespace ckpt_bench
