#include "session/rendezvous.h"

#include <map>
#include <set>

#include "base/job.h"
#include "base/text.h"
#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::session {

static std::string start_key(const SessionPlan& plan) { return format::session_dir(plan.token) + "/start"; }

// ---- welcomes ----

// A welcome is the session string and a line feed, filled up with zeros, and for each rank the nonce of the hello that
// it answers, as text with a line feed, or spaces. So a rank reads these few bytes, whatever the number of ranks.
static constexpr uint64_t kWelcomeHead = 4096, kNonceLine = 33;

static std::string welcome_key(std::string_view run, const format::WelcomeName& name) {
  return format::welcomes_dir(run) + "/" + format::welcome_name(name);
}

// The answer of one welcome to a rank's hello; "" if it answers others.
static Result<std::string> read_welcome(const store::Store& store, const std::string& key, uint32_t rank,
                                        const Id& nonce) {
  CKPT_ASSIGN(auto file, store.open(key));
  const uint64_t at = kWelcomeHead + kNonceLine * rank;
  if (file->size() < at + kNonceLine) return std::string();
  std::vector<std::byte> line(kNonceLine), head(kWelcomeHead);
  CKPT_TRY(file->read_at(at, line));
  if (as_text(line) != to_hex(nonce) + "\n") return std::string();
  CKPT_TRY(file->read_at(0, head));
  return std::string(as_text(head).substr(0, as_text(head).find('\n')));
}

// Rank 0's side: the hellos that have an answer by now.
class Reception {
 public:
  Reception(store::Store& store, const SessionPlan& plan, const std::string& session_string)
      : store_(store), plan_(plan), head_(session_string + "\n") {
    head_.resize(kWelcomeHead);
  }
  Status open();
  // Answers the hellos that came since the last call.
  Status answer();
  // All ranks are there: removes what nobody reads any more. Each rank has removed its own hello.
  void close();

 private:
  std::string hello_key(const std::string& name) const { return format::rendezvous_dir(plan_.run) + "/" + name; }

  store::Store& store_;
  const SessionPlan& plan_;
  std::string head_;
  std::set<std::string> answered_;
  uint64_t batches_ = 0;
};

Status Reception::open() {
  CKPT_TRY(store_.make_directory(format::rendezvous_dir(plan_.run)));
  CKPT_TRY(store_.make_directory(format::welcomes_dir(plan_.run)));
  auto files = store_.list(format::welcomes_dir(plan_.run));
  for (size_t i = 0; files.ok() && i < files->size(); i++)
    if (auto name = format::parse_welcome_name((*files)[i].name); name && name->token < plan_.token)
      (void)store_.remove(welcome_key(plan_.run, *name), false);
  return Ok();
}

Status Reception::answer() {
  auto listed = store_.list(format::rendezvous_dir(plan_.run));
  if (listed.status().code() == CKPT_NOT_FOUND) return Ok();  // nobody yet
  CKPT_ASSIGN(const auto files, std::move(listed));
  // A rank that died and came again has two hellos. A welcome answers one of them.
  std::vector<std::map<uint32_t, Id>> batches;
  std::map<uint32_t, size_t> hellos;
  for (const auto& file : files) {
    auto hello = format::parse_hello_name(file.name);
    if (!hello || hello->rank >= plan_.world_size || !answered_.insert(file.name).second) continue;
    const size_t batch = hellos[hello->rank]++;
    if (batch == batches.size()) batches.emplace_back();
    batches[batch][hello->rank] = hello->nonce;
  }
  for (const auto& nonces : batches) {
    std::string welcome = head_;
    welcome.append(kNonceLine * plan_.world_size, ' ');
    for (const auto& [rank, nonce] : nonces)
      welcome.replace(kWelcomeHead + kNonceLine * rank, kNonceLine, to_hex(nonce) + "\n");
    CKPT_TRY(store_.put_own(welcome_key(plan_.run, {plan_.token, ++batches_}), as_bytes(welcome)));
  }
  return Ok();
}

void Reception::close() {
  for (uint64_t batch = 1; batch <= batches_; batch++)
    (void)store_.remove(welcome_key(plan_.run, {plan_.token, batch}), false);
  auto files = store_.list(format::rendezvous_dir(plan_.run));
  for (size_t i = 0; files.ok() && i < files->size(); i++)
    if (answered_.contains((*files)[i].name)) (void)store_.remove(hello_key((*files)[i].name), false);
}

// ---- claims ----

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

// Rank 0 lists names for all ranks, so its pauses grow more slowly than theirs.
static constexpr uint32_t kRanksPerListing = 10;

