// ckpt_keeper: the policy of a run, and what it needs of the store.
#include "ckpt_keeper.h"

#include "api/handles.h"
#include "base/strformat.h"
#include "checkpoint/line.h"
#include "keeper/keeper.h"

using namespace ckpt;
using namespace ckpt::api;
using keeper::Keeper;

struct ckpt_keeper : Owned {
  std::unique_ptr<Keeper> keeper;
  ckpt_store store;
  int64_t patience_ms;
};

ckpt_status ckpt_keeper_new(ckpt_keeper** out, const ckpt_store* store, uint32_t rank, uint32_t world_size,
                            const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !store) return null_status("out or store");
    if (store->forked()) return forked_status();
    CKPT_TRY(refuse_job(options));
    const Options bag = options_of(options);
    const KeeperOptions given = keeper_options(bag);
    CKPT_ASSIGN(auto made, Keeper::make(given, rank, world_size));
    if (bag.set_text("on_existing")) made->spare_old();
    *out = new ckpt_keeper{{}, std::move(made), *store, given.timeout_ms};
    return Ok();
  });
}

void ckpt_keeper_free(ckpt_keeper* keeper) { release(keeper); }

const char* ckpt_keeper_warning(const ckpt_keeper* keeper) { return keeper ? keeper->keeper->warning() : nullptr; }

// Work with the store, which may hang: apart.
template <typename T, typename Body>
static Result<T> ask_store(const ckpt_keeper* keeper, Body body) {
  return make_apart<T>(std::make_shared<Job>(), keeper->patience_ms,
                       [kept = keeper->store, run = keeper->keeper->options().run, body = std::move(body)](Job&) {
                         return body(kept.places(), run);
                       });
}

// ---- when to save ----

ckpt_status ckpt_keeper_tell(ckpt_keeper* keeper, int32_t kind, const char* name, double value, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    return name ? keeper->keeper->tell(kind, name, value) : null_status("name");
  });
}

ckpt_status ckpt_keeper_step(ckpt_keeper* keeper, int64_t step, int32_t due, int64_t* votes, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    return keeper->keeper->step(step, due != 0, votes);
  });
}

int32_t ckpt_keeper_needs_votes(const ckpt_keeper* keeper) { return keeper && keeper->keeper->needs_votes(); }

ckpt_status ckpt_keeper_decide(ckpt_keeper* keeper, const int64_t* votes, int32_t* what, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    return what ? keeper->keeper->decide(votes, what) : null_status("what");
  });
}

void ckpt_keeper_stop(ckpt_keeper* keeper, int32_t why) {
  if (keeper) keeper->keeper->stop(why);
}

ckpt_status ckpt_keeper_catch(ckpt_keeper* keeper, int32_t signal_number, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    return keeper->keeper->catch_signal(signal_number);
  });
}

const char* ckpt_keeper_stopping(const ckpt_keeper* keeper) { return keeper ? keeper->keeper->stopping() : nullptr; }

// ---- saving ----

ckpt_status ckpt_keeper_plan(ckpt_keeper* keeper, const char* label, const char** plan, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    if (!plan) return null_status("plan");
    if (keeper->keeper->plans() && keeper->keeper->needs_history()) {
      CKPT_ASSIGN(auto entries, ask_store<std::vector<keeper::Entry>>(keeper, [](const auto& places, const auto& run) {
                    return keeper::read_history(places, run);
                  }));
      keeper->keeper->know(std::move(entries));
    }
    CKPT_ASSIGN(const std::string* const made, keeper->keeper->plan(label));
    *plan = made->c_str();
    return Ok();
  });
}

static Status set_option(Options* bag, const std::string& key, const std::string& value) {
  for (const OptionRow& row : option_rows())
    if (row.key == key && row.is_int) return bag->set_int(key, std::strtoll(value.c_str(), nullptr, 10));
  return bag->set_str(key, value);
}

// The reader of a state has loaded some of it, the tree at least, before it can tell that it does not fit.
static void note_unused(Keeper& keeper, const session::SessionPlan& plan) {
  for (const std::string& id : keeper.unrestored()) checkpoint::note_unused(plan.store_id, plan.run, id);
}

ckpt_status ckpt_keeper_begin(ckpt_save** out, ckpt_keeper* keeper, const ckpt_session* session, const char* plan,
                              const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    if (!out || !session || !plan) return null_status("out, session or plan");
    if (session->forked()) return forked_status();
    CKPT_ASSIGN(const Keeper::Plan how, Keeper::read_plan(plan));
    if (how.saved_already) {
      keeper->keeper->stop_as(how);
      *out = nullptr;
      return Ok();
    }
    CKPT_TRY(keeper->keeper->check_step(how));
    CKPT_TRY(keeper->keeper->check_session(session->session->plan().run, session->session->rank(),
                                           session->session->plan().world_size));
    note_unused(*keeper->keeper, session->session->plan());
    Options bag = options_of(options);
    for (const auto& [key, value] : how.options) CKPT_TRY(set_option(&bag, key, value));
    CKPT_ASSIGN(auto made, make_save(session, how.label, how.step, bag, refuse_job(options)));
    save::Save& save = *made->save;
    for (const auto& [key, value] : how.attributes) CKPT_TRY(save.noted(save.set_attr("", key, value)));
    const auto outcome = std::make_shared<std::atomic<keeper::Outcome>>(keeper::Outcome::kRunning);
    save.at_end([outcome](bool good) { *outcome = good ? keeper::Outcome::kCommitted : keeper::Outcome::kFailed; });
    keeper->keeper->begun(how, save.id(), outcome);
    keeper->keeper->stop_as(how);
    *out = made.release();
    return Ok();
  });
}

