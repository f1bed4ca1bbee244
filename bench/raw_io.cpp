#include "raw_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "machine.h"

namespace ckpt_bench {

void for_each_block(size_t size, const RawWay& way, const std::function<void(size_t, size_t)>& body) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t at; (at = next.fetch_add(way.block)) < size;) body(at, std::min(way.block, size - at));
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < way.threads; i++) helpers.emplace_back(work);
  work();
  for (auto& helper : helpers) helper.join();
}

static int open_file(const std::string& path, int flags) {
  int file = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file < 0) fail_errno("open " + path);
  return file;
}

static void write_all(int file, const std::byte* data, size_t size, const RawWay& way) {
  for_each_block(size, way, [&](size_t at, size_t bytes) {
    while (bytes != 0) {
      ssize_t done = pwrite(file, data + at, bytes, static_cast<off_t>(at));
      if (done <= 0) fail_errno("write");
      at += static_cast<size_t>(done), bytes -= static_cast<size_t>(done);
    }
  });
}

static void sync_directory_of(const std::string& path) {
  int directory = open_file(std::filesystem::path(path).parent_path(), O_RDONLY | O_DIRECTORY);
  if (fsync(directory) != 0) fail_errno("sync the directory of " + path);
  close(directory);
}

static bool is_object(const std::string& path) { return path.starts_with("s3://"); }

static void read_all(int file, std::byte* data, size_t bytes, size_t offset) {
  while (bytes != 0) {
    ssize_t done = pread(file, data, bytes, static_cast<off_t>(offset));
    if (done <= 0) fail_errno("read");
    data += done, offset += static_cast<size_t>(done), bytes -= static_cast<size_t>(done);
  }
}

// Fills memory in steps, and hashes each while it is in the cache: one digest for each MiB, as for ckpt's chunks.
static unsigned long fill_and_hash(std::byte* data, size_t bytes, size_t most,
                                   const std::function<void(size_t at, size_t step)>& fill) {
  constexpr size_t kDigested = 1 << 20;
  unsigned long mixed = 0;
  XXH3_state_t state;
  for (size_t at = 0; at < bytes;) {
    XXH3_128bits_reset(&state);
    for (size_t stop = std::min(bytes, at + kDigested); at < stop;) {
      const size_t step = std::min(most, stop - at);
      fill(at, step);
      XXH3_128bits_update(&state, data + at, step);
      at += step;
    }
    mixed ^= XXH3_128bits_digest(&state).low64;
  }
  return mixed;
}

void write_new(const std::string& path, const std::byte* data, size_t size, const RawWay& way) {
  if (is_object(path)) return put_object(path, data, size, way);
  int file = open_file(path, O_RDWR | O_CREAT | O_EXCL | (way.direct ? O_DIRECT : 0));
  if (way.direct && fallocate(file, 0, 0, static_cast<off_t>(size)) != 0) fail_errno("preallocate " + path);
  write_all(file, data, size, way);
  if (fsync(file) != 0) fail_errno("sync " + path);
  close(file);
  sync_directory_of(path);
}

void write_existing(const std::string& path, const std::byte* data, size_t size, const RawWay& way) {
  int file = open_file(path, O_RDWR | (way.direct ? O_DIRECT : 0));
  write_all(file, data, size, way);
  if (fsync(file) != 0) fail_errno("sync " + path);
  close(file);
  sync_directory_of(path);
}

unsigned long read_file(const std::string& path, size_t offset, std::byte* data, size_t size, const RawWay& way) {
  if (is_object(path)) return get_object(path, offset, data, size, way), 0;
  int file = open_file(path, O_RDONLY | (way.direct ? O_DIRECT : 0));
  std::atomic<unsigned long> mixed{0};
  for_each_block(size, way, [&](size_t at, size_t bytes) {
    const auto fill = [&](size_t in_block, size_t step) {
      read_all(file, data + at + in_block, step, offset + at + in_block);
    };
    if (way.hash)
      mixed ^= fill_and_hash(data + at, bytes, 256 << 10, fill);
    else
      fill(0, bytes);
  });
  close(file);
  return mixed;
}

void read_mapped(const std::string& path, std::byte* data, size_t size, const RawWay& way) {
  int file = open_file(path, O_RDONLY);
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) fail_errno("map " + path);
  copy_memory(static_cast<const std::byte*>(map), data, size, way);
  munmap(map, size);
  close(file);
}

void commit_small(const std::string& path) {
  std::string temporary = path + ".tmp", bytes(4096, 'x');
  int file = open_file(temporary, O_RDWR | O_CREAT | O_EXCL);
  if (pwrite(file, bytes.data(), bytes.size(), 0) != 4096 || fsync(file) != 0) fail_errno("write " + temporary);
  close(file);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail_errno("rename " + temporary);
  sync_directory_of(path);
}

void copy_memory(const std::byte* from, std::byte* to, size_t size, const RawWay& way) {
  for_each_block(size, way, [&](size_t at, size_t bytes) { std::memcpy(to + at, from + at, bytes); });
}

unsigned long copy_and_hash(const std::byte* from, std::byte* to, size_t size, const RawWay& way) {
  std::atomic<unsigned long> mixed{0};
  for_each_block(size, way, [&](size_t at, size_t bytes) {
    mixed ^= fill_and_hash(to + at, bytes, 128 << 10, [&](size_t in_block, size_t step) {
      if (to != from) std::memcpy(to + at + in_block, from + at + in_block, step);
    });
  });
  return mixed;
}

}  // namespace ckpt_bench
