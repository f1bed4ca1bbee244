// The POSIX store when the machine fails it: no space, read-only, lost syncs, interrupted and short transfers, old
// kernels.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "faults.h"
#include "store_suite.h"

namespace ckpt::store {
namespace {

class PosixFaults : public testing::Test {
 protected:
  void SetUp() override { open_at(scratch_ / "store"); }
  void open_at(const std::string& root) {
    root_ = root;
    store_ = open_posix(root, {}).take();
    ASSERT_EQ(code(store_->prepare()), "OK");
    ASSERT_EQ(code(store_->make_directory("d")), "OK");
  }

  Scratch scratch_;
  std::string root_;
  std::shared_ptr<Store> store_;
};

bool is_directory(int fd) {
  struct stat found{};
  return fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
}

// ---- space ----

class PosixFull : public PosixFaults {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(scratch_ / "small");
    mount_.emplace(scratch_ / "small", "size=1m");
    ASSERT_TRUE(mount_->ok());
    open_at(scratch_ / "small");
  }
  uint64_t free_bytes() const { return std::filesystem::space(root_).available; }
  std::optional<TestMount> mount_;
};

TEST_F(PosixFull, CreateOfMoreThanThereIsIsNoSpaceAndLeavesNothing) {
  uint64_t before = free_bytes();
  Status status = store_->create("d/a", 4 << 20).status();
  EXPECT_EQ(code(status), "NO_SPACE");
  EXPECT_EQ(names(*store_, "d"), "");
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(PosixFull, PutOfMoreThanThereIsIsNoSpaceAndLeavesNothing) {
  uint64_t before = free_bytes();
  EXPECT_EQ(code(store_->put_if_absent("d/a", Pattern(4 << 20, 1).bytes())), "NO_SPACE");
  EXPECT_EQ(names(*store_, "d"), "");
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(code(store_->put_if_absent("d/a", as_bytes("small"))), "OK");
}

TEST_F(PosixFull, AWriterThatGrowsPastTheSpaceIsNoSpaceAndGoneWhenDropped) {
  uint64_t before = free_bytes();
  {
    auto writer = store_->create("d/a", 0);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(code((*writer)->write_at(0, Pattern(4 << 20, 1).bytes())), "NO_SPACE");
  }
  EXPECT_EQ(names(*store_, "d"), "");
  EXPECT_EQ(free_bytes(), before);
}

// No directory can be made for the trash: what is removed becomes the trash.
TEST_F(PosixFaults, ADirectoryIsRetiredWhereNoInodeIsLeft) {
  std::filesystem::create_directory(scratch_ / "few");
  const TestMount mount(scratch_ / "few", "nr_inodes=40");
  ASSERT_TRUE(mount.ok());
  open_at(scratch_ / "few");
  for (const std::string key : {"d/MANIFEST", "d/PART_000", "e/MANIFEST"}) {
    ASSERT_TRUE(store_->make_directory(key.substr(0, 1)).ok());
    ASSERT_TRUE(store_->put_if_absent(key, as_bytes("x")).ok());
  }
  for (int i = 0; i < 100; i++) std::ofstream(scratch_ / strformat("few/fill{}", i));
  ASSERT_EQ(code(store_->put_if_absent("d/more", {})), "NO_SPACE");
  EXPECT_EQ(code(store_->retire("d", "MANIFEST", {})), "OK");
  EXPECT_EQ(names(*store_, "d"), "<NOT_FOUND>");
  EXPECT_EQ(names(*store_, ".ckpt/trash"), "");
  EXPECT_EQ(code(store_->retire("e", "MANIFEST", {})), "OK");
  EXPECT_EQ(names(*store_, ".ckpt/trash"), "");
  // One that was killed in between leaves files there.
  ASSERT_TRUE(store_->put_if_absent(".ckpt/trash/PART_000", as_bytes("x")).ok());
  ASSERT_EQ(code(open_posix(root_, {}).take()->prepare()), "OK");
  EXPECT_EQ(names(*store_, ".ckpt/trash"), "");
}

// ---- read-only ----

TEST_F(PosixFull, AReadOnlyFileSystemIsIoForEveryChangeAndReadable) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  mount_->make_read_only();
  Status status = open_posix(root_, {}).take()->prepare();
  EXPECT_EQ(code(status), "IO");
  EXPECT_NE(status.message().find("Read-only"), std::string::npos) << status.message();
  EXPECT_EQ(code(store_->put_if_absent("d/b", {})), "IO");
  EXPECT_EQ(code(store_->create("d/b", 0).status()), "IO");
  EXPECT_EQ(code(store_->make_directory("e")), "IO");
  EXPECT_EQ(code(store_->remove("d/a", true)), "IO");
  EXPECT_EQ(code(store_->retire("d", "a", {})), "IO");
  EXPECT_EQ(code(store_->remove_directory("d")), "IO");
  EXPECT_EQ(code(open_posix(root_ + "/sub", {}).take()->prepare()), "IO");
  EXPECT_EQ(read_text(*store_, "d/a"), "x");
  auto shared = store_->lock_shared("d/a");
  EXPECT_EQ(code(shared.status()), "OK");
  EXPECT_EQ(code(store_->try_lock_exclusive("d/a").status()), "CONFLICT") << "an exclusive lock does without writing";
}

// ---- second names ----

TEST_F(PosixFaults, AFileThatCanHaveNoSecondNameIsUnsupportedAndLeavesNothing) {
  open_at("/dev/shm/ckpt-second-names." + std::to_string(getpid()));  // which makes no clones
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  for (const int error : {EXDEV, EPERM, EMLINK, EOPNOTSUPP, ENOSYS})
    in_child({{SYS_linkat, error}}, [&] {
      const Status status = store_->borrow("d/a", "d/b").status();
      EXPECT_EQ(code(status), "UNSUPPORTED") << error;
      ASSERT_TRUE(status.detail("errno"));
      EXPECT_EQ(*status.detail("errno"), std::to_string(error));
      EXPECT_EQ(names(*store_, "d"), "a");
    });
  in_child({{SYS_linkat, EIO}}, [&] { EXPECT_EQ(code(store_->borrow("d/a", "d/b").status()), "IO"); });
  in_child({{SYS_linkat, ENOENT}}, [&] { EXPECT_EQ(code(store_->borrow("d/a", "d/b").status()), "NOT_FOUND"); });
  std::filesystem::remove_all(root_);
}

// Whether this file system makes files that share their blocks. Most make none: file_systems.sh has those that do.
bool makes_clones(const std::string& directory) {
  const std::string from = directory + "/from", to = directory + "/to";
  std::ofstream(from) << std::string(4096, 'x');
  const int source = open(from.c_str(), O_RDONLY), target = open(to.c_str(), O_WRONLY | O_CREAT, 0600);
  const bool made = ioctl(target, FICLONE, source) == 0;
  close(source);
  close(target);
  std::filesystem::remove(from);
  std::filesystem::remove(to);
  return made;
}

using Clones = PosixFaults;

TEST_F(Clones, AFileThatMayNotBeLinkedIsClonedWhereThatCanBe) {
  const bool can = makes_clones(root_);
  const char* wanted = std::getenv("CKPT_TEST_CLONES");
  EXPECT_TRUE(can || !wanted) << "this file system should";
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("four")).ok());
  for (const int error : {EXDEV, EPERM, EMLINK})
    in_child({{SYS_linkat, error}}, [&] {
      auto borrowed = store_->borrow("d/a", "d/b");
      ASSERT_EQ(code(borrowed.status()), can ? "OK" : "UNSUPPORTED") << borrowed.status().message();
      EXPECT_EQ(names(*store_, "d"), can ? "a b" : "a");
      if (!can) return;
      EXPECT_EQ(read_text(*store_, "d/b"), "four");
      const auto files = *store_->usage("d");
      EXPECT_TRUE(files[0].links == 1 && files[1].links == 1) << "a file of its own";
      auto again = store_->borrow("d/a", "d/b");
      ASSERT_TRUE(again.ok());
      (*again)->drop();
      EXPECT_EQ(read_text(*store_, "d/b"), "four") << "it was there before";
      (*borrowed)->drop();
      EXPECT_EQ(names(*store_, "d"), "a");
    });
}

