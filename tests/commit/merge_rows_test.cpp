// The merge of rows that each rank counts for itself: against sums made here, directly and by way of groups.
#include "commit/grouped.h"
#include "commit/random_parts.h"

namespace ckpt::commit {
namespace {

// What one rank says of a tensor of rows; `rows` 0: it has none and says so.
struct Said {
  uint32_t rank;
  uint64_t rows;
};
struct RowsTensor {
  uint16_t dtype;
  std::vector<uint64_t> row;
  std::vector<Said> said;
};

struct RowsSave {
  uint32_t world;
  std::map<std::string, RowsTensor> tensors;
};

RowsSave random_save(Random& random) {
  RowsSave save{static_cast<uint32_t>(random.between(1, 9)), {}};
  for (uint64_t i = random.between(1, 5); i > 0; i--) {
    RowsTensor tensor{random.one_in(2) ? uint16_t{CKPT_DTYPE_F32} : uint16_t{CKPT_DTYPE_U4}, {}, {}};
    for (uint64_t d = random.below(3); d > 0; d--) tensor.row.push_back(random.between(1, 4));
    if (tensor.dtype == CKPT_DTYPE_U4) tensor.row.push_back(2);
    for (uint32_t rank = 0; rank < save.world; rank++)
      if (!random.one_in(4)) tensor.said.push_back({rank, random.one_in(3) ? 0 : random.between(1, 20)});
    if (!tensor.said.empty()) save.tensors["t" + std::to_string(i)] = tensor;
  }
  return save;
}

std::vector<uint64_t> extents_of(const RowsTensor& tensor, uint64_t rows) {
  std::vector<uint64_t> extents{rows};
  extents.insert(extents.end(), tensor.row.begin(), tensor.row.end());
  return extents;
}

// Rows of one rank, in one or two segments.
void draft_rows(Draft& draft, const std::string& name, const RowsTensor& tensor, uint64_t rows) {
  const std::vector<uint64_t> extents = extents_of(tensor, rows);
  draft.tensor(name, tensor.dtype, extents);
  if (rows == 0) return;
  draft.region(format::rows());
  const uint64_t total = elements_of(extents), first = rows > 10 ? total / rows * 4 : total;
  auto bytes = [&](uint64_t elements) {
    return static_cast<uint32_t>(elements * static_cast<uint64_t>(dtype_bits(tensor.dtype)) / 8);
  };
  draft.segment(0, first, {format::chunk(4096, bytes(first))});
  if (first != total) draft.segment(first, total - first, {format::chunk(8192, bytes(total - first))});
}

Drafted parts_of(const RowsSave& save) {
  Drafted drafted(5 * kAlign);
  for (uint32_t rank = 0; rank < save.world; rank++) {
    Draft draft(IndexKind::kPart, save.world);
    for (const auto& [name, tensor] : save.tensors)
      for (const Said& said : tensor.said)
        if (said.rank == rank) draft_rows(draft, name, tensor, said.rows);
    drafted.add_part(std::move(draft));
  }
  return drafted;
}

TEST(MergeRows, GivesTheSumOfTheRowsAndThePartsThatHaveSome) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    Random random(seed);
    const RowsSave save = random_save(random);
    Drafted drafted = parts_of(save);
    const Status merged = drafted.merge();
    ASSERT_TRUE(merged.ok()) << seed << ": " << merged.message();
    auto checkpoint = drafted.open().take();
    for (const auto& [name, tensor] : save.tensors) {
      uint64_t total = 0;
      std::vector<uint32_t> expected, found;
      for (const Said& said : tensor.said) {
        total += said.rows;
        if (said.rows != 0) expected.push_back(said.rank);
      }
      auto named = checkpoint->find(name);
      ASSERT_TRUE(named.ok() && named->tensor) << seed << " " << name;
      EXPECT_EQ(named->tensor.shape(), Shape::of(extents_of(tensor, total)));
      const format::Root& root = checkpoint->root();
      const fb::Layout& layout = root.layouts[named->tensor.page->holding_of(*named->tensor.tensor).layout()];
      EXPECT_EQ(layout.kind(), total ? 2 : 0);
      root.for_each_part(layout, 0, layout.per_cell(), [&](uint32_t part) { found.push_back(part); });
      EXPECT_EQ(found, expected) << seed << " " << name;
      auto pieces = checkpoint->pieces(named->tensor);
      EXPECT_TRUE(pieces.ok()) << seed << ": " << pieces.status().message();
    }
  }
}

TEST(MergeRows, OfGroupsOfAnySizeGivesTheSameBytes) {
  for (uint64_t seed = 500; seed < 700; seed++) {
    Random random(seed);
    const Drafted drafted = parts_of(random_save(random));
    auto parts = open_parts(drafted);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    auto direct = merge_parts(*parts, {}, *drafted.inner, "c", false);
    ASSERT_TRUE(direct.ok()) << direct.status().message();
    for (size_t size : {1, 2, 3, 5, 8})
      ASSERT_EQ(outcome_of(direct), outcome_of(merge_in_groups(drafted, *parts, size)))
          << "seed " << seed << ", groups of " << size;
  }
}

// ---- refusals ----

