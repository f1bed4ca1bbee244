// A rank whose process is gone ends the save at once: nobody waits for its deadline.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "checkpoint/engine.h"
#include "format/names.h"
#include "load/map.h"
#include "s3/server.h"
#include "session/presence.h"
#include "store/shell_store.h"
#include "store/weak_store.h"

namespace ckpt::commit {
namespace {

// A process that runs `body` and then waits to be killed.
class Process {
 public:
  explicit Process(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    body();
    for (;;) pause();
  }
  ~Process() { kill(); }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    pid_ = 0;
  }

 private:
  pid_t pid_;
};

// Sends text from a process to the one that made it.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  void write(const std::string& text) const { EXPECT_EQ(::write(ends[1], text.data(), text.size()), text.size()); }
  std::string read() const {
    char text[4096];
    const ssize_t size = ::read(ends[0], text, sizeof text);
    return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
  }
  int ends[2];
};

const SaveOptions kLong{.timeout_ms = 600000};

void expect_gone(const Status& told, const std::string& rank) {
  EXPECT_EQ(told.code(), CKPT_ABORTED) << told.message();
  EXPECT_NE(told.message().find("rank " + rank + " is gone"), std::string::npos) << told.message();
  EXPECT_EQ(told.detail("ranks") ? *told.detail("ranks") : "", rank);
}

class Liveness : public ::testing::Test {
 protected:
  Liveness() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~Liveness() override { std::filesystem::remove_all(path); }
  std::shared_ptr<store::Store> open_store() const { return store::open_store(path, {}).take(); }
  std::string path = (std::filesystem::temp_directory_path() / "ckpt-alive.XXXXXX").string();
  Pipe pipe;
};

TEST_F(Liveness, ARankThatIsKilledEndsTheSaveOfRankZero) {
  auto leader = open_session(open_store(), 0, 2);
  Process rank([&] {
    auto session = open_session(open_store(), 1, 2, leader->string().c_str());
    pipe.write("here");
    for (;;) pause();
  });
  pipe.read();
  rank.kill();
  expect_gone(save_step(leader, 1, kLong), "1");
}

TEST_F(Liveness, AWorkerThatAKilledRankForkedDoesNotKeepItAlive) {
  auto leader = open_session(open_store(), 0, 2);
  Pipe worker;
  Process rank([&] {
    auto session = open_session(open_store(), 1, 2, leader->string().c_str());
    if (const pid_t pid = fork(); pid != 0) {
      pipe.write(std::to_string(pid));
    } else {
      worker.write("here");
    }
    for (;;) pause();
  });
  const pid_t pid = std::stoi(pipe.read());
  worker.read();
  rank.kill();
  expect_gone(save_step(leader, 1, kLong), "1");
  EXPECT_EQ(::kill(pid, SIGKILL), 0) << "the worker lived until now";
}

TEST_F(Liveness, RankZeroThatIsKilledEndsTheSavesOfTheOthers) {
  Process leader([&] {
    auto session = open_session(open_store(), 0, 2);
    pipe.write(session->string());
    for (;;) pause();
  });
  const std::string string = pipe.read();
  auto session = open_session(open_store(), 1, 2, string.c_str());
  leader.kill();
  expect_gone(save_step(session, 1, kLong), "0");
}

TEST_F(Liveness, ARankThatClosedItsSessionIsGone) {
  auto store = fresh_memory_store();
  auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  other.reset();
  expect_gone(save_step(leader, 1, kLong), "1");
}

// ---- where other machines reach the store ----

// One whose locks protect nothing.
class Lockless : public store::ShellStore {
 public:
  using ShellStore::ShellStore;
  Result<std::unique_ptr<store::Lock>> lock_shared(std::string_view key) const override {
    struct Unseen final : store::Lock {
      bool protects() const override { return false; }
    };
    CKPT_ASSIGN(const bool there, inner_->exists(key));
    if (!there) return store::not_found(path(key));
    return std::unique_ptr<store::Lock>(std::make_unique<Unseen>());
  }
};
// And other machines reach it: a server forgot them, or each machine has its own.
class Forgetful final : public Lockless {
 public:
  using Lockless::Lockless;
  void promise_locks() { common_locks_ = true; }
  store::Traits traits() const override {
    store::Traits traits = inner_->traits();
    traits.shared = true;
    traits.common_locks = common_locks_;
    return traits;
  }

