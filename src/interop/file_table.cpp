#include "interop/file_table.h"

#include <utility>

namespace ckpt::interop {

static uintptr_t address_of(Bytes bytes) { return reinterpret_cast<uintptr_t>(bytes.data()); }

size_t FileTable::put(Entry entry) {
  if (!entry.bytes.empty()) by_address_[address_of(entry.bytes)] = entries_.size();
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

size_t FileTable::add(std::string path) { return put({std::move(path), std::nullopt, {}}); }

size_t FileTable::add(std::string path, MappedFile file) {
  const Bytes bytes = file.bytes();
  return put({std::move(path), std::move(file), bytes});
}

FileRange FileTable::range_of(Bytes bytes) {
  if (bytes.empty()) return {};
  const uintptr_t begin = address_of(bytes);
  auto found = by_address_.upper_bound(begin);
  if (found != by_address_.begin()) {
    --found;
    const uint64_t offset = begin - found->first, size = entries_[found->second].bytes.size();
    if (offset < size && bytes.size() <= size - offset) return {found->second, offset, bytes.size()};
  }
  return {put({{}, std::nullopt, bytes}), 0, bytes.size()};
}

Result<Bytes> FileTable::bytes(const FileRange& range) {
  if (range.size == 0) return Bytes();
  Entry& entry = entries_[range.file];
  if (entry.bytes.empty() && !entry.file) {
    CKPT_ASSIGN(MappedFile file, MappedFile::open(entry.path));
    entry.bytes = entry.file.emplace(std::move(file)).bytes();
    if (!entry.bytes.empty()) by_address_[address_of(entry.bytes)] = range.file;
  }
  const uint64_t size = entry.bytes.size();
  if (range.offset <= size && range.size <= size - range.offset) return mapped(range);
  return Status(CKPT_FORMAT, strformat("{}: expected {} bytes at {}, found {} bytes in all", entry.path, range.size,
                                       range.offset, size))
      .with("path", entry.path)
      .with("found", size);
}

}  // namespace ckpt::interop
