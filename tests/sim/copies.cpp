// An operator's `ckpt cp` between the store and another one: to and fro, cancelled, killed, begun again, beside all
// else.
#include <thread>

#include "sim/world.h"

namespace sim {

static constexpr int64_t kTimeoutMs = 5000;

// Cancels a call at any moment of some hundred calls of the store.
static void cancel_later(const std::shared_ptr<const hpp::Job>& job) {
  const auto ms = static_cast<int64_t>(random(100 * world->weather.most_ms_here()));
  std::thread([job, ms] { pause(ms * kMs), note("cancels its copy"), job->cancel(); }).detach();
}

// "OK" or what it said.
static std::string copy(const hpp::Reader& reader, const hpp::Store& to) {
  const bool cancels = once_in(4);
  const auto job = std::make_shared<const hpp::Job>(hpp::Job::create());
  if (cancels) cancel_later(job);
  hpp::Options options{{"timeout_ms", kTimeoutMs}, {"staging_bytes", 8 << 20}, {"threads", 2}};
  if (once_in(2)) options.set("check", "full");
  try {
    timed("a copy", kTimeoutMs, [&] { reader.copy(to, options.set_job(*job)); });
    return "OK";
  } catch (const hpp::Error& error) {
    note(std::string("a copy: ") + error.what());
    static const std::set<int> kPossible = {CKPT_IO,       CKPT_TIMEOUT, CKPT_GONE,          CKPT_NOT_FOUND,
                                            CKPT_CONFLICT, CKPT_ABORTED, CKPT_COMMIT_UNKNOWN};
    if (!kPossible.contains(error.status()) && !(cancels && error.status() == CKPT_CANCELLED))
      fail(std::string("a copy: ") + error.status_name() + " " + error.what());
    return error.status_name();
  }
}

static void copy_one(const hpp::Store& from, const hpp::Store& to, bool back) {
  const Found found = committed(from);
  if (found.empty()) return;
  const auto& [order, id] = *std::next(found.begin(), static_cast<ptrdiff_t>(random(found.size())));
  const auto reader = timed("opening what is copied", kTimeoutMs,
                            [&] { return hpp::Reader::open(from, id, {{"timeout_ms", kTimeoutMs}}); });
  note("copies " + id + (back ? " back" : ""));
  Copies& copies = world->copies;
  if (!back) copies.begun[id]++;
  const std::string said = copy(reader, to);
  note((back ? "the copy back of " : "the copy of ") + id + ": " + said);
  if (!back) copies.begun[id]--;
  if (!back && said == "COMMIT_UNKNOWN") copies.unknown.insert(id);
  if (said != "OK") return;
  if (!back) copies.made.insert(id);
  try {
    if (load(to, id, kTimeoutMs).order != order) fail("another step is in the copy " + id);
  } catch (const hpp::Error& error) {
    const bool gone = error.status() == CKPT_NOT_FOUND || error.status() == CKPT_GONE;
    if (gone && !back && !copies.pruned) fail("the copy of " + id + " was made, and is not there");
    throw;
  }
}

void copy_to_and_fro() {
  const hpp::Store here = open_store(kTimeoutMs), there = open_copies(kTimeoutMs);
  while (!world->over) {
    pause(static_cast<int64_t>(random(1500)) * kMs);
    const bool back = random(4) == 0;
    try {
      copy_one(back ? there : here, back ? here : there, back);
    } catch (const hpp::Error& error) {
      note(std::string("who copies: ") + error.status_name() + " " + error.what());
      static const std::set<int> kPossible = {CKPT_IO, CKPT_TIMEOUT, CKPT_NOT_FOUND, CKPT_GONE};
      // Pruned from the store while the mirror has but a part of it.
      const bool half_there = world->mirror && error.status() == CKPT_INCOMPLETE;
      if (!half_there && !kPossible.contains(error.status())) fail(std::string("who copies: ") + error.status_name());
    }
  }
}

static void clean_up(const hpp::Store& store) {
  for (int i = 0; i < 2; i++) {
    store.prune({{"timeout_ms", 20'000}});
    pause(2 * kSecond);
  }
  for (const hpp::CheckpointInfo& info : store.list())
    if (info.state != CKPT_CHECKPOINT_COMMITTED && info.state != CKPT_CHECKPOINT_ABORTED)
      fail("an unfinished copy is left: " + std::string(info.id));
}

void check_copies() {
  const Copies& copies = world->copies;
  const hpp::Store store = open_copies(20'000);
  Found found;
  try {
    found = committed(store);
  } catch (const hpp::Error& error) {
    if (error.status() == CKPT_NOT_FOUND) return;  // nothing was ever put there
    throw;
  }
  std::set<std::string> ids;
  for (const auto& [order, id] : found) {
    ids.insert(id);
    const auto begun = copies.begun.find(id);
    if (!copies.made.contains(id) && !copies.unknown.contains(id) && (begun == copies.begun.end() || !begun->second))
      fail("a copy of " + id + " is there, and each call said that it failed");
    if (load(store, id, 20'000).order != order) fail("another step is in the copy " + id);
  }
  for (const std::string& id : copies.made)
    if (!copies.pruned && !ids.contains(id)) fail("the copy of " + id + " was made, and is lost");
  constexpr int64_t kTwoDaysMs = int64_t{48} * 3600 * 1000;  // nobody works on what was left by then
  for (const auto& bucket : world->buckets) bucket->set_forward(kTwoDaysMs);
  if (world->mirror) clean_up(open_mirror(20'000));  // whose copies the store's list tells, too
  clean_up(open_store(20'000));
  clean_up(store);
}

}  // namespace sim
