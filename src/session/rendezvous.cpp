#include "session/rendezvous.h"

#include <set>

#include "base/job.h"
#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::session {

static std::string key_in(std::string_view run, std::string_view name) {
  return format::rendezvous_dir(run) + "/" + std::string(name);
}
static std::string start_key(const SessionPlan& plan) { return format::session_dir(plan.token) + "/start"; }

// Answers the hellos that have no answer yet.
static Status answer_hellos(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                            std::set<std::string>* answered) {
  CKPT_ASSIGN(auto files, store.list(format::rendezvous_dir(plan.run)));
  for (const auto& file : files) {
    auto hello = format::parse_hello_name(file.name);
    if (!hello || hello->rank >= plan.world_size || answered->count(file.name)) continue;
    Status status = store.put_if_absent(key_in(plan.run, format::welcome_name(hello->nonce)), as_bytes(session_string));
    if (!status.ok() && status.code() != CKPT_EXISTS) return status;
    answered->insert(file.name);
  }
  return Ok();
}

static Result<std::vector<uint32_t>> missing_claims(store::Store& store, const SessionPlan& plan) {
  std::vector<bool> claimed(plan.world_size, false);
  CKPT_ASSIGN(auto files, store.list(format::session_dir(plan.token)));
  for (const auto& file : files)
    if (auto rank = format::parse_claim_name(file.name); rank && *rank < plan.world_size) claimed[*rank] = true;
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < plan.world_size; rank++)
    if (!claimed[rank]) missing.push_back(rank);
  return missing;
}

static std::string join_ranks(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < 20; i++) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > 20 ? text + ", …" : text;
}

static void forget_hellos(store::Store& store, const SessionPlan& plan, const std::set<std::string>& answered) {
  for (const auto& name : answered) {
    if (auto hello = format::parse_hello_name(name))
      (void)store.remove(key_in(plan.run, format::welcome_name(hello->nonce)), false);
    (void)store.remove(key_in(plan.run, name), false);
  }
}

Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms) {
  CKPT_TRY(store.make_directory(format::rendezvous_dir(plan.run)));
  std::set<std::string> answered;
  for (Backoff backoff(timeout_ms);; backoff.sleep()) {
    CKPT_TRY(answer_hellos(store, plan, session_string, &answered));
    CKPT_TRY(check_fence(store, plan));
    CKPT_ASSIGN(auto missing, missing_claims(store, plan));
    if (missing.empty()) break;
    if (!backoff.expired()) continue;
    std::string text = strformat("{} of {} ranks did not come to the rendezvous within {} ms: ", missing.size(),
                                 plan.world_size, timeout_ms) +
                       join_ranks(missing);
    (void)store.put_if_absent(start_key(plan), as_bytes("stop: " + text));
    return Status(CKPT_TIMEOUT, text).with("ranks", join_ranks(missing));
  }
  CKPT_TRY(store.put_if_absent(start_key(plan), as_bytes("go")));
  forget_hellos(store, plan, answered);
  return Ok();
}

Result<std::string> join_rendezvous(store::Store& store, std::string_view run, uint32_t rank, int64_t timeout_ms) {
  CKPT_TRY(format::check_run(run));
  CKPT_TRY(store.make_directory(format::rendezvous_dir(run)));
  Id nonce = random_id();
  std::string hello = key_in(run, format::hello_name(rank, nonce)), welcome = key_in(run, format::welcome_name(nonce));
  CKPT_TRY(store.put_if_absent(hello, as_bytes("hello\n")));
  for (Backoff backoff(timeout_ms);; backoff.sleep()) {
    auto answer = store.get(welcome, 4096);
    if (answer.ok()) return std::string(as_text(*answer));
    if (answer.status().code() != CKPT_NOT_FOUND) return std::move(answer).status();
    if (!backoff.expired()) continue;
    (void)store.remove(hello, false);
    return Status(CKPT_TIMEOUT, strformat("rank {}: rank 0 did not come to the rendezvous of run \"{}\" within {} ms",
                                          rank, run, timeout_ms))
        .with("ranks", "0");
  }
}

Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms) {
  for (Backoff backoff(timeout_ms);; backoff.sleep()) {
    auto word = store.get(start_key(plan), 65536);
    if (word.ok() && as_text(*word) == "go") return Ok();
    if (word.ok()) return Status(CKPT_ABORTED, "the session did not start: " + std::string(as_text(*word)));
    if (word.status().code() != CKPT_NOT_FOUND) return std::move(word).status();
    CKPT_TRY(check_fence(store, plan));
    if (backoff.expired())
      return Status(CKPT_TIMEOUT,
                    strformat("not all ranks of session {} were there within {} ms", plan.token, timeout_ms));
  }
}

}  // namespace ckpt::session
