// Which checkpoints go and which stay: policy, protection, readers in this and other processes, damage, removal by id.
#include <algorithm>
#include <filesystem>

#include "api/process.h"
#include "api/ranks.h"

using namespace ckpt_test;

namespace {

class RetentionTest : public ::testing::Test {
 protected:
  // One session commits a checkpoint for each step, labelled "s<step>".
  void save(const std::vector<int>& steps, const std::string& settings = "") {
    Program program(uri);
    ASSERT_EQ(program.call("open 0 1 - continue_from=latest").status, "OK");
    for (int step : steps) {
      std::string command = "save s" + std::to_string(step) + " " + std::to_string(step) + settings;
      Reply reply = program.call(command);
      ASSERT_EQ(reply.status, "OK") << command << ": " << reply;
    }
  }
  Report prune(const std::vector<Setting>& settings) {
    Store store = open_store(uri);
    ckpt_report* report = nullptr;
    Error error;
    EXPECT_EQ(ckpt_store_prune(store.get(), options(settings).get(), &report, error), CKPT_OK) << error.text();
    return Report(report);
  }
  std::vector<int64_t> steps() {
    std::vector<int64_t> found;
    for (const Info& info : entries_of(uri)) found.push_back(info.step);
    return found;
  }
  ckpt_status remove(const std::string& id) {
    Store store = open_store(uri);
    return ckpt_store_remove(store.get(), id.c_str(), nullptr);
  }
  std::string id_of(int64_t step) {
    for (const Info& info : entries_of(uri))
      if (info.step == step) return info.id;
    return "";
  }
  std::string part_of(int64_t step) { return uri + "/" + id_of(step) + "/PART_000"; }

  Scratch scratch;
  const std::string uri = scratch / "store";
};
using Steps = std::vector<int64_t>;
using Retention = RetentionTest;
using Remove = RetentionTest;
using GoneReader = RetentionTest;

// The findings of one kind, by checkpoint name.
std::vector<std::string> names_of(const Report& report, int32_t kind) {
  std::vector<std::string> names;
  for (const Found& found : those_of(findings_of(report.get()), kind)) names.push_back(found.name);
  return names;
}

}  // namespace

TEST_F(Retention, KeepLastKeepsThatManyOfTheNewest) {
  save({1, 2, 3, 4, 5});
  Report report = prune({{"keep_last", 2}});
  EXPECT_EQ(steps(), (Steps{4, 5}));
  EXPECT_EQ(names_of(report, CKPT_FINDING_REMOVED), (std::vector<std::string>{"s1.1.1", "s2.1.1", "s3.1.1"}));
  for (const Info& info : entries_of(uri)) EXPECT_EQ(problem_of(uri, info.id), "");
  EXPECT_EQ(names_in(uri + "/.ckpt/trash"), std::vector<std::string>{});
}

TEST_F(Retention, OrdersBySessionAndNotByStepOrTime) {
  save({500});
  save({10, 20});
  std::filesystem::last_write_time(uri + "/s500.1.1/MANIFEST",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(100));
  prune({{"keep_last", 2}});
  EXPECT_EQ(steps(), (Steps{10, 20}));
}

TEST_F(Retention, ConcernsOneRunOnly) {
  save({1, 2});
  Ranks other(uri, 1, " run=other");
  other.all_answer("save s3 3", "OK");
  other.all_answer("save s4 4", "OK");
  prune({{"keep_last", 1}, {"run", "other"}});
  EXPECT_EQ(latest_step(uri, "other"), 4);
  EXPECT_EQ(entries_of(uri).size(), 3u);
  EXPECT_EQ(problem_of(uri, "s1.1.1"), "");
}

// Otherwise `keep_every` alone would keep all, silently.
TEST_F(Retention, APolicyThatKeepsAllInSilenceIsInvalid) {
  save({1, 2});
  Store store = open_store(uri);
  Session session = open_session(store);
  for (const Setting& setting : {Setting("keep_every", 2), Setting("protect", "s1")}) {
    Error error;
    EXPECT_EQ(ckpt_store_prune(store.get(), options({setting}).get(), nullptr, error), CKPT_INVALID) << setting.key;
    EXPECT_NE(error.text().find("keep_last"), std::string::npos) << error.text();
    ckpt_save* save = nullptr;
    EXPECT_EQ(ckpt_save_new(&save, session.get(), "x", 3, options({setting}).get(), error), CKPT_INVALID);
  }
}

// ---- copies inside the store ----

void copy_directory(const std::string& from, const std::string& to) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

