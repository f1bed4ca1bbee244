// Jobs that are cancelled, and waits whose time is up, while an S3 server does not answer: they end, although requests
// here have an hour. Runs where tests/s3/run.sh has started one. CKPT_S3_ALL=1: at each request of a save; else at
// some.
#include <future>
#include <thread>

#include "commit/any_store.h"
#include "maintain/copy.h"
#include "maintain/verify.h"
#include "s3/fault_proxy.h"

namespace ckpt::commit {
namespace {

using store::Fault;

constexpr uint64_t kWide = 200000;  // columns: 9.6 MB, in two parts of an upload

class S3Ends : public testing::TestWithParam<int> {
 protected:
  std::shared_ptr<store::Store> through_proxy() const {
    store::S3Options options = store::s3_options();
    options.endpoint = proxy_->endpoint();
    options.timing.stall_s = 3600;
    options.timing.retry_ms = 3600000;
    return *store::open_bucket(uri_, options);
  }
  std::shared_ptr<store::Store> direct() const { return *store::open_bucket(uri_, store::s3_options()); }

  // Runs work, and cancels it once request `number` does not get on.
  Status cancelled_at(uint64_t number, const std::function<Status(Job&)>& work, Fault fault = Fault::kStall) const {
    Job job;
    proxy_->arm(fault, number);
    auto told = std::async(std::launch::async, [&] { return job.run(CKPT_JOB_DONE, work); });
    while (proxy_->struck().empty() && !job.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    job.cancel();
    return told.get();
  }

  // The second request of that kind gets no answer.
  void stall_second(const std::string& verb, const std::string& asked) const {
    proxy_->arm(Fault::kNone, 0);
    proxy_->script([this, verb, asked, seen = std::make_shared<std::atomic<int>>(0)](const std::string& line) {
      if (line.starts_with(verb) && line.find(asked) != line.npos && ++*seen == 2) proxy_->arm(Fault::kStall, 1);
      return std::string();
    });
  }

  const std::unique_ptr<store::FaultProxy> proxy_ = std::make_unique<store::FaultProxy>(store::s3_endpoint());
  const std::string uri_ = store::fresh_s3_uri();
};
INSTANTIATE_TEST_SUITE_P(Server, S3Ends, testing::Range(0, store::s3_endpoint() ? 1 : 0));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Ends);

Status save_wide(const std::shared_ptr<session::Session>& session, int64_t step, Job& job) {
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, {}));
  const std::vector<float> values(kStateRows * kWide, static_cast<float>(step));
  CKPT_TRY(
      save->add_tensor("w", f32_rows(kStateRows, kWide, 0, kStateRows), values.data(), values.size() * sizeof(float)));
  CKPT_TRY(save->begin());
  return save->work(job, false);
}

Status load_wide(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, Job& job) {
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
  std::vector<float> values(kStateRows * kWide);
  CKPT_TRY(
      load->add_tensor("w", f32_rows(kStateRows, kWide, 0, kStateRows), values.data(), values.size() * sizeof(float)));
  CKPT_TRY(load->begin());
  return load->work(job);
}

TEST_P(S3Ends, ACancelledLoadVerificationOrCopyWaitsForNoAnswer) {
  Job saving;
  ASSERT_TRUE(save_wide(open_session(direct()), 1, saving).ok());
  for (const Fault fault : {Fault::kStall, Fault::kError})
    for (const uint64_t number : {1, 2}) {
      const auto opened = *checkpoint::Checkpoint::open(through_proxy(), {"s1.1.1", "main"});
      EXPECT_EQ(cancelled_at(number, [&](Job& job) { return load_wide(opened, job); }, fault).code(), CKPT_CANCELLED);
    }
  auto opened = *checkpoint::Checkpoint::open(through_proxy(), {"s1.1.1", "main"});
  EXPECT_EQ(cancelled_at(3, [&](Job& job) { return maintain::verify_checkpoint(*opened, {}, job); }).code(),
            CKPT_CANCELLED);
  auto to = fresh_memory_store();
  opened = *checkpoint::Checkpoint::open(through_proxy(), {"s1.1.1", "main"});
  Report report;
  auto copy = [&](Job& job) { return maintain::copy_checkpoint(*opened, *to, {}, &report, job); };
  EXPECT_EQ(cancelled_at(3, copy).code(), CKPT_CANCELLED);
  Job again;
  EXPECT_TRUE(maintain::copy_checkpoint(*opened, *to, {}, &report, again).ok()) << "the next one goes on";
}

