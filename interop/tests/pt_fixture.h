// Makes .pt files for tests byte by byte: pickles of protocol 2 as torch writes them, in the zip form and the older
// one.
#pragma once

#include <string>
#include <vector>

#include "zip_fixture.h"

namespace ckpt::interop::pickled {

using Items = std::vector<std::string>;

inline std::string joined(const Items& items) {
  std::string bytes;
  for (const std::string& item : items) bytes += item;
  return bytes;
}

inline std::string text(const std::string& value) { return "X" + little(static_cast<uint32_t>(value.size())) + value; }
inline std::string integer(int64_t value) { return "\x8a\x08" + little(value); }
inline std::string boolean(bool value) { return value ? "\x88" : "\x89"; }
inline std::string real(double value) {
  std::string bytes = little(value);
  return "G" + std::string(bytes.rbegin(), bytes.rend());
}
inline const std::string none = "N";
inline std::string tuple(const Items& items) { return "(" + joined(items) + "t"; }
inline std::string list(const Items& items) { return "](" + joined(items) + "e"; }
// Keys and values in turn.
inline std::string dict(const Items& items) { return "}(" + joined(items) + "u"; }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string call(const std::string& function, const Items& args) { return function + tuple(args) + "R"; }
inline std::string make(const std::string& cls, const Items& args) { return cls + tuple(args) + "\x81"; }
inline std::string with_state(const std::string& object, const std::string& state) { return object + state + "b"; }
inline std::string with_entries(const std::string& object, const Items& entries) {
  return object + "(" + joined(entries) + "u";
}
inline std::string bytes(const std::string& value) {
  return "B" + little(static_cast<uint32_t>(value.size())) + value;  // of protocol 3
}
inline std::string integers(const std::vector<int64_t>& values) {
  Items items;
  for (const int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}
inline std::string document(const std::string& value) { return "\x80\x02" + value + "."; }

inline std::string ordered_dict(const Items& entries = {}) {
  return with_entries(call(global("collections", "OrderedDict"), {}), entries);
}
inline std::string torch_util(const std::string& name) { return global("torch._utils", name); }

inline std::string storage(const std::string& key, const std::string& type, int64_t count,
                           const std::string& location = "cpu") {
  const std::string module = type == "UntypedStorage" ? "torch.storage" : "torch";
  return tuple({text("storage"), global(module, type), text(key), text(location), integer(count)}) + "Q";
}

// _rebuild_tensor_v2
inline std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& size,
                          const std::vector<int64_t>& stride, bool requires_grad = false, const Items& metadata = {}) {
  Items args = {storage, integer(offset), integers(size), integers(stride), boolean(requires_grad), ordered_dict()};
  if (!metadata.empty()) args.push_back(dict(metadata));
  return call(torch_util("_rebuild_tensor_v2"), args);
}

}  // namespace ckpt::interop::pickled

namespace ckpt::interop {

struct StorageBytes {
  std::string key, data;
};

// The zip form; storages have their key as place in data/.
inline std::string pt_of(const std::string& value, const std::vector<StorageBytes>& storages = {}) {
  std::vector<ZipItem> items = {{"model/data.pkl", pickled::document(value)}, {"model/byteorder", "little"}};
  for (const StorageBytes& storage : storages) items.push_back({"model/data/" + storage.key, storage.data});
  items.push_back({"model/version", "3\n"});
  return make_zip(items).bytes;
}

// The older form, with storages of elements of `width` bytes.
inline std::string legacy_of(const std::string& value, const std::vector<StorageBytes>& storages = {},
                             uint64_t width = 4, bool little_endian = true) {
  using namespace pickled;
  std::string bytes = document(std::string("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12)) +
                      document(integer(1001)) + document(dict({text("little_endian"), boolean(little_endian)})) +
                      document(value);
  Items keys;
  for (const StorageBytes& storage : storages) keys.push_back(text(storage.key));
  bytes += document(list(keys));
  for (const StorageBytes& storage : storages) bytes += little(uint64_t{storage.data.size() / width}) + storage.data;
  return bytes;
}

template <typename T>
std::string elements(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) bytes += little(value);
  return bytes;
}

}  // namespace ckpt::interop
