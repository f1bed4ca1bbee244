// Each request of each call gets no answer in turn: the call ends by the end of its time and ten seconds, says what it
// waited for, and the earlier checkpoint is still there. Requests here have an hour of their own, so nothing but the
// call ends them. Runs where tests/s3/run.sh has started a server. CKPT_STALL_ALL=1: at each request; else at some.
#include <atomic>
#include <deque>
#include <thread>

#include "commit/any_store.h"
#include "commit/retention.h"
#include "maintain/copy.h"
#include "s3/fault_proxy.h"

namespace ckpt::commit {
namespace {

using store::Fault;

constexpr int64_t kTimeMs = 1500, kMostMs = kTimeMs + 10000;
constexpr unsigned kAtOnce = 6;  // they wait, most of the time
const SaveOptions kSoon{.timeout_ms = kTimeMs};

class S3Stall : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Server, S3Stall, testing::Range(0, store::s3_endpoint() ? 1 : 0));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Stall);

// A bucket's prefix with one checkpoint, seen through a proxy of its own.
struct Place {
  std::shared_ptr<store::Store> open(bool through_proxy) const {
    store::S3Options options = store::s3_options();
    if (through_proxy) {
      options.endpoint = proxy->endpoint();
      options.timing.stall_s = 3600;
      options.timing.retry_ms = 3600000;
    }
    return *store::open_bucket(uri, options);
  }
  const std::unique_ptr<store::FaultProxy> proxy = std::make_unique<store::FaultProxy>(store::s3_endpoint());
  const std::string uri = store::fresh_s3_uri();
};

Status save_under(const std::shared_ptr<session::Session>& session, int64_t step, const SaveOptions& options,
                  Job& job) {
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
  const std::vector<float> values = values_of(step, 0, 1);
  CKPT_TRY(save->add_tensor("w", rows_of(0, 1), values.data(), values.size() * sizeof(float)));
  CKPT_TRY(save->begin());
  return save->work(job, false);
}

// One call on a place. `prepare` makes what it works on, past the stall.
struct Stalled {
  const char* name;
  std::function<std::function<Status(Job&)>(const Place&)> prepare;
  uint64_t stride;
};

std::function<Status(Job&)> prepare_save(const Place& place) {
  return [session = open_session(place.open(true))](Job& job) { return save_under(session, 2, kSoon, job); };
}

std::function<Status(Job&)> prepare_load(const Place& place) {
  return [store = place.open(true)](Job& job) -> Status {
    job.call->bound(kTimeMs);
    CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(store, {"s1.1.1", "main"}));
    CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {.timeout_ms = kTimeMs}));
    std::vector<float> values(values_of(1, 0, 1).size());
    CKPT_TRY(load->add_tensor("w", rows_of(0, 1), values.data(), values.size() * sizeof(float)));
    CKPT_TRY(load->begin());
    return load->work(job);
  };
}

std::function<Status(Job&)> prepare_copy(const Place& place) {
  const std::string to = store::fresh_s3_uri();
  store::S3Options options = store::s3_options();
  options.endpoint = place.proxy->endpoint();
  options.timing.stall_s = 3600;
  options.timing.retry_ms = 3600000;
  return [checkpoint = *checkpoint::Checkpoint::open(place.open(false), {"s1.1.1", "main"}),
          target = *store::open_bucket(to, options)](Job& job) {
    job.call->bound(kTimeMs);
    Report report;
    return maintain::copy_checkpoint(*checkpoint, *target, {}, &report, job);
  };
}

std::function<Status(Job&)> prepare_prune(const Place& place) {
  Job job;
  const auto session = open_session(place.open(false));
  for (int64_t step : {2, 3}) EXPECT_TRUE(save_under(session, step, {}, job).ok());
  return [store = place.open(true)](Job& pruning) {
    pruning.call->bound(kTimeMs);
    Report report;
    return apply_retention(*store, {.run = "main", .keep_last = 1, .protect = "s1"}, &report, pruning);
  };
}

std::function<Status(Job&)> prepare_session(const Place& place) {
  return [store = place.open(true)](Job& job) -> Status {
    const SessionOptions options{.timeout_ms = kTimeMs, .heartbeat_ms = 0, .rendezvous = true};
    return session::Session::open(store, 0, 2, nullptr, options, job).status();  // rank 1 never comes
  };
}

// Stalls one request; 0: none. Returns how many there were.
uint64_t stall_at(const Stalled& call, uint64_t number) {
  const Place place;
  Job saving;
  EXPECT_TRUE(save_under(open_session(place.open(false)), 1, {}, saving).ok());
  place.proxy->arm(Fault::kNone, 0);
  const auto work = call.prepare(place);
  place.proxy->arm(number == 0 ? Fault::kNone : Fault::kStall, number);
  Job job;
  const int64_t begin = steady_ms();
  const Status told = job.run(CKPT_JOB_DONE, work);
  const int64_t after = steady_ms() - begin;
  const std::string at = strformat("{} at {} ({}): {}, {} ms", call.name, number, place.proxy->struck(),
                                   told.ok() ? "OK" : told.message(), after);
  EXPECT_LE(after, kMostMs) << at;
  EXPECT_TRUE(told.ok() || told.code() == CKPT_TIMEOUT || told.code() == CKPT_COMMIT_UNKNOWN) << at;
  const bool rendezvous = std::string_view(call.name) == "session";
  const bool names = told.ok() || rendezvous || told.message().find("s3://") != std::string::npos;
  EXPECT_TRUE(names) << at;
  const auto earlier = checkpoint::Checkpoint::open(place.open(false), {"s1.1.1", "main"});
  EXPECT_TRUE(earlier.ok()) << at << ": " << earlier.status().message();
  return place.proxy->requests();
}

void stall_everywhere(const Stalled& call) {
  const uint64_t requests = stall_at(call, 0);
  ASSERT_GT(requests, 0u);
  std::atomic<uint64_t> next{1};
  const uint64_t stride = std::getenv("CKPT_STALL_ALL") ? 1 : call.stride;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kAtOnce; i++)
    threads.emplace_back([&] {
      for (uint64_t number; (number = next.fetch_add(stride)) <= requests;) stall_at(call, number);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(S3Stall, ASaveEndsInTime) { stall_everywhere({"save", prepare_save, 3}); }
TEST_P(S3Stall, ALoadEndsInTime) { stall_everywhere({"load", prepare_load, 2}); }
TEST_P(S3Stall, ACopyEndsInTime) { stall_everywhere({"copy", prepare_copy, 3}); }
TEST_P(S3Stall, APruneEndsInTime) { stall_everywhere({"prune", prepare_prune, 4}); }
TEST_P(S3Stall, ARendezvousEndsInTime) { stall_everywhere({"session", prepare_session, 8}); }

}  // namespace
}  // namespace ckpt::commit
