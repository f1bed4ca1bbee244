#include "checkpointer.h"

#include <algorithm>
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
  return guarded([&] {
    impl_->last = Moment{n, counters, metrics};
    return impl_->save(*impl_->last, state, label);
  });
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

// ---- from its options to its end ----

namespace {

std::string run_of(const CheckpointerOptions& options) {
  const auto found = options.settings.find("run");
  return found == options.settings.end() ? "main" : found->second.text();
}

std::map<std::string, std::string> label_variables(const std::string& run, const Ranks& ranks) {
  const char* local = std::getenv("LOCAL_WORLD_SIZE");
  const std::string size = std::to_string(ranks.world_size);
  return {{"run_name", run}, {"world_size", size}, {"local_world_size", local ? local : size}};
}

// The engine knows what a run goes on from, and tells where that is not so.
CheckpointerOptions with_fresh(CheckpointerOptions options) {
  if (options.fresh) options.settings.insert_or_assign("continue_from", "none");
  return options;
}

}  // namespace

Checkpointer::Impl::Impl(const std::string& uri, CheckpointerOptions given, Ranks ranks)
    : options(with_fresh(std::move(given))),
      store(uri),
      run(run_of(options)),
      labels(options.label, label_variables(run, ranks)),
      session(uri, std::move(ranks), options.settings) {
  if (!options.signals) options.signals = ranks_agree() ? default_signals() : std::vector<int>();
  check_options();
  signals = std::make_unique<Signals>(*options.signals);
  if (options.fresh) from = -1;
}

void Checkpointer::Impl::check_options() const {
  auto demand = [](bool right, const std::string& message) {
    if (!right) fail(CKPT_INVALID, message);
  };
  demand(options.keep_last >= 0 && options.keep_every >= 0, "keep_last and keep_every: expected 0 or more, found " +
                                                                std::to_string(options.keep_last) + " and " +
                                                                std::to_string(options.keep_every));
  demand(options.keep_last > 0 || options.keep_every == 0,
         "keep_every has no effect without keep_last, which says how many of the newest checkpoints stay: without it "
         "all are kept");
  demand(options.keep_last == 0 || labels.numbered(),
         "keep_last removes only checkpoints whose label has their step in it: expected {step} or {batch} in label, "
         "found " +
             in_quotes(options.label));
  if (const auto& best = options.keep_best)
    demand((best->mode == "min" || best->mode == "max") && best->count > 0,
           "keep_best: expected a metric, \"min\" or \"max\", and how many, found " + in_quotes(best->metric) + ", " +
               in_quotes(best->mode) + ", " + std::to_string(best->count));
  demand(ranks_agree() || (options.signals->empty() && !options.time_limit.end() && !needs_agreement(options.every)),
         "ranks without a group cannot agree, so they cannot save on a signal, a time limit, a clock or a predicate: "
         "each would save another step");
}

// The same as close() on this rank alone. In unwinding the session cancels the save.
Checkpointer::Impl::~Impl() {
  if (closed || session.unwinding || !flight) return;
  if (auto error = session.pending->wait_local())
    (void)std::fprintf(stderr, "ckpt: the save of '%s' in the background failed: %s: %s\n", flight->entry.label.c_str(),
                       error->status_name(), error->what());
  (void)caught([&] { settle(false); });
}

void Checkpointer::Impl::close() {
  if (closed) return;
  closed = true;
  signals.reset();
  settle(true);
  session.session = ckpt::Session(nullptr);
}

// ---- what ranks agree on ----

std::vector<int64_t> Checkpointer::Impl::most(const std::vector<int64_t>& numbers) {
  return session.group() ? session.group()->all_max(numbers) : numbers;
}

std::vector<std::string> Checkpointer::Impl::first(const std::function<std::vector<std::string>()>& make) {
  if (!session.group()) return make();
  std::string text;
  auto error = caught([&] {
    if (session.ranks.rank == 0) text = packed(make());
  });
  return unpacked(agree(session.group(), error, text)[0]);
}

std::pair<bool, std::string> Checkpointer::Impl::decide(const Moment& now) {
  const bool due = due_by_count(options.every, now, last);
  const auto& end = options.time_limit.end();
  if (!needs_agreement(options.every) && !signals->caught() && !end) return {due, ""};
  const auto clock = TimeLimit::Clock::now();
  const std::chrono::duration<double> since = clock - saved_at;
  const bool asked = due_by_time(options.every, now, since.count());
  std::string why = signals->received();
  if (why.empty() && end && clock >= *end - std::chrono::duration_cast<TimeLimit::Clock::duration>(options.time_margin))
    why = "time limit";
  const auto voted = most({asked, !why.empty(), now.step, -now.step});
  if (voted[2] != -voted[3]) same_on_all(session.group(), {{"step", std::to_string(now.step)}});
  if (voted[1] == 0 || stopping) return {due || voted[0] != 0, ""};
  for (const std::string& told : agree(session.group(), std::nullopt, why))
    if (!told.empty()) return {true, told};
  return {true, why};
}

// ---- saving ----

