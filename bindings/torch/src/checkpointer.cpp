#include "checkpointer.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace ckpt_torch {

using namespace internal;

Checkpointer::Checkpointer(const std::string& store, CheckpointerOptions options, Ranks ranks)
    : impl_(guarded([&] { return std::make_unique<Impl>(store, std::move(options), std::move(ranks)); })) {}
Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;
Checkpointer& Checkpointer::operator=(Checkpointer&&) noexcept = default;
Checkpointer::~Checkpointer() = default;

std::optional<std::string> Checkpointer::step(int64_t n, const State& state, const Numbers& metrics,
                                              const Numbers& counters) {
  return guarded([&] { return impl_->step({n, counters, metrics}, [&]() -> const State& { return state; }); });
}
std::optional<std::string> Checkpointer::step(int64_t n, const LazyState& state, const Numbers& metrics,
                                              const Numbers& counters) {
  State made;
  auto make = [&]() -> const State& { return made = state.make(); };
  return guarded([&] { return impl_->step({n, counters, metrics}, make); });
}
std::string Checkpointer::save(int64_t n, const State& state, const std::string& label, const Numbers& metrics,
                               const Numbers& counters) {
  return guarded([&] { return impl_->save({n, counters, metrics}, state, label); });
}
void Checkpointer::wait() {
  guarded([&] { impl_->settle(true); });
}
void Checkpointer::updating() {
  guarded([&] { impl_->session.wait_staged(); });
}
const std::optional<std::string>& Checkpointer::stopping() const { return impl_->stopping; }
std::optional<Restored> Checkpointer::restore(State& state, const Select& select, const RestoreOptions& options) {
  return guarded([&] { return impl_->restore(state, select.text(), options); });
}
Check Checkpointer::check(const State& state) {
  return guarded([&] { return impl_->check(state); });
}
void Checkpointer::close() {
  guarded([&] { impl_->close(); });
}

std::string internal::seconds_text(std::chrono::duration<double> time) {
  // Not by printf, which writes a comma where the locale has one.
  const double nanos = std::round(std::min(std::max(time.count(), -1e9), 1e9) * 1e9);
  const auto whole = static_cast<int64_t>(std::abs(nanos));
  std::string rest = std::to_string(whole % 1000000000);
  rest.insert(0, 9 - rest.size(), '0');
  return (nanos < 0 ? "-" : "") + std::to_string(whole / 1000000000) + "." + rest + " s";
}

Every::Every(std::initializer_list<Every> all) {
  for (const Every& one : all) {
    if (!one.text.empty()) text += (text.empty() ? "" : ", ") + one.text;
    predicates.insert(predicates.end(), one.predicates.begin(), one.predicates.end());
  }
}

// ---- from its options to its end ----

namespace {

std::string run_of(const CheckpointerOptions& options) {
  const auto found = options.settings.find("run");
  return found == options.settings.end() ? "main" : found->second.text();
}

// The engine knows what a run goes on from, and tells where that is not so.
CheckpointerOptions with_fresh(CheckpointerOptions options) {
  if (options.fresh) options.settings.insert_or_assign("continue_from", "none");
  return options;
}

// SIGTERM and SIGINT; in a job of SLURM SIGUSR1 too, which `sbatch --signal=USR1@120` sends before the end.
std::vector<int> default_signals() {
  if (std::getenv("SLURM_JOB_ID") != nullptr) return {SIGTERM, SIGINT, SIGUSR1};
  return {SIGTERM, SIGINT};
}

}  // namespace

Checkpointer::Impl::Impl(const std::string& uri, CheckpointerOptions given, Ranks ranks)
    : options(with_fresh(std::move(given))),
      store(uri),
      run(run_of(options)),
      session(uri, std::move(ranks), options.settings),
      keeper(ckpt::Keeper::create(session.store, policy(), session.ranks.rank, session.ranks.world_size)) {
  if (!ranks_agree() && !options.every.predicates.empty())
    fail(CKPT_INVALID,
         "ranks without a group cannot agree, so they cannot save by a predicate: each would save another "
         "step");
  if (!options.signals) options.signals = ranks_agree() ? default_signals() : std::vector<int>();
  for (const int number : *options.signals) keeper.catch_signal(number);
}

ckpt::Options Checkpointer::Impl::policy() const {
  Settings out{{"run", run},
               {"every", options.every.text},
               {"label", options.label},
               {"keep_last", options.keep_last},
               {"keep_every", options.keep_every},
               {"on_existing", options.overwrite ? "replace" : "error"},
               {"ranks_agree", int64_t{ranks_agree()}},
               {"time_limit", options.time_limit.text},
               {"time_margin_ms", static_cast<int64_t>(options.time_margin.count() * 1000)}};
  if (const auto& best = options.keep_best)
    out.emplace("keep_best", best->metric + ":" + best->mode + ":" + std::to_string(best->count));
  for (const char* key : {"continue_from", "keep_best", "keep_interval", "on_damaged", "read_only", "timeout_ms"})
    if (const auto found = options.settings.find(key); found != options.settings.end()) out.insert(*found);
  return options_of(out);
}

// The same as close() on this rank alone. In unwinding the session cancels the save.
Checkpointer::Impl::~Impl() {
  if (closed || session.unwinding || !flight) return;
  if (auto error = session.pending->wait_local())
    (void)std::fprintf(stderr, "ckpt: the save of '%s' in the background failed: %s: %s\n", flight->id.c_str(),
                       error->status_name(), error->what());
  (void)caught([&] { settle(false); });
}

