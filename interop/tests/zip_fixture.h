// Makes zip archives for tests, without the code under test, and lets them lie.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace ckpt::interop {

template <typename T>
std::string little(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <typename T>
void put_at(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

struct ZipItem {
  std::string name, data;
  bool descriptor = true;  // sizes behind the data, as torch writes; else in the local header
  uint16_t method = 0, flags = 0;
  uint64_t size = UINT64_MAX;  // of the content, where it is compressed
  std::string extra = {};      // of the local header
  bool zip64 = false;          // sizes and offset in the extra field of the directory
  uint32_t crc = 0;            // of the content, where it is compressed; 0: it was not recorded
};

struct Zip {
  std::string bytes;
  std::vector<size_t> local, data, entry;  // where each item's parts begin
  size_t directory = 0, end64 = 0, locator = 0, end = 0;
};

inline uint32_t crc_of(const std::string& data) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
}

inline std::string deflated(const std::string& data) {
  std::string out(data.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  out.resize(stream.total_out);
  return out;
}

inline void add_local(Zip& zip, const ZipItem& item, uint32_t crc, uint64_t size) {
  zip.local.push_back(zip.bytes.size());
  const auto flags = static_cast<uint16_t>(item.flags | (item.descriptor ? 8 : 0));
  const bool later = item.descriptor;
  zip.bytes +=
      "PK\x03\x04" + little<uint16_t>(0) + little(flags) + little(item.method) + little<uint32_t>(0) +
      little<uint32_t>(later ? 0 : crc) + little<uint32_t>(later ? 0 : static_cast<uint32_t>(item.data.size())) +
      little<uint32_t>(later ? 0 : static_cast<uint32_t>(size)) + little(static_cast<uint16_t>(item.name.size())) +
      little(static_cast<uint16_t>(item.extra.size())) + item.name + item.extra;
  zip.data.push_back(zip.bytes.size());
  zip.bytes += item.data;
  if (later)
    zip.bytes += "PK\x07\x08" + little(crc) + little(static_cast<uint32_t>(item.data.size())) +
                 little(static_cast<uint32_t>(size));
}

inline void add_entry(Zip& zip, const ZipItem& item, uint32_t crc, uint64_t size, uint64_t offset) {
  zip.entry.push_back(zip.bytes.size());
  const auto flags = static_cast<uint16_t>(item.flags | (item.descriptor ? 8 : 0));
  const std::string wide = little(size) + little(uint64_t{item.data.size()}) + little(offset);
  const std::string extra = item.zip64 ? little<uint16_t>(1) + little(static_cast<uint16_t>(wide.size())) + wide : "";
  auto narrow = [&](uint64_t value) { return little(item.zip64 ? UINT32_MAX : static_cast<uint32_t>(value)); };
  zip.bytes += "PK\x01\x02" + little<uint32_t>(0) + little(flags) + little(item.method) + little<uint32_t>(0) +
               little(crc) + narrow(item.data.size()) + narrow(size) + little(static_cast<uint16_t>(item.name.size())) +
               little(static_cast<uint16_t>(extra.size())) + little<uint16_t>(0) + little<uint16_t>(0) +
               little<uint16_t>(0) + little<uint32_t>(0) + narrow(offset) + item.name + extra;
}

// `checksums` false: as torch.serialization.set_crc32_options(False) writes. `end64`: with the zip64 end record.
inline Zip make_zip(const std::vector<ZipItem>& items, bool end64 = true, bool checksums = true) {
  Zip zip;
  std::vector<uint32_t> crcs;
  for (const ZipItem& item : items) {
    crcs.push_back(item.method != 0 ? item.crc : checksums ? crc_of(item.data) : 0);
    add_local(zip, item, crcs.back(), item.size == UINT64_MAX ? item.data.size() : item.size);
  }
  zip.directory = zip.bytes.size();
  for (size_t i = 0; i < items.size(); i++)
    add_entry(zip, items[i], crcs[i], items[i].size == UINT64_MAX ? items[i].data.size() : items[i].size, zip.local[i]);
  const uint64_t size = zip.bytes.size() - zip.directory, count = items.size();
  if (end64) {
    zip.end64 = zip.bytes.size();
    zip.bytes += "PK\x06\x06" + little<uint64_t>(44) + little<uint32_t>(0) + little<uint32_t>(0) + little<uint32_t>(0) +
                 little(count) + little(count) + little(size) + little(uint64_t{zip.directory});
    zip.locator = zip.bytes.size();
    zip.bytes += "PK\x06\x07" + little<uint32_t>(0) + little(uint64_t{zip.end64}) + little<uint32_t>(1);
  }
  zip.end = zip.bytes.size();
  zip.bytes += "PK\x05\x06" + little<uint32_t>(0) + little(static_cast<uint16_t>(count)) +
               little(static_cast<uint16_t>(count)) + little(static_cast<uint32_t>(size)) +
               little(static_cast<uint32_t>(zip.directory)) + little<uint16_t>(0);
  return zip;
}

}  // namespace ckpt::interop
