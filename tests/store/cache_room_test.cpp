// Where a cache lies, and how much room it takes: limits, disks that are full or fail, and who may use a directory.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "store/cache_home.h"
#include "store/cache_name.h"
#include "store/faults.h"
#include "store/posix_file.h"
#include "store/store_suite.h"

namespace ckpt::store {
namespace {

// ---- room ----

TEST_F(Cache, WhatWasOpenedLeastRecentlyGoesFirstAndNeverWhatIsRead) {
  const Pattern data(4 * kMiB, 1);
  const char* const keys[] = {"s1.1.1/PART_000", "s1.1.1/PART_001", "s1.1.1/PART_002", "s1.1.1/PART_003"};
  for (const char* key : keys) put(data, key);
  const auto store = cached(remote(), {.bytes = 13 * kMiB, .credit = 0});
  for (int i = 0; i < 3; i++) {
    expect_all(*store, data, keys[i]);
    const timespec opened[2] = {{1000 + i, 0}, {1000 + i, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, entry_of(keys[i]).c_str(), opened, 0), 0);
  }
  std::ofstream(own() + "/somebody's file") << "x";
  std::ofstream(scratch / "cache" + std::string("/somebody's file")) << "x";
  const auto held = opened(*store, keys[1]);
  const timespec oldest[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, entry_of(keys[1]).c_str(), oldest, 0), 0);
  expect_all(*store, data, keys[3]);
  const bool there[] = {false, true, true, true};
  for (int i = 0; i < 4; i++) EXPECT_EQ(std::filesystem::exists(entry_of(keys[i])), there[i]) << i;
  EXPECT_TRUE(std::filesystem::exists(own() + "/somebody's file"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "cache" + std::string("/somebody's file")));
}

TEST_F(Cache, WhereThereIsNoRoomTheStoreIsRead) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  put(data, "s1.1.1/PART_001");
  const auto trouble = std::make_shared<CacheTrouble>();
  const auto store = cached(remote(), {.bytes = 5 * kMiB, .credit = 0, .trouble = trouble});
  expect_all(*store, data);
  EXPECT_TRUE(trouble->first().ok());
  const auto held = opened(*store);
  for (int i = 0; i < 2; i++) {
    requests.take();
    expect_all(*store, data, "s1.1.1/PART_001");
    EXPECT_EQ(requests.take(), i == 0 ? "1 0 1" : "0 1 1");
  }
  expect_all(*store, data);
  EXPECT_EQ(trouble->first().code(), CKPT_NO_SPACE) << trouble->first().message();
  EXPECT_NE(trouble->first().message().find("cache_bytes is 5242880"), std::string::npos) << trouble->first().message();
}

TEST_F(Cache, AFullDiskIsNoErrorOfALoad) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  const std::string full = scratch / "full";
  std::filesystem::create_directory(full);
  const TestMount mount(full, "size=2m");
  ASSERT_TRUE(mount.ok());
  // The limit lets it write more than there is.
  const auto trouble = std::make_shared<CacheTrouble>();
  const auto store = cached(remote(), {.directory = full, .bytes = 100 * kMiB, .trouble = trouble});
  EXPECT_TRUE(trouble->first().ok());
  for (int i = 0; i < 3; i++) expect_all(*store, data);
  EXPECT_EQ(trouble->first().code(), CKPT_NO_SPACE) << trouble->first().message();
  EXPECT_NE(trouble->first().message().find(full), std::string::npos) << trouble->first().message();
}

TEST_F(Cache, WithoutALimitATwentiethOfTheDiskStaysFree) {
  const Pattern data(kMiB, 1);
  const std::string small = scratch / "small";
  std::filesystem::create_directory(small);
  const TestMount mount(small, "size=10m");
  ASSERT_TRUE(mount.ok());
  const auto store = cached(remote(), {.directory = small, .credit = 0});
  for (int i = 0; i < 20; i++) {
    const std::string key = strformat("s1.1.1/PART_{}", i);
    put(data, key);
    expect_all(*store, data, key.c_str());
  }
  const auto space = std::filesystem::space(small);
  EXPECT_GE(space.available, space.capacity / 20 - 64 * 1024);
  EXPECT_LE(space.available, 3 * kMiB) << "it is used";
}

TEST_F(Cache, ADiskOfWhichNoTwentiethIsFreeIsSaid) {
  const Pattern data(kMiB, 1);
  put(data);
  const std::string full = scratch / "full";
  std::filesystem::create_directory(full);
  const TestMount mount(full, "size=40m");
  ASSERT_TRUE(mount.ok());
  std::ofstream(full + "/others") << std::string(38 * kMiB + kMiB / 2, 'x');
  const auto trouble = std::make_shared<CacheTrouble>();
  expect_all(*cached(remote(), {.directory = full, .trouble = trouble}), data);
  EXPECT_EQ(trouble->first().code(), CKPT_NO_SPACE) << trouble->first().message();
  EXPECT_NE(trouble->first().message().find("5 % of its file system stay free"), std::string::npos)
      << trouble->first().message();
}

