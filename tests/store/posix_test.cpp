// What is special about the store in a file system; StoreSuite covers the rest. Faults are in posix_faults_test.cpp.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "faults.h"
#include "store/keys.h"
#include "store_suite.h"

namespace ckpt::store {
namespace {

class PosixHome final : public Home {
 public:
  explicit PosixHome(StoreSettings options) : options_(options) {}
  std::shared_ptr<Store> open() override { return open_posix(scratch_ / "store", options_).take(); }

 private:
  const StoreSettings options_;
  const Scratch scratch_;
};

std::unique_ptr<Home> direct() { return std::make_unique<PosixHome>(StoreSettings{.direct_io = true}); }
std::unique_ptr<Home> buffered() { return std::make_unique<PosixHome>(StoreSettings{.direct_io = false}); }

const auto kPosix = testing::Values(Backend{"Direct", direct}, Backend{"Buffered", buffered});
INSTANTIATE_TEST_SUITE_P(Posix, StoreSuite, kPosix, testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Posix, DirectorySuite, kPosix, testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Posix, NamesSuite, kPosix, testing::PrintToStringParamName());

class Posix : public testing::Test {
 protected:
  void SetUp() override {
    store_ = open_posix(root_, {}).take();
    ASSERT_EQ(code(store_->prepare()), "OK");
    ASSERT_EQ(code(store_->make_directory("d")), "OK");
  }
  std::string file(const std::string& key) const { return root_ + "/" + key; }

  Scratch scratch_;
  std::string root_ = scratch_ / "store";
  std::shared_ptr<Store> store_;
};

mode_t mode_of(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(lstat(path.c_str(), &found), 0) << path;
  return found.st_mode;
}

// ---- opening and preparing ----

TEST_F(Posix, OpeningCreatesNothing) {
  auto store = open_store(scratch_ / "other", {});
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "other"));
  EXPECT_EQ(code((*store)->list("").status()), "NOT_FOUND");
  EXPECT_EQ(code((*store)->put_if_absent("a", {})), "NOT_FOUND");
}

TEST_F(Posix, PrepareMakesTheRootWithItsParentsAndLeavesNoProbe) {
  auto store = open_posix(scratch_ / "a/b/c", {}).take();
  ASSERT_EQ(code(store->prepare()), "OK");
  ASSERT_EQ(code(store->prepare()), "OK");
  EXPECT_EQ(names(*store, ""), ".ckpt/");
  EXPECT_EQ(names(*store, ".ckpt"), "");
}

TEST_F(Posix, PrepareRefusesAFileInThePlaceOfTheRoot) {
  std::ofstream(scratch_ / "file") << "x";
  EXPECT_EQ(code(open_posix(scratch_ / "file", {}).take()->prepare()), "INVALID");
  EXPECT_EQ(code(open_posix(scratch_ / "file/sub", {}).take()->prepare()), "NOT_FOUND");
}

TEST_F(Posix, TheRootMayBeReachedThroughALink) {
  ASSERT_EQ(symlink(root_.c_str(), (scratch_ / "link").c_str()), 0);
  auto store = open_posix(scratch_ / "link", {}).take();
  EXPECT_EQ(code(store->prepare()), "OK");
  EXPECT_EQ(code(store->put_if_absent("d/a", as_bytes("x"))), "OK");
  EXPECT_EQ(read_text(*store_, "d/a"), "x");
  EXPECT_EQ(names(*store, ""), ".ckpt/ d/");
}

TEST_F(Posix, ARelativePathStaysWhatItWasWhenOpened) {
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch_.path);
  auto store = open_store("store", {}).take();
  std::filesystem::current_path(before);
  EXPECT_EQ(store->path("d"), root_ + "/d");
  EXPECT_EQ(names(*store, ""), ".ckpt/ d/");
}

TEST_F(Posix, FilesAndDirectoriesFollowTheUmask) {
  mode_t before = umask(027);
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  ASSERT_TRUE(store_->make_directory("e").ok());
  ASSERT_TRUE((*store_->create("d/b", 1 << 20))->publish(1).ok());
  umask(before);
  EXPECT_EQ(mode_of(file("d/a")) & 07777, mode_t{0640});
  EXPECT_EQ(mode_of(file("d/b")) & 07777, mode_t{0640});
  EXPECT_EQ(mode_of(file("e")) & 07777, mode_t{0750});
}

