#include "commit/anew.h"

#include <optional>

#include "checkpoint/catalog.h"

namespace ckpt::commit {

static constexpr std::string_view kWaysOut =
    "; if that is not meant: load the run's newest checkpoint before the first save (session option "
    "continue_from=latest, if another process loads it), say that it begins anew (continue_from=none), or save into "
    "another directory or run";

// Of the checkpoints that earlier sessions of the run committed, the one with the highest step. Names tell whether
// there can be one. IO if none is found, and one cannot be read.
static Status find_furthest(const store::Store& store, const session::SessionPlan& plan,
                            std::optional<checkpoint::CheckpointEntry>* furthest) {
  Status unread;
  CKPT_ASSIGN(const auto names, checkpoint::list_ids(store));
  for (const std::string& name : names) {
    const auto parsed = format::parse_checkpoint_dir(name);
    if (!parsed || parsed->token >= plan.token) continue;
    auto entry = checkpoint::read_entry(store, name);
    if (ends_call(entry.status().code())) return std::move(entry).status();
    if (entry.ok() && entry->state == CKPT_CHECKPOINT_UNREADABLE) unread = entry->problem;
    if (!entry.ok() || entry->state != CKPT_CHECKPOINT_COMMITTED) continue;
    const format::Summary& summary = entry->summary;
    if (summary.store_id != plan.store_id || summary.run != plan.run || !entry->own_name() ||
        !checkpoint::is_numbered(summary.label, summary.step))
      continue;
    if (!*furthest || summary.step >= (*furthest)->summary.step) *furthest = entry.take();
  }
  return *furthest ? Ok() : unread;
}

// After the loss of a disk the mirror alone has them. A mirror that does not answer stops no save. IO where neither
// has one, as far as it could be asked.
static Result<std::optional<checkpoint::CheckpointEntry>> furthest_before(const session::Session& session) {
  std::optional<checkpoint::CheckpointEntry> furthest;
  Status there = session.mirror() ? find_furthest(*session.mirror(), session.plan(), &furthest) : Ok();
  CKPT_TRY(find_furthest(session.store(), session.plan(), &furthest));
  if (furthest || !is_unanswered(there.code())) return furthest;
  return Status(CKPT_IO, there.message());
}

Status tell_anew(session::Session& session, int64_t step, bool goes_back, Report* report, std::string* text) {
  session::Continuation& line = session.continuation();
  CKPT_TRY(line.note_went_back());
  std::string id;
  if (line.is_to_be_noted()) {
    auto looked = furthest_before(session);
    // Noted too often keeps more than it must; not noted, a later session would remove what it never loaded.
    if (looked.status().code() == CKPT_IO) return line.note_anew();
    CKPT_ASSIGN(const auto before, std::move(looked));
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
