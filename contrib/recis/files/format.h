// Checkpoints of RecIS: the row of formats.cpp, and the attribute that an import leaves for an export.
#pragma once

#include "interop/src/formats.h"

namespace ckpt::interop {

// ---- detect.cpp ----
// ckpt_{step}, or the directory of a run, whose file `checkpoint` names it in its last line.
bool is_recis(const Candidate& candidate);
// A directory ckpt_{step}.
bool is_recis_checkpoint(const std::string& path, const Folder& folder);
// What the last line of a run's file `checkpoint` names; empty where there is none.
std::string newest_of_recis(const std::string& directory, const Folder& folder);

// ---- reader.cpp; where it is left out absent.cpp, which says so ----
// {"model", "tables", "sparse_optim", "extra", "io_state"} as far as they are there: the .pt files' values, a sparse
// table for each of RecIS', the tensors beside these, a value for each worker. A table has the pieces of its shards;
// shard i is rank i's share of an import. INCOMPLETE: a shard, a block or a file is missing; FORMAT: what contradicts
// itself; MISMATCH where shards differ; UNSUPPORTED for older layouts. Ids are compared with their shards when they are
// wanted.
Result<ForeignCheckpoint> read_recis(const std::string& path, const ReadOptions& options);

// ---- writer.cpp, or absent.cpp ----
// The same parts as files: a directory of a run, or ckpt_{step} alone where the path ends in such a name; tables in
// `shards` shards, by RecIS' rule. Tables may also stand in "model", which may be the state itself. MISMATCH for
// another state, UNSUPPORTED for what RecIS' reader does not take.
Result<ExportPlan> plan_recis(const ExportRequest& request);
// Where a state may have what RecIS has in a part.
std::vector<std::string> places_of_recis(const std::string& place);
// Of writer.cpp alone: rows pass in windows of about so many bytes.
Result<ExportPlan> plan_recis(const ExportRequest& request, uint64_t window_bytes);

// The name of the checkpoint's directory.
inline constexpr const char* kRecisIdAttr = "recis.id";

// Of "io_state": what all workers have alike, each of them has.
inline constexpr Format kRecis{"recis",        "a checkpoint directory of RecIS (ckpt_{step}), or that of its run",
                               is_recis,       read_recis,
                               plan_recis,     kTakesShards | kTakesTables,
                               "io_state",     nullptr,
                               places_of_recis};

}  // namespace ckpt::interop
