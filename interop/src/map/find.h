// Where mappings are: a path, or the name of one that was installed with the library. Reads files; thread-safe.
#pragma once

#include <string>

#include "interop/src/map/mapping.h"

namespace ckpt::interop {

// `name`: a path has a '/' or ends in .json; "llama-tune-to-hf" is "llama-hf-to-tune" backwards. NOT_FOUND, INVALID.
Result<Mapping> find_mapping(const std::string& name);

}  // namespace ckpt::interop
