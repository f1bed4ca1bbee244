// A file that is read: mapped, or on a server. Either has addresses for all of its bytes from the start; what is on
// a server must be asked for before it is looked at.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/files.h"
#include "interop/folder.h"
#include "store/store.h"

namespace ckpt::interop {

// How ranges of a file on a server are asked for.
inline constexpr uint64_t kRequestBytes = 8 << 20;  // by one request, at most
inline constexpr unsigned kRequestsAtOnce = 8;
inline constexpr uint64_t kRequestGap = 4096;  // so much between two ranges is fetched with them

// What is read once and not kept is read in windows of so many bytes.
inline constexpr uint64_t kOnceBytes = kRequestBytes;
// `use`(begin, size) of each window of `size` bytes in turn, until one fails.
template <typename Use>
Status in_windows(uint64_t size, const Use& use) {
  for (uint64_t at = 0; at < size; at += kOnceBytes) CKPT_TRY(use(at, std::min(kOnceBytes, size - at)));
  return Ok();
}

// Bytes [begin, end) of a file.
struct ByteRange {
  uint64_t begin = 0, end = 0;
};

// A file on a server, or one that is computed (map/computed.h), in reserved memory, into which ranges of it come.
// Thread-safe.
class RemoteFile {
 public:
  // Keeps about `keep` bytes of what may be wanted again; files with one count `held`, of all of them together.
  static Result<std::shared_ptr<RemoteFile>> make(std::unique_ptr<store::Reader> reader, std::string path,
                                                  uint64_t keep, std::shared_ptr<std::atomic<uint64_t>> held = nullptr);
  ~RemoteFile();
  RemoteFile(const RemoteFile&) = delete;
  RemoteFile& operator=(const RemoteFile&) = delete;

  Bytes bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // Brings what is not here yet of these ranges, several at once.
  Status fetch(std::vector<ByteRange> ranges);
  // The same of one range, by a single request; whoever calls it has divided the work.
  Status fetch_at_once(const ByteRange& range);
  // Reads bytes to somewhere else.
  Status read(uint64_t offset, MutableBytes out) const { return reader_->read_at(offset, out); }
  // Gives the memory of whole pages back; the range must be fetched again. release() does so if there is more than is
  // kept.
  void give_back(const ByteRange& range);
  void release(const ByteRange& range);
  // Gives all of it back. Nobody else may use the file meanwhile.
  void give_back_all();

 private:
  RemoteFile(std::unique_ptr<store::Reader> reader, std::string path, MutableBytes bytes, uint64_t keep,
             std::shared_ptr<std::atomic<uint64_t>> held)
      : reader_(std::move(reader)), path_(std::move(path)), bytes_(bytes), keep_(keep), held_(std::move(held)) {}
  std::vector<ByteRange> missing(std::vector<ByteRange> ranges) const;
  void add(const ByteRange& range);

  const std::unique_ptr<store::Reader> reader_;
  const std::string path_;
  const MutableBytes bytes_;
  const uint64_t keep_;
  const std::shared_ptr<std::atomic<uint64_t>> held_;  // bytes that were fetched
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> here_;  // end of each range that was fetched, by its beginning; none touch
};

// What a parser reads.
class FileBytes {
 public:
  FileBytes(Bytes all) : all_(all) {}
  FileBytes(Bytes all, std::shared_ptr<RemoteFile> remote) : all_(all), remote_(std::move(remote)) {}
  // [begin, begin + size) of these, which must have them.
  FileBytes part(uint64_t begin, uint64_t size) const {
    FileBytes bytes(all_.subspan(begin, size), remote_);
    bytes.begin_ = begin_ + begin;
    return bytes;
  }

  // Addresses; what was asked for may be looked at.
  Bytes all() const { return all_; }
  uint64_t size() const { return all_.size(); }
  bool is_remote() const { return remote_ != nullptr; }
  // Asks for those bytes, as far as the file has them.
  Status need(uint64_t begin, uint64_t size) const;
  Status need(std::vector<ByteRange> ranges) const;
  // They will not be looked at soon, nor does another thread ask for them now.
  void release(uint64_t begin, uint64_t size) const;

 private:
  Bytes all_;
  std::shared_ptr<RemoteFile> remote_;
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
  FileBytes bytes() const { return {addresses(), remote_}; }
  const std::shared_ptr<RemoteFile>& remote() const { return remote_; }

 private:
  std::shared_ptr<const MappedFile> mapped_;  // one of the two is set
  std::shared_ptr<RemoteFile> remote_;
};

}  // namespace ckpt::interop
