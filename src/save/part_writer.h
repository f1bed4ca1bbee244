// Writes this rank's part.
#pragma once

#include "save/save.h"

namespace ckpt::save {

// Encodes and writes this rank's part, and makes it durable under its final name. `values`: of digest_replicas.
Status write_part(session::Session& session, const SaveIdentity& identity, SaveContent& content,
                  const SaveSettings& settings, std::span<const Digest> values, bool copies, Job& job);

}  // namespace ckpt::save
