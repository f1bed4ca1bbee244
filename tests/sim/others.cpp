// Those who train nothing: a follower, an operator, a server that restarts.
#include <set>

#include "sim/world.h"

namespace sim {

// ---- who reads ----

Loaded load(const hpp::Store& store, const std::string& selector, int64_t timeout_ms) {
  const hpp::Options options{{"timeout_ms", timeout_ms}};
  auto reader = timed("opening a checkpoint", timeout_ms, [&] { return hpp::Reader::open(store, selector, options); });
  const hpp::CheckpointInfo info = reader.info();
  const auto count = static_cast<size_t>(kElements * info.world_size);
  // Never freed: the same.
  auto &own = *new std::vector<uint32_t>(count), &still = *new std::vector<uint32_t>(count);
  auto& shared = *new std::vector<uint32_t>(kElements);
  auto& table = *timed("counting rows", timeout_ms, [&] { return new TableLoad(reader, options); });
  auto load = hpp::Load::create(reader, options);
  table.add(load);
  load.add_tensor("own", {static_cast<int64_t>(count)}, own);
  load.add_tensor("still", {static_cast<int64_t>(count)}, still);
  load.add_tensor("shared", {kElements}, shared);
  timed("a load", timeout_ms, [&] { load.run(); });
  for (size_t i = 0; i < count; i++)
    if (own[i] != value(info.step, static_cast<uint32_t>(i / kElements), static_cast<int64_t>(i % kElements)) ||
        still[i] != 7)
      fail("wrong bytes in step " + std::to_string(info.step));
  if (shared != values(info.step, 100)) fail("wrong bytes of rank 0 in step " + std::to_string(info.step));
  table.check();
  return {order_of(info), info.passed_over > 0};
}

std::string text(Order order) { return std::to_string(order.second) + " of session " + std::to_string(order.first); }

void follow() {
  const hpp::Store store = open_store(5000);
  Order best{-1, -1};
  while (!world->over) {
    const Order acked = newest_acked();
    try {
      const auto [found, passed_over] = load(store, "latest", 5000);
      note("the follower loads " + text(found));
      if (passed_over) continue;
      if (found < best) fail("latest went back from " + text(best) + " to " + text(found));
      if (found < acked) fail("latest is " + text(found) + ", " + text(acked) + " was acknowledged");
      best = found;
    } catch (const hpp::Error& error) {
      note(std::string("the follower: ") + error.status_name() + " " + error.what());
      const bool none = error.status() == CKPT_NOT_FOUND;
      if (none && acked.second >= 0) fail("there is nothing, and " + text(acked) + " was acknowledged");
      const bool fine =
          none || error.status() == CKPT_GONE || error.status() == CKPT_TIMEOUT || error.status() == CKPT_IO;
      if (!fine) fail(std::string("the follower: ") + error.status_name() + " " + error.what());
    }
    pause(static_cast<int64_t>(random(300)) * kMs);
  }
}

// Looks after a store from elsewhere.
static void operate_on(const hpp::Store& store) {
  while (!world->over) {
    pause(static_cast<int64_t>(random(2000)) * kMs);
    std::string what;
    try {
      switch (random(4)) {
        case 0:
          what = "prune";
          timed(what, 5000, [&] { store.prune({{"keep_last", 2}, {"timeout_ms", 5000}, {"dry_run", 0}}); });
          break;
        case 1:
          what = "list";
          timed(what, 5000, [&] { store.list(); });
          break;
        case 2:
          what = "verify";
          timed(what, 5000, [&] {
            const auto reader = hpp::Reader::open(store, "latest", {{"timeout_ms", 5000}});
            reader.verify({{"timeout_ms", 5000}}).wait(CKPT_JOB_DONE);
          });
          break;
        default:
          what = "runs";
          timed(what, 5000, [&] { store.runs(); });
      }
      note("the operator: " + what);
    } catch (const hpp::Error& error) {
      note("the operator: " + what + ": " + error.status_name() + " " + error.what());
      static const std::set<int> kPossible = {CKPT_IO, CKPT_TIMEOUT, CKPT_NOT_FOUND, CKPT_GONE};
      if (!kPossible.contains(error.status())) fail("the operator: " + what + ": " + error.status_name());
    }
  }
}
void operate() { operate_on(open_store(5000)); }
void operate_on_copies() { operate_on(open_copies(5000)); }

// The server of a network file system restarts.
void forget_locks() {
  while (!world->over) {
    pause(static_cast<int64_t>(random(20'000)) * kMs);
    note("the server forgets all locks");
    world->locks.forget_all();
  }
}

}  // namespace sim
