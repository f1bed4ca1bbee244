// Files of other people's formats: read through a mapping, written so that they appear complete or not at all and
// never replace anything. Each object belongs to one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

// A regular file in memory, read-only. Symbolic links are followed: that is how Hugging Face caches are laid out.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  // `size` bytes of an open file; `path` is for messages.
  static Result<MappedFile> map(int fd, uint64_t size, const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();
  Bytes bytes() const { return bytes_; }

 private:
  explicit MappedFile(Bytes bytes) : bytes_(bytes) {}
  Bytes bytes_;
};

// Written from front to back under `path`, which must not exist. Unlinked when destroyed before sync().
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path);
  // Without a name, in $TMPDIR or /tmp: room for what is unpacked, or is to be packed, which memory may not have.
  static Result<OutputFile> temporary();
  OutputFile(OutputFile&& other) noexcept
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        kept_(std::exchange(other.kept_, true)),
        size_(other.size_),
        begun_(other.begun_) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Takes the room at once, where the file system can: NO_SPACE now rather than later.
  Status reserve(uint64_t size);
  Status write(Bytes data);
  uint64_t size() const { return size_; }
  // Replaces bytes that were written before.
  Status patch(uint64_t offset, Bytes data);
  // All that was written to a temporary one. The mapping outlives the object.
  Result<MappedFile> map() const { return MappedFile::map(fd_, size_, path_); }
  // Lays bytes of a temporary one from `offset` on over memory, both at pages. The mapping outlives the object; what is
  // written to it stays in memory.
  Status map_over(MutableBytes memory, uint64_t offset) const;
  // Durable; the file stays.
  Status sync();

 private:
  OutputFile(std::string path, int fd, bool kept) : path_(std::move(path)), fd_(fd), kept_(kept) {}
  std::string path_;  // of a temporary one: where it is
  int fd_;
  bool kept_;  // has no name that would have to go
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // of them, on their way to the disk
};

// The place beside `target` where it is made, and the one step by which it becomes `target`. What is there and was
// not published is removed with the object; what a killed export left there an hour ago or more, by the next one.
class Output {
 public:
  // A file; or a directory, in which case `target` may also be an empty directory. EXISTS where it is taken.
  static Result<Output> begin_file(const std::string& target);
  static Result<Output> begin_directory(const std::string& target);
  Output(Output&& other) noexcept
      : target_(std::move(other.target_)),
        temporary_(std::exchange(other.temporary_, {})),
        inner_(std::move(other.inner_)),
        directory_(std::exchange(other.directory_, -1)) {}
  Output& operator=(Output&&) = delete;
  ~Output();

  const std::string& temporary() const { return temporary_; }
  // Makes a directory in a directory, unless it is there.
  Status add_directory(const std::string& name);
  // Durably; EXISTS where another was faster.
  Status publish();

 private:
  Output(std::string target, std::string temporary, int directory)
      : target_(std::move(target)), temporary_(std::move(temporary)), directory_(directory) {}
  bool is_directory() const { return directory_ >= 0; }
  std::string target_, temporary_;
  std::vector<std::string> inner_;  // directories in it
  int directory_;  // locked, so that another export sees that this one is at work; -1: a file, which has its own lock
};

}  // namespace ckpt::interop