 private:
  bool common_locks_ = false;
};

// A mapped page of a file that another machine removed would end the process (SIGBUS).
TEST_F(Liveness, NothingIsMappedThatOtherMachinesMayRemoveUnlessTheCallerSaysSo) {
  const auto inner = fresh_memory_store();
  const float values[64] = {1};
  auto save = save::Save::make(open_session(inner), "s1", 1, {}).take();
  ASSERT_TRUE(save->add_tensor("w", f32_rows(8, 8, 0, 8), values, sizeof values).ok());
  ASSERT_TRUE(run_whole(*save).ok());
  auto map = [&](const std::shared_ptr<store::Store>& store, bool unlocked) {
    const auto checkpoint = checkpoint::Checkpoint::open(store, {"s1.1.1", "main"}).take();
    return load::map_tensor(*checkpoint, "w", {.map_unlocked = unlocked}).status();
  };
  const auto shared = std::make_shared<Forgetful>(inner);
  const Status told = map(shared, false);
  EXPECT_EQ(told.code(), CKPT_UNSUPPORTED) << told.message();
  EXPECT_NE(told.message().find("map_unlocked=1"), std::string::npos) << told.message();
  EXPECT_TRUE(map(shared, true).ok());
  EXPECT_TRUE(map(inner, false).ok());
  // The mount's options promise locks, and this one protects nothing all the same: NFS whose lock daemon is away.
  shared->promise_locks();
  EXPECT_EQ(map(shared, false).code(), CKPT_UNSUPPORTED);
  // Nobody else reaches the files.
  EXPECT_TRUE(map(std::make_shared<Lockless>(inner), false).ok());
}

TEST_F(Liveness, ASlowRankWhoseLockWasForgottenIsAskedAndAnswers) {
  auto store = std::make_shared<Forgetful>(fresh_memory_store());
  auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(session::Presence::answer_ms(2) + 4000));
    EXPECT_TRUE(save_step(other, 1, kLong).ok());
  });
  const Status told = save_step(leader, 1, kLong);
  late.join();
  EXPECT_TRUE(told.ok()) << told.message();
  EXPECT_TRUE(*store->exists(format::answer_key(leader->plan().token, 1, 1)));
}

TEST_F(Liveness, ARankThatDoesNotAnswerIsGone) {
  auto store = std::make_shared<Forgetful>(fresh_memory_store());
  auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  other.reset();
  const Status told = save_step(leader, 1, kLong);
  expect_gone(told, "1");
  EXPECT_NE(told.message().find("did not answer"), std::string::npos) << told.message();
}

TEST_F(Liveness, AMountThatShowsAnOldListIsNamedAndNobodyIsFencedByAnOlderSession) {
  auto inner = fresh_memory_store();
  open_session(inner, 0, 1);
  const auto old = inner->list(format::run_dir("main")).take();
  class Old final : public store::ShellStore {
   public:
    Old(std::shared_ptr<store::Store> inner, std::vector<store::Entry> old)
        : ShellStore(std::move(inner)), old_(std::move(old)) {}
    Result<std::vector<store::Entry>> list(std::string_view directory) const override {
      return directory == format::run_dir("main") ? old_ : inner_->list(directory);
    }

   private:
    const std::vector<store::Entry> old_;
  };
  auto leader = open_session(inner, 0, 2);
  const auto joined = session::Session::open(std::make_shared<Old>(inner, old), 1, 2, leader->string().c_str(), {});
  EXPECT_EQ(joined.status().code(), CKPT_IO) << joined.status().message();
  EXPECT_NE(joined.status().message().find("remembers lists"), std::string::npos) << joined.status().message();
}

// ---- without locks ----

