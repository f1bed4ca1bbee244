// The rules of FORMAT §4 for rows: regions of kind 3 in parts, layouts of kind 2 in MANIFEST.
#include "format/index_draft.h"

namespace ckpt::format {
namespace {

// Five rows of three f32, in two segments.
Draft rows_of_a_part() {
  Draft draft(IndexKind::kPart);
  draft.tensor("t", CKPT_DTYPE_F32, {5, 3}).region(rows());
  draft.segment(0, 9, {chunk(4096, 36)}).segment(9, 6, {chunk(4352, 24)});
  return draft;
}

Draft rows_of_a_manifest() {
  Draft draft(IndexKind::kManifest);
  draft.tensor("t", CKPT_DTYPE_F32, {5, 3}).rows_in({0, 2, 3});
  return draft;
}

TEST(RowRules, OfAPartAreKeptAsRows) {
  const EncodedIndex index = rows_of_a_part().encode();
  auto opened = open_all(index, IndexKind::kPart);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->region(0).kind, 3);
  EXPECT_EQ(opened->region(0).geometry, 0u);
}

TEST(RowRules, AreOfAKnownKindWithoutGeometry) {
  expect_each_refused(rows_of_a_part(), {{[](auto& at) { at.region(0).kind = 4; }, "a region of no known kind"},
                                         {[](auto& at) { at.region(0).geometry = 1; }, "geometry lies outside"}});
}

TEST(RowRules, AreNeverEmptyAndNotOfAScalar) {
  Draft empty(IndexKind::kPart);
  empty.tensor("t", CKPT_DTYPE_F32, {0, 3}).region(rows()).segment(0, 1, {chunk(4096, 4)});
  expect_refused(empty, "a region is empty");
  Draft scalar(IndexKind::kPart);
  scalar.tensor("t", CKPT_DTYPE_F32, {}).region(rows()).segment(0, 1, {chunk(4096, 4)});
  expect_refused(scalar, "its rows do not end at whole bytes");
}

TEST(RowRules, HaveNoOtherRegionBesideThem) {
  Draft draft(IndexKind::kPart);
  draft.tensor("t", CKPT_DTYPE_F32, {5, 3}).region(box({0, 0}, {1, 3})).segment(0, 3, {chunk(4096, 12)});
  draft.region(rows()).segment(0, 15, {chunk(4352, 60)});
  expect_refused(draft, "another region beside rows");
}

TEST(RowRules, AreWholeInTheirPart) {
  expect_each_refused(rows_of_a_part(),
                      {{[](auto& at) { at.number(at.tensor(0).shape) = 6; }, "only 15 of 18 elements of its rows"},
                       {[](auto& at) {
                          at.segment(0).count = 8;
                          at.chunk(0).raw_size = at.chunk(0).stored_size = 32;
                        },
                        "only 8 of 15 elements of its rows"},
                       {[](auto& at) { at.number(at.tensor(0).shape) = 4; }, "ends outside its region"}});
}

TEST(RowRules, EndAtWholeBytes) {
  Draft odd(IndexKind::kPart);
  odd.tensor("t", CKPT_DTYPE_U4, {2, 3}).region(rows()).segment(0, 6, {chunk(4096, 3)});
  expect_refused(odd, "its rows do not end at whole bytes");
  Draft even(IndexKind::kPart);
  even.tensor("t", CKPT_DTYPE_U4, {2, 3, 2}).region(rows()).segment(0, 12, {chunk(4096, 6)});
  expect_accepted(even);
}

TEST(RowRules, LayoutsAscendAndHaveAPart) {
  const EncodedIndex index = rows_of_a_manifest().encode();
  auto opened = open_all(index, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->layout(0).kind, 2);
  Draft none(IndexKind::kManifest);
  none.tensor("t", CKPT_DTYPE_F32, {0, 3}).rows_in({});
  expect_refused(none, "a layout of no known kind");
  Draft back(IndexKind::kManifest);
  back.tensor("t", CKPT_DTYPE_F32, {5, 3}).rows_in({2, 0});
  expect_refused(back, "do not ascend");
  expect_each_refused(rows_of_a_manifest(), {{[](auto& at) { at.layout(0).kind = 3; }, "a layout of no known kind"},
                                             {[](auto& at) { at.layout(0).ndim = 1; }, "a layout of no known kind"},
                                             {[](auto& at) { at.layout(0).cells = 1; }, "a layout of no known kind"}});
}

TEST(RowRules, ATensorHasAtLeastOneRowForEachPart) {
  expect_each_refused(rows_of_a_manifest(),
                      {{[](auto& at) { at.number(at.tensor(0).shape) = 2; }, "fewer rows than"},
                       {[](auto& at) { at.tensor(0).ndim = 0; }, "fewer rows than"},
                       {[](auto& at) { at.number(at.tensor(0).shape) = 0; }, "no parts, or too"}});
}

TEST(RowRules, AnObjectIsNoRows) {
  Draft draft = rows_of_a_manifest();
  draft.builder.add_object({.name = "o",
                            .media_type = "",
                            .scope = 1,
                            .placement = 3,
                            .size = 0,
                            .digest = {},
                            .inline_bytes = {},
                            .chunks = {},
                            .layout = 0});
  draft.builder.summary.object_count = 3;
  expect_refused(draft, "has no list of parts");
}

}  // namespace
}  // namespace ckpt::format
