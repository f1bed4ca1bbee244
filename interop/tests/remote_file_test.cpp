// A file whose bytes are asked for: what is in memory, what is spilled, and what an import, a mapped one and a read of
// a region hold of it. A reader counts what it is asked for, and looks at the memory each time.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "device/convert.h"
#include "interop/src/elements.h"
#include "interop/src/feed.h"
#include "interop/src/import.h"
#include "interop/src/map/change.h"
#include "interop/src/remote_file.h"
#include "store_fixture.h"

namespace ckpt::interop {
namespace {

// Pages of a range that the system cannot have back: those of no file. The memory of the process would count what a
// sanitizer keeps.
uint64_t held_bytes(Bytes range) {
  constexpr uint64_t kPage = 4096, kPresent = uint64_t{1} << 63, kOfAFile = uint64_t{1} << 61;
  std::vector<uint64_t> pages((range.size() + kPage - 1) / kPage);
  const int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto first = static_cast<off_t>(reinterpret_cast<uintptr_t>(range.data()) / kPage * sizeof(uint64_t));
  const auto size = static_cast<ssize_t>(pages.size() * sizeof(uint64_t));
  EXPECT_EQ(::pread(fd, pages.data(), pages.size() * sizeof(uint64_t), first), size);
  ::close(fd);
  return kPage * static_cast<uint64_t>(std::ranges::count_if(
                     pages, [](uint64_t page) { return (page & kPresent) != 0 && (page & kOfAFile) == 0; }));
}

// 4-byte elements that tell their places.
uint32_t element_at(uint64_t place) { return static_cast<uint32_t>(place * 2654435761U); }

struct Watched {
  uint64_t asked = 0, most = 0;       // bytes; the most that was held of the file
  uint64_t fails_after = UINT64_MAX;  // bytes
  Bytes memory;
};

class CountingReader final : public store::Reader {
 public:
  CountingReader(uint64_t size, Watched& watched) : size_(size), watched_(watched) {}
  uint64_t size() const override { return size_; }
  Status read_at(uint64_t offset, MutableBytes out) const override {
    std::lock_guard lock(mutex_);
    watched_.asked += out.size();
    if (watched_.asked > watched_.fails_after) return Status(CKPT_IO, "the reader fails");
    if (!watched_.memory.empty()) watched_.most = std::max(watched_.most, held_bytes(watched_.memory));
    for (size_t i = 0; i < out.size();) {
      const uint32_t element = element_at((offset + i) / 4);
      const size_t inside = (offset + i) % 4, some = std::min<size_t>(4 - inside, out.size() - i);
      std::memcpy(out.data() + i, reinterpret_cast<const char*>(&element) + inside, some);
      i += some;
    }
    return Ok();
  }
  Result<Bytes> map() const override { return Status(CKPT_UNSUPPORTED, "no"); }

 private:
  const uint64_t size_;
  Watched& watched_;
  mutable std::mutex mutex_;
};

class RemoteFiles : public StoreTest {
 protected:
  std::shared_ptr<RemoteFile> file_of(uint64_t size, uint64_t keep = 0) {
    auto file = RemoteFile::make(std::make_unique<CountingReader>(size, watched_), "it", keep, held_);
    EXPECT_TRUE(file.ok());
    watched_.memory = (*file)->bytes();
    return file.take();
  }
  static bool is_right(const RemoteFile& file, const ByteRange& range) {
    for (uint64_t at = range.begin; at < range.end; at++) {
      const uint32_t element = element_at(at / 4);
      if (file.bytes()[at] != reinterpret_cast<const std::byte*>(&element)[at % 4]) return false;
    }
    return true;
  }

