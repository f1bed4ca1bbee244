// What sessions, saves and loads of many ranks ask of the store: each rank the same number of things whatever the world
// size, rank 0 and the leaders of groups no more than in proportion to their group, and a rank that waits asks one
// thing at a time.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "checkpoint/engine.h"

namespace ckpt::commit {
namespace {

struct Counts {
  uint64_t operations = 0, names_listed = 0, reads = 0;
};

class CountingReader : public store::Reader {
 public:
  CountingReader(std::unique_ptr<store::Reader> inner, std::atomic<uint64_t>& reads)
      : inner_(std::move(inner)), reads_(reads) {}
  uint64_t size() const override { return inner_->size(); }
  Status read_at(uint64_t offset, MutableBytes out) const override {
    reads_++;
    return inner_->read_at(offset, out);
  }
  Result<Bytes> map() const override { return inner_->map(); }

 private:
  const std::unique_ptr<store::Reader> inner_;
  std::atomic<uint64_t>& reads_;
};

class CountingStore : public store::ShellStore {
 public:
  explicit CountingStore(std::shared_ptr<store::Store> inner) : ShellStore(std::move(inner)) {
    before([this](std::string_view, std::string_view) {
      operations_++;
      return Ok();
    });
  }
  Result<std::vector<store::Entry>> list(std::string_view directory) const override {
    auto entries = ShellStore::list(directory);
    if (entries.ok()) names_listed_ += entries->size();
    return entries;
  }
  Result<std::unique_ptr<store::Reader>> open(std::string_view key) const override {
    CKPT_ASSIGN(auto file, ShellStore::open(key));
    return std::unique_ptr<store::Reader>(std::make_unique<CountingReader>(std::move(file), reads_));
  }
  // What was counted since the last call.
  Counts take() { return {operations_.exchange(0), names_listed_.exchange(0), reads_.exchange(0)}; }

