// A save of two ranks, a retention and a load on an S3 server, with a fault at each of their requests in turn. Each
// fault is one that passes, so nothing may fail because of it; and nothing that was committed may be lost.
// And a process that is killed at each of them.
// Runs where tests/s3/run.sh has started a server. CKPT_S3_ALL=1: each fault at each request; else one of them at some.
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "checkpoint/engine.h"
#include "commit/retention.h"
#include "maintain/repair.h"
#include "s3/bucket.h"
#include "s3/fault_proxy.h"

namespace ckpt::commit {
namespace {

using store::Fault;

struct Scenario {
  uint32_t world;
  uint64_t columns;
  uint64_t stride;      // which requests, unless all
  bool shares = false;  // the saves have a tensor that does not change, which the server copies
};

class S3Faults : public ::testing::TestWithParam<Scenario> {
 protected:
  std::shared_ptr<store::Store> through_proxy(int64_t grace_ms = 0) const {
    store::S3Options options = store::s3_options();
    options.endpoint = proxy_->endpoint();
    options.grace_ms = grace_ms;
    options.timing.stall_s = 1;
    return *store::open_bucket(uri_, options);
  }
  std::shared_ptr<store::Store> direct() const { return *store::open_bucket(uri_, store::s3_options()); }

  const std::unique_ptr<store::FaultProxy> proxy_ = std::make_unique<store::FaultProxy>(store::s3_endpoint());
  std::string uri_;
};

std::vector<float> fault_values(int64_t step, uint32_t rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; i++) values[i] = static_cast<float>(step * 100 + rank) + static_cast<float>(i % 1000);
  return values;
}

constexpr uint64_t kRows = 12;

Status save_on(const std::shared_ptr<session::Session>& session, int64_t step, uint64_t columns, int64_t keep,
               bool shares = false) {
  const uint32_t rank = session->rank(), world = session->world_size();
  SaveOptions options{.incremental = shares ? "on" : "off", .keep_last = keep};
  options.is_set.incremental = true;
  CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
  const std::vector<float> frozen = fault_values(0, rank, 20000);
  if (shares)
    CKPT_TRY(save->add_tensor("frozen", f32_rows(world, frozen.size(), rank, 1), frozen.data(),
                              frozen.size() * sizeof(float)));
  const std::vector<float> values = fault_values(step, rank, kRows / world * columns);
  CKPT_TRY(save->add_tensor("w", f32_rows(kRows, columns, kRows / world * rank, kRows / world), values.data(),
                            values.size() * sizeof(float)));
  return run_whole(*save);
}

// Loads the latest on one rank. Its step, or the error.
Result<int64_t> load_latest(std::shared_ptr<store::Store> store, uint32_t saved_by, uint64_t columns) {
  CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(std::move(store), {"latest", "main"}));
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
  std::vector<float> values(kRows * columns);
  CKPT_TRY(load->add_tensor("w", f32_rows(kRows, columns, 0, kRows), values.data(), values.size() * sizeof(float)));
  CKPT_TRY(run_whole(*load));
  for (uint32_t rank = 0; rank < saved_by; rank++) {
    const size_t count = values.size() / saved_by;
    const auto expected = fault_values(checkpoint->summary().step, rank, count);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), values.begin() + static_cast<ptrdiff_t>(rank * count)));
  }
  return checkpoint->summary().step;
}

// Two saves of all ranks, of which the second removes the first, and a load.
Status save_prune_and_load(const std::function<std::shared_ptr<store::Store>()>& handle, uint32_t world,
                           uint64_t columns, bool shares) {
  std::vector<std::shared_ptr<session::Session>> ranks;
  for (uint32_t rank = 0; rank < world; rank++) {
    auto session = session::Session::open(handle(), rank, world, rank ? ranks[0]->string().c_str() : nullptr, {});
    if (!session.ok()) return std::move(session).status().in("session");
    ranks.push_back(session.take());
  }
  for (int64_t step : {1, 2}) {
    std::vector<Status> told(world);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; rank++)
      threads.emplace_back([&, rank] { told[rank] = save_on(ranks[rank], step, columns, 1, shares); });
    for (std::thread& thread : threads) thread.join();
    for (Status& status : told) CKPT_TRY(std::move(status).in("save " + std::to_string(step)));
  }
  auto loaded = load_latest(handle(), world, columns);
  if (!loaded.ok()) return std::move(loaded).status().in("load");
  return *loaded == 2 ? Ok() : Status(CKPT_NOT_FOUND, "loaded step " + std::to_string(*loaded));
}

