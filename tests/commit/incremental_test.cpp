// Saves that write only what changed, and copies that send only news, on every kind of store; and what a base that
// changes meanwhile, or a store that gives no second names, makes of them.
#include <cerrno>

#include "commit/any_store.h"
#include "commit/retention.h"
#include "maintain/copy.h"
#include "maintain/repair.h"
#include "maintain/verify.h"
#include "store/shell_store.h"

namespace ckpt::commit {
namespace {

constexpr uint64_t kFrozen = 300'000, kTrained = 20'000;  // elements of f32

ckpt_tensor_desc vector_of(uint64_t count) { return f32_rows(1, count, 0, 1); }

std::vector<float> frozen() {
  std::vector<float> values(kFrozen);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i % 9973);
  return values;
}
std::vector<float> trained(int64_t step) { return std::vector<float>(kTrained, static_cast<float>(step)); }

SaveOptions reusing(const std::string& how = "on", int64_t keep_last = 0) {
  SaveOptions options{.incremental = how, .keep_last = keep_last};
  options.is_set.incremental = true;
  return options;
}

struct Done {
  Status status;
  std::vector<Finding> reused;
  uint64_t written = 0, sent = 0, received = 0;
  bool taken() const { return !reused.empty() && reused[0].status == CKPT_OK; }
};

Done done_by(Job& job, Status status, const Report& report) {
  Done done{std::move(status),
            {},
            job.counters.bytes_written,
            job.call->requests.bytes_sent,
            job.call->requests.bytes_received};
  for (const Finding& finding : report.findings)
    if (finding.kind == CKPT_FINDING_REUSED) done.reused.push_back(finding);
  return done;
}

// `changed`: the step whose values it trains; by default its own.
Done save_state(const std::shared_ptr<session::Session>& session, int64_t step, const SaveOptions& options = reusing(),
                int64_t changed = -1) {
  Job job;
  Status status = job.run(CKPT_JOB_COMMITTED, [&](Job& running) -> Status {
    CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
    const auto still = frozen(), moving = trained(changed < 0 ? step : changed);
    CKPT_TRY(save->add_tensor("frozen", vector_of(kFrozen), still.data(), still.size() * sizeof(float)));
    CKPT_TRY(save->add_tensor("trained", vector_of(kTrained), moving.data(), moving.size() * sizeof(float)));
    CKPT_TRY(save->begin());
    return save->work(running, true);
  });
  return done_by(job, std::move(status), job.report);
}

// Every value is right, and a full verification finds nothing.
void expect_sound(const std::shared_ptr<store::Store>& store, const std::string& selector, int64_t values) {
  auto checkpoint = checkpoint::Checkpoint::open(store, {selector, "main"});
  ASSERT_TRUE(checkpoint.ok()) << selector << ": " << checkpoint.status().message();
  auto load = *load::Load::make(*checkpoint, {});
  std::vector<float> still(kFrozen), moving(kTrained);
  ASSERT_TRUE(load->add_tensor("frozen", vector_of(kFrozen), still.data(), still.size() * sizeof(float)).ok());
  ASSERT_TRUE(load->add_tensor("trained", vector_of(kTrained), moving.data(), moving.size() * sizeof(float)).ok());
  const Status loaded = run_whole(*load);
  ASSERT_TRUE(loaded.ok()) << selector << ": " << loaded.message();
  EXPECT_TRUE(still == frozen() && moving == trained(values)) << selector;
  Job job;
  ASSERT_TRUE(maintain::verify_checkpoint(**checkpoint, {}, job).ok());
  EXPECT_TRUE(job.report.findings.empty()) << job.report.findings[0].text;
}

std::vector<std::string> bases_in(const store::Store& store, const std::string& id) {
  std::vector<std::string> names;
  EXPECT_TRUE(checkpoint::await_listings(store).ok());
  const auto entries = store.list(id);
  for (size_t i = 0; entries.ok() && i < entries->size(); i++)
    if ((*entries)[i].name.starts_with("BASE_")) names.push_back((*entries)[i].name);
  return names;
}

// ---- every store ----

class ReuseOnAnyStore : public ::testing::TestWithParam<Kind> {
 protected:
  const Handles handles = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Stores, ReuseOnAnyStore,
                         ::testing::Values(Kind{"Directory", directory_store}, Kind{"Memory", memory_store},
                                           Kind{"Weak", [] { return weak_store({}); }}, Kind{"Cached", cached_store}),
                         [](const auto& kind) { return kind.param.name; });

INSTANTIATE_TEST_SUITE_P(OnS3, ReuseOnAnyStore, ::testing::ValuesIn(s3_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(ReuseOnAnyStore, WhatDidNotChangeIsSharedAndNoCheckpointNeedsAnother) {
  auto session = open_session(handles());
  for (int64_t step = 1; step <= 4; step++) {
    const Done saved = save_state(session, step);
    ASSERT_TRUE(saved.status.ok()) << step << ": " << saved.status.message();
    if (step > 1) {
      EXPECT_LT(saved.written, kTrained * sizeof(float) + 65536) << step;
    }
    EXPECT_EQ(saved.taken(), step > 1) << step;
    EXPECT_EQ(bases_in(*handles(), strformat("s{}.1.1", step)).size(), step == 1 ? 0u : 1u) << step;
  }
  for (const char* id : {"s1.1.1", "s2.1.1", "s3.1.1"}) ASSERT_TRUE(remove_by_id(*handles(), id).ok());
  expect_sound(handles(), "s4.1.1", 4);
}

TEST_P(ReuseOnAnyStore, ASaveOfWhichNothingChangedAndThatKeepsOneIsNearlyFree) {
  auto session = open_session(handles());
  for (int64_t step = 1; step <= 3; step++) {
    const Done saved = save_state(session, step, reusing("on", 1), 7);
    ASSERT_TRUE(saved.status.ok()) << saved.status.message();
    if (step == 1) continue;
    EXPECT_LE(saved.written, 4 * kAlign) << "a header and an index";
    EXPECT_LT(saved.sent, 65536u) << "with records and MANIFEST, to a server";
    EXPECT_EQ(checkpoint::list_checkpoints(*handles())->size(), 1u);
  }
  expect_sound(handles(), "latest", 7);
}

TEST_P(ReuseOnAnyStore, ACopySendsOnlyWhatTheTargetLacks) {
  auto session = open_session(handles());
  auto target = GetParam().make();
  uint64_t whole = 0;
  for (int64_t step = 1; step <= 3; step++) {
    ASSERT_TRUE(save_state(session, step).status.ok());
    const std::string id = strformat("s{}.1.1", step);
    auto from = *checkpoint::Checkpoint::open(handles(), {id, "main"});
    Job job;
    Status status = maintain::copy_checkpoint(*from, *target(), {}, &job.report, job);
    const Done copied = done_by(job, std::move(status), job.report);
    ASSERT_TRUE(copied.status.ok()) << copied.status.message();
    if (step == 1) whole = job.counters.bytes_total;
    EXPECT_EQ(copied.taken(), step > 1);
    if (step > 1) {
      EXPECT_LT(job.counters.bytes_total, whole / 4);
    }
    EXPECT_EQ(files_of(*target(), id), files_of(*handles(), id));
  }
  for (const char* id : {"s1.1.1", "s2.1.1"}) ASSERT_TRUE(remove_by_id(*target(), id).ok());
  expect_sound(target(), "s3.1.1", 3);
}

TEST_P(ReuseOnAnyStore, SeveralRanksShareAndEachOfThemMayUseAnothersPart) {
  const std::vector<float> all = frozen();
  for (const uint32_t world : {2u, 3u, 2u}) {
    std::vector<std::shared_ptr<session::Session>> ranks{open_session(handles(), 0, world)};
    for (uint32_t rank = 1; rank < world; rank++)
      ranks.push_back(open_session(handles(), rank, world, ranks[0]->string().c_str()));
    std::vector<Status> told(world);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < world; rank++)
      threads.emplace_back([&, rank] {
        told[rank] = [&]() -> Status {
          CKPT_ASSIGN(auto save,
                      save::Save::make(ranks[rank], strformat("w{}.{}", world, ranks[0]->plan().token), 1, reusing()));
          const uint64_t rows = 6 / world;
          const auto desc = f32_rows(6, kFrozen / 6, rows * rank, rows);
          CKPT_TRY(save->add_tensor("frozen", desc, all.data() + rows * rank * (kFrozen / 6),
                                    rows * (kFrozen / 6) * sizeof(float)));
          return run_whole(*save);
        }();
      });
    for (auto& thread : threads) thread.join();
    ASSERT_TRUE(all_ok(told).ok()) << all_ok(told).message();
    auto checkpoint = *checkpoint::Checkpoint::open(handles(), {"latest", "main"});
    auto load = *load::Load::make(checkpoint, {});
    std::vector<float> found(kFrozen);
    ASSERT_TRUE(load->add_tensor("frozen", f32_rows(6, kFrozen / 6, 0, 6), found.data(), kFrozen * sizeof(float)).ok());
    ASSERT_TRUE(run_whole(*load).ok());
    EXPECT_TRUE(found == all) << world;
  }
}

// ---- repair ----

TEST_P(ReuseOnAnyStore, APartThatIsLostComesFromACheckpointThatSharesIt) {
  auto session = open_session(handles());
  for (int64_t step = 1; step <= 3; step++) ASSERT_TRUE(save_state(session, step).status.ok());
  auto store = handles();
  const std::string base = "s2.1.1/" + bases_in(*store, "s2.1.1").at(0);
  for (const std::string& lost : {base, std::string("s1.1.1/PART_000")}) {
    const std::string id = lost.substr(0, lost.find('/'));
    for (const bool replaced : {false, true}) {
      ASSERT_TRUE(store->remove(lost, true).ok());
      if (replaced) {
        ASSERT_TRUE(store->put_if_absent(lost, as_bytes("not a part")).ok());
      }
      Report would, was;
      ASSERT_TRUE(maintain::repair_checkpoint(*store, id, true, false, &would).ok());
      EXPECT_EQ(would.findings.at(0).kind, CKPT_FINDING_REPAIRED);
      EXPECT_EQ(store->open(lost).ok(), replaced) << "a dry run changes nothing";
      const Status repaired = maintain::repair_checkpoint(*store, id, false, false, &was);
      ASSERT_TRUE(repaired.ok()) << lost << ": " << repaired.message();
      EXPECT_EQ(was.findings.size(), 1u);
      expect_sound(store, id, id == "s1.1.1" ? 1 : 2);
      EXPECT_EQ(maintain::repair_checkpoint(*store, id, false, false, &was).code(), CKPT_EXISTS);
    }
  }
  ASSERT_TRUE(store->remove("s3.1.1/PART_000", true).ok());
  Report none;
  EXPECT_EQ(maintain::repair_checkpoint(*store, "s3.1.1", false, false, &none).code(), CKPT_INCOMPLETE)
      << "nobody else has what it alone wrote";
}

// ---- a cache ----

TEST(ReuseInACache, ASharedPartIsOneEntry) {
  Folder folder;
  store::Requests requests;
  auto remote = std::make_shared<store::RemoteStore>(*store::open_posix(folder.path + "/store", {}), requests);
  auto cached =
      *store::open_cache(remote, {.cache = {.directory = folder.path + "/cache", .bytes = store::kCacheRoom}});
  auto session = open_session(cached);
  for (int64_t step = 1; step <= 2; step++) ASSERT_TRUE(save_state(session, step).status.ok());
  // A copy that a server made is another object.
  const std::string base = folder.path + "/store/s2.1.1/" + bases_in(*remote, "s2.1.1").at(0);
  std::filesystem::copy(base, base + ".copy");
  std::filesystem::rename(base + ".copy", base);
  auto bytes_of_load = [&](const std::string& id) {
    auto checkpoint = *checkpoint::Checkpoint::open(cached, {id, "main"});
    auto load = *load::Load::make(checkpoint, {});
    std::vector<float> still(kFrozen);
    EXPECT_TRUE(load->add_tensor("frozen", vector_of(kFrozen), still.data(), still.size() * sizeof(float)).ok());
    const uint64_t before = requests->bytes;
    EXPECT_TRUE(run_whole(*load).ok());
    EXPECT_TRUE(still == frozen());
    return requests->bytes - before;
  };
  EXPECT_GE(bytes_of_load("s1.1.1"), kFrozen * sizeof(float));
  EXPECT_LT(bytes_of_load("s2.1.1"), 65536u) << "its base is the part of the first one";
}

// ---- what is shared, and freed ----

TEST(Shared, IsToldWithTheListAndByRetention) {
  auto store = fresh_memory_store();
  auto session = open_session(store);
  for (int64_t step = 1; step <= 2; step++) ASSERT_TRUE(save_state(session, step).status.ok());
  auto entries = *checkpoint::list_checkpoints(*store);
  checkpoint::measure(*store, entries);
  const uint64_t part = (*store->open("s1.1.1/PART_000"))->size();
  for (const auto& entry : entries) EXPECT_EQ(entry.shared, part) << entry.id;
  EXPECT_EQ(entries[1].summary.base_bytes, part);
  EXPECT_GE(entries[1].summary.used_bytes, kFrozen * sizeof(float));
  EXPECT_EQ(entries[1].bytes, *store->bytes_in("s2.1.1"));
  Job job;
  Report report;
  ASSERT_TRUE(apply_retention(*store, {.run = "main", .keep_last = 1}, &report, job).ok());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].size, entries[0].bytes - part) << "what that freed: " << report.findings[0].text;
  entries = *checkpoint::list_checkpoints(*store);
  checkpoint::measure(*store, entries);
  EXPECT_EQ(entries.at(0).shared, 0u);
}

