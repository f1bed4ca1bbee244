// Imports into one run at the same time: they take turns, and what comes between says what to do.
#include "ckpt_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "calls_fixture.h"
#include "safetensors_fixture.h"

namespace ckpt::interop {
namespace {

class ImportTurns : public TemporaryDirectory {
 protected:
  void SetUp() override {
    TemporaryDirectory::SetUp();
    write_file(path("w.safetensors"), file_of(entry_file(), pattern(4096)));
  }
  static std::string entry_file() { return padded("{" + entry("w", "F32", "[1024]", 0, 4096) + "}"); }

  // Imports through a handle of its own, as another process would.
  Failure import(const std::string& label, int64_t timeout_ms = 60'000, const char* run = "import") const {
    ckpt_store* store = nullptr;
    ckpt_options* options = nullptr;
    must([&](auto** err) { return ckpt_store_open(&store, path("store").c_str(), nullptr, err); });
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_int(options, "timeout_ms", timeout_ms, err); });
    if (run) must([&](auto** err) { return ckpt_options_set_str(options, "run", run, err); });
    Failure failure = attempt([&](auto** err) {
      return ckpt_import(store, path("w.safetensors").c_str(), label.c_str(), -1, options, nullptr, err);
    });
    ckpt_options_free(options);
    ckpt_store_free(store);
    return failure;
  }
  // Until `stop`: starts trainers of the run that imports use.
  void take_the_run(const std::atomic<bool>& stop) const {
    ckpt_store* store = nullptr;
    ckpt_options* options = nullptr;
    must([&](auto** err) { return ckpt_store_open(&store, path("store").c_str(), nullptr, err); });
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_str(options, "run", "import", err); });
    while (!stop) {
      ckpt_session* session = nullptr;
      ckpt_session_open(&session, store, 0, 1, nullptr, options, nullptr);
      ckpt_session_free(session);
    }
    ckpt_options_free(options);
    ckpt_store_free(store);
  }
};

TEST_F(ImportTurns, ImportsAtTheSameTimeAllSucceed) {
  constexpr int kThreads = 6, kEach = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; i++) {
        const Failure failure = import("label-" + std::to_string(t) + "-" + std::to_string(i), 60'000, nullptr);
        EXPECT_EQ(failure.code, CKPT_OK) << failure.message;
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ImportTurns, OneThatWaitsTooLongNamesTheLockAndTheNextOneGetsIt) {
  ASSERT_EQ(import("first").code, CKPT_OK);
  const std::string lock = path("store/.ckpt/runs/import/import.lock");
  const int fd = open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  const Failure late = import("second", 50);
  EXPECT_EQ(late.code, CKPT_TIMEOUT);
  EXPECT_EQ(detail(late, "path"), lock);
  EXPECT_NE(late.message.find("another import into run \"import\""), std::string::npos) << late.message;
  close(fd);  // as the kernel does when a process dies
  EXPECT_EQ(import("third", 50).code, CKPT_OK);
}

// As an import that dies right after it took the run.
TEST_F(ImportTurns, OneThatWasInterruptedLeavesTheRunToTheNextOne) {
  for (const char* purpose : {"import", "training"}) {
    ckpt_store* store = nullptr;
    ckpt_options* options = nullptr;
    ckpt_session* session = nullptr;
    const std::string uri = path(purpose);
    must([&](auto** err) { return ckpt_store_open(&store, uri.c_str(), nullptr, err); });
    must([&](auto** err) { return ckpt_options_new(&options, err); });
    must([&](auto** err) { return ckpt_options_set_str(options, "purpose", purpose, err); });
    must([&](auto** err) { return ckpt_session_open(&session, store, 0, 1, nullptr, options, err); });
    ckpt_session_free(session);
    ckpt_checkpoint_info info = {};
    info.struct_size = sizeof info;
    must([&](auto** err) { return ckpt_import(store, path("w.safetensors").c_str(), "a", -1, nullptr, &info, err); });
    EXPECT_STREQ(info.run, std::string(purpose) == "import" ? "main" : "import");
    ckpt_options_free(options);
    ckpt_store_free(store);
  }
}

TEST_F(ImportTurns, OneThatIsFencedSaysWhatToDo) {
  std::atomic<bool> stop{false};
  std::thread trainer([&] { take_the_run(stop); });
  Failure fenced;
  for (int i = 0; i < 1000 && fenced.code != CKPT_FENCED; i++) fenced = import("label-" + std::to_string(i));
  stop = true;
  trainer.join();
  ASSERT_EQ(fenced.code, CKPT_FENCED) << fenced.message;
  EXPECT_NE(fenced.message.find("took run \"import\" meanwhile"), std::string::npos) << fenced.message;
  EXPECT_NE(fenced.message.find("import again"), std::string::npos) << fenced.message;
  EXPECT_EQ(detail(fenced, "run"), "import");
  EXPECT_NE(detail(fenced, "expected"), "");
}

}  // namespace
}  // namespace ckpt::interop
