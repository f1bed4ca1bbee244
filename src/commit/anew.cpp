#include "commit/anew.h"

#include <optional>

#include "checkpoint/catalog.h"

namespace ckpt::commit {

static constexpr std::string_view kWaysOut =
    "; if that is not meant: load the run's newest checkpoint before the first save (session option "
    "continue_from=latest, if another process loads it), say that it begins anew (continue_from=none), or save into "
    "another directory or run";

// Of the checkpoints that earlier sessions of the run committed, the one with the highest step. Names tell whether
// there can be one.
static Status find_furthest(const store::Store& store, const session::SessionPlan& plan,
                            std::optional<checkpoint::CheckpointEntry>* furthest) {
  CKPT_ASSIGN(const auto names, checkpoint::list_ids(store));
  for (const std::string& name : names) {
    const auto parsed = format::parse_checkpoint_dir(name);
    if (!parsed || parsed->token >= plan.token) continue;
    auto entry = checkpoint::read_entry(store, name);
    if (!entry.ok() || entry->state != CKPT_CHECKPOINT_COMMITTED) continue;
    const format::Summary& summary = entry->summary;
    if (summary.store_id != plan.store_id || summary.run != plan.run || !entry->own_name() ||
        !checkpoint::is_numbered(summary.label, summary.step))
      continue;
    if (!*furthest || summary.step >= (*furthest)->summary.step) *furthest = entry.take();
  }
  return Ok();
}

// After the loss of a disk the mirror alone has them. A mirror that does not answer stops no save.
static Result<std::optional<checkpoint::CheckpointEntry>> furthest_before(const session::Session& session) {
  std::optional<checkpoint::CheckpointEntry> furthest;
  if (session.mirror()) (void)find_furthest(*session.mirror(), session.plan(), &furthest);
  CKPT_TRY(find_furthest(session.store(), session.plan(), &furthest));
  return furthest;
}

Status tell_anew(session::Session& session, int64_t step, bool goes_back, Report* report, std::string* text) {
  session::Continuation& line = session.continuation();
  std::string id;
  if (line.is_to_be_noted()) {
    CKPT_ASSIGN(const auto before, furthest_before(session));
    if (!before) line.nothing_before();
    if (before) CKPT_TRY(line.note_anew());
    if (!before || line.on_purpose()) return Ok();
    id = before->id;
    *text = strformat(
        "this save of step {} does not go on from {} of step {}, which run \"{}\" has: this process has "
        "loaded nothing of the run that leads here, so nothing that was there before is removed{}",
        step, id, before->summary.step, session.plan().run, kWaysOut);
  } else if (goes_back) {
    *text =
        strformat("step {} is below the step that this session saved before, and nothing was loaded in between", step);
  } else {
    return Ok();
  }
  report->add(CKPT_FINDING_ANEW, CKPT_OK, id, *text);
  return Ok();
}

}  // namespace ckpt::commit