TEST_F(Retention, ACopyIsNeverLatestNeverCountsAndIsNeverPruned) {
  save({1, 2, 3});
  for (const char* name : {"a-copy", "z-copy", "s9.9.9"}) copy_directory(uri + "/s3.1.1", uri + "/" + name);
  std::filesystem::remove(uri + "/z-copy/PART_000");  // cp -r is still at it
  EXPECT_EQ(latest_id(uri), "s3.1.1");
  prune({{"keep_last", 2}});
  EXPECT_EQ(steps(), (Steps{2, 3, 3, 3, 3}));
  prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{3, 3, 3, 3}));
  EXPECT_EQ(problem_of(uri, "latest"), "");
  for (const Info& entry : entries_of(uri))
    EXPECT_EQ((entry.flags & CKPT_CHECKPOINT_COPY) == 0, std::string(entry.id) == "s3.1.1");
}

TEST_F(Retention, ACheckpointThatWasRenamedByHandIsLatestButNotPruned) {
  save({1});
  std::filesystem::rename(uri + "/s1.1.1", uri + "/keep-me");
  EXPECT_EQ(latest_step(uri), 1);
  save({2});
  prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{1, 2}));
}

// The flags by every way to ask: listed, found by id, opened by id.
TEST_F(Retention, ACopyIsFlaggedHoweverOneAsks) {
  auto flags = [&](const std::string& id) {
    Store store = open_store(uri);
    Info found{}, opened{};
    found.struct_size = opened.struct_size = sizeof found;
    Error error;
    EXPECT_EQ(ckpt_store_find(store.get(), id.c_str(), nullptr, &found, error), CKPT_OK) << error.text();
    Reader reader = open_reader(store, id);
    EXPECT_EQ(ckpt_reader_info(reader.get(), &opened, error), CKPT_OK) << error.text();
    EXPECT_EQ(found.flags, opened.flags) << id;
    for (const Info& entry : entries_of(uri)) EXPECT_TRUE(entry.id != id || entry.flags == opened.flags) << id;
    return opened.flags;
  };
  save({1});
  for (const char* name : {"a-copy", "s9.9.9"}) copy_directory(uri + "/s1.1.1", uri + "/" + name);
  EXPECT_EQ(flags("s1.1.1"), 0u);
  EXPECT_EQ(flags("a-copy"), uint32_t{CKPT_CHECKPOINT_COPY});
  EXPECT_EQ(flags("s9.9.9"), uint32_t{CKPT_CHECKPOINT_COPY});
  std::filesystem::remove_all(uri + "/s1.1.1");
  EXPECT_EQ(flags("a-copy"), 0u);  // the first that is left stands for the save
  EXPECT_EQ(flags("s9.9.9"), uint32_t{CKPT_CHECKPOINT_COPY});
}

TEST_F(Retention, ADirectoryThatSomebodyPutIntoACheckpointIsKeptAndNamed) {
  save({1, 2});
  std::filesystem::create_directory(uri + "/s1.1.1/plots");
  Report report = prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{1, 2}));
  EXPECT_EQ(names_of(report, CKPT_FINDING_KEPT), (std::vector<std::string>{"s1.1.1"}));
  EXPECT_EQ(remove("s1.1.1"), CKPT_CONFLICT);
  EXPECT_EQ(problem_of(uri, "s1.1.1"), "");
  std::filesystem::remove(uri + "/s1.1.1/plots");
  EXPECT_EQ(remove("s1.1.1"), CKPT_OK);
}

// ---- soundness ----

// Sound means what can be told without reading all data: every part exists, is whole, and is the one that the manifest
// names.
TEST_F(Retention, KeepsTheNewestSoundOneWhenTheNewestLostItsPart) {
  save({1, 2, 3});
  std::filesystem::remove(part_of(3));
  Report report = prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{2, 3}));
  EXPECT_EQ(problem_of(uri, "s2.1.1"), "");
  EXPECT_EQ(names_of(report, CKPT_FINDING_KEPT), (std::vector<std::string>{"s2.1.1"}));
}

TEST_F(Retention, KeepsTheNewestSoundOneWhenTheNewestIsTruncatedOrSwapped) {
  save({1, 2, 3, 4});
  std::filesystem::resize_file(part_of(4), std::filesystem::file_size(part_of(4)) - 4096);
  std::filesystem::copy_file(part_of(1), part_of(3), std::filesystem::copy_options::overwrite_existing);
  prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{2, 4}));
  EXPECT_EQ(problem_of(uri, "s2.1.1"), "");
}

