#include "session/ownership.h"

#include <vector>

#include "checkpoint/catalog.h"
#include "format/names.h"

namespace ckpt::session {

Result<Id> ensure_store_id(store::Store& store, const store::Store* mirror) {
  auto recorded = checkpoint::read_store_id(store);
  // What cannot be read now may be sound: a new id would make every checkpoint foreign, and a trainer start from zero.
  if (recorded.ok() || is_unanswered(recorded.status().code())) return recorded;
  CKPT_ASSIGN(Id id, checkpoint::find_store_id(store));
  const bool voted = !id.zero();
  if (!voted && mirror) {
    CKPT_ASSIGN(id, checkpoint::find_store_id(*mirror));
  }
  if (id.zero()) id = random_id();
  // A damaged record is made anew. Where that fails, the checkpoints go on saying the id.
  if (recorded.status().code() != CKPT_NOT_FOUND) (void)store.remove(format::kStoreId, true);
  std::string text = to_hex(id) + "\n";
  Status status = store.put_own(format::kStoreId, as_bytes(text));
  if (status.ok() || (voted && status.code() != CKPT_EXISTS)) return id;
  if (status.code() == CKPT_EXISTS) return checkpoint::find_store_id(store);  // another first session was faster
  return status;
}

// So many sessions may open at the same moment. If all these tokens are taken, the store calls everything taken.
static constexpr uint64_t kMaxRivals = 1000;

static std::string owner_record(const SessionPlan& plan) { return to_session_string(plan) + "\n"; }

// What the record says that a session of an import takes a run by. A trainer's is empty.
static constexpr std::string_view kOfImport = "import\n";

static Status take_run(store::Store& store, const SessionPlan& plan) {
  const std::string directory = format::run_dir(plan.run);
  CKPT_TRY(store.make_directory(directory));
  return store.put_own(directory + "/" + format::run_session_name(plan.token, plan.session_id),
                       as_bytes(plan.is_import ? kOfImport : "\n"));
}

// The record of the session that owns a run; token 0 if none does.
static Result<format::RunSession> owner_record_of(const store::Store& store, std::string_view run) {
  format::RunSession owner{};
  auto sessions = store.list(format::run_dir(run));
  if (!sessions.ok() && sessions.status().code() != CKPT_NOT_FOUND) return std::move(sessions).status();
  for (size_t i = 0; sessions.ok() && i < sessions->size(); i++)
    if (auto session = format::parse_run_session_name((*sessions)[i].name); session && session->token > owner.token)
      owner = *session;
  return owner;
}

Result<uint64_t> owner_of(const store::Store& store, std::string_view run) {
  CKPT_ASSIGN(const auto owner, owner_record_of(store, run));
  return owner.token;
}

Result<bool> is_owned_by_import(const store::Store& store, std::string_view run) {
  CKPT_ASSIGN(const auto owner, owner_record_of(store, run));
  if (owner.token == 0) return false;
  CKPT_ASSIGN(const auto text,
              store.get(format::run_dir(run) + "/" + format::run_session_name(owner.token, owner.session), 64));
  return as_text(text) == kOfImport;
}

// The highest token that a store knows of.
static Result<uint64_t> highest_in(store::Store& store, std::string_view run) {
  CKPT_TRY(store.make_directory(format::kOwnersDir));
  CKPT_ASSIGN(const uint64_t highest, checkpoint::highest_token(store));
  auto owner = owner_of(store, run);
  return owner.ok() ? std::max(highest, *owner) : highest;
}

// If several sessions try the same token, the store gives it to one of them.
Status take_token(store::Store& store, SessionPlan* plan, store::Store* mirror) {
  CKPT_ASSIGN(uint64_t highest, highest_in(store, plan->run));
  if (mirror) {
    CKPT_ASSIGN(const uint64_t there, highest_in(*mirror, plan->run));
    highest = std::max(highest, there);
  }
  if (highest > UINT64_MAX - kMaxRivals)
    return Status(CKPT_CONFLICT, strformat("{}: the name of a directory holds token {}, and no larger one is left",
                                           store.uri(), highest))
        .with("found", highest);
  for (plan->token = highest + 1; plan->token <= highest + kMaxRivals; plan->token++) {
    const std::string record = owner_record(*plan), key = format::owner_key(plan->token);
    Status status = mirror ? mirror->put_own(key, as_bytes(record)) : Ok();
    if (status.ok()) status = store.put_own(key, as_bytes(record));
    if (status.ok() && mirror) status = take_run(*mirror, *plan);
    if (status.ok()) return take_run(store, *plan);
    if (status.code() != CKPT_EXISTS) return status;
  }
  return Status(CKPT_CONFLICT, strformat("run \"{}\": each of the tokens {} to {} was taken by somebody else",
                                         plan->run, highest + 1, highest + kMaxRivals));
}

std::optional<SessionPlan> read_owner(store::Store& store, uint64_t token, Status* failure) {
  auto record = store.get(format::owner_key(token), 4096);
  if (!record.ok()) {
    if (record.status().code() != CKPT_NOT_FOUND) *failure = std::move(record).status();
    return std::nullopt;
  }
  std::string_view text = as_text(*record);
  auto plan = parse_session_string(text.substr(0, text.find('\n')));
  if (!plan.ok()) return std::nullopt;  // somebody else's file
  return plan.take();
}

Status fenced(const SessionPlan& plan, std::string text, std::optional<uint64_t> owner) {
  Status status = Status(CKPT_FENCED, std::move(text)).with("run", plan.run).with("expected", plan.token);
  return owner ? std::move(status).with("found", *owner) : status;
}

static Status fenced_by(const SessionPlan& plan, uint64_t token) {
  return fenced(
      plan, strformat("run \"{}\" belongs to session {} now; this is session {}", plan.run, token, plan.token), token);
}

// The list of the run's owners lacks our own record, which is there.
static Status old_list(const store::Store& store, const SessionPlan& plan) {
  const std::string path = store.path(format::run_dir(plan.run));
  return Status(CKPT_IO, strformat("list {}: it is old, and lacks the record of session {}, which is there: this mount "
                                   "remembers lists, and must not (sshfs: -o dir_cache=no; see docs/file-systems.md)",
                                   path, plan.token))
      .with("path", path);
}

// Normally only a higher token fences. But if .ckpt was deleted by hand, the next session starts from the checkpoints'
// tokens and may get our token or a lower one. Then our own record is missing, and the run has another one.
Status check_fence(store::Store& store, const SessionPlan& plan, bool* recorded) {
  auto names = store.list(format::run_dir(plan.run));
  if (!names.ok() && names.status().code() != CKPT_NOT_FOUND) return std::move(names).status();
  bool own = false;
  std::optional<uint64_t> other;  // the highest token of another session
  for (size_t i = 0; names.ok() && i < names->size(); i++) {
    auto session = format::parse_run_session_name((*names)[i].name);
    if (!session) continue;
    if (session->session == plan.session_id)
      own |= session->token == plan.token;
    else
      other = std::max(other.value_or(0), session->token);
  }
  if (recorded) *recorded = own;
  if (other && !own && *other < plan.token) {
    const std::string record = format::run_dir(plan.run) + "/" + format::run_session_name(plan.token, plan.session_id);
    if (auto there = store.exists(record); !there.ok() || *there)
      return there.ok() ? old_list(store, plan) : there.status();
  }
  return other && (!own || *other >= plan.token) ? fenced_by(plan, *other) : Ok();
}

Status hold_run(store::Store& store, const SessionPlan& plan) {
  bool recorded = false;
  CKPT_TRY(check_fence(store, plan, &recorded));
  if (recorded) return Ok();
  std::string store_id = to_hex(plan.store_id) + "\n", record = owner_record(plan);
  CKPT_TRY(store.make_directory(format::kOwnersDir));
  for (Status status : {store.put_if_absent(format::kStoreId, as_bytes(store_id)),
                        store.put_if_absent(format::owner_key(plan.token), as_bytes(record)), take_run(store, plan)})
    if (!status.ok() && status.code() != CKPT_EXISTS) return status;
  return check_fence(store, plan);  // a session that opened meanwhile did not see us
}

}  // namespace ckpt::session
