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
#include <map>
#include <thread>

#include "store/cache_home.h"
#include "store/cache_name.h"
#include "store/faults.h"
#include "store/posix_file.h"
#include "store/store_suite.h"

namespace ckpt::store {
namespace {

// ---- the suite ----

// Opens all its files through the cache, as loads open parts.
class OpensCached final : public ShellStore {
 public:
  using ShellStore::ShellStore;
  Result<std::unique_ptr<Reader>> open(std::string_view key) const override {
    return inner_->open_cached(key, 0, true);
  }
};

class CachedHome final : public Home {
 public:
  std::shared_ptr<Store> open() override {
    auto source = std::make_shared<RemoteStore>(*open_posix(scratch_ / "store", {}), requests_);
    auto cached = open_cache(std::move(source), {.cache = {.directory = scratch_ / "cache", .bytes = kCacheRoom}});
    EXPECT_TRUE(cached.ok()) << cached.status().message();
    return std::make_shared<OpensCached>(cached.take());
  }

 private:
  const Scratch scratch_;
  const Requests requests_;
};

const auto kCached = testing::Values(Backend{"Cached", [] { return std::make_unique<CachedHome>(); }});
INSTANTIATE_TEST_SUITE_P(Cached, StoreSuite, kCached, testing::PrintToStringParamName());
INSTANTIATE_TEST_SUITE_P(Cached, NamesSuite, kCached, testing::PrintToStringParamName());

// ---- one object ----

TEST_F(Cache, ASecondReadAsksForNothing) {
  const Pattern data(10 * kMiB + 5000, 1);
  put(data);
  expect_all(*cached(remote()), data);
  EXPECT_EQ(requests.take(), "1 0 2") << "eight blocks, and three";
  expect_all(*cached(remote()), data);
  EXPECT_EQ(requests.take(), "0 0 0");
}

TEST_F(Cache, TheStoreIsAskedForTheVersionOnceSomethingIsMissing) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  std::vector<std::byte> found(data.bytes().size());
  ASSERT_EQ(code(read(*cached(remote()), 0, MutableBytes(found).first(kMiB))), "OK");
  EXPECT_EQ(requests.take(), "1 0 1");
  const auto store = cached(remote());
  const auto reader = opened(*store);
  ASSERT_EQ(code(reader->read_at(1000, MutableBytes(found).first(1000))), "OK");
  EXPECT_EQ(requests.take(), "0 0 0");
  ASSERT_EQ(code(reader->read_at(0, found)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().begin()));
  EXPECT_EQ(requests.take(), "0 1 1");
}

// A copy that was made again has other versions of the same bytes.
TEST_F(Cache, WhatIsMissingComesFromAnotherVersionOfTheSameBytes) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  std::vector<std::byte> found(data.bytes().size());
  ASSERT_EQ(code(read(*cached(remote()), 0, MutableBytes(found).first(kMiB))), "OK");
  put(data);
  expect_all(*cached(remote()), data);
}

TEST_F(Cache, WhatIsMissingOfAnObjectThatIsRemovedOrOfAnotherSizeIsAnError) {
  const Pattern data(4 * kMiB, 1);
  put(data);
  std::vector<std::byte> found(data.bytes().size());
  const auto store = cached(remote());
  ASSERT_EQ(code(read(*store, 0, MutableBytes(found).first(kMiB))), "OK");
  const auto first = opened(*store), second = opened(*store);
  put(Pattern(4 * kMiB + 1, 1));
  EXPECT_EQ(first->read_at(0, found).code(), CKPT_GONE);
  ASSERT_EQ(code(disk->remove(kKey, true)), "OK");
  EXPECT_EQ(code(second->read_at(0, found)), "NOT_FOUND");
  EXPECT_EQ(code(second->read_at(0, MutableBytes(found).first(kMiB))), "OK") << "it is there";
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
  for (const char* asked : {"1 0 0", "0 0 0"}) {
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
  EXPECT_EQ(requests.take(), "0 0 0");
}

TEST_F(Cache, WhatCameDamagedWithTheOpeningIsAskedOfTheServerAgain) {
  const Pattern data(3 * kMiB, 1);
  put(data);
  const auto source = remote();
  source->tail(5000, 3 * kMiB - 1);
  const auto store = cached(source);
  const auto reader = opened(*store);
  std::vector<std::byte> found(1000);
  ASSERT_EQ(code(reader->read_at(3 * kMiB - 1000, found)), "OK");
  EXPECT_FALSE(std::equal(found.begin(), found.end(), data.bytes().end() - 1000)) << "or this test shows nothing";
  ASSERT_EQ(code(reader->read_again(3 * kMiB - 1000, found)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().end() - 1000));
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
    EXPECT_EQ(requests.take(), "0 0 0") << size;
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
  const auto asked = open_cached(*store, kKey, true);
  ASSERT_TRUE(asked.ok());
  std::vector<std::byte> now(second.bytes().size());
  ASSERT_EQ(code((*asked)->read_at(0, now)), "OK");
  EXPECT_TRUE(std::equal(now.begin(), now.end(), second.bytes().begin()));
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

}  // namespace
}  // namespace ckpt::store
