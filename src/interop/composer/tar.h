// The entries of a tar archive (ustar, PAX, GNU's long names). Takes untrusted bytes. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace ckpt::interop {

struct TarEntry {
  std::string name;  // without ./ before it and / after it
  uint64_t offset = 0, size = 0;
};

// Whether the bytes begin with an entry's header.
bool begins_as_tar(Bytes file);
// Files, and nothing else; a link among them is FORMAT.
Result<std::vector<TarEntry>> read_tar(Bytes file);

}  // namespace ckpt::interop
