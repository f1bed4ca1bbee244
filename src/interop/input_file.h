// A file that is read: mapped, or on a web server. Either has addresses for all of its bytes from the start; what is on
// a server must be asked for before it is looked at.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/files.h"
#include "store/store.h"

namespace ckpt::interop {

// How ranges of a file on a web server are asked for.
inline constexpr uint64_t kRequestBytes = 8 << 20;  // by one request, at most
inline constexpr unsigned kRequestsAtOnce = 8;
inline constexpr uint64_t kRequestGap = 4096;  // so much between two ranges is fetched with them

// Bytes [begin, end) of a file.
struct ByteRange {
  uint64_t begin = 0, end = 0;
};

// A file on a web server, or one that is computed (map/computed.h), in reserved memory, into which ranges of it come.
// Thread-safe.
class RemoteFile {
 public:
  // Keeps about `keep` bytes of what may be wanted again. Opens the file.
  static Result<std::shared_ptr<RemoteFile>> open(const store::Store& folder, const std::string& name, uint64_t keep);
  static Result<std::shared_ptr<RemoteFile>> make(std::unique_ptr<store::Reader> reader, std::string path,
                                                  uint64_t keep);
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
  RemoteFile(std::unique_ptr<store::Reader> reader, std::string path, MutableBytes bytes, uint64_t keep)
      : reader_(std::move(reader)), path_(std::move(path)), bytes_(bytes), keep_(keep) {}
  std::vector<ByteRange> missing(std::vector<ByteRange> ranges) const;
  void add(const ByteRange& range);

  const std::unique_ptr<store::Reader> reader_;
  const std::string path_;
  const MutableBytes bytes_;
  const uint64_t keep_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> here_;  // end of each range that was fetched, by its beginning; none touch
  uint64_t held_ = 0;                  // bytes of them
};

// The directory of a file on a web server: what is in it, by paths without what must not be shown. Thread-safe.
class WebFolder {
 public:
  // `url`: of a file. INVALID, UNSUPPORTED. `keep` as in RemoteFile.
  static Result<std::shared_ptr<WebFolder>> make(const std::string& url, const store::WebOptions& options,
                                                 uint64_t keep);
  // Of the file.
  const std::string& path() const { return path_; }
  // Each file is opened once.
  Result<std::shared_ptr<RemoteFile>> open(const std::string& path);

 private:
  WebFolder(std::shared_ptr<store::Store> store, std::string path, uint64_t keep)
      : store_(std::move(store)), path_(std::move(path)), keep_(keep) {}
  const std::shared_ptr<store::Store> store_;
  const std::string path_;
  const uint64_t keep_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<RemoteFile>> files_;
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
  // They will not be looked at soon.
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
  static Result<InputFile> open(const std::string& path, const std::shared_ptr<WebFolder>& folder);

  Bytes addresses() const { return remote_ ? remote_->bytes() : mapped_->bytes(); }
  FileBytes bytes() const { return {addresses(), remote_}; }
  const std::shared_ptr<RemoteFile>& remote() const { return remote_; }

 private:
  std::shared_ptr<const MappedFile> mapped_;  // one of the two is set
  std::shared_ptr<RemoteFile> remote_;
};

}  // namespace ckpt::interop
