// Files of other people's formats: read through a mapping, written so that they appear complete or not at all and
// never replace anything. Each object belongs to one thread.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/types.h"
#include "store/posix_file.h"

namespace ckpt::interop {

// A regular file in memory, read-only. Symbolic links are followed: that is how Hugging Face caches are laid out.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  // `size` bytes of an open file; `path` is for messages.
  static Result<MappedFile> map(int fd, uint64_t size, const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  Bytes bytes() const { return bytes_; }
  // Reads those bytes, so that looking at them does not wait. The call ends in time where the disk does not answer, and
  // a file that was cut short meanwhile is GONE rather than SIGBUS, as far as the kernel tells (Linux 5.14).
  Status prefetch(uint64_t begin, uint64_t size) const;

 private:
  MappedFile(Bytes bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}
  Bytes bytes_;
  std::string path_;
};

// Written from front to back.
class OutputFile {
 public:
  // Without a name, in $TMPDIR or /tmp: room for what is unpacked, or is to be packed, which memory may not have.
  static Result<OutputFile> temporary();
  // A new and empty file; `path` is for messages.
  OutputFile(std::string path, store::Fd file, bool is_scratch = false)
      : path_(std::move(path)), file_(std::move(file)), is_scratch_(is_scratch) {}

  // Takes the room at once, where the file system can: NO_SPACE now rather than later.
  Status reserve(uint64_t size);
  Status write(Bytes data);
  uint64_t size() const { return size_; }
  // Replaces bytes that were written before.
  Status patch(uint64_t offset, Bytes data);
  // All that was written to a temporary one. The mapping outlives the object.
  Result<MappedFile> map() const { return MappedFile::map(file_.get(), size_, path_); }
  // Lays bytes of a temporary one from `offset` on over memory, both at pages. The mapping outlives the object; what is
  // written to it stays in memory.
  Status map_over(MutableBytes memory, uint64_t offset) const;
  // Durable; nothing is written any more.
  Status sync();

 private:
  std::string path_;  // of a temporary one: where it is
  store::Fd file_;
  bool is_scratch_;  // no disk needs it
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // of them, on their way to the disk
};

// What becomes `target` in one step. It is made beside it, where others may write, too. What was not published is
// removed with the object; what a killed export left, by the next one to the same target. No file of another user's
// goes, and none outside of what the export made.
class Output {
 public:
  // A file; or a directory, in which case `target` may also be an empty directory. EXISTS where it is taken.
  static Result<Output> begin_file(const std::string& target);
  static Result<Output> begin_directory(const std::string& target);
  Output(Output&& other) noexcept
      : target_(std::move(other.target_)),
        folder_(std::move(other.folder_)),
        name_(std::move(other.name_)),
        locked_name_(std::exchange(other.locked_name_, {})),
        parent_(std::move(other.parent_)),
        locked_(std::move(other.locked_)),
        directory_(std::move(other.directory_)),
        inner_(std::move(other.inner_)),
        is_published_(other.is_published_) {}
  Output& operator=(Output&&) = delete;
  ~Output();

  // The file itself, once; or a new one in the directory or in a directory of it, which is made: "epoch_0/model".
  Result<OutputFile> file() const;
  Result<OutputFile> file(const std::string& name);
  // Durably; EXISTS where another was faster.
  Status publish();

 private:
  Output() = default;
  static Result<Output> begin(const std::string& target);
  bool is_taken(bool unless_empty_directory) const;
  Status make_locked_file(mode_t mode);
  Status sync_directories();
  void clean();

  std::string target_, folder_, name_;      // "d/f", "d", "f"
  std::string locked_name_;                 // empty: a file without a name
  store::Fd parent_, locked_, directory_;   // `locked_`: the file, or the mark of the directory
  std::map<std::string, store::Fd> inner_;  // directories in it
  bool is_published_ = false;
};

}  // namespace ckpt::interop