  // A checkpoint of one f32 tensor "w" that is a file whole, by these strides if there are some.
  ForeignCheckpoint checkpoint_of(const Shape& shape, std::optional<Strides> strides = {}) {
    ForeignCheckpoint from;
    from.format = "safetensors";
    ForeignTensor tensor;
    tensor.name = "w";
    tensor.dtype = CKPT_DTYPE_F32;
    tensor.shape = shape;
    const size_t file = from.files.add("it", InputFile(file_of(4 * tensor.elements())));
    tensor.pieces.push_back({{}, {file, 0, 4 * tensor.elements()}, strides, 0});
    from.tensors.push_back(std::move(tensor));
    return from;
  }
  // The tensor's elements in the order of their strides.
  static std::string elements_of(const Shape& shape, const Strides& strides) {
    std::string bytes;
    for (uint64_t i = 0; i < shape[0]; i++)
      for (uint64_t j = 0; j < shape[1]; j++) {
        const uint32_t element =
            element_at(i * static_cast<uint64_t>(strides[0]) + j * static_cast<uint64_t>(strides[1]));
        bytes.append(reinterpret_cast<const char*>(&element), 4);
      }
    return bytes;
  }
  static std::string as_bf16(const std::string& elements) {
    std::string cast(elements.size() / 2, '\0');
    device::convert(CKPT_DTYPE_F32, reinterpret_cast<const std::byte*>(elements.data()), CKPT_DTYPE_BF16,
                    reinterpret_cast<std::byte*>(cast.data()), elements.size() / 4, 1);
    return cast;
  }
  static void change_by(ForeignCheckpoint& from, const std::string& rule) {
    auto mapping = Mapping::parse(R"({"rules":[)" + rule + "]}", "test");
    ASSERT_TRUE(mapping.ok()) << mapping.status().message();
    Changes changes;
    changes.mapping = mapping.take();
    changes.views = false;
    const Status changed = change(from, changes);
    ASSERT_TRUE(changed.ok()) << changed.message();
  }
  void import_it(ForeignCheckpoint& from) {
    const ImportRequest request{"it", 3, {.run = "import", .is_set = {.run = true}}, {{"staging_bytes", 16 << 20}}};
    Job job;
    const Borrowed<client::Store> store(store_);
    const auto id = import_checkpoint(*store, from, request, job);
    ASSERT_TRUE(id.ok()) << id.status().message();
  }
  void expect_saved(int32_t dtype, const Shape& shape, std::string bytes) {
    save("it",
         {{{"w", dtype, {static_cast<int64_t>(shape[0]), static_cast<int64_t>(shape[1])}, std::move(bytes)}}, {}, ""});
    std::vector<std::string> found = differences("it", "import", "it", "main");
    std::erase_if(found, [](const std::string& text) { return text.starts_with("attribute of the checkpoint: map"); });
    EXPECT_EQ(found, std::vector<std::string>());
  }

