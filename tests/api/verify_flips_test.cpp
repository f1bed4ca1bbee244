// Flips bits of every file of a checkpoint: verify finds each flip and names the right part, tensor and elements, and
// no load gives wrong data. One bit of each third byte, a different one from byte to byte; under sanitizers of each
// eleventh. CKPT_FLIP_ALL=1 takes every bit, in minutes.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "api/sample.h"

namespace ckpt_test {
namespace {

using ckpt_golden::Contents;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kSampled = 11;
#else
constexpr size_t kSampled = 3;
#endif
const bool kEveryBit = std::getenv("CKPT_FLIP_ALL") != nullptr;
const size_t kStep = kEveryBit ? 1 : kSampled;  // from byte to byte

// The bits of a byte to flip. Zeros are mostly padding, where one bit is as good as eight.
std::vector<unsigned char> masks(const std::string& bytes, size_t at) {
  bool dull = bytes[at] == 0 && (at == 0 || bytes[at - 1] == 0) && (at + 1 == bytes.size() || bytes[at + 1] == 0);
  if (!kEveryBit || dull) return {static_cast<unsigned char>(1 << at % 8)};
  return {1, 2, 4, 8, 16, 32, 64, 128};
}

// Where a part holds the elements of a segment.
struct Extent {
  std::string tensor;
  std::vector<int64_t> shape;
  int bits;
  ckpt_segment_info segment;