void Checkpointer::Impl::close() {
  if (closed) return;
  closed = true;
  keeper = ckpt::Keeper(nullptr);  // gives the signals back
  settle(true);
  session.session = ckpt::Session(nullptr);
}

// ---- what ranks agree on ----

std::string Checkpointer::Impl::first(const std::function<std::string()>& make) {
  if (!session.group()) return make();
  std::string text;
  auto error = caught([&] {
    if (session.ranks.rank == 0) text = make();
  });
  return agree(session.group(), error, text)[0];
}

void Checkpointer::Impl::warn() const {
  if (const auto text = keeper.warning()) TORCH_WARN("ckpt: ", *text);
}

void Checkpointer::Impl::tell(const Moment& now) {
  check_open();
  for (const auto& [name, value] : now.counters) keeper.tell_counter(name, value);
  for (const auto& [name, value] : now.metrics) keeper.tell_metric(name, value);
}

ckpt::Keeper::Todo Checkpointer::Impl::decide(const Moment& now) {
  bool asked = false;
  for (const auto& predicate : options.every.predicates) asked |= predicate(now);
  auto votes = keeper.step(now.step, asked);
  warn();
  if (!session.group()) return keeper.decide(votes);
  if (!keeper.needs_votes() && options.every.predicates.empty()) return keeper.decide();
  const auto most = session.group()->all_max({votes.begin(), votes.end()});
  std::copy(most.begin(), most.end(), votes.begin());
  if (votes[2] != -votes[3]) same_on_all(session.group(), {{"step", std::to_string(now.step)}});
  return keeper.decide(votes);
}

// ---- saving ----

std::optional<std::string> Checkpointer::Impl::step(const Moment& now, const Make& make) {
  tell(now);
  settle(false);
  session.wait_at_most();
  const auto todo = decide(now);
  const bool last = !stopping && keeper.stopping();  // also where the last save has failed before
  if (!last && todo == ckpt::Keeper::Todo::go_on) return std::nullopt;
  const State* state = nullptr;
  agree(session.group(), caught([&] { state = &make(); }));  // or the others would wait for a rank that cannot make it
  if (last) return save_for_the_last_time(now, *state);
  return save_now(now, *state, std::nullopt);
}

std::string Checkpointer::Impl::save_for_the_last_time(const Moment& now, const State& state) {
  // The failure of the save before is told aloud; this save matters now.
  if (auto error = caught([&] { settle(true); })) TORCH_WARN("ckpt: ", error->what());
  const std::string id = save_now(now, state, std::nullopt);
  settle(true);
  stopping = keeper.stopping();
  return id;
}

std::string Checkpointer::Impl::save(const Moment& now, const State& state, const std::string& label) {
  tell(now);
  keeper.at_step(now.step);
  const std::string id = save_now(now, state, label.empty() ? std::nullopt : std::optional(label));
  if (!stopping && keeper.stopping()) {
    settle(true);
    stopping = keeper.stopping();
  }
  return id;
}

std::string Checkpointer::Impl::save_now(const Moment& now, const State& state,
                                         const std::optional<std::string>& label) {
  settle(true);
  session.wait_at_most();
  const std::string plan = first([&] {
    std::string made = keeper.plan(label);
    warn();
    return made;
  });
  const ckpt::Tree tree = ckpt::Tree::parse(plan);
  if (const auto saved = tree.root().find("saved")) {
    (void)*keeper.save(session.session, plan, {});  // none; the keeper learns whether this is the end
    return std::string(saved->as_text());
  }
  SaveOptions save;
  save.step = now.step;
  save.label = tree.root()["label"].as_text();
  save.rng = options.rng;
  save.in_place = options.in_place;
  save.hooks = options.hooks;
  const Session::Impl::Begin begin = [&](const ckpt::Options& over) {
    return *keeper.save(session.session, plan, over);
  };
  SaveHandle handle = session.save_async(state, save, begin);
  flight = Flight{handle, handle.id()};
  return handle.id();
}

// Notes that the save in flight has been committed, once it is; with `wait` (COLLECTIVE) waits for that, and throws its
// failure. Without, a failure is told aloud and left for the next save, which all ranks make in the same step.
void Checkpointer::Impl::settle(bool wait) {
  if (!flight) return;
  if (wait) {
    const Flight landed = *std::move(flight);
    flight.reset();
    session.wait_pending();
    if (!landed.told) committed(landed.id);
    return;
  }
  if (flight->told || !flight->handle.done()) return;
  flight->told = true;
  const auto error = session.pending->wait_local();
  if (error) {
    TORCH_WARN("ckpt: the save of ", in_quotes(flight->id), " failed: ", error->what());
  } else {
    committed(flight->id);
  }
}

void Checkpointer::Impl::committed(const std::string& id) {
  if (!options.on_commit || (options.on_commit_ranks != CommitRanks::all && session.ranks.rank != 0)) return;
  // The other ranks do not know of an exception here, and would wait for this one.
  try {
    options.on_commit(session.store.find(id, options_of(Settings{{"run", run}})));
  } catch (const std::exception& error) {
    TORCH_WARN("ckpt: on_commit of ", in_quotes(id), " failed; the checkpoint is committed: ", line(error.what()));
  }
}

}  // namespace ckpt_torch