// ---- stores that give no second name ----

Status no_name(int error) {
  return Status(CKPT_UNSUPPORTED, "link: it cannot be").with("errno", std::to_string(error));
}

class ReuseFaults : public ::testing::Test {
 protected:
  // The first save, by a store that does as it should.
  void SetUp() override {
    session = open_session(shell);
    ASSERT_TRUE(save_state(session, 1).status.ok());
  }
  // `act` before the first borrowing, which then goes on.
  void before_borrowing(std::function<void()> act) {
    shell->before([act, done = false](std::string_view operation, std::string_view) mutable {
      if (operation == "borrow" && !std::exchange(done, true)) act();
      return Ok();
    });
  }
  // It has all bytes itself.
  void expect_written_whole(const Done& saved, int64_t step) {
    ASSERT_TRUE(saved.status.ok()) << saved.status.message();
    EXPECT_GE(saved.written, (kFrozen + kTrained) * sizeof(float));
    const std::string id = strformat("s{}.1.1", step);
    EXPECT_EQ(bases_in(*inner, id).size(), 0u);
    expect_sound(inner, id, step);
  }
  const std::shared_ptr<store::Store> inner = fresh_memory_store();
  const std::shared_ptr<store::ShellStore> shell = std::make_shared<store::ShellStore>(inner);
  std::shared_ptr<session::Session> session;
};

