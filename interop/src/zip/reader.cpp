#include "interop/src/zip/reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/parallel.h"
#include "interop/src/json.h"

namespace ckpt::interop {

namespace {

constexpr uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50, kDescriptorMark = 0x08074b50;
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kEntrySize = 46, kLocalSize = 30;
constexpr uint64_t kMaxComment = 65535;
constexpr uint16_t kEncrypted = 1, kHasDescriptor = 8, kStrongEncryption = 0x40, kMaskedHeaders = 0x2000;
constexpr uint16_t kZip64Extra = 1;
constexpr uint32_t k32 = UINT32_MAX;
constexpr uint16_t k16 = UINT16_MAX;
constexpr size_t kInflateBytes = 1 << 18;

template <typename T>
T read(Bytes bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);  // little-endian, as this build is
  return value;
}

uint16_t read16(Bytes bytes, uint64_t at) { return read<uint16_t>(bytes, at); }
uint32_t read32(Bytes bytes, uint64_t at) { return read<uint32_t>(bytes, at); }
uint64_t read64(Bytes bytes, uint64_t at) { return read<uint64_t>(bytes, at); }

Status zip_error(uint64_t offset, const std::string& what) {
  return Status(CKPT_FORMAT, "zip: " + what).with("offset", offset);
}

Status entry_error(std::string_view name, uint64_t offset, const std::string& what) {
  return Status(CKPT_FORMAT, "zip entry " + shown(name) + ": " + what).with("offset", offset);
}

Status entry_differs(std::string_view name, uint64_t offset, const char* what, uint64_t expected, uint64_t found) {
  return entry_error(name, offset, strformat("{}: expected {}, found {}", what, expected, found))
      .with("expected", expected)
      .with("found", found);
}

Status inflates_otherwise(const ZipEntry& entry) {
  return entry_error(entry.name, entry.begin, "does not inflate to the size that it says");
}

Status other_crc(const ZipEntry& entry, uint32_t found) {
  return Status(CKPT_CORRUPT,
                strformat("zip entry {}: CRC-32: expected {:08x}, found {:08x}", shown(entry.name), entry.crc, found))
      .with("offset", entry.begin)
      .with("expected", strformat("{:08x}", entry.crc))
      .with("found", strformat("{:08x}", found));
}

// The numbers that did not fit their 32 bits, in the order in which the zip64 extra field has them.
struct Wide {
  uint64_t *size, *stored, *offset;  // null where not in this header
};

// Fills in what is saturated. False where it is not there.
bool widen(Bytes extra, const Wide& wide) {
  uint64_t* all[] = {wide.size, wide.stored, wide.offset};
  const bool needed = std::any_of(std::begin(all), std::end(all), [](auto* value) { return value && *value == k32; });
  if (!needed) return true;
  for (uint64_t at = 0; extra.size() - at >= 4;) {
    const uint64_t size = read16(extra, at + 2);
    if (size > extra.size() - at - 4) return false;
    Bytes field = extra.subspan(at + 4, size);
    if (read16(extra, at) == kZip64Extra) {
      for (uint64_t* value : all) {
        if (!value || *value != k32) continue;
        if (field.size() < 8) return false;
        *value = read64(field, 0);
        field = field.subspan(8);
      }
      return true;
    }
    at += 4 + size;
  }
  return false;
}

struct Span {
  uint64_t begin, end;
  const ZipEntry* entry;
};

}  // namespace

Result<ZipReader> ZipReader::open(const FileBytes& file) {
  ZipReader reader(file);
  CKPT_ASSIGN(const Directory directory, reader.find_directory());
  if (file.is_remote()) CKPT_TRY(reader.need_headers(directory));
  CKPT_TRY(reader.read_directory(directory));
  return reader;
}

