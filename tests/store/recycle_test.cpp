// Recycling in the POSIX store (src/store/README.md, "Recycling"): which files are kept, which are overwritten, and
// that nobody but the writer ever notices.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "faults.h"
#include "store/keys.h"
#include "store_suite.h"

namespace ckpt::store {
namespace {

class Recycle : public testing::Test {
 protected:
  void SetUp() override { open_at(scratch_ / "store"); }
  void open_at(const std::string& root) {
    root_ = root;
    store_ = open_posix(root, {}).take();
    ASSERT_EQ(code(store_->prepare()), "OK");
    ASSERT_EQ(code(store_->make_directory("new")), "OK");
  }
  std::string file(const std::string& key) const { return root_ + "/" + key; }
  std::string in_pool(const std::string& name) const { return file(".ckpt/recycled/" + name); }
  std::string pool() const { return names(*store_, ".ckpt/recycled"); }

  // A file of so many MiB, full of one byte.
  void put(const std::string& key, uint64_t mib, unsigned char byte = 'x') {
    std::vector<std::byte> data(mib * kMiB, std::byte{byte});
    ASSERT_EQ(code(store_->put_if_absent(key, data)), "OK") << key;
  }
  // Retires a directory with these files and a MANIFEST.
  void retire(const std::vector<std::pair<std::string, uint64_t>>& files) {
    std::string directory = "old" + std::to_string(number_++);
    ASSERT_EQ(code(store_->make_directory(directory)), "OK");
    for (const auto& [name, mib] : files) put(directory + "/" + name, mib);
    ASSERT_EQ(code(store_->put_if_absent(directory + "/MANIFEST", as_bytes("m"))), "OK");
    ASSERT_EQ(code(store_->retire(directory, "MANIFEST", {})), "OK");
    EXPECT_FALSE(std::filesystem::exists(file(directory)));
  }
  std::unique_ptr<Writer> create(const std::string& name, uint64_t size) {
    auto writer = store_->create("new/" + name, size);
    EXPECT_EQ(code(writer.status()), "OK");
    return writer.ok() ? writer.take() : nullptr;
  }
  bool recycles(const std::string& name = "PART_000", uint64_t mib = 2) {
    auto writer = create(name, mib * kMiB);
    return writer && writer->recycled();
  }
  // The only file in new/.
  std::string temporary() {
    auto entries = store_->list("new");
    return entries.ok() && entries->size() == 1 ? file("new/" + entries->front().name) : "";
  }

