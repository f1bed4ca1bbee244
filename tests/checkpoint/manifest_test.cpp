// What an open checkpoint finds in its manifest, and what it refuses of one. Parts' copies, aliases and counts are
// checked here: rules that no page can check alone.
#include <atomic>

#include "checkpoint/drafted.h"
#include "codec/checksum.h"
#include "maintain/copy.h"
#include "maintain/repair.h"
#include "maintain/verify.h"

namespace ckpt::checkpoint {
namespace {

using format::chunk;

Draft part_of(uint32_t rank, uint32_t world) {
  Draft part(IndexKind::kPart, world);
  part.tensor("t" + std::to_string(rank), CKPT_DTYPE_U8, {6}).region({}).segment(0, 6, {chunk(4096, 6)});
  return part.inline_object("o", 1, "of rank " + std::to_string(rank));
}

// Two ranks with a tensor and an object each.
Drafted of_two() {
  Drafted drafted;
  for (uint32_t rank : {0u, 1u}) drafted.add_part(part_of(rank, 2));
  return drafted;
}
Draft manifest_of_two() {
  Draft manifest(IndexKind::kManifest, 2);
  manifest.tensor("t0", CKPT_DTYPE_U8, {6}).list({0}).tensor("t1", CKPT_DTYPE_U8, {6}).list({1});
  return manifest.object("o", 1, {0, 1});
}

void expect_manifest_refused(const Draft& manifest, std::string_view why) {
  Drafted drafted = of_two();
  drafted.commit(manifest);
  expect_error(drafted.open().status(), CKPT_FORMAT, why);
}

TEST(Manifest, ThatADraftMadeIsTheOneThatAMergeMakes) {
  Drafted drafted = of_two();
  ASSERT_TRUE(drafted.merge().ok());
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto merged = drafted.manifest();
  Draft manifest(IndexKind::kManifest, 2);
  for (const char* name : {"t0", "t1"}) {
    manifest.tensor(name, CKPT_DTYPE_U8, {6});
    manifest.builder.add_holding(6, 1, manifest.builder.list_layout(std::vector<uint32_t>{name[1] == '1'}));
  }
  manifest.builder.add_object({.name = "o",
                               .media_type = "",
                               .scope = 1,
                               .placement = 3,
                               .size = 0,
                               .digest = {},
                               .inline_bytes = {},
                               .chunks = {},
                               .layout = manifest.builder.list_layout(std::vector<uint32_t>{0, 1})});
  manifest.builder.summary.object_count = 2;
  drafted.commit(manifest);
  EXPECT_EQ(drafted.manifest(), merged);
}

TEST(Manifest, CountsAreThoseOfItsPages) {
  Draft tensors = manifest_of_two(), objects = manifest_of_two();
  tensors.builder.summary.tensor_count++;
  expect_manifest_refused(tensors, "the summary's counts are not those of the index");
  objects.builder.summary.object_count++;
  expect_manifest_refused(objects, "a page holds more or fewer names");
}

TEST(Manifest, SumOfPartSizesIsThatOfTheParts) {
  auto said = [](uint64_t part_bytes, uint64_t size) {
    Drafted drafted;
    Draft manifest(IndexKind::kManifest, 2);
    manifest.builder.parts.clear();
    for (int i = 0; i < 2; i++) manifest.add_part(size, 8192, 1024);
    manifest.builder.summary.part_bytes = part_bytes;
    drafted.put("c/MANIFEST", format::frame_manifest(manifest.encode(), {}, manifest.builder.summary));
    return drafted.open().status();
  };
  EXPECT_TRUE(said(81920, 40960).ok());
  expect_error(said(81921, 40960), CKPT_FORMAT, "the summary's counts");
  expect_error(said(0, uint64_t{1} << 63), CKPT_FORMAT, "the sizes of parts overflow");
}

TEST(Manifest, SummaryAtTheEndIsThatOfTheRoot) {
  Drafted drafted;
  Draft manifest(IndexKind::kManifest, 1);
  format::Summary other = manifest.builder.summary;
  other.step++;
  drafted.put("c/MANIFEST", format::frame_manifest(manifest.encode(), {}, other));
  expect_error(drafted.open().status(), CKPT_FORMAT, "the two summaries differ");
}

TEST(Manifest, AliasesAreOfTensorsThatAreThereAndViewsStayInThem) {
  Drafted drafted = of_two();
  drafted.commit(manifest_of_two().alias("a", "t1", {1, 5, 1}));
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->find("a")->tensor.name(), "t1");
  expect_manifest_refused(manifest_of_two().alias("a", "t2"), "of a tensor that is not there");
  expect_manifest_refused(manifest_of_two().alias("a", "t1").alias("b", "a"), "of a tensor that is not there");
  expect_manifest_refused(manifest_of_two().alias("a", "t1", {1, 6, 1}), "the view of alias \"a\" leaves its tensor");
}

TEST(Manifest, CopiesAreThoseOfThePartsAndFollowEachOther) {
  auto said = [](const Drafted::Spoil& spoil) {
    Drafted drafted = of_two();
    drafted.commit(manifest_of_two(), spoil);
    return drafted.open().status();
  };
  const std::string_view order = "does not follow that before", outside = "outside the copies";
  EXPECT_TRUE(said({}).ok());
  expect_error(said([](auto* copies, auto&) { copies->resize(copies->size() + 64); }), CKPT_FORMAT,
               "belong to no part");
  expect_error(said([](auto* copies, auto&) { copies->resize(copies->size() - 64); }), CKPT_FORMAT, outside);
  expect_error(said([](auto* copies, auto&) { copies->insert(0, 64, '\0'); }), CKPT_CORRUPT, "the root of the index");
  expect_error(said([](auto* copies, auto&) { (*copies)[60] ^= 1; }), CKPT_CORRUPT, "a page of the index");
  expect_error(said([](auto*, auto& part) { std::swap(part(0).copy_offset, part(1).copy_offset); }), CKPT_FORMAT,
               order);
  expect_error(said([](auto*, auto& part) { part(1).copy_offset -= 64; }), CKPT_FORMAT, order);
  auto widen = [](std::string* copies, auto& part) {
    copies->insert(part(1).copy_offset, 64, '\0'), part(1).copy_offset += 64;
  };
  expect_error(said(widen), CKPT_FORMAT, order);
  expect_error(said([](auto*, auto& part) { part(1).root_digest.lo++; }), CKPT_CORRUPT, "the root of the index");
  expect_error(said([](auto*, auto& part) { part(1).index_size += 64; }), CKPT_FORMAT, outside);
  Drafted drafted = of_two();
  Draft manifest = manifest_of_two();
  std::swap(drafted.indexes[0], drafted.indexes[1]);
  drafted.commit(manifest);
  auto checkpoint = drafted.open();  // each copy is sound, but of the other rank
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  expect_error((*checkpoint)->pieces((*checkpoint)->find("t0")->tensor).status(), CKPT_FORMAT, "does not hold it");
}

TEST(Manifest, EveryFlippedBitIsRefused) {
  Drafted drafted = of_two();
  ASSERT_TRUE(drafted.merge().ok());
  auto file = drafted.manifest();
  for (size_t bit = 0; bit < file.size() * 8; bit++) {
    file[bit / 8] ^= std::byte(1 << bit % 8);
    drafted.put("c/MANIFEST", file);
    const ckpt_status code = drafted.open().status().code();
    ASSERT_TRUE(code == CKPT_CORRUPT || code == CKPT_FORMAT) << "bit " << bit << ": " << code;
    file[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

TEST(Manifest, ObjectsAreInThePartsThatItNames) {
  Drafted drafted;
  for (uint32_t rank : {0u, 1u}) {
    Draft part = part_of(rank, 2);
    if (rank == 1)  // which says that part 0 has it
      part.builder.add_object({.name = "shared",
                               .media_type = "",
                               .scope = 0,
                               .placement = 2,
                               .size = 7,
                               .digest = {8, 9},
                               .inline_bytes = {},
                               .chunks = {}});
    drafted.add_part(std::move(part));
  }
  drafted.commit(manifest_of_two().object("p", 1, {1}).object("shared", 0, {0}));
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->find_object("o", 1)->part, 1u);
  EXPECT_EQ((*checkpoint)->find_object("o", 2)->object, nullptr);
  EXPECT_EQ((*checkpoint)->find_object("p", 0)->object, nullptr);
  expect_error((*checkpoint)->find_object("p", 1).status(), CKPT_FORMAT, "object \"p\" is not in PART_001");
  expect_error((*checkpoint)->find_object("shared", 1).status(), CKPT_FORMAT, "object \"shared\" is not in PART_000");
}

// ---- many pages ----

std::string name_of(size_t i) { return "layers." + std::to_string(1000000 + i); }

// Names of two ranks: of three, two are tensors and one an alias of another page's tensor; every seventh an object of
// each rank, too; every eleventh has attributes.
Drafted of_many(size_t count) {
  Drafted drafted;
  for (uint32_t rank : {0u, 1u}) {
    Draft part(IndexKind::kPart, 2);
    for (size_t i = 0; i < count; i++)
      if (i % 3 == rank)
        part.tensor(name_of(i), CKPT_DTYPE_U8, {i + 1})
            .region({})
            .segment(0, i + 1, {chunk(4096, static_cast<uint32_t>(i) + 1)});
    for (size_t i = rank; i < count; i += 2)
      if (i % 3 == 2) part.alias(name_of(i), name_of((i * 7919) % (count / 3) * 3));
    for (size_t i = 0; i < count; i += 7) part.inline_object(name_of(i), 1, std::to_string(rank));
    for (size_t i = 0; i < count; i += 11) part.attr(name_of(i), "key", std::to_string(i));
    drafted.add_part(std::move(part));
  }
  return drafted;
}

TEST(ManyPages, HoldAllNamesInOrder) {
  constexpr size_t kSmall = 10000, kPaged = 100000;  // below and above what is read whole
  for (size_t count : {kSmall, kPaged}) {
    Drafted drafted = of_many(count);
    Status merged = drafted.merge();
    ASSERT_TRUE(merged.ok()) << merged.message();
    EXPECT_EQ(drafted.manifest().size() > (4 << 20), count == kPaged);
    auto opened = drafted.open();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const Checkpoint& checkpoint = **opened;
    EXPECT_GT(checkpoint.manifest().page_count(), count / 2000);
    ASSERT_EQ(checkpoint.name_count(), count);
    ASSERT_EQ(checkpoint.object_count(), 2 * ((count + 6) / 7));
    for (size_t i = 0; i < count; i++) {
      const std::string name = name_of(i);
      uint64_t position = 0;
      auto at = checkpoint.named_at(i), found = checkpoint.find(name, &position);
      ASSERT_TRUE(at.ok() && found.ok()) << at.status().message() << found.status().message();
      ASSERT_EQ(at->name(), name);
      ASSERT_TRUE(at->tensor == found->tensor && at->alias == found->alias && position == i) << name;
      const size_t target = i % 3 == 2 ? (i * 7919) % (count / 3) * 3 : i;
      ASSERT_EQ(found->tensor.extents()[0], target + 1) << name;
      const format::Page* page = nullptr;
      auto attrs = checkpoint.attrs_of(name, &page);
      ASSERT_TRUE(attrs.ok() && attrs->size() == (i % 11 == 0)) << name;
    }
    for (size_t i = 0; i < checkpoint.object_count(); i += 13) {
      auto object = checkpoint.object_at(i);
      ASSERT_TRUE(object.ok()) << object.status().message();
      EXPECT_EQ(object->page->text(object->object->name()), name_of(i / 2 * 7));
      EXPECT_EQ(object->rank(), i % 2);
    }
    EXPECT_FALSE(checkpoint.find("layers")->tensor);
    EXPECT_FALSE(checkpoint.find("z")->tensor);
  }
}

TEST(ManyPages, DamageIsFoundWhereItIsRead) {
  Drafted drafted = of_many(100000);
  ASSERT_TRUE(drafted.merge().ok());
  auto file = drafted.manifest();
  auto whole = drafted.open();
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const format::Root& root = (*whole)->root();
  const size_t broken = root.page_of(name_of(50000));
  file[root.pages[broken].offset() + 1000] ^= std::byte{1};
  drafted.put("c/MANIFEST", file);
  auto checkpoint = drafted.open();
  ASSERT_TRUE(checkpoint.ok()) << "what is large is not read whole: " << checkpoint.status().message();
  EXPECT_TRUE((*checkpoint)->find(name_of(0)).ok());
  EXPECT_TRUE((*checkpoint)->find(name_of(99999)).ok());
  for (int again = 0; again < 2; again++) {
    const Status status = (*checkpoint)->find(name_of(50000)).status();
    expect_error(status, CKPT_CORRUPT, "a page of the index");
    EXPECT_TRUE(status.detail("path"));
  }
}

// A large manifest of one part, whose parts have what `of_many` gives; `spoil` changes the draft.
void expect_repair_needed(const std::function<void(Draft&)>& spoil, std::string_view why) {
  Drafted drafted;
  Draft part(IndexKind::kPart, 1), manifest(IndexKind::kManifest, 1);
  for (size_t i = 0; i < 80000; i++) {
    part.tensor(name_of(i), CKPT_DTYPE_U8, {6}).region({}).segment(0, 6, {chunk(4096, 6)});
    manifest.tensor(name_of(i), CKPT_DTYPE_U8, {6});
    manifest.builder.add_holding(6, 1, manifest.builder.list_layout(std::vector<uint32_t>{0}));
  }
  part.alias("tied", name_of(7));
  spoil(manifest);
  drafted.add_part(std::move(part));
  drafted.commit(std::move(manifest), [](std::string* copies, const auto&) { copies->clear(); });
  auto opened = drafted.open();
  ASSERT_TRUE(opened.ok()) << "what is large is not read whole: " << opened.status().message();
  ASSERT_GT(drafted.manifest().size(), 4u << 20);
  Report report;
  const Status repaired = maintain::repair_checkpoint(*drafted.inner, "c", false, false, &report);
  if (why.empty()) {
    EXPECT_EQ(repaired.code(), CKPT_EXISTS) << repaired.message();
    return;
  }
  expect_error((*opened)->check_manifest(), CKPT_FORMAT, why);
  EXPECT_TRUE(repaired.ok()) << repaired.message();
  EXPECT_TRUE((*drafted.open())->check_manifest().ok());
}

TEST(ManyPages, WhoseCountsOrAliasesAreWrongAreRepaired) {
  auto tied = [](Draft& manifest) { manifest.alias("tied", name_of(7)); };
  expect_repair_needed(tied, "");
  expect_repair_needed([](Draft& manifest) { manifest.alias("tied", "nothing"); }, "a tensor that is not there");
  expect_repair_needed(
      [&](Draft& manifest) {
        tied(manifest);
        manifest.builder.summary.tensor_count++;
      },
      "counts are not those of the index");
}

TEST(Manifest, VerifyComparesTheSumsOfATensorWithItsParts) {
  for (auto [bytes, segments] : {std::pair(6u, 1u), {5u, 1u}, {6u, 2u}}) {
    Drafted drafted = of_two();
    Draft manifest(IndexKind::kManifest, 2);
    for (uint32_t part : {0u, 1u}) {
      manifest.tensor("t" + std::to_string(part), CKPT_DTYPE_U8, {6});
      manifest.builder.add_holding(part ? bytes : 6, part ? segments : 1,
                                   manifest.builder.list_layout(std::vector<uint32_t>{part}));
    }
    drafted.commit(manifest.object("o", 1, {0, 1}));
    auto checkpoint = drafted.open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    Job job;
    ASSERT_TRUE(maintain::verify_checkpoint(**checkpoint, {.verify_mode = "sample"}, job).ok());
    size_t found = 0;
    for (const Finding& finding : job.report.findings) found += finding.name == "t1" && finding.part.empty();
    EXPECT_EQ(found, bytes != 6 || segments != 1) << bytes << " " << segments;
  }
}

// ---- layouts ----

TEST(PartCursor, GivesWhatTheRunsSayInAnyOrderOfRanges) {
  Draft manifest(IndexKind::kManifest, 9);
  const std::vector<uint32_t> holders = {0, 2, 4, 8, 7, 6, 1, 1, 1, 3, 5, 0};
  manifest.tensor("t", CKPT_DTYPE_U8, {12}).grid({12}, 1, holders);
  const EncodedIndex index = manifest.encode();
  auto opened = format::open_all(index, IndexKind::kManifest);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  format::Root::PartCursor cursor(opened->root, opened->root.layouts[0]);
  for (size_t first : {0u, 3u, 5u, 11u, 2u, 0u, 9u})
    for (size_t count = 0; first + count <= holders.size(); count++) {
      std::vector<uint32_t> found, at_once;
      cursor.visit(first, count, [&](uint32_t part) { found.push_back(part); });
      opened->root.for_each_part(opened->root.layouts[0], first, count,
                                 [&](uint32_t part) { at_once.push_back(part); });
      EXPECT_TRUE(std::equal(found.begin(), found.end(), holders.begin() + static_cast<long>(first)));
      EXPECT_EQ(found.size(), count);
      EXPECT_EQ(found, at_once);
    }
}

// ---- reading by pages ----

TEST(IndexFile, ReadsItsRootThenThePagesThatAreAskedForEachOnce) {
  Draft draft(IndexKind::kPart, 1);
  for (size_t i = 0; i < 50000; i++) draft.tensor(name_of(i), CKPT_DTYPE_U8, {0});
  const EncodedIndex index = draft.encode();
  ASSERT_GT(index.bytes.size(), 2u << 20);
  std::atomic<size_t> reads = 0;  // several threads read, if all pages are asked for
  std::atomic<uint64_t> bytes = 0;
  auto read = [&](uint64_t offset, MutableBytes out, bool) {
    std::copy_n(index.bytes.begin() + offset, out.size(), out.begin());
    reads++;
    bytes += out.size();
    return Ok();
  };
  const IndexPlace place{IndexKind::kPart, index.bytes.size(), index.root_size, index.root_digest, 40960};
  auto file = IndexFile::open(place, read);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(bytes, index.root_size);
  const size_t page = (*file)->root().page_of(name_of(25000));
  const uint64_t page_end = (*file)->root().pages[page + 1].offset();
  for (int again = 0; again < 3; again++) {
    auto found = (*file)->page_of(name_of(25000));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_NE((*found)->find_tensor(name_of(25000)), nullptr);
  }
  EXPECT_EQ(reads, 2u);
  EXPECT_EQ(bytes, index.root_size + page_end - (*file)->root().pages[page].offset()) << "with its padding";
  EXPECT_TRUE((*file)->load_all(4).ok());
  EXPECT_LE(reads, 2 + (*file)->page_count() / 32 + 1) << "in pieces of 32 pages";
  reads = 0;
  EXPECT_TRUE(IndexFile::open(place, read, true).ok());
  EXPECT_EQ(reads, 1u);
}

TEST(IndexFile, PagesThatAreAskedForOneAfterTheOtherAreReadInFewPieces) {
  Draft draft(IndexKind::kPart, 1);
  for (size_t i = 0; i < 100000; i++) draft.tensor(name_of(i), CKPT_DTYPE_U8, {0});
  const EncodedIndex index = draft.encode();
  size_t reads = 0, most = 0;
  uint64_t broken = index.bytes.size();
  bool heals = false;
  auto read = [&](uint64_t offset, MutableBytes out, bool again) {
    std::copy_n(index.bytes.begin() + offset, out.size(), out.begin());
    if (broken - offset < out.size() && !(again && heals)) out[broken - offset] ^= std::byte{1};
    reads++;
    most = std::max(most, out.size());
    return Ok();
  };
  IndexPlace place{IndexKind::kPart, index.bytes.size(), index.root_size, index.root_digest, 40960};
  auto file = IndexFile::open(place, read);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const size_t count = (*file)->page_count();
  ASSERT_GT(count, 60u);
  for (size_t i = 0; i < count; i++) {
    auto page = (*file)->page(i);
    ASSERT_TRUE(page.ok()) << page.status().message();
    EXPECT_NE((*page)->find_tensor((*page)->text((*page)->tensors[0].name())), nullptr);
  }
  EXPECT_LT(reads, 12u);
  EXPECT_GT(most, 1u << 20);
  // What is damaged concerns its page alone.
  for (const bool mends : {false, true}) {
    place.again = heals = mends;
    file = IndexFile::open(place, read);
    ASSERT_TRUE(file.ok());
    broken = (*file)->root().pages[40].offset();
    for (size_t i = 0; i < count; i++)
      EXPECT_EQ((*file)->page(i).status().code(), i == 40 && !mends ? CKPT_CORRUPT : CKPT_OK) << i;
    EXPECT_EQ((*file)->load_all(2).code(), mends ? CKPT_OK : CKPT_CORRUPT);
    broken = index.bytes.size();
  }
  // Who jumps reads what he asks for.
  place.again = false;
  file = IndexFile::open(place, read);
  reads = most = 0;
  for (size_t i = 0; i < count; i += 2) EXPECT_TRUE((*file)->page(count - 2 - i + count % 2).ok());
  EXPECT_EQ(reads, (count + 1) / 2);
  EXPECT_LT(most, 128u << 10);
}

// The gaps of an index that `open` opens anew each time.
void expect_gaps_checked(std::span<std::byte> bytes, const std::function<Result<std::unique_ptr<IndexFile>>()>& open) {
  auto file = open();
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->load_all().ok());
  const auto pages = (*file)->root().pages;
  ASSERT_EQ(pages.size(), 2u);
  size_t gaps = 0;
  for (uint64_t end : {pages[0].offset() + pages[0].size(), pages[1].offset() + pages[1].size()})
    for (uint64_t at = end; at < round_up(end, 64); at += 7, gaps++) {
      bytes[at] = std::byte{1};
      expect_error((*open())->load_all(), CKPT_CORRUPT, "expected zero padding");
      bytes[at] = std::byte{0};
    }
  EXPECT_GT(gaps, 0u);
}

TEST(IndexFile, GapsBetweenItsPagesAreZero) {
  for (const size_t count : {1, 1100}) {  // below and above what is read whole
    Draft draft(IndexKind::kPart, 1);
    for (size_t i = 0; i < count; i++) draft.attr("a", name_of(i), std::string(65530, 'x'));
    draft.attr("b", "k", "");
    const EncodedIndex index = draft.encode();
    std::vector<std::byte> bytes(index.bytes.size() + 64);
    const auto pad = static_cast<size_t>(-reinterpret_cast<uintptr_t>(bytes.data()) % 64);
    const MutableBytes at = MutableBytes(bytes).subspan(pad, index.bytes.size());
    std::ranges::copy(Bytes(index.bytes), at.begin());
    const IndexPlace place{IndexKind::kPart, index.bytes.size(), index.root_size, index.root_digest, 40960};
    expect_gaps_checked(at, [&] { return IndexFile::open(place, Bytes(at)); });
    const auto read = [&](uint64_t offset, MutableBytes out, bool) {
      std::ranges::copy(at.subspan(offset, out.size()), out.begin());
      return Ok();
    };
    expect_gaps_checked(at, [&] { return IndexFile::open(place, read, true); });
  }
}

// As of a sparse file of few KiB, in which all but the root are zeros.
TEST(IndexFile, WhatClaimsToBeLargeGetsMemoryOnlyOnceItsDigestVouchesForIt) {
  Draft draft(IndexKind::kPart, 1);
  draft.attr("a", "k", "v");
  const EncodedIndex index = draft.encode();
  const auto opened = open_all(index, IndexKind::kPart);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Bytes root = Bytes(index.bytes).last(index.root_size);
  size_t most = 0;
  const auto open = [&](uint64_t claimed, uint64_t root_size) -> Status {
    const IndexPlace place{IndexKind::kPart, round_up(claimed, 64) + root_size, root_size, codec::xxh3_128(root),
                           40960};
    const auto read = [&](uint64_t offset, MutableBytes out, bool) {
      most = std::max(most, out.size());
      std::ranges::fill(out, std::byte{0});
      if (offset == place.size - root.size()) std::ranges::copy(root, out.begin());
      return Ok();
    };
    CKPT_ASSIGN(const auto file, IndexFile::open(place, read, true));
    return file->load_all();
  };
  expect_error(open(uint64_t{1} << 40, uint64_t{100} << 20), CKPT_CORRUPT, "the root of the index");
  expect_error(open(uint64_t{1} << 40, root.size()), CKPT_FORMAT, "the pages of the index end at");
  opened->page(0).size = uint32_t{1} << 30;
  expect_error(open(uint64_t{1} << 30, root.size()), CKPT_CORRUPT, "a page of the index");
  EXPECT_LE(most, 1u << 20);
  opened->page(0).size = uint32_t{3} << 30;
  expect_error(open(uint64_t{3} << 30, root.size()), CKPT_FORMAT, "at most 2147483647 are allowed");
}

// Of MANIFEST, while `act` runs.
size_t largest_read(Drafted& drafted, const std::function<void()>& act) {
  std::atomic<size_t> most = 0;
  drafted.shell->on_read([&](std::string_view key, uint64_t bytes) {
    for (size_t had = most; key == "c/MANIFEST" && had < bytes && !most.compare_exchange_weak(had, bytes);) {
    }
  });
  act();
  drafted.shell->on_read({});
  return most;
}

TEST(Manifest, ALargeOneThatIsDamagedIsSetAsideInPieces) {
  Drafted drafted = of_two();
  const std::string damaged(9 << 20, 'x');
  drafted.put("c/MANIFEST", as_bytes(damaged));
  Report report;
  const size_t most = largest_read(drafted, [&] {
    const Status repaired = maintain::repair_checkpoint(*drafted.shell, "c", false, true, &report);
    EXPECT_TRUE(repaired.ok()) << repaired.message();
  });
  EXPECT_LE(most, 4u << 20);
  const auto files = *drafted.inner->list("c");
  const auto aside = std::ranges::find_if(files, [](auto& file) { return file.name.starts_with("MANIFEST.damaged."); });
  ASSERT_NE(aside, files.end());
  EXPECT_TRUE(as_text(*drafted.inner->get("c/" + aside->name, 1 << 30)) == damaged);
  EXPECT_TRUE(drafted.open().ok());
}

TEST(Manifest, ALargeOneIsCopiedOnlyOnceAllOfItIsSound) {
  Drafted drafted;
  drafted.add_part(std::move(Draft(IndexKind::kPart, 1).tensor("t", CKPT_DTYPE_U8, {0})));
  Draft manifest(IndexKind::kManifest, 1);
  manifest.tensor("t", CKPT_DTYPE_U8, {0}).list({});
  for (size_t i = 0; i < 1100; i++) manifest.attr("t", name_of(i), std::string(65530, 'x'));
  drafted.commit(std::move(manifest));
  auto bytes = drafted.manifest();
  bytes[1 << 20] ^= std::byte{1};
  drafted.put("c/MANIFEST", bytes);
  auto opened = drafted.open();
  ASSERT_TRUE(opened.ok()) << "what is large is not read whole: " << opened.status().message();
  auto to = *store::open_memory("copy of what is large");
  Report report;
  Job job;
  const size_t most = largest_read(drafted, [&] {
    expect_error(maintain::copy_checkpoint(**opened, *to, {}, &report, job), CKPT_CORRUPT, "a page of the index");
  });
  EXPECT_LE(most, 4u << 20);
}

}  // namespace
}  // namespace ckpt::checkpoint
