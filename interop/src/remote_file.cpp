#include "interop/src/remote_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/parallel.h"

namespace ckpt::interop {

namespace {

// Less than this is worth no mapping of its own. A process has some 65,000 of them, a file this many, each with a gap
// beside it.
constexpr uint64_t kLeastSpill = 64 << 10;
constexpr size_t kMostMappings = 8192;

// What is asked for by one request each: at most so many bytes, and up to a multiple of `unit` or the end of a range.
std::vector<ByteRange> in_pieces(const std::vector<ByteRange>& ranges, uint64_t most, uint64_t unit) {
  std::vector<ByteRange> pieces;
  for (const ByteRange& range : ranges)
    for (uint64_t at = range.begin, end; at < range.end; at = end) {
      end = std::min(range.end, (at + most) / unit * unit);
      pieces.push_back({at, end});
    }
  return pieces;
}

uint64_t page_size() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// The pages that are of a range alone.
ByteRange whole_pages(const ByteRange& range) {
  const uint64_t begin = round_up(range.begin, page_size());
  return {begin, std::max(begin, range.end / page_size() * page_size())};
}

// Addresses without memory; at `place` if it is set.
void* reserve(uint64_t size, void* place = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place ? MAP_FIXED : 0);
  void* data = ::mmap(place, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  // A few bytes here and there must not take 2 MiB each.
  if (data != MAP_FAILED) ::madvise(data, size, MADV_NOHUGEPAGE);
  return data;
}

}  // namespace

// ---- ranges ----

void RangeSet::add(ByteRange range) {
  if (range.begin >= range.end) return;
  auto at = ends_.upper_bound(range.begin);
  if (at != ends_.begin() && std::prev(at)->second >= range.begin) --at;
  while (at != ends_.end() && at->first <= range.end) {
    range = {std::min(range.begin, at->first), std::max(range.end, at->second)};
    bytes_ -= at->second - at->first;
    at = ends_.erase(at);
  }
  ends_[range.begin] = range.end;
  bytes_ += range.size();
}

void RangeSet::remove(const ByteRange& range) {
  if (range.begin >= range.end) return;
  add(range);
  auto at = std::prev(ends_.upper_bound(range.begin));
  const ByteRange whole{at->first, at->second};
  ends_.erase(at);
  if (whole.begin < range.begin) ends_[whole.begin] = range.begin;
  if (range.end < whole.end) ends_[range.end] = whole.end;
  bytes_ -= range.size();
}

std::vector<ByteRange> RangeSet::gaps(const ByteRange& range) const {
  std::vector<ByteRange> gaps;
  auto after = ends_.upper_bound(range.begin);
  uint64_t at = after == ends_.begin() ? range.begin : std::max(range.begin, std::prev(after)->second);
  for (; at < range.end; ++after) {
    const uint64_t stop = after == ends_.end() ? range.end : std::min(range.end, after->first);
    if (at < stop) gaps.push_back({at, stop});
    if (after == ends_.end()) break;
    at = after->second;
  }
  return gaps;
}

std::vector<ByteRange> RangeSet::ranges() const {
  std::vector<ByteRange> ranges;
  for (const auto& [begin, end] : ends_) ranges.push_back({begin, end});
  return ranges;
}

// ---- one file ----

std::atomic<uint64_t> RemoteFile::spilling_files_ = 0;

Result<std::shared_ptr<RemoteFile>> RemoteFile::make(std::unique_ptr<store::Reader> reader, std::string path,
                                                     uint64_t keep, std::shared_ptr<std::atomic<uint64_t>> held) {
  const uint64_t size = reader->size();
  MutableBytes bytes;
  if (size != 0) {
    void* data = reserve(size);
    if (data == MAP_FAILED) return from_errno(errno, "reserve addresses for", path);
    bytes = {static_cast<std::byte*>(data), size};
  }
  if (!held) held = std::make_shared<std::atomic<uint64_t>>(0);
  return std::shared_ptr<RemoteFile>(new RemoteFile(std::move(reader), std::move(path), bytes, keep, std::move(held)));
}

RemoteFile::~RemoteFile() {
  *held_ -= counted_;
  if (stays_.count() != 0) spilling_files_--;
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

// Under the lock, after here_ or spilled_ changed.
void RemoteFile::count() {
  const uint64_t now = here_.bytes() - spilled_.bytes();
  *held_ += now - counted_;  // wraps where it is less, and is right
  counted_ = now;
}

// Sorted, without what is here; neighbours are joined unless something between them is here.
std::vector<ByteRange> RemoteFile::missing(std::vector<ByteRange> ranges) const {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::vector<ByteRange> out;
  uint64_t at = 0;
  std::lock_guard lock(mutex_);
  for (const ByteRange& range : ranges) {
    const ByteRange rest{std::max(at, range.begin), std::min<uint64_t>(range.end, bytes_.size())};
    if (rest.begin >= rest.end) continue;
    at = rest.end;
    for (const ByteRange& gap : here_.gaps(rest)) {
      const ByteRange between{out.empty() ? 0 : out.back().end, gap.begin};
      bool joins = !out.empty() && between.size() <= kRequestGap;
      if (joins && between.size() != 0) {
        const std::vector<ByteRange> empty = here_.gaps(between);
        joins = empty.size() == 1 && empty[0].size() == between.size();
      }
      if (joins)
        out.back().end = gap.end;
      else
        out.push_back(gap);
    }
  }
  return out;
}

Status RemoteFile::fetch_at_once(const ByteRange& range) {
  CKPT_TRY(reader_->read_at(range.begin, memory(range)));
  std::lock_guard lock(mutex_);
  here_.add(range);
  count();
  return Ok();
}

Status RemoteFile::fetch(std::vector<ByteRange> ranges) {
  const std::vector<ByteRange> pieces = in_pieces(missing(std::move(ranges)), kRequestBytes, 1);
  return for_each_parallel(kRequestsAtOnce, pieces.size(), [&](size_t i) { return fetch_at_once(pieces[i]); });
}

void RemoteFile::release(const ByteRange& range) {
  if (*held_ > keep_) give_back(range);
}

void RemoteFile::give_back(const ByteRange& range) {
  std::lock_guard lock(mutex_);
  for (const ByteRange& rest : stays_.gaps(range)) give_back_pages(rest);
}

void RemoteFile::give_back_pages(const ByteRange& range) {
  const ByteRange pages = whole_pages(range);
  if (pages.size() == 0 || !here_.has(pages)) return;  // another thread may be fetching it
  here_.remove(pages);
  ::madvise(bytes_.data() + pages.begin, pages.size(), MADV_DONTNEED);
  count();
}

Status RemoteFile::read(uint64_t offset, MutableBytes out) const {
  const ByteRange range{offset, offset + out.size()};
  {
    std::lock_guard lock(mutex_);
    if (here_.has(range)) {
      std::copy_n(bytes_.data() + offset, out.size(), out.data());
      return Ok();
    }
  }
  return reader_->read_at(offset, out);
}

// ---- by way of a temporary file ----

std::vector<ByteRange> RemoteFile::to_spill(const std::vector<ByteRange>& ranges) const {
  RangeSet all;
  for (const ByteRange& range : ranges) all.add(range);
  std::vector<ByteRange> out;
  std::lock_guard lock(mutex_);
  for (const ByteRange& range : all.ranges()) {
    const std::vector<ByteRange> gaps = stays_.gaps(range);
    out.insert(out.end(), gaps.begin(), gaps.end());
  }
  return out;
}

Status RemoteFile::spill(const std::vector<ByteRange>& ranges) {
  const std::lock_guard one(spilling_);
  // Each is whole pages but for the ends of its range.
  const std::vector<ByteRange> pieces = in_pieces(to_spill(ranges), kSpillBytes / kRequestsAtOnce, page_size());
  if (pieces.empty()) return Ok();
  // One for each call: after a failed write nobody knows where the next one would be.
  CKPT_ASSIGN(OutputFile disk, OutputFile::temporary());
  for (size_t i = 0; i < pieces.size();) {
    const size_t first = i;
    for (uint64_t size = 0; i < pieces.size() && (size += pieces[i].size()) <= kSpillBytes;) i++;
    CKPT_TRY(spill_at_once(std::span(pieces).subspan(first, i - first), disk));
  }
  return Ok();
}

Status RemoteFile::spill_at_once(std::span<const ByteRange> pieces, OutputFile& disk) {
  std::vector<uint64_t> places;
  uint64_t size = 0;
  for (const ByteRange& piece : pieces) {
    places.push_back(size);
    size += piece.size();
  }
  std::vector<std::byte> buffer(size);
  auto part = [&](size_t i) { return MutableBytes(buffer).subspan(places[i], pieces[i].size()); };
  CKPT_TRY(for_each_parallel(kRequestsAtOnce, pieces.size(), [&](size_t i) { return read(pieces[i].begin, part(i)); }));
  for (size_t i = 0; i < pieces.size(); i++) CKPT_TRY(put(pieces[i], part(i), disk));
  return Ok();
}

// What is here already has the same bytes, so whoever reads it meanwhile sees no change.
Status RemoteFile::put(const ByteRange& piece, Bytes bytes, OutputFile& disk) {
  const ByteRange pages = whole_pages(piece);
  const uint64_t before = disk.size();
  const bool large = pages.size() >= kLeastSpill;
  if (large) CKPT_TRY(disk.write(bytes.subspan(pages.begin - piece.begin, pages.size())));
  std::lock_guard lock(mutex_);
  // Where the process can have no more mappings, it stays in memory.
  if (large && spilled_.count() < kMostMappings && disk.map_over(memory(pages), before).ok()) spilled_.add(pages);
  for (const ByteRange& gap : spilled_.gaps(piece))
    for (const ByteRange& missing : here_.gaps(gap))
      std::copy_n(bytes.data() + (missing.begin - piece.begin), missing.size(), memory(missing).data());
  here_.add(piece);
  if (stays_.count() == 0) spilling_files_++;
  stays_.add(piece);
  count();
  return Ok();
}

Status RemoteFile::end_spill() {
  const std::lock_guard one(spilling_);
  std::lock_guard lock(mutex_);
  if (stays_.count() == 0) return Ok();
  RangeSet in_memory = stays_;
  for (const ByteRange& range : spilled_.ranges()) {
    const MutableBytes place = memory(range);
    if (reserve(place.size(), place.data()) == MAP_FAILED) return from_errno(errno, "reserve addresses for", path_);
    spilled_.remove(range);
    here_.remove(range);
    in_memory.remove(range);
    count();
  }
  spilling_files_--;
  stays_ = {};
  for (const ByteRange& range : in_memory.ranges()) give_back_pages(range);
  return Ok();
}

}  // namespace ckpt::interop
