// Checkpoints of which each rank wrote its own files: rows of formats.cpp.
#pragma once

#include "interop/src/formats.h"
#include "interop/src/sets/combine.h"

namespace ckpt::interop {

// ---- reader.cpp ----
// A directory with rank0.pt, rank1.pt … (or *_rank0.pt, *-rank0.pt; .pth, .bin): ShardedTensors and DTensors in them
// are joined, values that differ are kept for each rank.
bool is_rank_files(const Candidate& candidate);
Result<ForeignCheckpoint> read_rank_files(const std::string& path, const ReadOptions& options);

// ---- olmo.cpp ----
// step100 of OLMo, of type torch_legacy, torch_new, local or olmo_core, and of OLMo-core: {"model", "optim", "train"}.
bool is_olmo_sharded(const Candidate& candidate);
Result<ForeignCheckpoint> read_olmo_sharded(const std::string& path, const ReadOptions& options);

// ---- olmo_local.cpp ----
// {"model", "optim"} of type local: FSDP's flat parameters, as ranges of each parameter.
Result<std::vector<StatePart>> read_olmo_local(const std::string& path, const ReadOptions& options);

// ---- olmo_core.cpp ----
// {"model", "optim"} of olmo_core 0.1: safetensors of each rank, and metadata.json, which says what is where.
Result<std::vector<StatePart>> read_olmo_core(const std::string& path, const ReadOptions& options);

}  // namespace ckpt::interop
