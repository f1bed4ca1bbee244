// Rank 0 and the leaders of groups wait for what others write, and read it.
#pragma once

#include "commit/commit.h"
#include "commit/rank_groups.h"

namespace ckpt::commit {

// Waits for the parts of ranks [first, first + count) and opens them. A part of another save or rank is MISMATCH.
// TIMEOUT names the ranks that did not come; ABORTED, EXISTS, FENCED as the slot says; CANCELLED.
Result<std::vector<checkpoint::PartFile>> collect_parts(session::Session& session, const session::Attempt& attempt,
                                                        const CommitSettings& settings, Job& job, uint32_t first,
                                                        uint32_t count);

// The same for what the leaders of all groups but the first tell. TIMEOUT names the ranks whose parts are not there, or
// else the leaders that did not gather them.
Result<std::vector<Gathered>> collect_groups(session::Session& session, const session::Attempt& attempt,
                                             const CommitSettings& settings, Job& job, const RankGroups& groups);

}  // namespace ckpt::commit
