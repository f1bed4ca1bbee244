#include "session/continuation.h"

#include <algorithm>

#include "format/names.h"

namespace ckpt::session {

bool Continuation::begin_save(std::string_view label, int64_t step) {
  if (!checkpoint::is_numbered(label, step)) return true;
  const checkpoint::Step taken = checkpoint::note_saved(plan_.store_id, plan_.run, plan_.token, step);
  const std::lock_guard lock(mutex_);
  to_be_noted_ |= taken == checkpoint::Step::kBeginsAnew;
  return taken != checkpoint::Step::kGoesBack;
}

bool Continuation::is_to_be_noted() {
  const std::lock_guard lock(mutex_);
  return to_be_noted_;
}

void Continuation::nothing_before() {
  const std::lock_guard lock(mutex_);
  to_be_noted_ = false;
}

Status Continuation::note_anew() {
  const std::string key = format::run_dir(plan_.run) + "/" + format::anew_name(plan_.token);
  Status put = store_->put_if_absent(key, as_bytes("\n"));
  if (!put.ok() && put.code() != CKPT_EXISTS) return put;
  nothing_before();
  return Ok();
}

// The token of the session with which the line of a checkpoint began.
Result<uint64_t> Continuation::first_token(const std::pair<uint64_t, uint64_t>& loaded) {
  {
    const std::lock_guard lock(mutex_);
    if (first_.first == loaded) return first_.second;  // sessions before that one note nothing any more
  }
  CKPT_ASSIGN(const auto names, store_->list(format::run_dir(plan_.run)));
  uint64_t first = 0;
  for (const store::Entry& file : names)
    if (const auto token = format::parse_anew_name(file.name); token && *token <= loaded.first)
      first = std::max(first, *token);
  const std::lock_guard lock(mutex_);
  first_ = {loaded, first};
  return first;
}

bool Continuation::holds(const format::Summary& summary) {
  if (summary.token == plan_.token) return true;
  const checkpoint::Line line = checkpoint::line_of(plan_.store_id, plan_.run);
  if (line.sessions.contains(summary.token)) return true;
  if (!line.holds(summary)) return false;
  const auto first = first_token(*line.loaded);
  return first.ok() && summary.token >= *first;
}

}  // namespace ckpt::session
