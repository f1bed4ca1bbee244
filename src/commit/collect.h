// Rank 0 and the leaders of groups wait for what others write, and read it.
#pragma once

#include <functional>

#include "commit/commit.h"
#include "commit/rank_groups.h"

namespace ckpt::commit {

// Files that somebody waits for, by numbers.
struct Awaited {
  std::function<std::string(uint32_t number)> key;
  std::function<Status(uint32_t number)> take;
  std::function<Status(const std::vector<uint32_t>& missing)> late;  // the error if they did not come in time
  std::function<uint32_t(uint32_t number)> writer;  // the rank that writes it; null: that of the number
};
// Waits for files [first, first + count) and takes them, several at once on `settings.threads` threads. What the slot
// says if the attempt is closed; ABORTED if a rank that writes one is gone; CANCELLED; what `take` and `late` return.
Status collect(session::Session& session, const session::Attempt& attempt, const CommitSettings& settings, Job& job,
               uint32_t first, uint32_t count, const Awaited& awaited);

// Waits for the parts of ranks [first, first + count) and opens them. A part of another save or rank is MISMATCH.
// TIMEOUT names the ranks that did not come, or else those of the parts that were not read; ABORTED, EXISTS, FENCED as
// the slot says; CANCELLED.
Result<std::vector<checkpoint::PartFile>> collect_parts(session::Session& session, const session::Attempt& attempt,
                                                        const CommitSettings& settings, Job& job, uint32_t first,
                                                        uint32_t count);

// The same for what the leaders of all groups but the first tell. TIMEOUT names the ranks whose parts are not there, or
// else the leaders that did not gather them.
Result<std::vector<Gathered>> collect_groups(session::Session& session, const session::Attempt& attempt,
                                             const CommitSettings& settings, Job& job, const RankGroups& groups);

}  // namespace ckpt::commit
