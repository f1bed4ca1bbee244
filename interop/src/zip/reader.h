// A zip archive, read without trust: the central directory, each local header and each data descriptor must
// say the same, and no two entries may share a byte. Data is found by the local headers, as torch pads them. Entries
// that are compressed can be listed but not mapped. Const calls are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/input_file.h"

namespace ckpt::interop {

struct ZipEntry {
  std::string_view name;  // into the archive
  uint64_t begin = 0;     // of the data, in the archive
  uint64_t stored = 0;    // bytes there
  uint64_t size = 0;      // bytes of the content; the same where it is not compressed
  uint32_t crc = 0;       // of the content. 0: not recorded (torch.serialization.set_crc32_options(False))
  uint16_t method = 0;    // 0: stored as it is; 8: deflated
};

class ZipReader {
 public:
  // `file` is the whole archive and must outlive the reader; of one on a web server the directory and the headers are
  // asked for. FORMAT; UNSUPPORTED for archives of several disks and encrypted entries.
  static Result<ZipReader> open(const FileBytes& file);

  // In the order of the central directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;

  // The content in place: addresses, until need() has succeeded. UNSUPPORTED where it is compressed.
  Result<Bytes> bytes(const ZipEntry& entry) const;
  Status need_all(uint64_t most) const;  // the first bytes of each
  Status need(const ZipEntry& entry) const { return bytes_.need(entry.begin, entry.stored); }
  // Gives the content piece by piece, inflated where need be: FORMAT where it is not what the entry says, and past
  // `limit` bytes; CORRUPT, by the CRC-32 of what was inflated; what `take` returns.
  Status content(const ZipEntry& entry, uint64_t limit, const std::function<Status(Bytes)>& take) const;
  Result<std::string> text(const ZipEntry& entry, uint64_t limit) const;

  // Compares the CRC-32 of every entry that has one and is not compressed, on several threads. Asks `go_on` now and
  // then, and ends with its error. CORRUPT. What need() asked for must be asked for again.
  Status verify(unsigned threads, const std::function<Status()>& go_on = {}) const;
  Status verify(const ZipEntry& entry, const std::function<Status()>& go_on = {}) const;

 private:
  struct Directory {
    uint64_t begin = 0, end = 0, count = 0;
  };
  explicit ZipReader(const FileBytes& file) : bytes_(file), file_(file.all()) {}
  Result<Directory> find_directory() const;
  Status read_directory(const Directory& directory);
  Status read_local_header(ZipEntry& entry, uint64_t offset, uint16_t flags, uint64_t limit, uint64_t* end) const;
  Status check_descriptor(const ZipEntry& entry, uint64_t limit, uint64_t* end) const;

  Status check(const ZipEntry& entry, const std::function<Status()>& go_on, bool releases) const;
  Status inflate_entry(const ZipEntry& entry, const std::function<Status(Bytes)>& take) const;
  Status need_headers(const Directory& directory) const;

  FileBytes bytes_;
  Bytes file_;
  std::vector<ZipEntry> entries_;
  std::vector<uint32_t> by_name_;
};

}  // namespace ckpt::interop
