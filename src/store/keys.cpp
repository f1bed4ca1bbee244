#include "store/keys.h"

#include <algorithm>

#include "base/types.h"

namespace ckpt::store {

static Status invalid_key(std::string_view key, const char* reason) {
  return Status(CKPT_INVALID, "key \"" + std::string(key) + "\" " + reason).with("key", std::string(key));
}

Status check_key(std::string_view key) {
  if (key.empty()) return invalid_key(key, "is empty");
  if (key.find('\0') != key.npos) return invalid_key(key, "has a zero byte in it");
  if (key.front() == '/') return invalid_key(key, "is absolute");
  if (key.back() == '/') return invalid_key(key, "ends in '/'");
  for (std::string_view rest = key; !rest.empty();) {
    std::string_view element = next_element(rest);
    if (element.empty()) return invalid_key(key, "has an empty element");
    if (element == "." || element == "..") return invalid_key(key, "has an element \".\" or \"..\"");
    if (element.size() > kMaxElement) return invalid_key(key, "has an element of more than 255 bytes");
  }
  return Ok();
}

Status check_new_file(std::string_view key) {
  CKPT_TRY(check_key(key));
  if (last_of(key).size() > kMaxFile) return invalid_key(key, "names a file with more than 234 bytes");
  return Ok();
}

Status check_element(std::string_view name) {
  return name.find('/') == name.npos ? check_key(name) : invalid_key(name, "is not one name");
}

std::string_view directory_of(std::string_view key) {
  size_t slash = key.rfind('/');
  return slash == key.npos ? std::string_view() : key.substr(0, slash);
}

std::string_view last_of(std::string_view key) {
  size_t slash = key.rfind('/');
  return slash == key.npos ? key : key.substr(slash + 1);
}

std::string temporary_name(std::string_view name) {
  return std::string(name) + ".tmp." + to_hex(random_id()).substr(0, 16);
}

std::string trash_key(std::string_view name, const Id& nonce) {
  constexpr size_t kRoom = kMaxElement - 1 - 32;  // the dot and the nonce
  size_t size = std::min(name.size(), kRoom);
  while (size < name.size() && size > 0 && (name[size] & 0xc0) == 0x80) size--;  // do not cut inside a character
  return strformat("{}/{}.{}", kTrashDir, name.substr(0, size), to_hex(nonce));
}

std::string retired_key(std::string_view key) { return std::string(key) + ".retired"; }

std::string_view next_element(std::string_view& rest) {
  size_t slash = rest.find('/');
  std::string_view element = rest.substr(0, slash);
  rest = slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
  return element;
}

static Status about(ckpt_status code, std::string_view path, std::string_view text) {
  return Status(code, std::string(path) + std::string(text)).with("path", std::string(path));
}

Status exists(std::string_view path) { return about(CKPT_EXISTS, path, " exists already"); }
Status not_found(std::string_view path) { return about(CKPT_NOT_FOUND, path, " is not there"); }
Status not_a_file(std::string_view path) { return about(CKPT_FORMAT, path, " is not a regular file"); }
Status not_a_directory(std::string_view path) { return about(CKPT_FORMAT, path, " is not a directory"); }
Status already_published(std::string_view path) {
  return about(CKPT_INVALID, path, " was published or given up before");
}
Status locked(std::string_view path) { return about(CKPT_CONFLICT, path, " is locked by another user of it"); }

Status foreign_directory(std::string_view path, std::string_view name) {
  return Status(CKPT_CONFLICT, strformat("{} holds a directory that ckpt did not make: {}; move it elsewhere, or "
                                         "remove it",
                                         path, name))
      .with("path", strformat("{}/{}", path, name));
}

Status too_large(std::string_view path, uint64_t size, uint64_t limit) {
  std::string text = ": expected at most " + std::to_string(limit) + " bytes, found " + std::to_string(size);
  return about(CKPT_FORMAT, path, text).with("expected", limit).with("found", size);
}

Status ends_early(std::string_view path, uint64_t offset, uint64_t wanted, uint64_t size) {
  std::string text = ": expected " + std::to_string(wanted) + " bytes at offset " + std::to_string(offset) +
                     ", found the end at " + std::to_string(size);
  return about(CKPT_INCOMPLETE, path, text).with("offset", offset).with("found", size);
}

}  // namespace ckpt::store
