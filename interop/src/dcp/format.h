// Checkpoints of torch.distributed.checkpoint (DCP): the row of formats.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "interop/src/formats.h"

namespace ckpt::interop {

// ---- reader.cpp ----
// A directory with a `.metadata`, or with one for each rank; or that file itself.
bool is_dcp(const Candidate& candidate);
// Its tensors in the pieces that the ranks wrote, all else as the state tree. Only what is no tensor is read; where the
// elements lie is found when they are wanted. INCOMPLETE for a file that is missing or cut, and for tensors that the
// pieces do not cover; MISMATCH for pieces that overlap; FORMAT, UNSUPPORTED, and as of a .pt.
Result<ForeignCheckpoint> read_dcp(const std::string& path, const ReadOptions& options);

// ---- hugging_face.cpp ----
// A directory of safetensors `shard-*`, which torch's HuggingFaceStorageWriter wrote without consolidating them.
bool is_dcp_hugging_face(const Candidate& candidate);
// Errors as of read_dcp.
Result<ForeignCheckpoint> read_dcp_hugging_face(const std::string& path, const ReadOptions& options);

// ---- megatron.cpp ----
// A run's directory of Megatron (torch_dist), whose latest_checkpointed_iteration.txt names one; or that of an
// iteration, which has common.pt beside .metadata.
bool is_megatron(const Candidate& candidate);
// What read_dcp makes of it, and "common". Errors as of it.
Result<ForeignCheckpoint> read_megatron(const std::string& path, const ReadOptions& options);

// ---- writer.cpp ----
// What torch's dcp.load reads: the main tree, each tensor and each other value by itself, in `shards` files.
// UNSUPPORTED as of a .pt; MISMATCH for a tree that is no dict.
Result<ExportPlan> plan_dcp(const ExportRequest& request);
// Tensors of `cut_from` bytes or more are cut into rows where there are several files.
Result<ExportPlan> plan_dcp(const ExportRequest& request, uint64_t cut_from);

}  // namespace ckpt::interop
