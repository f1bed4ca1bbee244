// Checkpoint directories of DeepSpeed: the row of formats.cpp.
#pragma once

#include <string>

#include "interop/src/formats.h"

namespace ckpt::interop {

// ---- reader.cpp ----
// A run's directory, whose file `latest` (or `latest_universal`) names a tag; or the directory of a tag, which has
// `*_model_states.pt`.
bool is_deepspeed(const Candidate& candidate);
// {"model", "module", "optimizer", "engine"}:
//   model      by parameter the fp32 master weights of ZeRO, put together as DeepSpeed's zero_to_fp32 does; what has
//              none (buffers, frozen parameters, all of it without ZeRO) as the module has it; shared ones as aliases
//   module     the weights that the module itself has, as rank 0 saved them; ZeRO-3 and universal ones have none
//   optimizer  {"state": {parameter: {"exp_avg", …}}, "param_groups" with names, and the values beside them}
//   engine     what else rank 0's model states hold: lr_scheduler, counters, the client's state
// INCOMPLETE for files of ranks that are missing and for partitions that are too short, MISMATCH where the files
// contradict each other, UNSUPPORTED for tensor, pipeline and expert parallel ones; the errors of a .pt.
Result<ForeignCheckpoint> read_deepspeed(const std::string& path, const ReadOptions& options);

}  // namespace ckpt::interop
