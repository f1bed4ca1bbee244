// A cache of one object of a store that counts what it is asked (remote_store.h), for the tests of caches.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "store/cache_name.h"
#include "store/remote_store.h"
#include "store/store_suite.h"

namespace ckpt::store {

struct Cache : testing::Test {
  static constexpr const char* kKey = "s1.1.1/PART_000";
  Scratch scratch;
  Requests requests;
  static inline std::map<std::string, uint64_t> sizes;  // as manifests tell them
  std::shared_ptr<Store> disk = *open_posix(scratch / "store", {});

  std::shared_ptr<RemoteStore> remote() { return std::make_shared<RemoteStore>(disk, requests); }
  std::shared_ptr<Store> cached(std::shared_ptr<Store> source, CacheOptions options = {}) {
    if (options.directory.empty()) {
      options.directory = scratch / "cache";
      if (options.bytes == 0) options.bytes = kCacheRoom;
    }
    auto store = open_cache(std::move(source), {.cache = options});
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? store.take() : nullptr;
  }
  void put(const Pattern& data, const std::string& key = kKey) {
    ASSERT_EQ(code(disk->prepare()), "OK");
    (void)disk->make_directory(key.substr(0, key.find('/')));
    (void)disk->remove(key, true);
    ASSERT_EQ(code(disk->put_if_absent(key, data.bytes())), "OK");
    sizes[key] = data.bytes().size();
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

inline Result<std::unique_ptr<Reader>> open_cached(const Store& store, std::string_view key, bool ask = false) {
  return store.open_cached(key, Cache::sizes[std::string(key)], ask);
}

inline std::unique_ptr<Reader> opened(const Store& store, const char* key = Cache::kKey) {
  auto reader = open_cached(store, key);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  return reader.ok() ? reader.take() : nullptr;
}

inline Status read(const Store& store, uint64_t offset, MutableBytes out, const char* key = Cache::kKey) {
  CKPT_ASSIGN(const auto reader, open_cached(store, key));
  return reader->read_at(offset, out);
}

inline void expect_all(const Store& store, const Pattern& data, const char* key = Cache::kKey) {
  std::vector<std::byte> found(data.bytes().size());
  EXPECT_EQ(code(read(store, 0, found, key)), "OK");
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.bytes().begin()));
}

inline bool holds(const Store& store, const Pattern& data, uint64_t offset) {
  std::vector<std::byte> found(data.bytes().size() - offset);
  return read(store, offset, found).ok() && std::equal(found.begin(), found.end(), data.bytes().begin() + offset);
}

// Runs `body` in `count` processes at once; each returns whether it liked what it saw.
inline void in_processes(int count, const std::function<bool(int)>& body) {
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

}  // namespace ckpt::store
