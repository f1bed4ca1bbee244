// What Composer puts around the .pt that it saves: a tar archive, a compressor, or both. Rows of formats.cpp.
#pragma once

#include "interop/src/formats.h"

namespace ckpt::interop {

// What the tar holds.
inline constexpr std::string_view kComposerStates = "composer_states.pt";
// A .nemo of NeMo is a tar, too, of these and others.
inline constexpr std::string_view kNemoWeights = "model_weights.ckpt", kNemoConfig = "model_config.yaml";
inline constexpr const char* kNemoConfigAttr = "nemo.config";  // its text

// A tar that begins as Composer's do; a packed file of any name.
bool is_composer(const Candidate& candidate);

// The .pt inside: of a plain tar where it lies in the file, else from a temporary file. FORMAT for what is packed and
// holds no .pt, UNSUPPORTED for a tar that holds more (DeepSpeed's, one for each rank), for a compressor whose library
// is not here, and on a web server; CORRUPT.
Result<ForeignCheckpoint> read_composer(const std::string& path, const ReadOptions& options);

// A .pt, packed as the ending of the path says, or not; INVALID for an ending that is none of Composer's. What is
// packed is first written to a temporary file.
Result<ExportPlan> plan_composer(const ExportRequest& request);

}  // namespace ckpt::interop