TEST_F(ReuseFaults, WithoutSecondNamesAllIsWrittenAndTheSessionIsToldOnce) {
  shell->before(
      [](std::string_view operation, std::string_view) { return operation == "borrow" ? no_name(EPERM) : Ok(); });
  const Done second = save_state(session, 2), third = save_state(session, 3);
  expect_written_whole(second, 2);
  expect_written_whole(third, 3);
  ASSERT_EQ(second.reused.size(), 1u);
  EXPECT_EQ(second.reused[0].status, CKPT_UNSUPPORTED) << second.reused[0].text;
  EXPECT_TRUE(third.reused.empty());
}

TEST_F(ReuseFaults, StrictRefusesAStoreWithoutSecondNamesAndLeavesNothingCommitted) {
  for (const int error : {EXDEV, EPERM, EOPNOTSUPP}) {
    shell->before(
        [&](std::string_view operation, std::string_view) { return operation == "borrow" ? no_name(error) : Ok(); });
    EXPECT_EQ(save_state(session, 2, reusing("strict")).status.code(), CKPT_UNSUPPORTED);
  }
  shell->before(nullptr);
  expect_sound(inner, "latest", 1);
  const Done after = save_state(session, 2, reusing("strict"));
  ASSERT_TRUE(after.status.ok()) << after.status.message();
  EXPECT_TRUE(after.taken());
}

