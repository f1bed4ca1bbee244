// What a server must be able to do before a store of many writers may rest on it.
#pragma once

#include "store/cloud/objects.h"

namespace ckpt::store::cloud {

// Whether the server puts and completes an object only if it is absent, and replaces one only if it is the one that was
// meant. UNSUPPORTED if it ignores such a condition, or knows none. A record in .ckpt remembers that it does.
Status probe_conditions(const std::shared_ptr<Bucket>& bucket);
// Removes what a process that died left of its probe.
Status remove_probe(Bucket& bucket, std::string_view key);

}  // namespace ckpt::store::cloud