// A session of a store whose ranks show signs of life.
std::shared_ptr<session::Session> open_beating(std::shared_ptr<store::Store> store, uint32_t rank, int64_t heartbeat_ms,
                                               const char* string = nullptr, uint32_t world = 2) {
  auto session = session::Session::open(std::move(store), rank, world, string, {.heartbeat_ms = heartbeat_ms});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *session : nullptr;
}

// A handle of a store for one rank, whose process seems to stand still from some request on, until it goes on.
class Paused {
 public:
  // `signs`: of life that are begun before; 2: the first has come.
  explicit Paused(std::shared_ptr<store::Store> inner, int signs = 2)
      : store(std::make_shared<store::ShellStore>(std::move(inner))) {
    store->before([this, signs](std::string_view operation, std::string_view key) {
      std::unique_lock lock(mutex_);
      if (operation == "put_over" && ++signs_ == signs) changed_.notify_all();
      if (!from_.empty() && operation == from_.substr(0, from_.find(' ')) &&
          key.ends_with(from_.substr(from_.find(' ') + 1))) {
        // A rank whose first sign of life never came is one that has not come yet.
        changed_.wait(lock, [this, signs] { return signs_ >= signs; });
        stands_ = true;
      }
      changed_.wait(lock, [this] { return !stands_; });
      return Ok();
    });
  }
  // "create PART_001"
  void stop_at(std::string request) {
    std::lock_guard lock(mutex_);
    from_ = std::move(request);
  }
  void go_on() {
    std::lock_guard lock(mutex_);
    from_.clear();
    stands_ = false;
    changed_.notify_all();
  }
  const std::shared_ptr<store::ShellStore> store;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string from_;
  int signs_ = 0;  // of life that were begun
  bool stands_ = false;
};

void expect_aborted_because_of(const Status& told, const std::string& reason) {
  EXPECT_EQ(told.code(), CKPT_ABORTED) << told.message();
  EXPECT_NE(told.message().find(reason), std::string::npos) << told.message();
}

// All ranks at once, each of which is to succeed.
void save_on_all(const std::vector<std::shared_ptr<session::Session>>& ranks, int64_t step) {
  std::vector<std::thread> threads;
  for (const auto& rank : ranks)
    threads.emplace_back([&rank, step] {
      const Status told = save_step(rank, step, kLong);
      EXPECT_TRUE(told.ok()) << told.message();
    });
  for (auto& thread : threads) thread.join();
}

class Heartbeat : public ::testing::Test {
 protected:
  std::shared_ptr<store::Store> open_store() const { return std::make_shared<store::WeakStore>(bucket); }
  std::shared_ptr<store::Bucket> bucket = std::make_shared<store::Bucket>(store::Weakness{.list_delay_ms = 2});
};

TEST_F(Heartbeat, ARankThatStopsWhileItSavesEndsTheSaveAndFindsItClosedWhenItWakesUp) {
  Paused paused(open_store());
  auto leader = open_beating(open_store(), 0, 100);
  auto other = open_beating(paused.store, 1, 100, leader->string().c_str());
  paused.stop_at("create PART_001");
  Status woken;
  std::thread thread([&] { woken = save_step(other, 1, kLong); });
  const Status told = save_step(leader, 1, kLong);
  expect_gone(told, "1");
  EXPECT_NE(told.message().find("heartbeat_ms"), std::string::npos) << told.message();
  paused.go_on();
  thread.join();
  expect_aborted_because_of(woken, "rank 1 is gone");
  EXPECT_EQ(checkpoint::find_checkpoint(*open_store(), {"latest", "main"}).status().code(), CKPT_NOT_FOUND);
  save_on_all({leader, other}, 2);
}

TEST_F(Heartbeat, RankZeroThatStopsEndsTheSavesOfTheOthersAndCannotCommitWhenItWakesUp) {
  Paused paused(open_store());
  auto leader = open_beating(paused.store, 0, 100);
  auto other = open_beating(open_store(), 1, 100, leader->string().c_str());
  paused.stop_at("put MANIFEST");
  Status woken;
  std::thread thread([&] { woken = save_step(leader, 1, kLong); });
  expect_gone(save_step(other, 1, kLong), "0");
  paused.go_on();
  thread.join();
  expect_aborted_because_of(woken, "rank 0 is gone");
  save_on_all({leader, other}, 2);
}

