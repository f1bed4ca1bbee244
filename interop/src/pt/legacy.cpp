// The form of torch before 1.6, which is no zip: five pickles in a row (magic number, protocol, system, object, keys of
// the storages), then for each key the number of its elements and the elements.
#include <cstring>

#include "interop/src/json.h"
#include "interop/src/pt/dtype.h"
#include "interop/src/pt/source.h"

namespace ckpt::interop {

namespace {

constexpr std::string_view kMagic = "119547037146038801333356";  // 0x1950a86a20f9469cfc6c
constexpr int64_t kProtocol = 1001;
constexpr uint64_t kMostRemote = uint64_t{4} << 30, kFirst = 1 << 20;
constexpr size_t kMaxText = 255;  // of a key or location: every tensor of a storage has them, however short it is

Status differs(const char* what, const std::string& expected, const std::string& found) {
  return Status(CKPT_FORMAT, std::string(what) + ": expected " + expected + ", found " + found)
      .with("expected", expected)
      .with("found", found);
}

Status check_system(const PickleDocument& system) {
  const PickleRef little = system.find(system.root(), "little_endian");
  if (little == kNoValue || system[little].kind != PickleKind::kBool)
    return Status(CKPT_FORMAT, "the third pickle does not say whether it is little_endian");
  if (system[little].integer) return Ok();
  return Status(CKPT_UNSUPPORTED, "byte order: expected little, found big")
      .with("expected", "little")
      .with("found", "big");
}

std::string number_text(const PickleValue& value) {
  if (value.kind == PickleKind::kInt) return std::to_string(value.integer);
  return value.kind == PickleKind::kBigInt ? std::string(value.text.substr(0, 40)) : "no number";
}

// A key as text; Python 2 had bytes there.
bool is_text(const PickleValue& value) { return value.kind == PickleKind::kText || value.kind == PickleKind::kBytes; }

struct Layout {
  uint64_t width = 0;  // bytes of an element
  uint64_t count = 0;  // of elements
  std::vector<StorageId> views;
};

// What the object says of its storages: the width and number of their elements, and parts of them that have keys of
// their own.
Result<std::map<std::string, Layout, std::less<>>> layouts_of(const PickleDocument& pickle) {
  std::map<std::string, Layout, std::less<>> layouts;
  for (PickleRef ref = 0; ref < pickle.size(); ref++) {
    if (pickle[ref].kind != PickleKind::kPersistent) continue;
    const PickleValue& id = pickle[pickle[ref].items[0]];
    if (id.kind == PickleKind::kTuple && !id.items.empty() && pickle[id.items[0]].text == "module") continue;
    CKPT_ASSIGN(const StorageId storage, storage_id_of(pickle, ref));
    const uint16_t dtype = torch_dtype_of_storage(storage.type).dtype;
    if (dtype == 0)
      return Status(CKPT_UNSUPPORTED, "storage " + shown(storage.key) + ": unknown type " + shown(storage.type))
          .with("found", std::string(storage.type));
    Layout& layout = layouts[std::string(storage.key)];
    // As torch does: the first one that is met decides.
    if (layout.width == 0) {
      layout.width = static_cast<uint64_t>(std::max(dtype_bits(dtype), 8)) / 8;
      layout.count = storage.count;
    }
    if (storage.is_view) layout.views.push_back(storage);
  }
  return layouts;
}

// The bytes of a view inside its storage.
Result<Bytes> view_of(Bytes storage, const StorageId& view, uint64_t width) {
  uint64_t begin, size, end;
  if (mul_overflows(view.view_offset, width, &begin) || mul_overflows(view.view_count, width, &size) ||
      add_overflows(begin, size, &end) || end > storage.size())
    return Status(CKPT_FORMAT, strformat("storage {}: its view at element {} of {} reaches past its {} bytes",
                                         shown(view.key), view.view_offset, view.view_count, storage.size()));
  return storage.subspan(begin, size);
}

}  // namespace

// What its pickles say of their own length is at their end, and where storages lie is in them.
Status PtSource::fetch_whole() const {
  if (!file_.is_remote()) return file_.need(0, kFirst);
  if (bytes_.size() <= kMostRemote) return file_.need(0, bytes_.size());
  return Status(
             CKPT_UNSUPPORTED,
             strformat("a file of {} bytes in the form before torch 1.6, of which a web server's are fetched whole up "
                       "to {}; download it first",
                       bytes_.size(), kMostRemote))
      .with("found", uint64_t{bytes_.size()});
}

Status PtSource::read_legacy() {
  legacy_ = true;
  CKPT_TRY(fetch_whole());
  uint64_t at = 0;
  auto next = [&](const char* what) -> Result<PickleDocument> {
    Result<PickleDocument> document = parse_pickle_in_part(bytes_.subspan(at), what);
    if (document.ok()) at += document->bytes_read();
    return document;
  };
  CKPT_ASSIGN(const PickleDocument magic, next("magic number"));
  const std::string found_magic = number_text(magic[magic.root()]);
  if (found_magic != kMagic) return differs("magic number", std::string(kMagic), found_magic);
  CKPT_ASSIGN(const PickleDocument protocol, next("protocol"));
  const std::string found_protocol = number_text(protocol[protocol.root()]);
  if (found_protocol != std::to_string(kProtocol))
    return differs("protocol", std::to_string(kProtocol), found_protocol);
  CKPT_ASSIGN(const PickleDocument system, next("system"));
  CKPT_TRY(check_system(system));
  CKPT_ASSIGN(pickle_, next("object"));
  CKPT_ASSIGN(const PickleDocument keys, next("keys of storages"));
  if (keys[keys.root()].kind != PickleKind::kList) return Status(CKPT_FORMAT, "the keys of the storages are no list");
  return read_legacy_storages(keys.root(), keys, at);
}

Status PtSource::read_legacy_storages(PickleRef list, const PickleDocument& keys, uint64_t at) {
  CKPT_ASSIGN(const auto layouts, layouts_of(pickle_));
  for (const PickleRef ref : keys[list].items) {
    if (!is_text(keys[ref])) return Status(CKPT_FORMAT, "the key of a storage is no text");
    const std::string_view key = keys[ref].text;
    const auto layout = layouts.find(key);
    if (layout == layouts.end()) return Status(CKPT_FORMAT, "storage " + shown(key) + ": the object does not name it");
    int64_t count = 0;
    if (bytes_.size() - at < sizeof count) return Status(CKPT_FORMAT, "truncated before storage " + shown(key));
    std::memcpy(&count, bytes_.data() + at, sizeof count);
    at += sizeof count;
    const uint64_t left = (bytes_.size() - at) / layout->second.width;
    if (count < 0 || static_cast<uint64_t>(count) > left)
      return differs(("storage " + shown(key) + ": elements, at most").c_str(), std::to_string(left),
                     std::to_string(count))
          .with("offset", at);
    if (static_cast<uint64_t>(count) != layout->second.count)
      return differs(("storage " + shown(key) + ": elements").c_str(), std::to_string(layout->second.count),
                     std::to_string(count))
          .with("offset", at);
    const Bytes storage = bytes_.subspan(at, static_cast<uint64_t>(count) * layout->second.width);
    unchecked_++;
    if (!storages_.emplace(key, storage).second)
      return Status(CKPT_FORMAT, "storage " + shown(key) + ": the key comes twice");
    at += storage.size();
    for (const StorageId& view : layout->second.views) {
      CKPT_ASSIGN(const Bytes bytes, view_of(storage, view, layout->second.width));
      const auto [place, is_new] = storages_.emplace(view.view_key, bytes);
      if (!is_new && (place->second.data() != bytes.data() || place->second.size() != bytes.size()))
        return Status(CKPT_FORMAT, "storage " + shown(view.view_key) + ": the key comes twice");
    }
  }
  if (at == bytes_.size()) return Ok();
  return Status(CKPT_FORMAT, strformat("{} bytes after the last storage", bytes_.size() - at)).with("offset", at);
}

// ---- what a pickle says of a storage, in either form ----

Result<StorageId> storage_id_of(const PickleDocument& pickle, PickleRef ref) {
  const auto bad = [](const char* what) {
    return Status(CKPT_FORMAT, std::string("a persistent id that is no storage: ") + what);
  };
  if (pickle[ref].kind != PickleKind::kPersistent) return bad("expected one");
  const PickleValue& id = pickle[pickle[ref].items[0]];
  if (id.kind != PickleKind::kTuple || id.items.size() < 5 || id.items.size() > 6) return bad("no tuple of 5 or 6");
  auto item = [&](size_t i) -> const PickleValue& { return pickle[id.items[i]]; };
  if (!is_text(item(0)) || item(0).text != "storage") return bad("not called \"storage\"");
  if (item(1).kind != PickleKind::kName) return bad("its type is no class");
  if (!is_text(item(2))) return bad("its key is no text");
  if (!is_text(item(3))) return bad("its location is no text");
  if (item(2).text.size() > kMaxText) return bad("its key is longer than 255 bytes");
  if (item(3).text.size() > kMaxText) return bad("its location is longer than 255 bytes");
  if (item(4).kind != PickleKind::kInt || item(4).integer < 0) return bad("its size is no number");
  StorageId storage;
  storage.type = item(1).text;
  storage.key = item(2).text;
  storage.location = item(3).text;
  storage.count = static_cast<uint64_t>(item(4).integer);
  if (id.items.size() == 5 || item(5).kind == PickleKind::kNone) return storage;
  const PickleValue& view = item(5);
  if (view.kind != PickleKind::kTuple || view.items.size() != 3) return bad("its view is no tuple of 3");
  const PickleValue &key = pickle[view.items[0]], &offset = pickle[view.items[1]], &count = pickle[view.items[2]];
  const bool numbers = offset.kind == PickleKind::kInt && count.kind == PickleKind::kInt;
  if (!is_text(key) || !numbers || offset.integer < 0 || count.integer < 0 || key.text.size() > kMaxText)
    return bad("its view, or its view's key is longer than 255 bytes");
  storage.is_view = true;
  storage.view_key = key.text;
  storage.view_offset = static_cast<uint64_t>(offset.integer);
  storage.view_count = static_cast<uint64_t>(count.integer);
  return storage;
}

}  // namespace ckpt::interop