  Scratch scratch_;
  std::string root_;
  std::shared_ptr<Store> store_;
  int number_ = 0;
};

struct stat stat_of(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(lstat(path.c_str(), &found), 0) << path;
  return found;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// ---- what is overwritten ----

TEST_F(Recycle, ARetiredFileIsWrittenAgain) {
  retire({{"PART_000", 2}});
  EXPECT_EQ(pool(), "PART_000");
  ino_t donor = stat_of(in_pool("PART_000")).st_ino;
  Pattern data(2 * kMiB, 1);
  auto writer = create("PART_000", 2 * kMiB);
  EXPECT_TRUE(writer->recycled());
  ASSERT_EQ(code(writer->write_at(0, data.bytes())), "OK");
  ASSERT_EQ(code(writer->publish(2 * kMiB)), "OK");
  EXPECT_EQ(stat_of(file("new/PART_000")).st_ino, donor);
  EXPECT_TRUE(text_of(file("new/PART_000")) == as_text(data.bytes()));
  EXPECT_EQ(pool(), "");
  EXPECT_EQ(names(*store_, "new"), "PART_000");
}

TEST_F(Recycle, ItIsNeverCutBeforeItIsWrittenAndGrowsWhereItIsTooSmall) {
  for (uint64_t mib : {1, 2, 5}) {
    retire({{"PART_000", 2}});
    auto writer = create("PART_000", mib * kMiB);
    ASSERT_TRUE(writer->recycled());
    std::string held = text_of(temporary());
    EXPECT_EQ(held.size(), std::max<uint64_t>(mib, 2) * kMiB);
    EXPECT_TRUE(held.substr(0, 2 * kMiB) == std::string(2 * kMiB, 'x')) << "the old blocks are still there";
    EXPECT_GE(static_cast<uint64_t>(stat_of(temporary()).st_blocks) * 512, std::max<uint64_t>(mib, 2) * kMiB);
  }
}

TEST_F(Recycle, ItHasItsFinalSizeBeforeItIsSynced) {
  retire({{"PART_000", 4}});
  Pattern data(kMiB, 1);
  auto writer = create("PART_000", kMiB);
  ASSERT_TRUE(writer->recycled());
  ASSERT_EQ(code(writer->write_at(0, data.bytes())), "OK");
  std::vector<off_t> sizes;
  Faults faults;
  faults.fsync = [&](int fd) {
    struct stat found{};
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) sizes.push_back(found.st_size);
    return 0;
  };
  ASSERT_EQ(code(writer->publish(kMiB - 100)), "OK");
  EXPECT_EQ(sizes, std::vector<off_t>{kMiB - 100});
  EXPECT_TRUE(text_of(file("new/PART_000")) == as_text(data.bytes()).substr(0, kMiB - 100));
}

TEST_F(Recycle, TheFileOfTheSameNameComesFirstThenTheOneOfTheNearestSize) {
  retire({{"PART_000", 1}, {"PART_001", 6}, {"PART_002", 3}, {"PART_003", 2}});
  auto a = create("PART_001", kMiB);
  EXPECT_EQ(pool(), "PART_000 PART_002 PART_003");
  auto b = create("PART_009", 4 * kMiB);
  EXPECT_EQ(pool(), "PART_000 PART_003");
  auto c = create("PART_008", 9 * kMiB);
  EXPECT_EQ(pool(), "PART_000");
}

TEST_F(Recycle, AFileOfUnknownOrSmallSizeIsMadeAnew) {
  retire({{"PART_000", 2}});
  for (uint64_t size : {uint64_t{0}, kMiB - 1}) EXPECT_FALSE(create("PART_000", size)->recycled());
  EXPECT_EQ(code(store_->put_if_absent("new/MANIFEST", Pattern(2 * kMiB, 1).bytes())), "OK");
  EXPECT_EQ(pool(), "PART_000");
}

TEST_F(Recycle, ADroppedWriterLeavesNothing) {
  retire({{"PART_000", 2}});
  EXPECT_TRUE(recycles());
  EXPECT_EQ(names(*store_, "new"), "");
}

TEST_F(Recycle, TakersAtOnceNeverGetTheSameFile) {
  retire({{"PART_000", 1}, {"PART_001", 1}, {"PART_002", 1}, {"PART_003", 1}});
  std::vector<std::unique_ptr<Writer>> writers(12);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < writers.size(); i++)
    threads.emplace_back([&, i] { writers[i] = create("PART_1" + std::to_string(i), kMiB); });
  for (auto& thread : threads) thread.join();
  std::set<ino_t> files;
  auto entries = store_->list("new").take();
  for (const auto& entry : entries) files.insert(stat_of(file("new/" + entry.name)).st_ino);
  EXPECT_EQ(files.size(), writers.size());
  EXPECT_EQ(std::count_if(writers.begin(), writers.end(), [](const auto& w) { return w->recycled(); }), 4);
}

// ---- what is kept ----

TEST_F(Recycle, SmallFilesAndTheFirstOneAreNot) {
  ASSERT_TRUE(store_->make_directory("old").ok());
  put("old/PART_000", 1);
  put("old/MANIFEST", 2);
  ASSERT_TRUE(store_->put_if_absent("old/PART_001", Pattern(kMiB - 1, 1).bytes()).ok());
  ASSERT_EQ(code(store_->retire("old", "MANIFEST", {})), "OK");
  EXPECT_EQ(pool(), "PART_000");
}

TEST_F(Recycle, ThePoolHoldsTheLastRetiredDirectoryOnly) {
  retire({{"PART_000", 1}, {"PART_001", 1}, {"PART_002", 1}});
  retire({{"PART_000", 1}});
  EXPECT_EQ(pool(), "PART_000");
  retire({{"PART_005", 2}, {"PART_006", 2}});
  EXPECT_EQ(pool(), "PART_005 PART_006");
}

TEST_F(Recycle, RetirementsAtOnceLeaveTheFilesOfOneDirectory) {
  for (int round = 0; round < 20; round++) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
      std::string directory = "old" + std::to_string(t);
      ASSERT_TRUE(store_->make_directory(directory).ok());
      put(directory + "/A" + std::to_string(t), 1);
      put(directory + "/B" + std::to_string(t), 1);
      threads.emplace_back([this, directory] { EXPECT_EQ(code(store_->retire(directory, "MANIFEST", {})), "OK"); });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(names(*store_, ""), ".ckpt/ new/");
    std::string held = pool();
    ASSERT_EQ(held.size(), 5u) << held;
    EXPECT_EQ(held[1], held[4]) << held;
  }
}

