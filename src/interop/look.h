// What a file or directory that is of no known format looks like, in words, for an error. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "interop/folder.h"

namespace ckpt::interop {

// "it looks like gzip data; unpack it", of a file's first bytes; empty where nothing is known that begins so.
std::string look_of_file(std::string_view head);

// "it is empty", "it looks like …", "it holds 3 entries, among them a, b, c".
std::string look_of_directory(const std::string& path, const Folder& folder);

}  // namespace ckpt::interop
