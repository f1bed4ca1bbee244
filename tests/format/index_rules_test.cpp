// The rules of FORMAT §4 for names, parts, tensors and segments. A record that breaks one is refused by name.
#include "format/index_draft.h"

namespace ckpt::format {
namespace {

// ---- summary ----

TEST(IndexRules, RevisionAndFeaturesOfTheFutureAreRefused) {
  Draft draft = complete();
  draft.builder.summary.revision = CKPT_FORMAT_REVISION + 1;
  expect_refused(draft, "format revision 1", IndexKind::kManifest, CKPT_REVISION);
  EXPECT_EQ(decode_summary(encode_summary(draft.builder.summary)).status().code(), CKPT_REVISION);
  draft = complete();
  draft.builder.summary.required_features = 1ull << 63;
  expect_refused(draft, "features that this library does not know", IndexKind::kManifest, CKPT_REVISION);
  EXPECT_EQ(decode_summary(encode_summary(draft.builder.summary)).status().code(), CKPT_REVISION);
  EXPECT_EQ(open_slot(draft.framed()).status().code(), CKPT_REVISION);
}

TEST(IndexRules, LabelAndRunAreNames) {
  for (const char* bad : {"", ".hidden", "a/b", "a b"}) {
    Draft draft = complete();
    draft.builder.summary.label = bad;
    expect_refused(draft, "label");
    draft = complete();
    draft.builder.summary.run = bad;
    expect_refused(draft, "run");
  }
}

TEST(IndexRules, CountsAreThoseOfTheIndex) {
  using Field = std::function<void(Summary&)>;
  for (const Field& field :
       {Field([](Summary& s) { s.world_size++; }), Field([](Summary& s) { s.part_count--; }),
        Field([](Summary& s) { s.tensor_count++; }), Field([](Summary& s) { s.object_count = 0; })}) {
    Draft draft = complete();
    field(draft.builder.summary);
    expect_refused(draft, "counts");
  }
  Draft draft = complete();
  auto& summary = draft.builder.summary;
  draft.encode();
  summary.part_bytes++;
  EXPECT_NE(refusal(draft.builder.encode().take()).find("counts"), std::string::npos);
}

TEST(IndexRules, OtherBuffersAreNoIndex) {
  auto summary = encode_summary(summary_of(1));
  EXPECT_NE(refusal(summary).find("CKPI"), std::string::npos);
  Draft draft = complete();
  EXPECT_EQ(decode_summary(draft.encode()).status().code(), CKPT_FORMAT);
  EXPECT_EQ(refusal({}).empty(), false);
  std::vector<std::byte> zeros(256);
  refusal(zeros);
}

// ---- parts ----

fb::Part part_with(const fb::Part& part, uint64_t size, uint32_t rank, uint8_t kind, fb::Digest save_id) {
  return fb::Part(size, part.index_digest(), save_id, rank, kind, uint8_t{0}, uint16_t{0});
}

TEST(IndexRules, PartsAreInTheOrderOfRanksAndOfThisSave) {
  auto change = [](size_t i, uint64_t size, uint32_t rank, uint8_t kind, fb::Digest save_id) {
    return [=](const Index& index) { set(index.parts[i], part_with(index.parts[i], size, rank, kind, save_id)); };
  };
  Draft draft = complete();
  fb::Digest own(5, 6);
  expect_refused(draft, change(1, 40960, 0, 0, own), "part 1 is of rank 0");
  expect_refused(draft, change(0, 40960, 1, 0, own), "part 0 is of rank 1");
  expect_refused(draft, change(1, 40960, 1, 1, own), "part of kind 1", CKPT_UNSUPPORTED);
  expect_refused(draft, change(1, 40960, 1, 2, own), "part of kind 2", CKPT_UNSUPPORTED);
  expect_refused(draft, change(1, 40960, 1, 0, fb::Digest(5, 7)), "another save");
  expect_refused(draft, change(1, 40960 + 64, 1, 0, own), "no legal size");
  expect_refused(draft, change(1, 4096, 1, 0, own), "");
}

TEST(IndexRules, PartSizesDoNotOverflow) {
  Draft draft;
  draft.builder.parts.clear();
  add_part(draft.builder, ~uint64_t{4095});
  add_part(draft.builder, ~uint64_t{4095});
  expect_refused(draft, "overflow");
}

TEST(IndexRules, PartsOwnIndexListsNoParts) {
  Draft draft;
  expect_refused(draft, "a part's index lists parts", IndexKind::kPart);
}

// ---- texts ----

TEST(IndexRules, TextsLieInsideAndEndWithALineFeed) {
  Draft draft = complete();
  auto rename = [](uint32_t offset, uint32_t size) {
    return [=](const Index& index) {
      fb::Tensor tensor = index.tensors[0];
      set(index.tensors[0], fb::Tensor(fb::Text(offset, size), tensor.dtype(), tensor.ndim(), 0, tensor.shape(),
                                       tensor.segment_first(), tensor.segment_count()));
    };
  };
  expect_refused(draft, rename(~0u, 1), "outside the names");
  expect_refused(draft, rename(0, ~0u), "outside the names");
  expect_refused(draft, rename(~0u, ~0u), "outside the names");
  expect_refused(
      draft, [&](const Index& index) { rename(static_cast<uint32_t>(index.names.size()), 0)(index); },
      "outside the names");
  expect_refused(
      draft, [&](const Index& index) { rename(static_cast<uint32_t>(index.names.size()) - 1, 1)(index); },
      "outside the names");
  expect_refused(draft, rename(0, 0), "");  // "a" follows, not a line feed
  expect_refused(draft, [](const Index& index) { const_cast<char&>(index.names[1]) = 'x'; }, "outside the names");
}

TEST(IndexRules, NamesAreSortedUniqueAndLegal) {
  Draft draft = complete();
  expect_refused(
      draft, [](const Index& index) { set_name(index, index.tensors[1].name(), "a"); }, "tensor \"a\" is out of order");
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[0].name(), "e"); }, "out of order");
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[0].name(), "\x01"); }, "control");
  expect_refused(draft, [](const Index& index) { set_name(index, index.tensors[0].name(), "\xff"); }, "UTF-8");
  expect_refused(draft, [](const Index& index) { set_name(index, index.objects[0].name(), "a/../b\n"); }, "");
  Draft dots;
  dots.tensor("../x", CKPT_DTYPE_U8, {0});
  expect_refused(dots, "..");
  Draft empty;
  empty.tensor("", CKPT_DTYPE_U8, {0});
  expect_refused(empty, "");
}