// ---- syncs ----

TEST_F(PosixFaults, AFailedSyncOfTheFileIsIoPublishesNothingAndIsNotTriedAgain) {
  int syncs = 0;
  Faults faults;
  faults.fsync = [&](int fd) { return is_directory(fd) ? 0 : (syncs++, EIO); };
  auto writer = store_->create("d/a", 4096);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(code((*writer)->publish(10)), "IO");
  EXPECT_EQ(code((*writer)->publish(10)), "INVALID");
  EXPECT_EQ(syncs, 1);
  EXPECT_EQ(code(store_->put_if_absent("d/b", as_bytes("x"))), "IO");
  EXPECT_EQ(syncs, 2);
  EXPECT_EQ(names(*store_, "d"), "");
}

TEST_F(PosixFaults, AFailedSyncOfTheDirectoryIsIoAndTheFileStaysToBeRead) {
  bool broken = true;
  Faults faults;
  faults.fsync = [&](int fd) { return broken && is_directory(fd) ? EIO : 0; };
  EXPECT_EQ(code(store_->put_if_absent("d/a", as_bytes("mine"))), "IO");
  EXPECT_EQ(names(*store_, "d"), "a");
  EXPECT_EQ(read_text(*store_, "d/a"), "mine");
  EXPECT_EQ(code(store_->put_if_absent("d/a", as_bytes("mine"))), "IO") << "EXISTS would say that it lasts";
  broken = false;
  EXPECT_EQ(code(store_->put_if_absent("d/a", as_bytes("mine"))), "EXISTS");
}

