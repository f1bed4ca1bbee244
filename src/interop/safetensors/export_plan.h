// What an export will write: which tensors go to which file, at which offsets, under which header. Made from the
// reader's names and the attributes that an import left, before anything is written. Pure but for the reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ckpt.h"
#include "interop/safetensors/safetensors.h"

namespace ckpt::interop {

struct PlannedFile {
  std::string name;
  std::vector<Tensor> tensors;  // with their offsets, in order
  std::optional<StringMap> metadata;
  uint64_t data_bytes = 0;
};

struct ExportPlan {
  std::vector<PlannedFile> files;
  std::optional<std::string> index;  // the text of model.safetensors.index.json
};

// `split` false: everything in one file. UNSUPPORTED for what safetensors cannot express, FORMAT for attributes that
// no import wrote.
Result<ExportPlan> plan_export(const ckpt_reader* reader, bool split);

}  // namespace ckpt::interop
