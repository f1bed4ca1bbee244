// Trainings in a world that a seed decides: ranks save, are killed, stall, lose answers, fence each other; a follower
// loads. What each call says is held against what happened.
//
//   sim_program FIRST COUNT [JOBS]   runs seeds FIRST to FIRST + COUNT - 1, each in a process of its own
//   sim_program SEED                 one of them, with what went on
//   sim_program shrink SEED          makes a failing one smaller, and prints the call that shows it
//   sim_program SEED 'EVENT …'       such a one: only these events happen
//   sim_program … whole              the same, also with what changed nothing: each call of the store
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "sim/shrink.h"
#include "sim/world.h"

namespace sim {

Order order_of(const hpp::CheckpointInfo& info) {
  return {std::stoll(std::string(info.id).substr(std::string(info.id).find('.') + 1)), info.step};
}
Order order_of(int64_t number) {
  return {world->trainings[static_cast<size_t>(world->steps[number].training)]->token, number};
}

uint32_t value(int64_t step, uint32_t rank, int64_t element) {
  return static_cast<uint32_t>(step * 1'000'003 + rank * 1009 + element);
}
std::vector<uint32_t> values(int64_t step, uint32_t rank) {
  std::vector<uint32_t> made(kElements);
  for (int64_t i = 0; i < kElements; i++) made[static_cast<size_t>(i)] = value(step, rank, i);
  return made;
}

Order newest_acked() {
  Order newest{-1, -1};
  for (const auto& [number, step] : world->steps)
    if (step.acked()) newest = std::max(newest, order_of(number));
  return newest;
}

hpp::Store open_store(int64_t timeout_ms) {
  return hpp::Store(new ckpt_store{{}, world->door(world->inner), world->door(world->mirror), {}, timeout_ms});
}
hpp::Store open_mirror(int64_t timeout_ms) {
  return hpp::Store(new ckpt_store{{}, world->door(world->mirror), nullptr, {}, timeout_ms});
}
hpp::Store open_copies(int64_t timeout_ms) {
  return hpp::Store(new ckpt_store{{}, world->door(world->copies.inner), nullptr, {}, timeout_ms});
}
std::shared_ptr<ckpt::store::Store> make_store(const std::string& name) {
  if (once_in(2)) return *ckpt::store::open_memory(name);
  const ckpt::store::Weakness weakness{.list_delay_ms = once_in(2) ? 0 : 500,
                                       .seed = static_cast<unsigned>(random(1000))};
  world->buckets.push_back(std::make_shared<ckpt::store::Bucket>(weakness));
  return std::make_shared<ckpt::store::WeakStore>(world->buckets.back());
}

Found committed(const hpp::Store& store) {
  Found found;
  for (const hpp::CheckpointInfo& info : timed("a list", 5000, [&] { return store.list(); }))
    if (info.state == CKPT_CHECKPOINT_COMMITTED && !found.emplace(order_of(info), info.id).second)
      fail("step " + std::to_string(info.step) + " is there twice");
  return found;
}

static void check_leftovers(const ckpt::store::Store& store) {
  for (const std::string folder : {".ckpt/attempts", ".ckpt/trash", ".ckpt/beats/copies"})
    if (const auto entries = store.list(folder); entries.ok() && !entries->empty())
      fail("left in " + store.path(folder) + ": " + entries->front().name);
}

namespace {

// ---- a rank ----

hpp::Session open_session(Training& training, uint32_t rank, const hpp::Store& store) {
  hpp::Options options{{"timeout_ms", training.timeout_ms}};
  if (training.incremental) options.set("incremental", "on");
  if (training.rendezvous && training.world > 1) options.set("rendezvous", 1);
  if (rank && !training.rendezvous) {
    while (training.session_string.empty()) {
      if (training.ended || killed(training.first_process)) throw std::runtime_error("rank 0 has no session");
      pause(50 * kMs);
    }
  }
  auto session = timed("opening a session", training.timeout_ms, [&] {
    return hpp::Session::open(store, rank, training.world, rank && !training.rendezvous ? training.session_string : "",
                              options);
  });
  if (rank == 0) training.opened_at = now(), training.session_string = session.string();
  note("training " + std::to_string(training.number) + " rank " + std::to_string(rank) + ": session");
  return session;
}

void save(Training& training, uint32_t rank, const hpp::Session& session, int64_t step) {
  hpp::Options options{{"timeout_ms", training.timeout_ms}};
  if (training.keep_last) options.set("keep_last", training.keep_last);
  options.set("most_runs", training.most_runs);
  // Never freed, since a thread that was left behind may use them; scribbled over as soon as the caller may.
  std::vector<uint32_t>& own = *new std::vector(values(step, rank));
  std::vector<uint32_t>& shared = *new std::vector(values(step, 100));
  std::vector<uint32_t>& still = *new std::vector<uint32_t>(kElements, 7);  // the same in each step
  TableRows rows = rows_of(step, rank, training.world);
  TableSave& table = *new TableSave(rows, training.tables[rank]);
  const auto scribble = [&] {
    table.scribble();
    for (std::vector<uint32_t>* one : {&own, &shared, &still}) std::fill(one->begin(), one->end(), 0xbad);
  };
  auto save = hpp::Save::create(session, "step-" + std::to_string(step), step, options);
  training.token = std::stoll(save.id().substr(save.id().find('.') + 1));
  const int64_t all = kElements * training.world;
  save.add_tensor("own", hpp::Tensor::of<uint32_t>({all}).flat(rank * kElements, kElements), hpp::Memory(own));
  save.add_tensor("still", hpp::Tensor::of<uint32_t>({all}).flat(rank * kElements, kElements), hpp::Memory(still));
  save.add_tensor("shared", {kElements}, shared);
  table.add(save, training.changes);
  training.tables[rank] = std::move(rows);
  try {
    timed(training.background ? "a save in the background" : "a save", training.timeout_ms, [&] {
      if (!training.background) return save.run();
      const hpp::Job job = save.start();
      scribble();
      if (training.impatient && once_in(2)) {  // at any moment of some sixty calls of the store
        if (once_in(2)) job.wait(CKPT_JOB_STAGED);
        const uint64_t most = std::min(60 * world->weather.most_ms_here(), static_cast<uint64_t>(training.timeout_ms));
        pause(static_cast<int64_t>(random(most)) * kMs);
        note("cancels its save");
        job.cancel();
      }
      job.wait(CKPT_JOB_DONE);
    });
  } catch (...) {
    scribble();
    throw;
  }
  scribble();
}

void await_others(Training& training, uint32_t rank, int64_t save) {
  training.at[rank] = save;
  const auto is_behind = [&](uint32_t other) {
    return training.at[other] < save && !killed(training.first_process + static_cast<int>(other));
  };
  for (uint32_t other = 0; training.in_step && other < training.world; other++)
    while (is_behind(other)) pause(10 * kMs);
}

void run_rank(Training& training, uint32_t rank) {
  const std::string who = "training " + std::to_string(training.number) + " rank " + std::to_string(rank) + ": ";
  try {
    const hpp::Store store = open_store(training.timeout_ms);
    std::optional<hpp::Session> session = open_session(training, rank, store);
    for (int64_t i = 0; i < training.saves; i++) {
      await_others(training, rank, i);
      Step& step = world->steps[training.step(i)];
      step.training = training.number;
      if (step.began_at < 0) step.began_at = now();
      std::string told = "OK";
      try {
        save(training, rank, *session, training.step(i));
        if (!step.acked()) step.acked_at = now();
      } catch (const hpp::Error& error) {
        told = error.status_name();
        note(who + "step " + std::to_string(training.step(i)) + ": " + told + " " + error.what());
      }
      step.told[rank] = told;
      note(who + "step " + std::to_string(training.step(i)) + ": " + told);
      if (told == "FENCED") break;
      static const std::set<std::string> kPossible = {"OK",     "ABORTED", "MISMATCH",  "TIMEOUT",        "IO",
                                                      "EXISTS", "GONE",    "NOT_FOUND", "COMMIT_UNKNOWN", "CANCELLED"};
      if (!kPossible.contains(told)) fail(who + "step " + std::to_string(training.step(i)) + ": " + told);
      pause(static_cast<int64_t>(random(200)) * kMs);
    }
    constexpr int64_t kFreeMs = 2000;
    const int64_t most = world->mirror ? std::max(training.timeout_ms, kFreeMs) : kFreeMs;
    timed("the end of a session", most, [&] { session.reset(); });
  } catch (const std::exception& error) {
    note(who + "ends: " + error.what());
  }
  training.at[rank] = INT64_MAX;
  training.ended++;
}

// ---- what must hold at the end ----

void check_words(const Found& found) {
  for (const auto& [number, step] : world->steps) {
    const bool there = found.contains(order_of(number));
    const auto newer = static_cast<int64_t>(std::distance(found.upper_bound(order_of(number)), found.end()));
    if (step.acked() && !there && (world->keep_last == 0 || newer < world->keep_last))
      fail("step " + std::to_string(number) + " was acknowledged, and is not there");
    for (const auto& [rank, told] : step.told)
      if ((there || step.acked()) && told != "OK" && told != "COMMIT_UNKNOWN")
        fail("step " + std::to_string(number) + " was committed, and rank " + std::to_string(rank) + " heard " + told);
    for (const auto& other : world->trainings)
      if (other->token > world->trainings[static_cast<size_t>(step.training)]->token && other->opened_at >= 0 &&
          step.acked() && step.began_at > other->opened_at)
        fail("step " + std::to_string(number) + " was committed after session " + std::to_string(other->token) +
             " had begun");
  }
}

// The last session has brought all that is in the store into the mirror.
void check_mirror() {
  const hpp::Store mirror = open_mirror(20'000);
  if (load(mirror, "latest", 20'000).order.second != 1'000'000) fail("the mirror lacks the latest");
}

void check_end() {
  world->weather = {};
  const hpp::Store store = open_store(20'000);
  const auto found = committed(store);
  for (const auto& [order, id] : found) {
    note("loads " + id);
    if (load(store, id, 20'000).order != order) fail("another step is in " + id);
  }
  check_words(found);
  const Order newest = newest_acked();
  if (newest.second >= 0 && (found.empty() || found.rbegin()->first < newest)) fail("the newest is lost");
  const auto open_last = [&] {
    return timed("the last session", 20'000,
                 [&] { return hpp::Session::open(store, 0, 1, "", {{"timeout_ms", 20'000}}); });
  };
  try {
    Training last{.number = 1000, .timeout_ms = 20'000};
    const hpp::Session session = open_last();
    save(last, 0, session, 1'000'000);
    if (world->mirror) session.mirror().wait(CKPT_JOB_DONE, 100'000);
  } catch (const hpp::Error& error) {
    fail(std::string("the last session cannot save: ") + error.status_name() + " " + error.what());
  }
  if (load(store, "latest", 20'000).order.second != 1'000'000) fail("the last save is not the latest");
  if (world->mirror) check_mirror();
  if (world->copies.inner) check_copies();
  pause(2 * kSecond);  // a list that lags hides what is to be removed from one session, not from the next
  open_last();
  pause(2 * kSecond);
  check_leftovers(*world->inner);
  if (world->copies.inner) check_leftovers(*world->copies.inner);
}

// ---- the seed's choices ----

void start(Training& training) {
  for (uint32_t rank = 0; rank < training.world; rank++)
    std::thread([&training, rank] {
      set_process(training.first_process + static_cast<int>(rank));
      pause(static_cast<int64_t>(random(100)) * kMs);
      run_rank(training, rank);
    }).detach();
}

std::unique_ptr<Training> choose_training(int number) {
  auto training = std::make_unique<Training>();
  training->number = number;
  training->first_process = 10 * (number + 1);
  constexpr uint32_t kRanks[] = {1, 2, 2, 3};
  training->world = kRanks[random(std::size(kRanks))];
  training->rendezvous = once_in(2);
  training->impatient = once_in(3);
  training->in_step = !once_in(3);
  training->background = training->impatient || once_in(2);
  training->incremental = once_in(2);
  training->changes = static_cast<Changes>(random(3));
  training->most_runs = 1 + static_cast<int64_t>(random(4));
  training->keep_last = static_cast<int64_t>(random(3));
  training->saves = 1 + static_cast<int64_t>(random(5));
  training->timeout_ms = once_in(3) ? 500 : once_in(2) ? 3000 : 20'000;
  training->first_step = 100 * (number + 1);
  return training;
}

bool is_over(const Training& training) {
  uint32_t gone = 0;
  for (uint32_t rank = 0; rank < training.world; rank++)
    gone += killed(training.first_process + static_cast<int>(rank)) ? 1 : 0;
  return training.ended + gone >= training.world;
}

void choose_weather() {
  world->inner = make_store("sim");
  if (once_in(3)) world->mirror = *ckpt::store::open_memory("mirror");
  if (once_in(2)) world->weather.fault_in = 20 + random(400);
  if (once_in(3)) world->weather.stall_in = 50 + random(2000);
  if (once_in(3)) world->weather.most_ms = 100;
  world->weather.patches = once_in(2);
  const char* const slow[] = {"", "", "MANIFEST", "PART_", ".ckpt/"};
  world->weather.slow = slow[random(std::size(slow))];
  world->weather.shared = once_in(3);
}

void start_others() {
  const auto start = [](int process, void (*act)()) {
    std::thread([process, act] { set_process(process), act(); }).detach();
  };
  if (once_in(2)) start(1, follow);
  if (once_in(3)) {
    world->keep_last = 2;
    start(2, operate);
  }
  if (world->weather.shared && once_in(2)) start(3, forget_locks);
  if (!once_in(3)) return;
  world->copies.inner = make_store("copies");
  start(4, copy_to_and_fro);
  if (once_in(2)) world->weather.last_call[4] = 1 + random(300);
  if (once_in(2)) start(5, copy_to_and_fro);  // goes on where the other one ended, or works beside it
  world->copies.pruned = once_in(2);
  if (world->copies.pruned) start(6, operate_on_copies);
}

bool committed_together() {
  return std::any_of(world->steps.begin(), world->steps.end(), [](const auto& one) {
    return one.second.acked() && world->trainings[static_cast<size_t>(one.second.training)]->world > 1;
  });
}

// Whether several ranks committed a step.
bool run_seed(uint64_t seed, const Smaller& smaller = {}, bool details = false) {
  begin(seed, smaller);
  if (details) keep_details();
  World made;
  made.seed = seed;
  world = &made;
  choose_weather();
  start_others();
  const auto trainings = static_cast<int>(1 + random(3));
  for (int number = 0; number < trainings; number++) {
    made.trainings.push_back(choose_training(number));
    Training& training = *made.trainings.back();
    if (training.keep_last && (made.keep_last == 0 || training.keep_last < made.keep_last))
      made.keep_last = training.keep_last;
    if (once_in(2))
      made.weather.last_call[training.first_process + static_cast<int>(random(training.world))] = 1 + random(200);
    for (uint32_t rank = 0; rank < training.world; rank++)
      if (once_in(5)) made.weather.times[training.first_process + static_cast<int>(rank)] = 30;
    start(training);
    const int64_t waits = once_in(2) ? 600 * kSecond : static_cast<int64_t>(random(3000)) * kMs;
    for (const int64_t until = now() + waits; now() < until && !is_over(training);) pause(50 * kMs);
  }
  const auto all_over = [&] {
    return std::all_of(made.trainings.begin(), made.trainings.end(), [](const auto& one) { return is_over(*one); });
  };
  for (const int64_t until = now() + 1800 * kSecond; !all_over();) {
    if (now() > until) fail("trainings do not end");
    pause(100 * kMs);
  }
  made.over = true;
  pause(100 * kSecond);                          // what was left behind comes to its end
  for (const int copies : {4, 5}) kill(copies);  // as a process that ends: no sign of life comes later
  check_end();
  return committed_together();
}

// ---- many seeds ----

constexpr int kTogether = 100;  // exit status of a world in which several ranks committed a step

int run_many(uint64_t first, uint64_t count, uint64_t jobs) {
  std::map<pid_t, uint64_t> running;
  uint64_t next = first, failed = 0, together = 0;
  const auto reap = [&] {
    int status = 0;
    const pid_t pid = wait(&status);
    const uint64_t seed = running[pid];
    running.erase(pid);
    const bool ended = WIFEXITED(status) != 0;
    const int code = ended ? WEXITSTATUS(status) : WTERMSIG(status);
    if (ended && code == kTogether) together++;
    if (ended && (code == 0 || code == kTogether)) return;
    failed++;
    std::printf("seed %llu: %s %d\n", static_cast<unsigned long long>(seed), ended ? "exit status" : "signal", code);
    std::fflush(stdout);
  };
  for (; next < first + count; next++) {
    while (running.size() >= jobs) reap();
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      std::freopen("/dev/null", "w", stdout);
      alarm(120);
      _exit(run_seed(next) ? kTogether : 0);
    }
    running[pid] = next;
  }
  while (!running.empty()) reap();
  std::printf("%llu seeds, %llu failed; in %llu several ranks committed a step\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(together));
  return failed || together < count / 4 ? 1 : 0;  // worlds in which all fails prove nothing
}

}  // namespace
}  // namespace sim

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) return std::fputs("see the head of world.cpp\n", stderr), 2;
  // Addresses are the same each time, since some orders depend on them.
  if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
    personality(ADDR_NO_RANDOMIZE);
    execv("/proc/self/exe", argv);
  }
  const auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 10); };
  if (std::strcmp(argv[1], "shrink") == 0) {
    const uint64_t seed = argc == 3 ? number(2) : 0;
    return sim::shrink(seed, [seed](const sim::Smaller& smaller) { sim::run_seed(seed, smaller); }) ? 0 : 1;
  }
  const bool whole = std::strcmp(argv[argc - 1], "whole") == 0;
  const int given = whole ? argc - 1 : argc;
  if (given == 2 || std::strpbrk(argv[2], " :")) {
    sim::run_seed(number(1), given == 2 ? sim::Smaller() : sim::read_smaller(argv[2]), whole);
    sim::note("all is well");
    sim::tell();
    std::fflush(stdout);
    _exit(0);
  }
  return sim::run_many(number(1), number(2), argc == 4 ? number(3) : 2);
}