TEST_F(PosixFaults, FailedSyncsOfDirectoriesAreIo) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  ASSERT_TRUE(store_->put_if_absent("d/b", {}).ok());
  Faults faults;
  faults.fsync = [](int) { return EIO; };
  EXPECT_EQ(code(store_->make_directory("e")), "IO");
  EXPECT_EQ(code(store_->retire("d", "a", {})), "IO");
  EXPECT_EQ(names(*store_, "d"), "a b") << "it stays until the trash is known to last";
  EXPECT_EQ(code(store_->remove("d/b", true)), "IO");
  EXPECT_EQ(code(open_posix(scratch_ / "new", {}).take()->prepare()), "IO");
}

// Somebody else may have made the store's directory, and not have synced it yet.
TEST_F(PosixFaults, AFailedSyncOfWhatHoldsTheStoreIsIoUnlessItsDiskIsReadOnly) {
  for (const int error : {EIO, ENOSPC, EROFS, EINVAL}) {
    int syncs = 0;
    Faults faults;
    faults.fsync = [&](int) { return syncs++ == 0 ? error : 0; };
    const bool ignored = error == EROFS || error == EINVAL;
    EXPECT_EQ(code(store_->make_root()), ignored ? "OK" : error == EIO ? "IO" : "NO_SPACE");
    EXPECT_EQ(syncs, 1);
  }
}

TEST_F(PosixFaults, AFileSystemWithoutSyncOfDirectoriesIsFine) {
  Faults faults;
  faults.fsync = [](int fd) { return is_directory(fd) ? EINVAL : 0; };
  EXPECT_EQ(code(store_->make_directory("e")), "OK");
  EXPECT_EQ(code(store_->put_if_absent("e/a", {})), "OK");
}

TEST_F(PosixFaults, TheOrderOfSyncsIsFileThenDirectory) {
  std::string order;
  Faults faults;
  faults.fsync = [&](int fd) {
    order += is_directory(fd) ? (names(*store_, "d") == "a" ? "directory " : "early ") : "file ";
    return 0;
  };
  ASSERT_EQ(code(store_->put_if_absent("d/a", as_bytes("x"))), "OK");
  EXPECT_EQ(order, "file directory ") << "the directory after the temporary name is gone";
}

// ---- transfers ----

TEST_F(PosixFaults, ShortAndInterruptedTransfersAreCompleted) {
  Pattern data(100000, 1);
  int calls = 0;
  Faults faults;
  faults.transfer = [&](size_t size) -> long {
    return ++calls % 3 == 0 ? -EINTR : static_cast<long>(std::min<size_t>(size, 777));
  };
  faults.fsync = [&](int) { return ++calls % 2 == 0 ? EINTR : 0; };
  ASSERT_EQ(code(store_->put_if_absent("d/a", data.bytes())), "OK");
  auto found = store_->get("d/a", 1 << 20);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(std::equal(found->begin(), found->end(), data.bytes().begin(), data.bytes().end()));
}