// The end record is the last one whose comment ends with the file. Where there is a locator before it, the zip64 record
// counts; torch writes both always.
Result<ZipReader::Directory> ZipReader::find_directory() const {
  const uint64_t size = file_.size();
  if (size < kEndSize) return zip_error(0, "truncated: no end record");
  const uint64_t tail = std::min(size, kEndSize + kMaxComment + kLocatorSize + kEnd64Size);
  CKPT_TRY(bytes_.need(size - tail, tail));
  uint64_t at = size - kEndSize;
  const uint64_t lowest = at > kMaxComment ? at - kMaxComment : 0;
  while (read32(file_, at) != kEndMark || at + kEndSize + read16(file_, at + 20) != size)
    if (at-- == lowest) return zip_error(size, "truncated: no end record");

  const uint64_t end_at = at;
  uint64_t disk = read16(file_, at + 4), start_disk = read16(file_, at + 6), here = read16(file_, at + 8);
  uint64_t count = read16(file_, at + 10), bytes = read32(file_, at + 12), begin = read32(file_, at + 16);
  if (at >= kLocatorSize && read32(file_, at - kLocatorSize) == kLocatorMark) {
    const uint64_t locator = at - kLocatorSize;
    at = read64(file_, locator + 8);
    if (read32(file_, locator + 4) != 0 || read32(file_, locator + 16) > 1)
      return Status(CKPT_UNSUPPORTED, "zip: an archive of several disks").with("offset", locator);
    if (locator >= kEnd64Size && at <= locator - kEnd64Size) CKPT_TRY(bytes_.need(at, kEnd64Size));
    if (locator < kEnd64Size || at > locator - kEnd64Size || read32(file_, at) != kEnd64Mark)
      return zip_error(locator, "the zip64 end record is not where its locator says");
    uint64_t record_end;
    if (add_overflows(read64(file_, at + 4), at + 12, &record_end) || record_end != locator)
      return zip_error(at, "the zip64 end record does not end at its locator");
    const bool lies = (count != k16 && count != read64(file_, at + 32)) ||
                      (bytes != k32 && bytes != read64(file_, at + 40)) ||
                      (begin != k32 && begin != read64(file_, at + 48));
    if (lies) return zip_error(end_at, "the end record and the zip64 end record disagree");
    disk = read32(file_, at + 16), start_disk = read32(file_, at + 20), here = read64(file_, at + 24);
    count = read64(file_, at + 32), bytes = read64(file_, at + 40), begin = read64(file_, at + 48);
  }
  if (disk != 0 || start_disk != 0 || here != count)
    return Status(CKPT_UNSUPPORTED, "zip: an archive of several disks").with("offset", end_at);
  Directory directory{begin, 0, count};
  if (add_overflows(begin, bytes, &directory.end) || directory.end != at)
    return zip_error(end_at, strformat("the directory at {} of {} bytes does not end where the end record begins",
                                       begin, bytes))
        .with("expected", at);
  if (count > bytes / kEntrySize) return zip_error(end_at, "more entries than its directory has room for");
  return directory;
}

// What is read of a file on a web server, in few requests: the directory, the header of each entry, and what lies
// before it, where the entry before may have a data descriptor. What is elsewhere is asked for when it is read.
Status ZipReader::need_headers(const Directory& directory) const {
  constexpr uint64_t kBefore = 32, kAfter = kLocalSize + 256;
  CKPT_TRY(bytes_.need(directory.begin, directory.end - directory.begin));
  std::vector<ByteRange> ranges;
  for (uint64_t at = directory.begin; directory.end - at >= kEntrySize && read32(file_, at) == kEntryMark;) {
    const uint64_t name_size = read16(file_, at + 28), extra_size = read16(file_, at + 30);
    const uint64_t all = kEntrySize + name_size + extra_size + read16(file_, at + 32);
    if (directory.end - at < all) break;
    uint64_t size = read32(file_, at + 24), stored = read32(file_, at + 20), offset = read32(file_, at + 42);
    const bool known = widen(file_.subspan(at + kEntrySize + name_size, extra_size), {&size, &stored, &offset});
    if (known && offset < directory.begin)
      ranges.push_back({offset - std::min(offset, kBefore), std::min(offset + name_size + kAfter, directory.begin)});
    at += all;
  }
  ranges.push_back({directory.begin - std::min(directory.begin, kBefore), directory.begin});
  return bytes_.need(std::move(ranges));
}

