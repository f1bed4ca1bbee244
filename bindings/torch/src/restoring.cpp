// Which checkpoint a trainer starts from: the same on all ranks, and past damaged ones aloud.
#include <algorithm>
#include <sstream>

#include "checkpointer.h"

namespace ckpt_torch {

using namespace internal;

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

std::optional<Restored> Checkpointer::Impl::restore_with(const LoadById& load, const std::string& select) {
  check_open();
  settle(true);
  session.wait_at_most();
  std::vector<std::string> undefined;
  std::optional<Error> damage;
  for (;;) {
    std::string id;
    const auto lost = caught([&] {
      id = first([&] {
        const auto found = keeper.find(select);
        warn();
        return found.value_or("");
      });
    });
    if (lost) throw damage ? *damage : *lost;
    if (id.empty()) return std::nullopt;
    Restored out;
    damage = caught([&] { static_cast<Loaded&>(out) = load(id); });
    if (!damage) {
      agree(session.group(), caught([&] {  // on all ranks, of which others may have smaller models
              if (leaves_undefined(out, undefined))
                fail(CKPT_CORRUPT,
                     "what a damaged checkpoint has left undefined is not in " + id + ": " + listed(undefined));
              keeper.restored(ckpt::Reader::open(session.store, id, options_of(Settings{{"run", run}})));
            }));
      warn();
      out.metrics = keeper.metrics();
      out.counters = keeper.counters();
      return out;
    }
    if (caught([&] { first([&] { return keeper.pass_over(*damage), std::string(); }); })) throw *damage;
    const std::string why = damage->what();  // the next one fills what is undefined now
    if (!session.group() || session.ranks.rank == 0)
      TORCH_WARN("ckpt: passed over ", id, ": ", why.substr(0, why.find(kUndefinedNow)));
    std::istringstream names(damage->detail("undefined"));
    for (std::string name; std::getline(names, name);) undefined.push_back(name);
  }
}

}  // namespace ckpt_torch
