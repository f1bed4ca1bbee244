// A rank whose process is gone ends the save at once: nobody waits for its deadline.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "checkpoint/engine.h"
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

const Options kLong = make_options({{"timeout_ms", 600000}});

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

TEST_F(Liveness, ASlowRankIsWaitedFor) {
  auto leader = open_session(open_store(), 0, 2), other = open_session(open_store(), 1, 2, leader->string().c_str());
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    EXPECT_TRUE(save_step(other, 1, kLong).ok());
  });
  const Status told = save_step(leader, 1, kLong);
  late.join();
  EXPECT_TRUE(told.ok()) << told.message();
}

TEST_F(Liveness, ARankThatClosedItsSessionIsGone) {
  auto store = fresh_memory_store();
  auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  other.reset();
  expect_gone(save_step(leader, 1, kLong), "1");
}

TEST_F(Liveness, WithoutLocksNoRankEverIsGone) {
  auto store = std::make_shared<store::WeakStore>(std::make_shared<store::Bucket>(store::Weakness{}));
  auto leader = open_session(store, 0, 2), other = open_session(store, 1, 2, leader->string().c_str());
  other.reset();
  EXPECT_EQ(save_step(leader, 1, make_options({{"timeout_ms", 3000}})).code(), CKPT_TIMEOUT);
}

}  // namespace
}  // namespace ckpt::commit
