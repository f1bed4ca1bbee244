// Which checkpoint a trainer starts from: the same on all ranks, and past damaged ones aloud.
#include <algorithm>
#include <sstream>

#include "checkpointer.h"

namespace ckpt_torch {

using namespace internal;

std::string Checkpointer::Impl::candidate(const std::string& select, const std::vector<std::string>& passed) {
  if (select == "best" && options.keep_best) return find_best(session.store, run, select, options.keep_best);
  if (select != "latest") return session.find(select, {});
  if (passed.empty()) return newest();
  const auto all = committed_of(session.store, run);
  auto at = std::find_if(all.begin(), all.end(), [&](const auto& info) { return info.id == passed.back(); });
  return at == all.end() || at == all.begin() ? "" : std::prev(at)->id;
}

// The newest whose manifest and parts are there.
std::string Checkpointer::Impl::newest() {
  try {
    return session.find("latest", {});
  } catch (const Error& error) {
    if (error.status() != CKPT_NOT_FOUND || !committed_of(session.store, run).empty()) throw;
    return "";
  }
}

static LoadOptions load_options_of(const RestoreOptions& given, const CheckpointerOptions& options) {
  LoadOptions out;
  out.strict = given.strict;
  out.convert = given.convert;
  out.stage_first = given.stage_first;
  out.or_rank0 = given.or_rank0;
  out.map_location = given.map_location;
  out.rng = given.rng;
  out.hooks = options.hooks;
  return out;
}

// Whether a checkpoint lacks a tensor that the damaged one before it has left undefined.
static bool leaves_undefined(const Loaded& loaded, const std::vector<std::string>& undefined) {
  return std::any_of(undefined.begin(), undefined.end(), [&](const std::string& name) {
    return std::any_of(loaded.missing.begin(), loaded.missing.end(), [&](const auto& one) { return one == name; }) ||
           std::any_of(loaded.other_shape.begin(), loaded.other_shape.end(),
                       [&](const auto& one) { return one.compare(0, name.size() + 1, name + ":") == 0; });
  });
}

std::optional<Restored> Checkpointer::Impl::restore(State& state, const std::string& select,
                                                    const RestoreOptions& given) {
  const LoadOptions load = load_options_of(given, options);
  const Choice choice(given);
  return restore_with([&](const std::string& id) { return session.load_state(id, state, load, choice); }, select);
}

// What the run has of later steps is no more of this training: its saves replace that.
void Checkpointer::Impl::go_on_from(int64_t step) {
  if (step < 0) return;
  const auto later = first([&] {
    std::vector<std::string> found;
    for (const auto& info : committed_of(session.store, run))
      if (info.step > step) found.push_back(info.label);
    return found;
  });
  from = step;
  history.reset();
  if (latest && latest->step > step) latest.reset();
  std::vector<std::string> told;
  for (const std::string& label : later)
    if (std::count(replaced.begin(), replaced.end(), label) == 0) told.push_back(label);
  replaced.insert(replaced.end(), told.begin(), told.end());
  if (!told.empty() && session.ranks.rank == 0)
    TORCH_WARN("ckpt: the run goes on from step ", step, ", and has ", listed(told),
               " of later steps: saves with these found replace them, and retention leaves them");
}

std::optional<Restored> Checkpointer::Impl::restore_with(const LoadById& load, const std::string& select) {
  check_open();
  settle(true);
  const auto on_damaged = options.settings.find("on_damaged");
  const bool may_pass =
      select == "latest" && (on_damaged == options.settings.end() || on_damaged->second.text() != "error");
  session.wait_at_most();
  std::vector<std::string> passed, undefined;
  std::optional<Error> damage;
  for (;;) {
    const std::string id = first([&] { return std::vector<std::string>{candidate(select, passed)}; })[0];
    if (id.empty() && damage) throw *damage;
    if (id.empty()) return std::nullopt;
    Restored out;
    damage = caught([&] { static_cast<Loaded&>(out) = load(id); });
    if (!damage) {
      agree(session.group(), caught([&] {  // on all ranks, of which others may have smaller models
              if (leaves_undefined(out, undefined))
                fail(CKPT_CORRUPT,
                     "what a damaged checkpoint has left undefined is not in " + id + ": " + listed(undefined));
            }));
      const Moment then = moment_of(out.step, out.attrs);
      out.metrics = then.metrics;
      out.counters = then.counters;
      last = then.step >= 0 ? std::optional<Moment>(then) : std::nullopt;
      go_on_from(then.step);
      return out;
    }
    if (!is_damage(damage->status()) || !may_pass) throw *damage;
    const std::string why = damage->what();  // the next one fills what is undefined now
    if (!session.group() || session.ranks.rank == 0)
      TORCH_WARN("ckpt: passed over ", id, ": ", why.substr(0, why.find(kUndefinedNow)));
    passed.push_back(id);
    replaced.push_back(id.substr(0, id.rfind('.', id.rfind('.') - 1)));  // its label
    std::istringstream names(damage->detail("undefined"));
    for (std::string name; std::getline(names, name);) undefined.push_back(name);
  }
}

}  // namespace ckpt_torch
