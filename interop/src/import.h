// A foreign checkpoint saved into a store, as a trainer of as many ranks would that this process plays one after
// another. A store sees no difference. Calls are independent of each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/job.h"
#include "interop/src/client.h"
#include "interop/src/reader.h"

namespace ckpt::interop {

struct ImportRequest {
  std::string label;
  int64_t step = -1;
  ImportOptions options;
  client::Options of_saves{};  // what its saves have besides
};

// The id of what was saved. Elements go from the mapped files to the save. `job` tells how far it is, and can cancel
// it. `then` (may be null) gets the id before the next import into the run has its turn, which may replace it. The
// statuses of ckpt_import.
Result<std::string> import_checkpoint(const client::Store& store, ForeignCheckpoint& from, const ImportRequest& request,
                                      Job& job, const std::function<Status(const std::string& id)>& then = {});

}  // namespace ckpt::interop
