#include "interop/src/composer/tar.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace ckpt::interop {

namespace {

constexpr uint64_t kMaxExtra = 1 << 20;  // of what describes an entry
constexpr size_t kMaxEntries = 1 << 16;

std::string_view field(std::string_view header, size_t at, size_t size) {
  const std::string_view text = header.substr(at, size);
  return text.substr(0, text.find('\0'));
}

// Octal digits, or GNU's binary number.
std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  if (static_cast<unsigned char>(text[0]) == 0x80) {
    for (const char c : text.substr(text.size() - 8)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc()) return {};
  return value;
}

bool is_header(std::string_view header) {
  const std::optional<uint64_t> expected = number(header.substr(148, 8));
  uint64_t sum = 8 * ' ';
  for (size_t i = 0; i < kTarBlock; i++)
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
  return expected == sum;
}

std::string plain(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  while (name.ends_with('/')) name.remove_suffix(1);
  return std::string(name);
}

// "30 size=8589934592\n": what a PAX header says instead of the header after it.
struct Extra {
  std::string name;
  std::optional<uint64_t> size;

  bool read_pax(std::string_view text) {
    while (!text.empty() && text[0] != '\0') {
      size_t length = 0;
      const auto [space, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto begin = static_cast<size_t>(space - text.data()) + 1;
      if (error != std::errc() || length <= begin || length > text.size() || text[length - 1] != '\n') return false;
      const std::string_view record = text.substr(begin, length - begin - 1);
      if (record.starts_with("path=")) name = record.substr(5);
      if (record.starts_with("size=")) {
        uint64_t value = 0;
        const char* end = record.data() + record.size();
        const auto [stop, wrong] = std::from_chars(record.data() + 5, end, value);
        if (wrong != std::errc() || stop != end) return false;
        size = value;
      }
      text.remove_prefix(length);
    }
    return true;
  }
};

std::string octal(uint64_t value, size_t digits) {
  std::string text(digits, '0');
  for (size_t i = digits; i-- > 0; value /= 8) text[i] = static_cast<char>('0' + value % 8);
  return text;
}

Status broken(uint64_t at, const char* what) {
  return Status(CKPT_FORMAT, strformat("tar, byte {}: {}", at, what)).with("offset", at);
}

}  // namespace

bool begins_as_tar(Bytes file) {
  return file.size() >= kTarBlock && as_text(file.subspan(257, 5)) == "ustar" &&
         is_header(as_text(file.first(kTarBlock)));
}

Result<std::vector<TarEntry>> read_tar(Bytes file) {
  std::vector<TarEntry> entries;
  Extra extra;
  for (uint64_t at = 0; file.size() - at >= kTarBlock;) {
    const std::string_view header = as_text(file.subspan(at, kTarBlock));
    if (header.find_first_not_of('\0') == header.npos) return entries;  // the end
    if (!is_header(header)) return broken(at, "no header of an entry");
    const char kind = header[156];
    std::optional<uint64_t> size = number(header.substr(124, 12));
    const bool is_extra = kind == 'x' || kind == 'g' || kind == 'L';
    if (extra.size && !is_extra) size = extra.size;
    const uint64_t data = at + kTarBlock;
    if (!size || *size > file.size() - data) return broken(at, "the entry reaches past the end of the file");
    if (entries.size() == kMaxEntries) return broken(at, "too many entries");
    if (is_extra) {
      if (*size > kMaxExtra) return broken(at, "a description of an entry of more than 1 MiB");
      const std::string_view text = as_text(file.subspan(data, *size));
      if (kind == 'L') extra.name = text.substr(0, text.find('\0'));
      if (kind == 'x' && !extra.read_pax(text)) return broken(at, "a description that is none");
    } else {
      const std::string prefix(field(header, 345, 155)), own(field(header, 0, 100));
      const std::string name = !extra.name.empty() ? extra.name : prefix.empty() ? own : prefix + '/' + own;
      if (kind == '0' || kind == '\0')
        entries.push_back({plain(name), data, *size});
      else if (kind != '5')
        return broken(at, "neither a file nor a directory");
      extra = {};
    }
    at = data + std::min(round_up(*size, kTarBlock), file.size() - data);
  }
  return broken(file.size(), "the archive is cut");
}

std::string tar_header(std::string_view name, uint64_t size) {
  std::string header(kTarBlock, '\0');
  const auto put = [&](size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  if (size < uint64_t{1} << 33) {
    put(124, octal(size, 11));
  } else {  // GNU's binary number
    header[124] = '\x80';
    for (size_t i = 0; i < 8; i++) header[135 - i] = static_cast<char>(size >> (8 * i) & 0xff);
  }
  put(136, "00000000000");
  put(148, "        ");
  put(156, {"0", 1});
  put(257, {"ustar\0"
            "00",
            8});
  uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6));
  header[154] = '\0';
  return header;
}

}  // namespace ckpt::interop