TEST_F(Heartbeat, ASlowRankIsWaitedForWhetherItHasBegunOrNot) {
  for (const bool begun : {false, true}) {
    auto slow = std::make_shared<store::ShellStore>(open_store());
    auto leader = open_beating(open_store(), 0, 100);
    auto other = open_beating(slow, 1, 100, leader->string().c_str());
    const int64_t step = begun ? 3 : 1;
    save_on_all({leader, other}, step);
    auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2500)); };
    if (begun)
      slow->before([&](std::string_view operation, std::string_view key) {
        if (operation == "create" && key.ends_with("PART_001")) wait();
        return Ok();
      });
    std::thread late([&] {
      if (!begun) wait();
      EXPECT_TRUE(save_step(other, step + 1, kLong).ok());
    });
    const Status told = save_step(leader, step + 1, kLong);
    late.join();
    EXPECT_TRUE(told.ok()) << told.message();
  }
}

TEST_F(Heartbeat, ARankThatNeverBeganIsAwaitedUntilTheDeadline) {
  auto leader = open_beating(open_store(), 0, 100),
       other = open_beating(open_store(), 1, 100, leader->string().c_str());
  other.reset();
  EXPECT_EQ(save_step(leader, 1, {.timeout_ms = 2500}).code(), CKPT_TIMEOUT);
}

TEST_F(Heartbeat, WithoutOneOnlyTheDeadlineEndsTheSave) {
  Paused paused(open_store(), 0);
  auto leader = open_beating(open_store(), 0, 0), other = open_beating(paused.store, 1, 0, leader->string().c_str());
  paused.stop_at("create PART_001");
  std::thread thread([&] { (void)save_step(other, 1, kLong); });
  EXPECT_EQ(save_step(leader, 1, {.timeout_ms = 2500}).code(), CKPT_TIMEOUT);
  EXPECT_EQ(open_store()->list(".ckpt/beats/1").status().code(), CKPT_NOT_FOUND);
  paused.go_on();
  thread.join();
}

TEST_F(Heartbeat, IsRankZerosAndTravelsInTheString) {
  auto leader = open_beating(open_store(), 0, 200);
  auto other = session::Session::open(open_store(), 1, 2, leader->string().c_str(),
                                      {.heartbeat_ms = 300, .is_set = {.heartbeat_ms = true}});
  EXPECT_EQ(other.status().code(), CKPT_MISMATCH);
}

// Its removal was refused, or a late copy of its put arrived: it tells of the save before.
TEST_F(Heartbeat, ASignThatAnEarlierSaveLeftSaysNothingOfThisOne) {
  for (const uint32_t late : {0u, 1u}) {
    std::vector<std::shared_ptr<session::Session>> ranks;
    for (const uint32_t rank : {0u, 1u}) {
      auto store = std::make_shared<store::ShellStore>(open_store());
      store->before([](std::string_view operation, std::string_view key) {
        const bool refused = operation == "remove" && key.starts_with(".ckpt/beats");
        return refused ? Status(CKPT_IO, "access denied") : Ok();
      });
      ranks.push_back(open_beating(store, rank, 100, rank ? ranks[0]->string().c_str() : nullptr));
    }
    save_on_all(ranks, 2 * late + 1);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3000));
      EXPECT_TRUE(save_step(ranks[late], 2 * late + 2, kLong).ok());
    });
    const Status told = save_step(ranks[1 - late], 2 * late + 2, kLong);
    other.join();
    EXPECT_TRUE(told.ok()) << told.message();
  }
}

