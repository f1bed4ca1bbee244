// What a server must be able to do before a store of many writers may rest on it.
#pragma once

#include "store/s3/objects.h"

namespace ckpt::store::s3 {

// Whether the server puts and completes an object only if it is absent. UNSUPPORTED if it ignores the condition.
Status probe_conditions(const std::shared_ptr<Client>& client);

}  // namespace ckpt::store::s3