// ---- writers ----

TEST_F(Posix, AWriterWorksBesideItsKeyUnderATemporaryName) {
  auto writer = store_->create("d/PART_000", 100);
  ASSERT_TRUE(writer.ok());
  auto entries = store_->list("d");
  ASSERT_TRUE(entries.ok() && entries->size() == 1);
  const std::string& name = entries->front().name;
  ASSERT_EQ(name.size(), std::strlen("PART_000.tmp.") + 16) << name;
  EXPECT_TRUE(name.starts_with("PART_000.tmp."));
  EXPECT_EQ(name.find_first_not_of("0123456789abcdef", 13), name.npos) << name;
}

TEST_F(Posix, ExpectedBytesArePreallocatedAndGivenBack) {
  auto writer = store_->create("d/a", 8 << 20);
  ASSERT_TRUE(writer.ok());
  struct stat found{};
  ASSERT_EQ(stat(file("d/" + store_->list("d")->front().name).c_str(), &found), 0);
  EXPECT_GE(found.st_blocks * 512, 8 << 20);
  ASSERT_TRUE((*writer)->publish(4096).ok());
  ASSERT_EQ(stat(file("d/a").c_str(), &found), 0);
  EXPECT_EQ(found.st_size, 4096);
  EXPECT_LE(found.st_blocks * 512, 64 << 10);
  EXPECT_EQ(found.st_nlink, 1u);
}

TEST_F(Posix, WhatMayBecomeSmallerGetsRoomAsItGrows) {
  auto writer = store_->create("d/a", 1 << 30, true);
  ASSERT_TRUE(writer.ok());
  auto room = [&] {
    struct stat found{};
    EXPECT_EQ(stat(file("d/" + store_->list("d")->front().name).c_str(), &found), 0);
    return found.st_blocks * 512;
  };
  EXPECT_LE(room(), 65 << 20);
  (*writer)->make_room(65 << 20);
  EXPECT_GE(room(), 65 << 20);
  EXPECT_LE(room(), 129 << 20);
  (*writer)->make_room(UINT64_MAX);  // no room: its write has the error
  ASSERT_TRUE((*writer)->publish(4096).ok());
  EXPECT_LE(room(), 64 << 10);
}

TEST_F(Posix, ASizeThatNoFileCanHaveIsNoSpaceAndLeavesNothing) {
  EXPECT_EQ(code(store_->create("d/a", UINT64_MAX).status()), "NO_SPACE");
  EXPECT_EQ(code(store_->create("d/a", uint64_t{1} << 62).status()), "NO_SPACE");
  auto writer = store_->create("d/a", 0);
  EXPECT_EQ(code((*writer)->write_at(UINT64_MAX, as_bytes("x"))), "NO_SPACE");
  EXPECT_EQ(code((*writer)->publish(UINT64_MAX)), "NO_SPACE");
  EXPECT_EQ(names(*store_, "d"), "");
}

TEST_F(Posix, SmallFilesAndStoresWithoutDirectIoGoThroughThePageCache) {
  EXPECT_FALSE((*store_->create("d/a", (1 << 20) - 1))->direct());
  EXPECT_FALSE((*open_posix(root_, {.direct_io = false}).take()->create("d/a", 8 << 20))->direct());
}

TEST_F(Posix, DirectWritesRefuseWhatIsNotAligned) {
  auto writer = store_->create("d/a", 1 << 20);
  ASSERT_TRUE(writer.ok());
  if (!(*writer)->direct()) GTEST_SKIP() << root_ << " has no direct I/O";
  Pattern data(16384, 1);
  EXPECT_EQ(code((*writer)->write_at(512, data.bytes().first(4096))), "INVALID");
  EXPECT_EQ(code((*writer)->write_at(0, data.bytes().first(4095))), "INVALID");
  const uint64_t align = (*writer)->direct_align();
  EXPECT_EQ(code((*writer)->write_at(0, data.bytes().subspan(align / 2, 4096))), align > 1 ? "INVALID" : "OK");
  EXPECT_EQ(code((*writer)->write_at(0, data.bytes().subspan(align, 4096))), "OK");
  EXPECT_EQ(code((*writer)->write_at(4096, data.bytes().subspan(4096, 8192))), "OK");
}

