// Tells a trainer at once that it began anew in a run that has checkpoints, or went back without loading one.
#pragma once

#include <string>

#include "base/report.h"
#include "session/session.h"

namespace ckpt::commit {

// Rank 0, before an attempt at a step. Adds a finding ANEW, and notes in the store what began here. `*text`: the same,
// for an error; "" if there is nothing to tell. `goes_back`: Continuation::begin_save.
Status tell_anew(session::Session& session, int64_t step, bool goes_back, Report* report, std::string* text);

}  // namespace ckpt::commit
