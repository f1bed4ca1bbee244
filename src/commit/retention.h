// Decides which checkpoints may go, and removes them: never the newest sound one, never one that is being read.
#pragma once

#include <string>

#include "base/report.h"
#include "checkpoint/catalog.h"
#include "session/session.h"

namespace ckpt::commit {

struct RetentionPolicy {
  std::string run;
  int64_t keep_last = 0;   // 0: all
  int64_t keep_every = 0;  // 0: none
  std::string protect;     // labels, separated by commas
  bool dry_run = false;
};

// INVALID for a policy that would keep all in silence: keep_every or protect without keep_last.
Status check_policy(const RetentionPolicy& policy);

// Applies a policy to the checkpoints of its run that bear their own names; copies and what was renamed by hand are
// somebody's own. Errors of single removals are findings, not failures. `session`, if not null, is the one that
// commits.
Status apply_retention(store::Store& store, const RetentionPolicy& policy, Report* report,
                       session::Session* session = nullptr);

// Removes one directory. CONFLICT if a reader holds it, or if there is a directory in it that ckpt did not make;
// NOT_FOUND.
Status remove_checkpoint(store::Store& store, std::string_view id);

// See ckpt_store_remove. Removes committed checkpoints, and attempts that are closed or that no living session can be
// writing.
Status remove_by_id(store::Store& store, std::string_view id);

// Removes committed checkpoints of this run and label that are older than `newest`.
Status remove_replaced(session::Session& session, const format::Summary& newest, Report* report);

// Checks that all parts exist with the size and index digest that the manifest names.
Status check_quick(const store::Store& store, std::string_view id);

}  // namespace ckpt::commit