TEST_F(ReuseFaults, AFileThatHasTooManyNamesIsWrittenAgainStrictOrNot) {
  shell->before(
      [](std::string_view operation, std::string_view) { return operation == "borrow" ? no_name(EMLINK) : Ok(); });
  expect_written_whole(save_state(session, 2, reusing("strict")), 2);
  shell->before(nullptr);
  EXPECT_TRUE(save_state(session, 3).taken()) << "the new file has one name";
}

// ---- a base that changes meanwhile ----

TEST_F(ReuseFaults, ABaseThatIsRemovedMeanwhileIsWrittenAgain) {
  before_borrowing([&] { ASSERT_TRUE(inner->retire("s1.1.1", "MANIFEST", {}).ok()); });
  const Done saved = save_state(session, 2);
  expect_written_whole(saved, 2);
  ASSERT_EQ(saved.reused.size(), 1u);
  EXPECT_EQ(saved.reused[0].status, CKPT_NOT_FOUND);
  EXPECT_EQ(saved.reused[0].name, "s1.1.1");
}

TEST_F(ReuseFaults, RetentionLeavesABaseWhileASaveTakesIt) {
  before_borrowing([&] { EXPECT_EQ(remove_by_id(*inner, "s1.1.1").code(), CKPT_CONFLICT); });
  EXPECT_TRUE(save_state(session, 2).taken());
  EXPECT_TRUE(remove_by_id(*inner, "s1.1.1").ok());
  expect_sound(inner, "s2.1.1", 2);
}

