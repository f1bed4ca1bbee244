// Rank 0: which of a run's checkpoints its session goes on from (checkpoint/line.h), as far as the store remembers it:
// a session that begins anew where earlier ones left checkpoints puts `.ckpt/runs/<run>/anew.<token>`, so that nobody
// who goes on from that session takes these for its past; and one that goes on from a checkpoint that was loaded puts
// `back.<its own>.<that one>`, since others may have come after that one. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/line.h"
#include "format/names.h"
#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

class Continuation {
 public:
  // `on_purpose`: it was said that it begins anew.
  Continuation(std::shared_ptr<store::Store> store, const SessionPlan& plan, bool on_purpose)
      : store_(std::move(store)), plan_(plan), on_purpose_(on_purpose) {}

  // A save begins: in the order in which the caller begins them, which `sequence` counts. False if it goes back behind
  // the one before.
  bool begin_save(std::string_view label, int64_t step, uint64_t sequence);
  // Whether the session began anew, and that was not noted in the store yet; and notes it.
  bool is_to_be_noted();
  Status note_anew();
  // Notes from which checkpoints it went on.
  Status note_went_back();
  void nothing_before();
  bool on_purpose() const { return on_purpose_; }

  // Whether this session goes on from a checkpoint of the run, so that its retention may remove it. What cannot be
  // asked is not.
  bool holds(const format::Summary& summary);

 private:
  Status put_note(const std::string& name);
  Result<std::vector<format::WentBack>> left_out();

  const std::shared_ptr<store::Store> store_;
  const SessionPlan plan_;
  const bool on_purpose_;
  std::mutex mutex_;
  bool to_be_noted_ = false;
  std::vector<format::WentBack> went_back_;               // of this session,
  size_t noted_ = 0;                                      // of which the store has so many
  std::optional<std::vector<format::WentBack>> earlier_;  // of sessions before it, which note nothing any more
};

}  // namespace ckpt::session
