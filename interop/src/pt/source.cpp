#include "interop/src/pt/source.h"

#include <algorithm>

#include "interop/src/json.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kMaxCode = 16 << 20;
constexpr uint64_t kHead = 512;       // tells the form
constexpr uint64_t kMaxVersion = 10;  // of the archive, that torch 2.15 reads

bool begins(Bytes file, uint64_t at, std::string_view text) {
  return file.size() >= at + text.size() && as_text(file.subspan(at, text.size())) == text;
}

bool looks_like_zip(Bytes file) { return begins(file, 0, "PK\x03\x04") && !begins(file, 8, "{"); }
// A tar of torch before 0.1.10, by its first entry. Other tars hold other things.
bool looks_like_tar(Bytes file) {
  if (!begins(file, 257, "ustar")) return false;
  for (const std::string_view name : {"sys_info", "pickle", "tensors", "storages"})
    if (begins(file, 0, name)) return true;
  return false;
}

// The magic number of the older form as a pickle of any protocol.
bool looks_like_legacy(Bytes file) {
  if (begins(file, 0, "L119547037146038801333356L\n")) return true;
  const std::string_view head = as_text(file.first(std::min<size_t>(file.size(), 32)));
  return head.starts_with('\x80') && head.find("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.") != head.npos;
}

// The content of a small entry, its CRC-32 checked; empty where there is none of that name.
Result<std::string_view> small_entry(const ZipReader& zip, const std::string& name) {
  const ZipEntry* entry = zip.find(name);
  if (!entry) return std::string_view();
  CKPT_TRY(zip.need(*entry));
  CKPT_TRY(zip.verify(*entry));
  CKPT_ASSIGN(const Bytes content, zip.bytes(*entry));
  return as_text(content);
}

Status check_byte_order(const ZipReader& zip, const std::string& prefix) {
  CKPT_ASSIGN(const std::string_view order, small_entry(zip, prefix + "byteorder"));
  if (order.empty() || order == "little") return Ok();
  return Status(CKPT_UNSUPPORTED, "byte order: expected little, found " + shown(order))
      .with("expected", "little")
      .with("found", shown(order));
}

Status check_version(const ZipReader& zip, const std::string& prefix) {
  CKPT_ASSIGN(std::string_view text, small_entry(zip, prefix + "version"));
  while (text.ends_with('\n')) text.remove_suffix(1);
  uint64_t version = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || version > kMaxVersion << 32)
      return Status(CKPT_FORMAT, "version: expected a number, found " + shown(text));
    version = version * 10 + static_cast<uint64_t>(c - '0');
  }
  if (version <= kMaxVersion) return Ok();
  return Status(CKPT_UNSUPPORTED, strformat("version: expected up to {}, found {}", kMaxVersion, version))
      .with("found", version);
}

// The name of the first function in TorchScript source; empty where it has types only, as what C++ torch::save writes.
std::string first_function(std::string_view code) {
  for (size_t at = 0; at < code.size();) {
    const size_t end = std::min(code.find('\n', at), code.size());
    std::string_view line = code.substr(at, end - at);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.starts_with("def ")) return std::string(line.substr(4, std::min<size_t>(line.find('('), 80) - 4));
    at = end + 1;
  }
  return {};
}

// A module with code is more than its values: "forward", where there is any.
Result<std::string> find_code(const ZipReader& zip, const std::string& prefix) {
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.starts_with(prefix + "code/") || !entry.name.ends_with(".py")) continue;
    CKPT_ASSIGN(const std::string code, zip.text(entry, kMaxCode));
    std::string function = first_function(code);
    if (!function.empty()) return function;
  }
  return std::string();
}

}  // namespace

bool PtSource::looks_like(Bytes file) {
  return looks_like_zip(file) || looks_like_legacy(file) || looks_like_tar(file);
}

