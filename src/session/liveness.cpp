#include "session/liveness.h"

#include <fstream>
#include <thread>

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

Status Liveness::hold(const store::Store& store, const SessionPlan& plan, uint32_t rank) {
  const std::string claim = format::claim_key(plan.token, rank);
  for (int tries = 0;; tries++) {
    auto lock = store.try_lock_exclusive(claim);
    if (lock.ok()) lock_ = lock.take();
    // Another rank looks at it, which takes a moment.
    if (lock.ok() || lock.status().code() != CKPT_CONFLICT || tries == 500) return std::move(lock).status();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Liveness::Seen Liveness::look(const store::Store& store, const std::string& claim, uint32_t rank) {
  auto lock = store.lock_shared(claim);
  if (lock.status().code() == CKPT_CONFLICT) {
    visible_.insert(rank);
    return Seen::kAlive;
  }
  if (!lock.ok() || !(*lock)->protects()) return Seen::kUnknown;  // it has not come yet, or nobody can tell
  if (visible_.contains(rank)) return Seen::kUnlocked;
  auto record = store.get(claim, 4096);
  const std::string here = machine();
  const bool same = record.ok() && !here.empty() && as_text(*record).find(here) != std::string_view::npos;
  return same ? Seen::kUnlocked : Seen::kUnknown;
}

Status Liveness::check(const store::Store& store, const SessionPlan& plan, std::span<const uint32_t> ranks) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || Clock::now() < next_) return Ok();
  // The first call only begins to count: most waits are over before.
  const bool begins = next_ == Clock::time_point();
  next_ = Clock::now() + pause_of(plan.world_size);
  for (size_t i = 0; !begins && i < std::min(ranks.size(), kAtATime); i++) {
    const uint32_t rank = ranks[turn_++ % ranks.size()];
    if (look(store, format::claim_key(plan.token, rank), rank) != Seen::kUnlocked) {
      unlocked_.erase(rank);
      continue;
    }
    if (unlocked_.insert(rank).second) continue;
    return Status(CKPT_ABORTED, strformat("rank {} is gone: its process has ended, or has closed its session", rank))
        .with("ranks", std::to_string(rank));
  }
  return Ok();
}

}  // namespace ckpt::session