  Watched watched_;
  std::shared_ptr<std::atomic<uint64_t>> held_ = std::make_shared<std::atomic<uint64_t>>(0);
};

constexpr uint64_t kMiB = 1 << 20;

// ---- ranges ----

TEST(RangeSets, AreThoseOfTheirBytes) {
  std::mt19937 random(7);  // NOLINT: the same each time
  RangeSet set;
  std::vector<bool> bytes(200);
  for (int i = 0; i < 20000; i++) {
    uint64_t begin = random() % 200, end = random() % 201;
    if (begin > end) std::swap(begin, end);
    const bool adds = random() % 2 == 0;
    adds ? set.add({begin, end}) : set.remove({begin, end});
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(end), adds);
    ASSERT_EQ(set.bytes(), static_cast<uint64_t>(std::ranges::count(bytes, true)));
    const uint64_t from = random() % 150, to = from + random() % 50;
    std::vector<bool> lacks(200);
    for (const ByteRange& gap : set.gaps({from, to})) {
      ASSERT_LT(gap.begin, gap.end);
      std::fill(lacks.begin() + static_cast<ptrdiff_t>(gap.begin), lacks.begin() + static_cast<ptrdiff_t>(gap.end),
                true);
    }
    for (uint64_t at = 0; at < 200; at++) ASSERT_EQ(lacks[at], at >= from && at < to && !bytes[at]) << at;
    uint64_t last = 0;
    for (const ByteRange& range : set.ranges()) {
      ASSERT_TRUE(range.begin > last || range.begin == 0) << "they touch";
      last = range.end;
    }
  }
}

// ---- spilling ----

TEST_F(RemoteFiles, WhatIsSpilledIsThereAndTheSystemCanHaveItsMemory) {
  const auto file = file_of(96 * kMiB + 1000);
  ASSERT_TRUE(file->spill({{100, 40 * kMiB}, {30 * kMiB, 90 * kMiB + 5}, {95 * kMiB + 3, 96 * kMiB + 1000}}).ok());
  EXPECT_TRUE(is_right(*file, {100, 90 * kMiB + 5}));
  EXPECT_TRUE(is_right(*file, {95 * kMiB + 3, 96 * kMiB + 1000}));
  EXPECT_LE(held_bytes(file->bytes()), 6 * 4096U) << "the pages at the ends";
  EXPECT_LE(*held_, 6 * 4096U);
  EXPECT_EQ(watched_.asked, 90 * kMiB - 95 + kMiB + 997) << "once each";
}

TEST_F(RemoteFiles, WhatIsSpilledStaysUntilItsEnd) {
  const auto file = file_of(8 * kMiB);
  ASSERT_TRUE(file->spill({{kMiB, 3 * kMiB}}).ok());
  const uint64_t asked = watched_.asked;
  file->give_back({0, 8 * kMiB});
  ASSERT_TRUE(file->fetch({{kMiB, 3 * kMiB}}).ok());
  ASSERT_TRUE(file->spill({{kMiB + 100, 2 * kMiB}}).ok());
  EXPECT_EQ(watched_.asked, asked);
  EXPECT_TRUE(is_right(*file, {kMiB, 3 * kMiB}));
  ASSERT_TRUE(file->end_spill().ok());
  EXPECT_EQ(file->bytes()[2 * kMiB], std::byte{0});
  ASSERT_TRUE(file->fetch({{kMiB, 3 * kMiB}}).ok());
  EXPECT_TRUE(is_right(*file, {kMiB, 3 * kMiB}));
  EXPECT_EQ(watched_.asked, asked + 2 * kMiB);
}

TEST_F(RemoteFiles, InAnyOrderOfCallsWhatWasAskedForIsThere) {
  std::mt19937 random(11);  // NOLINT: the same each time
  const uint64_t size = 3 * kMiB + 77;
  const auto file = file_of(size);
  for (int i = 0; i < 300; i++) {
    std::vector<ByteRange> ranges(1 + random() % 3);
    for (ByteRange& range : ranges) {
      range.begin = random() % size;
      range.end = std::min<uint64_t>(size, range.begin + random() % (random() % 2 ? 1000 : kMiB));
    }
    const bool spills = random() % 3 == 0;
    ASSERT_TRUE((spills ? file->spill(ranges) : file->fetch(ranges)).ok());
    for (const ByteRange& range : ranges) ASSERT_TRUE(is_right(*file, range)) << i;
    if (random() % 2) file->give_back(ranges[0]);
    const bool ends = random() % 20 == 0;
    ASSERT_TRUE(!ends || file->end_spill().ok());
    ASSERT_LE(*held_, size);
  }
  file->give_back({0, size});
}

TEST_F(RemoteFiles, ASpillThatFailsIsToldAndCanBeTriedAgain) {
  const auto file = file_of(64 * kMiB);
  watched_.fails_after = 40 * kMiB;
  EXPECT_EQ(file->spill({{0, 64 * kMiB}}).code(), CKPT_IO);
  watched_.fails_after = UINT64_MAX;
  ASSERT_TRUE(file->spill({{0, 64 * kMiB}}).ok());
  EXPECT_TRUE(is_right(*file, {0, 64 * kMiB}));
  // Where a write ends halfway, the next spill's bytes are elsewhere in its file.
  const auto third = file_of(64 * kMiB);
  rlimit before_limit{};
  getrlimit(RLIMIT_FSIZE, &before_limit);
  const rlimit small{35 * kMiB + 4096, before_limit.rlim_max};
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(third->spill({{0, 64 * kMiB}}).ok());
  setrlimit(RLIMIT_FSIZE, &before_limit);
  std::signal(SIGXFSZ, ignored);
  ASSERT_TRUE(third->spill({{0, 64 * kMiB}}).ok());
  EXPECT_TRUE(is_right(*third, {0, 64 * kMiB}));
  const auto other = file_of(kMiB);
  const std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
  setenv("TMPDIR", "/nowhere", 1);
  const Status told = other->spill({{0, kMiB}});
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  EXPECT_EQ(told.code(), CKPT_NOT_FOUND) << told.message();
  EXPECT_NE(told.message().find("/nowhere"), std::string::npos) << told.message();
}

TEST_F(RemoteFiles, WhatIsHereIsNotAskedForAgainToBeSpilled) {
  const auto file = file_of(8 * kMiB);
  ASSERT_TRUE(file->fetch({{kMiB, 7 * kMiB}}).ok());
  ASSERT_TRUE(file->spill({{kMiB, 7 * kMiB}}).ok());
  EXPECT_EQ(watched_.asked, 6 * kMiB);
  EXPECT_LE(held_bytes(file->bytes()), 2 * 4096U);
  EXPECT_TRUE(is_right(*file, {kMiB, 7 * kMiB}));
}

TEST_F(RemoteFiles, SmallRangesStayInMemoryUntilTheEndOfTheSpill) {
  const auto file = file_of(64 * kMiB);
  std::vector<ByteRange> ranges;
  for (uint64_t at = 100; at + 60000 < 64 * kMiB; at += 65536) ranges.push_back({at, at + 60000});
  ASSERT_TRUE(file->spill(ranges).ok());
  for (const ByteRange& range : ranges) ASSERT_TRUE(is_right(*file, range));
  ASSERT_TRUE(file->end_spill().ok());
  EXPECT_LE(held_bytes(file->bytes()), 2 * 4096 * ranges.size()) << "the pages at their ends";
}

// A process has only so many mappings: the rest stays in memory, also when it is given back.
TEST_F(RemoteFiles, OfVeryManyRangesTheLastStayInMemory) {
  const uint64_t count = 8300, size = 68 << 10, step = 72 << 10;
  const auto file = file_of(count * step);
  watched_.memory = {};  // looking at it 8,300 times would take a minute
  std::vector<ByteRange> ranges;
  for (uint64_t i = 0; i < count; i++) ranges.push_back({i * step, i * step + size});
  ASSERT_TRUE(file->spill(ranges).ok());
  file->give_back({0, count * step});
  for (uint64_t i = 0; i < count; i += 83) ASSERT_TRUE(is_right(*file, ranges[i])) << i;
  ASSERT_TRUE(is_right(*file, ranges.back()));
  EXPECT_EQ(watched_.asked, count * size);
  EXPECT_EQ(held_bytes(file->bytes()), (count - 8192) * size);
  ASSERT_TRUE(file->end_spill().ok());
  EXPECT_EQ(held_bytes(file->bytes()), 0U);
}

// ---- what a save reads ----

// The save asks for block after block; nothing else holds what was given back.
TEST_F(RemoteFiles, AFeedHoldsWhatIsBeingSavedAlone) {
  const size_t blocks = 96, size = 4 * kMiB;
  const auto file = file_of(blocks * size);
  Feed feed({file});
  std::vector<std::vector<Bytes>> plan;
  for (size_t i = 0; i < blocks; i++) plan.push_back({file->bytes().subspan(i * size, size)});
  ASSERT_TRUE(feed.begin(plan).ok());
  for (size_t i = 0; i < blocks; i++) {
    const Result<bool> there = feed.wait(i, 60'000);
    ASSERT_TRUE(there.ok() && *there);
    ASSERT_TRUE(is_right(*file, {i * size, i * size + 100}));
    feed.done(i);
  }
  // 384 MiB went through, 16 blocks ahead.
  EXPECT_LT(watched_.most, 100 * kMiB);
  EXPECT_GE(watched_.most, size);
  EXPECT_EQ(watched_.asked, blocks * size);
}

// What several blocks read, or what was spilled before, is not given back under anybody's hands.
TEST_F(RemoteFiles, AFeedSpillsWhatSeveralBlocksRead) {
  const auto file = file_of(2 * kMiB);
  auto part = [&](size_t begin, size_t end) { return file->bytes().subspan(begin, end - begin); };
  ASSERT_TRUE(file->spill({{100000, 200000}}).ok());
  Feed feed({file});
  const std::vector<std::vector<std::pair<size_t, size_t>>> blocks = {
      {{90000, 100000}, {190000, 230000}}, {{400000, 500000}}, {{420000, 600000}}, {{700000, 900000}}, {}};
  std::vector<std::vector<Bytes>> plan(blocks.size());
  for (size_t i = 0; i < blocks.size(); i++)
    for (const auto& [begin, end] : blocks[i]) plan[i].push_back(part(begin, end));
  ASSERT_TRUE(feed.begin(plan).ok());
  for (size_t i = 0; i < blocks.size(); i++) {
    const Result<bool> there = feed.wait(i, 60'000);
    ASSERT_TRUE(there.ok() && *there);
    for (const auto& [begin, end] : blocks[i]) EXPECT_TRUE(is_right(*file, {begin, end})) << begin;
    feed.done(i);
  }
  EXPECT_TRUE(is_right(*file, {100000, 200000}));
  EXPECT_TRUE(is_right(*file, {400000, 600000}));
  EXPECT_EQ(file->bytes()[800000], std::byte{0}) << "given back";
  EXPECT_LE(held_bytes(file->bytes()), 12 * 4096U);
}

// ---- imports ----

TEST_F(RemoteFiles, AnImportOfATransposedTensorHoldsAPartOfIt) {
  const Shape shape{2, {5000, 4003}};  // 76 MiB
  const Strides strides{1, 5000};
  ForeignCheckpoint from = checkpoint_of(shape, strides);
  import_it(from);
  EXPECT_LE(watched_.most, kMiB);
  EXPECT_LE(watched_.asked, 4 * 5000 * 4003 + kMiB);
  expect_saved(CKPT_DTYPE_F32, shape, elements_of(shape, strides));
}

TEST_F(RemoteFiles, AnImportThatCastsHoldsNothingOfWhatItCasts) {
  const Shape shape{2, {6000, 4003}};  // 92 MiB
  ForeignCheckpoint from = checkpoint_of(shape);
  Changes changes;
  changes.cast = CKPT_DTYPE_BF16;
  ASSERT_TRUE(change(from, changes).ok());
  import_it(from);
  EXPECT_LE(watched_.most, kMiB);
  EXPECT_LE(watched_.asked, 4 * 6000 * 4003 + kMiB);
  expect_saved(CKPT_DTYPE_BF16, shape, as_bf16(elements_of(shape, row_major(shape))));
}

TEST_F(RemoteFiles, AnImportThatTransposesAndCastsReadsItsSourceOnce) {
  const Shape source{2, {4003, 5000}}, shape{2, {5000, 4003}};
  ForeignCheckpoint from = checkpoint_of(source);
  change_by(from, R"({"match":"w","to":"w","ops":["a b -> b a"],"cast":"bf16"})");
  import_it(from);
  EXPECT_LE(watched_.most, kMiB);
  EXPECT_LE(watched_.asked, 4 * 5000 * 4003 + 2 * kMiB);
  expect_saved(CKPT_DTYPE_BF16, shape, as_bf16(elements_of(shape, {1, 5000})));
}

// Each step of a transposition reads a little of every piece.
TEST_F(RemoteFiles, AMappedImportOfManyPiecesReadsThemOnce) {
  const uint64_t rows = 2048, columns = 4096;  // 32 MiB in 32 pieces
  ForeignCheckpoint from = checkpoint_of({2, {rows, columns}});
  const FileRange whole = from.tensors[0].pieces[0].bytes;
  from.tensors[0].pieces.clear();
  for (uint64_t row = 0; row < rows; row += 64) {
    const Region region{RegionKind::kBox, {{2, {row, 0}}, {2, {64, columns}}}};
    from.tensors[0].pieces.push_back(
        {region, {whole.file, whole.offset + 4 * row * columns, 4 * 64 * columns}, std::nullopt, 0});
  }
  change_by(from, R"({"match":"w","to":"w","ops":["a b -> b a"]})");
  import_it(from);
  EXPECT_LE(watched_.most, 2 * kMiB);
  EXPECT_LE(watched_.asked, 4 * rows * columns + 2 * kMiB);
  expect_saved(CKPT_DTYPE_F32, {2, {columns, rows}}, elements_of({2, {columns, rows}}, {1, columns}));
}

// Of a fused tensor only what is wanted is read, and has room.
TEST_F(RemoteFiles, AMappedImportOfAPartReadsThatPart) {
  const uint64_t experts = 8, rows = 2000, columns = 2048;  // 16 MiB each
  ForeignCheckpoint from = checkpoint_of({2, {experts * rows, columns}});
  change_by(from, R"({"match":"w","to":["v","w"],"split":{"dim":0,"sizes":[14000,"*"]},"ops":["a b -> b a"]})");
  std::erase_if(from.tensors, [](const ForeignTensor& tensor) { return tensor.name == "v"; });
  import_it(from);
  EXPECT_LE(watched_.asked, 4 * rows * columns + 2 * kMiB);
  std::string bytes;
  for (uint64_t column = 0; column < columns; column++)
    for (uint64_t row = 7 * rows; row < experts * rows; row++) {
      const uint32_t element = element_at(row * columns + column);
      bytes.append(reinterpret_cast<const char*>(&element), 4);
    }
  expect_saved(CKPT_DTYPE_F32, {2, {columns, rows}}, bytes);
}

// ---- reading a region ----

TEST_F(RemoteFiles, SmallReadsOfACastTensorReadItsSourceOnce) {
  ForeignCheckpoint from = checkpoint_of({2, {4096, 1024}});
  Changes changes;
  changes.cast = CKPT_DTYPE_BF16;
  ASSERT_TRUE(change(from, changes).ok());
  std::string row(2048, '\0');
  for (uint64_t i = 0; i < 4096; i++) {
    device::RegionRequest wanted;
    ASSERT_TRUE(device::read_desc(describe(uint16_t{CKPT_DTYPE_BF16}, Shape{2, {4096, 1024}}, i * 1024, 1024),
                                  row.data(), row.size(), &wanted)
                    .ok());
    ASSERT_TRUE(copy_elements(from.files, from.tensors[0], wanted, false).ok());
  }
  EXPECT_LE(watched_.asked, 4 * 4096 * 1024 + kMiB);
}

TEST_F(RemoteFiles, AReadOfATransposedTensorGoesThroughWindows) {
  const Shape shape{2, {6000, 8001}};  // 183 MiB
  const Strides strides{1, 6000};
  ForeignCheckpoint from = checkpoint_of(shape, strides);
  std::string bytes(4 * from.tensors[0].elements(), '\0');
  device::RegionRequest wanted;
  ASSERT_TRUE(device::read_desc(describe(CKPT_DTYPE_F32, {6000, 8001}), bytes.data(), bytes.size(), &wanted).ok());
  const Status copied = copy_elements(from.files, from.tensors[0], wanted, false);
  ASSERT_TRUE(copied.ok()) << copied.message();
  EXPECT_TRUE(bytes == elements_of(shape, strides));
  EXPECT_LE(watched_.most, 66 * kMiB);
  EXPECT_LE(watched_.asked, bytes.size() + 4 * kMiB);
}

}  // namespace
}  // namespace ckpt::interop