TEST_F(PosixFaults, AFailedTransferIsIo) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  Faults faults;
  faults.transfer = [](size_t) -> long { return -EIO; };
  EXPECT_EQ(code(store_->get("d/a", 9).status()), "IO");
  EXPECT_EQ(code(store_->put_if_absent("d/b", as_bytes("x"))), "IO");
  faults.transfer = [](size_t) -> long { return -ENOSPC; };
  EXPECT_EQ(code(store_->put_if_absent("d/b", as_bytes("x"))), "NO_SPACE");
  EXPECT_EQ(names(*store_, "d"), "a");
}

// EFAULT: memory of a device, which only a processor can copy.
TEST_F(PosixFaults, ADirectWriteThatIsRefusedGoesThroughThePageCache) {
  Pattern data(1 << 20, 1);
  for (const int refusal : {EINVAL, EFAULT}) {
    const std::string key = "d/" + std::to_string(refusal);
    auto writer = store_->create(key, 1 << 20);
    ASSERT_TRUE(writer.ok());
    if (!(*writer)->direct()) GTEST_SKIP() << root_ << " has no direct I/O";
    Faults faults;
    faults.transfer = [&](size_t size) -> long { return (*writer)->direct() ? -refusal : static_cast<long>(size); };
    ASSERT_EQ(code((*writer)->write_at(0, data.bytes())), "OK");
    EXPECT_FALSE((*writer)->direct());
    EXPECT_EQ(code((*writer)->write_at(5, data.bytes().subspan(5, 7))), "OK");
    faults.transfer = nullptr;
    ASSERT_EQ(code((*writer)->publish(1 << 20)), "OK");
    auto found = store_->get(key, 1 << 20);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(std::equal(found->begin(), found->end(), data.bytes().begin(), data.bytes().end()));
  }
}

TEST_F(PosixFaults, ADirectReadThatIsRefusedGoesThroughThePageCache) {
  Pattern data(1 << 20, 1), room(1 << 20, 2);
  ASSERT_EQ(code(store_->put_if_absent("d/a", data.bytes())), "OK");
  const auto reader = store_->open("d/a").take();
  if (reader->direct_align() == 0) GTEST_SKIP() << root_ << " has no direct I/O";
  for (const int refusal : {EINVAL, EFAULT}) {
    int calls = 0;
    Faults faults;
    faults.transfer = [&](size_t size) -> long { return calls++ == 0 ? -refusal : static_cast<long>(size); };
    const MutableBytes out(const_cast<std::byte*>(room.bytes().data()), 1 << 20);
    EXPECT_EQ(code(reader->read_direct(0, out)), "OK");
    EXPECT_TRUE(std::equal(out.begin(), out.end(), data.bytes().begin(), data.bytes().end()));
    EXPECT_EQ(calls, 2);
  }
}

TEST_F(PosixFaults, AStormOfSignalsChangesNothing) {
  in_child({}, [&] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    sigaction(SIGALRM, &action, nullptr);  // without SA_RESTART
    itimerval storm{{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &storm, nullptr);
    Pattern data(1 << 20, 1);
    for (int i = 0; i < 20; i++) {
      std::string directory = "storm" + std::to_string(i);
      EXPECT_EQ(code(store_->make_directory(directory)), "OK");
      EXPECT_EQ(code(store_->put_if_absent(directory + "/a", data.bytes())), "OK");
      EXPECT_EQ(code(store_->get(directory + "/a", 1 << 20).status()), "OK");
      EXPECT_EQ(code(store_->lock_shared(directory + "/a").status()), "OK");
      EXPECT_EQ(code(store_->remove_directory(directory)), "OK");
    }
    itimerval calm{};
    setitimer(ITIMER_REAL, &calm, nullptr);
  });
}

// ---- races and lost answers ----

