// Which checkpoint a selector picks while others commit, prune and damage what the store holds.
#include <atomic>

#include "checkpoint/engine.h"
#include "commit/retention.h"

namespace ckpt::checkpoint {
namespace {

class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() {
    inner = fresh_memory_store();
    shell = std::make_shared<store::ShellStore>(inner);
    session = open_session(inner);
  }
  void save(int64_t step, const SaveOptions& options = {}) {
    Status saved = save_step(session, step, options);
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  const SaveOptions keep_one{.keep_last = 1};
  // Answers `code` whenever this file is opened.
  void break_file(const std::string& key, ckpt_status code = CKPT_IO) { break_files({key}, code); }
  void break_files(const std::set<std::string, std::less<>>& keys, ckpt_status code = CKPT_IO) {
    shell->before([keys, code](std::string_view operation, std::string_view at) {
      return operation == "open" && keys.contains(at) ? Status(code, "broken by the test") : Ok();
    });
  }
  int64_t latest() {
    auto found = find_checkpoint(*shell, {"latest", "main"});
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? found->entry.summary.step : -1;
  }

  std::shared_ptr<store::Store> inner;
  std::shared_ptr<store::ShellStore> shell;
  std::shared_ptr<session::Session> session;
};
using Latest = CatalogTest;
using PassedOver = CatalogTest;
using Unreadable = CatalogTest;

TEST_F(Latest, IsTheNewCheckpointThatReplacedTheListedOne) {
  save(1);
  shell->once("open", slot_of(1), [&] { save(2, keep_one); });
  EXPECT_EQ(latest(), 2);
}

TEST_F(Latest, IsOpenedThoughTheOneFoundFirstIsPrunedBeforeItsLock) {
  save(1);
  shell->once("lock_shared", slot_of(1), [&] { save(2, keep_one); });
  auto opened = Checkpoint::open(shell, {"latest", "main"});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->entry().summary.step, 2);
  EXPECT_TRUE((*opened)->selection().passed_over.empty());
}

TEST_F(Latest, NamedByItsIdIsNotFoundOnceItIsPruned) {
  save(1);
  shell->once("lock_shared", slot_of(1), [&] { save(2, keep_one); });
  EXPECT_EQ(Checkpoint::open(shell, {"s1.1.1", "main"}).status().code(), CKPT_GONE);
}

TEST_F(Latest, DoesNotWaitForEverForADirectoryThatIsListedAndCannotBeFound) {
  save(1);
  shell->before([](std::string_view operation, std::string_view key) {
    const bool ghost = key == "s1.1.1" || key == slot_of(1);
    return ghost && operation != "try_lock_exclusive" ? Status(CKPT_NOT_FOUND, "a ghost") : Ok();
  });
  auto entries = list_checkpoints(*shell);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->at(0).state, CKPT_CHECKPOINT_DAMAGED);
}

// A store whose directories are what keys have before a '/', and in which a key that ends in one makes a name with
// nothing in it.
class WithFolderKey : public store::ShellStore {
 public:
  explicit WithFolderKey(std::shared_ptr<Store> inner) : ShellStore(std::move(inner)) {}
  store::Traits traits() const override {
    store::Traits traits = ShellStore::traits();
    traits.directories = false;
    return traits;
  }
  Result<std::vector<store::Entry>> list(std::string_view directory) const override {
    CKPT_ASSIGN(auto entries, ShellStore::list(directory));
    if (directory.empty()) entries.push_back({.name = "junk", .directory = true});
    return entries;
  }
};

TEST_F(Latest, IsNotWaitedForWhereAKeyOfAFolderMakesANameWithNothingInIt) {
  save(1);
  WithFolderKey store(inner);
  std::atomic<int> lists = 0;
  store.before([&](std::string_view operation, std::string_view key) {
    lists += operation == "list" && key.empty();
    return Ok();
  });
  const auto entries = list_checkpoints(store);
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ(entries->at(0).id, "s1.1.1");
  EXPECT_LE(lists, 2);
}

