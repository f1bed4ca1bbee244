// A store and its mirror: what is committed comes to both, the newest of either is the latest, and no failure of either
// loses a checkpoint or mixes two trainings.
#include "maintain/mirror.h"

#include <atomic>
#include <filesystem>
#include <future>
#include <latch>

#include "commit/any_store.h"
#include "commit/commit.h"
#include "commit/retention.h"

namespace ckpt::commit {
namespace {

using checkpoint::Checkpoint;
using Shell = std::shared_ptr<store::ShellStore>;

Shell shell_of(const std::shared_ptr<store::Store>& inner) { return std::make_shared<store::ShellStore>(inner); }

// A training of one rank, whose store has a mirror.
class Training {
 public:
  Training(std::shared_ptr<store::Store> store, std::shared_ptr<store::Store> mirror, int64_t keep_there = 0,
           int64_t patience_ms = Call::kNever)
      : store_(store) {
    auto opened = session::Session::open(store, 0, 1, nullptr, {}, Job(), mirror);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    session = *opened;
    auto fenced = [kept = session, mirror] { return session::check_fence(*mirror, kept->plan()); };
    auto holds = [kept = session](const format::Summary& summary) { return kept->continuation().holds(summary); };
    mirror_ = *maintain::Mirror::start({store, mirror, "main", keep_there, fenced, holds, patience_ms});
  }
  Status save(int64_t step, const SaveOptions& options = {}) {
    CKPT_ASSIGN(auto save, save::Save::make(session, "s" + std::to_string(step), step, options));
    const std::vector<float> values = values_of(step, 0, 1);
    CKPT_TRY(save->add_tensor("w", rows_of(0, 1), values.data(), values.size() * sizeof(float)));
    CKPT_TRY(run_whole(*save));
    mirror_->add(save->id());
    return Ok();
  }
  Status follow(Job&& job = Job()) { return follow(job); }
  Status follow(Job& job) {
    report = {};
    return mirror_->follow(job, &report);
  }
  // Does what it has to do, as ckpt_session_free.
  void close() { mirror_.reset(); }

  std::shared_ptr<session::Session> session;
  Report report;

