// The plain programs that saves and loads are compared with: the same bytes, no names, no checksums, no commit. For
// direct I/O `data` and `size` are multiples of 4096. An error stops the program.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ckpt_bench {

struct RawWay {
  unsigned threads = 2;
  size_t block = 4 << 20;
  bool direct = true;
  bool checksums = false;  // of an upload: a CRC-32C of each part, as ckpt sends them, which the server compares
  bool hash = false;       // read_file: also XXH3-128 of each MiB, while it is in the cache
};

// Calls body(offset, bytes) for every block; threads take blocks one by one.
void for_each_block(size_t size, const RawWay& way, const std::function<void(size_t, size_t)>& body);

// Writes a new file: fallocate (direct only), blocks written by the threads, fdatasync, fsync of the directory. Or an
// object, as read_file reads one, if the path is a URI.
void write_new(const std::string& path, const std::byte* data, size_t size, const RawWay& way);
// Overwrites an existing file without truncating it.
void write_existing(const std::string& path, const std::byte* data, size_t size, const RawWay& way);
// Returns a mix of the digests, so that the compiler keeps them.
unsigned long read_file(const std::string& path, size_t offset, std::byte* data, size_t size, const RawWay& way);
// Maps the file and copies it out of the mapping.
void read_mapped(const std::string& path, std::byte* data, size_t size, const RawWay& way);
// s3://BUCKET/KEY on the server AWS_ENDPOINT_URL: an upload whose parts are the blocks, sent by the threads; ranges of
// one block each. One object in a process.
void put_object(const std::string& uri, const std::byte* data, size_t size, const RawWay& way);
void get_object(const std::string& uri, size_t offset, std::byte* data, size_t size, const RawWay& way);
// The least work that makes a small file durable: write, fsync, rename, fsync of the directory.
void commit_small(const std::string& path);

void copy_memory(const std::byte* from, std::byte* to, size_t size, const RawWay& way);
// memcpy, and XXH3-128 of each MiB while it is in the cache. Returns a mix of the digests.
// Only hashes where both are the same.
unsigned long copy_and_hash(const std::byte* from, std::byte* to, size_t size, const RawWay& way);

}  // namespace ckpt_bench
