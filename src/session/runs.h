// The runs of a store.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/catalog.h"
#include "store/store.h"

namespace ckpt::session {

struct RunEntry {
  std::string name;
  uint64_t token = 0;                                 // of the session that owns it; 0 if no record is left
  uint64_t committed = 0;                             // checkpoints that `latest` could mean
  std::optional<checkpoint::CheckpointEntry> newest;  // of these
};

// Every run that a session took or that has committed checkpoints of its own (not foreign ones, not copies), by name.
Result<std::vector<RunEntry>> list_runs(const store::Store& store);

}  // namespace ckpt::session
