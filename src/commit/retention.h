// Decides which checkpoints may go, and removes them: never the newest sound one, never one that is being read.
#pragma once

#include <string>

#include "base/report.h"
#include "checkpoint/catalog.h"

namespace ckpt::commit {

struct RetentionPolicy {
  std::string run;
  int64_t keep_last = 0;   // 0: all
  int64_t keep_every = 0;  // 0: none
  std::string protect;     // labels, separated by commas
  bool dry_run = false;
};

// Applies a policy. Errors of single removals are findings, not failures.
Status apply_retention(store::Store& store, const RetentionPolicy& policy, Report* report);

// Removes one committed checkpoint. CONFLICT if a reader holds it; NOT_FOUND.
Status remove_checkpoint(store::Store& store, std::string_view id);

// See ckpt_store_remove. Removes committed checkpoints, and attempts that are closed or that no living session can be
// writing.
Status remove_by_id(store::Store& store, std::string_view id);

// Removes committed checkpoints of this run and label that are older than `newest`.
Status remove_replaced(store::Store& store, const format::Summary& newest, Report* report);

// Checks that all parts exist with the size and index digest that the manifest names.
Status check_quick(const store::Store& store, std::string_view id);

}  // namespace ckpt::commit
