// Writes this rank's part.
#pragma once

#include "save/save.h"

namespace ckpt::save {

// Encodes and writes this rank's part, and makes it durable under its final name. `values`: of digest_replicas.
// `transfers` are open; nothing of them touches the staging memory when this returns.
Status write_part(session::Session& session, const SaveIdentity& identity, SaveContent& content,
                  const SaveSettings& settings, std::span<const Digest> values, device::Transfers& transfers,
                  bool copies, Job& job);

}  // namespace ckpt::save
