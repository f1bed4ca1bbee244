#include "interop/src/file_table.h"

#include <utility>

namespace ckpt::interop {

static uintptr_t address_of(Bytes bytes) { return reinterpret_cast<uintptr_t>(bytes.data()); }

size_t FileTable::put(Entry entry) {
  if (!entry.bytes.empty()) by_address_[address_of(entry.bytes)] = entries_.size();
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

size_t FileTable::add(std::string path) { return put({std::move(path), std::nullopt, {}}); }

size_t FileTable::add(std::string path, InputFile file) {
  const Bytes bytes = file.addresses();
  return put({std::move(path), std::move(file), bytes});
}

size_t FileTable::append(FileTable&& other) {
  const size_t first = entries_.size();
  for (Entry& entry : other.entries_) put(std::move(entry));
  return first;
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
  CKPT_ASSIGN(const Bytes bytes, place(range));
  if (range.size == 0) return bytes;
  CKPT_ASSIGN(const FileBytes file, open(range.file));
  CKPT_TRY(file.need(range.offset, range.size));
  return bytes;
}

std::map<RemoteFile*, std::vector<ByteRange>> FileTable::on_servers(const std::vector<FileRange>& ranges) const {
  std::map<RemoteFile*, std::vector<ByteRange>> wanted;
  for (const FileRange& range : ranges) {
    const Entry* entry = range.size == 0 ? nullptr : &entries_[range.file];
    if (entry && entry->file && entry->file->remote())
      wanted[entry->file->remote().get()].push_back({range.offset, range.offset + range.size});
  }
  return wanted;
}

Status FileTable::fetch(const std::vector<FileRange>& ranges) const {
  for (const auto& [file, wanted] : on_servers(ranges)) CKPT_TRY(file->fetch(wanted));
  return Ok();
}

Status FileTable::spill(const std::vector<FileRange>& ranges) const {
  for (const auto& [file, wanted] : on_servers(ranges)) CKPT_TRY(file->spill(wanted));
  return Ok();
}

Status FileTable::end_spill() const {
  if (!RemoteFile::any_spilled()) return Ok();
  for (const auto& file : remote()) CKPT_TRY(file->end_spill());
  return Ok();
}

void FileTable::release(const FileRange& range) const {
  if (const auto remote = remote_of(range.file)) remote->release({range.offset, range.offset + range.size});
}

std::vector<std::shared_ptr<RemoteFile>> FileTable::remote() const {
  std::vector<std::shared_ptr<RemoteFile>> files;
  for (const Entry& entry : entries_)
    if (entry.file && entry.file->remote()) files.push_back(entry.file->remote());
  return files;
}

Result<FileBytes> FileTable::open(size_t file) {
  Entry& entry = entries_[file];
  if (entry.bytes.empty() && !entry.file) {
    CKPT_ASSIGN(MappedFile mapped, MappedFile::open(entry.path));
    entry.bytes = entry.file.emplace(std::move(mapped)).addresses();
    if (!entry.bytes.empty()) by_address_[address_of(entry.bytes)] = file;
  }
  return entry.file ? entry.file->bytes() : FileBytes(entry.bytes);
}

Result<Bytes> FileTable::place(const FileRange& range) {
  if (range.size == 0) return Bytes();
  CKPT_TRY(open(range.file).status());
  const Entry& entry = entries_[range.file];
  const uint64_t size = entry.bytes.size();
  if (range.offset <= size && range.size <= size - range.offset) return mapped(range);
  return Status(CKPT_FORMAT, strformat("{}: expected {} bytes at {}, found {} bytes in all", entry.path, range.size,
                                       range.offset, size))
      .with("path", entry.path)
      .with("found", size);
}

}  // namespace ckpt::interop