// ---- tensors ----

fb::Tensor tensor_with(const fb::Tensor& t, uint16_t dtype, uint16_t ndim, uint32_t reserved, uint64_t shape_at,
                       uint64_t first, uint64_t count) {
  return fb::Tensor(t.name(), dtype, ndim, reserved, shape_at, first, count);
}

TEST(IndexRules, TensorsHaveAShapeAndADtype) {
  auto change = [](uint16_t dtype, uint16_t ndim, uint32_t reserved, uint64_t shape_at) {
    return [=](const Index& index) {
      const fb::Tensor& t = index.tensors[0];
      set(t, tensor_with(t, dtype, ndim, reserved, shape_at, t.segment_first(), t.segment_count()));
    };
  };
  Draft draft = complete();
  expect_refused(draft, change(0x0200, 2, 0, 0), "no valid shape or dtype");
  expect_refused(draft, change(CKPT_DTYPE_F32, 17, 0, 0), "no valid shape or dtype");
  expect_refused(draft, change(CKPT_DTYPE_F32, 2, 1, 0), "no valid shape or dtype");
  expect_refused(draft, change(CKPT_DTYPE_F32, 2, 0, ~uint64_t{0}), "no valid shape or dtype");
  expect_refused(
      draft, [&](const Index& index) { change(CKPT_DTYPE_F32, 2, 0, index.numbers.size() - 1)(index); },
      "no valid shape or dtype");
}

