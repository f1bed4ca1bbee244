// Arguments from Python: text, paths, options and dtypes.
#pragma once

#include <ckpt.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "errors.h"

namespace ckpt_py {

using Extents = std::vector<int64_t>;

// C text ends at the first NUL, so text that holds one is refused instead of cut short. `what` names it in the error.
std::string text(nanobind::handle object, const char* what);
std::optional<std::string> optional_text(nanobind::handle object, const char* what);

// str, bytes or os.PathLike, in the encoding of the file system.
std::string path(nanobind::handle object);

// A mapping (or None) and keyword arguments, which win; int, bool and str values.
ckpt::Options options(nanobind::handle mapping, const nanobind::kwargs& keywords);

// A dtype by number (ckpt.DType or int) or name ("bf16").
int32_t dtype(nanobind::handle object);

}  // namespace ckpt_py
