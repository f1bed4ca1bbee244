// On a store without locks what is removed stays for a while, for those who have it open: on an object store at its
// weakest, and on an S3 server where tests/s3/run.sh has started one.
#include "commit/any_store.h"
#include "commit/retention.h"
#include "maintain/repair.h"
#include "maintain/verify.h"
#include "s3/fault_proxy.h"

namespace ckpt::commit {
namespace {

constexpr int64_t kGrace = 600'000;

// A store whose clock can be set forward.
struct Place {
  Handles handles;
  std::function<void(int64_t ms)> later;
};
struct PlaceKind {
  std::string name;
  std::function<Place()> make;
};
std::ostream& operator<<(std::ostream& out, const PlaceKind& kind) { return out << kind.name; }

Place weak_place() {
  auto bucket = std::make_shared<store::Bucket>(store::Weakness{.list_delay_ms = 2, .grace_ms = kGrace});
  return {[bucket] { return std::make_shared<store::WeakStore>(bucket); },
          [bucket](int64_t ms) {
            bucket->set_forward(ms);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));  // all is listed by then
          }};
}

Place s3_place() {
  auto proxy = std::make_shared<store::FaultProxy>(store::s3_endpoint());
  store::S3Options options = store::s3_options();
  options.endpoint = proxy->endpoint();
  options.grace_ms = kGrace;
  return {[proxy, options, uri = store::fresh_s3_uri()] { return *store::open_bucket(uri, options); },
          [proxy, ahead = int64_t{0}](int64_t ms) mutable { proxy->shift_dates(ahead += ms / 1000); }};
}

std::vector<PlaceKind> places() {
  std::vector<PlaceKind> kinds = {{"Weak", weak_place}};
  if (store::s3_endpoint()) kinds.push_back({"S3", s3_place});
  return kinds;
}

class Grace : public ::testing::TestWithParam<PlaceKind> {
 protected:
  std::shared_ptr<checkpoint::Checkpoint> open(const std::string& selector) const {
    auto opened = checkpoint::Checkpoint::open(place.handles(), {selector, "main"});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? opened.take() : nullptr;
  }
  Report prune(int64_t keep_last, bool dry_run = false) const {
    Report report;
    Job job;
    const Status done =
        apply_retention(*place.handles(), {.run = "main", .keep_last = keep_last, .dry_run = dry_run}, &report, job);
    EXPECT_TRUE(done.ok()) << done.message();
    return report;
  }
  // Of a checkpoint that was removed: whether its part is still there.
  bool is_kept(const std::string& id) const { return *place.handles()->exists(format::part_key(id, 0)); }

  Place place = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Stores, Grace, ::testing::ValuesIn(places()),
                         [](const auto& kind) { return kind.param.name; });

// What a reader that opened a checkpoint of one rank gets of it.
Status load_from(const std::shared_ptr<checkpoint::Checkpoint>& checkpoint, int64_t step) {
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {}));
  std::vector<float> values(kStateRows * kStateColumns);
  CKPT_TRY(load->add_tensor("w", rows_of(0, 1), values.data(), values.size() * sizeof(float)));
  CKPT_TRY(run_whole(*load));
  EXPECT_EQ(values, values_of(step, 0, 1));
  return Ok();
}

const SaveOptions kKeepOne{.keep_last = 1};

TEST_P(Grace, WhoOpenedACheckpointBeforeItWasRemovedReadsAllOfIt) {
  Start start(place.handles, 2);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  const auto before = open("s1");
  ASSERT_TRUE(all_ok(start.save(2, kKeepOne)).ok());
  const Status loaded = load_from(before, 1);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
  Job job;
  const Status verified = maintain::verify_checkpoint(*before, {}, job);
  EXPECT_TRUE(verified.ok()) << verified.message();
  place.later(kGrace - 10'000);
  Start next(place.handles, 2);
  EXPECT_TRUE(load_from(before, 1).ok()) << "a session that starts meanwhile leaves it";
  prune(1);
  EXPECT_TRUE(load_from(before, 1).ok()) << "so does whoever prunes";
}

// Its pages are read when a name on them is asked for.
TEST_P(Grace, TheSameOfACheckpointWithALargeManifest) {
  constexpr int kTensors = 50'000;
  Start start(place.handles, 1);
  auto save = *save::Save::make(start.rank(0), "s1", 1, {});
  std::vector<float> values(kTensors);
  auto its_name = [](int i) { return strformat("a name of a tensor that takes some room in the index {}", i); };
  for (int i = 0; i < kTensors; i++) {
    values[static_cast<size_t>(i)] = static_cast<float>(i);
    ASSERT_TRUE(
        save->add_tensor(its_name(i), f32_rows(1, 1, 0, 1), &values[static_cast<size_t>(i)], sizeof(float)).ok());
  }
  ASSERT_TRUE(run_whole(*save).ok());
  ASSERT_GT((*place.handles()->open("s1.1.1/MANIFEST"))->size(), 4u << 20) << "too small to be read by pages";
  const auto before = open("s1");
  ASSERT_TRUE(all_ok(start.save(2, kKeepOne)).ok());
  auto load = *load::Load::make(before, {});
  for (const int i : {7, kTensors / 2, kTensors - 1}) {
    float found = 0;
    ASSERT_TRUE(load->add_tensor(its_name(i), f32_rows(1, 1, 0, 1), &found, sizeof found).ok()) << i;
    const Status loaded = run_whole(*load);
    EXPECT_TRUE(loaded.ok()) << loaded.message();
    EXPECT_EQ(found, static_cast<float>(i));
    load = *load::Load::make(before, {});
  }
}

TEST_P(Grace, ForAllOthersItIsGoneAtOnce) {
  Start start(place.handles, 1);
  for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step, kKeepOne)).ok());
  EXPECT_TRUE(is_kept("s1.1.1"));
  EXPECT_EQ(load(place.handles, "s1").status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(load(place.handles, "s1.1.1").status().code(), CKPT_NOT_FOUND);
  EXPECT_EQ(*load(place.handles, "latest"), 2);
  EXPECT_EQ(checkpoint::list_checkpoints(*place.handles())->size(), 1u);
  EXPECT_EQ(remove_by_id(*place.handles(), "s1.1.1").code(), CKPT_NOT_FOUND) << "a second removal";
  Report report;
  EXPECT_EQ(maintain::repair_checkpoint(*place.handles(), "s1.1.1", false, true, &report).code(), CKPT_GONE);
  const auto again = start.save(1);
  EXPECT_TRUE(all_ok(again).ok()) << "its label is free: " << all_ok(again).message();
  EXPECT_EQ(*load(place.handles, "s1"), 1);
}

