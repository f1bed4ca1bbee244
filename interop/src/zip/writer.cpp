#include "interop/src/zip/writer.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace ckpt::interop {

namespace {

constexpr uint64_t kMax16 = 0xffff;
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kDate = 1 << 5 | 1;  // 1980-01-01: the same bytes for the same content
constexpr uint64_t kCrcInHeader = 14;

// Little-endian numbers, one after another.
class Record {
 public:
  Record& u16(uint64_t value) { return put(value, 2); }
  Record& u32(uint64_t value) { return put(value, 4); }
  Record& u64(uint64_t value) { return put(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  std::string& bytes() { return bytes_; }

 private:
  Record& put(uint64_t value, int width) {
    for (int i = 0; i < width; i++) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string bytes_;
};

uint64_t version_needed(bool zip64) { return zip64 ? 45 : 20; }

uint32_t crc_of(uint32_t crc, Bytes data) {
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

}  // namespace

// The extra field of a local header: both sizes where they need 64 bits, then a field that fills up to the alignment.
std::string ZipWriter::local_extra(uint64_t start, uint64_t size) const {
  Record extra;
  if (is_long(size)) extra.u16(1).u16(16).u64(size).u64(size);
  const uint64_t data = start + extra.bytes().size() + 4;
  const uint64_t padding = round_up(data, kDataAlign) - data;
  extra.text("FB").u16(padding).text(std::string(padding, 'Z'));
  return std::move(extra.bytes());
}

Status ZipWriter::put(Bytes data) {
  CKPT_TRY(file_.write(data));
  position_ += data.size();
  return Ok();
}

Status ZipWriter::start(const std::string& name, uint64_t size, uint32_t crc) {
  if (open_) return Status(CKPT_INVALID, "zip: entry " + ckpt::in_quotes(entries_.back().name) + " was not ended");
  if (name.empty() || name.size() > kMax16)
    return Status(CKPT_INVALID, strformat("zip: a name of {} bytes; 1 to 65535 are possible", name.size()));
  Record header;
  header.u32(0x04034b50).u16(version_needed(is_long(size))).u16(kUtf8Names).u16(0).u16(0).u16(kDate).u32(crc);
  header.u32(brief(size)).u32(brief(size)).u16(name.size());
  const std::string extra = local_extra(position_ + header.bytes().size() + 2 + name.size(), size);
  header.u16(extra.size()).text(name).text(extra);
  entries_.push_back({name, size, position_, crc});
  return put(as_bytes(header.bytes()));
}

Status ZipWriter::begin(const std::string& name, uint64_t size) {
  CKPT_TRY(start(name, size, 0));
  open_ = true;
  left_ = size;
  crc_ = 0;
  return Ok();
}

Status ZipWriter::write(Bytes data) {
  if (!open_ || data.size() > left_)
    return Status(CKPT_INVALID, strformat("zip: {} bytes where {} are left", data.size(), open_ ? left_ : 0));
  crc_ = crc_of(crc_, data);
  left_ -= data.size();
  return put(data);
}

Status ZipWriter::end() {
  if (!open_ || left_ > 0) return Status(CKPT_INVALID, strformat("zip: an entry lacks {} bytes", open_ ? left_ : 0));
  open_ = false;
  entries_.back().crc = crc_;
  Record crc;
  crc.u32(crc_);
  return file_.patch(begin_ + entries_.back().offset + kCrcInHeader, as_bytes(crc.bytes()));
}

Status ZipWriter::add(const std::string& name, Bytes data) {
  CKPT_TRY(start(name, data.size(), crc_of(0, data)));
  return put(data);
}

std::string ZipWriter::directory_record(const Entry& entry) const {
  Record extra;
  if (is_long(entry.size)) extra.u64(entry.size).u64(entry.size);
  if (is_long(entry.offset)) extra.u64(entry.offset);
  const size_t extra_size = extra.bytes().size();
  const uint64_t version = version_needed(extra_size > 0);
  Record record;
  record.u32(0x02014b50).u16(version).u16(version).u16(kUtf8Names).u16(0).u16(0).u16(kDate).u32(entry.crc);
  record.u32(brief(entry.size)).u32(brief(entry.size)).u16(entry.name.size()).u16(extra_size > 0 ? 4 + extra_size : 0);
  record.u16(0).u16(0).u16(0).u32(0).u32(brief(entry.offset)).text(entry.name);
  if (extra_size > 0) record.u16(1).u16(extra_size).text(extra.bytes());
  return std::move(record.bytes());
}

Status ZipWriter::finish() {
  if (open_) return Status(CKPT_INVALID, "zip: entry " + ckpt::in_quotes(entries_.back().name) + " was not ended");
  const uint64_t directory = position_;
  for (const Entry& entry : entries_) CKPT_TRY(put(as_bytes(directory_record(entry))));
  const uint64_t end = position_, size = end - directory, count = entries_.size();
  Record tail;
  if (count >= kMax16 || is_long(size) || is_long(directory)) {
    tail.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count).u64(size).u64(directory);
    tail.u32(0x07064b50).u32(0).u64(end).u32(1);
  }
  tail.u32(0x06054b50).u16(0).u16(0).u16(std::min(count, kMax16)).u16(std::min(count, kMax16));
  tail.u32(brief(size)).u32(brief(directory)).u16(0);
  return put(as_bytes(tail.bytes()));
}

}  // namespace ckpt::interop