// Rank by rank, what each adds of "t".
using Fill = std::function<void(Draft&)>;
Status refused_alike(const std::vector<Fill>& ranks) {
  Drafted drafted(5 * kAlign);
  for (const Fill& fill : ranks) {
    Draft draft(IndexKind::kPart, static_cast<uint32_t>(ranks.size()));
    fill(draft);
    drafted.add_part(std::move(draft));
  }
  auto parts = open_parts(drafted);
  EXPECT_TRUE(parts.ok()) << parts.status().message();
  auto direct = merge_parts(*parts, {}, *drafted.inner, "c", false);
  for (size_t size : {1, 2})
    EXPECT_EQ(direct.status().code(), merge_in_groups(drafted, *parts, size).status().code()) << "groups of " << size;
  return std::move(direct).status();
}

Fill own_rows(uint16_t dtype, std::vector<uint64_t> row, uint64_t rows) {
  return [=](Draft& draft) { draft_rows(draft, "t", {dtype, row, {}}, rows); };
}
Fill ordinary(std::vector<uint64_t> extents, const Region& region, uint64_t elements) {
  return [=](Draft& draft) {
    draft.tensor("t", CKPT_DTYPE_F32, extents);
    if (elements == 0) return;
    draft.region(region).segment(0, elements, {format::chunk(4096, static_cast<uint32_t>(4 * elements))});
  };
}

TEST(MergeRows, OfAnotherDtypeOrRowShapeIsAMismatchThatNamesBothRanks) {
  const Fill good = own_rows(CKPT_DTYPE_F32, {4}, 3);
  Status status = refused_alike({good, own_rows(CKPT_DTYPE_I32, {4}, 2), good});
  EXPECT_EQ(status.code(), CKPT_MISMATCH);
  EXPECT_EQ(status.message(), "tensor \"t\": rank 0 has rows of f32 [3, 4], rank 1 has rows of i32 [2, 4]");
  EXPECT_EQ(*status.detail("ranks"), "0, 1");
  EXPECT_EQ(refused_alike({good, good, own_rows(CKPT_DTYPE_F32, {5}, 2)}).code(), CKPT_MISMATCH);
  EXPECT_EQ(refused_alike({good, own_rows(CKPT_DTYPE_F32, {2, 2}, 2), good}).code(), CKPT_MISMATCH);
  EXPECT_EQ(refused_alike({good, good, own_rows(CKPT_DTYPE_F32, {5}, 0)}).code(), CKPT_MISMATCH);
}

TEST(MergeRows, BesideAnyOtherRegionIsAMismatch) {
  const Fill good = own_rows(CKPT_DTYPE_F32, {4}, 3);
  Status status = refused_alike({ordinary({3, 4}, {}, 12), good, good});
  EXPECT_EQ(status.code(), CKPT_MISMATCH);
  EXPECT_EQ(status.message(), "tensor \"t\": rank 0 has f32 [3, 4], rank 1 has rows of f32 [3, 4]");
  EXPECT_EQ(refused_alike({good, good, ordinary({6, 4}, format::box({0, 0}, {3, 4}), 12)}).code(), CKPT_MISMATCH);
  EXPECT_EQ(refused_alike({good, ordinary({6, 4}, format::flat(0, 12), 12), good}).code(), CKPT_MISMATCH);
  EXPECT_EQ(refused_alike({good, ordinary({6, 4}, {}, 0), good}).code(), CKPT_MISMATCH) << "an empty box of [6, 4]";
}

TEST(MergeRows, BesideAnEmptyTensorIsFine) {
  const Fill good = own_rows(CKPT_DTYPE_F32, {4}, 3);
  const Status status = refused_alike({ordinary({0, 4}, {}, 0), good, good});
  EXPECT_TRUE(status.ok()) << status.message();
}

// A part that large would need millions of chunks; a group's file says it in a few numbers.
TEST(MergeRows, OfMoreThan2To63BytesTogetherAreUnsupported) {
  Drafted drafted(5 * kAlign);
  for (uint32_t rank = 0; rank < 3; rank++) {
    Draft draft(IndexKind::kPart, 3);
    draft_rows(draft, "t", {CKPT_DTYPE_U8, {1}, {}}, 2 + rank);
    drafted.add_part(std::move(draft));
  }
  auto parts = open_parts(drafted);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  const auto all = std::span<const checkpoint::PartFile>(*parts);
  auto gathered = gather_parts(all.subspan(1));
  ASSERT_TRUE(gathered.ok());
  uint64_t* run = gathered->numbers.data() + gathered->tensors[0].pieces.first;
  ASSERT_EQ(run[0], 2u) << "two rows that differ by a step";
  constexpr size_t kRowsAt = 1 + 1, kCountAt = 1 + 6, kStep = 8;
  for (const uint64_t first : {uint64_t{1} << 62, uint64_t{3} << 61}) {
    for (const size_t at : {kRowsAt, kCountAt}) run[at] = run[at + kStep] = first;
    auto decoded = Gathered::decode(Bytes(gathered->encode()), gathered->summary.save_id, 1, 2);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    auto merged = merge_parts(all.first(1), {&*decoded, 1}, *drafted.inner, "c", false);
    EXPECT_EQ(merged.status().code(), CKPT_UNSUPPORTED) << merged.status().message();
    EXPECT_EQ(*merged.status().detail("tensor"), "t");
  }
  // What does not fit together is refused, too.
  run[kCountAt] = 7;
  auto decoded = Gathered::decode(Bytes(gathered->encode()), gathered->summary.save_id, 1, 2);
  auto merged = merge_parts(all.first(1), {&*decoded, 1}, *drafted.inner, "c", false);
  EXPECT_EQ(merged.status().code(), CKPT_MISMATCH) << merged.status().message();
}

}  // namespace
}  // namespace ckpt::commit
