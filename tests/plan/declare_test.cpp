#include <gtest/gtest.h>

#include <cstring>

#include "plan/declare.h"
#include "random_boxes.h"
#include "replica_regions.h"

namespace ckpt::plan {
namespace {

using namespace testing;

std::vector<ReplicaRegion> sample() {
  return {replica_region("small", CKPT_DTYPE_F32, make_shape({2, 3}), {}, 24),
          replica_region("box", CKPT_DTYPE_BF16, make_shape({8, 8}), box_region({2, 4}, {4, 4}), 32),
          replica_region("flat", CKPT_DTYPE_U4, make_shape({100}), flat_region(10, 20), 10),
          replica_region("scalar", CKPT_DTYPE_I64, Shape{}, {}, 8),
          replica_region("empty", CKPT_DTYPE_I64, make_shape({0, 4}), {}, 0)};
}

// The same, with values that are compared, values of a sample, and the first member's.
std::vector<ReplicaRegion> compared_sample() {
  std::vector<ReplicaRegion> entries = sample();
  entries[0].values = {7, 8};
  entries[1].values = {9, 10};
  entries[1].sampled = true;
  entries[2].first_only = true;
  return entries;
}

template <typename T>
void put(std::vector<std::byte>* list, T value) {
  const std::byte* bytes = reinterpret_cast<const std::byte*>(&value);
  list->insert(list->end(), bytes, bytes + sizeof value);
}

// One entry made by hand, with any numbers.
std::vector<std::byte> raw_entry(uint64_t bytes, uint16_t dtype, uint8_t kind, std::vector<uint64_t> shape,
                                 std::vector<uint64_t> numbers, std::string_view name) {
  std::vector<std::byte> list;
  put(&list, bytes);
  put(&list, dtype);
  put(&list, kind);
  put(&list, static_cast<uint8_t>(shape.size()));
  for (uint64_t number : shape) put(&list, number);
  for (uint64_t number : numbers) put(&list, number);
  put(&list, static_cast<uint32_t>(name.size()));
  for (char c : name) put(&list, c);
  return list;
}

ckpt_status parse(Bytes list) { return parse_declaration_list(list).status().code(); }

TEST(Declaration, ListHasTheBytesOfTheFormat) {
  std::vector<ReplicaRegion> entries{sample()[1]};
  EXPECT_EQ(declaration_list(entries), raw_entry(32, CKPT_DTYPE_BF16, 1, {8, 8}, {2, 4, 4, 4}, "box"));
  entries = {sample()[2]};
  EXPECT_EQ(declaration_list(entries), raw_entry(10, CKPT_DTYPE_U4, 2, {100}, {10, 20}, "flat"));
  entries = {sample()[0]};
  EXPECT_EQ(declaration_list(entries), raw_entry(24, CKPT_DTYPE_F32, 0, {2, 3}, {}, "small"));
}

TEST(Declaration, ListHasTheDigestsOfValuesThatAreCompared) {
  auto with_digest = [](std::vector<std::byte> entry, uint64_t lo, uint64_t hi) {
    put(&entry, lo);
    put(&entry, hi);
    return entry;
  };
  std::vector<ReplicaRegion> entries{compared_sample()[0]};
  EXPECT_EQ(declaration_list(entries), with_digest(raw_entry(24, CKPT_DTYPE_F32, 16, {2, 3}, {}, "small"), 7, 8));
  entries = {compared_sample()[1]};
  EXPECT_EQ(declaration_list(entries),
            with_digest(raw_entry(32, CKPT_DTYPE_BF16, 1 + 16 + 64, {8, 8}, {2, 4, 4, 4}, "box"), 9, 10));
  entries = {compared_sample()[2]};
  EXPECT_EQ(declaration_list(entries), raw_entry(10, CKPT_DTYPE_U4, 2 + 32, {100}, {10, 20}, "flat"));
}

TEST(Declaration, ParsingReturnsWhatWasDeclaredInTheOrderOfAssignment) {
  std::vector<ReplicaRegion> entries = compared_sample();
  auto parsed = parse_declaration_list(declaration_list(entries));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  std::vector<size_t> order = assignment_order(entries);
  ASSERT_EQ(parsed->size(), entries.size());
  for (size_t i = 0; i < order.size(); i++) {
    const ReplicaRegion& expected = entries[order[i]];
    const Declared& found = (*parsed)[i];
    EXPECT_EQ(found.name, expected.name);
    EXPECT_EQ(found.dtype, expected.dtype);
    EXPECT_EQ(found.shape, expected.shape());
    EXPECT_EQ(found.region, expected.region());
    EXPECT_EQ(found.first_only, expected.first_only);
    EXPECT_EQ(found.values, expected.values);
    EXPECT_EQ(found.sampled, expected.sampled);
  }
  EXPECT_TRUE(parse_declaration_list({}).ok());
}

TEST(Declaration, EveryTruncationIsAFormatErrorOrAShorterList) {
  std::vector<std::byte> list = declaration_list(compared_sample());
  size_t accepted = 0;
  for (size_t size = 0; size < list.size(); size++) {
    std::vector<std::byte> cut(list.begin(), list.begin() + static_cast<long>(size));  // its own end, for ASan
    auto parsed = parse_declaration_list(cut);
    if (parsed.ok())
      accepted++;
    else
      EXPECT_EQ(parsed.status().code(), CKPT_FORMAT);
  }
  EXPECT_EQ(accepted, sample().size());  // at each boundary between entries
}

TEST(Declaration, EveryFlippedBitIsRefusedOrChangesTheList) {
  std::vector<std::byte> list = declaration_list(compared_sample());
  for (size_t bit = 0; bit < list.size() * 8; bit++) {
    std::vector<std::byte> bad = list;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    auto parsed = parse_declaration_list(bad);
    if (!parsed.ok()) {
      EXPECT_EQ(parsed.status().code(), CKPT_FORMAT);
      continue;
    }
    std::vector<ReplicaRegion> again;
    for (const Declared& one : *parsed) {
      uint64_t elements = one.region.kind == RegionKind::kWhole ? Box::whole(one.shape).volume()
                          : one.region.kind == RegionKind::kBox ? one.region.box.volume()
                                                                : one.region.flat_size;
      again.push_back(replica_region(one.name, one.dtype, one.shape, one.region, *element_bytes(elements, one.dtype)));
      again.back().first_only = one.first_only;
      again.back().values = one.values;
      again.back().sampled = one.sampled;
    }
    EXPECT_EQ(declaration_list(again), bad) << "bit " << bit;
  }
}

TEST(Declaration, HostileNumbersAreFormatErrors) {
  uint64_t most = UINT64_MAX, half = uint64_t{1} << 32;
  EXPECT_EQ(parse(raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, "x")), CKPT_OK);
  EXPECT_EQ(parse(raw_entry(5, CKPT_DTYPE_I8, 0, {4}, {}, "x")), CKPT_FORMAT);  // bytes
  EXPECT_EQ(parse(raw_entry(4, 0x0100, 0, {4}, {}, "x")), CKPT_FORMAT);         // width 0
  EXPECT_EQ(parse(raw_entry(4, CKPT_DTYPE_I8, 3, {4}, {}, "x")), CKPT_FORMAT);  // kind
  EXPECT_EQ(parse(raw_entry(1, CKPT_DTYPE_I8, 0, std::vector<uint64_t>(17, 1), {}, "x")), CKPT_FORMAT);
  EXPECT_EQ(parse(raw_entry(0, CKPT_DTYPE_I8, 0, {half, half}, {}, "x")), CKPT_FORMAT);  // product wraps to 0
  EXPECT_EQ(parse(raw_entry(most, CKPT_DTYPE_I8, 0, {most}, {}, "x")), CKPT_FORMAT);
  EXPECT_EQ(parse(raw_entry(2, CKPT_DTYPE_I8, 1, {4}, {most, 2}, "x")), CKPT_FORMAT);
  EXPECT_EQ(parse(raw_entry(2, CKPT_DTYPE_I8, 2, {4}, {most, 2}, "x")), CKPT_FORMAT);
  EXPECT_EQ(parse(raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, "")), CKPT_FORMAT);
  EXPECT_EQ(parse(raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, std::string(kMaxName, 'x'))), CKPT_OK);
  EXPECT_EQ(parse(raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, std::string(kMaxName + 1, 'x'))), CKPT_FORMAT);
}

