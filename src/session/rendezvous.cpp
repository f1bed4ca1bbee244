#include "session/rendezvous.h"

#include <map>
#include <optional>
#include <set>

#include "base/job.h"
#include "base/text.h"
#include "format/names.h"
#include "session/ownership.h"

namespace ckpt::session {

static std::string start_key(const SessionPlan& plan) { return format::session_dir(plan.token) + "/start"; }

// ---- welcomes ----

// A welcome is the session string and a line feed, filled up with zeros, and for each rank the nonce of the hello that
// it answers, as text with a line feed, or spaces. So a rank reads these few bytes, whatever the number of ranks. What
// else ranks said, such as hellos of dead starts, has its nonces behind that: however many they are, there is one
// welcome for them all.
static constexpr uint64_t kWelcomeHead = 4096, kNonceLine = 33;
static constexpr uint64_t kMostNonces = 1 << 20;  // behind those of the ranks

static std::string welcome_key(std::string_view run, const format::WelcomeName& name) {
  return format::welcomes_dir(run) + "/" + format::welcome_name(name);
}

// Whether a nonce is behind those of the ranks.
static Result<bool> is_behind(const store::Reader& file, const Id& nonce) {
  std::vector<std::byte> head(kWelcomeHead);
  CKPT_TRY(file.read_at(0, head));
  auto plan = parse_session_string(as_text(head).substr(0, as_text(head).find('\n')));
  const uint64_t from = kWelcomeHead + kNonceLine * (plan.ok() ? plan->world_size : 0);
  if (!plan.ok() || file.size() <= from) return false;
  std::vector<std::byte> rest(std::min(file.size() - from, kMostNonces * kNonceLine));
  CKPT_TRY(file.read_at(from, rest));
  return as_text(rest).find(to_hex(nonce) + "\n") != std::string_view::npos;
}

// The answer of one welcome to a rank's hello; "" if it answers others.
static Result<std::string> read_welcome(const store::Store& store, const std::string& key, Newcomer newcomer,
                                        const Id& nonce) {
  CKPT_ASSIGN(auto file, store.open(key));
  const uint64_t at = kWelcomeHead + kNonceLine * newcomer.rank,
                 expected = kWelcomeHead + kNonceLine * newcomer.world_size;
  if (file->size() < kWelcomeHead) return std::string();
  std::vector<std::byte> line(kNonceLine), head(kWelcomeHead);
  const bool has_line = file->size() >= at + kNonceLine;
  if (has_line) CKPT_TRY(file->read_at(at, line));
  if (!has_line || as_text(line) != to_hex(nonce) + "\n") {
    if (file->size() == expected) return std::string();
    CKPT_ASSIGN(const bool behind, is_behind(*file, nonce));
    if (!behind) return std::string();
  }
  CKPT_TRY(file->read_at(0, head));
  return std::string(as_text(head).substr(0, as_text(head).find('\n')));
}

static constexpr size_t kMostLeftovers = 1000;  // hellos that one start removes beside those of its ranks

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
  std::map<uint32_t, Id> first;
  std::string more;  // a rank that died and came again has two hellos; one of another world learns that it is
  for (const auto& file : files) {
    auto hello = format::parse_hello_name(file.name);
    if (!hello || more.size() >= kMostNonces * kNonceLine || !answered_.insert(file.name).second) continue;
    const bool is_first = hello->rank < plan_.world_size && first.try_emplace(hello->rank, hello->nonce).second;
    if (!is_first) more += to_hex(hello->nonce) + "\n";
  }
  if (first.empty() && more.empty()) return Ok();
  std::string welcome = head_;
  welcome.append(kNonceLine * plan_.world_size, ' ');
  for (const auto& [rank, nonce] : first)
    welcome.replace(kWelcomeHead + kNonceLine * rank, kNonceLine, to_hex(nonce) + "\n");
  return store_.put_own(welcome_key(plan_.run, {plan_.token, ++batches_}), as_bytes(welcome + more));
}

