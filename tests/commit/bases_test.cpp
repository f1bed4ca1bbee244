// The commit of a save of which chunks lie in bases: what is in the directory when MANIFEST is made, and afterwards.
#include <set>
#include <thread>

#include "checkpoint/based.h"
#include "commit/commit.h"
#include "commit/retention.h"
#include "store/shell_store.h"
#include "store/weak_store.h"

namespace ckpt::commit {
namespace {

using checkpoint::Based;
using checkpoint::Data;
using checkpoint::of;

constexpr uint32_t kRanks = 8, kLeast = 5;  // groups of 3, 3 and 2 ranks; leaders 0, 3 and 6

// Each rank writes one row of "t", whose bytes lie in a part of an earlier checkpoint, which it borrows.
class BaseCommit : public ::testing::Test {
 protected:
  BaseCommit() {
    for (uint32_t rank = 0; rank < kRanks; rank++)
      sessions.push_back(rank ? open_session(inner, rank, kRanks, sessions[0]->string().c_str())
                              : open_session(leaders, 0, kRanks));
    settings = {.on_existing = "error", .protect = "", .timeout_ms = 60000, .group_from = kLeast, .incremental = true};
  }
  std::string directory() const { return attempts[0].directory; }
  static const Based& based() {
    static const Based& made = *new Based;
    return made;
  }
  const Based::Base& base_of(uint32_t rank) const { return based().bases[rank % 2]; }

  Status start(uint32_t rank) {
    session::Session& session = *sessions[rank];
    attempts[rank] = session.next_attempt("s1");
    Job job;
    CKPT_TRY(open_attempt(session, attempts[rank], settings, job));
    const std::string name = format::file_name(base_of(rank).record);
    if (!lost.contains(rank)) {
      Status put = inner->put_if_absent(format::file_key(attempts[rank].directory, name), base_of(rank).file);
      if (put.code() != CKPT_EXISTS) CKPT_TRY(std::move(put));
    }
    return inner->put_if_absent(format::part_key(attempts[rank].directory, rank), part_of(rank));
  }
  std::vector<Status> save() {
    std::vector<Status> told(kRanks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; rank++)
      threads.emplace_back([&, rank] {
        told[rank] = start(rank);
        Job job;
        if (told[rank].ok()) told[rank] = finish_attempt(*sessions[rank], attempts[rank], settings, job);
      });
    for (std::thread& thread : threads) thread.join();
    return told;
  }
  std::vector<std::string> bases() const {
    std::vector<std::string> found;
    const auto entries = inner->list(directory());
    for (const auto& entry : *entries)
      if (entry.name.starts_with("BASE_")) found.push_back(entry.name);
    return found;
  }

  const std::shared_ptr<store::Store> inner = fresh_memory_store();
  const std::shared_ptr<store::ShellStore> leaders = std::make_shared<store::ShellStore>(inner);
  std::vector<std::shared_ptr<session::Session>> sessions;
  session::Attempt attempts[kRanks];
  CommitSettings settings;
  std::set<uint32_t> lost;  // ranks whose base is not there

 private:
  std::vector<std::byte> part_of(uint32_t rank) const {
    const session::Attempt& attempt = attempts[rank];
    const session::SessionPlan& plan = sessions[rank]->plan();
    checkpoint::Draft draft(format::IndexKind::kPart, kRanks);
    format::Summary& summary = draft.builder.summary;
    summary.store_id = plan.store_id;
    summary.session_id = plan.session_id;
    summary.save_id = attempt.save_id;
    summary.label = attempt.label;
    summary.token = plan.token;
    summary.attempt = attempt.number;
    draft.builder.bases = {{base_of(rank).record, 16}};
    draft.tensor("t", CKPT_DTYPE_U8, {kRanks, 16}).region(format::box({rank, 0}, {1, 16}));
    draft.segment(0, 16, {Data::at(4096, of(rank % 2 == 0 ? 'a' : 'c'))}, {}, {1});
    const format::PartHeader header{1, attempt.save_id, rank, kRanks, plan.store_id, plan.token, attempt.number};
    return checkpoint::part_file(draft.encode(), header, 3 * kAlign);
  }
};

TEST_F(BaseCommit, NamesTheBasesOfAllRanksOnce) {
  for (const Status& status : save()) ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(bases().size(), 2u);
  auto checkpoint = checkpoint::Checkpoint::open_quietly(*inner, directory());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->summary().base_count, 2u);
  EXPECT_EQ((*checkpoint)->summary().used_bytes, 16u * kRanks);
  EXPECT_TRUE(check_quick(*inner, directory()).ok());
}

TEST_F(BaseCommit, EndsWithTheNameOfABaseThatIsNotThere) {
  lost = {1, 3, 5, 7};
  const auto told = save();
  EXPECT_EQ(told[0].code(), CKPT_INCOMPLETE) << told[0].message();
  ASSERT_TRUE(told[0].detail("part"));
  EXPECT_EQ(*told[0].detail("part"), format::file_name(based().bases[1].record));
  for (uint32_t rank = 1; rank < kRanks; rank++) EXPECT_EQ(told[rank].code(), CKPT_ABORTED) << told[rank].message();
  EXPECT_TRUE(bases().empty()) << "nobody will need them";
  EXPECT_EQ(checkpoint::Checkpoint::open_quietly(*inner, directory()).status().code(), CKPT_ABORTED);
}

// Of a rank that failed and came again, or found that it needs nothing of what it borrowed.
TEST_F(BaseCommit, RemovesWhatNoPartUses) {
  attempts[0] = {.label = "s1", .directory = "s1.1.1", .number = 1, .save_id = {}};
  ASSERT_TRUE(inner->make_directory(directory()).ok());
  const std::string unused = directory() + "/" + format::base_name({9, 9}, 4);
  ASSERT_TRUE(inner->put_if_absent(unused, as_bytes("x")).ok());
  for (const Status& status : save()) ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(bases().size(), 2u);
  EXPECT_EQ(inner->open(unused).status().code(), CKPT_NOT_FOUND);
}

TEST_F(BaseCommit, ABaseThatARankTookBackIsNotTheReasonButTheAbortIs) {
  settings.group_from = 2 * kRanks;  // rank 0 reads all parts
  std::set<std::string, std::less<>> parts;
  bool done = false;
  leaders->before([&](std::string_view operation, std::string_view key) {
    if (operation == "open" && key.find("/PART_") != key.npos) parts.emplace(key);
    if (!done && parts.size() == kRanks && operation == "list" && key == directory()) {
      done = true;
      EXPECT_FALSE(give_up(*sessions[1], attempts[1], Status(CKPT_NO_SPACE, "the disk of rank 1 is full"), true).ok());
    }
    return Ok();
  });
  const auto told = save();
  EXPECT_TRUE(done);
  EXPECT_EQ(told[0].code(), CKPT_ABORTED) << told[0].message();
  EXPECT_NE(told[0].message().find("the disk of rank 1 is full"), std::string::npos) << told[0].message();
}

TEST_F(BaseCommit, ARankThatGivesUpTakesBackWhatItBorrowed) {
  settings.timeout_ms = 500;
  ASSERT_TRUE(start(0).ok());
  ASSERT_TRUE(start(1).ok());
  EXPECT_EQ(bases().size(), 2u);
  EXPECT_FALSE(give_up(*sessions[1], attempts[1], Status(CKPT_IO, "its disk"), true).ok());
  EXPECT_TRUE(bases().empty());
}

}  // namespace
}  // namespace ckpt::commit
