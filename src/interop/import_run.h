// The run of an import that names none, and its turn there.
#pragma once

#include <memory>
#include <string>

#include "api/handles.h"

namespace ckpt::interop {

struct ImportTurn {
  std::string run;
  std::unique_ptr<store::Lock> lock;  // no other import into the run has its turn
};

// `run`, or if it is empty: "main", where whoever asks without options looks, as long as no trainer has used it since
// the last import; else "import", since a session of "main" would fence the trainer. TIMEOUT, CANCELLED.
Result<ImportTurn> take_turn(const std::shared_ptr<store::Store>& store, const std::string& run, int64_t timeout_ms,
                             const Job& job);

}  // namespace ckpt::interop
