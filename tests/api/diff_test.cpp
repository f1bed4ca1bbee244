// Comparing two checkpoints: structure, then values with their distances.
#include <cmath>

#include "api/sample.h"

namespace ckpt_test {
namespace {

using ckpt_golden::Contents;
using ckpt_golden::Split;
using ckpt_golden::Tensor;

class Diff : public ::testing::Test {
 protected:
  static Contents small() {
    Contents contents;
    contents.label = "a";
    contents.world = 2;
    contents.number_options = {{"chunk_bytes", 4096}};
    return contents;
  }
  template <typename T>
  static Tensor values(const char* name, int32_t dtype, const std::vector<T>& data) {
    Tensor tensor{
        name, dtype, {static_cast<int64_t>(data.size())}, Split::kFlat, ckpt_golden::Bytes(data.size() * sizeof(T))};
    std::memcpy(tensor.bytes.data(), data.data(), tensor.bytes.size());
    return tensor;
  }
  std::vector<Found> diff(const Contents& a, Contents b, bool with_values = true) {
    b.label = "b" + std::to_string(++count_);
    Contents first = a;
    first.label = "a" + std::to_string(count_);
    Reader left = open_reader(store_, save(first)), right = open_reader(store_, save(b));
    ckpt_report* report = nullptr;
    Error error;
    EXPECT_EQ(
        ckpt_reader_diff(left.get(), right.get(), options({{"values", with_values ? 1 : 0}}).get(), &report, error),
        CKPT_OK)
        << error.text();
    Report owner(report);
    return findings_of(report);
  }
  // The one finding, for contents that differ in one tensor.
  Found one(const Contents& a, const Contents& b) {
    auto found = diff(a, b);
    EXPECT_EQ(found.size(), 1u) << to_text(found);
    if (found.size() != 1) return {};
    EXPECT_EQ(found[0].kind, CKPT_FINDING_DIFFERENT);
    return found[0];
  }
  template <typename T>
  Found one_of(int32_t dtype, const std::vector<T>& a, const std::vector<T>& b) {
    Contents left = small(), right = small();
    left.tensors = {values("t", dtype, a)};
    right.tensors = {values("t", dtype, b)};
    return one(left, right);
  }