 private:
  std::shared_ptr<store::Store> store_;
  std::shared_ptr<maintain::Mirror> mirror_;
};

std::shared_ptr<Checkpoint> open(const std::shared_ptr<store::Store>& store, const std::string& selector,
                                 const std::shared_ptr<store::Store>& mirror) {
  auto opened = Checkpoint::open(store, {selector, "main"}, 1, mirror);
  EXPECT_TRUE(opened.ok()) << selector << ": " << opened.status().message();
  return opened.ok() ? *opened : nullptr;
}

std::map<std::string, uint32_t> flags(const checkpoint::Places& places) {
  std::map<std::string, uint32_t> flags;
  const auto entries = checkpoint::list_places(places);
  for (const auto& entry : *entries) flags[entry.id] = entry.mirror;
  return flags;
}

std::string ids(const store::Store& store) {
  std::string text;
  const auto entries = checkpoint::list_checkpoints(store);
  for (const auto& entry : *entries)
    if (entry.state == CKPT_CHECKPOINT_COMMITTED) text += entry.id + " ";
  return text;
}

class Mirrors : public ::testing::TestWithParam<Kind> {
 protected:
  const Handles here = directory_store(), there = GetParam().make();
};
const auto name_of = [](const auto& kind) { return kind.param.name; };
INSTANTIATE_TEST_SUITE_P(Stores, Mirrors,
                         ::testing::Values(Kind{"Directory", directory_store}, Kind{"Memory", memory_store},
                                           Kind{"Weak", [] { return weak_store({}); }}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OnS3, Mirrors, ::testing::ValuesIn(s3_kinds()), name_of);

TEST_P(Mirrors, HaveEveryByteOfWhatIsCommitted) {
  Training training(here(), there());
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE(training.save(step).ok());
  const Status followed = training.follow();
  ASSERT_TRUE(followed.ok()) << followed.message();
  for (const char* id : {"s1.1.1", "s2.1.1", "s3.1.1"}) EXPECT_EQ(files_of(*there(), id), files_of(*here(), id)) << id;
  EXPECT_TRUE(training.report.findings.empty());
}

// The copy waits until the job has begun; what is there already costs it nothing.
TEST_P(Mirrors, TellTheJobThatFollowsWhatTheirCopiesAskOfAServer) {
  std::latch gate(1);
  const auto shell = shell_of(there());
  Training training(here(), shell);
  ASSERT_TRUE(training.follow().ok());
  shell->once("create", "s1.1.1/PART_000", [&] { gate.wait(); });
  ASSERT_TRUE(training.save(1).ok());
  Job job, later;
  std::thread opener([&] {
    while (job.counters.bytes_total == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gate.count_down();
  });
  EXPECT_TRUE(training.follow(job).ok());
  opener.join();
  EXPECT_TRUE(training.follow(later).ok());
  EXPECT_EQ(later.call->requests.puts + later.call->requests.gets, 0u);
  const bool counts = GetParam().name == "S3";
  EXPECT_EQ(job.call->requests.puts >= 3, counts) << "record, part, MANIFEST";
  EXPECT_EQ(job.call->requests.gets >= 1, counts);
  EXPECT_EQ(job.call->requests.bytes_sent >= 8192, counts);
}

TEST_P(Mirrors, AreCompleteWhenTheSessionIsClosed) {
  {
    Training training(here(), there());
    for (int64_t step : {1, 2}) ASSERT_TRUE(training.save(step).ok());
  }
  EXPECT_EQ(ids(*there()), "s1.1.1 s2.1.1 ");
}

TEST_P(Mirrors, GetWhatWasSavedBeforeThereWasOne) {
  {
    Start start(here, 2);
    for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step)).ok());
  }
  Training training(here(), there());
  ASSERT_TRUE(training.follow().ok());
  EXPECT_EQ(ids(*there()), "s1.1.1 s2.1.1 ");
}

TEST_P(Mirrors, AreAllThatATrainingNeedsWhoseDiskIsLost) {
  Training before(here(), there());
  for (int64_t step : {1, 2}) ASSERT_TRUE(before.save(step).ok());
  before.close();

  const Handles fresh = directory_store();
  EXPECT_EQ(open(fresh(), "latest", there())->summary().step, 2);
  Training after(fresh(), there());
  EXPECT_EQ(after.session->plan().store_id, before.session->plan().store_id);
  EXPECT_GT(after.session->plan().token, before.session->plan().token);
  ASSERT_TRUE(after.save(3).ok());
  EXPECT_EQ(open(fresh(), "latest", there())->summary().step, 3);
  after.close();
  EXPECT_EQ(*load(there, "latest"), 3);
  EXPECT_EQ(ids(*there()), "s1.1.1 s2.1.1 s3.2.1 ");
}

TEST_P(Mirrors, KeepOutATrainingThatAnotherOneReplaced) {
  Training old(here(), there());
  ASSERT_TRUE(old.save(1).ok());
  ASSERT_TRUE(old.follow().ok());
  const Handles fresh = directory_store();
  Training next(fresh(), there());
  ASSERT_TRUE(old.save(2).ok()) << "its own disk is its own";
  EXPECT_EQ(old.follow().code(), CKPT_FENCED);
  ASSERT_TRUE(next.save(2).ok());
  const Status followed = next.follow();
  ASSERT_TRUE(followed.ok()) << followed.message();
  EXPECT_EQ(ids(*there()), "s1.1.1 s2.2.1 ");
}

TEST_P(Mirrors, AreToldInListings) {
  Training training(here(), there());
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE(training.save(step).ok());
  training.close();
  ASSERT_TRUE(remove_by_id(*here(), "s1.1.1").ok());
  ASSERT_TRUE(remove_by_id(*there(), "s2.1.1").ok());
  const std::map<std::string, uint32_t> expected = {
      {"s1.1.1", CKPT_CHECKPOINT_MIRROR_ONLY}, {"s2.1.1", 0}, {"s3.1.1", CKPT_CHECKPOINT_MIRRORED}};
  const auto store = here(), mirror = there();
  EXPECT_EQ(flags({*store, mirror.get()}), expected);
}

// ---- loads from two places ----

TEST(TwoPlaces, TheStoreIsReadWhereBothHaveTheCheckpoint) {
  const auto here = fresh_memory_store(), there = fresh_memory_store();
  Training training(here, there);
  ASSERT_TRUE(training.save(1).ok());
  training.close();
  EXPECT_EQ(&open(here, "latest", there)->store(), here.get());
  const auto shell = shell_of(there);
  shell->before([](std::string_view, std::string_view) { return Status(CKPT_IO, "the cable"); });
  EXPECT_EQ(&open(here, "s1.1.1", shell)->store(), here.get()) << "an id needs no question to the mirror";
}

TEST(TwoPlaces, AMirrorThatCannotBeAskedIsAnError) {
  const auto here = fresh_memory_store();
  const auto there = shell_of(fresh_memory_store());
  Training training(here, there);
  ASSERT_TRUE(training.save(1).ok());
  training.close();
  there->before([](std::string_view, std::string_view) { return Status(CKPT_IO, "the cable"); });
  const Status latest = Checkpoint::open(here, {"latest", "main"}, 1, there).status();
  EXPECT_EQ(latest.code(), CKPT_IO);
  EXPECT_NE(latest.message().find("mirror mem:"), std::string::npos) << latest.message();
  const Status session = session::Session::open(here, 0, 1, nullptr, {}, Job(), there).status();
  EXPECT_EQ(session.code(), CKPT_IO);
  EXPECT_NE(session.message().find("mirror mem:"), std::string::npos) << session.message();
}

TEST(TwoPlaces, ADamagedCheckpointIsLoadedFromTheMirrorAndNothingIsPassedOver) {
  const Handles here = directory_store();
  const auto there = fresh_memory_store();
  Training training(here(), there);
  for (int64_t step : {1, 2}) ASSERT_TRUE(training.save(step).ok());
  training.close();
  flip_file(here()->path("s2.1.1/MANIFEST"), 100);
  for (const char* selector : {"latest", "step:2", "s2", "s2.1.1"}) {
    const auto found = open(here(), selector, there);
    EXPECT_EQ(found->summary().step, 2) << selector;
    EXPECT_EQ(&found->store(), there.get()) << selector;
    EXPECT_TRUE(found->selection().passed_over.empty()) << selector;
  }
}

TEST(TwoPlaces, ANewerCheckpointThatIsDamagedAndNotMirroredIsPassedOver) {
  const Handles here = directory_store();
  const auto there = fresh_memory_store();
  {
    Training training(here(), there);
    ASSERT_TRUE(training.save(1).ok());
  }
  {
    Start alone(here, 1);
    ASSERT_TRUE(all_ok(alone.save(2)).ok());
  }
  flip_file(here()->path("s2.2.1/MANIFEST"), 100);
  const auto found = open(here(), "latest", there);
  EXPECT_EQ(found->summary().step, 1);
  ASSERT_EQ(found->selection().passed_over.size(), 1u);
  EXPECT_EQ(found->selection().passed_over[0].id, "s2.2.1");
  EXPECT_FALSE(Checkpoint::open(here(), {"latest", "main", true}, 1, there).ok());
}

TEST(TwoPlaces, OfAnEmptyPairNothingIsFound) {
  const Status status = Checkpoint::open(fresh_memory_store(), {"latest", "main"}, 1, fresh_memory_store()).status();
  EXPECT_EQ(status.code(), CKPT_NOT_FOUND);
}

TEST(TwoPlaces, OfTwoStoresAreAMismatch) {
  const auto here = fresh_memory_store(), there = fresh_memory_store();
  for (const auto& store : {here, there}) ASSERT_TRUE(save_step(open_session(store), 1).ok());
  EXPECT_EQ(session::Session::open(here, 0, 1, nullptr, {}, Job(), there).status().code(), CKPT_MISMATCH);
  EXPECT_EQ(Checkpoint::open(here, {"latest", "main"}, 1, there).status().code(), CKPT_MISMATCH);
  EXPECT_EQ(checkpoint::list_places({*here, there.get()}).status().code(), CKPT_MISMATCH);
}

// ---- failures ----

TEST(MirrorFaults, AreToldAndMendedByTheNextTry) {
  const auto here = fresh_memory_store(), inner = fresh_memory_store();
  const auto there = shell_of(inner);
  std::atomic<bool> broken = true;
  Training training(here, there);
  ASSERT_TRUE(training.follow().ok());
  there->before([&](std::string_view operation, std::string_view) {
    return broken && operation == "create" ? Status(CKPT_IO, "the cable") : Ok();
  });
  ASSERT_TRUE(training.save(1).ok());
  const Status told = training.follow();
  EXPECT_EQ(told.code(), CKPT_IO);
  EXPECT_NE(told.message().find("the cable"), std::string::npos) << told.message();
  broken = false;
  Status then = training.follow();
  if (!then.ok()) then = training.follow();  // a try that was under way
  EXPECT_TRUE(then.ok()) << then.message();
  EXPECT_EQ(ids(*inner), "s1.1.1 ");
}

// Of an ingress, a proxy, a bucket that is being restored: nothing is dropped, and nothing ends the copying.
TEST(MirrorFaults, OfWhateverStatusAreOfTheMirrorAndTriedAgain) {
  for (const ckpt_status code : {CKPT_NOT_FOUND, CKPT_UNSUPPORTED, CKPT_GONE, CKPT_CORRUPT, CKPT_FORMAT, CKPT_INVALID})
    for (const char* operation : {"prepare", "list", "create", "open", "put"}) {
      const auto here = fresh_memory_store(), inner = fresh_memory_store();
      const auto there = shell_of(inner);
      std::atomic<bool> broken = false;
      Training training(here, there);
      ASSERT_TRUE(training.follow().ok());
      there->before([&](std::string_view found, std::string_view key) {
        const bool told = broken && found == operation && key != ".ckpt/store";
        return told ? Status(code, "not as a store answers") : Ok();
      });
      broken = true;
      for (int64_t step : {1, 2}) ASSERT_TRUE(training.save(step).ok());
      const Status told = training.follow();
      if (!told.ok()) {
        EXPECT_NE(told.message().find("mirror mem:"), std::string::npos) << operation << ": " << told.message();
        EXPECT_FALSE(training.report.findings.empty()) << "what waits is told";
      }
      broken = false;
      Status then = training.follow();
      if (!then.ok()) then = training.follow();  // a try that was under way
      EXPECT_TRUE(then.ok()) << operation << " " << status_name(code) << ": " << then.message();
      EXPECT_TRUE(training.report.findings.empty()) << operation << " " << status_name(code);
      EXPECT_EQ(ids(*inner), "s1.1.1 s2.1.1 ") << operation << " " << status_name(code);
    }
}

// As an unmounted disk: its empty mount point is neither filled nor taken for an empty mirror.
TEST(MirrorFaults, OfADirectoryThatIsGoneAreToldAndNothingIsMadeAnew) {
  const auto here = fresh_memory_store();
  const Handles there = directory_store();
  const std::string path = there()->uri(), away = path + ".away";
  {
    Training training(here, there());
    ASSERT_TRUE(training.save(1).ok());
    ASSERT_TRUE(training.follow().ok());
    std::filesystem::rename(path, away);
    ASSERT_TRUE(training.save(2).ok());
    const Status told = training.follow();
    EXPECT_EQ(told.code(), CKPT_IO) << told.message();
    EXPECT_NE(told.message().find("not mounted"), std::string::npos) << told.message();
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  for (const bool mount_point : {false, true}) {
    if (mount_point) std::filesystem::create_directory(path);
    EXPECT_EQ(session::Session::open(here, 0, 1, nullptr, {}, Job(), there()).status().code(), CKPT_IO);
    EXPECT_EQ(Checkpoint::open(here, {"latest", "main"}, 1, there()).status().code(), CKPT_IO);
    EXPECT_EQ(Checkpoint::open(here, {"s9.1.1", "main"}, 1, there()).status().code(), CKPT_IO);
    EXPECT_FALSE(std::filesystem::exists(path + "/.ckpt"));
  }
  std::filesystem::remove(path);
  std::filesystem::rename(away, path);
  Training next(here, there());
  ASSERT_TRUE(next.follow().ok());
  EXPECT_EQ(ids(*there()), "s1.1.1 s2.1.1 ");
}

TEST(MirrorFaults, LeaveACopyThatTheNextSessionEnds) {
  const auto here = fresh_memory_store(), inner = fresh_memory_store();
  const auto there = shell_of(inner);
  {
    Training training(here, there);
    there->before([&](std::string_view operation, std::string_view key) {
      return operation == "put" && key == "s1.1.1/MANIFEST" ? Status(CKPT_IO, "the cable") : Ok();
    });
    ASSERT_TRUE(training.save(1).ok());
  }
  EXPECT_EQ(flags({*here, inner.get()})["s1.1.1"], uint32_t{CKPT_CHECKPOINT_MIRRORING});
  Training next(here, inner);
  ASSERT_TRUE(next.follow().ok());
  EXPECT_EQ(files_of(*inner, "s1.1.1"), files_of(*here, "s1.1.1"));
}

TEST(MirrorFaults, OfOneCheckpointDoNotKeepTheOthersBack) {
  const Handles here = directory_store();
  const auto inner = fresh_memory_store();
  const auto there = shell_of(inner);
  {
    Start start(here, 1);
    for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step)).ok());
  }
  flip_file(here()->path("s1.1.1/PART_000"), 4096 + 3);
  Training training(here(), there);
  (void)training.follow();
  ASSERT_TRUE(training.follow().ok());
  EXPECT_EQ(ids(*inner), "s2.1.1 ");
  ASSERT_EQ(training.report.findings.size(), 1u);
  EXPECT_EQ(training.report.findings[0].kind, CKPT_FINDING_DAMAGED);
  EXPECT_EQ(training.report.findings[0].name, "s1.1.1");
}