// ---- obstacles in the way of a file ----

TEST_F(Posix, WhoeverRemovesNextIsToldWhatStaysInTheTrash) {
  const std::string retired = file(".ckpt/trash/s1.1.1.0"), foreign = retired + "/folder";
  std::filesystem::create_directories(foreign);
  EXPECT_TRUE(store_->prepare().ok()) << "a session can begin all the same";
  const Status told = store_->finish_removals();
  EXPECT_EQ(told.code(), CKPT_IO) << told.message();
  EXPECT_NE(told.message().find(retired), std::string::npos) << told.message();
  std::filesystem::remove(foreign);
  EXPECT_TRUE(store_->finish_removals().ok());
  EXPECT_FALSE(std::filesystem::exists(retired));
}

TEST_F(Posix, ALinkInPlaceOfAFileIsRefused) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  ASSERT_EQ(symlink("a", file("d/link").c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", file("d/out").c_str()), 0);
  for (const char* key : {"d/link", "d/out"}) {
    EXPECT_EQ(code(store_->open(key).status()), "FORMAT");
    EXPECT_EQ(code(store_->get(key, 1 << 20).status()), "FORMAT");
    EXPECT_EQ(code(store_->lock_shared(key).status()), "FORMAT");
    EXPECT_EQ(code(store_->try_lock_exclusive(key).status()), "FORMAT");
    EXPECT_EQ(code(store_->put_if_absent(key, as_bytes("y"))), "EXISTS");
  }
  auto entries = store_->list("d");
  ASSERT_TRUE(entries.ok() && entries->size() == 3);
  EXPECT_FALSE((*entries)[1].directory);
  EXPECT_EQ(code(store_->remove("d/link", true)), "OK");
  EXPECT_EQ(read_text(*store_, "d/a"), "x");
}

TEST_F(Posix, ADanglingLinkIsARefusalAndNotAnAbsence) {
  ASSERT_EQ(symlink("nowhere", file("d/link").c_str()), 0);
  EXPECT_EQ(code(store_->open("d/link").status()), "FORMAT");
  EXPECT_EQ(code(store_->put_if_absent("d/link", {})), "EXISTS");
  EXPECT_FALSE(std::filesystem::exists(file("d/nowhere")));
}

TEST_F(Posix, ALinkInPlaceOfADirectoryIsReadAndNeverChanged) {
  ASSERT_TRUE(store_->make_directory("real/sub").ok());
  ASSERT_TRUE(store_->put_if_absent("real/a", as_bytes("x")).ok());
  ASSERT_EQ(symlink("real", file("link").c_str()), 0);
  ASSERT_EQ(symlink("sub", file("real/inner").c_str()), 0);
  EXPECT_EQ(read_text(*store_, "link/a"), "x");
  EXPECT_EQ(code(store_->list("link").status()), "OK");
  EXPECT_EQ(code(store_->list("link/sub").status()), "OK");
  EXPECT_EQ(code(store_->list("link/inner").status()), "FORMAT");  // one at the top alone is followed
  EXPECT_EQ(code(store_->lock_shared("link/a").status()), "OK");
  EXPECT_EQ(code(store_->put_if_absent("link/b", {})), "FORMAT");
  EXPECT_EQ(code(store_->create("link/b", 0).status()), "FORMAT");
  EXPECT_EQ(code(store_->remove("link/a", true)), "FORMAT");
  EXPECT_EQ(code(store_->make_directory("link/c")), "FORMAT");
  EXPECT_EQ(code(store_->retire("link", "a", {})), "CONFLICT");
  EXPECT_EQ(code(store_->retire("link/sub", "a", {})), "FORMAT");
  EXPECT_EQ(code(store_->remove_directory("link")), "FORMAT");
  EXPECT_EQ(names(*store_, "real"), "a inner sub/");
}

TEST_F(Posix, FifosAndSocketsAreFormatAndDoNotHang) {
  ASSERT_EQ(mkfifo(file("d/fifo").c_str(), 0666), 0);
  int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", file("d/socket").c_str());
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const char* key : {"d/fifo", "d/socket"}) {
    EXPECT_EQ(code(store_->open(key).status()), "FORMAT") << key;
    EXPECT_EQ(code(store_->lock_shared(key).status()), "FORMAT") << key;
    EXPECT_EQ(code(store_->try_lock_exclusive(key).status()), "FORMAT") << key;
  }
  close(socket_fd);
  EXPECT_EQ(names(*store_, "d"), "fifo socket");
  EXPECT_EQ(code(store_->remove_directory("d")), "OK");
}