 private:
  std::string save(const Contents& contents) {
    std::string id, problem;
    EXPECT_EQ(ckpt_golden::save_contents(store_.get(), contents, &id, &problem), CKPT_OK) << problem;
    return id;
  }
  Store store_ = open_store("mem:diff-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
  int count_ = 0;
};

TEST_F(Diff, ShardingChunksAndCompressionAreNoDifference) {
  Contents a = sample_contents("auto"), b = sample_contents("none");
  b.number_options["chunk_bytes"] = 8192;
  for (Tensor& tensor : b.tensors)
    if (tensor.split == Split::kColumns)
      tensor.split = Split::kRows;
    else if (tensor.split == Split::kRows || tensor.split == Split::kReplicated)
      tensor.split = tensor.name == "packed" ? Split::kLast : Split::kFlat;
  auto found = diff(a, b);
  EXPECT_TRUE(found.empty()) << to_text(found);
  b.world = 1;
  b.objects = a.objects = {};
  found = diff(a, b);
  EXPECT_TRUE(found.empty()) << to_text(found);
}

TEST_F(Diff, FloatsHaveCountDistanceAndRange) {
  Found found = one_of<float>(CKPT_DTYPE_F32, {1, 2, 3, 4, 5}, {1, 2.5f, 3, 8, 5});
  EXPECT_EQ(found.name, "t");
  EXPECT_EQ(found.count, 2u);
  EXPECT_EQ(found.first, 1);
  EXPECT_EQ(found.last, 3);
  EXPECT_DOUBLE_EQ(found.max_abs, 4);
  EXPECT_DOUBLE_EQ(found.max_rel, 0.5);
  found = one_of<double>(CKPT_DTYPE_F64, {-1}, {1});
  EXPECT_DOUBLE_EQ(found.max_abs, 2);
  EXPECT_DOUBLE_EQ(found.max_rel, 2);
}

TEST_F(Diff, HalvesAreComparedAsNumbers) {
  Found found = one_of<uint16_t>(CKPT_DTYPE_BF16, {0x3f80, 0x4000}, {0x3f80, 0x4040});  // 2 against 3
  EXPECT_EQ(found.count, 1u);
  EXPECT_DOUBLE_EQ(found.max_abs, 1);
  EXPECT_DOUBLE_EQ(found.max_rel, 1.0 / 3);
  found = one_of<uint16_t>(CKPT_DTYPE_F16, {0x3c00}, {0xc000});  // 1 against -2
  EXPECT_DOUBLE_EQ(found.max_abs, 3);
  EXPECT_DOUBLE_EQ(found.max_rel, 1.5);
}

TEST_F(Diff, IntegersAreExactAtEveryWidth) {
  EXPECT_DOUBLE_EQ(one_of<int8_t>(CKPT_DTYPE_I8, {-128}, {127}).max_abs, 255);
  EXPECT_DOUBLE_EQ(one_of<uint16_t>(CKPT_DTYPE_U16, {0}, {65535}).max_abs, 65535);
  EXPECT_DOUBLE_EQ(one_of<int32_t>(CKPT_DTYPE_I32, {INT32_MIN}, {INT32_MAX}).max_abs, 4294967295.0);
  EXPECT_DOUBLE_EQ(one_of<int64_t>(CKPT_DTYPE_I64, {(1ll << 60) + 1}, {1ll << 60}).max_abs, 1);
  EXPECT_DOUBLE_EQ(one_of<uint64_t>(CKPT_DTYPE_U64, {UINT64_MAX}, {UINT64_MAX - 3}).max_abs, 3);
  EXPECT_EQ(one_of<uint8_t>(CKPT_DTYPE_BOOL, {0, 1, 0, 1}, {1, 1, 1, 1}).count, 2u);
}

TEST_F(Diff, NanDiffersByItsBitsAndHasNoDistance) {
  float nan = std::nanf(""), other = std::nanf("5");
  Contents a = small();
  a.tensors = {values<float>("t", CKPT_DTYPE_F32, {nan, 1})};
  EXPECT_TRUE(diff(a, a).empty()) << "the same bits are equal";
  Found found = one_of<float>(CKPT_DTYPE_F32, {nan, 1}, {other, 1});
  EXPECT_EQ(found.count, 1u);
  EXPECT_TRUE(std::isnan(found.max_abs));
  found = one_of<float>(CKPT_DTYPE_F32, {nan, 1, 0.0f}, {3, 2, -0.0f});
  EXPECT_EQ(found.count, 3u);
  EXPECT_DOUBLE_EQ(found.max_abs, 1);
}

TEST_F(Diff, DtypesWithoutNumbersAreCounted) {
  Found found = one_of<uint8_t>(CKPT_DTYPE_F8_E4M3FN, {1, 2, 3}, {1, 9, 3});
  EXPECT_EQ(found.count, 1u);
  EXPECT_EQ(found.first, 1);
  EXPECT_TRUE(std::isnan(found.max_abs));
}

TEST_F(Diff, PackedElementsAreCountedOneByOne) {
  Contents a = small(), b = small();
  a.tensors = {{"t", CKPT_DTYPE_I4, {2, 4}, Split::kReplicated, {0x21, 0x43, 0x65, 0x87}}};
  b.tensors = {{"t", CKPT_DTYPE_I4, {2, 4}, Split::kReplicated, {0x21, 0x53, 0x65, 0x98}}};  // elements 3, 6, 7
  Found found = one(a, b);
  EXPECT_EQ(found.count, 3u);
  EXPECT_EQ(found.first, 3);
  EXPECT_EQ(found.last, 7);
  a.tensors = {{"t", CKPT_DTYPE_F6_E2M3FN, {3}, Split::kReplicated, {0, 0, 0}}};
  b.tensors = {{"t", CKPT_DTYPE_F6_E2M3FN, {3}, Split::kReplicated, {0xc0, 1, 0}}};  // bits 6, 7, 8: element 1
  found = one(a, b);
  EXPECT_EQ(found.count, 1u);
  EXPECT_EQ(found.first, 1);
}

TEST_F(Diff, ManyPiecesGiveOneFinding) {
  std::vector<int32_t> left(3 << 20), right;
  for (size_t i = 0; i < left.size(); i++) left[i] = static_cast<int32_t>(i * 7);
  right = left;
  right.front()++;
  right[2 << 20] += 5;
  right.back() -= 9;
  Found found = one_of<int32_t>(CKPT_DTYPE_I32, left, right);
  EXPECT_EQ(found.count, 3u);
  EXPECT_EQ(found.first, 0);
  EXPECT_EQ(found.last, (3 << 20) - 1);
  EXPECT_DOUBLE_EQ(found.max_abs, 9);
}

TEST_F(Diff, ObjectsAttributesAndAliasesAreCompared) {
  Contents a = sample_contents(), b = a;
  b.objects[0].bytes[0][17] ^= 1;
  b.objects[1].bytes[2].push_back(1);
  b.attrs["purpose"] = "other";
  b.attrs["more"] = "yes";
  b.tensors[1].attrs.clear();
  b.aliases[0].target = "flat";
  b.aliases[1].offset = 2;
  auto found = diff(a, b);
  ASSERT_EQ(found.size(), 7u) << to_text(found);
  auto has = [&](const char* part, int32_t kind) {
    for (const Found& one : found)
      if (one.kind == kind && one.text.find(part) != std::string::npos) return true;
    return false;
  };
  EXPECT_TRUE(has("chunked", CKPT_FINDING_DIFFERENT)) << to_text(found);
  EXPECT_TRUE(has("position", CKPT_FINDING_DIFFERENT)) << to_text(found);
  EXPECT_TRUE(has("purpose", CKPT_FINDING_DIFFERENT)) << to_text(found);
  EXPECT_TRUE(has("more", CKPT_FINDING_EXTRA)) << to_text(found);
  EXPECT_TRUE(has("layout", CKPT_FINDING_MISSING)) << to_text(found);
  EXPECT_TRUE(has("\"tied\"", CKPT_FINDING_DIFFERENT)) << to_text(found);
  EXPECT_TRUE(has("\"tied.corner\"", CKPT_FINDING_DIFFERENT)) << to_text(found);
}

TEST_F(Diff, DamageEndsItWithItsName) {
  Contents contents = sample_contents("none");
  Sample sample(contents);
  contents.label = "other";
  contents.tensors[0].bytes[0] ^= 1;
  std::string other = sample.save(contents);
  Reader left = sample.open();
  ckpt_reader* right = nullptr;
  Error error;
  ASSERT_EQ(ckpt_reader_open(&right, sample.store(), other.c_str(), nullptr, error), CKPT_OK) << error.text();
  Reader owner(right);
  auto segment = sized<ckpt_segment_info>();
  ASSERT_EQ(ckpt_reader_segment_at(left.get(), "box.columns", 0, &segment, error), CKPT_OK) << error.text();
  std::string part = "PART_00" + std::to_string(segment.part), bytes = read_file(sample.file(part));
  Patch patch(sample.file(part), segment.part_offset, static_cast<unsigned char>(~bytes[segment.part_offset]));
  ckpt_report* report = nullptr;
  EXPECT_EQ(ckpt_reader_diff(left.get(), right, nullptr, &report, error), CKPT_CORRUPT) << error.text();
  EXPECT_EQ(error.detail("tensor"), "box.columns");
  EXPECT_EQ(error.detail("part"), part);
  EXPECT_EQ(report, nullptr);
}

}  // namespace
}  // namespace ckpt_test
