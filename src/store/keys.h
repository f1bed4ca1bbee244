// What a key may look like, for all stores: elements joined by slashes, none of them empty, "." or "..".
// So a key can never leave its store.
// Pure, but for the nonces of temporary names.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ckpt::store {

inline constexpr size_t kMaxElement = 255;          // NAME_MAX
inline constexpr size_t kTemporarySuffix = 5 + 16;  // ".tmp." and the nonce
inline constexpr size_t kMaxFile = kMaxElement - kTemporarySuffix;
inline constexpr std::string_view kPoolDir = ".ckpt/recycled";  // posix_recycle.h
inline constexpr std::string_view kProbePrefix = "probe.";      // in .ckpt, with an id after it

// INVALID. The empty key, which is the root, is none.
Status check_key(std::string_view key);
// Also that its last element leaves room for the suffix of a temporary name.
Status check_new_file(std::string_view key);
// One name, without '/'.
Status check_element(std::string_view name);

// "a/b/c" is "a/b" and "c"; "c" is "" and "c".
std::string_view directory_of(std::string_view key);
std::string_view last_of(std::string_view key);

// "<name>.tmp.<nonce>", where a file lies until it has its name.
std::string temporary_name(std::string_view name);

// Takes the first element off `rest`.
std::string_view next_element(std::string_view& rest);

// The errors that every store words alike.
Status exists(std::string_view path);
Status not_found(std::string_view path);
Status not_a_file(std::string_view path);
Status not_a_directory(std::string_view path);
Status too_large(std::string_view path, uint64_t size, uint64_t limit);
Status ends_early(std::string_view path, uint64_t offset, uint64_t wanted, uint64_t size);
Status already_published(std::string_view path);
Status locked(std::string_view path);

}  // namespace ckpt::store