TEST_F(Recycle, NothingIsKeptBeforeTheFirstOneIsDurablyGone) {
  ASSERT_TRUE(store_->make_directory("old").ok());
  put("old/PART_000", 1);
  put("old/MANIFEST", 1);
  Faults faults;
  auto trash = [&] {
    auto entries = store_->list(kTrashDir);
    return entries.ok() && entries->size() == 1 ? names(*store_, strformat("{}/{}", kTrashDir, (*entries)[0].name))
                                                : "";
  };
  faults.fsync = [&](int) {
    EXPECT_EQ(pool(), "<NOT_FOUND>");
    return trash() == "PART_000" ? EIO : 0;
  };
  EXPECT_EQ(code(store_->retire("old", "MANIFEST", {})), "OK") << "out of sight is removed";
  EXPECT_EQ(pool(), "<NOT_FOUND>");
  EXPECT_EQ(trash(), "PART_000");
}

TEST_F(Recycle, ADirectoryThatIsInTheWayOrMissingIsAnErrorAsForARemoval) {
  ASSERT_TRUE(store_->make_directory("old/inner").ok());
  put("old/PART_000", 1);
  EXPECT_EQ(code(store_->retire("old", "PART_000", {})), "CONFLICT");
  EXPECT_EQ(names(*store_, "old"), "PART_000 inner/");
  EXPECT_EQ(code(store_->retire("none", "MANIFEST", {})), "NOT_FOUND");
  EXPECT_EQ(code(store_->retire("../x", "MANIFEST", {})), "INVALID");
  EXPECT_EQ(code(store_->retire("old", "a/b", {})), "INVALID");
}

TEST_F(Recycle, WhateverIsInThePlaceOfThePoolTheDirectoryGoes) {
  std::ofstream(file(".ckpt/recycled")) << "a file";
  retire({{"PART_000", 1}});
  EXPECT_FALSE(recycles());
  std::filesystem::remove(file(".ckpt/recycled"));
  std::filesystem::create_directories(scratch_ / "elsewhere");
  std::ofstream(scratch_ / "elsewhere/precious") << "x";
  ASSERT_EQ(symlink((scratch_ / "elsewhere").c_str(), file(".ckpt/recycled").c_str()), 0);
  retire({{"PART_000", 1}});
  EXPECT_EQ(text_of(scratch_ / "elsewhere/precious"), "x");
}

TEST_F(Recycle, SwitchedOffItNeitherGivesNorTakesAndReturnsTheSpace) {
  retire({{"PART_000", 2}});
  store_ = open_posix(root_, {.recycle = false}).take();
  EXPECT_FALSE(recycles());
  EXPECT_EQ(pool(), "PART_000");
  ASSERT_TRUE(store_->make_directory("off").ok());
  put("off/PART_000", 2);
  ASSERT_EQ(code(store_->retire("off", "MANIFEST", {})), "OK");
  EXPECT_EQ(pool(), "");
}

TEST(RecycleMemory, RetiringIsRemoving) {
  auto store = open_memory("recycle").take();
  ASSERT_TRUE(store->make_directory("old").ok());
  ASSERT_TRUE(store->put_if_absent("old/PART_000", Pattern(2 * kMiB, 1).bytes()).ok());
  EXPECT_EQ(code(store->retire("old", "MANIFEST", {})), "OK");
  EXPECT_EQ(names(*store, ""), "");
  EXPECT_FALSE((*store->create("a", 2 * kMiB))->recycled());
}

// ---- files that somebody else has ----