bool PtSource::looks_like_pickle(Bytes file) {
  const std::string_view head = as_text(file.first(std::min<size_t>(file.size(), 2)));
  return !looks_like(file) && head.size() == 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

Status PtSource::read_plain() {
  plain_ = true;
  unchecked_ = 1;
  CKPT_TRY(file_.need(0, file_.size()));
  CKPT_ASSIGN(pickle_, parse_pickle_in_part(bytes_, "pickle"));
  if (pickle_bytes() == bytes_.size()) return Ok();
  // Another pickle, or torch's storages behind a damaged magic number: a load would not give them.
  return Status(CKPT_FORMAT, strformat("the pickle ends at byte {}, and {} bytes follow", pickle_bytes(),
                                       bytes_.size() - pickle_bytes()))
      .with("offset", uint64_t{pickle_bytes()});
}

Result<PtSource> PtSource::parse(std::string path, const FileBytes& file, const ReadOptions& options) {
  PtSource source(std::move(path), file);
  CKPT_TRY(source.read(options));
  return source;
}

Status PtSource::read(const ReadOptions& options) {
  CKPT_TRY(file_.need(0, kHead));
  Status status;
  if (looks_like_zip(bytes_))
    status = read_zip(options);
  else if (looks_like_legacy(bytes_))
    status = read_legacy();
  else if (looks_like_tar(bytes_))
    status = Status(CKPT_UNSUPPORTED, "the tar form of torch before 0.1.10; load it with torch and save it again");
  else if (looks_like_pickle(bytes_))
    status = read_plain();
  else
    status = Status(CKPT_FORMAT, "neither a zip archive nor the older form that torch.save writes");
  return status.ok() ? Ok() : std::move(status).in(path_).with("path", path_);
}

const Bytes* PtSource::storage(std::string_view key) const {
  const auto found = storages_.find(key);
  return found == storages_.end() ? nullptr : &found->second;
}

Status PtSource::damage_of(std::string_view key) const {
  const auto found = damaged_.find(key);
  return found == damaged_.end() ? Ok() : found->second;
}

// Which storages are damaged: a tensor that nobody wants may be.
Status PtSource::find_damage(const ZipReader& zip, const std::string& data, const ReadOptions& options) {
  for (const ZipEntry& entry : zip.entries()) {
    Status status = zip.verify(entry, [&] { return options.check(); });
    if (status.code() == CKPT_CORRUPT && entry.name.starts_with(data))
      damaged_.emplace(entry.name.substr(data.size()), std::move(status));
    else
      CKPT_TRY(status);
  }
  return Ok();
}

// All entries lie in one folder, named by the first one.
Status PtSource::read_zip(const ReadOptions& options) {
  CKPT_ASSIGN(const ZipReader zip, ZipReader::open(file_));
  const std::string_view first = zip.entries().empty() ? "" : zip.entries()[0].name;
  const std::string prefix(first.substr(0, first.find('/') + 1));
  const ZipEntry* pickle = prefix.empty() ? nullptr : zip.find(prefix + "data.pkl");
  if (!pickle)
    return Status(CKPT_FORMAT, "no " + shown(prefix + "data.pkl") +
                                   " in the archive: a zip file, but none of torch.save's" +
                                   (first.empty() ? "" : " (its first entry is " + shown(first) + ")"));
  archive_ = prefix.substr(0, prefix.size() - 1);
  CKPT_TRY(check_byte_order(zip, prefix));
  CKPT_TRY(check_version(zip, prefix));
  CKPT_ASSIGN(code_, find_code(zip, prefix));
  CKPT_TRY(zip.need(*pickle));
  CKPT_TRY(zip.verify(*pickle));
  const std::string data = prefix + "data/";
  if (options.verify) {
    const Status status = zip.verify(options.threads, [&] { return options.check(); });
    CKPT_TRY(status.code() == CKPT_CORRUPT ? find_damage(zip, data, options) : status);
  }
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.crc == 0 && entry.size != 0) unchecked_++;
    if (!entry.name.starts_with(data) || entry.name.size() == data.size()) continue;
    CKPT_ASSIGN(const Bytes content, zip.bytes(entry));
    storages_.emplace(entry.name.substr(data.size()), content);
  }
  CKPT_TRY(zip.need(*pickle));
  CKPT_ASSIGN(const Bytes content, zip.bytes(*pickle));
  CKPT_ASSIGN(pickle_, parse_pickle_in_part(content, "data.pkl"));
  return Ok();
}

}  // namespace ckpt::interop