// One step of rank 0's waiting: a fence check, the hellos or the claims. True once all ranks have claimed their place.
static Result<bool> await_ranks(store::Store& store, const SessionPlan& plan, Reception& reception, Turns& turns,
                                std::vector<uint32_t>* missing) {
  if (turns.other()) {
    CKPT_TRY(check_fence(store, plan));
    return false;
  }
  if (turns.odd()) {
    CKPT_TRY(reception.answer());
    return false;
  }
  CKPT_ASSIGN(*missing, missing_claims(store, plan));
  return missing->empty();
}

Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms, const Job& job) {
  Reception reception(store, plan, session_string);
  CKPT_TRY(reception.open());
  CKPT_ASSIGN(auto missing, missing_claims(store, plan));
  Turns turns;
  for (Backoff backoff(timeout_ms, plan.world_size / kRanksPerListing);; backoff.sleep()) {
    const OnErrand within = backoff.within();
    auto complete = await_ranks(store, plan, reception, turns, &missing);
    if (complete.ok() && *complete) break;
    if (complete.status().code() != CKPT_TIMEOUT) CKPT_TRY(complete.status());
    if (Status cancelled = job.check(); !cancelled.ok()) {
      (void)store.put_own(start_key(plan), as_bytes("stop: rank 0 was cancelled"));
      return cancelled;
    }
    if (!backoff.expired()) continue;
    std::string text = strformat("{} of {} ranks did not come to the rendezvous within {} ms: ", missing.size(),
                                 plan.world_size, timeout_ms) +
                       list_ranks(missing);
    (void)store.put_own(start_key(plan), as_bytes("stop: " + text));
    return Status(CKPT_TIMEOUT, text).with("ranks", list_ranks(missing));
  }
  CKPT_TRY(check_fence(store, plan));
  CKPT_TRY(store.put_own(start_key(plan), as_bytes("go")));
  reception.close();
  return Ok();
}

// Looks through the welcomes that this rank has not looked through yet.
static Result<std::string> find_welcome(const store::Store& store, std::string_view run, uint32_t rank, const Id& nonce,
                                        std::set<std::string>* seen) {
  auto files = store.list(format::welcomes_dir(run));
  if (files.status().code() == CKPT_NOT_FOUND) return std::string();
  CKPT_TRY(files.status());
  for (const auto& file : *files) {
    auto name = format::parse_welcome_name(file.name);
    if (!name || !seen->insert(file.name).second) continue;
    auto answer = read_welcome(store, welcome_key(run, *name), rank, nonce);
    if (answer.status().code() == CKPT_NOT_FOUND) continue;  // a dead session's, removed meanwhile
    if (!answer.ok() || !answer->empty()) return answer;
  }
  return std::string();
}

static Result<std::string> await_welcome(store::Store& store, std::string_view run, Newcomer newcomer, const Id& nonce,
                                         int64_t timeout_ms, const Job& job) {
  std::set<std::string> seen;
  for (Backoff backoff(timeout_ms, newcomer.world_size);; backoff.sleep()) {
    const OnErrand within = backoff.within();
    auto answer = find_welcome(store, run, newcomer.rank, nonce, &seen);
    const bool late = answer.status().code() == CKPT_TIMEOUT;
    if (!late && (!answer.ok() || !answer->empty())) return answer;
    CKPT_TRY(job.check());
    if (!backoff.expired()) continue;
    return Status(CKPT_TIMEOUT, strformat("rank {}: rank 0 did not come to the rendezvous of run \"{}\" within {} ms",
                                          newcomer.rank, run, timeout_ms))
        .with("ranks", "0");
  }
}

Result<std::string> join_rendezvous(store::Store& store, std::string_view run, Newcomer newcomer, int64_t timeout_ms,
                                    const Job& job) {
  CKPT_TRY(format::check_run(run));
  CKPT_TRY(store.make_directory(format::rendezvous_dir(run)));
  const Id nonce = random_id();
  const std::string hello = format::rendezvous_dir(run) + "/" + format::hello_name(newcomer.rank, nonce);
  CKPT_TRY(store.put_own(hello, as_bytes("hello\n")));
  auto answer = await_welcome(store, run, newcomer, nonce, timeout_ms, job);
  (void)store.remove(hello, false);  // answered, or withdrawn
  return answer;
}

Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms, const Job& job) {
  const std::string key = start_key(plan);
  Turns turns;
  for (Backoff backoff(timeout_ms, plan.world_size);; backoff.sleep()) {
    const OnErrand within = backoff.within();
    const bool asks_fence = turns.other();
    Status fenced = asks_fence ? check_fence(store, plan) : Ok();
    if (!asks_fence || !fenced.ok()) {  // one that was fenced after its start has started all the same
      auto decided = store.exists(key);
      if (decided.ok() && *decided) break;
      if (fenced.ok()) fenced = decided.status();
    }
    CKPT_TRY(job.check());
    if (fenced.code() != CKPT_TIMEOUT) CKPT_TRY(std::move(fenced));
    if (backoff.expired())
      return Status(CKPT_TIMEOUT,
                    strformat("not all ranks of session {} were there within {} ms", plan.token, timeout_ms));
  }
  CKPT_ASSIGN(auto word, store.get(key, 65536));
  if (as_text(word) == "go") return Ok();
  return Status(CKPT_ABORTED, "the session did not start: " + std::string(as_text(word)));
}

}  // namespace ckpt::session