TEST_F(Retention, KeepsWhatAReaderOfAnotherProcessHoldsUntilItEnds) {
  save({1, 2, 3});
  Program reader(uri);
  ASSERT_EQ(reader.call("hold s1.1.1").status, "OK");
  prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{1, 3}));
  EXPECT_EQ(remove("s1.1.1"), CKPT_CONFLICT);
  save({4}, " keep_last=1");
  EXPECT_EQ(steps(), (Steps{1, 4}));
  Reply loaded = reader.call("check");
  EXPECT_EQ(loaded.status, "OK") << loaded;
  reader.kill();  // its lock dies with it
  prune({{"keep_last", 1}});
  EXPECT_EQ(steps(), (Steps{4}));
}

TEST_F(Retention, OfAReplacementPassesOverWhatAReaderHolds) {
  save({1});
  Program reader(uri);
  ASSERT_EQ(reader.call("hold s1").status, "OK");
  Ranks ranks(uri, 1);
  ranks.all_answer("save s1 2 on_existing=replace", "OK");
  EXPECT_EQ(steps(), (Steps{1, 2}));
  EXPECT_EQ(reader.call("check").status, "OK");
  EXPECT_EQ(latest_step(uri), 2);
}

// The library never deletes what a reader holds, but a person with rm may.
TEST_F(GoneReader, WhoseCheckpointWasDeletedIsTold) {
  save({1, 2});
  Program reader(uri);
  ASSERT_EQ(reader.call("hold s1.1.1").status, "OK");
  remove_tree(uri + "/s1.1.1");
  Reply reply = reader.call("check");
  EXPECT_EQ(reply.status, "GONE") << reply;
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

TEST_F(GoneReader, WhosePartAloneWasDeletedIsIncomplete) {
  save({1});
  Program reader(uri);
  ASSERT_EQ(reader.call("hold s1.1.1").status, "OK");
  std::filesystem::remove(part_of(1));
  Reply reply = reader.call("check");
  EXPECT_EQ(reply.status, "INCOMPLETE") << reply;
}

TEST_F(Remove, TakesOnlyIds) {
  save({1});
  std::filesystem::create_directories(uri + "/mine");
  write_file(uri + "/mine/file", "x");
  for (const char* id : {"", ".", "..", ".ckpt", "../store", "s1.1.1/PART_000", "/etc"})
    EXPECT_EQ(remove(id), CKPT_INVALID) << id;
  for (const char* id : {"s1", "latest", "mine", "label:s1"}) EXPECT_EQ(remove(id), CKPT_NOT_FOUND) << id;
  EXPECT_EQ(read_file(uri + "/mine/file"), "x");
  EXPECT_EQ(problem_of(uri, "latest"), "");
}

TEST_F(Remove, RenamedCheckpointCanBeRemovedByItsNewName) {
  save({1, 2});
  std::filesystem::rename(uri + "/s1.1.1", uri + "/my old one");
  EXPECT_EQ(remove("my old one"), CKPT_OK);
  EXPECT_EQ(steps(), (Steps{2}));
}

TEST_F(Remove, OpenAttemptOfALivingSessionIsConflict) {
  Ranks ranks(uri, 2);
  ranks[0].send(std::string("save a 1") + kLong);
  ASSERT_TRUE(await([&] { return exists(uri + "/a.1.1/PART_000"); }));
  EXPECT_EQ(remove("a.1.1"), CKPT_CONFLICT);
  EXPECT_EQ(ranks[1].call("save a 1").status, "OK");
  EXPECT_EQ(ranks[0].read().status, "OK");
}

TEST_F(Remove, AbortedAttemptCanBeRemoved) {
  Ranks ranks(uri, 2);
  EXPECT_EQ(ranks[0].call(std::string("save a 1") + kShort).status, "TIMEOUT");
  EXPECT_EQ(remove("a.1.1"), CKPT_OK);
  EXPECT_TRUE(entries_of(uri).empty());
}

TEST_F(Remove, AttemptThatNoSessionRemembersCanBeRemoved) {
  {
    Ranks ranks(uri, 2);
    ranks[0].send(std::string("save a 1") + kLong);
    ASSERT_TRUE(await([&] { return exists(uri + "/a.1.1/PART_000"); }));
  }
  remove_tree(uri + "/.ckpt");
  Ranks next(uri, 1);
  EXPECT_EQ(state_of(uri, "a.1.1"), CKPT_CHECKPOINT_OPEN);  // no record tells whose it is
  EXPECT_EQ(remove("a.1.1"), CKPT_OK);
  EXPECT_TRUE(entries_of(uri).empty());
}
