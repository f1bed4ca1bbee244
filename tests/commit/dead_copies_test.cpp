// Copies that nobody finishes are found and removed, those that somebody works on are not: on every kind of store.
#include "maintain/dead_copies.h"

#include "commit/any_store.h"
#include "commit/commit.h"
#include "maintain/copy.h"
#include "s3/fault_proxy.h"

namespace ckpt::commit {
namespace {

Status copy(const std::shared_ptr<store::Store>& source, const std::shared_ptr<store::Store>& to) {
  CKPT_ASSIGN(const auto from, checkpoint::Checkpoint::open(source, {"latest", "main"}));
  Report report;
  Job job;
  return maintain::copy_checkpoint(*from, *to, {.threads = 1}, &report, job);
}

constexpr int64_t kDay = int64_t{24} * 3600 * 1000;

Report sweep(store::Store& store, bool dry_run = false) {
  Report report;
  maintain::remove_dead_copies(store, dry_run, &report, Job());
  return report;
}

// A store, and how its clock is set forward.
struct Sweep {
  Handles to;
  std::function<void(int64_t ms)> later;
};
struct SweepKind {
  std::string name;
  std::function<Sweep()> make;
};
std::ostream& operator<<(std::ostream& out, const SweepKind& kind) { return out << kind.name; }

Sweep weak_sweep() {
  auto bucket = std::make_shared<store::Bucket>(store::Weakness{.list_delay_ms = 2});
  return {[bucket] { return std::make_shared<store::WeakStore>(bucket); },
          [bucket](int64_t ms) { bucket->set_forward(ms); }};
}

Sweep s3_sweep() {
  auto proxy = std::make_shared<store::FaultProxy>(store::s3_endpoint());
  store::S3Options options = store::s3_options();
  options.endpoint = proxy->endpoint();
  return {[proxy, options, uri = store::fresh_s3_uri()] { return *store::open_bucket(uri, options); },
          [proxy, ahead = int64_t{0}](int64_t ms) mutable { proxy->shift_dates(ahead += ms / 1000); }};
}

std::vector<SweepKind> sweeps() {
  auto nothing = [](int64_t) {};
  std::vector<SweepKind> kinds = {{"Directory", [=] { return Sweep{directory_store(), nothing}; }},
                                  {"Memory", [=] { return Sweep{memory_store(), nothing}; }},
                                  {"Weak", weak_sweep}};
  if (store::s3_endpoint()) kinds.push_back({"S3", s3_sweep});
  return kinds;
}

class DeadCopies : public ::testing::TestWithParam<SweepKind> {
 protected:
  const Sweep place = GetParam().make();
  const Handles& to = place.to;
};
INSTANTIATE_TEST_SUITE_P(Stores, DeadCopies, ::testing::ValuesIn(sweeps()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(DeadCopies, AreRemovedWithTheirRecordsAndTold) {
  auto source = small_source();
  copy_in_part(source, to(), "s1.1.1/PART_001");
  if (to()->traits().tells_age) {
    EXPECT_TRUE(sweep(*to()).findings.empty()) << "it may go on within a day";
    place.later(kDay + 1000);
  }
  for (const bool dry_run : {true, false}) {
    EXPECT_TRUE(*to()->exists("s1.1.1/PART_000")) << "a dry run";
    EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
    const Report report = sweep(*to(), dry_run);
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings[0].kind, CKPT_FINDING_REMOVED);
    EXPECT_EQ(report.findings[0].name, "s1.1.1");
    EXPECT_GT(report.findings[0].size, 4096u);
    EXPECT_NE(report.findings[0].text.find("nobody finishes"), std::string::npos) << report.findings[0].text;
  }
  EXPECT_FALSE(to()->exists("s1.1.1/PART_000").ok() && *to()->exists("s1.1.1/PART_000"));
  EXPECT_FALSE(*to()->exists(".ckpt/attempts/1.1.s1"));
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  EXPECT_TRUE(sweep(*to()).findings.empty()) << "a second time";
  EXPECT_EQ(copy(source, to()).ok(), to()->traits().directories);
}

TEST_P(DeadCopies, AreNotThoseThatSomebodyWorksOn) {
  auto source = small_source();
  auto target = std::make_shared<store::ShellStore>(to());
  Report report;
  target->once("create", "s1.1.1/PART_001", [&] { report = sweep(*to()); });
  const Status told = copy(source, target);
  EXPECT_TRUE(told.ok()) << told.message();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(*load(to, "s1"), 1);
}

// Its record is a day old when it goes on, and while it does. Not on S3, where what is put after the clock was set
// forward looks as old.
TEST_P(DeadCopies, AreNotThoseThatGoOnAfterADay) {
  if (GetParam().name == "S3") return;
  auto source = small_source();
  copy_in_part(source, to(), "s1.1.1/PART_001");
  place.later(kDay + 1000);
  auto target = std::make_shared<store::ShellStore>(to());
  Report report;
  target->once("create", "s1.1.1/PART_001", [&] {
    for (Backoff backoff(10000); to()->traits().tells_age && !backoff.expired(); backoff.sleep()) {
      const auto signs = to()->list(".ckpt/beats/copies");  // it is put by another thread
      if (signs.ok() && std::ranges::any_of(*signs, [](const auto& sign) { return sign.age_ms < kDay; })) break;
    }
    // Another process gives up its own.
    copy_in_part(source, to(), "s1.1.1/PART_001");
    EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
    report = sweep(*to());
  });
  const Status told = copy(source, target);
  EXPECT_TRUE(told.ok()) << told.message();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(*load(to, "s1"), 1);
}

// Of a process that was killed in a copy that another one finished, nothing else tells.
TEST_P(DeadCopies, LeaveNoSignsOfLifeWhoeverFinishedThem) {
  if (!to()->traits().tells_age) return;
  const std::string sign = format::copy_beat_key("s1.1.1", random_id());
  ASSERT_TRUE(to()->put_over(sign, as_bytes("\n")).ok());
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  sweep(*to());
  EXPECT_TRUE(*to()->exists(sign)) << "it may go on within a day";
  place.later(kDay + 1000);
  sweep(*to(), true);
  EXPECT_TRUE(*to()->exists(sign)) << "a dry run";
  sweep(*to());
  EXPECT_FALSE(*to()->exists(sign));
}

TEST_P(DeadCopies, AreNoneOfTheAttemptsOfSessionsAndNoCheckpoint) {
  Start start(to, 1);
  ASSERT_TRUE(all_ok(start.save(1)).ok());
  const session::Attempt attempt = start.rank(0)->next_attempt("s2");
  Job job;
  ASSERT_TRUE(open_attempt(*start.rank(0), attempt, {}, job).ok());
  // A copy that was finished, but for its record.
  const std::string text = format::copy_record(checkpoint::peek_slot(*to(), "s1.1.1")->summary.save_id);
  ASSERT_TRUE(to()->put_own(".ckpt/attempts/1.1.s1", as_bytes(text)).ok());
  place.later(kDay + 1000);
  EXPECT_TRUE(checkpoint::await_listings(*to()).ok());
  EXPECT_TRUE(sweep(*to()).findings.empty());
  EXPECT_FALSE(*to()->exists(".ckpt/attempts/1.1.s1"));
  EXPECT_TRUE(*to()->exists(".ckpt/attempts/1.1.s2"));
  EXPECT_EQ(*load(to, "s1"), 1);
}

}  // namespace
}  // namespace ckpt::commit