  bool holds(uint32_t part, uint64_t offset) const {
    return segment.part == part && offset >= segment.part_offset && offset < segment.part_offset + segment.stored_bytes;
  }
  // The element of the flattened tensor at an offset of the part. Only for raw segments of whole-byte elements.
  int64_t element(uint64_t offset) const {
    int64_t at = static_cast<int64_t>(offset - segment.part_offset) * 8 / bits;
    if (segment.ndim < 0) return segment.flat_offset + at;
    int64_t result = 0, stride = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      result += (segment.offset[i] + at % segment.extent[i]) * stride;
      at /= segment.extent[i];
      stride *= shape[i];
    }
    return result;
  }
};

std::vector<Extent> extents_of(const ckpt_reader* reader, const Contents& contents) {
  std::vector<Extent> all;
  for (const auto& tensor : contents.tensors)
    for (uint32_t i = 0;; i++) {
      auto segment = sized<ckpt_segment_info>();
      if (ckpt_reader_segment_at(reader, tensor.name.c_str(), i, &segment, nullptr) != CKPT_OK) break;
      all.push_back({tensor.name, tensor.shape, ckpt_dtype_bits(tensor.dtype), segment});
    }
  return all;
}

// Whether a finding blames this part and, if the byte belongs to a tensor, names the tensor and the element.
bool blamed(const std::vector<Found>& found, const std::string& part, const Extent* extent, uint64_t offset) {
  for (const Found& one : found) {
    if (one.part != part || one.status == CKPT_OK || one.kind != CKPT_FINDING_DAMAGED) continue;
    if (!extent) return true;
    if (one.name != extent->tensor || one.first > one.last || one.first < 0) continue;
    if (offset < one.offset || offset >= one.offset + one.size) continue;
    if (extent->segment.codec != 0 || extent->bits % 8 != 0) return true;
    int64_t element = extent->element(offset);
    if (element >= one.first && element <= one.last) return true;
  }
  return false;
}

void flip_all_of_part(const Sample& sample, uint32_t number) {
  std::string part = "PART_00" + std::to_string(number), path = sample.file(part), bytes = read_file(path);
  Reader reader = sample.open();
  std::vector<Extent> extents = extents_of(reader.get(), sample.contents());
  ASSERT_TRUE(verify(reader.get()).empty()) << to_text(verify(reader.get()));
  size_t silent = 0, wrong = 0;
  for (size_t at = 0; at < bytes.size() && silent + wrong < 10; at += kStep) {
    const Extent* extent = nullptr;
    for (const Extent& one : extents)
      if (one.holds(number, at)) extent = &one;
    for (unsigned char mask : masks(bytes, at)) {
      Patch patch(path, at, static_cast<unsigned char>(bytes[at]) ^ mask);
      auto found = verify(reader.get());
      if (!blamed(found, part, extent, at)) {
        silent++;
        ADD_FAILURE() << part << " byte " << at << " bit mask " << int{mask} << (extent ? " of " + extent->tensor : "")
                      << ":\n"
                      << to_text(found);
      }
      bool right;
      if (mask == 1 << at % 8 && load_all(reader.get(), sample.contents(), &right) == CKPT_OK && !right) {
        wrong++;
        ADD_FAILURE() << part << " byte " << at << ": loaded wrong data and said OK";
      }
    }
  }
  EXPECT_TRUE(verify(reader.get()).empty());
}

TEST(VerifyFlips, AFlipAnywhereInPart0IsFoundAndNamed) { flip_all_of_part(Sample(), 0); }
TEST(VerifyFlips, AFlipAnywhereInPart1IsFoundAndNamed) { flip_all_of_part(Sample(), 1); }
TEST(VerifyFlips, AFlipAnywhereInPart2IsFoundAndNamed) { flip_all_of_part(Sample(), 2); }

TEST(VerifyFlips, AFlipAnywhereInTheManifestIsRefusedWithItsName) {
  Sample sample;
  std::string path = sample.file("MANIFEST"), bytes = read_file(path);
  for (size_t at = 0; at < bytes.size() && !HasFailure(); at += kStep)
    for (int bit = 0; bit < 8; bit++) {
      if (!kEveryBit && bit != static_cast<int>(at % 8)) continue;
      Patch patch(path, at, static_cast<unsigned char>(bytes[at]) ^ static_cast<unsigned char>(1 << bit));
      std::string problem;
      ckpt_status status = sample.try_open(&problem);
      EXPECT_TRUE(status == CKPT_CORRUPT || status == CKPT_FORMAT)
          << "byte " << at << " bit " << bit << ": " << problem;
      EXPECT_NE(problem.find("MANIFEST"), std::string::npos) << problem;
    }
}

TEST(VerifyFlips, OfTheNewestManifestGiveTheCheckpointBefore) {
  const Sample sample;
  ckpt_golden::Contents newer = sample_contents();
  newer.label = "newer";
  for (auto& tensor : newer.tensors) tensor.bytes = ckpt_golden::noise_for(tensor.shape, tensor.dtype, 77);
  const std::string path = sample.scratch() / (sample.save(newer) + "/MANIFEST"), bytes = read_file(path);
  for (size_t at = 0; at < bytes.size() && !HasFailure(); at += kEveryBit ? 1 : 7 * kSampled) {
    Patch patch(path, at, static_cast<unsigned char>(bytes[at]) ^ static_cast<unsigned char>(1 << at % 8));
    SCOPED_TRACE(at);
    ckpt_reader* raw = nullptr;
    Error error;
    ASSERT_EQ(ckpt_reader_open(&raw, sample.store(), "latest", nullptr, error), CKPT_OK) << error.text();
    const Reader reader(raw);
    bool right = false;
    EXPECT_EQ(load_all(raw, sample.contents(), &right), CKPT_OK);
    EXPECT_TRUE(right);
  }
}

TEST(VerifyFlips, LoadNamesThePartTensorOffsetAndElements) {
  Sample sample(sample_contents("none"));
  Reader reader = sample.open();
  for (const Extent& extent : extents_of(reader.get(), sample.contents())) {
    std::string part = "PART_00" + std::to_string(extent.segment.part), bytes = read_file(sample.file(part));
    uint64_t at = extent.segment.part_offset + extent.segment.stored_bytes / 2;
    Patch patch(sample.file(part), at, static_cast<unsigned char>(bytes[at]) ^ 4);
    ckpt_load* raw = nullptr;
    Error error;
    ASSERT_EQ(ckpt_load_new(&raw, reader.get(), nullptr, error), CKPT_OK) << error.text();
    Load load(raw);
    for (const auto& tensor : sample.contents().tensors) {
      if (tensor.name != extent.tensor) continue;
      ckpt_golden::Bytes memory(tensor.bytes.size());
      ckpt_tensor_desc desc = ckpt_golden::whole_desc(tensor);
      ASSERT_EQ(ckpt_load_add_tensor(load.get(), tensor.name.c_str(), &desc, memory.data(), memory.size(),
                                     CKPT_DEVICE_CPU, 0, error),
                CKPT_OK)
          << error.text();
      EXPECT_EQ(ckpt_load_run(load.get(), error), CKPT_CORRUPT) << error.text();
      EXPECT_EQ(error.detail("tensor"), extent.tensor) << error.text();
      EXPECT_EQ(error.detail("part"), part) << error.text();
      EXPECT_FALSE(error.detail("offset").empty()) << error.text();
      EXPECT_LE(std::stoull("0" + error.detail("offset")), at);
      EXPECT_FALSE(error.detail("expected").empty());
      EXPECT_FALSE(error.detail("found").empty());
    }
  }
}

}  // namespace
}  // namespace ckpt_test
