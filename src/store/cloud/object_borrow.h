// A second name for an object: the server copies it, and no byte of it comes here. No state.
#pragma once

#include "store/cloud/bucket.h"

namespace ckpt::store::cloud {

// Up to this size, one request copies all. Of a larger object many are copied at once: one request for 5 GiB, the most
// that S3 allows, takes minutes, and looks like a server that stalls.
inline constexpr uint64_t kCopyPiece = 512 << 20;

// See Store::borrow. Keys must have been checked. GONE: the object was replaced or removed meanwhile.
Result<std::unique_ptr<Borrowed>> borrow_object(const std::shared_ptr<Bucket>& bucket, std::string_view from,
                                                std::string_view to, uint64_t piece = kCopyPiece);

}  // namespace ckpt::store::cloud