TEST_P(S3Ends, ALoadThroughACacheThatWaitsForAnothersRequestIsCancelled) {
  Folder folder;
  Job saving, other;
  ASSERT_TRUE(save_wide(open_session(direct()), 1, saving).ok());
  const auto store =
      *store::open_cache(through_proxy(), {.cache = {.directory = folder.path, .bytes = store::kCacheRoom}});
  const auto opened = *checkpoint::Checkpoint::open(store, {"s1.1.1", "main"});
  proxy_->arm(Fault::kStall, 2);
  auto first = std::async(std::launch::async,
                          [&] { return other.run(CKPT_JOB_DONE, [&](Job& job) { return load_wide(opened, job); }); });
  while (proxy_->struck().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Job job;
  auto second = std::async(std::launch::async,
                           [&] { return job.run(CKPT_JOB_DONE, [&](Job& self) { return load_wide(opened, self); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until it waits, usually
  job.cancel();
  EXPECT_EQ(second.get().code(), CKPT_CANCELLED);
  other.cancel();
  EXPECT_EQ(first.get().code(), CKPT_CANCELLED);
}

// What is said to have failed may only be there if nobody could tell; and the run goes on.
TEST_P(S3Ends, ACancelledSaveEndsAtWhateverRequestItWaitsAndTheNextOneWorks) {
  auto session = open_session(through_proxy());
  Job counting;
  proxy_->arm(Fault::kNone, 0);
  ASSERT_TRUE(save_wide(session, 1, counting).ok());
  const uint64_t requests = proxy_->requests();
  ASSERT_GE(requests, 12u);
  const uint64_t stride = std::getenv("CKPT_S3_ALL") ? 1 : 8;
  for (uint64_t number = 1; number <= requests; number += stride) {
    SCOPED_TRACE(number);
    const int64_t step = static_cast<int64_t>(number) * 2;
    const Status told = cancelled_at(number, [&](Job& job) { return save_wide(session, step, job); });
    const std::string struck = proxy_->struck();
    if (struck.empty()) proxy_->arm(Fault::kNone, 0);  // the first save of a session asks a little more than later ones
    EXPECT_TRUE(!struck.empty() || number + 4 > requests) << "it has " << requests << " requests";
    SCOPED_TRACE(struck);
    const std::string id = strformat("s{}.1.1", step);
    const bool there = checkpoint::Checkpoint::open(direct(), {id, "main"}).ok();
    if (told.code() == CKPT_COMMIT_UNKNOWN) continue;
    EXPECT_TRUE(told.ok() || told.code() == CKPT_CANCELLED) << told.message();
    EXPECT_EQ(there, told.ok()) << told.message();
    Job after;
    EXPECT_TRUE(save_wide(session, step + 1, after).ok());
  }
}

// On a busy machine a call's time may be over before the request that is to stall: then it gets more.
template <class Call>
Status with_enough_time(store::FaultProxy& proxy, const Call& call) {
  for (int64_t timeout_ms = 1500;; timeout_ms *= 4)
    if (Status told = call(timeout_ms); !proxy.struck().empty() || timeout_ms > 60000) return told;
}

TEST_P(S3Ends, WaitingForRanksEndsWithItsTimeWhateverTheServerDoes) {
  const SessionOptions quiet{.heartbeat_ms = 0};
  const auto leader = *session::Session::open(through_proxy(), 0, 2, nullptr, quiet);
  const auto follower = *session::Session::open(through_proxy(), 1, 2, leader->string().c_str(), quiet);
  const std::vector<float> values = values_of(1, 0, 2);
  // Rank 1 waits for rank 0 to begin, and rank 0 for the part of rank 1.
  for (const auto& [session, asked] : {std::pair(follower, "attempts"), std::pair(leader, "/PART_001")}) {
    const Status told = with_enough_time(*proxy_, [&](int64_t timeout_ms) -> Status {
      const std::string label = strformat("of-{}-in-{}", session->rank(), timeout_ms);
      CKPT_ASSIGN(auto save, save::Save::make(session, label, 1, {.timeout_ms = timeout_ms}));
      CKPT_TRY(save->add_tensor("w", rows_of(session->rank(), 2), values.data(), values.size() * sizeof(float)));
      stall_second("GET", asked);
      return run_whole(*save);
    });
    EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
    EXPECT_NE(proxy_->struck(), "") << "it had no request that stalls";
    EXPECT_TRUE(told.detail("ranks")) << told.message();
  }
}

TEST_P(S3Ends, MeetingRanksEndsWithItsTimeWhateverTheServerDoes) {
  auto store = through_proxy();
  for (const uint32_t rank : {0u, 1u}) {
    const Status told = with_enough_time(*proxy_, [&](int64_t timeout_ms) {
      stall_second("GET", rank == 0 ? "rendezvous" : "welcomes");
      const SessionOptions soon{.timeout_ms = timeout_ms, .rendezvous = true};
      return session::Session::open(store, rank, 2, nullptr, soon).status();
    });
    EXPECT_EQ(told.code(), CKPT_TIMEOUT) << told.message();
    EXPECT_NE(proxy_->struck(), "") << "it had no request that stalls";
  }
}

}  // namespace
}  // namespace ckpt::commit