Status ZipReader::read_directory(const Directory& directory) {
  CKPT_TRY(bytes_.need(directory.begin, directory.end - directory.begin));
  entries_.reserve(directory.count);
  std::vector<Span> spans;
  spans.reserve(directory.count);
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.count; i++) {
    if (directory.end - at < kEntrySize || read32(file_, at) != kEntryMark)
      return zip_error(at, "the directory ends in the middle of an entry");
    const uint64_t name_size = read16(file_, at + 28), extra_size = read16(file_, at + 30);
    const uint64_t all = kEntrySize + name_size + extra_size + read16(file_, at + 32);
    if (directory.end - at < all) return zip_error(at, "the directory ends in the middle of an entry");
    ZipEntry entry{.name = as_text(file_.subspan(at + kEntrySize, name_size)),
                   .stored = read32(file_, at + 20),
                   .size = read32(file_, at + 24),
                   .crc = read32(file_, at + 16),
                   .method = read16(file_, at + 10)};
    uint64_t offset = read32(file_, at + 42), end = 0;
    if (!widen(file_.subspan(at + kEntrySize + name_size, extra_size), {&entry.size, &entry.stored, &offset}))
      return entry_error(entry.name, at, "no zip64 extra field for sizes that say there is one");
    if (read16(file_, at + 34) != 0)
      return Status(CKPT_UNSUPPORTED, "zip entry " + shown(entry.name) + " is on another disk").with("offset", at);
    CKPT_TRY(read_local_header(entry, offset, read16(file_, at + 8), directory.begin, &end));
    entries_.push_back(entry);
    spans.push_back({offset, end, &entries_.back()});  // it was reserved: pointers stay
    at += all;
  }
  if (at != directory.end) return zip_error(at, "bytes between the directory and its end record");

  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < spans.size(); i++)
    if (spans[i].begin < spans[i - 1].end)
      return entry_error(spans[i].entry->name, spans[i].begin, "overlaps entry " + shown(spans[i - 1].entry->name));
  by_name_.resize(entries_.size());
  for (uint32_t i = 0; i < by_name_.size(); i++) by_name_[i] = i;
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return entries_[a].name < entries_[b].name; });
  for (size_t i = 1; i < by_name_.size(); i++)
    if (entries_[by_name_[i - 1]].name == entries_[by_name_[i]].name)
      return entry_error(entries_[by_name_[i]].name, directory.begin, "the name comes twice");
  return Ok();
}

// Where the data begins, and that the header there says what the directory said. `limit`: where the directory begins.
Status ZipReader::read_local_header(ZipEntry& entry, uint64_t offset, uint16_t flags, uint64_t limit,
                                    uint64_t* end) const {
  CKPT_TRY(bytes_.need(offset, kLocalSize));
  if (offset > limit || limit - offset < kLocalSize || read32(file_, offset) != kLocalMark)
    return entry_error(entry.name, offset, "no local header where the directory says");
  if (flags & (kEncrypted | kStrongEncryption | kMaskedHeaders))
    return Status(CKPT_UNSUPPORTED, "zip entry " + shown(entry.name) + " is encrypted").with("offset", offset);
  const uint64_t name_size = read16(file_, offset + 26), extra_size = read16(file_, offset + 28);
  const uint64_t header = kLocalSize + name_size + extra_size;
  if (limit - offset < header) return entry_error(entry.name, offset, "its local header reaches into the directory");
  CKPT_TRY(bytes_.need(offset, header));
  const std::string_view name = as_text(file_.subspan(offset + kLocalSize, name_size));
  if (name != entry.name) return entry_error(entry.name, offset, "its local header is called " + shown(name));
  if (read16(file_, offset + 6) != flags || read16(file_, offset + 8) != entry.method)
    return entry_error(entry.name, offset, "its local header has other flags or another method than the directory");

  uint64_t stored = read32(file_, offset + 18), size = read32(file_, offset + 22);
  const uint32_t crc = read32(file_, offset + 14);
  const Wide wide{&size, &stored, nullptr};
  if (!widen(file_.subspan(offset + kLocalSize + name_size, extra_size), wide))
    return entry_error(entry.name, offset, "no zip64 extra field in its local header");
  const bool later = (flags & kHasDescriptor) && crc == 0 && stored == 0 && size == 0;
  if (!later) {
    if (stored != entry.stored) return entry_differs(entry.name, offset, "stored size", entry.stored, stored);
    if (size != entry.size) return entry_differs(entry.name, offset, "size in its local header", entry.size, size);
    if (crc != entry.crc) return entry_differs(entry.name, offset, "CRC-32 in its local header", entry.crc, crc);
  }
  if (entry.method == 0 && entry.stored != entry.size)
    return entry_differs(entry.name, offset, "stored size", entry.size, entry.stored);
  entry.begin = offset + header;
  if (entry.stored > limit - entry.begin)
    return entry_differs(entry.name, offset, "data past the end, bytes there", entry.stored, limit - entry.begin);
  *end = entry.begin + entry.stored;
  return flags & kHasDescriptor ? check_descriptor(entry, limit, end) : Ok();
}

