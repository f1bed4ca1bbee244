// numpy's own files: .npy, one array, and .npz, a zip archive of several. A row of formats.cpp.
#pragma once

#include "interop/src/formats.h"

namespace ckpt::interop {

// ---- reader.cpp ----
// By the first bytes.
bool is_numpy(const Candidate& candidate);
// {name: array} of a .npz, the array of a .npy. Elements stay where they are; those of a compressed archive are
// unpacked into a temporary file. Arrays of big-endian numbers, objects, text and structs are values that cannot be
// had. CORRUPT, FORMAT.
Result<ForeignCheckpoint> read_numpy(const std::string& path, const ReadOptions& options);

}  // namespace ckpt::interop
