// Loading into another float type: only if asked for, rounded to nearest even, for any region.
#include <cmath>

#include "api/ranks.h"

namespace ckpt_test {
namespace {

CKPT_ON_EVERY_STORE(Convert);

// ---- a reference that does no bit arithmetic: values as doubles, and a search for the nearest representable one ----

double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
}

// Magnitudes of one sign have the order of their bits. Infinity stands for the next power of two.
uint32_t nearest(double value, int exponent_bits, int mantissa_bits) {
  uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  auto at = [&](uint32_t bits) {
    if (bits == infinity) return std::ldexp(1.0, 1 << (exponent_bits - 1));
    return value_of(bits, exponent_bits, mantissa_bits);
  };
  uint32_t low = 0, high = infinity;
  while (low + 1 < high) {
    uint32_t middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  if (magnitude >= at(high)) return sign | high;
  double below = magnitude - at(low), above = at(high) - magnitude;
  return sign | (below < above ? low : above < below ? high : low % 2 == 0 ? low : high);
}

struct Float {
  int32_t dtype;
  size_t width;
  int exponent_bits, mantissa_bits;
};
const std::vector<Float> kFloats = {{CKPT_DTYPE_F32, 4, 8, 23}, {CKPT_DTYPE_BF16, 2, 8, 7}, {CKPT_DTYPE_F16, 2, 5, 10}};

uint32_t bits_at(const Bytes& data, size_t width, size_t i) {
  uint32_t bits = 0;
  std::memcpy(&bits, data.data() + i * width, width);
  return bits;
}

Bytes values_of(const Float& type, size_t count) {
  Bytes data = pattern(count * type.width, static_cast<uint64_t>(type.dtype));
  if (type.width == 2)
    for (size_t i = 0; i < count; i++) {
      uint16_t bits = static_cast<uint16_t>(i);  // every value that exists
      std::memcpy(data.data() + i * 2, &bits, 2);
    }
  else
    for (size_t i = 0; i < count; i += 3) {  // ties and near ties of both short types
      uint32_t bits = bits_at(data, 4, i) & ~(i % 2 ? 0xffffu : 0x1fffu);
      bits |= i % 2 ? 0x8000u : 0x1000u;
      bits += static_cast<uint32_t>(i / 3 % 3) - 1;
      std::memcpy(data.data() + i * 4, &bits, 4);
    }
  return data;
}

TEST_P(Convert, EveryPairRoundsToNearestEven) {
  const size_t kCount = 65536;
  World world(place.uri(), 2, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 8192}});
  std::vector<Bytes> source;
  for (const auto& type : kFloats) source.push_back(values_of(type, kCount));
  world.commit("a", {}, [&](uint32_t, ckpt_save* save) {
    for (size_t i = 0; i < kFloats.size(); i++)
      add(save, std::to_string(i), whole(kFloats[i].dtype, {kCount}), source[i]);
  });
  Reader reader = open_reader(world.store);
  for (size_t from = 0; from < kFloats.size(); from++)
    for (const auto& to : kFloats) {
      auto desc = whole(to.dtype, {kCount});
      desc.flags = CKPT_TENSOR_CONVERT;
      Bytes loaded = load_one(reader, std::to_string(from), desc, kCount * to.width);
      int wrong = 0;
      for (size_t i = 0; i < kCount && wrong < 5; i++) {
        uint32_t bits = bits_at(source[from], kFloats[from].width, i), found = bits_at(loaded, to.width, i);
        double value = value_of(bits, kFloats[from].exponent_bits, kFloats[from].mantissa_bits);
        bool same = std::isnan(value) ? std::isnan(value_of(found, to.exponent_bits, to.mantissa_bits))
                                      : found == nearest(value, to.exponent_bits, to.mantissa_bits);
        EXPECT_TRUE(same || wrong++ < 0) << ckpt_dtype_name(kFloats[from].dtype) << " " << std::hex << bits << " to "
                                         << ckpt_dtype_name(to.dtype) << " gives " << found;
      }
    }
}

TEST_P(Convert, BoxesStridesAndFlatRangesConvertToo) {
  World world(place.uri(), 3, {{"chunk_bytes", 4096}, {"large_tensor_bytes", 4096}});
  const Ints shape = {70, 90};
  Bytes data;
  for (int i = 0; i < 70 * 90; i++) {
    float value = static_cast<float>(i % 256) - 100;  // exact in every type
    auto* bytes = reinterpret_cast<const unsigned char*>(&value);
    data.insert(data.end(), bytes, bytes + 4);
  }
  world.commit("a", {{"compression", "bitplane-lz4"}},
               [&](uint32_t, ckpt_save* save) { add(save, "w", whole(CKPT_DTYPE_F32, shape), data); });
  Reader reader = open_reader(world.store);
  auto short_of = [](const Bytes& floats) {
    Bytes out;
    for (size_t i = 0; i < floats.size(); i += 4)
      out.insert(out.end(), floats.begin() + static_cast<long>(i) + 2, floats.begin() + static_cast<long>(i) + 4);
    return out;
  };
  auto desc = box(CKPT_DTYPE_BF16, shape, {3, 5}, {50, 61});
  desc.flags = CKPT_TENSOR_CONVERT;
  EXPECT_EQ(load_one(reader, "w", desc, 50 * 61 * 2), short_of(take_box(data, 4, shape, {3, 5}, {50, 61})));
  desc = flat(CKPT_DTYPE_BF16, shape, 1001, 2222);
  desc.flags = CKPT_TENSOR_CONVERT;
  EXPECT_EQ(load_one(reader, "w", desc, 4444), short_of(Bytes(data.begin() + 4004, data.begin() + 4004 + 8888)));
  desc = whole(CKPT_DTYPE_BF16, shape);
  desc.flags = CKPT_TENSOR_CONVERT | CKPT_TENSOR_STRIDED;
  desc.strides[0] = 1;
  desc.strides[1] = 70;
  Bytes transposed = load_one(reader, "w", desc, 70 * 90 * 2), expected(70 * 90 * 2);
  Bytes plain = short_of(data);
  for (size_t r = 0; r < 70; r++)
    for (size_t c = 0; c < 90; c++) std::memcpy(&expected[(c * 70 + r) * 2], &plain[(r * 90 + c) * 2], 2);
  EXPECT_EQ(transposed, expected);
}

}  // namespace
}  // namespace ckpt_test
