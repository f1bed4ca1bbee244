// A session: one start of all ranks of a run. It owns the run's newest token; whatever an older session left open it
// closes. Immutable after open but for counters, which have their own lock; concurrent saves of different labels are
// fine.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/options.h"
#include "device/arena.h"
#include "session/catalog.h"

namespace ckpt::session {

// What every rank of a session agrees on; travels as the session string.
struct SessionPlan {
  std::string run;
  uint64_t token = 0;
  uint32_t world_size = 1;
  Id session_id, store_id;
  uint64_t chunk_bytes = 0, large_tensor_bytes = 0;
};
std::string to_session_string(const SessionPlan& plan);
Result<SessionPlan> parse_session_string(std::string_view text);  // INVALID

// FENCED where another session owns the plan's run. `recorded`: whether the store says that this one does.
Status check_fence(store::Store& store, const SessionPlan& plan, bool* recorded = nullptr);

// The parts of an attempt's identity.
struct Attempt {
  std::string label, directory;
  uint64_t number = 0;
  Id save_id;
};

class Session {
 public:
  static Result<std::shared_ptr<Session>> open(std::shared_ptr<store::Store> store, uint32_t rank, uint32_t world_size,
                                               const char* session_string, const Options& options);
  ~Session();

  const SessionPlan& plan() const { return plan_; }
  uint32_t rank() const { return rank_; }
  uint32_t world_size() const { return plan_.world_size; }
  const std::string& string() const { return string_; }
  store::Store& store() const { return *store_; }
  const std::shared_ptr<store::Store>& shared_store() const { return store_; }

  // The next attempt at a label: every rank counts the same, so no rank needs to ask.
  Attempt next_attempt(std::string_view label);
  // Rank 0: the next commit's place in this session.
  uint64_t next_sequence();
  // FENCED where a session of a higher token owns the run.
  Status check_fence() const { return session::check_fence(*store_, plan_); }
  // Rank 0, before an attempt: the same, and puts back what says so where .ckpt was deleted by hand.
  Status hold_run();

  // The staging memory, kept from save to save. One that is too small, or that another save has: a new one. NOMEM.
  Result<device::Mapping> take_arena(uint64_t bytes);
  void give_arena(device::Mapping arena);
  // What option arena_bytes asked for.
  uint64_t arena_bytes() const { return arena_bytes_; }

 private:
  Session(std::shared_ptr<store::Store> store, uint32_t rank) : store_(std::move(store)), rank_(rank) {}
  Status make_arena(uint64_t bytes);
  Status lead(uint32_t world_size, const Options& options);
  Status join(const char* session_string, uint32_t world_size, const Options& options);
  Status own_run();
  Status claim();
  Status close_older_attempts();
  Result<bool> close_older_attempt(const std::string& directory);
  bool is_abandoned(uint64_t token) const;
  Status forget_older_owners();

  std::shared_ptr<store::Store> store_;
  uint32_t rank_ = 0;
  SessionPlan plan_;
  std::string string_;
  std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> attempts_;
  uint64_t sequence_ = 0;
  device::Mapping arena_;
  uint64_t arena_bytes_ = 0;
};

// ---- rendezvous: ranks that have no communicator meet through files (src/README.md, "Rendezvous") ----

// Rank 0, holding a session: answers every rank's hello and waits until all ranks claimed their place; TIMEOUT names
// those missing; FENCED.
Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms);
// Another rank: says hello and returns the session string that answers it. TIMEOUT.
Result<std::string> join_rendezvous(store::Store& store, std::string_view run, uint32_t rank, int64_t timeout_ms);
// Another rank, after its claim: waits for rank 0's word that all ranks are here. TIMEOUT, ABORTED, FENCED.
Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms);

// ---- attempts that nobody will finish ----

// Puts a tombstone into the slot of an attempt; OK if the slot is now closed or committed, whoever did it. NOT_FOUND:
// no such directory.
Status close_attempt(store::Store& store, std::string_view directory, const format::Tombstone& tombstone);
// Moves a checkpoint or attempt out of sight in one step, then deletes it. NOT_FOUND.
Status discard_directory(store::Store& store, std::string_view directory);
// Finishes deletions that a crash interrupted.
Status empty_trash(store::Store& store);

}  // namespace ckpt::session
