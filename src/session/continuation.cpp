#include "session/continuation.h"

#include <algorithm>
#include <limits>

namespace ckpt::session {

bool Continuation::begin_save(std::string_view label, int64_t step, uint64_t sequence) {
  if (!checkpoint::is_numbered(label, step)) return true;
  const checkpoint::Taken taken = checkpoint::note_saved(plan_.store_id, plan_.run, plan_.token, step);
  const std::lock_guard lock(mutex_);
  to_be_noted_ |= taken.step == checkpoint::Step::kBeginsAnew;
  if (taken.from) went_back_.push_back({{plan_.token, sequence}, *taken.from});
  return taken.step != checkpoint::Step::kGoesBack;
}

bool Continuation::is_to_be_noted() {
  const std::lock_guard lock(mutex_);
  return to_be_noted_;
}

void Continuation::nothing_before() {
  const std::lock_guard lock(mutex_);
  to_be_noted_ = false;
}

Status Continuation::put_note(const std::string& name) {
  Status put = store_->put_if_absent(format::run_dir(plan_.run) + "/" + name, as_bytes("\n"));
  return put.code() == CKPT_EXISTS ? Ok() : put;
}

Status Continuation::note_anew() {
  CKPT_TRY(put_note(format::anew_name(plan_.token)));
  nothing_before();
  return Ok();
}

Status Continuation::note_went_back() {
  for (;;) {
    format::WentBack next;
    {
      const std::lock_guard lock(mutex_);
      if (noted_ == went_back_.size()) return Ok();
      next = went_back_[noted_];
    }
    CKPT_TRY(put_note(format::went_back_name(next)));
    const std::lock_guard lock(mutex_);
    if (noted_ < went_back_.size() && went_back_[noted_] == next) noted_++;
  }
}

// What the lines of this session and of those before it leave out, the latest first.
Result<std::vector<format::WentBack>> Continuation::left_out() {
  std::unique_lock lock(mutex_);
  if (!earlier_) {
    lock.unlock();
    CKPT_ASSIGN(const auto names, store_->list(format::run_dir(plan_.run)));
    std::vector<format::WentBack> found;
    for (const store::Entry& file : names) {
      if (const auto went = format::parse_went_back_name(file.name)) found.push_back(*went);
      if (const auto token = format::parse_anew_name(file.name)) found.push_back({{*token, 0}, {0, 0}});
    }
    std::erase_if(found, [&](const format::WentBack& one) { return one.before.first >= plan_.token; });
    std::ranges::sort(found, std::ranges::greater(), &format::WentBack::before);
    lock.lock();
    earlier_ = std::move(found);
  }
  std::vector<format::WentBack> all(went_back_.rbegin(), went_back_.rend());
  all.insert(all.end(), earlier_->begin(), earlier_->end());
  return all;
}

bool Continuation::holds(const format::Summary& summary) {
  constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();
  const checkpoint::Line line = checkpoint::line_of(plan_.store_id, plan_.run);
  checkpoint::When at{plan_.token, kLast};
  const checkpoint::When when = summary.when();
  if (summary.token != plan_.token && !line.sessions.contains(summary.token)) {
    if (!line.loaded || when > *line.loaded) return false;
    at = *line.loaded;
  }
  const auto skips = left_out();
  if (!skips.ok()) return summary.token == plan_.token;
  for (const format::WentBack& one : *skips) {
    if (one.before > at) continue;  // of a line that this one does not go on from
    if (when >= one.before) return true;
    if (when > one.to) return false;
    at = one.to;
  }
  return true;
}

}  // namespace ckpt::session
