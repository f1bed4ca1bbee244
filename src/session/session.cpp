// Opening a session: tokens, claims, and closing what older sessions of the run left behind. src/README.md, "Session".
#include "session/session.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/parallel.h"
#include "format/checksum.h"
#include "format/names.h"

namespace ckpt::session {

// ---- the session string: "ckpt1;run;token;world;session;store;chunk;large;checksum" ----

// A string that was cut short on its way could otherwise pass with a smaller last number.
static std::string checksum_of(std::string_view fields) {
  return strprintf("%08x", static_cast<uint32_t>(format::xxh3_64(as_bytes(fields))));
}

std::string to_session_string(const SessionPlan& plan) {
  std::string fields = "ckpt1;" + plan.run + ";" + std::to_string(plan.token) + ";" + std::to_string(plan.world_size) +
                       ";" + to_hex(plan.session_id) + ";" + to_hex(plan.store_id) + ";" +
                       std::to_string(plan.chunk_bytes) + ";" + std::to_string(plan.large_tensor_bytes) + ";";
  return fields + checksum_of(fields);
}

template <typename T>
static bool parse_number(std::string_view text, T* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

Result<SessionPlan> parse_session_string(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::string_view rest = text;;) {
    size_t end = rest.find(';');
    fields.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  SessionPlan plan;
  auto session_id = fields.size() == 9 ? id_from_hex(fields[4]) : Result<Id>(Id{});
  auto store_id = fields.size() == 9 ? id_from_hex(fields[5]) : Result<Id>(Id{});
  if (fields.size() != 9 || fields[8] != checksum_of(text.substr(0, text.size() - fields[8].size())) ||
      fields[0] != "ckpt1" || !format::check_run(fields[1]).ok() || !parse_number(fields[2], &plan.token) ||
      !parse_number(fields[3], &plan.world_size) || !session_id.ok() || !store_id.ok() ||
      !parse_number(fields[6], &plan.chunk_bytes) || !parse_number(fields[7], &plan.large_tensor_bytes) ||
      plan.world_size == 0 || plan.chunk_bytes == 0 || plan.chunk_bytes % kAlign != 0 ||
      plan.chunk_bytes > kMaxChunkBytes || plan.large_tensor_bytes == 0)
    return Status(CKPT_INVALID, "not a session string of protocol ckpt1: \"" + std::string(text.substr(0, 200)) + "\"");
  plan.run = fields[1];
  plan.session_id = *session_id;
  plan.store_id = *store_id;
  return plan;
}

// ---- opening ----

Result<std::shared_ptr<Session>> Session::open(std::shared_ptr<store::Store> store, uint32_t rank, uint32_t world_size,
                                               const char* session_string, const Options& options) {
  if (world_size == 0 || rank >= world_size)
    return Status(CKPT_INVALID, strprintf("rank %u of world size %u", rank, world_size));
  bool rendezvous = options.integer("rendezvous") != 0;
  if (rank != 0 && !session_string && !rendezvous)
    return Status(CKPT_INVALID, "a rank other than 0 needs the session string of rank 0, or option rendezvous=1");
  if (rank == 0 && session_string) return Status(CKPT_INVALID, "rank 0 makes the session string; it takes none");
  CKPT_TRY(store->prepare());
  std::shared_ptr<Session> session(new Session(std::move(store), rank));
  CKPT_TRY(session->make_arena(static_cast<uint64_t>(options.integer("arena_bytes"))));
  if (rank == 0)
    CKPT_TRY(session->lead(world_size, options));
  else
    CKPT_TRY(session->join(session_string, world_size, options));
  return session;
}

Session::~Session() = default;

// The store's id, made at the first session and voted by the checkpoints where .ckpt was deleted.
static Result<Id> settle_store_id(store::Store& store) {
  CKPT_ASSIGN(Id id, find_store_id(store));
  auto present = store.get(format::kStoreId, 4096);
  if (present.ok()) return id;
  if (id.zero()) id = random_id();
  std::string text = to_hex(id) + "\n";
  Status status = store.put_if_absent(format::kStoreId, as_bytes(text));
  if (status.code() == CKPT_EXISTS) return find_store_id(store);  // another first session was quicker
  CKPT_TRY(std::move(status));
  return id;
}

Status Session::lead(uint32_t world_size, const Options& options) {
  plan_.run = options.str("run");
  CKPT_TRY(format::check_run(plan_.run));
  plan_.world_size = world_size;
  plan_.chunk_bytes = static_cast<uint64_t>(options.integer("chunk_bytes"));
  plan_.large_tensor_bytes = static_cast<uint64_t>(options.integer("large_tensor_bytes"));
  plan_.session_id = random_id();
  CKPT_TRY(store_->make_directory(format::kControlDir));
  CKPT_ASSIGN(plan_.store_id, settle_store_id(*store_));
  CKPT_TRY(own_run());
  string_ = to_session_string(plan_);
  CKPT_TRY(store_->make_directory(format::session_dir(plan_.token)));
  CKPT_TRY(claim());
  CKPT_TRY(close_older_attempts());
  CKPT_TRY(forget_older_owners());
  CKPT_TRY(empty_trash(*store_));
  if (options.integer("rendezvous") && world_size > 1)
    return lead_rendezvous(*store_, plan_, string_, options.integer("timeout_ms"));
  return Ok();
}

// Sessions that open at the same moment; beyond it is a store that calls everything taken.
static constexpr uint64_t kMaxRivals = 1000;

static std::string owner_record(const SessionPlan& plan) { return to_session_string(plan) + "\n"; }

// Takes the next token: of all who try the same one, the store lets one have it.
Status Session::own_run() {
  CKPT_TRY(store_->make_directory(format::kOwnersDir));
  CKPT_ASSIGN(auto entries, list_checkpoints(*store_));
  CKPT_ASSIGN(uint64_t highest, highest_token(*store_, entries));
  if (highest > UINT64_MAX - kMaxRivals)
    return Status(CKPT_CONFLICT, strprintf("%s: a directory's name holds token %llu, after which there is none",
                                           store_->uri().c_str(), static_cast<unsigned long long>(highest)))
        .with("found", highest);
  for (plan_.token = highest + 1; plan_.token <= highest + kMaxRivals; plan_.token++) {
    std::string record = owner_record(plan_);
    Status status = store_->put_if_absent(format::owner_key(plan_.token), as_bytes(record));
    if (status.code() != CKPT_EXISTS) return status;
  }
  return Status(CKPT_CONFLICT, strprintf("run \"%s\": each of the tokens %llu to %llu was taken by somebody else",
                                         plan_.run.c_str(), static_cast<unsigned long long>(highest + 1),
                                         static_cast<unsigned long long>(highest + kMaxRivals)));
}

Status Session::claim() {
  std::string record = to_hex(random_id()) + "\n";
  Status status = store_->put_if_absent(format::claim_key(plan_.token, rank_), as_bytes(record));
  if (status.code() == CKPT_EXISTS)
    return Status(CKPT_CONFLICT, strprintf("rank %u of session %llu is taken: another process has claimed it, or this "
                                           "one was restarted with an old session string",
                                           rank_, static_cast<unsigned long long>(plan_.token)))
        .with("rank", uint64_t{rank_});
  if (status.code() == CKPT_NOT_FOUND)
    return Status(CKPT_FENCED, strprintf("session %llu of run \"%s\" was closed by a newer one",
                                         static_cast<unsigned long long>(plan_.token), plan_.run.c_str()));
  return status;
}

// An option that shapes the plan comes with the string; a rank that was configured otherwise must not go on unnoticed.
static Status check_own_option(const Options& options, const char* key, uint64_t agreed) {
  if (!options.is_set(key) || static_cast<uint64_t>(options.integer(key)) == agreed) return Ok();
  return Status(CKPT_MISMATCH,
                strprintf("option %s: this rank has %lld, rank 0 has %llu", key,
                          static_cast<long long>(options.integer(key)), static_cast<unsigned long long>(agreed)))
      .with("expected", agreed)
      .with("found", std::to_string(options.integer(key)));
}

Status Session::join(const char* session_string, uint32_t world_size, const Options& options) {
  std::string text;
  int64_t timeout_ms = options.integer("timeout_ms");
  if (session_string) {
    text = session_string;
  } else {
    CKPT_ASSIGN(text, join_rendezvous(*store_, options.str("run"), rank_, timeout_ms));
  }
  CKPT_ASSIGN(plan_, parse_session_string(text));
  string_ = text;
  if (plan_.world_size != world_size)
    return Status(CKPT_MISMATCH, strprintf("world size: this rank has %u, rank 0 has %u", world_size, plan_.world_size))
        .with("expected", uint64_t{plan_.world_size})
        .with("found", uint64_t{world_size});
  if (options.is_set("run") && options.str("run") != plan_.run)
    return Status(CKPT_MISMATCH, strprintf("run: this rank has \"%s\", rank 0 has \"%s\"", options.str("run").c_str(),
                                           plan_.run.c_str()));
  CKPT_TRY(check_own_option(options, "chunk_bytes", plan_.chunk_bytes));
  CKPT_TRY(check_own_option(options, "large_tensor_bytes", plan_.large_tensor_bytes));
  CKPT_ASSIGN(Id store_id, find_store_id(*store_));
  if (store_id != plan_.store_id)
    return Status(CKPT_CONFLICT,
                  strprintf("the session string is of store %s, %s is store %s", to_hex(plan_.store_id).c_str(),
                            store_->uri().c_str(), to_hex(store_id).c_str()))
        .with("expected", to_hex(plan_.store_id))
        .with("found", to_hex(store_id));
  CKPT_TRY(claim());
  CKPT_TRY(check_fence());
  return session_string ? Ok() : await_start(*store_, plan_, timeout_ms);
}

// ---- what older sessions left ----

static std::optional<SessionPlan> read_owner(store::Store& store, uint64_t token, Status* failure) {
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

static Status fenced_by(const SessionPlan& plan, uint64_t token) {
  return Status(CKPT_FENCED,
                strprintf("run \"%s\" belongs to session %llu now; this is session %llu", plan.run.c_str(),
                          static_cast<unsigned long long>(token), static_cast<unsigned long long>(plan.token)))
      .with("expected", plan.token)
      .with("found", token);
}

// Normally only a higher token fences. Where .ckpt was deleted by hand the next session starts from the checkpoints'
// tokens and may get the same one or a lower one: then our own record is not there and another of the run is.
Status check_fence(store::Store& store, const SessionPlan& plan, bool* recorded) {
  bool own = false;
  auto owners = store.list(format::kOwnersDir);
  if (!owners.ok() && owners.status().code() != CKPT_NOT_FOUND) return std::move(owners).status();
  std::vector<uint64_t> lower;
  for (size_t i = 0; owners.ok() && i < owners->size(); i++) {
    auto token = format::parse_owner_name((*owners)[i].name);
    if (!token) continue;
    if (*token < plan.token) {
      lower.push_back(*token);
      continue;
    }
    Status failure;
    auto other = read_owner(store, *token, &failure);
    CKPT_TRY(std::move(failure));
    if (!other || other->run != plan.run) continue;
    if (other->session_id != plan.session_id) return fenced_by(plan, *token);
    own = true;
  }
  if (recorded) *recorded = own;
  for (size_t i = 0; !own && i < lower.size(); i++) {
    Status failure;
    auto other = read_owner(store, lower[i], &failure);
    CKPT_TRY(std::move(failure));
    if (other && other->run == plan.run) return fenced_by(plan, lower[i]);
  }
  return Ok();
}

Status Session::hold_run() {
  bool recorded = false;
  CKPT_TRY(session::check_fence(*store_, plan_, &recorded));
  if (recorded) return Ok();
  std::string store_id = to_hex(plan_.store_id) + "\n", record = owner_record(plan_);
  CKPT_TRY(store_->make_directory(format::kOwnersDir));
  for (Status status : {store_->put_if_absent(format::kStoreId, as_bytes(store_id)),
                        store_->put_if_absent(format::owner_key(plan_.token), as_bytes(record))})
    if (!status.ok() && status.code() != CKPT_EXISTS) return status;
  return check_fence();  // whoever opened meanwhile did not see us
}

// Closes and removes the recorded attempts of this run's older sessions. Attempts of other runs, and directories that
// no record names, stay.
Status Session::close_older_attempts() {
  auto records = store_->list(format::kAttemptsDir);
  if (!records.ok()) return records.status().code() == CKPT_NOT_FOUND ? Ok() : std::move(records).status();
  for (const auto& file : *records) {
    auto record = format::parse_attempt_name(file.name);
    if (!record || record->token >= plan_.token) continue;
    std::string key = format::attempt_key(record->token, record->attempt, record->label);
    auto text = store_->get(key, 4096);
    if (!text.ok()) continue;
    if (as_text(*text) == plan_.run + "\n") {
      CKPT_ASSIGN(bool finished,
                  close_older_attempt(format::checkpoint_dir(record->label, record->token, record->attempt)));
      if (!finished) continue;
    } else if (!text->empty() || !is_abandoned(record->token)) {
      continue;
    }
    Status removed = store_->remove(key, false);
    if (!removed.ok() && removed.code() != CKPT_NOT_FOUND) return removed;
  }
  return Ok();
}

// A record appears with its content; an empty file is what a crash left of one. Whose it was, the owner's record tells.
bool Session::is_abandoned(uint64_t token) const {
  Status unreadable;
  auto owner = read_owner(*store_, token, &unreadable);
  return unreadable.ok() && (!owner || owner->run == plan_.run);
}

// False: not now; the record must stay for the next session.
Result<bool> Session::close_older_attempt(const std::string& directory) {
  format::Tombstone tombstone{
      .save_id = {},
      .rank = 0,
      .status = CKPT_FENCED,
      .reason = strprintf("closed by session %llu", static_cast<unsigned long long>(plan_.token)),
      .closed_by_token = plan_.token};
  Status closed = close_attempt(*store_, directory, tombstone);
  // A network file system also says "not found" of a stale handle.
  if (closed.code() == CKPT_NOT_FOUND) return store_->list(directory).status().code() == CKPT_NOT_FOUND;
  CKPT_TRY(std::move(closed));
  auto entry = read_entry(*store_, directory);
  if (!entry.ok() && entry.status().code() != CKPT_NOT_FOUND) return std::move(entry).status();
  if (!entry.ok()) return store_->list(directory).status().code() == CKPT_NOT_FOUND;
  if (entry->state == CKPT_CHECKPOINT_ABORTED) CKPT_TRY(discard_directory(*store_, directory));
  return entry->state != CKPT_CHECKPOINT_OPEN;
}

// The newest owner file is enough to fence all older ones; the rest, and their claims, are litter.
Status Session::forget_older_owners() {
  CKPT_ASSIGN(auto owners, store_->list(format::kOwnersDir));
  for (const auto& owner : owners) {
    auto token = format::parse_owner_name(owner.name);
    if (!token || *token >= plan_.token) continue;
    Status unreadable;
    auto other = read_owner(*store_, *token, &unreadable);
    if (!other || other->run != plan_.run) continue;
    Status removed = store_->remove_directory(format::session_dir(*token), "");
    if (removed.ok() || removed.code() == CKPT_NOT_FOUND) removed = store_->remove(format::owner_key(*token), false);
    if (!removed.ok() && removed.code() != CKPT_NOT_FOUND) return removed;
  }
  return Ok();
}

Status close_attempt(store::Store& store, std::string_view directory, const format::Tombstone& tombstone) {
  std::string key = std::string(directory) + "/" + std::string(format::kManifestName);
  Status status = store.put_if_absent(key, format::frame_tombstone(tombstone));
  return status.code() == CKPT_EXISTS ? Ok() : status;
}

Status discard_directory(store::Store& store, std::string_view directory) {
  std::string trash = format::trash_key(directory, random_id());
  CKPT_TRY(store.make_directory(format::kTrashDir));
  CKPT_TRY(store.move_directory(directory, trash));
  Status status = store.retire_directory(trash, format::kManifestName);
  // It is out of sight, which is what was asked for; the next session empties what is left of it.
  return status.code() == CKPT_NOT_FOUND ? Ok() : status;
}

Status empty_trash(store::Store& store) {
  auto entries = store.list(format::kTrashDir);
  if (!entries.ok()) return entries.status().code() == CKPT_NOT_FOUND ? Ok() : std::move(entries).status();
  for (const auto& entry : *entries) {
    if (!entry.directory) continue;
    Status status = store.retire_directory(std::string(format::kTrashDir) + "/" + entry.name, format::kManifestName);
    (void)status;  // what cannot be deleted now harms nobody and is tried again
  }
  return Ok();
}

// ---- counters ----

Attempt Session::next_attempt(std::string_view label) {
  std::lock_guard lock(mutex_);
  auto [entry, fresh] = attempts_.try_emplace(std::string(label), 0);
  Attempt attempt;
  attempt.label = label;
  attempt.number = ++entry->second;
  attempt.directory = format::checkpoint_dir(label, plan_.token, attempt.number);
  format::Hasher hasher;
  hasher.update(std::as_bytes(std::span(&plan_.session_id, 1)));
  hasher.update(as_bytes(label));
  const std::byte zero{0};
  hasher.update({&zero, 1});
  hasher.update(std::as_bytes(std::span(&attempt.number, 1)));
  attempt.save_id = hasher.digest();
  return attempt;
}

uint64_t Session::next_sequence() {
  std::lock_guard lock(mutex_);
  return ++sequence_;
}

Status Session::make_arena(uint64_t bytes) {
  arena_bytes_ = bytes;
  CKPT_ASSIGN(arena_, device::Mapping::make(bytes));
  return arena_.populate(bytes, thread_count(0));
}

Result<device::Mapping> Session::take_arena(uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (arena_.bytes().size() >= bytes) return std::move(arena_);
  }
  return device::Mapping::make(bytes);
}

void Session::give_arena(device::Mapping arena) {
  std::lock_guard lock(mutex_);
  if (arena.bytes().size() > arena_.bytes().size()) arena_ = std::move(arena);
}

}  // namespace ckpt::session
