// The plain programs that a save and a load are measured against: the same bytes, no names, no checksums, no commit.
// Each returns the seconds it took. `data` and `size` are multiples of 4096 where the file is opened for direct I/O.
#pragma once

#include <cstddef>
#include <string>

namespace ckpt_bench {

inline constexpr size_t kRawBlock = 8 << 20;
inline constexpr unsigned kRawThreads = 2;

// fallocate, O_DIRECT blocks from two threads, fdatasync, fsync of the directory.
double write_direct(const std::string& path, const std::byte* data, size_t size);
// pwrite through the page cache by one thread (two are slower here), fsync of file and directory.
double write_buffered(const std::string& path, const std::byte* data, size_t size);
// Blocks from two threads, past the page cache or through it.
double read_direct(const std::string& path, std::byte* data, size_t size);
double read_buffered(const std::string& path, std::byte* data, size_t size);
// memcpy by two threads.
double copy_memory(const std::byte* from, std::byte* to, size_t size);

}  // namespace ckpt_bench
