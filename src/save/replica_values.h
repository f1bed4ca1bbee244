// Replicated tensors are proven equal before they are committed: each member of a replica group declares digests of the
// values that it has (FORMAT §6).
#pragma once

#include <span>

#include "base/job.h"
#include "device/transfers.h"
#include "save/content.h"

namespace ckpt::save {

// Which values the members of a replica group compare.
enum class ReplicaCheck {
  kAll,
  kSample,  // of regions above 64 KiB only a sample
  kFirst    // none: the first member's values count
};
bool is_sampled(const SaveTensor& tensor);            // by kSample
ReplicaCheck replica_check(std::string_view option);  // "check", "trust", "rank0"

// The digest of each tensor of the content whose values are compared; zero for the others. Reads all of their memory
// once, on several threads. `transfers`, open: null if it is all the host's. CANCELLED.
Result<LargeVector<Digest>> digest_replicas(const SaveContent& content, ReplicaCheck check, unsigned threads,
                                            const Job& job, device::Transfers* transfers = nullptr);

}  // namespace ckpt::save