TEST(IndexRules, TensorsOf2To63BytesAreRefusedAndEmptyOnesOfHugeExtentsAreNot) {
  Draft draft = complete();
  expect_refused(
      draft, [](const Index& index) { set_number(index, index.tensors[0].shape(), uint64_t{1} << 62); },
      "larger than 2^63-1 bytes");
  expect_refused(
      draft, [](const Index& index) { set_number(index, index.tensors[0].shape(), ~uint64_t{0}); },
      "larger than 2^63-1 bytes");
  Draft huge;
  huge.tensor("e", CKPT_DTYPE_F32, {0, uint64_t{1} << 62, uint64_t{1} << 62});
  auto bytes = huge.encode();
  EXPECT_TRUE(Index::open(bytes, IndexKind::kManifest).ok());
}

TEST(IndexRules, EverySegmentHasOneOwnerInOrder) {
  auto change = [](size_t i, int64_t first, int64_t count) {
    return [=](const Index& index) {
      const fb::Tensor& t = index.tensors[i];
      set(t, tensor_with(t, t.dtype(), t.ndim(), 0, t.shape(), t.segment_first() + static_cast<uint64_t>(first),
                         t.segment_count() + static_cast<uint64_t>(count)));
    };
  };
  Draft draft = complete();
  expect_refused(draft, change(0, 1, 0), "segments of tensor \"a\" do not follow");
  expect_refused(draft, change(1, -1, 0), "segments of tensor \"b\" do not follow");
  expect_refused(draft, change(0, 0, -1), "segments of tensor \"b\" do not follow");
  expect_refused(draft, change(2, 1, 0), "segments of tensor \"c\" do not follow");
  expect_refused(draft, change(3, 0, 1), "segments of tensor \"d\" do not follow");
  expect_refused(draft, change(3, 0, -1), "a segment belongs to no tensor");
  expect_refused(draft, change(3, 0, INT64_MAX), "segments of tensor \"d\" do not follow");
}

// So many that an open with threads divides them.
Draft of_many_tensors(size_t count) {
  Draft draft(1);
  draft.builder.parts.clear();
  add_part(draft.builder, uint64_t{1} << 40);
  for (size_t i = 0; i < count; i++) {
    std::string name = std::to_string(100000 + i);
    draft.tensor("layer." + name, CKPT_DTYPE_U8, {2});
    bool one = i % 3 != 0;
    draft.segment(0, flat(0, one ? 2 : 1), {chunk(4096 + 2 * i, one ? 2 : 1)});
    if (!one) draft.segment(0, flat(1, 1), {chunk(4097 + 2 * i, 1)});
  }
  return draft;
}

TEST(IndexRules, ThreadsFindWhatOneFindsAndTheFirstFaultOfAll) {
  constexpr size_t kCount = 60000;
  Draft draft = of_many_tensors(kCount);
  auto bytes = draft.encode();
  auto one = Index::open(bytes, IndexKind::kManifest), many = Index::open(bytes, IndexKind::kManifest, 4);
  ASSERT_TRUE(one.ok() && many.ok()) << one.status().message() << many.status().message();
  EXPECT_EQ(one->divided.size(), kCount / 3);
  EXPECT_EQ(one->divided, many->divided);
  auto drop_a_segment = [&](size_t i) {
    const fb::Tensor& t = one->tensors[i];
    set(t, tensor_with(t, t.dtype(), t.ndim(), 0, t.shape(), t.segment_first(), t.segment_count() - 1));
  };
  for (size_t i = 0; i <= kCount; i += kCount / 40) {
    size_t at = std::min(i, kCount - 1);
    auto sound = bytes;
    set_name(*one, one->tensors[kCount - 1].name(), "\x01");  // another fault further back
    if (at + 1 < kCount) drop_a_segment(at);
    std::string said = refusal(bytes);
    auto threaded = Index::open(bytes, IndexKind::kManifest, 4);
    ASSERT_FALSE(threaded.ok());
    EXPECT_EQ(threaded.status().message(), said) << at;
    std::copy(sound.begin(), sound.end(), bytes.begin());
  }
}

// ---- segments ----

TEST(IndexRules, UnknownKindCodecOrFilterIsUnsupported) {
  Draft draft = complete();
  expect_refused(draft, with_segment(0, [](auto& f) { f.kind = 2; }), "kind 2", CKPT_UNSUPPORTED);
  expect_refused(draft, with_segment(0, [](auto& f) { f.codec = 2; }), "codec 2", CKPT_UNSUPPORTED);
  expect_refused(draft, with_segment(0, [](auto& f) { f.filter = 3; }), "filter 3", CKPT_UNSUPPORTED);
}

