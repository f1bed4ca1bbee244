// Made-up contents of tensors, fast and the same every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ckpt_bench {

class ContentMaker {
 public:
  // gauss: normal values; random: bits without structure; zeros; upcast: normal f32 that came from bf16.
  explicit ContentMaker(const std::string& content);
  // `dtype`: bf16 or f32; `squared`: as in Adam's second moments.
  void fill(std::byte* data, size_t bytes, int32_t dtype, float deviation, bool squared);

 private:
  uint64_t next();
  float normal(uint32_t bits) const;

  std::string content_;
  std::vector<float> quantiles_;
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace ckpt_bench