TEST_F(ReuseFaults, ABaseThatIsReplacedByAnotherPartOrNoneIsNotTaken) {
  ASSERT_TRUE(save_state(session, 7, {}).status.ok());
  const auto other = *inner->get("s7.1.1/PART_000", 1 << 26);
  std::vector<std::byte> damaged = *inner->get("s1.1.1/PART_000", 1 << 26);
  damaged[damaged.size() - 60] ^= std::byte{1};  // in its trailer
  int64_t step = 10;
  for (const auto& bytes : {other, damaged, std::vector<std::byte>(100)}) {
    SaveOptions options = reusing();
    options.base = "s1.1.1";
    before_borrowing([&] {
      ASSERT_TRUE(inner->remove("s1.1.1/PART_000", false).ok());
      ASSERT_TRUE(inner->put_if_absent("s1.1.1/PART_000", bytes).ok());
    });
    const Done saved = save_state(session, ++step, options);
    expect_written_whole(saved, step);
    EXPECT_FALSE(saved.taken());
    EXPECT_EQ(saved.reused.size(), step == 11 ? 1u : 0u) << "a session tells it once";
  }
}

// Whatever the store answers of the base: the save is whole, or it fails and the earlier one is the latest.
TEST_F(ReuseFaults, AnyQuestionAboutTheBaseMayFail) {
  for (const ckpt_status fault : {CKPT_IO, CKPT_NOT_FOUND, CKPT_GONE, CKPT_CORRUPT, CKPT_UNSUPPORTED, CKPT_NO_SPACE})
    for (int number = 1, met = 1; met >= number; number++) {
      met = 0;
      shell->before([&](std::string_view operation, std::string_view key) {
        const bool asks = key.starts_with("s1.1.1") || key.find("/BASE_") != key.npos;
        if (!asks || ++met != number) return Ok();
        return Status(fault, strformat("{} {}", operation, key));
      });
      SaveOptions options = reusing();
      options.base = "s1.1.1";
      const int64_t step = 1000 * static_cast<int64_t>(fault) + number;
      const Done saved = save_state(session, step, options);
      shell->before(nullptr);
      ASSERT_TRUE(saved.status.ok()) << status_name(fault) << " " << number << ": " << saved.status.message();
      expect_sound(inner, strformat("s{}.1.1", step), step);
    }
}

