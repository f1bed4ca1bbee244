// The tensors of a checkpoint as one safetensors file, or as a directory with the split that was imported.
#pragma once

#include <string>

#include "base/status.h"
#include "ckpt.h"

namespace ckpt::interop {

// `target` must not exist; it appears whole or not at all. A name that ends in .safetensors is one file. Reads with the
// options of an export. Statuses: EXISTS, UNSUPPORTED (a dtype), CORRUPT, IO, NO_SPACE.
Status export_safetensors(const ckpt_reader* reader, const std::string& target, const ckpt_options* options);

}  // namespace ckpt::interop
