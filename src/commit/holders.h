// Which ranks hold a tensor that only some of them add. The ranks tell each other through the store before they write,
// since the members of a replica group must know each other to share out the writing (README.md, "Holders").
#pragma once

#include <span>

#include "base/large_memory.h"
#include "commit/commit.h"

namespace ckpt::commit {

// The ranks that hold a name: a replica group, and this rank's place in it.
struct Holders {
  uint64_t group = 0;  // 0: all ranks
  uint32_t index = 0, count = 0;
};

// `names`: the XXH3-64 of each name that this rank holds, ascending. Of each, who holds it. Needs an open attempt, and
// all ranks to call it. ABORTED, FENCED, TIMEOUT, CANCELLED, as the slot says.
Result<LargeVector<Holders>> find_holders(session::Session& session, const session::Attempt& attempt,
                                          const CommitSettings& settings, Job& job, std::span<const uint64_t> names);

// Rank 0, before it commits: removes what find_holders left in the attempt's directory.
void remove_holders(session::Session& session, const session::Attempt& attempt);

}  // namespace ckpt::commit
