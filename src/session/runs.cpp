#include "session/runs.h"

#include <algorithm>
#include <map>

#include "format/names.h"

namespace ckpt::session {

// 0 if no session has taken the run.
static Result<uint64_t> owner_of(const store::Store& store, std::string_view run) {
  uint64_t token = 0;
  auto sessions = store.list(format::run_dir(run));
  if (!sessions.ok() && sessions.status().code() != CKPT_NOT_FOUND) return std::move(sessions).status();
  for (size_t i = 0; sessions.ok() && i < sessions->size(); i++)
    if (auto session = format::parse_run_session_name((*sessions)[i].name)) token = std::max(token, session->token);
  return token;
}

Result<std::vector<RunEntry>> list_runs(const store::Store& store) {
  CKPT_ASSIGN(auto entries, checkpoint::list_checkpoints(store));
  std::map<std::string, RunEntry> runs;
  for (checkpoint::CheckpointEntry& entry : entries) {
    if (entry.state != CKPT_CHECKPOINT_COMMITTED || entry.foreign || entry.copy) continue;
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
