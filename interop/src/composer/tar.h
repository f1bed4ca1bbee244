// The entries of a tar archive: read (ustar, PAX, GNU's long names; takes untrusted bytes) and begun. Pure;
// thread-safe.
#pragma once

#include <string>
#include <string_view>
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

// What stands before a file's data, of kTarBlock bytes. The data is padded to blocks, and two empty ones end the
// archive.
inline constexpr uint64_t kTarBlock = 512;
std::string tar_header(std::string_view name, uint64_t size);

}  // namespace ckpt::interop
