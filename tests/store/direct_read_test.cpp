// Reads that bypass the page cache, and the guess whether it holds a range.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <thread>

#include "faults.h"
#include "store/posix_reader.h"
#include "store_suite.h"

namespace ckpt::store {
namespace {

class DirectRead : public testing::Test {
 protected:
  void SetUp() override { open_at(scratch_ / "store"); }
  void open_at(const std::string& path, StoreSettings options = {}) {
    root_ = path;
    store_ = open_posix(path, options).take();
    ASSERT_EQ(code(store_->prepare()), "OK");
  }
  std::unique_ptr<Reader> written(const Pattern& data) {
    EXPECT_EQ(code(store_->put_if_absent("a", data.bytes())), "OK");
    return store_->open("a").take();
  }
  // Whether the tests of this machine run on a disk.
  bool on_disk() const {
    struct statfs found{};
    EXPECT_EQ(statfs(root_.c_str(), &found), 0);
    return found.f_type == 0xef53 || found.f_type == 0x58465342;  // ext, XFS
  }
  Scratch scratch_;
  std::string root_;
  std::shared_ptr<Store> store_;
};

MutableBytes room_of(const Pattern& pattern) {
  return {const_cast<std::byte*>(pattern.bytes().data()), pattern.bytes().size()};
}

TEST_F(DirectRead, GivesWhatOtherReadsGive) {
  Pattern data(8 * kMiB, 1), room(8 * kMiB, 2);
  auto reader = written(data);
  std::mt19937 random(3);
  for (int i = 0; i < 50; i++) {
    uint64_t offset = random() % 1024 * kAlign, size = (1 + random() % 1024) * kAlign;
    ASSERT_EQ(code(reader->read_direct(offset, room_of(room).first(size))), "OK");
    ASSERT_TRUE(same(room.bytes().first(size), data.bytes().subspan(offset, size)));
  }
}

size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST_F(DirectRead, AsStreamsGivesTheSameByAFewDescriptors) {
  constexpr uint64_t kStream = 16 * kAlign;
  Pattern data(8 * kMiB, 1), room(8 * kMiB, 2);
  written(data);
  const size_t before = open_files();
  const auto reader = PosixReader::open(Root(root_), "a", true, kStream).take();
  EXPECT_EQ(reader->direct_descriptor(0, kAlign), -1) << "io_uring would not keep to its stream";
  for (uint64_t at = 0; at < 8 * kMiB; at += kStream)
    ASSERT_EQ(code(reader->read_direct(at, room_of(room).subspan(at, kStream))), "OK");
  EXPECT_TRUE(same(room.bytes(), data.bytes()));
  EXPECT_EQ(open_files() - before, reader->direct_align() == 0 ? 1 : 1 + PosixReader::kStreams);
}

TEST_F(DirectRead, IsThereOnDisksWithAnAlignmentOfAPageAtMost) {
  auto reader = written(Pattern(kMiB, 1));
  EXPECT_LE(reader->direct_align(), kAlign);
  EXPECT_EQ(reader->direct_align() > 0, reader->direct_descriptor(0, kAlign) >= 0);
  EXPECT_TRUE(reader->direct_align() >= 1 || !on_disk());
}

TEST_F(DirectRead, AtAnyAddressOfItsAlignmentWorks) {
  Pattern data(kMiB, 1), room(kMiB + kAlign, 2);
  auto reader = written(data);
  uint64_t align = std::max<uint64_t>(reader->direct_align(), 1);
  auto out = room_of(room).subspan(align, kMiB);
  ASSERT_EQ(code(reader->read_direct(0, out)), "OK");
  EXPECT_TRUE(same(out, data.bytes()));
}

TEST_F(DirectRead, OutOfAlignmentIsInvalidWhereThereAreDirectReads) {
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  std::string expected = reader->direct_align() == 0 ? "OK" : "INVALID";
  EXPECT_EQ(code(reader->read_direct(512, room_of(room).first(kAlign))), expected);
  EXPECT_EQ(code(reader->read_direct(0, room_of(room).first(512))), expected);
  expected = reader->direct_align() <= 1 ? "OK" : "INVALID";
  EXPECT_EQ(code(reader->read_direct(0, room_of(room).subspan(1, kAlign))), expected);
}

TEST_F(DirectRead, PastTheEndIsIncomplete) {
  Pattern data(kMiB + 100, 1), room(2 * kMiB, 2);
  auto reader = written(data);
  EXPECT_EQ(code(reader->read_direct(0, room_of(room))), "INCOMPLETE");
  EXPECT_EQ(code(reader->read_direct(kMiB, room_of(room).first(kAlign))), "INCOMPLETE");
  EXPECT_EQ(code(reader->read_direct(4 * kMiB, room_of(room).first(kAlign))), "INCOMPLETE");
  EXPECT_EQ(code(reader->read_direct(kMiB, {})), "OK");
}

TEST_F(DirectRead, OfAnEmptyFileIsIncomplete) {
  Pattern room(kAlign, 2);
  auto reader = written(Pattern(0, 1));
  EXPECT_EQ(code(reader->read_direct(0, room_of(room))), "INCOMPLETE");
  EXPECT_TRUE(reader->cached(0, kAlign));
}

TEST_F(DirectRead, IsNotThereWhereTheOptionSaysSo) {
  open_at(scratch_ / "off", {.direct_io = false});
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  EXPECT_EQ(reader->direct_align(), 0u);
  EXPECT_EQ(reader->direct_descriptor(0, kAlign), -1);
  EXPECT_EQ(code(reader->read_direct(5, room_of(room).first(7))), "OK");
  EXPECT_TRUE(same(room.bytes().first(7), data.bytes().subspan(5, 7)));
}

TEST_F(DirectRead, IsNotThereInMemory) {
  std::filesystem::create_directory(scratch_ / "tmpfs");
  TestMount mount(scratch_ / "tmpfs", "size=8m");
  ASSERT_TRUE(mount.ok());
  open_at(scratch_ / "tmpfs");
  EXPECT_FALSE((*store_->create("b", kMiB))->direct());
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  EXPECT_EQ(reader->direct_align(), 0u);
  EXPECT_TRUE(reader->cached(0, kMiB));
  EXPECT_EQ(code(reader->read_direct(0, room_of(room))), "OK");
  EXPECT_TRUE(same(room.bytes(), data.bytes()));
}

TEST_F(DirectRead, FollowsTheFileAndNotItsKey) {
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  ASSERT_EQ(code(store_->remove("a", false)), "OK");
  written(Pattern(kMiB, 7));
  EXPECT_EQ(reader->direct_align() > 0, on_disk());
  ASSERT_EQ(code(reader->read_direct(0, room_of(room))), "OK");
  EXPECT_TRUE(same(room.bytes(), data.bytes()));
}

TEST_F(DirectRead, WithoutProcTakesTheKeyAsLongAsItLeadsToTheFile) {
  in_child({}, [&] {
    TestMount mount("/proc", "size=1m");
    ASSERT_TRUE(mount.ok());
    Pattern data(kMiB, 1), room(kMiB, 2);
    auto first = written(data), second = store_->open("a").take();
    EXPECT_EQ(first->direct_align() > 0, on_disk());
    ASSERT_EQ(code(store_->remove("a", false)), "OK");
    written(Pattern(kMiB, 7));
    EXPECT_EQ(second->direct_align(), 0u);
    for (const Reader* reader : {first.get(), second.get()}) {
      ASSERT_EQ(code(reader->read_direct(0, room_of(room))), "OK");
      EXPECT_TRUE(same(room.bytes(), data.bytes()));
    }
  });
}

TEST_F(DirectRead, IsGivenUpWhereTheFirstOneIsRefused) {
  auto reader = written(Pattern(kMiB, 1));
  Faults faults;
  faults.transfer = [](size_t) -> long { return -EINVAL; };
  EXPECT_EQ(reader->direct_align(), 0u);
  EXPECT_EQ(reader->direct_descriptor(0, kAlign), -1);
}

TEST_F(DirectRead, GoesThroughThePageCacheWhereALaterOneIsRefused) {
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  bool refused = reader->direct_align() == 0;
  Faults faults;
  faults.transfer = [&](size_t size) -> long {
    return std::exchange(refused, true) ? static_cast<long>(size) : -EINVAL;
  };
  ASSERT_EQ(code(reader->read_direct(0, room_of(room))), "OK");
  EXPECT_TRUE(same(room.bytes(), data.bytes()));
}

TEST_F(DirectRead, ShortAndInterruptedOnesAreCompleted) {
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  reader->direct_align();
  int calls = 0;
  Faults faults;
  faults.transfer = [&](size_t size) -> long {
    return ++calls % 3 == 0 ? -EINTR : static_cast<long>(std::min<size_t>(size, 3 * kAlign));
  };
  ASSERT_EQ(code(reader->read_direct(0, room_of(room))), "OK");
  EXPECT_TRUE(same(room.bytes(), data.bytes()));
}

TEST_F(DirectRead, IsDecidedOnceByAnyNumberOfThreads) {
  auto reader = written(Pattern(kMiB, 1));
  std::vector<int> found(8);
  std::vector<std::thread> threads;
  for (int& fd : found) threads.emplace_back([&] { fd = reader->direct_descriptor(0, kAlign); });
  for (auto& thread : threads) thread.join();
  for (int fd : found) EXPECT_EQ(fd, found[0]);
}

// ---- in the page cache ----

void drop_from_cache(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fdatasync(fd), 0);
  EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
}

TEST_F(DirectRead, KnowsWhatIsInThePageCache) {
  Pattern data(8 * kMiB, 1), room(8 * kMiB, 2);
  auto reader = written(data);
  EXPECT_TRUE(reader->cached(0, 8 * kMiB));
  drop_from_cache(root_ + "/a");
  EXPECT_EQ(reader->cached(0, 8 * kMiB), !on_disk());
  ASSERT_EQ(code(reader->read_direct(0, room_of(room))), "OK");
  EXPECT_EQ(reader->cached(0, 8 * kMiB), !on_disk()) << "a direct read fills no cache";
  ASSERT_EQ(code(reader->read_at(0, room_of(room))), "OK");
  EXPECT_TRUE(reader->cached(0, 8 * kMiB));
}

TEST_F(DirectRead, KnowsWhichPartsAreInThePageCache) {
  Pattern data(64 * kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  drop_from_cache(root_ + "/a");
  ASSERT_EQ(code(reader->read_at(40 * kMiB, room_of(room))), "OK");
  EXPECT_TRUE(reader->cached(40 * kMiB, kMiB));
  EXPECT_EQ(reader->cached(4 * kMiB, 4 * kMiB), !on_disk());
  EXPECT_EQ(reader->cached(38 * kMiB, 4 * kMiB), !on_disk());
}

TEST_F(DirectRead, OfARangeBesideTheFileMayGoThroughThePageCache) {
  auto reader = written(Pattern(kMiB, 1));
  EXPECT_TRUE(reader->cached(9 * kMiB, kMiB));
  EXPECT_TRUE(reader->cached(0, 0));
  EXPECT_TRUE(reader->cached(0, ~uint64_t{0}));
}

}  // namespace
}  // namespace ckpt::store