void Reception::close() {
  for (uint64_t batch = 1; batch <= batches_; batch++)
    (void)store_.remove(welcome_key(plan_.run, {plan_.token, batch}), false);
  auto files = store_.list(format::rendezvous_dir(plan_.run));
  size_t left = plan_.world_size + kMostLeftovers;
  for (size_t i = 0; files.ok() && i < files->size() && left > 0; i++)
    if (answered_.contains((*files)[i].name)) {
      (void)store_.remove(hello_key((*files)[i].name), false);
      left--;
    }
}

// ---- claims and refusals ----

void refuse_start(store::Store& store, const SessionPlan& plan, uint32_t rank, bool claimed, const Status& cause) {
  if (cause.code() == CKPT_FENCED || cause.code() == CKPT_ABORTED) return;  // rank 0 knows, or told it
  const Closing telling(cause);
  auto taken = claimed ? Result<bool>(false) : store.exists(format::claim_key(plan.token, rank));
  if (rank >= plan.world_size || !taken.ok() || *taken) return;
  const std::string text = strformat("rank {} ({}): {}", rank, status_name(cause.code()), cause.message());
  (void)store.put_if_absent(format::refusal_key(plan.token, rank), as_bytes(text));
}

static Status read_refusal(const store::Store& store, const SessionPlan& plan, uint32_t rank) {
  CKPT_ASSIGN(const auto text, store.get(format::refusal_key(plan.token, rank), 65536));
  return Status(CKPT_ABORTED, std::string(as_text(text))).with("rank", uint64_t{rank});
}

struct Ranks {
  std::vector<uint32_t> here, missing;  // of those that came, all but rank 0
};

static Result<Ranks> look_for_ranks(const store::Store& store, const SessionPlan& plan) {
  std::vector<bool> claimed(plan.world_size, false);
  CKPT_ASSIGN(auto files, store.list(format::session_dir(plan.token)));
  for (const auto& file : files) {
    if (auto rank = format::parse_claim_name(file.name); rank && *rank < plan.world_size) claimed[*rank] = true;
    if (auto rank = format::parse_refusal_name(file.name)) CKPT_TRY(read_refusal(store, plan, *rank));
  }
  Ranks ranks;
  for (uint32_t rank = 0; rank < plan.world_size; rank++) (claimed[rank] ? ranks.here : ranks.missing).push_back(rank);
  std::erase(ranks.here, 0);
  return ranks;
}

// Rank 0 lists names for all ranks, so its pauses grow more slowly than theirs.
static constexpr uint32_t kRanksPerListing = 10;

// One step of rank 0's waiting: a fence check, the hellos or the claims. True once all ranks have claimed their place.
static Result<bool> await_ranks(store::Store& store, const SessionPlan& plan, Reception& reception, Turns& turns,
                                const Alive& alive, Ranks* ranks) {
  if (turns.other()) {
    CKPT_TRY(check_fence(store, plan));
    CKPT_TRY(alive(ranks->here));
    return false;
  }
  if (turns.odd()) {
    CKPT_TRY(reception.answer());
    return false;
  }
  CKPT_ASSIGN(*ranks, look_for_ranks(store, plan));
  return ranks->missing.empty();
}

static Status await_all(store::Store& store, const SessionPlan& plan, Reception& reception, int64_t timeout_ms,
                        const Job& job, const Alive& alive) {
  CKPT_TRY(reception.open());
  CKPT_ASSIGN(auto ranks, look_for_ranks(store, plan));
  Turns turns;
  for (Backoff backoff(timeout_ms, plan.world_size / kRanksPerListing);; backoff.sleep()) {
    const ContextScope within = backoff.within();
    auto complete = await_ranks(store, plan, reception, turns, alive, &ranks);
    if (complete.ok() && *complete) return check_fence(store, plan);
    if (complete.status().code() != CKPT_TIMEOUT) CKPT_TRY(complete.status());
    if (job.cancelled() || !backoff.expired()) CKPT_TRY(job.check());
    if (!backoff.expired()) continue;
    return Status(CKPT_TIMEOUT, strformat("{} of {} ranks did not come to the rendezvous within {} ms: {}",
                                          ranks.missing.size(), plan.world_size, timeout_ms, list_ranks(ranks.missing)))
        .with("ranks", list_ranks(ranks.missing));
  }
}

static constexpr const char* kNotStarted = "the session did not start";

