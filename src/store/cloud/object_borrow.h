// A second name for an object: the server copies it, and no byte of it comes here. No state.
#pragma once

#include "store/cloud/bucket.h"

namespace ckpt::store::cloud {

// See Store::borrow. Keys must have been checked. GONE: the object was replaced or removed meanwhile.
// `piece`: what is larger is copied by pieces of this size.
Result<std::unique_ptr<Borrowed>> borrow_object(const std::shared_ptr<Bucket>& bucket, std::string_view from,
                                                std::string_view to, uint64_t piece);

}  // namespace ckpt::store::cloud