// Where a second name is a copy, the last moment to find that the base is gone comes after everything is staged.
TEST(ReuseByCopy, ABaseThatGoesBeforeItIsCopiedEndsTheSaveWithItsName) {
  auto inner = weak_store({})();
  auto shell = std::make_shared<store::ShellStore>(inner);
  auto session = open_session(shell);
  ASSERT_TRUE(save_state(session, 1).status.ok());
  ASSERT_TRUE(save_state(session, 2).taken()) << "so it is known that copies can be made";
  ASSERT_TRUE(save_state(session, 3, {}).status.ok());
  shell->before([&](std::string_view operation, std::string_view) {
    if (operation == "borrow") {
      EXPECT_TRUE(inner->remove("s3.1.1/PART_000", true).ok());
    }
    return Ok();
  });
  const Done failed = save_state(session, 4);
  shell->before(nullptr);
  EXPECT_EQ(failed.status.code(), CKPT_NOT_FOUND) << failed.status.message();
  ASSERT_TRUE(failed.status.detail("base"));
  EXPECT_EQ(*failed.status.detail("base"), "s3.1.1");
  EXPECT_FALSE(is_committed(*inner, "s4.1.1"));
  const Done after = save_state(session, 5);
  ASSERT_TRUE(after.status.ok()) << after.status.message();
  expect_sound(inner, "s5.1.1", 5);
}

// A rule of the service's network, or of the bucket, may forbid copies alone.
TEST(ReuseByCopy, AServerThatMayNotCopyGetsAllBytes) {
  auto inner = weak_store({})();
  auto shell = std::make_shared<store::ShellStore>(inner);
  auto session = open_session(shell);
  ASSERT_TRUE(save_state(session, 1).status.ok());
  for (const ckpt_status refusal : {CKPT_UNSUPPORTED, CKPT_IO}) {
    shell->before([&](std::string_view operation, std::string_view) {
      return operation == "borrow" ? Status(refusal, "the copy was refused") : Ok();
    });
    const int64_t step = 10 + static_cast<int64_t>(refusal);
    const Done saved = save_state(session, step);
    ASSERT_TRUE(saved.status.ok()) << saved.status.message();
    EXPECT_FALSE(saved.taken());
    EXPECT_EQ(bases_in(*inner, strformat("s{}.1.1", step)).size(), 0u);
    expect_sound(inner, strformat("s{}.1.1", step), step);
    EXPECT_EQ(save_state(session, step + 100, reusing("strict")).status.code() == CKPT_OK, refusal == CKPT_IO);
  }
  shell->before(nullptr);
  EXPECT_TRUE(save_state(session, 200).taken());
}

// ---- most_dead ----

TEST(MostDead, IsWhatAFileMayHoldInVain) {
  auto store = fresh_memory_store();
  auto session = open_session(store);
  constexpr uint64_t kOne = 100'000;
  auto save_parts = [&](int64_t step, const std::string& most_dead, int first, int last) {
    Job job;
    Status status = job.run(CKPT_JOB_COMMITTED, [&](Job& running) -> Status {
      SaveOptions options = reusing();
      options.base = "s1.1.1";
      options.most_dead = most_dead;
      CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
      std::vector<std::vector<float>> values;
      for (int i = 0; i < 10; i++) values.emplace_back(kOne, static_cast<float>(i));
      for (int i = first; i < last; i++)
        CKPT_TRY(save->add_tensor("t" + std::to_string(i), vector_of(kOne), values[i].data(), kOne * sizeof(float)));
      CKPT_TRY(save->begin());
      return save->work(running, true);
    });
    return done_by(job, std::move(status), job.report);
  };
  ASSERT_TRUE(save_parts(1, "0.5", 0, 10).status.ok());
  EXPECT_TRUE(save_parts(2, "0.5", 0, 6).taken());
  EXPECT_FALSE(save_parts(3, "0.5", 0, 4).taken()) << "six tenths of it are of no use";
  EXPECT_TRUE(save_parts(4, "0.7", 0, 4).taken());
  EXPECT_TRUE(save_parts(5, "1", 9, 10).taken());
  EXPECT_FALSE(save_parts(6, "0.2", 0, 6).taken());
  for (const char* wrong : {"", "2", "-0.1", "half", "0.5x", "nan", "1e-1"}) {
    const Done refused = save_parts(7, wrong, 0, 10);
    EXPECT_EQ(refused.status.code(), CKPT_INVALID) << wrong << " " << refused.status.message();
  }
}

}  // namespace
}  // namespace ckpt::commit
