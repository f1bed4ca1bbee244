// The cache of a remote store: the suite of all stores through it, and what it promises beside that. The store behind
// it is one that counts what it is asked (remote_store.h).
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
#include <thread>

#include "store/cache_name.h"
#include "store/faults.h"
#include "store/posix_file.h"
#include "store/remote_store.h"
#include "store/store_suite.h"

namespace ckpt::store {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// ---- the suite ----

// Opens all its files through the cache, as loads open parts.
class OpensCached final : public ShellStore {
 public:
  using ShellStore::ShellStore;
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override { return inner_->open_cached(key); }
};

class CachedHome final : public Home {
 public:
  std::shared_ptr<Store> open() override {
    auto source = std::make_shared<RemoteStore>(*open_posix(scratch_ / "store", {}), requests_);
    auto cached = open_cache(std::move(source), {.cache = {.directory = scratch_ / "cache"}});
    EXPECT_TRUE(cached.ok()) << cached.status().message();
    return std::make_shared<OpensCached>(cached.take());
  }

 private:
  const Scratch scratch_;
  const Requests requests_;
};

INSTANTIATE_TEST_SUITE_P(Cached, StoreSuite,
                         testing::Values(Backend{"Cached", [] { return std::make_unique<CachedHome>(); }}),
                         testing::PrintToStringParamName());

// ---- one object ----

struct Cache : testing::Test {
  static constexpr const char* kKey = "s1.1.1/PART_000";
  Scratch scratch;
  Requests requests;
  std::shared_ptr<Store> disk = *open_posix(scratch / "store", {});

  std::shared_ptr<RemoteStore> remote() { return std::make_shared<RemoteStore>(disk, requests); }
  std::shared_ptr<Store> cached(std::shared_ptr<Store> source, CacheOptions options = {}) {
    if (options.directory.empty()) options.directory = scratch / "cache";
    auto store = open_cache(std::move(source), {.cache = options});
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? store.take() : nullptr;
  }
  void put(const Pattern& data, const std::string& key = kKey) {
    ASSERT_EQ(code(disk->prepare()), "OK");
    (void)disk->make_directory(key.substr(0, key.find('/')));
    (void)disk->remove(key, true);
    ASSERT_EQ(code(disk->put_if_absent(key, data.bytes())), "OK");
  }
  // The files of the cache.
  std::vector<std::string> entries() {
    std::vector<std::string> found;
    for (const auto& file : std::filesystem::directory_iterator(own()))
      if (is_cache_name(file.path().filename().string())) found.push_back(file.path().string());
    return found;
  }
  std::string own() const { return strformat("{}/ckpt-cache-1.{}", scratch / "cache", uint64_t{geteuid()}); }
  std::string entry_of(const std::string& key) { return own() + "/" + cache_name(remote()->identity() + "/" + key); }
};

std::unique_ptr<Reader> opened(const Store& store, const char* key = Cache::kKey) {
  auto reader = store.open_cached(key);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  return reader.ok() ? reader.take() : nullptr;
}

Status read(const Store& store, uint64_t offset, MutableBytes out, const char* key = Cache::kKey) {
  CKPT_ASSIGN(const auto reader, store.open_cached(key));
  return reader->read_at(offset, out);
}

void expect_all(const Store& store, const Pattern& data, const char* key = Cache::kKey) {
  std::vector<std::byte> found(data.bytes().size());
  EXPECT_EQ(code(read(store, 0, found, key)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().begin()));
}

TEST_F(Cache, ASecondReadAsksForTheVersionOnly) {
  const Pattern data(10 * kMiB + 5000, 1);
  put(data);
  expect_all(*cached(remote()), data);
  EXPECT_EQ(requests.take(), "1 0 2") << "eight blocks, and three";
  expect_all(*cached(remote()), data);
  EXPECT_EQ(requests.take(), "0 1 0");
}

TEST_F(Cache, OfAPartThatIsReadInPiecesEachByteIsAskedForOnce) {
  const Pattern data(5 * kMiB + 4096, 1);
  put(data);
  const auto store = cached(remote());
  const auto reader = opened(*store);
  std::vector<std::byte> found(data.bytes().size());
  for (size_t at = 0, size; at < found.size(); at += size) {
    size = std::min<size_t>(700000, found.size() - at);
    ASSERT_EQ(code(reader->read_at(at, MutableBytes(found).subspan(at, size))), "OK");
  }
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().begin()));
  EXPECT_EQ(requests->bytes, data.bytes().size());
  expect_all(*cached(remote()), data);
  EXPECT_EQ(requests->bytes, data.bytes().size());
}