const char* ckpt_keeper_saved(ckpt_keeper* keeper) {
  const std::string* id = nullptr;
  (void)guard(nullptr, [&] {
    if (keeper) id = keeper->keeper->saved();
    return Ok();
  });
  return id ? id->c_str() : nullptr;
}

// ---- restoring ----

namespace {

struct Found {
  std::string id, warning;
  Status damage{};  // of its attributes
};

// Attributes that are damaged would be met only after the load. Any other failure, the load tells.
Found found_at(const checkpoint::Places& places, const checkpoint::CheckpointEntry& entry) {
  Found found{entry.id, ""};
  if (auto read = keeper::read_entry(places, entry); !read.ok() && keeper::is_damage(read.status().code()))
    found.damage = std::move(read).status();
  return found;
}

Result<Found> find_before(const checkpoint::Places& places, const std::string& run, const Keeper::Search& search) {
  CKPT_ASSIGN(const auto all, keeper::list_run(places, run));
  const auto at = std::ranges::find(all, search.before, &checkpoint::CheckpointEntry::id);
  if (at == all.end() || at == all.begin()) return search.damage;
  return found_at(places, *std::prev(at));
}

Result<Found> find_selected(const checkpoint::Places& places, const checkpoint::Question& question) {
  auto selected = checkpoint::find_checkpoint(places, question);
  if (!selected.ok() && selected.status().code() == CKPT_NOT_FOUND && question.selector == "latest") {
    CKPT_ASSIGN(const auto all, keeper::list_run(places, question.run));
    if (all.empty()) return Found{};
  }
  CKPT_ASSIGN(const auto selection, std::move(selected));
  Found found = found_at(places, selection.entry);
  for (const auto& entry : selection.passed_over)
    found.warning.append(found.warning.empty() ? "passed over " : "; ")
        .append(entry.id + ": " + entry.problem.message());
  return found;
}

Result<Found> find_best(const checkpoint::Places& places, const std::string& run, const Keeper::Search& search) {
  if (!search.best) {
    const auto labelled = checkpoint::find_checkpoint(places, {"label:" + search.selector, run, false});
    if (labelled.ok()) return Found{labelled->entry.id, ""};
    if (labelled.status().code() != CKPT_NOT_FOUND) return labelled.status();
  }
  CKPT_ASSIGN(auto entries, keeper::read_history(places, run));
  CKPT_ASSIGN(auto id, keeper::find_best(keeper::History(std::move(entries)), run, search.selector, search.best));
  return Found{std::move(id), ""};
}

}  // namespace

// A checkpoint whose attributes are damaged would fail only after its load.
static Result<Found> find_readable(const ckpt_keeper* keeper, const std::string& selector) {
  const bool refuse_damaged = keeper->keeper->options().on_damaged == "error";
  return ask_store<Found>(keeper,
                          [search = keeper->keeper->search(selector), refuse_damaged](
                              const checkpoint::Places& places, const std::string& run) -> Result<Found> {
                            if (!search.before.empty()) return find_before(places, run, search);
                            if (keeper::is_best(search.selector)) return find_best(places, run, search);
                            return find_selected(places, {search.selector, run, refuse_damaged});
                          });
}

ckpt_status ckpt_keeper_find(ckpt_keeper* keeper, const char* selector, const char** id, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    if (!selector || !id) return null_status("selector or id");
    std::string warning;
    for (;;) {
      CKPT_ASSIGN(Found found, find_readable(keeper, selector));
      const auto add = [&](const std::string& text) {
        warning += (warning.empty() || text.empty() ? "" : "; ") + text;
      };
      add(found.warning);
      const Status damage = found.damage;
      if (!damage.ok()) add("passed over " + found.id + ": " + damage.message());
      const std::string* const kept = keeper->keeper->found(std::move(found.id), warning);
      *id = kept ? kept->c_str() : nullptr;
      if (damage.ok()) return Ok();
      if (!keeper->keeper->plans()) return damage;  // rank 0 looks for the next one
      CKPT_TRY(keeper->keeper->pass_over(damage));
    }
  });
}

ckpt_status ckpt_keeper_pass_over(ckpt_keeper* keeper, ckpt_status status, const char* message, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    if (status == CKPT_OK) return Status(CKPT_INVALID, "status OK: nothing failed");
    return keeper->keeper->pass_over(Status(status, message ? message : ckpt_status_name(status)));
  });
}

ckpt_status ckpt_keeper_restored(ckpt_keeper* keeper, const ckpt_reader* reader, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(keeper, "keeper"));
    CKPT_TRY(usable(reader, "reader"));
    const int64_t step = reader->checkpoint->summary().step;
    CKPT_ASSIGN(const auto attributes, keeper::read_attributes(*reader->checkpoint));
    using Labels = std::vector<std::string>;
    Labels later;
    if (keeper->keeper->plans() && step >= 0) {
      CKPT_ASSIGN(later, ask_store<Labels>(keeper, [step](const auto& places, const auto& run) -> Result<Labels> {
                    CKPT_ASSIGN(const auto all, keeper::list_run(places, run));
                    Labels found;
                    for (const auto& entry : all)
                      if (entry.summary.step > step) found.push_back(entry.summary.label);
                    return found;
                  }));
    }
    keeper->keeper->restored(step, attributes, later);
    return Ok();
  });
}

const char* ckpt_keeper_number_at(const ckpt_keeper* keeper, int32_t kind, size_t index, double* value) {
  if (!keeper || index >= keeper->keeper->numbers(kind).size()) return nullptr;
  const auto at = std::next(keeper->keeper->numbers(kind).begin(), static_cast<std::ptrdiff_t>(index));
  if (value) *value = at->second;
  return at->first.c_str();
}