// What a session leaves that starts more than an hour later, by the server's clock: of all directories these, and no
// note, probe or upload, but at most so many uploads that nobody knows of, which go after a week.
void expect_clean_after_an_hour(const std::string& uri, const std::set<std::string>& directories,
                                size_t unknown_uploads = 0) {
  store::FaultProxy clock(store::s3_endpoint());
  clock.shift_dates(3700);
  store::S3Options options = store::s3_options();
  options.endpoint = clock.endpoint();
  auto later = *store::open_bucket(uri, options);
  ASSERT_TRUE(later->prepare().ok());
  EXPECT_EQ(later->list(".ckpt/trash").status().code(), CKPT_NOT_FOUND) << "a removal was not finished";
  std::set<std::string> found;
  const auto entries = *later->list("");
  for (const auto& entry : entries)
    if (entry.name != ".ckpt") found.insert(entry.name);
  EXPECT_EQ(found, directories);
  auto client = store::bucket_at(uri);
  EXPECT_LE(client->list_uploads("")->size(), unknown_uploads);
  clock.shift_dates(8 * 24 * 3600);
  ASSERT_TRUE(later->prepare().ok());
  EXPECT_EQ(client->list_uploads("")->size(), 0u);
}

// What is there at the end, seen without the proxy.
void expect_only_the_second(const std::shared_ptr<store::Store>& store, uint32_t world, uint64_t columns,
                            size_t unknown_uploads = 0) {
  auto loaded = load_latest(store, world, columns);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(*loaded, 2);
  const auto entries = checkpoint::list_checkpoints(*store);
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(entries->size(), 1u);
  expect_clean_after_an_hour(store->uri(), {"s2.1.1"}, unknown_uploads);
}

std::vector<Scenario> if_served(const Scenario& scenario) {
  return store::s3_endpoint() ? std::vector{scenario} : std::vector<Scenario>();
}
INSTANTIATE_TEST_SUITE_P(Small, S3Faults, ::testing::ValuesIn(if_served({2, 5, 7})));
INSTANTIATE_TEST_SUITE_P(Shared, S3Faults, ::testing::ValuesIn(if_served({2, 5, 7, true})));
// Parts of 10 MB, which are sent as uploads.
INSTANTIATE_TEST_SUITE_P(Uploads, S3Faults, ::testing::ValuesIn(if_served({1, 220000, 13})));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Faults);

TEST_P(S3Faults, AnyRequestMayMeetAnyFault) {
  const auto [world, columns, stride, shares] = GetParam();
  auto handle = [this] { return through_proxy(); };
  uri_ = store::fresh_s3_uri();
  proxy_->arm(Fault::kNone, 0);
  ASSERT_TRUE(save_prune_and_load(handle, world, columns, shares).ok());
  expect_only_the_second(direct(), world, columns);
  const uint64_t requests = proxy_->requests();
  const bool all = std::getenv("CKPT_S3_ALL") != nullptr;
  constexpr size_t kKinds = std::size(store::kFaults);
  for (uint64_t number = 1; number <= requests; number += all ? 1 : stride)
    for (size_t kind = 0; kind < kKinds; kind++) {
      if (!all && kind != number % kKinds) continue;
      const Fault fault = store::kFaults[kind];
      uri_ = store::fresh_s3_uri();
      proxy_->arm(fault, number);
      const Status done = save_prune_and_load(handle, world, columns, shares);
      const std::string struck = proxy_->struck();
      const std::string what = strformat("{} at request {}, {}", store::name_of(fault), number, struck);
      // Two uploads begin, or one of which nobody is told. What belongs to the first checkpoint goes with it.
      const bool may_begin_unknown = struck.find("?uploads=") != struck.npos && struck.find("/s2") != struck.npos;
      EXPECT_TRUE(done.ok()) << what << ": " << done.message();
      SCOPED_TRACE(what);
      expect_only_the_second(direct(), world, columns, may_begin_unknown ? 1 : 0);
      if (HasFatalFailure()) return;
      EXPECT_TRUE(remove_by_id(*direct(), "s2.1.1").ok());
    }
}

// As if a bit of it had flipped in the bucket.
void damage(const std::string& uri, const std::string& key) {
  auto client = store::bucket_at(uri);
  auto bytes = *(*store::open_bucket(uri, store::s3_options()))->get(key, 1 << 20);
  bytes[bytes.size() / 2] ^= std::byte{1};
  ASSERT_TRUE(store::cloud::put_object_over(*client, key, bytes).ok());
}

// What a person does to a store of two checkpoints, how it ends, and which are left.
struct Work {
  const char* name;
  bool is_damaged;
  std::function<Status(store::Store&)> act;
  ckpt_status expected;
  std::set<std::string> left;
};