TEST_F(Cache, ADiskThatFailsIsNoErrorOfALoad) {
  const Pattern data(4 * kMiB, 1);
  disk = *open_memory("cache-disk-fails");
  put(data);
  for (const int error : {EIO, EROFS, ENOSPC, EDQUOT})
    for (int number = 1; number <= 12; number++) {  // of the transfers from and to the cache
      if (number % 2) std::filesystem::remove_all(scratch / "cache");
      const auto store = cached(remote());
      {
        Faults faults;
        int count = 0;
        faults.transfer = [&](size_t size) { return ++count == number ? -long{error} : static_cast<long>(size); };
        expect_all(*store, data);
        expect_all(*store, data);
      }
      expect_all(*store, data);
    }
}

TEST_F(Cache, AFileSystemThatBecomesReadOnlyIsNoErrorOfALoad) {
  const Pattern data(2 * kMiB, 1);
  put(data);
  const std::string disc = scratch / "disc";
  std::filesystem::create_directory(disc);
  TestMount mount(disc, "size=20m");
  const auto trouble = std::make_shared<CacheTrouble>();
  const auto store = cached(remote(), {.directory = disc, .trouble = trouble});
  mount.make_read_only();
  ASSERT_TRUE(mount.ok());
  expect_all(*store, data);
  expect_all(*store, data);
  EXPECT_EQ(trouble->first().code(), CKPT_IO) << trouble->first().message();
  EXPECT_NE(trouble->first().message().find(disc), std::string::npos) << trouble->first().message();
}

// Whoever writes beyond it gets a signal that ends the process.
TEST_F(Cache, ALimitOfTheSizeOfFilesIsNoErrorOfALoad) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  in_processes(1, [&](int) {
    const rlimit limit{kMiB, kMiB};
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 && holds(*cached(remote()), data, 0);
  });
  EXPECT_EQ(entries().size(), 0u);
}

// ---- the directory ----

TEST_F(Cache, ADirectoryThatCannotBeUsedIsSaidAtOnce) {
  std::ofstream(scratch / "file") << "x";
  std::filesystem::create_directory(scratch / "taken");
  std::ofstream(strformat("{}/ckpt-cache-1.{}", scratch / "taken", uint64_t{geteuid()})) << "x";
  for (const std::string& path : {scratch / "file", scratch / "taken", std::string("/proc/none")}) {
    const Status told = open_cache(remote(), {.cache = {.directory = path}}).status();
    EXPECT_NE(code(told), "OK") << path;
    EXPECT_NE(told.message().find("option cache"), std::string::npos) << told.message();
  }
}

TEST_F(Cache, AReadOnlyDirectoryIsSaidAtOnce) {
  const std::string disc = scratch / "disc";
  std::filesystem::create_directory(disc);
  TestMount mount(disc, "size=1m");
  mount.make_read_only();
  ASSERT_TRUE(mount.ok());
  const Status told = open_cache(remote(), {.cache = {.directory = disc}}).status();
  EXPECT_EQ(code(told), "IO") << told.message();
  EXPECT_NE(told.message().find(disc), std::string::npos) << told.message();
}

TEST_F(Cache, NobodyElseMayLookIntoItWhateverTheUmaskIs) {
  const Pattern data(kMiB, 1);
  put(data);
  for (const mode_t mask : {0777, 0}) {
    std::filesystem::remove_all(scratch / "cache");
    std::filesystem::create_directory(scratch / "cache");
    const mode_t before = umask(mask);
    expect_all(*cached(remote()), data);
    umask(before);
    struct stat found{};
    ASSERT_EQ(stat(own().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u);
    ASSERT_EQ(stat(entry_of(kKey).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0600u);
  }
}

TEST_F(Cache, ALocalStoreHasNone) {
  for (const std::string& uri : {scratch / "store", std::string("mem:uncached")}) {
    const Status told = open_places(uri, {.cache = scratch / "cache"}).status();
    EXPECT_EQ(code(told), "INVALID");
    EXPECT_NE(told.message().find("option cache"), std::string::npos) << told.message();
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "cache"));
}

TEST_F(Cache, StoresOfSeveralServersMayShareIt) {
  const Pattern data(kMiB, 1), other(kMiB, 2);
  put(data);
  const Requests elsewhere;
  Scratch second;
  const std::shared_ptr<Store> disk2 = *open_posix(second / "store", {});
  ASSERT_EQ(code(disk2->prepare()), "OK");
  (void)disk2->make_directory("s1.1.1");
  ASSERT_EQ(code(disk2->put_if_absent(kKey, other.bytes())), "OK");
  const auto a = cached(remote()), b = cached(std::make_shared<RemoteStore>(disk2, elsewhere));
  for (int i = 0; i < 2; i++) {
    expect_all(*a, data);
    expect_all(*b, other);
  }
  EXPECT_EQ(entries().size(), 2u);
}

}  // namespace
}  // namespace ckpt::store
