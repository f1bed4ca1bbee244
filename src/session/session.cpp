#include "session/session.h"

#include <algorithm>

#include "base/parallel.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/select.h"
#include "codec/checksum.h"
#include "format/names.h"
#include "session/leftovers.h"
#include "session/ownership.h"
#include "session/rendezvous.h"
#include "session/turn.h"

namespace ckpt::session {

// ---- opening ----

Result<std::shared_ptr<Session>> Session::open(std::shared_ptr<store::Store> store, uint32_t rank, uint32_t world_size,
                                               const char* session_string, const SessionOptions& options,
                                               const Job& job, std::shared_ptr<store::Store> mirror) {
  if (world_size == 0 || rank >= world_size)
    return Status(CKPT_INVALID, strformat("rank {} of world size {}", rank, world_size));
  if (world_size > INT32_MAX)
    return Status(CKPT_UNSUPPORTED, strformat("world size {}, at most {}", world_size, INT32_MAX));
  if (rank != 0 && !session_string && !options.rendezvous)
    return Status(CKPT_INVALID, "a rank other than 0 needs the session string of rank 0, or option rendezvous=1");
  if (rank == 0 && session_string)
    return Status(CKPT_INVALID, "rank 0 makes the session string, so it must not be given one");
  if (options.rendezvous && world_size > 1 && options.purpose == "import" && !options.is_set.run)
    return Status(CKPT_INVALID,
                  "option run: an import whose ranks meet by rendezvous must say it, since rank 0 alone "
                  "could choose it");
  if (world_size > 1 && !store->traits().exclusive)
    return Status(CKPT_UNSUPPORTED,
                  strformat("{}: {} ranks cannot save with conditional_puts=emulate, or on a backend without "
                            "exclusive puts, since two of them could take the same commit record; only one process "
                            "may write here",
                            store->uri(), world_size));
  const ContextScope working = job.enter(options.timeout_ms);
  CKPT_TRY(job.check());
  // One rank proves that the store is fit, and tidies up. The others only need the root.
  if (rank == 0) CKPT_TRY(checkpoint::check_is_store(*store));
  CKPT_TRY(rank == 0 ? store->prepare() : store->make_root());
  std::shared_ptr<Session> session(new Session(std::move(store), rank));
  if (rank == 0) session->mirror_ = std::move(mirror);
  session->incremental_ = options.incremental;
  CKPT_TRY(session->make_arena(options.arena_bytes));
  CKPT_TRY(job.check());
  Status opened =
      rank == 0 ? session->lead(world_size, options, job) : session->join(session_string, world_size, options, job);
  // A newer session removes what it fences, while this one may still be making it.
  if (opened.code() == CKPT_NOT_FOUND && session->plan_.token != 0) CKPT_TRY(session->check_fence());
  CKPT_TRY(std::move(opened));
  return session;
}

Session::~Session() = default;

// Fails where the mirror cannot be asked: it may hold something newer than the store does.
Status Session::prepare_mirror() {
  if (!mirror_) return Ok();
  CKPT_TRY(checkpoint::check_known_mirror({*store_, mirror_.get()}));
  Status prepared = mirror_->prepare();
  if (prepared.ok()) prepared = mirror_->make_directory(format::kControlDir);
  return prepared.ok() ? Ok() : std::move(prepared).in("mirror " + mirror_->uri());
}

// What the trainer says that it goes on from, which counts as if it had been loaded. A run that is empty has no latest.
Status Session::choose_line(const SessionOptions& options) {
  const std::string& from = options.continue_from;
  if (from == "auto") return Ok();
  if (from == "none") {
    checkpoint::forget_line(plan_.store_id, plan_.run);
    return Ok();
  }
  auto found = checkpoint::find_checkpoint({*store_, mirror_.get()}, {from, plan_.run});
  if (found.ok()) checkpoint::note_loaded(found->entry.summary, -1);
  return found.status().code() == CKPT_NOT_FOUND && from == "latest" ? Ok() : std::move(found).status();
}

// Gives the mirror the store's id, unless it has one, which must be that.
Status Session::mark_mirror() {
  if (!mirror_) return Ok();
  CKPT_ASSIGN(const Id there, checkpoint::adopt_store_id(*mirror_, plan_.store_id));
  CKPT_TRY(checkpoint::check_same_store({*store_, mirror_.get()}, plan_.store_id, there));
  return checkpoint::note_mirror(*store_, *mirror_);
}

// Imports into one run take turns, so that they do not fence each other.
Status Session::choose_run(const SessionOptions& options, const Job& job) {
  plan_.is_import = options.purpose == "import";
  plan_.run = plan_.is_import && !options.is_set.run ? "" : options.run;
  if (plan_.is_import) {
    CKPT_ASSIGN(ImportTurn turn, take_import_turn(*store_, plan_.run, options.timeout_ms, job));
    plan_.run = std::move(turn.run);
    turn_ = std::move(turn.lock);
  }
  return format::check_run(plan_.run);
}

Status Session::lead(uint32_t world_size, const SessionOptions& options, const Job& job) {
  CKPT_TRY(choose_run(options, job));
  plan_.world_size = world_size;
  plan_.chunk_bytes = options.chunk_bytes;
  plan_.large_tensor_bytes = options.large_tensor_bytes;
  plan_.heartbeat_ms = options.heartbeat_ms;
  plan_.session_id = random_id();
  CKPT_TRY(store_->make_directory(format::kControlDir));
  CKPT_TRY(prepare_mirror());
  CKPT_ASSIGN(plan_.store_id, ensure_store_id(*store_, mirror_.get()));
  CKPT_TRY(mark_mirror());
  CKPT_TRY(choose_line(options));
  CKPT_TRY(take_token(*store_, &plan_, mirror_.get()));
  continuation_ = std::make_unique<Continuation>(store_, plan_, options.continue_from == "none");
  string_ = to_session_string(plan_);
  CKPT_TRY(store_->make_directory(format::session_dir(plan_.token)));
  const bool meet = options.rendezvous && world_size > 1;
  Status tidied = claim_and_tidy(job);
  if (!tidied.ok() && meet && tidied.code() != CKPT_FENCED) call_off_rendezvous(*store_, plan_, string_, tidied);
  CKPT_TRY(std::move(tidied));
  if (!meet) return check_fence();
  return lead_rendezvous(*store_, plan_, string_, options.timeout_ms, job,
                         [this](std::span<const uint32_t> ranks) { return check_alive(Attempt{}, ranks); });
}

// Rank 0 takes its place, and closes what older sessions left.
Status Session::claim_and_tidy(const Job& job) {
  CKPT_TRY(claim());
  // Twice the delay of a listing: a session that does not see this one yet opens no attempt after the first, and what
  // it opened before is listed after the second.
  CKPT_TRY(checkpoint::await_listings(*store_));
  CKPT_TRY(checkpoint::await_listings(*store_));
  if (mirror_) CKPT_TRY(checkpoint::await_listings(*mirror_));  // who asks there whether he is fenced sees this session
  CKPT_TRY(job.check());
  CKPT_TRY(close_older_attempts(*store_, plan_));
  CKPT_TRY(job.check());
  CKPT_TRY(forget_older_owners(*store_, plan_));
  if (mirror_) CKPT_TRY(forget_older_owners(*mirror_, plan_));
  return job.check();
}

Status Session::claim() {
  const std::string record = to_hex(random_id()) + "\n" + Liveness::machine() + "\n";
  Status status = store_->put_own(format::claim_key(plan_.token, rank_), as_bytes(record));
  if (status.code() == CKPT_EXISTS) CKPT_TRY(check_fence());  // with an old session string
  if (status.code() == CKPT_EXISTS)
    return Status(CKPT_CONFLICT, strformat("rank {} of session {} is taken: another process has claimed it, or this "
                                           "one was restarted with an old session string",
                                           rank_, plan_.token))
        .with("rank", uint64_t{rank_});
  if (status.code() == CKPT_NOT_FOUND)
    return fenced(plan_, strformat("session {} of run \"{}\" was closed by a newer one", plan_.token, plan_.run));
  CKPT_TRY(std::move(status));
  return liveness_.hold(store_, plan_, rank_);
}

// The session string carries the options that shape the plan. A rank that was configured otherwise must not go on
// unnoticed.
static Status check_own_option(const char* key, bool is_set, int64_t own, uint64_t agreed) {
  if (!is_set || static_cast<uint64_t>(own) == agreed) return Ok();
  return Status(CKPT_MISMATCH, strformat("option {}: this rank has {}, rank 0 has {}", key, own, agreed))
      .with("expected", agreed)
      .with("found", std::to_string(own));
}

Status Session::join(const char* session_string, uint32_t world_size, const SessionOptions& options, const Job& job) {
  if (session_string) {
    string_ = session_string;
  } else {
    CKPT_ASSIGN(string_, join_rendezvous(*store_, options.run, {rank_, world_size}, options.timeout_ms, job));
  }
  CKPT_ASSIGN(plan_, parse_session_string(string_));
  Status joined = check_plan(world_size, options);
  const bool fits = joined.ok();
  if (fits) joined = claim();
  const bool claimed = fits && joined.code() != CKPT_CONFLICT;
  if (joined.ok()) joined = check_fence();
  if (session_string) return joined;
  if (joined.ok()) joined = await_start(*store_, plan_, options.timeout_ms, job);
  if (!joined.ok() && (!fits || claimed)) refuse_start(*store_, plan_, rank_, claimed, joined);
  return joined;
}

// What this rank was told must fit what rank 0 was told.
Status Session::check_plan(uint32_t world_size, const SessionOptions& options) const {
  if (plan_.world_size != world_size)
    return Status(CKPT_MISMATCH, strformat("world size: this rank has {}, rank 0 has {}", world_size, plan_.world_size))
        .with("expected", uint64_t{plan_.world_size})
        .with("found", uint64_t{world_size});
  if (options.is_set.run && options.run != plan_.run)
    return Status(CKPT_MISMATCH, strformat("run: this rank has \"{}\", rank 0 has \"{}\"", options.run, plan_.run));
  CKPT_TRY(check_own_option("chunk_bytes", options.is_set.chunk_bytes, options.chunk_bytes, plan_.chunk_bytes));
  CKPT_TRY(check_own_option("large_tensor_bytes", options.is_set.large_tensor_bytes, options.large_tensor_bytes,
                            plan_.large_tensor_bytes));
  CKPT_TRY(check_own_option("heartbeat_ms", options.is_set.heartbeat_ms, options.heartbeat_ms, plan_.heartbeat_ms));
  CKPT_ASSIGN(Id store_id, checkpoint::find_store_id(*store_));
  if (store_id == plan_.store_id) return Ok();
  return Status(CKPT_CONFLICT, strformat("the session string is of store {}, {} is store {}", to_hex(plan_.store_id),
                                         store_->uri(), to_hex(store_id)))
      .with("expected", to_hex(plan_.store_id))
      .with("found", to_hex(store_id));
}

// ---- counters ----

Attempt Session::next_attempt(std::string_view label) {
  std::lock_guard lock(mutex_);
  auto [entry, fresh] = attempts_.try_emplace(std::string(label), 0);
  Attempt attempt;
  attempt.label = label;
  attempt.number = ++entry->second;
  attempt.directory = format::checkpoint_dir(label, plan_.token, attempt.number);
  codec::Hasher hasher;
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

// A rank that asks for an outcome has its part in every later commit, so it can be behind by no more saves than run at
// the same time.
static constexpr size_t kWords = 64;

std::string Session::keep_word(std::string key) {
  std::lock_guard lock(mutex_);
  if (std::ranges::find(words_, key) != words_.end()) return "";
  words_.push_back(std::move(key));
  if (words_.size() <= kWords) return "";
  std::string oldest = std::move(words_.front());
  words_.pop_front();
  return oldest;
}

bool Session::has_word(std::string_view key) const {
  std::lock_guard lock(mutex_);
  return std::ranges::find(words_, key) != words_.end();
}

void Session::note_saved(const std::string& directory, uint64_t bytes_written) {
  constexpr size_t kMost = 4;  // retention may remove the newest, or one that runs may have it
  std::lock_guard lock(mutex_);
  earlier_saves_.push_front(directory);
  if (earlier_saves_.size() > kMost) earlier_saves_.pop_back();
  last_bytes_written_ = bytes_written;
}

std::string Session::note_table(const std::string& table, const std::string& directory) {
  std::lock_guard lock(mutex_);
  return std::exchange(tables_[table], directory);
}

std::shared_ptr<const SavedRows> Session::exchange_rows(const std::string& table,
                                                        std::shared_ptr<const SavedRows> rows) {
  std::lock_guard lock(mutex_);
  return std::exchange(rows_[table], std::move(rows));
}

std::vector<std::string> Session::earlier_saves() const {
  std::lock_guard lock(mutex_);
  return {earlier_saves_.begin(), earlier_saves_.end()};
}

uint64_t Session::last_bytes_written() const {
  std::lock_guard lock(mutex_);
  return last_bytes_written_;
}

Status Session::make_arena(uint64_t bytes) {
  arena_bytes_ = bytes;
  CKPT_ASSIGN(arena_, Mapping::make(bytes));
  return arena_.populate(bytes, resolve_threads(0));
}

uint64_t Session::arena_size() {
  std::lock_guard lock(mutex_);
  return arena_.bytes().size();
}

Result<Mapping> Session::take_arena(uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (arena_.bytes().size() >= bytes) return std::move(arena_);
    arena_ = Mapping();  // before the larger one is there
  }
  return Mapping::make(bytes);
}

void Session::give_arena(Mapping arena) {
  std::lock_guard lock(mutex_);
  if (arena.bytes().size() > arena_.bytes().size()) arena_ = std::move(arena);
}

}  // namespace ckpt::session
