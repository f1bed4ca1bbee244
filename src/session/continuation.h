// Rank 0: which of a run's checkpoints its session goes on from (checkpoint/line.h), as far as the store remembers it:
// a session that begins anew where earlier ones left checkpoints puts `.ckpt/runs/<run>/anew.<token>`, so that nobody
// who goes on from that session takes these for its past. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "checkpoint/line.h"
#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

class Continuation {
 public:
  // `on_purpose`: it was said that it begins anew.
  Continuation(std::shared_ptr<store::Store> store, const SessionPlan& plan, bool on_purpose)
      : store_(std::move(store)), plan_(plan), on_purpose_(on_purpose) {}

  // A save begins: in the order in which the caller begins them. False if it goes back behind the one before.
  bool begin_save(std::string_view label, int64_t step);
  // Whether the session began anew, and that was not noted in the store yet; and notes it.
  bool is_to_be_noted();
  Status note_anew();
  void nothing_before();
  bool on_purpose() const { return on_purpose_; }

  // Whether this session goes on from a checkpoint of the run, so that its retention may remove it. What cannot be
  // asked is not.
  bool holds(const format::Summary& summary);

 private:
  Result<uint64_t> first_token(const std::pair<uint64_t, uint64_t>& loaded);

  const std::shared_ptr<store::Store> store_;
  const SessionPlan plan_;
  const bool on_purpose_;
  std::mutex mutex_;
  bool to_be_noted_ = false;
  std::pair<std::pair<uint64_t, uint64_t>, uint64_t> first_{};  // of the checkpoint that was loaded
};

}  // namespace ckpt::session
