// Directories that hfai's dist_ckpt writes (hfai/layout.h): the row of formats.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "interop/src/formats.h"

namespace ckpt::interop {

// A directory with a PART_*.pt (parts.cpp).
bool is_hfai(const Candidate& candidate);

// reader.cpp: what hfai's load() returns, without putting anything together: part r's tensors, and its pieces of those
// that were cut, are rank r's share. The tree and the names of its tensors are those of the .pt that torch.save would
// make of it. INCOMPLETE for a part that is missing, UNSUPPORTED for another version, MISMATCH where parts disagree,
// FORMAT: a key in two parts, a tensor that is both cut and whole, pieces that differ in dtype or do not add up; as of
// a .pt.
Result<ForeignCheckpoint> read_hfai(const std::string& path, const ReadOptions& options);

// writer.cpp: `shards` files for hfai's `load` or for plain torch.load. The tree must have "model", a dict or a list of
// dicts, and may have "optimizer", a dict with "state" or a list of them: MISMATCH. What else it has goes to part 0.
// UNSUPPORTED as of a .pt.
Result<ExportPlan> plan_hfai(const ExportRequest& request);
// Tensors above `large_bytes` are cut.
Result<ExportPlan> plan_hfai(const ExportRequest& request, uint64_t large_bytes);

}  // namespace ckpt::interop
