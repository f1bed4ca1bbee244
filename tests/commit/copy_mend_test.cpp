// Copies that are complete by their MANIFEST and lost parts since, as a disk or a person leaves a backup: copied again,
// they are made whole, on every kind of store.
#include "commit/any_store.h"
#include "maintain/copy.h"

namespace ckpt::commit {
namespace {

class MendedCopy : public ::testing::TestWithParam<Kind> {
 protected:
  MendedCopy() {
    Start start(from, 3);
    EXPECT_TRUE(all_ok(start.save(1)).ok());
    EXPECT_TRUE(copy().ok());
  }
  Status copy() {
    CKPT_ASSIGN(const auto opened, checkpoint::Checkpoint::open(from(), {"s1", "main"}));
    report = {};
    Job job;
    return maintain::copy_checkpoint(*opened, *to(), {}, &report, job);
  }
  static void cut_short(store::Store& store, const std::string& key) {
    ASSERT_TRUE(store.remove(key, true).ok());
    ASSERT_TRUE(store.put_if_absent(key, as_bytes("cut short")).ok());
  }

  const Handles from = memory_store(), to = GetParam().make();
  Report report;
};
INSTANTIATE_TEST_SUITE_P(Stores, MendedCopy,
                         ::testing::Values(Kind{"Directory", directory_store}, Kind{"Memory", memory_store},
                                           Kind{"Weak", [] { return weak_store({}); }},
                                           Kind{"Backend", folder_backend}),
                         [](const auto& kind) { return kind.param.name; });
INSTANTIATE_TEST_SUITE_P(OnS3, MendedCopy, ::testing::ValuesIn(s3_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(MendedCopy, HasTheSameBytesAndIsToldOnce) {
  ASSERT_TRUE(to()->remove("s1.1.1/PART_000", true).ok());
  cut_short(*to(), "s1.1.1/PART_002");
  const Status copied = copy();
  ASSERT_TRUE(copied.ok()) << copied.message();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, CKPT_FINDING_REPAIRED);
  EXPECT_EQ(report.findings[0].count, 1u) << "the parts that were there";
  EXPECT_EQ(files_of(*to(), "s1.1.1"), files_of(*from(), "s1.1.1"));
  ASSERT_TRUE(copy().ok());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].status, CKPT_EXISTS);
  auto records = to()->list(format::kAttemptsDir);
  EXPECT_TRUE(!records.ok() || records->empty()) << "a record stayed";
}

// What is wrong there stays until what replaces it is known to be sound.
TEST_P(MendedCopy, IsNotMadeOfADamagedSource) {
  for (const Handles& handles : {from, to}) cut_short(*handles(), "s1.1.1/PART_000");
  EXPECT_FALSE(copy().ok());
  EXPECT_EQ(as_text(*to()->get("s1.1.1/PART_000", 100)), "cut short");
}

}  // namespace
}  // namespace ckpt::commit
