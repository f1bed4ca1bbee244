// What changed in a table since the session's last save of it, as far as the session can tell by itself.
#pragma once

#include "base/job.h"
#include "save/content.h"
#include "session/session.h"

namespace ckpt::save {

// Lets the session remember the ids of the table's rows in place of those that it remembers, and compares the two: rows
// of new ids are put to what changed, and what was removed are the ids that are gone. With CKPT_TABLE_DIGESTS the same
// for what is in the rows. If the session remembers another save than `since` (the report says so), or an id is there
// twice, that is cleared, so that all rows are written, or refused. `directory` is that of this save. MISMATCH: an id
// is there that was removed, as the caller says.
Status find_changes(session::Session& session, const std::string& directory, unsigned threads, Job& job,
                    SaveTable* table);

}  // namespace ckpt::save