TEST_P(Grace, AfterItWhoeverPrunesSavesRemovesOrStartsDeletesTheFiles) {
  using Act = std::function<void(Start&)>;
  const Act acts[] = {[&](Start&) { prune(5); }, [&](Start&) { prune(0); },
                      [&](Start& start) { EXPECT_TRUE(all_ok(start.save(3, {.keep_last = 9})).ok()); },
                      [&](Start&) { EXPECT_TRUE(remove_by_id(*place.handles(), "s2.1.1").ok()); },
                      [&](Start&) { Start another(place.handles, 1); }};
  int number = 0;
  for (const Act& act : acts) {
    SCOPED_TRACE(number++);
    place = GetParam().make();
    Start start(place.handles, 1);
    for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step, kKeepOne)).ok());
    const auto store = place.handles();
    place.later(kGrace - 10'000);
    prune(1);
    EXPECT_TRUE(is_kept("s1.1.1")) << "too early";
    place.later(12'000);
    prune(1, true);
    EXPECT_TRUE(is_kept("s1.1.1")) << "a dry run";
    act(start);
    EXPECT_EQ(files_of(*store, "s1.1.1").size(), 1u) << "all but the tombstone";
    EXPECT_FALSE(is_kept("s1.1.1"));
    prune(1);
    EXPECT_FALSE(is_committed(*store, "s1.1.1"));
  }
}

TEST_P(Grace, WhoIsStillReadingAfterItGetsGoneAndNoOtherBytes) {
  Start start(place.handles, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  const auto before = open("s1");
  ASSERT_TRUE(all_ok(start.save(2, kKeepOne)).ok());
  place.later(kGrace + 2'000);
  prune(1);
  EXPECT_EQ(load_from(before, 1).code(), CKPT_GONE);
}

TEST_P(Grace, WhatIsReplacedOrRemovedByHandStaysAsLong) {
  Start start(place.handles, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  const auto replaced = open("s1");
  const SaveOptions replace{.on_existing = "replace"};
  ASSERT_TRUE(all_ok(start.save(1, replace)).ok());
  ASSERT_TRUE(all_ok(start.save(2)).ok());
  const auto removed = open("s2");
  ASSERT_TRUE(remove_by_id(*place.handles(), "s2.1.1").ok());
  for (const auto& [checkpoint, step] : {std::pair(replaced, 1), std::pair(removed, 2)}) {
    const Status loaded = load_from(checkpoint, step);
    EXPECT_TRUE(loaded.ok()) << step << ": " << loaded.message();
  }
  place.later(kGrace + 2'000);
  prune(0);
  EXPECT_FALSE(is_kept("s1.1.1"));
  EXPECT_FALSE(is_kept("s2.1.1"));
  EXPECT_EQ(*load(place.handles, "latest"), 1);
}

TEST_P(Grace, TwoMayPruneAndDeleteAtOnce) {
  Start start(place.handles, 1);
  for (int64_t step = 1; step <= 4; step++) ASSERT_TRUE(all_ok(start.save(step)).ok());
  auto prune_twice = [&] {
    Report reports[2];
    std::thread other([&] { reports[1] = prune(1); });
    reports[0] = prune(1);
    other.join();
    std::map<std::string, int> removed;
    for (const Report& report : reports)
      for (const auto& finding : report.findings)
        if (finding.kind == CKPT_FINDING_REMOVED) removed[finding.name]++;
    return removed;
  };
  const auto removed = prune_twice();
  EXPECT_EQ(removed, (std::map<std::string, int>{{"s1.1.1", 1}, {"s2.1.1", 1}, {"s3.1.1", 1}}));
  for (const char* id : {"s1.1.1", "s2.1.1", "s3.1.1"}) EXPECT_TRUE(is_kept(id)) << id;
  place.later(kGrace + 2'000);
  EXPECT_TRUE(prune_twice().empty());
  for (const char* id : {"s1.1.1", "s2.1.1", "s3.1.1"}) EXPECT_FALSE(is_kept(id)) << id;
  EXPECT_EQ(*load(place.handles, "latest"), 4);
}

TEST_P(Grace, TheReportTellsHowLongItStays) {
  Start start(place.handles, 1);
  for (int64_t step : {1, 2}) ASSERT_TRUE(all_ok(start.save(step)).ok());
  const Report report = prune(1);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_NE(report.findings[0].text.find("stay for 600000 ms"), std::string::npos) << report.findings[0].text;
}

}  // namespace
}  // namespace ckpt::commit
