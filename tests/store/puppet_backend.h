// A store from outside for tests: in memory, with hooks before its calls, a clock that can be set, and a count of what
// is wrong with how it is called.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ckpt_backend.h"
#include "ckpt_layer.h"
#include "store/store.h"

namespace ckpt::store {

// A struct whose size is set.
template <typename Struct>
Struct fresh() {
  Struct made{};
  made.struct_size = sizeof made;
  return made;
}

struct Puppet {
  Puppet() { traits.promises = CKPT_BACKEND_EXCLUSIVE | CKPT_BACKEND_DURABLE | CKPT_BACKEND_AGES; }
  struct Object {
    std::string bytes, version;
    int64_t put_ms = 0;
  };
  struct File {
    std::string key, bytes;
    int32_t how = 0;
  };
  // Before each call: its name and key. What is not OK is the answer; it may throw, wait, or change things.
  std::function<ckpt_status(const std::string& call, const std::string& key, ckpt_error** err)> before;
  ckpt_backend_traits traits = fresh<ckpt_backend_traits>();
  uint64_t most_read = UINT64_MAX;                   // bytes of one read
  std::function<void(ckpt_backend_file*)> twist;     // what look and list tell
  std::function<bool(const std::string& key)> lost;  // whether the answer to a publish that was carried out is

  std::mutex mutex;  // guards all below
  std::map<std::string, Object> objects;
  int64_t now_ms = 0;
  int versions = 0, opened = 0, released = 0, late = 0, files = 0;  // late: calls without a store

