// A second name for a file, by a hard link, or by a clone that shares its blocks. Keys must have been checked. No
// state.
#pragma once

#include <memory>

#include "store/posix_file.h"
#include "store/store.h"

namespace ckpt::store {

// See Store::borrow. The link is made by name, so that a file which was moved away meanwhile gets none.
Result<std::unique_ptr<Borrowed>> borrow_posix(const Root& root, std::string_view from, std::string_view to);

}  // namespace ckpt::store