// As a Samba or NFS server does.
TEST_F(Posix, AFileThatAnotherProgramHasLeasedIsOpenedOnceItGivesTheLeaseBack) {
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGIO);
    sigprocmask(SIG_BLOCK, &asked, nullptr);
    const int fd = open(file("d/a").c_str(), O_RDWR);
    int signal = 0;
    const bool leased = fcntl(fd, F_SETLEASE, F_WRLCK) == 0 && write(ready[1], "r", 1) == 1;
    _exit(leased && sigwait(&asked, &signal) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0 ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(read_text(*store_, "d/a"), "x");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int fd : ready) close(fd);
}

TEST_F(Posix, RemoveDirectoryUnlinksLinksAndLeavesTheirTargets) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  ASSERT_TRUE(store_->put_if_absent("keep", as_bytes("x")).ok());
  ASSERT_TRUE(store_->make_directory("also/inner").ok());
  ASSERT_EQ(symlink("../keep", file("d/file-link").c_str()), 0);
  ASSERT_EQ(symlink("../also", file("d/directory-link").c_str()), 0);
  EXPECT_EQ(code(store_->remove_directory("d")), "OK");
  EXPECT_EQ(read_text(*store_, "keep"), "x");
  EXPECT_EQ(names(*store_, "also"), "inner/");
  EXPECT_EQ(names(*store_, "d"), "<NOT_FOUND>");
}

TEST_F(Posix, AFileThatShrinksWhileOpenReadsAsIncomplete) {
  ASSERT_TRUE(store_->put_if_absent("d/a", Pattern(10000, 1).bytes()).ok());
  auto reader = store_->open("d/a");
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(truncate(file("d/a").c_str(), 100), 0);
  std::vector<std::byte> out(10000);
  Status status = (*reader)->read_at(0, out);
  EXPECT_EQ(code(status), "INCOMPLETE");
  EXPECT_NE(status.message().find("end at 100"), std::string::npos) << status.message();
}

// ---- processes ----

TEST_F(Posix, OfRacingProcessesExactlyOneWinsEachSlot) {
  constexpr int kProcesses = 6, kRounds = 100;
  int ready[2], start[2], won[2];
  ASSERT_TRUE(pipe(ready) == 0 && pipe(start) == 0 && pipe(won) == 0);
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; p++) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    close(start[1]);
    auto mine = open_posix(root_, {}).take();
    std::string data(10000, static_cast<char>('A' + p));
    char byte = 0;
    bool fine = write(ready[1], "r", 1) == 1 && read(start[0], &byte, 1) == 0;
    for (unsigned char round = 0; fine && round < kRounds; round++) {
      Status status = mine->put_if_absent("d/" + std::to_string(round), as_bytes(data));
      if (status.ok())
        fine = write(won[1], &round, 1) == 1;
      else
        fine = status.code() == CKPT_EXISTS && read_text(*mine, "d/" + std::to_string(round)).size() == 10000;
    }
    _exit(fine ? 0 : 1);
  }
  char byte;
  for (int p = 0; p < kProcesses; p++) ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(start[1]);
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  close(won[1]);
  std::vector<int> winners(kRounds);
  for (unsigned char round; read(won[0], &round, 1) == 1;) winners[round]++;
  EXPECT_EQ(winners, std::vector<int>(kRounds, 1));
  EXPECT_EQ(store_->list("d")->size(), size_t{kRounds});
  for (int fd : {ready[0], ready[1], start[0], won[0]}) close(fd);
}

TEST_F(Posix, ALockKeepsOtherProcessesOut) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  auto held = store_->lock_shared("d/a");
  ASSERT_TRUE(held.ok());
  in_child({}, [&] {
    auto other = open_posix(root_, {}).take();
    EXPECT_EQ(code(other->try_lock_exclusive("d/a").status()), "CONFLICT");
    EXPECT_EQ(code(other->lock_shared("d/a").status()), "OK");
  });
}