  std::string text(const std::string& key) {
    std::lock_guard lock(mutex);
    const auto at = objects.find(key);
    return at == objects.end() ? "<none>" : at->second.bytes;
  }
};

// That of all stores of this scheme; each test has a fresh one.
inline std::shared_ptr<Puppet>& puppet() {
  static std::shared_ptr<Puppet> current;
  return current;
}

namespace puppets {

using Held = std::shared_ptr<Puppet>;
inline Puppet& of(void* context) { return **static_cast<Held*>(context); }
inline ckpt_status step(Puppet& me, const char* call, const std::string& key, ckpt_error** err) {
  {
    std::lock_guard lock(me.mutex);
    if (me.released >= me.opened) me.late++;
  }
  return me.before ? me.before(call, key, err) : CKPT_OK;
}
inline ckpt_status open(const char* uri, void** context, ckpt_backend_traits* traits, ckpt_error** err) {
  if (const ckpt_status told = puppet()->before ? puppet()->before("open", uri, err) : CKPT_OK) return told;
  *traits = puppet()->traits;
  std::lock_guard lock(puppet()->mutex);
  puppet()->opened++;
  *context = new Held(puppet());
  return CKPT_OK;
}
inline void release(void* context) {
  const std::unique_ptr<Held> owned(static_cast<Held*>(context));
  std::lock_guard lock((*owned)->mutex);
  (*owned)->released++;
}
inline void tell(const Puppet& me, const Puppet::Object& object, ckpt_backend_file* file) {
  file->size = static_cast<int64_t>(object.bytes.size());
  file->age_ms = me.now_ms - object.put_ms;
  std::snprintf(file->version, sizeof file->version, "%s", object.version.c_str());
  if (me.twist) me.twist(file);
}
inline ckpt_status look(void* context, const char* key, ckpt_backend_file* file, ckpt_error** err) {
  Puppet& me = of(context);
  if (const ckpt_status told = step(me, "look", key, err)) return told;
  std::lock_guard lock(me.mutex);
  const auto at = me.objects.find(key);
  if (at == me.objects.end()) return CKPT_NOT_FOUND;
  tell(me, at->second, file);
  return CKPT_OK;
}
inline ckpt_status read(void* context, const char* key, const char* version, uint64_t offset, void* buffer,
                        uint64_t size, uint64_t* done, ckpt_error** err) {
  Puppet& me = of(context);
  if (const ckpt_status told = step(me, "read", key, err)) return told;
  std::lock_guard lock(me.mutex);
  const auto at = me.objects.find(key);
  if (at == me.objects.end() || at->second.version != version) return CKPT_GONE;
  *done = std::min({size, me.most_read, at->second.bytes.size() - offset});
  std::memcpy(buffer, at->second.bytes.data() + offset, *done);
  return CKPT_OK;
}
inline ckpt_status list(void* context, const char* directory, ckpt_backend_found found, void* list, ckpt_error** err) {
  Puppet& me = of(context);
  if (const ckpt_status told = step(me, "list", directory, err)) return told;
  const std::string prefix = *directory ? std::string(directory) + "/" : "";
  std::lock_guard lock(me.mutex);
  for (const auto& [key, object] : me.objects) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size(), key.find('/', prefix.size()) - prefix.size());
    auto file = fresh<ckpt_backend_file>();
    file.is_directory = prefix.size() + name.size() != key.size();
    tell(me, object, &file);
    if (const ckpt_status told = found(list, name.c_str(), &file)) return told;
  }
  return CKPT_OK;
}
inline ckpt_status create(void* context, const char* key, uint64_t, int32_t how, void** file, ckpt_error** err) {
  if (const ckpt_status told = step(of(context), "create", key, err)) return told;
  std::lock_guard lock(of(context).mutex);
  of(context).files++;
  *file = new Puppet::File{key, "", how};
  return CKPT_OK;
}
inline ckpt_status append(void* context, void* file, const void* data, uint64_t size, ckpt_error** err) {
  auto* to = static_cast<Puppet::File*>(file);
  if (const ckpt_status told = step(of(context), "append", to->key, err)) return told;
  to->bytes.append(static_cast<const char*>(data), size);
  return CKPT_OK;
}
inline void discard(void* context, void* file) {
  Puppet& me = of(context);
  (void)step(me, "discard", "", nullptr);
  delete static_cast<Puppet::File*>(file);
  std::lock_guard lock(me.mutex);
  me.files--;
}
inline ckpt_status publish(void* context, void* file, ckpt_error** err) {
  Puppet& me = of(context);
  const std::unique_ptr<Puppet::File> owned(static_cast<Puppet::File*>(file));
  {
    std::lock_guard lock(me.mutex);
    me.files--;
  }
  if (const ckpt_status told = step(me, "publish", owned->key, err)) return told;
  std::lock_guard lock(me.mutex);
  if (owned->how == CKPT_BACKEND_IF_ABSENT && me.objects.contains(owned->key)) return CKPT_EXISTS;
  me.objects[owned->key] = {owned->bytes, "v" + std::to_string(++me.versions), me.now_ms};
  return me.lost && me.lost(owned->key) ? CKPT_IO : CKPT_OK;
}
inline ckpt_status remove(void* context, const char* key, ckpt_error** err) {
  Puppet& me = of(context);
  if (const ckpt_status told = step(me, "remove", key, err)) return told;
  std::lock_guard lock(me.mutex);
  return me.objects.erase(key) ? CKPT_OK : CKPT_NOT_FOUND;
}

inline constexpr ckpt_backend kCalls = {
    sizeof(ckpt_backend), 0, open, release, look, read, list, create, append, publish, discard, remove};

}  // namespace puppets

// A store of a fresh puppet, or of the one that is there.
inline std::shared_ptr<Store> open_puppet(bool fresh = true, const std::string& uri = "puppet://host/run7") {
  static const ckpt_status registered = ckpt_backend_register("puppet", &puppets::kCalls, nullptr);
  EXPECT_EQ(registered, CKPT_OK);
  if (fresh) puppet() = std::make_shared<Puppet>();
  auto store = open_store(uri, {});
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.ok() ? store.take() : nullptr;
}

}  // namespace ckpt::store
