// ckpt_store and ckpt_list: what a store holds.
#include "api/handles.h"
#include "base/text.h"
#include "checkpoint/given_names.h"
#include "checkpoint/line.h"
#include "commit/kept.h"
#include "maintain/dead_copies.h"
#include "maintain/repair.h"

using namespace ckpt;
using namespace ckpt::api;

ckpt_status ckpt_store_open(ckpt_store** out, const char* uri, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !uri) return null_status("out or uri");
    CKPT_TRY(refuse_job(options));
    const StoreOptions given = store_options(options_of(options));
    const auto open = [asked = std::string(uri), given](Job&) { return store::open_places(asked, given); };
    CKPT_ASSIGN(auto opened, make_apart<store::OpenedPlaces>(std::make_shared<Job>(), given.timeout_ms, open));
    *out = new ckpt_store{
        {}, std::move(opened.store), std::move(opened.mirror), std::move(opened.cache_trouble), given.timeout_ms};
    return Ok();
  });
}

void ckpt_store_free(ckpt_store* store) { release(store); }

ckpt_status ckpt_store_list(const ckpt_store* store, ckpt_list** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !out) return null_status("store or out");
    if (store->forked()) return forked_status();
    using Entries = std::vector<checkpoint::CheckpointEntry>;
    const auto list = [kept = ckpt_store(*store)](Job&) -> Result<Entries> {
      CKPT_ASSIGN(Entries entries, checkpoint::list_places(kept.places()));
      checkpoint::measure(kept.places(), entries);
      commit::note_kept(*kept.store, entries);
      checkpoint::note_names(*kept.store, entries);
      return entries;
    };
    CKPT_ASSIGN(auto entries, make_apart<Entries>(std::make_shared<Job>(), store->patience_ms, list));
    *out = new ckpt_list{{}, std::move(entries)};
    return Ok();
  });
}

size_t ckpt_list_count(const ckpt_list* list) { return list ? list->entries.size() : 0; }

ckpt_status ckpt_list_at(const ckpt_list* list, size_t index, ckpt_checkpoint_info* out, ckpt_error** err) {
  return guard(err, [&] {
    if (!list) return null_status("list");
    if (index >= list->entries.size())
      return Status(CKPT_NOT_FOUND, strformat("entry {} of {}", index, list->entries.size()));
    ckpt_checkpoint_info info{};
    checkpoint::fill_info(list->entries[index], &info);
    return put_info(info, out);
  });
}

void ckpt_list_free(ckpt_list* list) { release(list); }

ckpt_status ckpt_store_runs(const ckpt_store* store, ckpt_runs** out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(store, "store"));
    if (!out) return null_status("out");
    CKPT_ASSIGN(auto entries, make_apart<std::vector<session::RunEntry>>(
                                  std::make_shared<Job>(), store->patience_ms,
                                  [kept = store->store](Job&) { return session::list_runs(*kept); }));
    *out = new ckpt_runs{{}, std::move(entries)};
    return Ok();
  });
}

size_t ckpt_runs_count(const ckpt_runs* runs) { return runs ? runs->entries.size() : 0; }

static ckpt_run_info describe(const session::RunEntry& run) {
  ckpt_run_info info{};
  info.token = run.token;
  info.checkpoint_count = run.committed;
  info.newest_step = run.newest ? run.newest->summary.step : -1;
  put_text(info.name, run.name);
  if (!run.newest) return info;
  put_text(info.newest_id, run.newest->id);
  put_text(info.newest_label, run.newest->summary.label);
  return info;
}

ckpt_status ckpt_runs_at(const ckpt_runs* runs, size_t index, ckpt_run_info* out, ckpt_error** err) {
  return guard(err, [&] {
    if (!runs) return null_status("runs");
    if (index >= runs->entries.size())
      return Status(CKPT_NOT_FOUND, strformat("run {} of {}", index, runs->entries.size()));
    return put_info(describe(runs->entries[index]), out);
  });
}

void ckpt_runs_free(ckpt_runs* runs) { release(runs); }