void Checkpointer::Impl::check_can_save(const Moment& now) const {
  check_open();
  if (now.step < 0)
    fail(CKPT_INVALID, "a Checkpointer counts steps: expected a number from 0 on, found " + std::to_string(now.step),
         {{"expected", "0 or more"}, {"found", std::to_string(now.step)}});
}

std::optional<std::string> Checkpointer::Impl::step(const Moment& now, const Make& make) {
  check_can_save(now);
  if (last && now.step < last->step && session.ranks.rank == 0)
    TORCH_WARN("ckpt: step ", now.step, " comes after step ", last->step,
               ", and nothing was restored in between: `every` counts steps upwards, and does not save it");
  settle(false);
  session.wait_at_most();
  const auto [due, why_last] = decide(now);
  last = now;
  if (!due) return std::nullopt;
  const State* state = nullptr;
  agree(session.group(), caught([&] { state = &make(); }));  // or the others would wait for a rank that cannot make it
  return why_last.empty() ? save(now, *state, "") : save_for_the_last_time(now, *state, why_last);
}

std::string Checkpointer::Impl::save_for_the_last_time(const Moment& now, const State& state, const std::string& why) {
  // The failure of the save before is told aloud; this save matters now.
  if (auto error = caught([&] { settle(true); })) TORCH_WARN("ckpt: ", error->what());
  const std::string id = save(now, state, "");
  settle(true);
  stopping = why;
  return id;
}

std::string Checkpointer::Impl::save(const Moment& now, const State& state, const std::string& label) {
  check_can_save(now);
  settle(true);
  session.wait_at_most();
  const Plan plan = this->plan(now, label);
  if (latest && latest->label == plan.label) return latest->id;
  SaveOptions save;
  save.step = now.step;
  save.label = plan.label;
  save.rng = options.rng;
  save.in_place = options.in_place;
  save.attrs = plan.attributes;
  save.settings = plan.settings;
  save.hooks = options.hooks;
  SaveHandle handle = session.save_async(state, save);
  saved_at = TimeLimit::Clock::now();
  flight = Flight{handle, {handle.id(), plan.label, now.step, now.metrics, !label.empty()}};
  return handle.id();
}

Checkpointer::Impl::Plan Checkpointer::Impl::plan(const Moment& now, const std::string& label) {
  const auto words = first([&]() -> std::vector<std::string> {
    const Entry next{"", label.empty() ? labels.label(now) : label, now.step, now.metrics, !label.empty()};
    const bool replace = options.overwrite || std::count(replaced.begin(), replaced.end(), next.label) > 0;
    std::vector<std::string> out{next.label, replace ? "replace" : "", "", ""};
    if (options.keep_last > 0) {
      if (!history) {
        history = std::make_unique<History>(session.store, run);
        if (from) history->forget_after(*from);
      }
      out[2] = std::to_string(history->keep_last(options.keep_last, next));
      out[3] = history->protected_labels(options.keep_best, next);
    }
    for (const auto& [key, value] : attributes_of(now, next.kept, options.keep_best))
      out.insert(out.end(), {key, value});
    return out;
  });
  Plan plan{words[0], {}, {}};
  if (!words[1].empty()) plan.settings.emplace("on_existing", words[1]);
  if (!words[2].empty()) {
    plan.settings.emplace("keep_last", words[2]);
    plan.settings.emplace("keep_every", options.keep_every);
    plan.settings.emplace("protect", words[3]);
  }
  for (size_t i = 4; i + 1 < words.size(); i += 2) plan.attributes.emplace(words[i], words[i + 1]);
  return plan;
}

// Notes that the save in flight has been committed, once it is; with `wait` (COLLECTIVE) waits for that, and throws its
// failure. Without, a failure is told aloud and left for the next save, which all ranks make in the same step.
void Checkpointer::Impl::settle(bool wait) {
  if (!flight) return;
  if (wait) {
    const Flight landed = *std::move(flight);
    flight.reset();
    session.wait_pending();
    if (!landed.told) committed(landed.entry);
    return;
  }
  if (flight->told || !flight->handle.done()) return;
  flight->told = true;
  const auto error = session.pending->wait_local();
  if (error) {
    TORCH_WARN("ckpt: the save of ", in_quotes(flight->entry.id), " failed: ", error->what());
  } else {
    committed(flight->entry);
  }
}

void Checkpointer::Impl::committed(const Entry& entry) {
  latest = entry;
  replaced.erase(std::remove(replaced.begin(), replaced.end(), entry.label), replaced.end());
  if (history) history->add(entry);
  if (!options.on_commit || (options.on_commit_ranks != CommitRanks::all && session.ranks.rank != 0)) return;
  // The other ranks do not know of an exception here, and would wait for this one.
  try {
    options.on_commit(session.store.find(entry.id, options_of(Settings{{"run", run}})));
  } catch (const std::exception& error) {
    TORCH_WARN("ckpt: on_commit of ", in_quotes(entry.id),
               " failed; the checkpoint is committed: ", line(error.what()));
  }
}

}  // namespace ckpt_torch