TEST_F(Posix, ALockEndsWithItsOwnerThoughAForkedChildHasTheDescriptorToo) {
  ASSERT_TRUE(store_->put_if_absent("d/a", {}).ok());
  auto held = store_->lock_shared("d/a");
  ASSERT_TRUE(held.ok());
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(hold[1]);
    _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
  }
  (*held).reset();
  EXPECT_EQ(code(store_->try_lock_exclusive("d/a").status()), "OK");
  close(hold[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(hold[0]);
}

// ---- second names ----

// A link or a FIFO in the place of the file, or of its second name, is nothing to share; what was there stays.
TEST_F(Posix, OnlyARegularFileIsBorrowed) {
  ASSERT_TRUE(store_->make_directory("e").ok());
  ASSERT_TRUE(store_->put_if_absent("d/a", as_bytes("x")).ok());
  const std::string d = root_ + "/d/", e = root_ + "/e/";
  std::filesystem::create_symlink(d + "a", d + "link");
  ASSERT_EQ(mkfifo((d + "fifo").c_str(), 0666), 0);
  for (const char* from : {"d/link", "d/fifo"}) EXPECT_EQ(code(store_->borrow(from, "e/b").status()), "FORMAT") << from;
  EXPECT_EQ(names(*store_, "e"), "");
  std::filesystem::create_symlink(d + "a", e + "link");
  ASSERT_EQ(mkfifo((e + "fifo").c_str(), 0666), 0);
  for (const char* to : {"e/link", "e/fifo"}) EXPECT_EQ(code(store_->borrow("d/a", to).status()), "FORMAT") << to;
  EXPECT_EQ(names(*store_, "e"), "fifo link");
}

// A directory that was moved to another disk and linked: what lies there has no second name here.
TEST_F(Posix, AFileBehindALinkedDirectoryIsBorrowedFromWhereItIs) {
  std::filesystem::create_directory(scratch_ / "elsewhere");
  std::ofstream(scratch_ / "elsewhere/a") << "x";
  std::filesystem::create_symlink(scratch_ / "elsewhere", root_ + "/moved");
  auto borrowed = store_->borrow("moved/a", "d/b");
  ASSERT_TRUE(borrowed.ok()) << borrowed.status().message();
  EXPECT_EQ(read_text(*store_, "d/b"), "x");
  EXPECT_FALSE(store_->borrow("d/b", "moved/b").ok()) << "nothing is written behind a link";
}

TEST_F(Posix, DescriptorsDoNotLeak) {
  auto count = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  auto before = count();
  for (int i = 0; i < 20; i++) {
    (void)store_->put_if_absent("d/a", as_bytes("x"));
    (void)store_->create("d/b", 1 << 20);
    (void)store_->open("d/a");
    (void)store_->open("d");
    (void)store_->list("d");
    (void)store_->borrow("d/a", "d/b");
    (void)store_->borrow("d/a", "d/fifo");
    (void)store_->lock_shared("d/a");
    (void)store_->make_directory("e/f");
    (void)store_->retire("e/f", "MANIFEST", {});
    (void)store_->remove_directory("e");
    (void)store_->prepare();
  }
  EXPECT_EQ(count(), before);
}

TEST(Trash, KeysFitAFileNameAndAreCutBetweenCharacters) {
  const Id nonce{};
  EXPECT_EQ(trash_key("step-1.7.1", nonce), ".ckpt/trash/step-1.7.1." + std::string(32, '0'));
  for (size_t size = 200; size < 260; size++)
    EXPECT_EQ(last_of(trash_key(std::string(size, 'a'), nonce)).size(), std::min<size_t>(size + 33, 255));
  std::string wide = "a" + std::string(60, 'b');
  for (int i = 0; i < 60; i++) wide += "\u20ac";
  const std::string key = trash_key(wide, nonce), name(last_of(key));
  EXPECT_LE(name.size(), 255u);
  const std::string kept = name.substr(0, name.size() - 33);
  EXPECT_TRUE(kept.ends_with("\u20ac")) << kept;
}

}  // namespace
}  // namespace ckpt::store
