// A file on a server, or one that is computed: reserved memory of its size, into which ranges of it come.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/files.h"
#include "store/store.h"

namespace ckpt::interop {

// How ranges of a file on a server are asked for.
inline constexpr uint64_t kRequestBytes = 8 << 20;  // by one request, at most
inline constexpr unsigned kRequestsAtOnce = 8;
inline constexpr uint64_t kRequestGap = 4096;  // so much between two ranges is fetched with them

// So much of what is spilled is in memory at a time.
inline constexpr uint64_t kSpillBytes = 4 * kRequestBytes;

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
  uint64_t size() const { return end - begin; }
};

// Bytes of a file, as few ranges.
class RangeSet {
 public:
  void add(ByteRange range);
  void remove(const ByteRange& range);
  // What the set lacks of a range.
  std::vector<ByteRange> gaps(const ByteRange& range) const;
  bool has(const ByteRange& range) const { return gaps(range).empty(); }
  std::vector<ByteRange> ranges() const;
  size_t count() const { return ends_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<uint64_t, uint64_t> ends_;  // by their beginnings; none touch
  uint64_t bytes_ = 0;
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
  // Copies bytes, which are asked for unless they are here.
  Status read(uint64_t offset, MutableBytes out) const;
  // Gives the memory of whole pages back; the range must be fetched again. release() does so if there is more than is
  // kept.
  void give_back(const ByteRange& range);
  void release(const ByteRange& range);

  // Brings ranges that are read in another order than theirs, or again and again: by way of a temporary file, which
  // takes the place of their memory. So they are here, also when they are given back, and the system can have the
  // memory; but for that of a small range, or of the last of very many. NO_SPACE, and the errors of fetch().
  Status spill(const std::vector<ByteRange>& ranges);
  // Gives memory and room of what was spilled back; it must be fetched again. Nobody may look at it meanwhile.
  Status end_spill();
  // Whether any file of this process has spilled something: most have not, and there may be thousands.
  static bool any_spilled() { return spilling_files_ != 0; }

 private:
  RemoteFile(std::unique_ptr<store::Reader> reader, std::string path, MutableBytes bytes, uint64_t keep,
             std::shared_ptr<std::atomic<uint64_t>> held)
      : reader_(std::move(reader)), path_(std::move(path)), bytes_(bytes), keep_(keep), held_(std::move(held)) {}
  std::vector<ByteRange> missing(std::vector<ByteRange> ranges) const;
  std::vector<ByteRange> to_spill(const std::vector<ByteRange>& ranges) const;
  Status spill_at_once(std::span<const ByteRange> pieces, OutputFile& disk);
  Status put(const ByteRange& piece, Bytes bytes, OutputFile& disk);
  void give_back_pages(const ByteRange& range);
  MutableBytes memory(const ByteRange& range) const { return bytes_.subspan(range.begin, range.size()); }
  Status fetch_at_once(const ByteRange& range);
  void count();

  const std::unique_ptr<store::Reader> reader_;
  const std::string path_;
  const MutableBytes bytes_;
  const uint64_t keep_;
  const std::shared_ptr<std::atomic<uint64_t>> held_;  // bytes in memory
  std::mutex spilling_;                                // one thread spills
  mutable std::mutex mutex_;
  static std::atomic<uint64_t> spilling_files_;  // those with stays_
  RangeSet here_;
  RangeSet spilled_;      // of these, the pages that temporary files have
  RangeSet stays_;        // and what is not given back: these, and the rest of what was to be spilled
  uint64_t counted_ = 0;  // in held_
};

}  // namespace ckpt::interop
