// One start of all ranks of a run: how it forms, who is refused, who is fenced, and what it finds in the store.
// Every rank is a process of its own.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "api/process.h"

using namespace ckpt_test;

namespace {

std::string rendezvous_folder(const std::string& uri) { return uri + "/.ckpt/rendezvous/main"; }

size_t hello_count(const std::string& uri) {
  size_t count = 0;
  for (const auto& name : names_in(rendezvous_folder(uri))) count += name.starts_with("hello.");
  return count;
}

std::string nonce_of(int number) {
  char text[33];
  std::snprintf(text, sizeof text, "%032x", static_cast<unsigned>(number));
  return text;
}

uint64_t token_of(const std::string& session_string) {
  size_t start = session_string.find(';', session_string.find(';') + 1) + 1;
  return std::stoull(session_string.substr(start));
}

void write_safetensors(const std::string& path) {
  std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; i++) bytes[static_cast<size_t>(i)] = static_cast<char>(header.size() >> 8 * i & 255);
  write_file(path, bytes + header + "1234");
}

class SessionTest : public ::testing::Test {
 protected:
  Scratch scratch;
  const std::string uri = scratch / "store";
};
using Rendezvous = SessionTest;
using SessionString = SessionTest;
using Fencing = SessionTest;
using Leftovers = SessionTest;
using ControlDirectory = SessionTest;
using Copies = SessionTest;

}  // namespace

// ---- the string ----

TEST_F(SessionString, WorkerRestartedWithItIsConflictWhileTheSessionLives) {
  Ranks ranks(uri, 2);
  ranks[1].kill();
  Program restarted(uri);
  Reply reply = restarted.call(opening(1, 2, ranks.string));
  EXPECT_EQ(reply.status, "CONFLICT") << reply;
}

TEST_F(SessionString, OfAnotherStoreIsConflict) {
  Ranks here(uri, 1), there(scratch / "other", 1);
  Program rank(uri);
  // Rank 1 of a world of two in another store.
  Program leader(scratch / "third");
  std::string string = leader.call(opening(0, 2)).text;
  Reply reply = rank.call(opening(1, 2, string));
  EXPECT_EQ(reply.status, "CONFLICT") << reply;
}

// ---- rendezvous ----

TEST_F(Rendezvous, FourProcessesMeetWithoutACommunicator) {
  Program ranks[4]{Program(uri), Program(uri), Program(uri), Program(uri)};
  for (uint32_t rank : {3u, 1u, 0u, 2u}) ranks[rank].send(opening(rank, 4) + " rendezvous=1" + kLong);
  for (Program& rank : ranks) {
    Reply reply = rank.read();
    EXPECT_EQ(reply.status, "OK") << reply;
  }
  for (Program& rank : ranks) rank.send("save a 1");
  for (Program& rank : ranks) EXPECT_EQ(rank.read().status, "OK");
  EXPECT_EQ(problem_of(uri, "latest"), "");
  EXPECT_EQ(names_in(rendezvous_folder(uri)), std::vector<std::string>{});
}