TEST(IndexRules, FiltersHaveAWidthAndACodec) {
  Draft draft = complete();
  for (uint8_t width : std::initializer_list<uint8_t>{0, 3, 5, 16, 255})
    expect_refused(draft, with_segment(2, [=](auto& f) { f.width = width; }), "filter width");
  expect_refused(draft, with_segment(0, [](auto& f) { f.width = 4; }), "filter width");
  expect_refused(draft,
                 with_segment(3,
                              [](auto& f) {
                                f.filter = 1;
                                f.width = 2;
                              }),
                 "a filter without a codec");
}

TEST(IndexRules, SegmentsLieInAPartAndInOrder) {
  Draft draft = complete();
  expect_refused(draft, with_segment(1, [](auto& f) { f.part = 2; }), "a segment in part 2 of 2");
  expect_refused(draft, with_segment(0, [](auto& f) { f.part = 1; }), "out of order");
  Draft same(1);
  same.tensor("a", CKPT_DTYPE_U8, {8})
      .segment(0, flat(0, 4), {chunk(8192, 4)})
      .segment(0, flat(4, 4), {chunk(4096, 4)});
  expect_refused(same, "out of order");
}

TEST(IndexRules, GeometryLiesInsideTheNumbersAndTheTensor) {
  Draft draft = complete();
  expect_refused(draft, with_segment(0, [](auto& f) { f.geometry = ~uint64_t{0}; }), "geometry lies outside");
  expect_refused(
      draft,
      [](const Index& index) { with_segment(0, [&](auto& f) { f.geometry = index.numbers.size() - 3; })(index); },
      "geometry lies outside");
  auto number = [](size_t i, uint64_t at, uint64_t value) {
    return [=](const Index& index) { set_number(index, index.segments[i].geometry() + at, value); };
  };
  expect_refused(draft, number(0, 0, 1), "a box is empty or ends outside");
  expect_refused(draft, number(0, 2, 0), "a box is empty or ends outside");
  expect_refused(draft, number(0, 1, ~uint64_t{0}), "a box is empty or ends outside");
  expect_refused(draft, number(2, 0, 4), "a flat range is empty or ends outside");
  expect_refused(draft, number(2, 1, 0), "a flat range is empty or ends outside");
  expect_refused(draft, number(2, 0, ~uint64_t{0}), "a flat range is empty or ends outside");
}

TEST(IndexRules, PackedElementsEndAtWholeBytes) {
  auto packed = [](const Region& region, std::initializer_list<uint64_t> extents, uint32_t bytes) {
    Draft draft(1);
    draft.tensor("p", CKPT_DTYPE_F4_E2M1FN, extents).segment(0, region, {chunk(4096, bytes)});
    auto encoded = draft.encode();
    return Index::open(encoded, IndexKind::kManifest).ok();
  };
  EXPECT_TRUE(packed(flat(0, 15), {3, 5}, 8)) << "the whole tensor";
  EXPECT_TRUE(packed(box({0, 0}, {3, 5}), {3, 5}, 8)) << "the whole tensor";
  EXPECT_TRUE(packed(flat(2, 13), {3, 5}, 7)) << "to the end";
  EXPECT_TRUE(packed(flat(2, 4), {3, 5}, 2));
  EXPECT_FALSE(packed(flat(1, 4), {3, 5}, 2));
  EXPECT_FALSE(packed(flat(2, 3), {3, 5}, 2));
  EXPECT_TRUE(packed(box({1, 2}, {2, 2}), {3, 6}, 2));
  EXPECT_FALSE(packed(box({1, 1}, {2, 2}), {3, 6}, 2));
  EXPECT_FALSE(packed(box({1, 0}, {2, 3}), {3, 6}, 3));
  EXPECT_FALSE(packed(box({1, 0}, {1, 4}), {3, 5}, 2)) << "rows are no whole bytes";
}

}  // namespace
}  // namespace ckpt::format