TEST_F(Cache, WhatComesWithTheOpeningIsAskedForByNoOtherRequest) {
  const Pattern data(3 * kMiB, 1);
  put(data);
  const auto source = remote();
  source->tail(kMiB);
  const auto store = cached(source);
  std::vector<std::byte> found(1000);
  for (const char* asked : {"1 0 0", "0 1 0"}) {
    EXPECT_EQ(code(read(*store, 3 * kMiB - 1000, found)), "OK");
    EXPECT_EQ(requests.take(), asked);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().end() - 1000));
  }
  // Less than a block is used, and not kept.
  put(data, "s1.1.1/PART_001");
  source->tail(5000);
  for (const char* asked : {"1 0 0", "0 1 1"}) {
    EXPECT_EQ(code(read(*store, 3 * kMiB - 1000, found, "s1.1.1/PART_001")), "OK");
    EXPECT_EQ(requests.take(), asked);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().end() - 1000));
  }
}

TEST_F(Cache, WhatIsThereIsReadAsALocalFile) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  const auto store = cached(remote());
  expect_all(*store, data);
  const auto reader = opened(*store), local = opened(*disk);
  EXPECT_EQ(reader->direct_align(), local->direct_align());
  EXPECT_EQ(reader->direct_descriptor(0, kMiB) >= 0, local->direct_descriptor(0, kMiB) >= 0);
  EXPECT_EQ(reader->way(0, kMiB).queued, local->way(0, kMiB).queued);
  if (const uint64_t align = reader->direct_align(); align != 0) {
    Pattern into(kMiB, 9);
    const MutableBytes out(const_cast<std::byte*>(into.bytes().data()), kMiB);
    ASSERT_EQ(code(reader->read_direct(kMiB, out)), "OK");
    EXPECT_TRUE(std::equal(out.begin(), out.end(), data.bytes().begin() + kMiB));
  }
}

TEST_F(Cache, AReadBeyondTheEndIsIncompleteAsWithoutACache) {
  const Pattern data(kMiB + 1, 1);
  put(data);
  const auto store = cached(remote());
  for (int i = 0; i < 2; i++) {
    std::vector<std::byte> out(2);
    EXPECT_EQ(code(read(*store, kMiB, out)), "INCOMPLETE");
    EXPECT_EQ(code(read(*store, UINT64_MAX, out)), "INCOMPLETE");
    expect_all(*store, data);
  }
}

TEST_F(Cache, ManyThreadsShareOneDownload) {
  const Pattern data(16 * kMiB + 12345, 1);
  put(data);
  const auto store = cached(remote());
  const std::shared_ptr<Reader> reader = opened(*store);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 8; t++)
      threads.emplace_back([&, t] {
        std::minstd_rand random(t);
        std::vector<std::byte> out(3 * kMiB);
        for (int i = 0; i < 20; i++) {
          const size_t at = random() % (data.bytes().size() - 1),
                       size = std::min(1 + random() % out.size(), data.bytes().size() - at);
          wrong += !reader->read_at(at, MutableBytes(out).first(size)).ok() ||
                   !std::equal(out.begin(), out.begin() + static_cast<ptrdiff_t>(size), data.bytes().begin() + at);
        }
        wrong += !reader->read_at(0, MutableBytes(out).first(1)).ok();
      });
  }
  EXPECT_EQ(wrong, 0);
  expect_all(*store, data);
  for (int i = 0; i < 17; i++) EXPECT_EQ(requests->of_block[i], 1u) << i;
}

// ---- several processes ----