TEST_F(Rendezvous, LeftoverHellosOfADeadStartMatchNothing) {
  {
    Program dead[3]{Program(uri), Program(uri), Program(uri)};
    for (uint32_t i = 0; i < 3; i++) dead[i].send(opening(i + 1, 4) + " rendezvous=1" + kLong);
    ASSERT_TRUE(await([&] { return hello_count(uri) == 3; }));
  }
  ASSERT_EQ(hello_count(uri), 3u);
  Program ranks[4]{Program(uri), Program(uri), Program(uri), Program(uri)};
  for (uint32_t rank = 0; rank < 4; rank++) ranks[rank].send(opening(rank, 4) + " rendezvous=1" + kLong);
  for (Program& rank : ranks) EXPECT_EQ(rank.read().status, "OK");
  for (Program& rank : ranks) rank.send("save a 1");
  for (Program& rank : ranks) EXPECT_EQ(rank.read().status, "OK");
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

TEST_F(Rendezvous, MissingRankIsTimeoutThatNamesItAndTheOthersLearnItAtOnce) {
  with_growing_deadlines([](const std::string& timeout) {
    Scratch place;
    const std::string uri = place / "store";
    Program here(uri), leader(uri);
    here.send(opening(2, 4) + " rendezvous=1" + kLong);
    EXPECT_TRUE(await([&] { return hello_count(uri) == 1; }));
    Reply led = leader.call(opening(0, 4) + " rendezvous=1" + timeout), other = here.read();
    EXPECT_EQ(led.status, "TIMEOUT") << led;
    if (led.ranks != "1, 3") return false;  // rank 2 was asleep
    EXPECT_EQ(other.status, "ABORTED") << other;
    return true;
  });
}

TEST_F(Rendezvous, RankThatIsRefusedEndsItForAllAtOnce) {
  for (const char* other : {" chunk_bytes=8192", " heartbeat_ms=77"}) {
    Scratch place;
    const std::string store = place / "store";
    Program leader(store), refused(store), waiting(store);
    leader.send(opening(0, 4) + " rendezvous=1" + kLong);
    waiting.send(opening(2, 4) + " rendezvous=1" + kLong);
    ASSERT_TRUE(await([&] { return exists(store + "/.ckpt/sessions/1/rank.2"); }));
    EXPECT_EQ(refused.call(opening(1, 4) + " rendezvous=1" + kLong + other).status, "MISMATCH");
    const Reply led = leader.read();
    EXPECT_EQ(led.status, "ABORTED") << led;
    EXPECT_EQ(led.rank, "1");
    EXPECT_EQ(waiting.read().status, "ABORTED");
  }
}

TEST_F(Rendezvous, RankOfALargerWorldLearnsItAtOnceAndEndsNothing) {
  Program leader(uri), stranger(uri), rank(uri);
  leader.send(opening(0, 2) + " rendezvous=1" + kLong);
  EXPECT_EQ(stranger.call(opening(3, 4) + " rendezvous=1" + kLong).status, "MISMATCH");
  EXPECT_EQ(rank.call(opening(1, 2) + " rendezvous=1" + kLong).status, "OK");
  EXPECT_EQ(leader.read().status, "OK");
}

TEST_F(Rendezvous, RankThatDiesAfterItCameEndsItForAllAtOnce) {
  Program leader(uri), dead(uri);
  leader.send(opening(0, 3) + " rendezvous=1" + kLong);
  dead.send(opening(1, 3) + " rendezvous=1" + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/.ckpt/sessions/1/rank.1"); }));
  dead.kill();
  const Reply led = leader.read();
  EXPECT_EQ(led.status, "ABORTED") << led;
  EXPECT_EQ(led.ranks, "1");
}

TEST_F(Rendezvous, VeryManyLeftoverHellosAreAnsweredTogether) {
  std::filesystem::create_directories(rendezvous_folder(uri));
  for (int i = 1; i <= 3000; i++) write_file(rendezvous_folder(uri) + "/hello.1." + nonce_of(i), "");
  Program leader(uri), rank(uri);
  rank.send(opening(1, 2) + " rendezvous=1" + kLong);
  ASSERT_TRUE(await([&] { return hello_count(uri) == 3001; }));
  leader.send(opening(0, 2) + " rendezvous=1" + kLong);
  EXPECT_EQ(rank.read().status, "OK");
  EXPECT_EQ(leader.read().status, "OK");
  EXPECT_LE(hello_count(uri), 2000u);
}

TEST_F(Rendezvous, MissingRankZeroIsTimeoutThatNamesIt) {
  Program rank(uri);
  Reply reply = rank.call(opening(1, 2) + " rendezvous=1" + kShort);
  EXPECT_EQ(reply.status, "TIMEOUT") << reply;
  EXPECT_EQ(reply.ranks, "0");
  EXPECT_EQ(hello_count(uri), 0u);  // withdrawn, so that a later rank 0 does not find a rank that has left
}

TEST_F(Rendezvous, DoubledRankIsConflictAndTheOthersStart) {
  Program leader(uri), first(uri), second(uri), last(uri);
  leader.send(opening(0, 3) + " rendezvous=1" + kLong);
  first.send(opening(1, 3) + " rendezvous=1" + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/.ckpt/sessions/1/rank.1"); }));
  Reply doubled = second.call(opening(1, 3) + " rendezvous=1" + kLong);
  EXPECT_EQ(doubled.status, "CONFLICT") << doubled;
  EXPECT_EQ(last.call(opening(2, 3) + " rendezvous=1" + kLong).status, "OK");
  EXPECT_EQ(first.read().status, "OK");
  EXPECT_EQ(leader.read().status, "OK");
}

TEST_F(Rendezvous, RankThatWaitsForAStartIsFencedAtOnceByANewerSession) {
  Program leader(uri), waiting(uri);
  leader.send(opening(0, 3) + " rendezvous=1" + kLong);
  waiting.send(opening(1, 3) + " rendezvous=1" + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/.ckpt/sessions/1/rank.1"); }));
  leader.kill();
  Program newer(uri);
  ASSERT_EQ(newer.call(opening(0, 1)).status, "OK");
  Reply reply = waiting.read();
  EXPECT_EQ(reply.status, "FENCED") << reply;
}

TEST_F(Rendezvous, LeaderThatIsFencedWhileItWaitsLearnsItAtOnce) {
  Program leader(uri), newer(uri);
  leader.send(opening(0, 2) + " rendezvous=1" + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/.ckpt/sessions/1/rank.0"); }));
  ASSERT_EQ(newer.call(opening(0, 1)).status, "OK");
  Reply reply = leader.read();
  EXPECT_EQ(reply.status, "FENCED") << reply;
}

// ---- two jobs on one store ----

TEST_F(Fencing, ReachesRanksThatWaitInTheMiddleOfASave) {
  Ranks older(uri, 3);
  older[0].send(std::string("save a 1") + kLong);
  older[1].send(std::string("save a 1") + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/a.1.1/PART_001"); }));
  Ranks newer(uri, 1);
  for (int rank : {0, 1}) {
    Reply reply = older[static_cast<size_t>(rank)].read();
    EXPECT_EQ(reply.status, "FENCED") << reply;
  }
  EXPECT_FALSE(exists(uri + "/a.1.1"));
  EXPECT_EQ(newer[0].call("save a 2").status, "OK");
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

TEST_F(Fencing, OtherRunsAreNotConcerned) {
  Ranks one(uri, 1, " run=one"), two(uri, 1, " run=two");
  EXPECT_EQ(one[0].call("save a 1").status, "OK");
  EXPECT_EQ(two[0].call("save a 2").status, "OK");
  EXPECT_EQ(one[0].call("save b 3").status, "OK");
  EXPECT_EQ(latest_step(uri, "one"), 3);
  EXPECT_EQ(latest_step(uri, "two"), 2);
}

TEST_F(Fencing, ImportBesideARunningTrainerFencesNobody) {
  write_safetensors(scratch / "model.safetensors");
  Ranks trainer(uri, 2);
  trainer.all_answer("save a 1", "OK");
  Program importer(uri);
  Reply imported = importer.call("import " + (scratch / "model.safetensors") + " base");
  EXPECT_EQ(imported.status, "OK") << imported;
  trainer.all_answer("save b 2", "OK");
  EXPECT_EQ(latest_step(uri), 2);
  EXPECT_EQ(latest_step(uri, "import"), 0);
}

TEST_F(Fencing, ImportDoesNotExposeTheOpenAttemptOfALivingTrainer) {
  write_safetensors(scratch / "model.safetensors");
  Ranks trainer(uri, 2);
  trainer[0].send(std::string("save a 1") + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/a.1.1/PART_000"); }));
  Program other(uri);
  EXPECT_EQ(other.call("import " + (scratch / "model.safetensors") + " base").status, "OK");
  Reply removed = other.call("remove a.1.1");
  EXPECT_EQ(removed.status, "CONFLICT") << removed;
  EXPECT_EQ(trainer[1].call("save a 1").status, "OK");
  EXPECT_EQ(trainer[0].read().status, "OK");
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

// The zombie is stopped at the last moment: its commit record is written beside the slot, only the rename is missing.
TEST_F(Fencing, ZombieThatWakesJustBeforeItsCommitIsFenced) {
  CKPT_NEEDS_STRACE();
  Ranks zombie(uri, 1);
  ASSERT_EQ(zombie[0].call("save a 1").status, "OK");
  // A save of one rank resizes three files: the attempt record, its part, and MANIFEST.
  ASSERT_TRUE(zombie[0].trace({"-e", "trace=ftruncate", "-e", "inject=ftruncate:signal=SIGSTOP:when=3"}));
  zombie[0].send("save b 2");
  zombie[0].await_stopped();
  auto names = names_in(uri + "/b.1.1");
  ASSERT_EQ(names.size(), 2u);
  ASSERT_TRUE(names[0].starts_with("MANIFEST.tmp.")) << names[0];
  Ranks heir(uri, 1);
  EXPECT_EQ(heir[0].call("save b 3").status, "OK");
  zombie[0].signal(SIGCONT);
  Reply reply = zombie[0].read();
  EXPECT_EQ(reply.status, "FENCED") << reply;
  EXPECT_EQ(latest_step(uri), 3);
  EXPECT_EQ(problem_of(uri, "latest"), "");
  EXPECT_EQ(problem_of(uri, "a"), "");
  EXPECT_FALSE(exists(uri + "/b.1.1"));
  EXPECT_EQ(zombie[0].call("save c 4").status, "FENCED");
}

// ---- what a crash leaves ----

TEST_F(Leftovers, AreClosedAndRemovedByTheNextSessionOfTheSameRunOnly) {
  {
    Ranks dying(uri, 2, " run=mine");
    dying[0].send(std::string("save a 1") + kLong);
    ASSERT_TRUE(await([&] { return exists(uri + "/a.1.1/PART_000"); }));
  }
  ASSERT_EQ(state_of(uri, "a.1.1"), CKPT_CHECKPOINT_OPEN);
  {
    Ranks other(uri, 1, " run=other");
    EXPECT_EQ(other[0].call("save a 2").status, "OK");
    EXPECT_EQ(state_of(uri, "a.1.1"), CKPT_CHECKPOINT_OPEN);
  }
  Ranks next(uri, 1, " run=mine");
  EXPECT_EQ(state_of(uri, "a.1.1"), 0);
  EXPECT_EQ(names_in(uri + "/.ckpt/trash"), std::vector<std::string>{});
  EXPECT_EQ(names_in(uri + "/.ckpt/attempts"), std::vector<std::string>{});
  EXPECT_EQ(next[0].call("save a 3").status, "OK");
  EXPECT_EQ(problem_of(uri, "latest", "other"), "");
}

TEST_F(Leftovers, ForeignNamesStayByteForByte) {
  Ranks(uri, 1)[0].call("save a 1");
  std::filesystem::create_directories(uri + "/tensorboard/events");
  std::filesystem::create_directories(uri + "/.ckpt/attempts/notes");
  std::filesystem::create_directories(uri + "/a.1.7");  // the name of a checkpoint, but no record says that it is ours
  write_file(uri + "/a.1.7/PART_000", "not a part");
  write_file(uri + "/notes.txt", "mine");
  write_file(uri + "/MANIFEST", "mine too");
  write_file(uri + "/tensorboard/events/1", std::string(5000, 'x'));
  write_file(uri + "/tensorboard/PART_000", "a part of something else");
  write_file(uri + "/.ckpt/readme", "mine as well");
  write_file(uri + "/.ckpt/attempts/9.x", "y");
  write_file(uri + "/.ckpt/owners/007", "z");
  ASSERT_EQ(symlink("/etc", (uri + "/link.1.1").c_str()), 0);
  auto foreign = [&] {
    auto all = snapshot(uri);
    std::erase_if(all, [](const auto& file) {
      const std::string& name = file.first;
      for (const char* mine : {"/tensorboard", "/a.1.7", "/notes.txt", "/MANIFEST", "/link.1.1", "/.ckpt/readme",
                               "/.ckpt/attempts/notes", "/.ckpt/attempts/9.x", "/.ckpt/owners/007"})
        if (name.starts_with(mine)) return false;
      return true;
    });
    return all;
  };
  auto before = foreign();
  ASSERT_EQ(before.size(), 13u);
  for (int step = 2; step < 5; step++) {
    Ranks ranks(uri, 1);
    Reply reply = ranks[0].call("save a " + std::to_string(step) + " on_existing=replace keep_last=1");
    EXPECT_EQ(reply.status, "OK") << reply;
    EXPECT_EQ(ranks[0].call("prune keep_last=1").status, "OK");
  }
  EXPECT_EQ(foreign(), before);
  EXPECT_EQ(latest_step(uri), 4);
}

TEST_F(Leftovers, NameWithTheLastTokenOfAllIsConflictAndNotTokenZero) {
  Ranks(uri, 1)[0].call("save a 1");
  std::filesystem::create_directories(uri + "/a.18446744073709551615.1");
  Program next(uri);
  Reply reply = next.call(opening(0, 1));
  EXPECT_EQ(reply.status, "CONFLICT") << reply;
  EXPECT_NE(reply.text.find("18446744073709551615"), std::string::npos) << reply;
  EXPECT_EQ(latest_step(uri), 1);
  std::filesystem::remove(uri + "/a.18446744073709551615.1");
  EXPECT_EQ(next.call(opening(0, 1)).status, "OK");
}

// ---- .ckpt deleted by hand ----

TEST_F(ControlDirectory, DeletedBetweenSavesLosesNothing) {
  Ranks ranks(uri, 2);
  ranks.all_answer("save a 1", "OK");
  remove_tree(uri + "/.ckpt");
  EXPECT_EQ(latest_step(uri), 1);
  EXPECT_EQ(problem_of(uri, "latest"), "");
  ranks.all_answer("save b 2", "OK");
  EXPECT_EQ(latest_step(uri), 2);
  EXPECT_EQ(problem_of(uri, "a"), "");
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

TEST_F(ControlDirectory, DeletedBetweenSessionsKeepsTokensMonotoneAndTheStoresId) {
  uint64_t last = 0;
  std::string store_id;
  for (int step = 1; step <= 4; step++) {
    Ranks ranks(uri, 1);
    EXPECT_GT(token_of(ranks.string), last);
    last = token_of(ranks.string);
    EXPECT_EQ(ranks[0].call("save a" + std::to_string(step) + " " + std::to_string(10 - step)).status, "OK");
    std::string id = entries_of(uri).back().store_id;
    EXPECT_TRUE(store_id.empty() || id == store_id);
    store_id = id;
    EXPECT_EQ(latest_step(uri), 10 - step);
    remove_tree(uri + "/.ckpt");
    EXPECT_EQ(latest_step(uri), 10 - step);
  }
  for (const Info& info : entries_of(uri)) {
    EXPECT_EQ(info.flags, 0u) << info.id;
    EXPECT_EQ(problem_of(uri, info.id), "");
  }
}

// Both sessions get the same token. The owner record that exists decides.
TEST_F(ControlDirectory, DeletedUnderALivingSessionLetsTheNewerOneFenceItAllTheSame) {
  Ranks older(uri, 1);
  remove_tree(uri + "/.ckpt");
  Ranks newer(uri, 1);
  Reply fenced = older[0].call("save a 1");
  EXPECT_EQ(fenced.status, "FENCED") << fenced;
  EXPECT_EQ(newer[0].call("save a 2").status, "OK");
  EXPECT_EQ(latest_step(uri), 2);
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

// The newer session even gets a lower token, since nothing shows the token of the older one.
TEST_F(ControlDirectory, DeletedUnderASessionOfAHighTokenLetsTheNewerOneFenceIt) {
  for (int i = 0; i < 3; i++) Ranks unused(uri, 1);
  Ranks older(uri, 1);
  ASSERT_EQ(token_of(older.string), 4u);
  remove_tree(uri + "/.ckpt");
  Ranks newer(uri, 1);
  Reply fenced = older[0].call("save a 1");
  EXPECT_EQ(fenced.status, "FENCED") << fenced;
  EXPECT_EQ(newer[0].call("save a 2").status, "OK");
  EXPECT_EQ(latest_step(uri), 2);
}

TEST_F(ControlDirectory, DeletedAndSavedAgainKeepsFencingLaterSessions) {
  for (int i = 0; i < 3; i++) Ranks unused(uri, 1);
  Ranks older(uri, 1);
  remove_tree(uri + "/.ckpt");
  EXPECT_EQ(older[0].call("save a 1").status, "OK");
  Ranks newer(uri, 1);
  EXPECT_GT(token_of(newer.string), token_of(older.string));
  EXPECT_EQ(older[0].call("save b 2").status, "FENCED");
  EXPECT_EQ(newer[0].call("save b 3").status, "OK");
  EXPECT_EQ(latest_step(uri), 3);
}

TEST_F(ControlDirectory, DeletedInTheMiddleOfASaveEndsInANamedOutcome) {
  Ranks ranks(uri, 2);
  ranks.all_answer("save a 1", "OK");
  ranks[0].send(std::string("save b 2") + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/b.1.1/PART_000"); }));
  remove_tree(uri + "/.ckpt");
  Reply other = ranks[1].call(std::string("save b 2") + kLong), leader = ranks[0].read();
  EXPECT_EQ(leader.status, other.status) << leader << " " << other;
  EXPECT_EQ(latest_step(uri), leader.status == "OK" ? 2 : 1);
  EXPECT_EQ(problem_of(uri, "latest"), "");
  EXPECT_EQ(problem_of(uri, "a"), "");
}

// ---- copies ----

TEST_F(Copies, OfACheckpointFromAnotherStoreIsForeignNeverLatestNeverPrunedAndLoadableById) {
  const std::string other = scratch / "other";
  for (int i = 0; i < 4; i++) Ranks unused(other, 1);  // to make its tokens higher
  Ranks(other, 1)[0].call("save z 900");
  Ranks(uri, 1)[0].call("save s1 1");
  copy_tree(other + "/z.5.1", uri + "/z.5.1");
  auto entries = entries_of(uri);
  ASSERT_EQ(entries.size(), 2u);
  for (const Info& info : entries) {
    bool foreign = std::string(info.id) == "z.5.1";
    EXPECT_EQ(info.flags & CKPT_CHECKPOINT_FOREIGN, foreign ? 1u : 0u) << info.id;
  }
  EXPECT_EQ(latest_step(uri), 1);
  EXPECT_EQ(problem_of(uri, "z.5.1"), "");
  EXPECT_NE(problem_of(uri, "label:z"), "");
  Ranks next(uri, 1, " continue_from=latest");
  EXPECT_GT(token_of(next.string), 5u);
  EXPECT_EQ(next[0].call("save s2 2 keep_last=1").status, "OK");
  EXPECT_EQ(next[0].call("save s3 3 keep_last=1").status, "OK");
  EXPECT_EQ(latest_step(uri), 3);
  EXPECT_EQ(problem_of(uri, "z.5.1"), "");
  EXPECT_EQ(entries_of(uri).size(), 2u);  // the newest and the foreign one
  // A label that only a foreign checkpoint has is free, and replacing touches only the store's own checkpoints.
  EXPECT_EQ(next[0].call("save z 4").status, "OK");
  EXPECT_EQ(next[0].call("save z 5 on_existing=replace").status, "OK");
  EXPECT_EQ(problem_of(uri, "z.5.1"), "");
}

TEST_F(Copies, OfAWholeStoreLoadItsLatestWithAndWithoutTheControlDirectory) {
  for (int step = 1; step <= 3; step++)
    Ranks(uri, 1)[0].call("save a" + std::to_string(step) + " " + std::to_string(step));
  const std::string with = scratch / "with", without = scratch / "without";
  copy_tree(uri, with);
  copy_tree(uri, without);
  remove_tree(without + "/.ckpt");
  for (const std::string& copy : {with, without}) {
    EXPECT_EQ(latest_step(copy), 3);
    EXPECT_EQ(problem_of(copy, "latest"), "");
    Ranks next(copy, 2);
    EXPECT_EQ(token_of(next.string), 4u);
    next.all_answer("save b 4", "OK");
    EXPECT_EQ(latest_step(copy), 4);
    for (const Info& info : entries_of(copy)) EXPECT_EQ(info.flags, 0u) << info.id;
  }
}

TEST_F(Copies, RenamedCheckpointDirectoryOpensAndStaysInItsPlace) {
  Ranks ranks(uri, 1);
  ranks[0].call("save a 1");
  ranks[0].call("save b 2");
  std::filesystem::rename(uri + "/a.1.1", uri + "/my-favourite");
  std::filesystem::rename(uri + "/b.1.1", uri + "/best of all");
  EXPECT_EQ(problem_of(uri, "my-favourite"), "");
  EXPECT_EQ(latest_id(uri), "best of all");
  EXPECT_EQ(problem_of(uri, "latest"), "");
  EXPECT_EQ(problem_of(uri, "label:a"), "");
  EXPECT_EQ(ranks[0].call("save a 3").status, "EXISTS");
  EXPECT_EQ(ranks[0].call("save c 4").status, "OK");
  EXPECT_EQ(latest_step(uri), 4);
}
