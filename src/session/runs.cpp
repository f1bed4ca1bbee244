#include "session/runs.h"

#include <map>

#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::session {

Result<std::vector<RunEntry>> list_runs(const store::Store& store) {
  CKPT_ASSIGN(auto entries, checkpoint::list_checkpoints(store));
  std::map<std::string, RunEntry> runs;
  for (checkpoint::CheckpointEntry& entry : entries) {
    if (!entry.counts()) continue;
    RunEntry& run = runs[entry.summary.run];
    run.committed++;
    run.newest = std::move(entry);  // they come in order
  }
  auto taken = store.list(format::kRunsDir);
  if (!taken.ok() && taken.status().code() != CKPT_NOT_FOUND) return std::move(taken).status();
  for (size_t i = 0; taken.ok() && i < taken->size(); i++)
    if ((*taken)[i].directory && format::check_run((*taken)[i].name).ok()) runs[(*taken)[i].name];
  std::vector<RunEntry> found;
  for (auto& [name, run] : runs) {
    run.name = name;
    CKPT_ASSIGN(run.token, owner_of(store, name));
    if (run.token != 0 || run.committed != 0) found.push_back(std::move(run));
  }
  return found;
}

}  // namespace ckpt::session
