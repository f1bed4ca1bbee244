#include "interop/src/input_file.h"

#include <algorithm>

namespace ckpt::interop {

Status FileBytes::need(uint64_t begin, uint64_t size) const {
  const uint64_t first = std::min<uint64_t>(begin, all_.size());
  return need({{first, first + std::min<uint64_t>(size, all_.size() - first)}});
}

Status FileBytes::need(std::vector<ByteRange> ranges) const {
  for (ByteRange& range : ranges) {
    range = {begin_ + range.begin, begin_ + range.end};
    if (mapped_) CKPT_TRY(mapped_->prefetch(range.begin, range.size()));
  }
  return remote_ ? remote_->fetch(std::move(ranges)) : Ok();
}

void FileBytes::release(uint64_t begin, uint64_t size) const {
  if (remote_) remote_->release({begin_ + begin, begin_ + begin + size});
}

Result<InputFile> InputFile::open(const std::string& path, const Folder& folder) {
  if (!folder) {
    CKPT_ASSIGN(MappedFile file, MappedFile::open(path));
    return InputFile(std::move(file));
  }
  CKPT_ASSIGN(auto file, folder->open(path));
  return InputFile(std::move(file));
}

Result<InputFile> InputFile::open_whole(const std::string& path, uint64_t most, const Folder& folder) {
  CKPT_ASSIGN(InputFile file, open(path, folder));
  const FileBytes bytes = file.bytes();
  if (bytes.size() <= most) {
    CKPT_TRY(bytes.need(0, bytes.size()));
    return file;
  }
  return Status(CKPT_FORMAT, strformat("{}: expected at most {} bytes, found {}", path, most, bytes.size()))
      .with("path", path)
      .with("found", bytes.size());
}

}  // namespace ckpt::interop
