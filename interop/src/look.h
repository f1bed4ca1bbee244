// What a file or directory that is of no known format looks like, in words, for an error. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "interop/src/folder.h"

namespace ckpt::interop {

// "it looks like gzip data; unpack it", of a file's first bytes; empty where nothing is known that begins so.
std::string look_of_file(std::string_view head);

// "it is empty", "it looks like …", "it is no store of ckpt, and holds 3 entries, among them a, b, c".
std::string look_of_directory(const std::string& path, const Folder& folder);

// NOT_FOUND of a run's directory: `pointer` in it names `newest`, which is not there or is nothing of the format.
// `others`: what could be imported instead.
Status newest_is_missing(const std::string& directory, const std::string& pointer, const std::string& newest,
                         const std::vector<std::string>& others);

}  // namespace ckpt::interop