TEST(MirrorFaults, StopNoWaitThatIsCancelled) {
  std::latch gate(1);
  const auto there = shell_of(fresh_memory_store());
  Training training(fresh_memory_store(), there);
  ASSERT_TRUE(training.follow().ok());
  there->once("create", "s1.1.1/PART_000", [&] { gate.wait(); });
  ASSERT_TRUE(training.save(1).ok());
  Job job;
  job.cancel();
  EXPECT_EQ(training.follow(job).code(), CKPT_CANCELLED);
  gate.count_down();
  EXPECT_TRUE(training.follow().ok());
}

TEST(MirrorFaults, OfADiskThatHoldsItsThreadDoNotKeepASessionFromEnding) {
  const auto gate = std::make_shared<std::latch>(1);
  const auto there = shell_of(fresh_memory_store());
  Training training(fresh_memory_store(), there, 0, 500);
  ASSERT_TRUE(training.follow().ok());
  std::promise<void> left;
  there->once("create", "s1.1.1/PART_000", [&, gate] {
    const Busy busy("creation", "the mirror's disk");
    gate->wait();
    left.set_value();
  });
  ASSERT_TRUE(training.save(1).ok());
  ASSERT_TRUE(training.save(2).ok()) << "nor from saving";
  const Status waited = training.follow();
  EXPECT_EQ(waited.code(), CKPT_TIMEOUT) << "nor those who wait for the mirror";
  EXPECT_NE(waited.message().find("nothing has moved for 7"), std::string::npos) << waited.message();
  training.close();
  gate->count_down();
  left.get_future().wait();
}

