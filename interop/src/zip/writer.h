// A zip archive as torch writes it: entries stored as they are, their data at multiples of 64 bytes, sizes known before
// the data comes. Entries go out one after another; only what the central directory needs is kept. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/files.h"

namespace ckpt::interop {

class ZipWriter {
 public:
  static constexpr uint64_t kDataAlign = 64;

  static constexpr uint64_t kZip64From = 0xffffffff;

  // `file` must outlive the writer, and end at `begin`, where the archive begins. Sizes and offsets from `zip64_from`
  // on, which tests lower, are written in the 64-bit form.
  explicit ZipWriter(OutputFile& file, uint64_t zip64_from = kZip64From, uint64_t begin = 0)
      : file_(file), zip64_from_(zip64_from), begin_(begin) {}

  // One entry in pieces: begin, the `size` bytes in as many writes as one likes, end.
  // INVALID for a name that is empty or longer than 65535 bytes, and where the bytes are not as many as were said.
  // That no name comes twice is the caller's affair.
  Status begin(const std::string& name, uint64_t size);
  Status write(Bytes data);
  Status end();
  // One entry at once.
  Status add(const std::string& name, Bytes data);

  // The central directory. Nothing can be added any more.
  Status finish();

  uint64_t size() const { return position_; }

 private:
  struct Entry {
    std::string name;
    uint64_t size = 0, offset = 0;
    uint32_t crc = 0;
  };
  Status start(const std::string& name, uint64_t size, uint32_t crc);
  Status put(Bytes data);
  bool is_long(uint64_t value) const { return value >= zip64_from_; }
  // As a field of 32 bits.
  uint64_t brief(uint64_t value) const { return is_long(value) ? kZip64From : value; }
  std::string local_extra(uint64_t start, uint64_t size) const;
  std::string directory_record(const Entry& entry) const;

  OutputFile& file_;
  uint64_t zip64_from_;
  uint64_t begin_;         // in the file
  uint64_t position_ = 0;  // in the archive
  std::vector<Entry> entries_;
  bool open_ = false;
  uint64_t left_ = 0;  // of the open entry
  uint32_t crc_ = 0;
};

}  // namespace ckpt::interop