// Both while its directory is being retired and once it is in the pool.
class RecycleShared : public Recycle, public testing::WithParamInterface<bool> {
 protected:
  // PART_000 of 2 MiB of 'x', where the parameter says. `grab` gets its path before a save can take it.
  template <typename Grab>
  auto grabbed(Grab&& grab) {
    if (GetParam()) {
      retire({{"PART_000", 2}});
      return grab(in_pool("PART_000"));
    }
    EXPECT_TRUE(store_->make_directory("old").ok());
    put("old/PART_000", 2);
    auto held = grab(file("old/PART_000"));
    EXPECT_EQ(code(store_->retire("old", "MANIFEST", {})), "OK");
    EXPECT_FALSE(std::filesystem::exists(file("old")));
    return held;
  }
  // A save takes no file, and writes what it should.
  void expect_refused() {
    auto writer = create("PART_000", 2 * kMiB);
    EXPECT_FALSE(writer->recycled());
    EXPECT_EQ(code(writer->write_at(0, Pattern(2 * kMiB, 1).bytes())), "OK");
    EXPECT_EQ(code(writer->publish(2 * kMiB)), "OK");
    EXPECT_EQ(names(*store_, ".ckpt/recycled").find("PART_000"), std::string::npos) << "its space is not held";
  }
};
INSTANTIATE_TEST_SUITE_P(When, RecycleShared, testing::Bool(),
                         [](const auto& when) { return when.param ? "InThePool" : "AtRetirement"; });

const std::string kOld(2 * kMiB, 'x');

TEST_P(RecycleShared, AFileWithASecondLinkIsLeftAlone) {
  std::string other = scratch_ / "other";
  grabbed([&](const std::string& path) { return link(path.c_str(), other.c_str()); });
  expect_refused();
  EXPECT_TRUE(text_of(other) == kOld);
}

TEST_P(RecycleShared, AFileThatIsOpenHereIsLeftAlone) {
  for (int how : {O_RDONLY, O_WRONLY, O_RDWR}) {
    int fd = grabbed([&](const std::string& path) { return open(path.c_str(), how); });
    expect_refused();
    struct stat held{};
    EXPECT_EQ(fstat(fd, &held), 0);
    EXPECT_EQ(held.st_nlink, nlink_t{0});
    EXPECT_EQ(held.st_size, static_cast<off_t>(kOld.size()));
    close(fd);
    std::filesystem::remove(file("new/PART_000"));
  }
}