TEST(Declaration, EntriesOutOfOrderOrTwiceAreRefusedWithTheirPlace) {
  std::vector<std::byte> a = raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, "a"),
                         b = raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, "b");
  std::vector<std::byte> list = a;
  list.insert(list.end(), b.begin(), b.end());
  EXPECT_EQ(parse(list), CKPT_OK);
  list = b;
  list.insert(list.end(), a.begin(), a.end());
  auto parsed = parse_declaration_list(list);
  EXPECT_EQ(parsed.status().message(), "declaration list, entry 1 at byte 25: the entry is out of order");
  EXPECT_EQ(*parsed.status().detail("offset"), "25");
  list = a;
  list.insert(list.end(), a.begin(), a.end());
  EXPECT_EQ(parse(list), CKPT_FORMAT);
}

TEST(Declaration, ACutListEndsWithAWholeEntry) {
  std::vector<std::byte> a = raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, "a"), list = a;
  std::vector<std::byte> b = raw_entry(4, CKPT_DTYPE_I8, 0, {4}, {}, "b");
  list.insert(list.end(), b.begin(), b.end());
  EXPECT_EQ(declarations_within(list, list.size()), list.size());
  for (size_t limit = a.size(); limit < list.size(); limit++) EXPECT_EQ(declarations_within(list, limit), a.size());
  EXPECT_EQ(declarations_within(list, a.size() - 1), 0u);
}

}  // namespace
}  // namespace ckpt::plan
