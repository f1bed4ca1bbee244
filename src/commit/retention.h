// Decides which checkpoints may go, and removes them: never the newest sound one, never one that is being read.
#pragma once

#include <functional>
#include <string>

#include "base/job.h"
#include "base/report.h"
#include "checkpoint/catalog.h"
#include "session/session.h"

namespace ckpt::commit {

struct RetentionPolicy {
  ByName by_name{};
  std::string run{};
  int64_t keep_last = 0;   // 0: all
  int64_t keep_every = 0;  // 0: none
  std::string protect{};   // labels, separated by commas
  bool dry_run = false;
  // Which checkpoints it concerns: a session's those that it goes on from. Null: all of the run.
  std::function<bool(const format::Summary&)> holds{};
};

// INVALID for a policy that would keep all in silence: keep_every or protect without keep_last.
Status check_policy(const RetentionPolicy& policy);

// Applies a policy to the numbered checkpoints of its run: those whose label has their step in it as a whole number. A
// label that somebody thought of ("best") stays, and so do copies and what was renamed by hand. Errors of single
// removals are findings, not failures. `job` tells how far it is, and can cancel it between two checkpoints.
Status apply_retention(store::Store& store, const RetentionPolicy& policy, Report* report, Job& job);

// The same after a commit of `session`, which needs no more proof that it is sound. `replace`: also removes the older
// committed checkpoints of its label.
Status retire_older(session::Session& session, const format::Summary& committed, bool replace,
                    const RetentionPolicy& policy, Report* report);

// See ckpt_store_remove. Removes committed checkpoints, and attempts that are closed or that no living session can be
// writing. CONFLICT if a reader holds it, or if there is a directory in it that ckpt did not make; NOT_FOUND.
Status remove_by_id(store::Store& store, std::string_view id);
// Closes an attempt that was not committed, or is closed already, and removes it. CONFLICT if it was committed just
// now.
Status remove_attempt(store::Store& store, std::string_view id, std::string_view reason);

// Checks that all parts and bases exist with the size and index digest that the manifest names; the same of one.
Status check_quick(const store::Store& store, std::string_view id);
Status check_file_quick(const store::Store& store, std::string_view id, const fb::Part& record);

}  // namespace ckpt::commit
