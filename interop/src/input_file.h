// A file that is read: mapped, or on a server. Either has addresses for all of its bytes from the start; what is on
// a server must be asked for before it is looked at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/files.h"
#include "interop/src/folder.h"
#include "interop/src/remote_file.h"

namespace ckpt::interop {

// What a parser reads.
class FileBytes {
 public:
  FileBytes(Bytes all) : all_(all) {}
  FileBytes(Bytes all, std::shared_ptr<RemoteFile> remote, std::shared_ptr<const MappedFile> mapped)
      : all_(all), remote_(std::move(remote)), mapped_(std::move(mapped)) {}
  // [begin, begin + size) of these, which must have them.
  FileBytes part(uint64_t begin, uint64_t size) const {
    FileBytes bytes(all_.subspan(begin, size), remote_, mapped_);
    bytes.begin_ = begin_ + begin;
    return bytes;
  }

  // Addresses; what was asked for may be looked at.
  Bytes all() const { return all_; }
  uint64_t size() const { return all_.size(); }
  bool is_remote() const { return remote_ != nullptr; }
  // Asks for those bytes, as far as the file has them: fetches them, or has the disk read them.
  Status need(uint64_t begin, uint64_t size) const;
  Status need(std::vector<ByteRange> ranges) const;
  // They will not be looked at soon, nor does another thread ask for them now.
  void release(uint64_t begin, uint64_t size) const;

 private:
  Bytes all_;
  std::shared_ptr<RemoteFile> remote_;  // one of the two may be set
  std::shared_ptr<const MappedFile> mapped_;
  uint64_t begin_ = 0;  // of `all_` in the file
};

class InputFile {
 public:
  InputFile(MappedFile file) : mapped_(std::make_shared<MappedFile>(std::move(file))) {}
  explicit InputFile(std::shared_ptr<RemoteFile> file) : remote_(std::move(file)) {}
  // In `folder` if that is set, else on this machine.
  static Result<InputFile> open(const std::string& path, const Folder& folder);
  // All of a small file. FORMAT if it has more than `most` bytes.
  static Result<InputFile> open_whole(const std::string& path, uint64_t most, const Folder& folder);

  Bytes addresses() const { return remote_ ? remote_->bytes() : mapped_->bytes(); }
  FileBytes bytes() const { return {addresses(), remote_, mapped_}; }
  const std::shared_ptr<RemoteFile>& remote() const { return remote_; }

 private:
  std::shared_ptr<const MappedFile> mapped_;  // one of the two is set
  std::shared_ptr<RemoteFile> remote_;
};

}  // namespace ckpt::interop
