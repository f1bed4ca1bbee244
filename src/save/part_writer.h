// Writes this rank's part.
#pragma once

#include "save/save.h"

namespace ckpt::save {

// Encodes and writes this rank's part, and makes it durable under its final name. `values`: of digest_replicas.
// `transfers` are open; nothing of them touches the staging memory when this returns. `open_attempt` is called before
// the store is asked for anything; if the save copies, beside the copies, which wait for nobody. If it fails, what can
// be staged is staged nevertheless: so all ranks learn it after STAGED. A file that did not become a part goes to
// `unfinished`, since others are to be told before it is removed.
Status write_part(session::Session& session, const SaveIdentity& identity, SaveContent& content,
                  const SaveSettings& settings, std::span<const Digest> values, device::Transfers& transfers,
                  bool copies, const Opening& open_attempt, Job& job, std::unique_ptr<store::Writer>* unfinished);

}  // namespace ckpt::save
