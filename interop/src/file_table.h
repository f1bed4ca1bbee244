// The files that a foreign checkpoint is made of, opened when a byte of them is first asked for, and memory that holds
// what was decoded. Not thread-safe but for const calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "interop/src/input_file.h"

namespace ckpt::interop {

// Bytes [offset, offset + size) of a file of a table; no bytes may be of no file.
struct FileRange {
  size_t file = SIZE_MAX;
  uint64_t offset = 0, size = 0;
  bool operator==(const FileRange&) const = default;
};

class FileTable {
 public:
  // A file of this machine that nobody has opened yet; one that is open already. Their numbers.
  size_t add(std::string path);
  size_t add(std::string path, InputFile file);

  // Takes over the files of another table; the number of the first of them here.
  size_t append(FileTable&& other);

  // The range that `bytes` are: of the mapped file that holds them, else of memory, which must outlive the table.
  FileRange range_of(Bytes bytes);

  // Opens the file if need be: what a parser reads.
  Result<FileBytes> open(size_t file);
  // Opens the file if need be, and fetches the range of one on a server. FORMAT where it ends before the range
  // does; the errors of opening and reading it.
  Result<Bytes> bytes(const FileRange& range);
  // The same without fetching: its address.
  Result<Bytes> place(const FileRange& range);
  // Fetches many ranges at once, of which place() succeeded; or spills them (remote_file.h).
  Status fetch(const std::vector<FileRange>& ranges) const;
  Status spill(const std::vector<FileRange>& ranges) const;
  Status end_spill() const;
  // It will not be looked at soon (input_file.h).
  void release(const FileRange& range) const;
  // The files that are on a server, or computed.
  std::vector<std::shared_ptr<RemoteFile>> remote() const;
  // One of those; null for a file of this machine.
  std::shared_ptr<RemoteFile> remote_of(size_t file) const {
    return file < entries_.size() && entries_[file].file ? entries_[file].file->remote() : nullptr;
  }
  // Whether its bytes are computed (map/computed.h), not a server's.
  bool is_computed(size_t file) const { return remote_of(file) && entries_[file].path.empty(); }
  // As place(), after that succeeded.
  Bytes mapped(const FileRange& range) const { return entries_[range.file].bytes.subspan(range.offset, range.size); }

  size_t count() const { return entries_.size(); }
  // Empty for memory, and for no file.
  std::string path(size_t file) const { return file < entries_.size() ? entries_[file].path : ""; }

 private:
  struct Entry {
    std::string path;
    std::optional<InputFile> file;
    Bytes bytes;  // none: not open yet, or an empty file
  };
  size_t put(Entry entry);
  std::map<RemoteFile*, std::vector<ByteRange>> on_servers(const std::vector<FileRange>& ranges) const;

  std::vector<Entry> entries_;
  std::map<uintptr_t, size_t> by_address_;  // of those with bytes
};

}  // namespace ckpt::interop
