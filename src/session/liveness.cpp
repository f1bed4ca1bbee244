#include "session/liveness.h"

#include <fstream>

#include "base/text.h"
#include "format/names.h"

namespace ckpt::session {

using Clock = std::chrono::steady_clock;

static constexpr size_t kAtATime = 64;

// All ranks together ask some 400 times a second, however many they are.
static std::chrono::milliseconds pause_of(uint32_t world_size) {
  return std::chrono::milliseconds(std::max<int64_t>(1000, world_size * int64_t{5} / 2));
}

std::string Liveness::machine() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

Status Liveness::hold(const std::shared_ptr<store::Store>& store, const SessionPlan& plan, uint32_t rank) {
  rank_ = rank;
  if (store->traits().tells_age && plan.heartbeat_ms != 0 && plan.world_size > 1)
    heartbeat_ = std::make_unique<store::Heartbeat>(store, static_cast<int64_t>(plan.heartbeat_ms));
  CKPT_ASSIGN(presence_, Presence::hold(store, plan, rank));
  return Ok();
}

std::shared_ptr<void> Liveness::begin_save(const SessionPlan& plan, std::string_view attempt) {
  return heartbeat_ ? heartbeat_->begin(format::beat_key(plan.token, rank_, attempt)) : nullptr;
}

Liveness::Seen Liveness::look(const store::Store& store, const std::string& claim, uint32_t rank) {
  auto lock = store.lock_shared(claim);
  if (lock.status().code() == CKPT_CONFLICT) {
    visible_.insert(rank);
    return Seen::kAlive;
  }
  if (!lock.ok()) return Seen::kUnknown;              // it has not come yet, or nobody can tell
  if (store.traits().shared) return Seen::kUnlocked;  // and is asked
  if (!(*lock)->protects()) return Seen::kUnknown;
  if (visible_.contains(rank)) return Seen::kUnlocked;
  auto record = store.get(claim, 4096);
  const std::string here = machine();
  const bool same = record.ok() && !here.empty() && as_text(*record).find(here) != std::string_view::npos;
  return same ? Seen::kUnlocked : Seen::kUnknown;
}

// So long a rank that answered is not asked again.
static constexpr int64_t kTrustMs = 30000;

// The number of the next question: those before were answered.
static Result<uint64_t> next_question(const store::Store& store, const SessionPlan& plan, uint32_t rank) {
  CKPT_ASSIGN(const auto files, store.list(format::session_dir(plan.token)));
  uint64_t next = 1;
  for (const store::Entry& file : files)
    if (auto number = format::parse_answer_name(file.name, rank)) next = std::max(next, *number + 1);
  return next;
}

static Status gone(uint32_t rank, std::string_view why) {
  return Status(CKPT_ABORTED, strformat("rank {} is gone: {}", rank, why)).with("ranks", std::to_string(rank));
}

// Its lock is free. Where other machines reach the store, that is no death: it is asked. What cannot be read or written
// now is tried again.
Status Liveness::check_unlocked(store::Store& store, const SessionPlan& plan, uint32_t rank) {
  if (!store.traits().shared) return gone(rank, "its process has ended, or has closed its session");
  Question& question = questions_[rank];
  if (question.number == 0) {
    const auto number = next_question(store, plan, rank);
    if (!number.ok()) return Ok();
    const Status put = store.put_if_absent(format::question_key(plan.token, rank, *number), as_bytes("?\n"));
    if (put.ok() || put.code() == CKPT_EXISTS) question = {*number, steady_ms()};
    return Ok();
  }
  const auto answered = store.exists(format::answer_key(plan.token, rank, question.number));
  if (!answered.ok()) return Ok();
  const int64_t most_ms = Presence::answer_ms(plan.world_size);
  if (*answered)
    question = {0, 0, steady_ms()};
  else if (steady_ms() - question.asked_ms > most_ms)
    return gone(rank, strformat("its lock is free, and it did not answer within {} ms: its process has ended, stands "
                                "still, or has closed its session",
                                most_ms));
  return Ok();
}

// What cannot be read now is looked at again.
Status Liveness::check_beats(const store::Store& store, const SessionPlan& plan, std::string_view attempt,
                             std::span<const uint32_t> ranks) {
  std::map<uint32_t, int64_t> ages;
  if (rank_ != 0) {
    if (auto age = store.age_ms(format::beat_key(plan.token, 0, attempt)); age.ok()) ages[0] = *age;
  } else if (auto beats = store.list(format::beats_dir(plan.token)); beats.ok()) {
    for (const store::Entry& beat : *beats)
      if (auto rank = format::parse_beat_name(beat.name, attempt)) ages[*rank] = beat.age_ms;
  }
  // The clock of a server may tell whole seconds only.
  const int64_t most = 2 * static_cast<int64_t>(plan.heartbeat_ms) + 1000;
  std::vector<uint32_t> gone;
  int64_t silence = 0;
  static constexpr uint32_t kLeader[] = {0};
  for (const uint32_t rank : rank_ == 0 ? ranks : kLeader) {
    const auto age = ages.find(rank);
    if (age == ages.end() || age->second < most) {
      silent_.erase({std::string(attempt), rank});
    } else if (!silent_.emplace(attempt, rank).second) {
      gone.push_back(rank);
      silence = std::max(silence, age->second);
    }
  }
  if (gone.empty()) return Ok();
  return Status(CKPT_ABORTED, strformat("rank {} is gone: no sign of life for {} s, expected one each {} ms (option "
                                        "heartbeat_ms): its process has ended, stands still, or cannot reach the store",
                                        list_ranks(gone), silence / 1000, plan.heartbeat_ms))
      .with("ranks", list_ranks(gone));
}

Status Liveness::check(store::Store& store, const SessionPlan& plan, std::string_view attempt,
                       std::span<const uint32_t> ranks) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || Clock::now() < next_) return Ok();
  // The first call only begins to count: most waits are over before.
  const bool begins = next_ == Clock::time_point();
  next_ = Clock::now() + (heartbeat_ ? std::chrono::milliseconds(plan.heartbeat_ms) : pause_of(plan.world_size));
  if (heartbeat_) return begins ? Ok() : check_beats(store, plan, attempt, ranks);
  for (size_t i = 0; !begins && i < std::min(ranks.size(), kAtATime); i++) {
    const uint32_t rank = ranks[turn_++ % ranks.size()];
    if (const auto question = questions_.find(rank); question != questions_.end())
      if (question->second.heard_ms != 0 && steady_ms() - question->second.heard_ms < kTrustMs) continue;
    if (look(store, format::claim_key(plan.token, rank), rank) != Seen::kUnlocked) {
      unlocked_.erase(rank);
      questions_.erase(rank);
      continue;
    }
    if (!unlocked_.insert(rank).second) CKPT_TRY(check_unlocked(store, plan, rank));
  }
  return Ok();
}

}  // namespace ckpt::session