TEST_F(PosixFaults, APublishWhoseAnswerWasLostKnowsItsOwnFile) {
  Faults faults;
  for (int error : {EEXIST, EIO, ETIMEDOUT}) {
    std::string key = "d/a" + std::to_string(error);
    faults.after_rename = [&] { return error; };
    EXPECT_EQ(code(store_->put_if_absent(key, as_bytes("mine"))), "OK");
    faults.after_rename = nullptr;
    EXPECT_EQ(read_text(*store_, key), "mine");
  }
}

TEST_F(PosixFaults, ALockOnAFileThatWasRemovedOrMovedMeanwhileIsNotFound) {
  Faults faults;
  for (bool exclusive : {false, true}) {
    auto lock = [&] {
      return code(exclusive ? store_->try_lock_exclusive("d/a").status() : store_->lock_shared("d/a").status());
    };
    ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
    faults.before_flock = [&] { (void)std::filesystem::remove(root_ + "/d/a"); };
    EXPECT_EQ(lock(), "NOT_FOUND");
    ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
    faults.before_flock = [&] { std::filesystem::rename(root_ + "/d", root_ + (exclusive ? "/x" : "/y")); };
    EXPECT_EQ(lock(), "NOT_FOUND");
    faults.before_flock = nullptr;
    ASSERT_TRUE(store_->make_directory("d").ok());
  }
}

// ---- old kernels, other file systems ----

const Refusal kNoOpenat2{SYS_openat2, ENOSYS}, kNoRename{SYS_renameat2, EINVAL}, kNoLink{SYS_linkat, EPERM},
    kNoFallocate{SYS_fallocate, EOPNOTSUPP}, kNoDirect{SYS_fcntl, EINVAL, 1, F_SETFL}, kNoFlock{SYS_flock, ENOLCK};

TEST(PosixOld, TheSuiteHoldsWithoutTheNewSystemCalls) {
  in_child({kNoOpenat2, kNoRename, kNoFallocate, kNoDirect}, [] {
    for (const char* name : {"GTEST_OUTPUT", "GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS", "XML_OUTPUT_FILE"})
      unsetenv(name);
    execl("/proc/self/exe", "old",
          "--gtest_filter=Posix/StoreSuite.*/Direct:Posix/DirectorySuite.*/Direct:Posix.*:"
          "-Posix.ExpectedBytes*:*GetsRoom*:*NoFileCanHave*:*DirectWrites*",
          "--gtest_brief=1", nullptr);
    ADD_FAILURE() << "exec failed";
  });
}

TEST_F(PosixFaults, WithoutDirectIoAWriterSaysSoAndTakesAnyAlignment) {
  in_child({kNoDirect}, [&] {
    auto writer = store_->create("d/a", 1 << 20);
    ASSERT_TRUE(writer.ok());
    EXPECT_FALSE((*writer)->direct());
    EXPECT_EQ(code((*writer)->write_at(3, as_bytes("odd"))), "OK");
    EXPECT_EQ(code((*writer)->publish(6)), "OK");
  });
  EXPECT_EQ(read_text(*store_, "d/a"), std::string("\0\0\0odd", 6));
}

TEST_F(PosixFaults, WithoutExclusiveRenameAndLinksAStoreIsUnsupportedAndHasNoProbeLeft) {
  in_child({kNoRename, kNoLink}, [&] {
    EXPECT_EQ(code(open_posix(root_, {}).take()->prepare()), "UNSUPPORTED");
    EXPECT_EQ(code(store_->put_if_absent("d/a", as_bytes("x"))), "UNSUPPORTED");
  });
  EXPECT_EQ(names(*store_, ".ckpt"), "");
  EXPECT_EQ(names(*store_, "d"), "");
}

TEST_F(PosixFaults, PrepareProbesOnceForAHandle) {
  in_child({kNoRename, kNoLink}, [&] { EXPECT_EQ(code(store_->prepare()), "OK"); });
}

TEST_F(PosixFaults, WithoutLocksALockProtectsNothing) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  in_child({kNoFlock}, [&] {
    auto shared = store_->lock_shared("d/a"), exclusive = store_->try_lock_exclusive("d/a");
    EXPECT_EQ(code(shared.status()), "OK");
    EXPECT_EQ(code(exclusive.status()), "OK");
    EXPECT_FALSE((*shared)->protects() || (*exclusive)->protects());
  });
}

}  // namespace
}  // namespace ckpt::store
