// Who may save a label that has a checkpoint already.
#include "checkpoint/engine.h"

namespace ckpt::commit {
namespace {

class LabelTest : public ::testing::Test {
 protected:
  LabelTest() {
    for (int64_t step : {1, 2}) EXPECT_TRUE(save_step(session, step).ok());
  }
  void flip(const std::string& key, size_t offset) {
    auto bytes = inner->get(key, 1 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    (*bytes)[offset < bytes->size() ? offset : bytes->size() - 30] ^= std::byte{1};
    ASSERT_TRUE(inner->remove(key, true).ok());
    ASSERT_TRUE(inner->put_if_absent(key, *bytes).ok());
  }
  // Saves step 2 again; what its report says.
  Result<Report> save_again(const std::shared_ptr<session::Session>& by) {
    CKPT_ASSIGN(auto save, save::Save::make(by, "s2", 2, {}));
    CKPT_TRY(run_whole(*save));
    return save->report();
  }
  std::string picked(std::string_view selector) {
    auto found = checkpoint::find_checkpoint(*inner, {selector, "main"});
    return found.ok() ? found->entry.id : found.status().message();
  }

  std::shared_ptr<store::Store> inner = fresh_memory_store();
  std::shared_ptr<session::Session> session = open_session(inner);
};
using Label = LabelTest;

constexpr size_t kEnd = SIZE_MAX;  // a byte of the record at the end of MANIFEST

TEST_F(Label, OfADamagedCheckpointMayBeSavedAgain) {
  for (size_t offset : {size_t{100}, kEnd}) {  // of MANIFEST's index; of its end, without which it tells no run
    inner = fresh_memory_store();
    session = open_session(inner);
    for (int64_t step : {1, 2}) ASSERT_TRUE(save_step(session, step).ok());
    flip(slot_of(2), offset);
    ASSERT_EQ(picked("latest"), "s1.1.1");
    session = open_session(inner);  // the trainer went back to step 1
    auto report = save_again(session);
    ASSERT_TRUE(report.ok()) << report.status().message();
    ASSERT_EQ(report->findings.size(), 1u);
    EXPECT_EQ(report->findings[0].kind, CKPT_FINDING_DAMAGED);
    EXPECT_EQ(report->findings[0].name, "s2.1.1");
    EXPECT_NE(report->findings[0].text.find("takes its label"), std::string::npos) << report->findings[0].text;
    for (const char* selector : {"latest", "s2", "label:s2", "step:2"}) EXPECT_EQ(picked(selector), "s2.2.1");
    EXPECT_TRUE(*inner->exists(slot_of(2))) << "the damaged one stays";
    EXPECT_EQ(save_again(session).status().code(), CKPT_EXISTS) << "the sound one keeps its label";
  }
}

TEST_F(Label, IsFreeForTheSameSessionToo) {
  flip(slot_of(2), 100);
  ASSERT_TRUE(save_again(session).ok());
  EXPECT_EQ(picked("s2"), "s2.1.2");
}

TEST_F(Label, OfACheckpointWithADamagedPartMayBeSavedAgain) {
  flip("s2.1.1/PART_000", kEnd);
  ASSERT_TRUE(save_again(open_session(inner)).ok());
  EXPECT_EQ(picked("step:2"), "s2.2.1");
}

TEST_F(Label, OfACheckpointThatANewerLibraryWroteIsTaken) {
  auto shell = std::make_shared<store::ShellStore>(inner);
  auto next = open_session(shell);
  shell->before([count = 0](std::string_view operation, std::string_view key) mutable {
    const bool again = operation == "open" && key == slot_of(2) && ++count > 1;  // its end can be read, its index not
    return again ? Status(CKPT_REVISION, "broken by the test") : Ok();
  });
  EXPECT_EQ(save_again(next).status().code(), CKPT_EXISTS);
}

}  // namespace
}  // namespace ckpt::commit