 private:
  mutable std::atomic<uint64_t> operations_{0}, names_listed_{0}, reads_{0};
};

// A point that one thread waits at until another one opens it.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

constexpr uint64_t kColumns = 8;

ckpt_tensor_desc row_of(uint32_t rank, uint32_t world) { return f32_rows(world, kColumns, rank, 1); }

// Each rank saves its row of one tensor.
Status save_row(const std::shared_ptr<session::Session>& session, uint32_t rank, uint32_t world,
                const SaveOptions& options) {
  CKPT_ASSIGN(auto save, save::Save::make(session, "s1", 1, options));
  const std::vector<float> row(kColumns, static_cast<float>(rank));
  CKPT_TRY(save->add_tensor("w", row_of(rank, world), row.data(), sizeof(float) * kColumns));
  return run_whole(*save);
}

Status load_row(const std::shared_ptr<store::Store>& store, uint32_t rank, uint32_t world) {
  CKPT_ASSIGN(auto checkpoint, checkpoint::Checkpoint::open(store, {"s1.1.1", "main"}));
  CKPT_ASSIGN(auto load, load::Load::make(checkpoint, {.threads = 1}));
  std::vector<float> row(kColumns, -1);
  CKPT_TRY(load->add_tensor("w", row_of(rank, world), row.data(), sizeof(float) * kColumns));
  CKPT_TRY(run_whole(*load));
  EXPECT_EQ(row, std::vector<float>(kColumns, static_cast<float>(rank)));
  return Ok();
}

struct Cost {
  Counts opened, saved, loaded;
};

// One session, save and load of `world` ranks: what rank 0 asked, and what all others together did.
struct Costs {
  Cost leader, others;
};

Costs costs_of(uint32_t world) {
  auto inner = fresh_memory_store();
  auto leader_store = std::make_shared<CountingStore>(inner), store = std::make_shared<CountingStore>(inner);
  auto stopping = std::make_shared<store::ShellStore>(leader_store);
  Costs costs;
  std::vector<std::shared_ptr<session::Session>> ranks{open_session(stopping, 0, world)};
  for (uint32_t rank = 1; rank < world; rank++)
    ranks.push_back(open_session(store, rank, world, ranks[0]->string().c_str()));
  costs.leader.opened = leader_store->take();
  costs.others.opened = store->take();

  // Rank 0 asks for the others' parts once they are all there.
  Gate opened, written;
  stopping->before([&](std::string_view operation, std::string_view key) {
    if (operation == "create") opened.open();
    if (operation == "exists" && key == "s1.1.1/PART_000") written.pass();
    return Ok();
  });
  const SaveOptions options{.wait = false, .threads = 1};
  Status led;
  std::thread leader([&] { led = save_row(ranks[0], 0, world, options); });
  opened.pass();
  // Leaders of groups come after their members, since they wait for them.
  for (uint32_t rank = world - 1; rank > 0; rank--) EXPECT_TRUE(save_row(ranks[rank], rank, world, options).ok());
  written.open();
  leader.join();
  EXPECT_TRUE(led.ok()) << led.message();
  costs.leader.saved = leader_store->take();
  costs.others.saved = store->take();

  for (uint32_t rank = 0; rank < world; rank += world > 64 ? 97 : 1)
    EXPECT_TRUE(load_row(rank == 0 ? leader_store : store, rank, world).ok()) << rank;
  costs.leader.loaded = leader_store->take();
  costs.others.loaded = store->take();
  return costs;
}

// The others' costs must be exactly in proportion to their number, `ranks`.
void expect_each(const Counts& few, uint64_t ranks, const Counts& many, uint64_t more) {
  EXPECT_EQ(few.operations * more, many.operations * ranks);
  EXPECT_EQ(few.names_listed * more, many.names_listed * ranks);
  EXPECT_EQ(few.reads * more, many.reads * ranks);
}

// Rank 0's costs may grow by what they grew for each rank between the two smaller worlds.
void expect_linear(const char* what, uint64_t at2, uint64_t at64, uint64_t at4096) {
  EXPECT_LE(at4096, at64 + (at64 - at2) * (4096 - 64) / (64 - 2)) << what << ": " << at2 << ", " << at64;
}

TEST(Scale, EachRankAsksTheSameAmountWhateverTheWorldAndLeadersInProportionToTheirGroups) {
  const Costs two = costs_of(2), few = costs_of(64), many = costs_of(4096);
  expect_each(few.others.opened, 63, many.others.opened, 4095);
  expect_each(two.others.saved, 1, few.others.saved, 63);
  // 63 leaders ask for each of 64 parts, open it and read three ranges, and put one file.
  const uint64_t usual = 4095 * few.others.saved.operations / 63;
  EXPECT_LE(many.others.saved.operations, usual + 63 * (2 * 64 + 10));
  EXPECT_LE(many.others.saved.names_listed, 4095u * 4);
  EXPECT_LE(many.others.saved.reads, 63u * 64 * 4);
  const uint64_t loading = 4095 / 97;  // ranks other than 0 that load
  EXPECT_EQ(few.others.loaded.operations * loading, many.others.loaded.operations * 63);
  for (auto part : {&Cost::opened, &Cost::saved, &Cost::loaded}) {
    const Counts &a = two.leader.*part, &b = few.leader.*part, &c = many.leader.*part;
    expect_linear("operations", a.operations, b.operations, c.operations);
    expect_linear("names listed", a.names_listed, b.names_listed, c.names_listed);
    // Of so many parts the indexes are not in MANIFEST any more, so the one that a rank needs is read.
    expect_linear("reads", a.reads + 1, b.reads + 1, c.reads);
  }
  // Rank 0 opens the parts of its own group of 64, and reads and removes a file for each of the other 63.
  EXPECT_LE(many.leader.saved.operations, few.leader.saved.operations + 3 * 63);
  // Only rank 0 looks at what older sessions left.
  EXPECT_EQ(many.leader.opened.operations, two.leader.opened.operations);
  std::cout << "[ figures  ] for each rank: open " << few.others.opened.operations / 63 << " operations, save "
            << few.others.saved.operations / 63 << ", load " << few.others.loaded.operations / 63 << "; rank 0: open "
            << few.leader.opened.operations << ", save " << two.leader.saved.operations << " of 2, "
            << few.leader.saved.operations << " of 64, " << many.leader.saved.operations << " of 4096\n";
}

CommitSettings patient() {
  CommitSettings settings;
  settings.timeout_ms = 60000;
  return settings;
}

TEST(Scale, OnlyRankZeroTestsTheStore) {
  auto shell = std::make_shared<store::ShellStore>(fresh_memory_store());
  std::string asked;
  shell->before([&](std::string_view operation, std::string_view) {
    if (operation == "prepare" || operation == "make_root") asked += std::string(operation) + " ";
    return Ok();
  });
  auto leader = open_session(shell, 0, 2);
  EXPECT_EQ(asked, "prepare ");
  asked.clear();
  auto other = open_session(shell, 1, 2, leader->string().c_str());
  EXPECT_EQ(asked, "make_root ");
}

TEST(Scale, RankZeroAnswersAllThatWaitWithOneFile) {
  constexpr uint32_t kWorld = 16;
  auto inner = fresh_memory_store();
  auto shell = std::make_shared<store::ShellStore>(inner);
  const SessionOptions options{.timeout_ms = 60000, .rendezvous = true};
  std::vector<std::thread> others;
  for (uint32_t rank = 1; rank < kWorld; rank++)
    others.emplace_back(
        [&, rank] { EXPECT_TRUE(session::Session::open(inner, rank, kWorld, nullptr, options).ok()) << rank; });
  auto hellos = [&] { return inner->list(".ckpt/rendezvous/main"); };
  for (auto files = hellos(); !files.ok() || files->size() < kWorld - 1; files = hellos()) std::this_thread::yield();
  int welcomes = 0;
  shell->before([&](std::string_view operation, std::string_view key) {
    welcomes += operation == "put" && key.starts_with(".ckpt/welcomes/");
    return Ok();
  });
  EXPECT_TRUE(session::Session::open(shell, 0, kWorld, nullptr, options).ok());
  for (auto& other : others) other.join();
  EXPECT_EQ(welcomes, 1);
  for (const char* directory : {".ckpt/rendezvous/main", ".ckpt/welcomes/main"})
    EXPECT_EQ(inner->list(directory)->size(), 0u) << directory;
}

TEST(Scale, RetentionReadsNothingOfWhatWasJustCommitted) {
  auto inner = fresh_memory_store();
  auto shell = std::make_shared<store::ShellStore>(inner);
  auto session = open_session(shell);
  ASSERT_TRUE(save_step(session, 1).ok());
  bool committed = false;
  std::string opened;
  shell->before([&](std::string_view operation, std::string_view key) {
    committed |= operation == "put" && key == slot_of(2);
    if (committed && operation == "open" && key.starts_with("s2.1.1/PART")) opened += std::string(key) + " ";
    return Ok();
  });
  ASSERT_TRUE(save_step(session, 2, {.keep_last = 1}).ok());
  EXPECT_TRUE(committed);
  EXPECT_EQ(opened, "");
  EXPECT_FALSE(*inner->exists("s1.1.1"));
}

// What a rank asks, as "exists KEY"; without the locks, by which it sees once a second whether the others live.
class Polls {
 public:
  explicit Polls(store::ShellStore& store) {
    store.before([this](std::string_view operation, std::string_view key) {
      std::lock_guard lock(mutex_);
      if (operation != "lock_shared") asked_.push_back(std::string(operation) + " " + std::string(key));
      return Ok();
    });
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(asked_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> asked_;
};

TEST(Polls, OfARankThatWaitsForTheCommitAskForOneNameAndEveryEighthForTheDirectory) {
  auto inner = fresh_memory_store();
  auto shell = std::make_shared<store::ShellStore>(inner);
  auto leader = open_session(inner, 0, 3), other = open_session(shell, 1, 3, leader->string().c_str());
  session::Attempt attempt = leader->next_attempt("s1");
  Job job;
  ASSERT_TRUE(open_attempt(*leader, attempt, {}, job).ok());
  Polls polls(*shell);
  std::thread waiting([&] { (void)finish_attempt(*other, attempt, patient(), job); });
  std::vector<std::string> asked;
  while (asked.size() < 20) {
    auto more = polls.take();
    asked.insert(asked.end(), more.begin(), more.end());
    std::this_thread::yield();
  }
  (void)give_up(*leader, attempt, Status(CKPT_ABORTED, "enough"));
  waiting.join();
  for (size_t i = 0; i < 20; i++)
    EXPECT_EQ(asked[i], i % 8 == 7 ? "attempt_exists s1.1.1" : "exists s1.1.1/MANIFEST") << i;
}

TEST(Polls, OfRankZeroAskForTheFirstPartThatIsMissingAndForTheSlot) {
  auto inner = fresh_memory_store();
  auto shell = std::make_shared<store::ShellStore>(inner);
  auto leader = open_session(shell, 0, 100), other = open_session(inner, 1, 100, leader->string().c_str());
  Polls polls(*shell);
  std::thread waiting([&] { (void)save_step(leader, 1); });
  std::vector<std::string> asked;
  while (asked.size() < 5) {
    auto more = polls.take();
    asked.insert(asked.end(), more.begin(), more.end());
    asked.erase(asked.begin(), std::find(asked.begin(), asked.end(), "exists s1.1.1/PART_001"));
    std::this_thread::yield();
  }
  (void)give_up(*other, other->next_attempt("s1"), Status(CKPT_ABORTED, "enough"));
  waiting.join();
  for (size_t i = 0; i < 5; i++) EXPECT_EQ(asked[i], i % 2 ? "exists s1.1.1/MANIFEST" : "exists s1.1.1/PART_001") << i;
}

}  // namespace
}  // namespace ckpt::commit
