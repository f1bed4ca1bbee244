// The plain programs that saves and loads are measured against: the same bytes, no names, no checksums, no commit.
// `data` and `size` are multiples of 4096 where the file is opened for direct I/O. They stop the program on errors.
#pragma once

#include <cstddef>
#include <string>

namespace ckpt_bench {

struct RawWay {
  unsigned threads = 2;
  size_t block = 4 << 20;
  bool direct = true;
};

// A new file: fallocate (direct only), blocks assigned to the threads, fdatasync, fsync of the directory.
void write_new(const std::string& path, const std::byte* data, size_t size, const RawWay& way);
// Over the bytes of a file that is there; it is not truncated.
void write_existing(const std::string& path, const std::byte* data, size_t size, const RawWay& way);
void read_file(const std::string& path, size_t offset, std::byte* data, size_t size, const RawWay& way);
// Maps the file and copies it out of the mapping.
void read_mapped(const std::string& path, std::byte* data, size_t size, const RawWay& way);
// The least that makes a small file durable: write, fsync, rename, fsync of the directory.
void commit_small(const std::string& path);

void copy_memory(const std::byte* from, std::byte* to, size_t size, const RawWay& way);
// memcpy, and XXH3-128 of each block while it is in the cache. Returns the digests mixed, so that they are needed.
unsigned long copy_and_hash(const std::byte* from, std::byte* to, size_t size, const RawWay& way);

}  // namespace ckpt_bench