// ---- retention ----

// The copy of the first one takes until four more were saved.
TEST(MirrorRetention, LeavesTheOldestThatWait) {
  std::latch gate(1);
  const Handles here = directory_store();
  const auto inner = fresh_memory_store();
  const auto there = shell_of(inner);
  Training training(here(), there);
  ASSERT_TRUE(training.follow().ok());
  there->once("create", "s1.1.1/PART_000", [&] { gate.wait(); });
  for (int64_t step : {1, 2, 3, 4, 5}) ASSERT_TRUE(training.save(step, {.keep_last = 1}).ok());
  EXPECT_EQ(ids(*here()), "s1.1.1 s2.1.1 s3.1.1 s5.1.1 ");
  gate.count_down();
  Status followed = training.follow();
  if (!followed.ok()) followed = training.follow();  // after it told of the fourth
  EXPECT_TRUE(followed.ok()) << followed.message();
  EXPECT_EQ(ids(*inner), "s1.1.1 s2.1.1 s3.1.1 s5.1.1 ");
  ASSERT_EQ(training.report.findings.size(), 1u);
  EXPECT_EQ(training.report.findings[0].kind, CKPT_FINDING_MISSING);
  EXPECT_EQ(training.report.findings[0].name, "s4.1.1");
}

TEST(MirrorRetention, LeavesWhatTheTrainingDoesNotGoOnFrom) {
  const auto here = fresh_memory_store(), there = fresh_memory_store();
  for (const auto& steps : std::vector<std::vector<int64_t>>{{995, 1000}, {5, 10, 15}}) {
    Training training(here, there, 2);
    for (int64_t step : steps) ASSERT_TRUE(training.save(step).ok());
  }
  EXPECT_EQ(ids(*there), "s995.1.1 s1000.1.1 s10.2.1 s15.2.1 ");
}

TEST(MirrorRetention, OfEachSideIsItsOwn) {
  const Handles here = directory_store();
  const auto there = fresh_memory_store();
  {
    Training training(here(), there, 2);
    for (int64_t step : {1, 2, 3, 4}) {
      ASSERT_TRUE(training.save(step, {.keep_last = 1}).ok());
      ASSERT_TRUE(training.follow().ok());
    }
  }
  EXPECT_EQ(ids(*there), "s3.1.1 s4.1.1 ");
  {
    Training again(here(), there, 2);  // what was removed there stays so
    ASSERT_TRUE(again.follow().ok());
  }
  EXPECT_EQ(ids(*there), "s3.1.1 s4.1.1 ");
}

}  // namespace
}  // namespace ckpt::commit
