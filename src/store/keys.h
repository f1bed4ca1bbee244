// What a key may look like, in every store: elements joined by slashes, none of them empty, "." or "..". So a key can
// never leave its store.
// Pure, but for the nonces of temporary names.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::store {

inline constexpr size_t kMaxElement = 255;          // NAME_MAX
inline constexpr size_t kTemporarySuffix = 5 + 16;  // ".tmp." and the nonce
inline constexpr size_t kMaxFile = kMaxElement - kTemporarySuffix;
inline constexpr std::string_view kTrashDir = ".ckpt/trash";    // what is being removed
inline constexpr std::string_view kPoolDir = ".ckpt/recycled";  // posix_recycle.h
inline constexpr std::string_view kProbePrefix = "probe.";      // in .ckpt, followed by an id

// INVALID, also for the empty key (the root).
Status check_key(std::string_view key);
// Like check_key, but the last element must also leave room for the suffix of a temporary name.
Status check_new_file(std::string_view key);
// Checks one name, which has no '/'.
Status check_element(std::string_view name);

// Split "a/b/c" into "a/b" and "c", and "c" into "" and "c".
std::string_view directory_of(std::string_view key);
std::string_view last_of(std::string_view key);

// "<name>.tmp.<nonce>": the name of a file until it is published.
std::string temporary_name(std::string_view name);
// ".ckpt/trash/<name>.<nonce>"; a long name is cut, so that the last element stays within 255 bytes.
std::string trash_key(std::string_view name, const Id& nonce);
// Where a file that is replaced stays for those who have it open, in a store that keeps it for them.
std::string retired_key(std::string_view key);

// Removes the first element from `rest` and returns it.
std::string_view next_element(std::string_view& rest);

// The errors that all stores word alike.
Status exists(std::string_view path);
Status not_found(std::string_view path);
Status not_a_file(std::string_view path);
Status not_a_directory(std::string_view path);
Status too_large(std::string_view path, uint64_t size, uint64_t limit);
Status ends_early(std::string_view path, uint64_t offset, uint64_t wanted, uint64_t size);
Status already_published(std::string_view path);
Status locked(std::string_view path);
Status foreign_directory(std::string_view path, std::string_view name);  // in a directory that is to be removed

}  // namespace ckpt::store