// Runs `body` in `count` processes at once; each returns whether it liked what it saw.
void in_processes(int count, const std::function<bool(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; i++) {
    children.push_back(fork());
    if (children.back() == 0) _exit(body(i) ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

bool holds(const Store& store, const Pattern& data, uint64_t offset) {
  std::vector<std::byte> found(data.bytes().size() - offset);
  return read(store, offset, found).ok() && std::equal(found.begin(), found.end(), data.bytes().begin() + offset);
}

TEST_F(Cache, ManyProcessesShareOneDownload) {
  const Pattern data(24 * kMiB + 5, 1);
  put(data);
  in_processes(
      6, [&](int i) { return holds(*cached(remote()), data, i * 3 * kMiB) && holds(*cached(remote()), data, 0); });
  for (int i = 0; i < 25; i++) EXPECT_EQ(requests->of_block[i], 1u) << i;
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(Cache, WhatAProcessWasReadingWhenItWasKilledIsReadAgain) {
  const Pattern data(6 * kMiB, 1);
  put(data);
  for (int killed = 1; killed <= 3; killed++) {
    std::filesystem::remove_all(scratch / "cache");
    const pid_t child = fork();
    if (child == 0) {
      const auto source = remote();
      int number = 0;
      source->on_answer([&](uint64_t, MutableBytes out) {
        if (++number < killed) return Ok();
        // Half of it is here.
        std::fill(out.begin() + static_cast<ptrdiff_t>(out.size() / 2), out.end(), std::byte{});
        kill(getpid(), SIGKILL);
        return Ok();
      });
      const auto store = cached(source);
      std::vector<std::byte> out(2 * kMiB);
      for (uint64_t at = 0; at < 6 * kMiB; at += 2 * kMiB) (void)read(*store, at, out);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (auto& count : requests->of_block) count = 0;
    expect_all(*cached(remote()), data);
    for (int i = 0; i < 6; i++) EXPECT_EQ(requests->of_block[i], i < 2 * (killed - 1) ? 0u : 1u) << killed << " " << i;
  }
}

TEST_F(Cache, WhatAStoppedProcessIsReadingIsReadPastTheCache) {
  const Pattern data(3 * kMiB, 1);
  put(data);
  const pid_t child = fork();
  if (child == 0) {
    const auto source = remote();
    source->on_answer([&](uint64_t, MutableBytes) {
      raise(SIGSTOP);
      return Ok();
    });
    _exit(holds(*cached(source), data, 0) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto store = cached(remote(), {.patience_ms = 100});
  expect_all(*store, data);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it goes on, and ends what it began";
  for (auto& count : requests->of_block) count = 0;
  expect_all(*store, data);
  EXPECT_EQ(requests->of_block[0], 0u);
}

// As the workers of a data loader do.
TEST_F(Cache, AForkedChildThatLivesOnHoldsNothing) {
  const Pattern data(2 * kMiB, 1);
  put(data);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  pid_t child = 0;
  {
    const auto source = remote();
    source->on_answer([&](uint64_t, MutableBytes) {  // while it has the lock of a block
      if (child != 0) return Ok();
      child = fork();
      if (child != 0) return Ok();
      char one;
      close(go[1]);
      (void)!::read(go[0], &one, 1);
      _exit(0);
    });
    expect_all(*cached(source), data);
  }
  const Fd entry(open(entry_of(kKey).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(entry.get(), LOCK_EX | LOCK_NB), 0) << "it can be removed";
  struct flock range{};
  range.l_type = F_WRLCK;
  EXPECT_EQ(fcntl(entry.get(), F_OFD_SETLK, &range), 0);
  close(go[1]);
  waitpid(child, nullptr, 0);
  close(go[0]);
}

// ---- what comes to harm ----

void overwrite(const std::string& path, uint64_t offset, const std::string& text) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  ASSERT_TRUE(file) << path;
  file.seekp(static_cast<std::streamoff>(offset));
  file << text;
}

TEST_F(Cache, WhatIsAskedForAgainIsMendedInTheCache) {
  const Pattern data(3 * kMiB, 1);
  put(data);
  const auto store = cached(remote());
  expect_all(*store, data);
  overwrite(entry_of(kKey), kMiB - 5, std::string(1000, 'x'));
  std::vector<std::byte> found(data.bytes().size());
  ASSERT_EQ(code(read(*store, 0, found)), "OK");
  EXPECT_FALSE(std::equal(found.begin(), found.end(), data.bytes().begin())) << "or this test shows nothing";
  {
    const auto reader = opened(*store);
    ASSERT_EQ(code(reader->read_again(kMiB - 4096, MutableBytes(found).first(8192))), "OK");
    EXPECT_TRUE(std::equal(found.begin(), found.begin() + 8192, data.bytes().begin() + kMiB - 4096));
  }
  requests.take();
  expect_all(*store, data);
  EXPECT_EQ(requests.take(), "0 1 0");
}

TEST_F(Cache, AFileThatWasCutIsMadeAnewAndOneThatIsCutMeanwhileIsReadFromTheStore) {
  const Pattern data(3 * kMiB, 1);
  put(data);
  const auto store = cached(remote());
  expect_all(*store, data);
  for (const uint64_t size : {uint64_t{0}, kMiB + 100, 3 * kMiB, 3 * kMiB + 2}) {
    std::filesystem::resize_file(entry_of(kKey), size);
    requests.take();
    expect_all(*store, data);
    EXPECT_EQ(requests.take(), "0 1 1") << size;
    expect_all(*store, data);
    EXPECT_EQ(requests.take(), "0 1 0") << size;
  }
  for (const uint64_t size : {uint64_t{0}, kMiB + 100}) {
    const auto reader = opened(*store);
    std::filesystem::resize_file(entry_of(kKey), size);
    std::vector<std::byte> found(data.bytes().size());
    EXPECT_EQ(code(reader->read_at(0, found)), "OK");
    EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().begin()));
    EXPECT_EQ(code(reader->read_direct(0, found)), "OK");
    EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().begin()));
  }
}

TEST_F(Cache, AnotherVersionOfAnObjectIsAnotherFile) {
  const Pattern first(3 * kMiB, 1), second(3 * kMiB, 2);
  put(first);
  const auto store = cached(remote());
  expect_all(*store, first);
  const auto old = opened(*store);
  put(second);
  expect_all(*store, second);
  expect_all(*store, second);
  std::vector<std::byte> found(first.bytes().size());
  ASSERT_EQ(code(old->read_at(0, found)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), first.bytes().begin())) << "its reader keeps what it has";
}

TEST_F(Cache, TwoObjectsOfOneNameAreToldApartByTheirFooters) {
  const Pattern data(kMiB, 1), other(kMiB, 2);
  put(data);
  put(other, "s2.1.1/PART_000");
  const auto store = cached(remote());
  expect_all(*store, other, "s2.1.1/PART_000");
  std::filesystem::rename(entry_of("s2.1.1/PART_000"), entry_of(kKey));
  expect_all(*store, data);
}

TEST_F(Cache, OnlyPartsThatAreOpenedForALoadAreInIt) {
  const Pattern data(2 * kMiB, 1);
  put(data);
  const auto store = cached(remote());
  EXPECT_TRUE(store->get(kKey, 2 * kMiB).ok());
  EXPECT_EQ(entries().size(), 0u);
  expect_all(*store, data);
  overwrite(entry_of(kKey), 0, "poison");
  const auto found = store->get(kKey, 2 * kMiB);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(std::equal(found->begin(), found->end(), data.bytes().begin()));
}

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
  const auto store = cached(remote(), {.bytes = 5 * kMiB, .credit = 0});
  expect_all(*store, data);
  const auto held = opened(*store);
  for (int i = 0; i < 2; i++) {
    requests.take();
    expect_all(*store, data, "s1.1.1/PART_001");
    EXPECT_EQ(requests.take(), i == 0 ? "1 0 1" : "0 1 1");
  }
  expect_all(*store, data);
}

TEST_F(Cache, AFullDiskIsNoErrorOfALoad) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  const std::string full = scratch / "full";
  std::filesystem::create_directory(full);
  const Mount mount(full, "size=2m");
  ASSERT_TRUE(mount.ok());
  // The limit lets it write more than there is.
  const auto store = cached(remote(), {.directory = full, .bytes = 100 * kMiB});
  for (int i = 0; i < 3; i++) expect_all(*store, data);
}

TEST_F(Cache, WithoutALimitATwentiethOfTheDiskStaysFree) {
  const Pattern data(kMiB, 1);
  const std::string small = scratch / "small";
  std::filesystem::create_directory(small);
  const Mount mount(small, "size=10m");
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
  Mount mount(disc, "size=20m");
  const auto store = cached(remote(), {.directory = disc});
  mount.make_read_only();
  ASSERT_TRUE(mount.ok());
  expect_all(*store, data);
  expect_all(*store, data);
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
  Mount mount(disc, "size=1m");
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
    const Status told = open_store(uri, {.cache = {.directory = scratch / "cache"}}).status();
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