Status repair_second(store::Store& store) {
  Report report;
  return maintain::repair_checkpoint(store, "s2.1.1", false, false, &report);
}

TEST_P(S3Faults, AnyRequestOfARemovalOrARepairMayMeetAnyFault) {
  const auto [world, columns, stride, shares] = GetParam();
  if (world == 1 || shares) return;
  const Work works[] = {
      {"removal", false, [](store::Store& store) { return remove_by_id(store, "s1.1.1"); }, CKPT_OK, {"s2.1.1"}},
      {"removal with a grace",
       false,
       [this](store::Store&) { return remove_by_id(*through_proxy(600'000), "s1.1.1"); },
       CKPT_OK,
       {"s2.1.1"}},
      {"repair", true, repair_second, CKPT_OK, {"s1.1.1", "s2.1.1"}},
      {"repair of what is sound", false, repair_second, CKPT_EXISTS, {"s1.1.1", "s2.1.1"}}};
  const bool all = std::getenv("CKPT_S3_ALL") != nullptr;
  constexpr size_t kKinds = std::size(store::kFaults);
  for (const Work& work : works) {
    uint64_t requests = 0;
    for (uint64_t number = 0; number <= requests; number += all || number == 0 ? 1 : 3)
      for (size_t kind = 0; kind < kKinds; kind++) {
        if (number == 0 ? kind != 0 : !all && kind != number % kKinds) continue;
        uri_ = store::fresh_s3_uri();
        auto session = open_session(direct(), 0, 1);
        for (int64_t step : {1, 2}) ASSERT_TRUE(save_on(session, step, columns, 0).ok());
        if (work.is_damaged) damage(uri_, "s2.1.1/MANIFEST");
        proxy_->arm(number == 0 ? Fault::kNone : store::kFaults[kind], number);
        const Status done = work.act(*through_proxy());
        if (number == 0) requests = proxy_->requests();
        const std::string what = strformat("{}, {} at request {}, {}", work.name, store::name_of(store::kFaults[kind]),
                                           number, proxy_->struck());
        EXPECT_EQ(done.code(), work.expected) << what << ": " << done.message();
        SCOPED_TRACE(what);
        auto loaded = load_latest(direct(), 1, columns);
        ASSERT_TRUE(loaded.ok()) << loaded.status().message();
        EXPECT_EQ(*loaded, 2);
        expect_clean_after_an_hour(uri_, work.left);
      }
  }
}

// The network repeats the request that committed a checkpoint, after that was removed.
TEST_P(S3Faults, ACommitThatArrivesAgainAfterTheRemovalBringsNothingBack) {
  const auto [world, columns, stride, shares] = GetParam();
  uri_ = store::fresh_s3_uri();
  proxy_->script([this](const std::string& line) {
    if (store::puts_object(line, "/s1.1.1/MANIFEST")) {
      proxy_->script(nullptr);
      proxy_->arm(Fault::kLate, 1);
    }
    return "";
  });
  ASSERT_TRUE(save_prune_and_load([this] { return through_proxy(); }, world, columns, shares).ok());
  const std::string told = proxy_->repeat();
  EXPECT_NE(told.find(store::server_kind().refused), std::string::npos) << told;
  expect_only_the_second(direct(), world, columns);
}

TEST_P(S3Faults, AStoreOfOneWriterIsNotForSeveralRanks) {
  store::S3Options options = store::s3_options();
  options.conditional = false;
  auto store = *store::open_bucket(store::fresh_s3_uri(), options);
  EXPECT_EQ(session::Session::open(store, 0, 2, nullptr, {}).status().code(), CKPT_UNSUPPORTED);
  EXPECT_TRUE(session::Session::open(store, 0, 1, nullptr, {}).ok());
}

// Of an index that is too large for one look at its end.
TEST_P(S3Faults, ABitThatFlipsInALargeIndexIsAskedForAgain) {
  const auto [world, columns, stride, shares] = GetParam();
  if (world == 1 || shares) return;
  uri_ = store::fresh_s3_uri();
  std::vector<std::shared_ptr<session::Session>> ranks;
  ranks.push_back(open_session(direct(), 0, 1));
  auto save = *save::Save::make(ranks[0], "s1", 1, {});
  std::vector<float> values(4000);
  for (size_t i = 0; i < values.size(); i++) {
    values[i] = static_cast<float>(i);
    const std::string name = strformat("a name of a tensor that takes some room in the index {}", i);
    ASSERT_TRUE(save->add_tensor(name, f32_rows(1, 1, 0, 1), &values[i], sizeof(float)).ok());
  }
  ASSERT_TRUE(run_whole(*save).ok());
  auto load_one = [&] {
    CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(through_proxy(), {"latest", "main"}));
    CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
    float last = 0;
    CKPT_TRY(load->add_tensor("a name of a tensor that takes some room in the index 3999", f32_rows(1, 1, 0, 1), &last,
                              sizeof last));
    CKPT_TRY(run_whole(*load));
    EXPECT_EQ(last, 3999);
    return Ok();
  };
  proxy_->arm(Fault::kNone, 0);
  ASSERT_TRUE(load_one().ok());
  EXPECT_GT((*direct()->open("s1.1.1/MANIFEST"))->size(), 128u << 10);
  const uint64_t requests = proxy_->requests();
  for (uint64_t number = 1; number <= requests; number++) {
    proxy_->arm(Fault::kFlipAnswer, number);
    const Status loaded = load_one();
    EXPECT_TRUE(loaded.ok()) << number << " " << proxy_->struck() << ": " << loaded.message();
  }
}

// ---- kill -9 ----

// One rank, whose process dies at a request of its own. How many saves it was told of before.
int saves_before_death(store::FaultProxy& proxy, Fault fault, uint64_t number,
                       const std::function<std::shared_ptr<store::Store>()>& handle, uint64_t columns, bool shares) {
  int told[2];
  EXPECT_EQ(::pipe(told), 0);
  int go[2];
  EXPECT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char one = 0;
    (void)!::read(go[0], &one, 1);
    auto session = session::Session::open(handle(), 0, 1, nullptr, {});
    for (int64_t step : {1, 2})
      if (session.ok() && save_on(*session, step, columns, 1, shares).ok()) (void)!::write(told[1], "s", 1);
    if (session.ok()) (void)load_latest(handle(), 1, columns);
    ::_exit(0);
  }
  ::close(told[1]);
  ::close(go[0]);
  proxy.victim(child);
  proxy.arm(fault, number);
  (void)!::write(go[1], "g", 1);
  int count = 0;
  for (char one; ::read(told[0], &one, 1) == 1;) count++;
  ::waitpid(child, nullptr, 0);
  ::close(told[0]);
  ::close(go[1]);
  return count;
}

// What a session finds that starts after a death, and what is left when it has saved.
void expect_the_next_session_to_go_on(const std::shared_ptr<store::Store>& store, int64_t told, uint64_t columns) {
  auto session = session::Session::open(store, 0, 1, nullptr, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto before = load_latest(store, 1, columns);
  if (told > 0 || before.ok()) {
    ASSERT_TRUE(before.ok()) << before.status().message();
    EXPECT_GE(*before, told);
  }
  const Status saved = save_on(*session, 3, columns, 1);
  ASSERT_TRUE(saved.ok()) << saved.message();
  auto after = load_latest(store, 1, columns);
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(*after, 3);
  const auto entries = checkpoint::list_checkpoints(*store);
  ASSERT_TRUE(entries.ok());
  for (const auto& entry : *entries)
    EXPECT_TRUE(entry.summary.step == 3 || entry.state == CKPT_CHECKPOINT_ABORTED) << entry.id;
  std::set<std::string> ids;
  for (const auto& entry : *entries) ids.insert(entry.id);
  expect_clean_after_an_hour(store->uri(), ids);
  for (const auto& entry : *entries) (void)remove_by_id(*store, entry.id);
}

TEST_P(S3Faults, AProcessMayDieAtAnyRequest) {
  const auto [world, columns, stride, shares] = GetParam();
  auto handle = [this] { return through_proxy(); };
  uri_ = store::fresh_s3_uri();
  EXPECT_EQ(saves_before_death(*proxy_, Fault::kNone, 0, handle, columns, shares), 2);
  const uint64_t requests = proxy_->requests();
  const bool all = std::getenv("CKPT_S3_ALL") != nullptr;
  for (uint64_t number = 1; number <= requests; number += all ? 1 : stride)
    for (const Fault fault : {Fault::kKill, Fault::kKillAfter}) {
      if (!all && (fault == Fault::kKill) != (number / stride % 2 == 0)) continue;
      uri_ = store::fresh_s3_uri();
      const int told = saves_before_death(*proxy_, fault, number, handle, columns, shares);
      SCOPED_TRACE(
          strformat("{} at request {}, {}, told of {} saves", store::name_of(fault), number, proxy_->struck(), told));
      expect_the_next_session_to_go_on(direct(), told, columns);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace ckpt::commit