TEST_P(RecycleShared, AMappingKeepsItsBytesForEver) {
  const char* map = grabbed([](const std::string& path) {
    int fd = open(path.c_str(), O_RDONLY);
    void* address = mmap(nullptr, kOld.size(), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return static_cast<const char*>(address);
  });
  ASSERT_NE(map, MAP_FAILED);
  expect_refused();
  EXPECT_TRUE(std::string_view(map, kOld.size()) == kOld);
  munmap(const_cast<char*>(map), kOld.size());
}

TEST_P(RecycleShared, AReaderOfTheStoreKeepsItsBytes) {
  auto reader = grabbed([&](const std::string& path) { return store_->open(path.substr(root_.size() + 1)); });
  ASSERT_TRUE(reader.ok());
  expect_refused();
  std::vector<std::byte> data(kOld.size());
  ASSERT_EQ(code((*reader)->read_at(0, data)), "OK");
  EXPECT_TRUE(as_text(data) == kOld);
}

TEST_P(RecycleShared, AFileThatAnotherProcessHasMappedIsLeftAlone) {
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready) | pipe(go), 0);
  pid_t child = grabbed([&](const std::string& path) {
    pid_t pid = fork();
    if (pid == 0) {
      int fd = open(path.c_str(), O_RDONLY);
      void* map = mmap(nullptr, kOld.size(), PROT_READ, MAP_SHARED, fd, 0);
      close(fd);
      char byte = 0;
      bool told = write(ready[1], "r", 1) == 1 && read(go[0], &byte, 1) == 1;
      _exit(told && map != MAP_FAILED && std::memcmp(map, kOld.data(), kOld.size()) == 0 ? 0 : 1);
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    return pid;
  });
  expect_refused();
  ASSERT_EQ(write(go[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

TEST_P(RecycleShared, AFileOfAnotherModeOrOwnerIsLeftAlone) {
  grabbed([](const std::string& path) { return chmod(path.c_str(), 0600); });
  expect_refused();
  if (geteuid() != 0) return;  // only root can give a file away
  std::filesystem::remove(file("new/PART_000"));
  grabbed([](const std::string& path) { return chown(path.c_str(), 65534, getegid()); });
  expect_refused();
}

TEST_F(Recycle, WhatIsNoFileInThePoolIsNeverOpened) {
  retire({{"PART_000", 2}});
  std::filesystem::remove(in_pool("PART_000"));
  std::ofstream(scratch_ / "precious") << std::string(2 * kMiB, 'p');
  ASSERT_EQ(symlink((scratch_ / "precious").c_str(), in_pool("PART_000").c_str()), 0);
  ASSERT_EQ(mkfifo(in_pool("PART_001").c_str(), 0666), 0);
  std::filesystem::create_directory(in_pool("PART_002"));
  EXPECT_FALSE(recycles());
  EXPECT_TRUE(text_of(scratch_ / "precious") == std::string(2 * kMiB, 'p'));
}

TEST_F(Recycle, WhoOpensAFileWhileItIsCheckedDoesNotEndTheProcess) {
  retire({{"PART_000", 2}});
  in_child({}, [&] {
    std::signal(SIGIO, SIG_DFL);
    Faults faults;
    faults.on_lease = [&](int fd) {
      std::string path = "/proc/self/fd/" + std::to_string(fd);
      EXPECT_EQ(open(path.c_str(), O_RDONLY | O_NONBLOCK), -1);  // makes the kernel break the lease
      EXPECT_EQ(errno, EWOULDBLOCK);
    };
    auto writer = create("PART_000", 2 * kMiB);
    EXPECT_FALSE(faults.on_lease) << "a lease was taken";
    EXPECT_FALSE(writer->recycled());
  });
}

const Refusal kNoLease{SYS_fcntl, EINVAL, 1, F_SETLEASE}, kForbiddenLease{SYS_fcntl, EACCES, 1, F_SETLEASE};

TEST_F(Recycle, WithoutLeasesNothingIsKeptAndNothingIsTaken) {
  for (const Refusal& refusal : {kNoLease, kForbiddenLease}) {
    in_child({refusal}, [&] {
      retire({{"PART_000", 2}});
      EXPECT_EQ(pool(), "<NOT_FOUND>");
    });
  }
  retire({{"PART_000", 2}});
  in_child({kNoLease}, [&] { EXPECT_FALSE(recycles()); });
  EXPECT_EQ(pool(), "");
}

TEST_F(Recycle, OnAFileSystemThatIsNotKnownToBeLocalNothingIsKept) {
  // The type of the file system cannot be queried, so it counts as unknown.
  in_child({{SYS_fstatfs, ENOSYS}}, [&] {
    retire({{"PART_000", 2}});
    EXPECT_EQ(pool(), "<NOT_FOUND>");
  });
}

// There the kernel grants a lease on a file that somebody has mapped.
TEST_F(Recycle, OnAnOverlayNothingIsKept) {
  // An overlay cannot have another overlay above it, such as a container's.
  TestMount base(scratch_ / "store", "size=64m");
  for (const char* name : {"lower", "upper", "work", "merged"}) std::filesystem::create_directory(file(name));
  TestMount overlay(file("merged"),
                    "lowerdir=" + file("lower") + ",upperdir=" + file("upper") + ",workdir=" + file("work"), "overlay");
  ASSERT_TRUE(base.ok() && overlay.ok());
  open_at(file("merged"));
  retire({{"PART_000", 2}});
  EXPECT_EQ(pool(), "<NOT_FOUND>");
}

// Whether the pool's file has the attribute now; false if this file system has none of that kind, as tmpfs.
bool give_attribute(const std::string& path, const char* name, std::string_view value) {
  if (setxattr(path.c_str(), name, value.data(), value.size(), 0) == 0) return true;
  EXPECT_EQ(errno, EOPNOTSUPP) << name;
  return false;
}

TEST_F(Recycle, AFileWithAttributesThatANewOneLacksIsLeftAlone) {
  // An access control list: user::rw- user:1234:r-- group::r-- mask::r-- other::r--
  const unsigned char list[] = {2, 0,    0,   0,   1,   0,   6,  0, 255, 255, 255, 255, 2,   0,  4,
                                0, 0xd2, 4,   0,   0,   4,   0,  4, 0,   255, 255, 255, 255, 16, 0,
                                4, 0,    255, 255, 255, 255, 32, 0, 4,   0,   255, 255, 255, 255};
  const std::string_view access(reinterpret_cast<const char*>(list), sizeof list);
  for (auto [name, value] : {std::pair("user.origin", std::string_view("x")), {"system.posix_acl_access", access}}) {
    retire({{"PART_000", 2}});
    EXPECT_FALSE(give_attribute(in_pool("PART_000"), name, value) && recycles()) << name;
  }
}

// ---- second names ----

TEST_F(Recycle, AFileWithASecondNameIsNotKept) {
  ASSERT_EQ(code(store_->make_directory("shared")), "OK");
  put("shared/PART_000", 2, 'a');
  put("shared/PART_001", 2, 'b');
  ASSERT_TRUE(store_->borrow("shared/PART_000", "new/BASE").ok());
  ASSERT_EQ(code(store_->retire("shared", "MANIFEST", {})), "OK");
  EXPECT_EQ(pool(), "PART_001");
  EXPECT_EQ(as_text(*store_->get("new/BASE", 4 * kMiB)), std::string(2 * kMiB, 'a'));
}

// It got one while it was in the pool: whoever takes it finds that out.
TEST_F(Recycle, AFileThatGetsASecondNameInThePoolIsLeftAlone) {
  retire({{"PART_000", 2}});
  ASSERT_EQ(pool(), "PART_000");
  ASSERT_EQ(link(in_pool("PART_000").c_str(), file("new/BASE").c_str()), 0);
  const auto before = *store_->get("new/BASE", 4 * kMiB);
  EXPECT_FALSE(recycles());
  EXPECT_EQ(*store_->get("new/BASE", 4 * kMiB), before);
}

// ---- space ----

class RecycleFull : public Recycle {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(scratch_ / "small");
    mount_.emplace(scratch_ / "small", "size=8m");
    ASSERT_TRUE(mount_->ok());
    open_at(scratch_ / "small");
    retire({{"PART_000", 2}, {"PART_001", 3}});
    ASSERT_EQ(pool(), "PART_000 PART_001");
  }
  std::optional<TestMount> mount_;
};

TEST_F(RecycleFull, ThePoolGivesWayToAPreallocation) {
  auto writer = create("PART_000", 6 * kMiB);
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->recycled());
  EXPECT_EQ(pool(), "");
}

TEST_F(RecycleFull, ThePoolGivesWayToAWrite) {
  auto writer = create("PART_000", 0);
  EXPECT_EQ(code(writer->write_at(0, Pattern(6 * kMiB, 1).bytes())), "OK");
  EXPECT_EQ(pool(), "");
  EXPECT_EQ(code(writer->publish(6 * kMiB)), "OK");
}

TEST_F(RecycleFull, ThePoolGivesWayToARecordEvenWhereRecyclingIsOff) {
  store_ = open_posix(root_, {.recycle = false}).take();
  EXPECT_EQ(code(store_->put_if_absent("new/MANIFEST", Pattern(4 * kMiB, 1).bytes())), "OK");
  EXPECT_EQ(pool(), "");
}

TEST_F(RecycleFull, ThePoolGivesWayToRoomThatIsNeededButNotToRoomThatMayBe) {
  auto writer = store_->create("new/small", kMiB / 2, true);
  ASSERT_TRUE(writer.ok());
  (*writer)->make_room(2 * kMiB);
  (*writer)->make_room(3 * kMiB - 64 * 1024);  // of the 3 MiB that there are; it asks for 4 first
  EXPECT_EQ(pool(), "PART_000 PART_001");
  (*writer)->make_room(6 * kMiB);
  EXPECT_EQ(pool(), "");
}

TEST_F(RecycleFull, WhatDoesNotFitWithoutThePoolIsNoSpace) {
  EXPECT_EQ(code(store_->create("new/PART_002", 9 * kMiB).status()), "NO_SPACE");
  EXPECT_EQ(names(*store_, "new"), "");
}

}  // namespace
}  // namespace ckpt::store
