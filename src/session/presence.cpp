#include "session/presence.h"

#include <condition_variable>
#include <mutex>

#include "base/call.h"
#include "base/parallel.h"
#include "base/thread.h"
#include "format/names.h"

namespace ckpt::session {

struct Presence::State {
  std::shared_ptr<store::Store> store;
  uint64_t token = 0;
  uint32_t rank = 0;
  int64_t look_ms = 0;
  const std::shared_ptr<Call> asked = std::make_shared<Call>();  // by the thread; cancelled at the end
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_ptr<store::Lock> lock;
  bool ends = false, over = false;
};

// Another rank looks at the claim, which takes a moment.
static Result<std::unique_ptr<store::Lock>> take(const store::Store& store, const std::string& claim) {
  for (int tries = 0;; tries++) {
    auto lock = store.try_lock_exclusive(claim);
    if (lock.ok() || lock.status().code() != CKPT_CONFLICT || tries == 500) return lock;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Result<std::unique_ptr<Presence>> Presence::hold(const std::shared_ptr<store::Store>& store, const SessionPlan& plan,
                                                 uint32_t rank) {
  auto state = std::make_shared<State>();
  state->store = store;
  state->token = plan.token;
  state->rank = rank;
  state->look_ms = look_ms(plan.world_size);
  CKPT_ASSIGN(state->lock, take(*store, format::claim_key(plan.token, rank)));
  std::unique_ptr<Presence> presence(new Presence);
  presence->state_ = state;
  // Without a thread it is as good as gone for those who find its lock free.
  if (store->traits().shared && plan.world_size > 1) (void)start_thread(&presence->thread_, [state] { work(*state); });
  return presence;
}

Presence::~Presence() {
  std::unique_lock lock(state_->mutex);
  const std::unique_ptr<store::Lock> held = std::move(state_->lock);  // freed at last, also if the thread goes on
  state_->ends = true;
  state_->asked->cancel();
  state_->changed.notify_all();
  if (!thread_.joinable()) return;
  const bool over = state_->changed.wait_for(lock, std::chrono::seconds(2), [this] { return state_->over; });
  lock.unlock();
  if (over)
    thread_.join();
  else
    thread_.detach();  // the kernel holds it
}

void Presence::answer(State& state, uint64_t* next) {
  const auto asked = state.store->exists(format::question_key(state.token, state.rank, *next));
  if (!asked.ok() || !*asked) return;
  const Status put = state.store->put_if_absent(format::answer_key(state.token, state.rank, *next), as_bytes("here\n"));
  if (put.ok() || put.code() == CKPT_EXISTS) ++*next;
  // A lock that was forgotten can be had again.
  auto lock = state.store->try_lock_exclusive(format::claim_key(state.token, state.rank));
  if (!lock.ok()) return;
  std::unique_ptr<store::Lock> forgotten = lock.take();  // after the exchange; freed without the mutex
  const std::lock_guard guard(state.mutex);
  if (!state.ends) state.lock.swap(forgotten);
}

void Presence::work(State& state) {
  const ContextScope until_it_ends{CallContext(state.asked.get())};
  uint64_t next = 1;
  std::unique_lock lock(state.mutex);
  const auto ends = [&state] { return state.ends; };
  while (!state.changed.wait_for(lock, std::chrono::milliseconds(state.look_ms), ends)) {
    lock.unlock();
    (void)call_guarded([&] {
      answer(state, &next);
      return Ok();
    });
    lock.lock();
  }
  state.over = true;
  state.changed.notify_all();
}

}  // namespace ckpt::session