TEST_F(PassedOver, ANewerDamagedCheckpointIsNamedWithItsReason) {
  save(1);
  save(2);
  break_file(slot_of(2));
  auto found = find_checkpoint(*shell, {"latest", "main"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->entry.summary.step, 1);
  ASSERT_EQ(found->passed_over.size(), 1u);
  EXPECT_EQ(found->passed_over[0].id, "s2.1.1");
  EXPECT_EQ(found->passed_over[0].summary.step, 2);  // its part says so
  EXPECT_EQ(found->passed_over[0].problem.code(), CKPT_IO);
}

TEST_F(PassedOver, AnOlderOrOtherRunsDamagedCheckpointIsNot) {
  save(1);
  save(2);
  break_file(slot_of(1));
  auto found = find_checkpoint(*shell, {"latest", "main"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->entry.summary.step, 2);
  EXPECT_TRUE(found->passed_over.empty());
}

TEST_F(PassedOver, FindAndOpenPassOverTheSameDamage) {
  save(1);
  save(2);
  // Its end, which the catalog reads, is sound; its index is not.
  auto bytes = inner->get(slot_of(2), 1 << 20);
  ASSERT_TRUE(bytes.ok());
  (*bytes)[100] ^= std::byte{1};
  ASSERT_TRUE(inner->remove(slot_of(2), true).ok());
  ASSERT_TRUE(inner->put_if_absent(slot_of(2), *bytes).ok());
  auto found = find_checkpoint(*inner, {"latest", "main"});
  auto opened = Checkpoint::open(inner, {"latest", "main"});
  ASSERT_TRUE(found.ok() && opened.ok()) << found.status().message() << opened.status().message();
  EXPECT_EQ(found->entry.summary.step, 1);
  EXPECT_EQ((*opened)->entry().summary.step, 1);
  ASSERT_EQ(found->passed_over.size(), 1u);
  ASSERT_EQ((*opened)->selection().passed_over.size(), 1u);
  EXPECT_EQ((*opened)->selection().passed_over[0].problem.code(), CKPT_CORRUPT);
  save(3);  // and training goes on
  EXPECT_EQ(latest(), 3);
}

TEST_F(PassedOver, IsTheErrorIfTheCallerRefusesDamage) {
  save(1);
  save(2);
  break_file(slot_of(2));
  EXPECT_EQ(find_checkpoint(*shell, {"latest", "main", true}).status().code(), CKPT_IO);
  EXPECT_EQ(Checkpoint::open(shell, {"latest", "main", true}).status().code(), CKPT_IO);
  break_file(slot_of(1));
  EXPECT_EQ(find_checkpoint(*shell, {"latest", "main", true})->entry.summary.step, 2);
}

TEST_F(PassedOver, ARevisionThatThisLibraryLacksHasAStateOfItsOwn) {
  save(1);
  save(2);
  break_file(slot_of(2), CKPT_REVISION);
  auto found = find_checkpoint(*shell, {"latest", "main"});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->passed_over.size(), 1u);
  EXPECT_EQ(found->passed_over[0].state, CKPT_CHECKPOINT_REVISION);
}

TEST_F(PassedOver, OnlyDamagedOnesIsTheProblemOfTheNewest) {
  save(1);
  break_file(slot_of(1));
  EXPECT_EQ(find_checkpoint(*shell, {"latest", "main"}).status().code(), CKPT_IO);
}

TEST_F(Unreadable, ManifestOfAnOldCheckpointBlocksNothing) {
  save(1);
  save(2);
  break_file(slot_of(1));
  EXPECT_EQ(latest(), 2);
  auto entries = list_checkpoints(*shell);
  ASSERT_TRUE(entries.ok() && entries->size() == 2) << entries.status().message();
  session = open_session(shell);
  ASSERT_TRUE(session);
  save(3, {.keep_last = 2});
  EXPECT_TRUE(commit::remove_by_id(*shell, "s2.1.1").ok());
  EXPECT_EQ(latest(), 3);
}

TEST_F(Unreadable, StoreIdIsMadeAnewFromTheCheckpoints) {
  save(1);
  const Id id = *find_store_id(*inner);
  for (const char* content : {"", "nonsense\n"}) {
    ASSERT_TRUE(inner->remove(".ckpt/store", true).ok());
    ASSERT_TRUE(inner->put_if_absent(".ckpt/store", as_bytes(content)).ok());
    EXPECT_EQ(latest(), 1);
    EXPECT_EQ(*find_store_id(*inner), id);
    ASSERT_TRUE(open_session(inner));
    EXPECT_EQ(*read_store_id(*inner), id);
  }
}

// A new id would make every checkpoint foreign.
TEST_F(Unreadable, StoreIdThatCannotBeReadNowIsNotMadeAnew) {
  save(1);
  const Id id = *find_store_id(*inner);
  session.reset();
  auto open = [this] { return session::Session::open(shell, 0, 1, nullptr, {}).status().code(); };
  break_files({"s1.1.1/MANIFEST", "s1.1.1/PART_000", ".ckpt/store"});
  EXPECT_EQ(open(), CKPT_IO) << "both unreadable";
  EXPECT_EQ(*read_store_id(*inner), id);
  ASSERT_TRUE(inner->remove(".ckpt/store", true).ok());
  break_files({"s1.1.1/MANIFEST", "s1.1.1/PART_000"});
  EXPECT_EQ(open(), CKPT_IO) << "lost, and the checkpoint unreadable";
  break_files({});
  EXPECT_EQ(open(), CKPT_OK);
  EXPECT_EQ(*read_store_id(*inner), id);
  EXPECT_EQ(latest(), 1);
}

TEST_F(Unreadable, OwnerRecordOfAnotherRunBlocksNobody) {
  save(1);
  ASSERT_TRUE(inner->put_if_absent(".ckpt/owners/9", as_bytes("")).ok());
  break_file(".ckpt/owners/9");
  session = open_session(shell);
  ASSERT_TRUE(session);
  save(2);
  EXPECT_EQ(session->plan().token, 10u);
}

}  // namespace
}  // namespace ckpt::checkpoint
