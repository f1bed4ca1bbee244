#include "raw_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "machine.h"

namespace ckpt_bench {

// Calls body(offset, bytes) for every block, dealt to threads one by one.
static void for_each_block(size_t size, unsigned threads, const std::function<void(size_t, size_t)>& body) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t at; (at = next.fetch_add(kRawBlock)) < size;) body(at, std::min(kRawBlock, size - at));
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; i++) helpers.emplace_back(work);
  work();
  for (auto& helper : helpers) helper.join();
}

static int open_file(const std::string& path, int flags) {
  int file = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file < 0) fail_errno("open " + path);
  return file;
}

static void write_block(int file, const std::byte* data, size_t at, size_t bytes) {
  while (bytes != 0) {
    ssize_t done = pwrite(file, data + at, bytes, static_cast<off_t>(at));
    if (done <= 0) fail_errno("write");
    at += static_cast<size_t>(done), bytes -= static_cast<size_t>(done);
  }
}

static void read_block(int file, std::byte* data, size_t at, size_t bytes) {
  while (bytes != 0) {
    ssize_t done = pread(file, data + at, bytes, static_cast<off_t>(at));
    if (done <= 0) fail_errno("read");
    at += static_cast<size_t>(done), bytes -= static_cast<size_t>(done);
  }
}

static void sync_directory_of(const std::string& path) {
  int directory = open_file(std::filesystem::path(path).parent_path(), O_RDONLY | O_DIRECTORY);
  if (fsync(directory) != 0) fail_errno("sync the directory of " + path);
  close(directory);
}

double write_direct(const std::string& path, const std::byte* data, size_t size) {
  double start = now();
  int file = open_file(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT);
  if (fallocate(file, 0, 0, static_cast<off_t>(size)) != 0) fail_errno("preallocate " + path);
  for_each_block(size, kRawThreads, [&](size_t at, size_t bytes) { write_block(file, data, at, bytes); });
  if (fdatasync(file) != 0) fail_errno("sync " + path);
  close(file);
  sync_directory_of(path);
  return now() - start;
}

double write_buffered(const std::string& path, const std::byte* data, size_t size) {
  double start = now();
  int file = open_file(path, O_RDWR | O_CREAT | O_EXCL);
  for_each_block(size, 1, [&](size_t at, size_t bytes) { write_block(file, data, at, bytes); });
  if (fsync(file) != 0) fail_errno("sync " + path);
  close(file);
  sync_directory_of(path);
  return now() - start;
}

static double read_file(const std::string& path, int flags, std::byte* data, size_t size) {
  double start = now();
  int file = open_file(path, O_RDONLY | flags);
  for_each_block(size, kRawThreads, [&](size_t at, size_t bytes) { read_block(file, data, at, bytes); });
  close(file);
  return now() - start;
}

double read_direct(const std::string& path, std::byte* data, size_t size) {
  return read_file(path, O_DIRECT, data, size);
}
double read_buffered(const std::string& path, std::byte* data, size_t size) { return read_file(path, 0, data, size); }

double copy_memory(const std::byte* from, std::byte* to, size_t size) {
  double start = now();
  for_each_block(size, kRawThreads, [&](size_t at, size_t bytes) { std::memcpy(to + at, from + at, bytes); });
  return now() - start;
}

}  // namespace ckpt_bench