// A save that takes less than an interval: at most one put of each rank and its removal, and nobody looks. A rank may
// be done before its first sign of life.
TEST_F(Heartbeat, CostsEachRankTheSameWhateverTheWorldSize) {
  for (const uint32_t world : {2u, 16u}) {
    bucket = std::make_shared<store::Bucket>(store::Weakness{.list_delay_ms = 2});
    std::mutex mutex;
    std::map<std::string, int> asked;
    std::vector<std::shared_ptr<session::Session>> ranks;
    for (uint32_t rank = 0; rank < world; rank++) {
      auto store = std::make_shared<store::ShellStore>(open_store());
      store->before([&](std::string_view operation, std::string_view key) {
        std::lock_guard lock(mutex);
        if (key.starts_with(".ckpt/beats")) asked[std::string(operation)]++;
        return Ok();
      });
      ranks.push_back(open_beating(store, rank, 3600000, rank ? ranks[0]->string().c_str() : nullptr, world));
    }
    asked.clear();
    save_on_all(ranks, 1);
    ranks.clear();
    const int each = static_cast<int>(world);
    EXPECT_LE(asked["put_over"], each);
    EXPECT_EQ(asked["remove"], each);
    EXPECT_EQ(asked.size(), 2u);
  }
}

// ---- processes, on a server ----

class S3Heartbeat : public ::testing::TestWithParam<int> {
 protected:
  // A handle that stops at a request, tells `here`, and goes on when it reads from `go`.
  std::shared_ptr<store::Store> open_stopping(const std::string& operation, const std::string& file) const {
    auto store = std::make_shared<store::ShellStore>(open_store());
    store->before([this, operation, file](std::string_view found, std::string_view key) {
      if (found != operation || !key.ends_with(file)) return Ok();
      here.write("here");
      go.read();
      return Ok();
    });
    return store;
  }
  std::shared_ptr<store::Store> open_store() const { return *store::open_bucket(uri, store::s3_options()); }
  // Waits for a rank's first sign of life: without one it is a rank that has not come, and is waited for. Whatever
  // stops at a request of the save may stop before another thread has put it.
  void wait_for_beat(const session::Session& session, uint32_t rank) const {  // in the first save
    const auto store = open_store();
    const std::string key =
        format::beat_key(session.plan().token, rank, format::checkpoint_dir("s1", session.plan().token, 1));
    while (!store->age_ms(key).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  const std::string uri = store::fresh_s3_uri();
  Pipe here, go, result;
};
INSTANTIATE_TEST_SUITE_P(Server, S3Heartbeat, testing::Range(0, store::s3_endpoint() ? 1 : 0));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(S3Heartbeat);

constexpr int64_t kSecond = 1000;

TEST_P(S3Heartbeat, ARankThatIsKilledOrStandsStillEndsTheSave) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    // Before this process has threads: a lock that one of them holds would be locked in the rank for ever.
    Pipe leaders;
    Process rank([&] {
      auto session = open_beating(open_stopping("create", "PART_001"), 1, kSecond, leaders.read().c_str());
      const Status told = save_step(session, 1, kLong);
      result.write(std::to_string(told.code()) + " " + told.message());
    });
    auto leader = open_beating(open_store(), 0, kSecond);
    leaders.write(leader->string());
    Status told;
    std::thread saves([&] { told = save_step(leader, 1, kLong); });
    here.read();
    wait_for_beat(*leader, 1);
    rank.signal(signal);
    saves.join();
    expect_gone(told, "1");
    if (signal == SIGKILL) continue;
    rank.signal(SIGCONT);
    go.write("go");
    const std::string woken = result.read();
    EXPECT_TRUE(woken.starts_with(std::to_string(CKPT_ABORTED) + " ")) << woken;
    EXPECT_NE(woken.find("rank 1 is gone"), std::string::npos) << woken;
  }
  EXPECT_EQ(checkpoint::find_checkpoint(*open_store(), {"latest", "main"}).status().code(), CKPT_NOT_FOUND);
}

TEST_P(S3Heartbeat, RankZeroThatIsKilledEndsTheSavesOfTheOthers) {
  Process leader([&] {
    auto session = open_beating(open_stopping("put", "MANIFEST"), 0, kSecond);
    result.write(session->string());
    (void)save_step(session, 1, kLong);
  });
  auto session = open_beating(open_store(), 1, kSecond, result.read().c_str());
  Status told;
  std::thread saves([&] { told = save_step(session, 1, kLong); });
  here.read();
  wait_for_beat(*session, 0);
  leader.kill();
  saves.join();
  expect_gone(told, "0");
}

}  // namespace
}  // namespace ckpt::commit
