// Writes this rank's part.
#pragma once

#include "save/save.h"
#include "save/table_runs.h"
#include "save/table_sort.h"

namespace ckpt::save {

struct PartInput {
  session::Session& session;
  const SaveIdentity& identity;
  const SaveContent& content;
  TableOrder& order;       // of its tables; begun
  const Carried& carried;  // beside it
  const SaveSettings& settings;
  std::span<const Digest> values;  // of digest_replicas
  device::Transfers& transfers;    // open
  bool copies;                     // see Save::work
  // Called before the store is asked for anything; if the save copies, beside the copies, which wait for nobody. If it
  // fails, what can be staged is staged nevertheless: so all ranks learn it after STAGED.
  const Opening& open_attempt;
  Job& job;
};

// Encodes and writes this rank's part, and makes it durable under its final name. Nothing of the transfers touches the
// staging memory when this returns. A file that did not become a part goes to `unfinished`, since others are to be told
// before it is removed.
Status write_part(const PartInput& input, std::unique_ptr<store::Writer>* unfinished);

}  // namespace ckpt::save