// Behind the data: with or without a mark, with sizes of 4 or 8 bytes.
Status ZipReader::check_descriptor(const ZipEntry& entry, uint64_t limit, uint64_t* end) const {
  constexpr uint64_t kLongest = 24;
  CKPT_TRY(bytes_.need(*end, std::min(kLongest, limit - *end)));
  for (const uint64_t mark : {4, 0})
    for (const uint64_t width : {8, 4}) {
      const uint64_t size = mark + 4 + 2 * width, at = *end + mark;
      if (limit - *end < size || (mark && read32(file_, *end) != kDescriptorMark)) continue;
      const uint64_t stored = width == 8 ? read64(file_, at + 4) : read32(file_, at + 4);
      const uint64_t content = width == 8 ? read64(file_, at + 12) : read32(file_, at + 8);
      if (read32(file_, at) != entry.crc || stored != entry.stored || content != entry.size) continue;
      *end += size;
      return Ok();
    }
  return entry_error(entry.name, *end, "no data descriptor that agrees with the directory");
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  return at != by_name_.end() && entries_[*at].name == name ? &entries_[*at] : nullptr;
}

Status ZipReader::need_all(uint64_t most) const {
  std::vector<ByteRange> ranges;
  for (const ZipEntry& entry : entries_) ranges.push_back({entry.begin, entry.begin + std::min(entry.stored, most)});
  return bytes_.need(std::move(ranges));
}

Result<Bytes> ZipReader::bytes(const ZipEntry& entry) const {
  if (entry.method == 0) return file_.subspan(entry.begin, entry.stored);
  return Status(CKPT_UNSUPPORTED, strformat("zip entry {} is compressed (method {}); torch stores as it is",
                                            shown(entry.name), unsigned{entry.method}))
      .with("found", uint64_t{entry.method});
}

Status ZipReader::content(const ZipEntry& entry, uint64_t limit, const std::function<Status(Bytes)>& take) const {
  if (entry.size > limit) return entry_differs(entry.name, entry.begin, "bytes at most", limit, entry.size);
  CKPT_TRY(need(entry));
  if (entry.method == 8) return inflate_entry(entry, take);
  CKPT_ASSIGN(const Bytes stored, bytes(entry));
  return take(stored);
}

// Nothing is made as large as the entry says before that many bytes came.
Status ZipReader::inflate_entry(const ZipEntry& entry, const std::function<Status(Bytes)>& take) const {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Status(CKPT_NOMEM, "inflate");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::vector<std::byte> buffer(kInflateBytes);
  Bytes in = file_.subspan(entry.begin, entry.stored);
  uint64_t left = entry.size;
  uint32_t crc = 0;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    const Bytes given = in.first(std::min<uint64_t>(in.size(), kInflateBytes));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(given.data()));
    stream.avail_in = static_cast<uInt>(given.size());
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    code = inflate(&stream, Z_NO_FLUSH);
    in = in.subspan(given.size() - stream.avail_in);
    const Bytes made = Bytes(buffer).first(buffer.size() - stream.avail_out);
    if ((code != Z_OK && code != Z_STREAM_END) || made.size() > left) return inflates_otherwise(entry);
    left -= made.size();
    crc = static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(made.data()), made.size()));
    if (!made.empty()) CKPT_TRY(take(made));
  }
  if (left != 0 || !in.empty()) return inflates_otherwise(entry);
  return entry.crc == 0 || crc == entry.crc ? Ok() : other_crc(entry, crc);
}

Result<std::string> ZipReader::text(const ZipEntry& entry, uint64_t limit) const {
  std::string out;
  CKPT_TRY(content(entry, limit, [&](Bytes piece) {
    out += as_text(piece);
    return Ok();
  }));
  return out;
}

Status ZipReader::verify(const ZipEntry& entry, const std::function<Status()>& go_on) const {
  return check(entry, go_on, false);
}

Status ZipReader::check(const ZipEntry& entry, const std::function<Status()>& go_on, bool releases) const {
  constexpr uint64_t kStep = 64 << 20;  // of a file on a web server: eight requests at once
  if (entry.crc == 0 || entry.method != 0) return Ok();
  uint32_t found = 0;
  for (uint64_t at = 0; at < entry.stored; at += kStep) {
    if (go_on) CKPT_TRY(go_on());
    const uint64_t size = std::min(kStep, entry.stored - at);
    CKPT_TRY(bytes_.need(entry.begin + at, size));
    const auto* data = reinterpret_cast<const Bytef*>(file_.data() + entry.begin + at);
    found = static_cast<uint32_t>(crc32_z(found, data, size));
    if (releases) bytes_.release(entry.begin + at, size);
  }
  return found == entry.crc ? Ok() : other_crc(entry, found);
}

Status ZipReader::verify(unsigned threads, const std::function<Status()>& go_on) const {
  return for_each_parallel(threads, entries_.size(), [&](size_t i) { return check(entries_[i], go_on, true); });
}

}  // namespace ckpt::interop
