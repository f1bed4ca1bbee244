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

Result<std::shared_ptr<RemoteFile>> RemoteFile::open(const store::Store& folder, const std::string& name,
                                                     uint64_t keep) {
  CKPT_ASSIGN(auto reader, folder.open(name));
  return make(std::move(reader), folder.path(name), keep);
}

Result<std::shared_ptr<RemoteFile>> RemoteFile::make(std::unique_ptr<store::Reader> reader, std::string path,
                                                     uint64_t keep) {
  const uint64_t size = reader->size();
  MutableBytes bytes;
  if (size != 0) {
    void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return from_errno(errno, "reserve addresses for", path);
    ::madvise(data, size, MADV_NOHUGEPAGE);  // a few bytes here and there must not take 2 MiB each
    bytes = {static_cast<std::byte*>(data), size};
  }
  return std::shared_ptr<RemoteFile>(new RemoteFile(std::move(reader), std::move(path), bytes, keep));
}

RemoteFile::~RemoteFile() {
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
    held_ -= at->second - at->first;
    at = here_.erase(at);
  }
  here_[begin] = end;
  held_ += end - begin;
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
  {
    std::lock_guard lock(mutex_);
    if (held_ <= keep_) return;
  }
  give_back(range);
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
  held_ -= end - begin;
  ::madvise(bytes_.data() + begin, end - begin, MADV_DONTNEED);
}

void RemoteFile::give_back_all() {
  std::lock_guard lock(mutex_);
  here_.clear();
  held_ = 0;
  if (!bytes_.empty()) ::madvise(bytes_.data(), bytes_.size(), MADV_DONTNEED);
}

// ---- its folder ----

Result<std::shared_ptr<WebFolder>> WebFolder::make(const std::string& url, const store::WebOptions& options,
                                                   uint64_t keep) {
  CKPT_ASSIGN(const store::WebFile file, store::split_web_url(url));
  CKPT_ASSIGN(auto store, store::open_web(file.store, options));
  const std::string path = store->path(file.key);
  return std::shared_ptr<WebFolder>(new WebFolder(std::move(store), path, keep));
}

Result<std::shared_ptr<RemoteFile>> WebFolder::open(const std::string& path) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = files_.find(path); found != files_.end()) return found->second;
  }
  CKPT_ASSIGN(auto file, RemoteFile::open(*store_, path.substr(store_->uri().size() + 1), keep_));
  std::lock_guard lock(mutex_);
  return files_.try_emplace(path, std::move(file)).first->second;
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

Result<InputFile> InputFile::open(const std::string& path, const std::shared_ptr<WebFolder>& folder) {
  if (!folder) {
    CKPT_ASSIGN(MappedFile file, MappedFile::open(path));
    return InputFile(std::move(file));
  }
  CKPT_ASSIGN(auto file, folder->open(path));
  return InputFile(std::move(file));
}

}  // namespace ckpt::interop
