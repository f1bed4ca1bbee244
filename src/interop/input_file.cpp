#include "interop/input_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/parallel.h"

namespace ckpt::interop {

namespace {

// What is asked for by one request each.
std::vector<ByteRange> in_pieces(const std::vector<ByteRange>& ranges) {
  std::vector<ByteRange> pieces;
  for (const ByteRange& range : ranges)
    for (uint64_t at = range.begin; at < range.end; at += kRequestBytes)
      pieces.push_back({at, std::min(at + kRequestBytes, range.end)});
  return pieces;
}

}  // namespace

// ---- one file ----

Result<std::shared_ptr<RemoteFile>> RemoteFile::make(std::unique_ptr<store::Reader> reader, std::string path,
                                                     uint64_t keep, std::shared_ptr<std::atomic<uint64_t>> held) {
  const uint64_t size = reader->size();
  MutableBytes bytes;
  if (size != 0) {
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return from_errno(errno, "reserve addresses for", path);
    ::madvise(data, size, MADV_NOHUGEPAGE);  // a few bytes here and there must not take 2 MiB each
    bytes = {static_cast<std::byte*>(data), size};
  }
  if (!held) held = std::make_shared<std::atomic<uint64_t>>(0);
  return std::shared_ptr<RemoteFile>(new RemoteFile(std::move(reader), std::move(path), bytes, keep, std::move(held)));
}

RemoteFile::~RemoteFile() {
  for (const auto& [begin, end] : here_) *held_ -= end - begin;
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

// Sorted, without what is here; neighbours are joined unless something between them is here.
std::vector<ByteRange> RemoteFile::missing(std::vector<ByteRange> ranges) const {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::vector<ByteRange> out;
  uint64_t at = 0;
  std::lock_guard lock(mutex_);
  for (const ByteRange& range : ranges) {
    at = std::max(at, range.begin);
    const uint64_t end = std::min<uint64_t>(range.end, bytes_.size());
    while (at < end) {
      const auto after = here_.upper_bound(at);
      if (after != here_.begin() && std::prev(after)->second > at) {
        at = std::prev(after)->second;
        continue;
      }
      const uint64_t stop = after == here_.end() ? end : std::min(end, after->first);
      const bool joins =
          !out.empty() && at - out.back().end <= kRequestGap && here_.lower_bound(out.back().end) == after;
      if (joins)
        out.back().end = stop;
      else
        out.push_back({at, stop});
      at = stop;
    }
  }
  return out;
}

void RemoteFile::add(const ByteRange& range) {
  std::lock_guard lock(mutex_);
  uint64_t begin = range.begin, end = range.end;
  auto at = here_.upper_bound(begin);
  if (at != here_.begin() && std::prev(at)->second >= begin) --at;
  while (at != here_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    *held_ -= at->second - at->first;
    at = here_.erase(at);
  }
  here_[begin] = end;
  *held_ += end - begin;
}

Status RemoteFile::fetch_at_once(const ByteRange& range) {
  CKPT_TRY(reader_->read_at(range.begin, bytes_.subspan(range.begin, range.end - range.begin)));
  add(range);
  return Ok();
}

Status RemoteFile::fetch(std::vector<ByteRange> ranges) {
  const std::vector<ByteRange> pieces = in_pieces(missing(std::move(ranges)));
  return for_each_parallel(
      std::min<unsigned>(kRequestsAtOnce, static_cast<unsigned>(std::max<size_t>(pieces.size(), 1))), pieces.size(),
      [&](size_t i) { return fetch_at_once(pieces[i]); });
}

void RemoteFile::release(const ByteRange& range) {
  if (*held_ > keep_) give_back(range);
}

void RemoteFile::give_back(const ByteRange& range) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = round_up(range.begin, page), end = range.end / page * page;
  std::lock_guard lock(mutex_);
  auto at = here_.upper_bound(begin);
  if (begin >= end || at == here_.begin()) return;
  --at;
  const uint64_t first = at->first, last = at->second;
  if (last < end) return;  // it was not fetched in one piece
  here_.erase(at);
  if (first < begin) here_[first] = begin;
  if (end < last) here_[end] = last;
  *held_ -= end - begin;
  ::madvise(bytes_.data() + begin, end - begin, MADV_DONTNEED);
}

void RemoteFile::give_back_all() {
  std::lock_guard lock(mutex_);
  for (const auto& [begin, end] : here_) *held_ -= end - begin;
  here_.clear();
  if (!bytes_.empty()) ::madvise(bytes_.data(), bytes_.size(), MADV_DONTNEED);
}

// ---- what is read ----

Status FileBytes::need(uint64_t begin, uint64_t size) const {
  if (!remote_) return Ok();
  const uint64_t first = std::min<uint64_t>(begin, all_.size());
  return need({{first, first + std::min<uint64_t>(size, all_.size() - first)}});
}

Status FileBytes::need(std::vector<ByteRange> ranges) const {
  if (!remote_) return Ok();
  for (ByteRange& range : ranges) range = {begin_ + range.begin, begin_ + range.end};
  return remote_->fetch(std::move(ranges));
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