static void say_stop(store::Store& store, const SessionPlan& plan, const Status& cause) {
  const Closing telling(cause);
  const bool of_another = cause.code() == CKPT_ABORTED;
  const std::string whose = of_another ? "" : strformat("rank 0 ({}): ", status_name(cause.code()));
  (void)store.put_own(start_key(plan), as_bytes("stop: " + whose + cause.message()));
}

Status lead_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                       int64_t timeout_ms, const Job& job, const Alive& alive) {
  Reception reception(store, plan, session_string);
  if (Status failed = await_all(store, plan, reception, timeout_ms, job, alive); !failed.ok()) {
    say_stop(store, plan, failed);
    return failed.code() == CKPT_ABORTED ? std::move(failed).in(kNotStarted) : failed;
  }
  CKPT_TRY(store.put_own(start_key(plan), as_bytes("go")));
  reception.close();
  return Ok();
}

void call_off_rendezvous(store::Store& store, const SessionPlan& plan, const std::string& session_string,
                         const Status& cause) {
  const Closing telling(cause);
  Reception reception(store, plan, session_string);
  if (reception.open().ok()) (void)reception.answer();
  say_stop(store, plan, cause);
}

// Looks through the welcomes that this rank has not looked through yet.
static Result<std::string> find_welcome(const store::Store& store, std::string_view run, Newcomer newcomer,
                                        const Id& nonce, std::set<std::string>* seen) {
  auto files = store.list(format::welcomes_dir(run));
  if (files.status().code() == CKPT_NOT_FOUND) return std::string();
  CKPT_TRY(files.status());
  for (const auto& file : *files) {
    auto name = format::parse_welcome_name(file.name);
    if (!name || seen->contains(file.name)) continue;
    CKPT_TRY(CallContext::current().check());
    seen->insert(file.name);
    auto answer = read_welcome(store, welcome_key(run, *name), newcomer, nonce);
    if (answer.status().code() == CKPT_NOT_FOUND) continue;  // a dead session's, removed meanwhile
    if (!answer.ok() || !answer->empty()) return answer;
  }
  return std::string();
}

static Result<std::string> await_welcome(store::Store& store, std::string_view run, Newcomer newcomer, const Id& nonce,
                                         int64_t timeout_ms, const Job& job) {
  std::set<std::string> seen;
  for (Backoff backoff(timeout_ms, newcomer.world_size);; backoff.sleep()) {
    const ContextScope within = backoff.within();
    auto answer = find_welcome(store, run, newcomer, nonce, &seen);
    const bool late = answer.status().code() == CKPT_TIMEOUT;
    if (!late && (!answer.ok() || !answer->empty())) return answer;
    if (job.cancelled() || !backoff.expired()) CKPT_TRY(job.check());
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
  std::optional<Closing> withdrawing;
  if (!answer.ok()) withdrawing.emplace(answer.status());
  (void)store.remove(hello, false);  // answered, or withdrawn
  return answer;
}

Status await_start(store::Store& store, const SessionPlan& plan, int64_t timeout_ms, const Job& job) {
  const std::string key = start_key(plan);
  Turns turns;
  for (Backoff backoff(timeout_ms, plan.world_size);; backoff.sleep()) {
    const ContextScope within = backoff.within();
    const bool asks_fence = turns.other();
    Status fenced = asks_fence ? check_fence(store, plan) : Ok();
    if (!asks_fence || !fenced.ok()) {  // one that was fenced after its start has started all the same
      auto decided = store.exists(key);
      if (decided.ok() && *decided) break;
      if (fenced.ok()) fenced = decided.status();
    }
    if (job.cancelled() || !backoff.expired()) CKPT_TRY(job.check());
    if (fenced.code() != CKPT_TIMEOUT) CKPT_TRY(std::move(fenced));
    if (backoff.expired())
      return Status(CKPT_TIMEOUT,
                    strformat("not all ranks of session {} were there within {} ms", plan.token, timeout_ms));
  }
  CKPT_ASSIGN(auto word, store.get(key, 65536));
  return as_text(word) == "go" ? Ok() : Status(CKPT_ABORTED, std::string(as_text(word))).in(kNotStarted);
}

}  // namespace ckpt::session