ckpt_status ckpt_store_find(const ckpt_store* store, const char* selector, const ckpt_options* options,
                            ckpt_checkpoint_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !selector) return null_status("store or selector");
    CKPT_TRY(refuse_job(options));
    if (store->forked()) return forked_status();
    const FindOptions given = find_options(options_of(options));
    const auto find = [kept = ckpt_store(*store), asked = std::string(selector), given](Job&) {
      auto selected = checkpoint::find_checkpoint(kept.places(), {asked, given.run, given.on_damaged == "error"});
      if (selected.ok()) checkpoint::measure_shared(kept.places(), selected->entry);
      if (selected.ok()) commit::note_kept(*kept.store, selected->entry);
      return selected;
    };
    CKPT_ASSIGN(auto found, make_apart<checkpoint::Selection>(std::make_shared<Job>(), given.timeout_ms, find));
    ckpt_checkpoint_info info{};
    checkpoint::fill_info(found, &info);
    return put_info(info, out);
  });
}

ckpt_status ckpt_store_remove(const ckpt_store* store, const char* id, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !id) return null_status("store or id");
    if (store->forked()) return forked_status();
    return run_apart(std::make_shared<Job>(), store->patience_ms,
                     [kept = store->store, removed = std::string(id)](Job&) {
                       const Status status = commit::remove_by_id(*kept, removed);
                       checkpoint::note_removal();
                       return status;
                     });
  });
}

ckpt_status ckpt_store_keep(const ckpt_store* store, const char* id, int32_t keep, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !id) return null_status("store or id");
    if (store->forked()) return forked_status();
    const auto say = [kept = store->store, named = std::string(id), keep](Job&) {
      return keep ? commit::keep(*kept, named) : commit::release(*kept, named);
    };
    return run_apart(std::make_shared<Job>(), store->patience_ms, say);
  });
}

ckpt_status ckpt_store_name(const ckpt_store* store, const char* run, const char* name, const char* id,
                            ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !run || !name || !id) return null_status("store, run, name or id");
    if (store->forked()) return forked_status();
    const auto say = [kept = store->store, of = std::string(run), what = std::string(name),
                      whose = std::string(id)](Job&) {
      return whose.empty() ? checkpoint::take_name(*kept, of, what) : checkpoint::give_name(*kept, of, what, whose);
    };
    return run_apart(std::make_shared<Job>(), store->patience_ms, say);
  });
}

ckpt_status ckpt_store_prune(const ckpt_store* store, const ckpt_options* options, ckpt_report** report,
                             ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(store, "store"));
    const PruneOptions given = prune_options(options_of(options));
    const commit::RetentionPolicy policy{.run = given.run,
                                         .keep_last = given.keep_last,
                                         .keep_every = given.keep_every,
                                         .protect = given.protect,
                                         .dry_run = given.dry_run == 1};
    const auto work = [kept = store->store, policy](Job& job) -> Result<Report> {
      Report findings;
      CKPT_TRY(commit::apply_retention(*kept, policy, &findings, job));
      maintain::remove_dead_copies(*kept, policy.dry_run, &findings, job);
      return findings;
    };
    CKPT_ASSIGN(const std::shared_ptr<Job> job, job_for(options));
    CKPT_ASSIGN(Report findings, make_apart<Report>(job, given.timeout_ms, work));
    if (report) *report = new ckpt_report{{}, std::move(findings)};
    return Ok();
  });
}

ckpt_status ckpt_store_repair(const ckpt_store* store, const char* id, const ckpt_options* options,
                              ckpt_report** report, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!store || !id) return null_status("store or id");
    if (store->forked()) return forked_status();
    const RepairOptions given = repair_options(options_of(options));
    const auto work = [kept = store->store, broken = std::string(id), given](Job& job) -> Result<Report> {
      const bool dry_run = given.dry_run != 0;
      Report findings;
      CKPT_TRY(maintain::repair_checkpoint(*kept, broken, dry_run, given.force, &findings, job));
      Call::settle_current(Ok());
      maintain::remove_dead_copies(*kept, dry_run, &findings, job);
      return findings;
    };
    CKPT_ASSIGN(const std::shared_ptr<Job> job, job_for(options));
    CKPT_ASSIGN(Report findings, make_apart<Report>(job, given.timeout_ms, work));
    if (report) *report = new ckpt_report{{}, std::move(findings)};
    return Ok();
  });
}
