// A session: one start of all ranks of a run. It owns the run's newest token, and closes what older sessions left open.
// Immutable after open, but for counters, which have their own lock. Saves of different labels may run concurrently.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/call_options.h"
#include "base/free_memory.h"
#include "base/job.h"
#include "base/mapping.h"
#include "session/continuation.h"
#include "session/liveness.h"
#include "session/ownership.h"
#include "session/session_plan.h"
#include "store/store.h"

namespace ckpt::session {

// What identifies an attempt.
struct Attempt {
  std::string label, directory;
  uint64_t number = 0;
  Id save_id;
};

// What a session remembers of the rows of a table that it saved, by their numbers, to know what changes.
struct SavedRows {
  std::string directory;
  std::vector<uint64_t> ids, digests;  // digests: or none
};

class Session {
 public:
  // `mirror`, on rank 0: a second store that checkpoints are copied into, which this session then owns as it owns the
  // first; null for none. Copying is for others (maintain/mirror.h).
  static Result<std::shared_ptr<Session>> open(std::shared_ptr<store::Store> store, uint32_t rank, uint32_t world_size,
                                               const char* session_string, const SessionOptions& options,
                                               const Job& job = Job(), std::shared_ptr<store::Store> mirror = nullptr);
  ~Session();

  const SessionPlan& plan() const { return plan_; }
  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return plan_.world_size; }
  const std::string& string() const { return string_; }
  store::Store& store() const { return *store_; }
  const std::shared_ptr<store::Store>& shared_store() const { return store_; }
  store::Store* mirror() const { return mirror_.get(); }

  // The next attempt at a label. All ranks count alike, so no rank needs to ask.
  Attempt next_attempt(std::string_view label);
  // Rank 0: what it goes on from.
  Continuation& continuation() const { return *continuation_; }
  // Rank 0: the place of the next commit in this session.
  uint64_t next_sequence();
  // FENCED if another session owns the run.
  Status check_fence() const { return session::check_fence(*store_, plan_); }
  // Rank 0, before an attempt: see ownership.h.
  Status hold_run() const { return session::hold_run(*store_, plan_); }

  // While this rank saves, it shows that it is alive.
  std::shared_ptr<void> begin_save(const Attempt& attempt) { return liveness_.begin_save(plan_, attempt.directory); }
  // ABORTED if one of these ranks is gone, which the attempt waits for: see liveness.h.
  Status check_alive(const Attempt& attempt, std::span<const uint32_t> ranks) {
    return liveness_.check(*store_, plan_, attempt.directory, ranks);
  }

  // Rank 0: remembers the key of a word that retention leaves (README.md, "Leftovers"), and returns the one that
  // nobody can ask for any more; "" if there is none. has_word: what saves that run at the same time ask.
  std::string keep_word(std::string key);
  bool has_word(std::string_view key) const;

  // What saves may take over from those before (save/reuse.h): the value of option incremental; the directories of this
  // rank's last saves that ended well, the newest first; and how many bytes the newest wrote.
  const std::string& incremental() const { return incremental_; }
  void note_saved(const std::string& directory, uint64_t bytes_written);
  std::vector<std::string> earlier_saves() const;
  uint64_t last_bytes_written() const;
  // This rank begins to save a table in this directory; returns that of the time before, "" if there was none.
  std::string note_table(const std::string& table, const std::string& directory);
  // The rows of the time before; null if there was none.
  std::shared_ptr<const SavedRows> exchange_rows(const std::string& table, std::shared_ptr<const SavedRows> rows);
  // Why files cannot be shared is told by one save of a session. True for the first that asks.
  bool tells_why_not_shared() { return !told_why_not_shared_.exchange(true); }
  // Whether its server has copied a file. Before that nobody knows whether it can.
  bool has_copied() const { return has_copied_; }
  void note_copied() { has_copied_ = true; }

  // The staging memory, kept from save to save. Makes a new one if it is too small or if another save has it. NOMEM.
  Result<Mapping> take_arena(uint64_t bytes);
  void give_arena(Mapping arena);
  // The size of the staging memory that is there, and how much more the ranks of this machine should take.
  uint64_t arena_size();
  uint64_t arena_room() const { return quarter_left(free_at_open_, free_memory()); }
  // The value of option arena_bytes.
  uint64_t arena_bytes() const { return arena_bytes_; }
  // An import's turn (turn.h), for whoever ends the session: a thread that is left behind keeps the session, and must
  // not keep other imports waiting. Null for other sessions.
  std::unique_ptr<store::Lock> take_turn() { return std::move(turn_); }

 private:
  Session(std::shared_ptr<store::Store> store, uint32_t rank) : store_(std::move(store)), rank_(rank) {}
  Status make_arena(uint64_t bytes);
  Status prepare_mirror();
  Status mark_mirror();
  Status lead(uint32_t world_size, const SessionOptions& options, const Job& job);
  Status join(const char* session_string, uint32_t world_size, const SessionOptions& options, const Job& job);
  Status choose_run(const SessionOptions& options, const Job& job);
  Status claim();
  Status claim_and_tidy(const Job& job);
  Status check_plan(uint32_t world_size, const SessionOptions& options) const;
  Status choose_line(const SessionOptions& options);

  std::shared_ptr<store::Store> store_, mirror_;
  std::unique_ptr<store::Lock> turn_;  // of an import, until take_turn
  uint32_t rank_ = 0;
  SessionPlan plan_;
  std::string string_;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> attempts_;
  uint64_t sequence_ = 0;
  std::deque<std::string> words_, earlier_saves_;
  uint64_t last_bytes_written_ = 0;
  std::map<std::string, std::string> tables_;  // where each was saved last
  std::map<std::string, std::shared_ptr<const SavedRows>> rows_;
  std::string incremental_;
  std::atomic<bool> told_why_not_shared_{false}, has_copied_{false};
  Mapping arena_;
  uint64_t arena_bytes_ = 0;
  const uint64_t free_at_open_ = free_memory();
  Liveness liveness_;
  std::unique_ptr<Continuation> continuation_;
};

}  // namespace ckpt::session
