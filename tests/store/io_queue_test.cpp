// Transfers in flight with both engines: nothing lost, nothing done twice, the same error messages as blocking calls.
#include "store/io_queue.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "faults.h"
#include "store_suite.h"

namespace ckpt::store {
namespace {

std::unique_ptr<IoQueue> make(unsigned depth, IoEngine engine) {
  auto queue = IoQueue::make(depth, engine == IoEngine::kUring);
  EXPECT_EQ(code(queue.status()), "OK");
  EXPECT_EQ((*queue)->engine(), engine);
  return queue.take();
}

// Includes the ring if the kernel grants it.
std::vector<IoEngine> engines() {
  IoEngine best = IoQueue::make(1, true).take()->engine();
  return best == IoEngine::kUring ? std::vector{IoEngine::kThreads, best} : std::vector{best};
}

// The results of a number of transfers.
class Answers {
 public:
  explicit Answers(size_t count) : calls_(count), statuses_(count) {}
  IoQueue::Done at(size_t i) {
    return [this, i](Status status) {
      std::lock_guard lock(mutex_);
      calls_[i]++;
      total_++;
      statuses_[i] = std::move(status);
      changed_.notify_all();
    };
  }
  size_t total() {
    std::lock_guard lock(mutex_);
    return total_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return total_ >= calls_.size(); });
  }
  Status one() {
    wait();
    return statuses_[0];
  }
  void expect_once_and_ok() {
    wait();
    for (size_t i = 0; i < calls_.size(); i++) {
      EXPECT_EQ(calls_[i], 1) << i;
      EXPECT_EQ(code(statuses_[i]), "OK") << i << ": " << statuses_[i].message();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> calls_;
  std::vector<Status> statuses_;
  size_t total_ = 0;
};

class QueueTest : public testing::Test {
 protected:
  void SetUp() override { open_at(scratch_ / "store"); }
  void open_at(const std::string& path, StoreSettings options = {}) {
    store_ = open_posix(path, options).take();
    ASSERT_EQ(code(store_->prepare()), "OK");
  }
  std::unique_ptr<Writer> create(uint64_t size) { return store_->create("a", size).take(); }
  std::unique_ptr<Reader> written(const Pattern& data) {
    auto writer = create(data.bytes().size());
    EXPECT_EQ(code(writer->write_at(0, data.bytes())), "OK");
    EXPECT_EQ(code(writer->publish(data.bytes().size())), "OK");
    return store_->open("a").take();
  }
  void write_and_read_back(IoQueue& queue, uint64_t size);

  Scratch scratch_;
  std::shared_ptr<Store> store_;
};
class Queue : public QueueTest, public testing::WithParamInterface<IoEngine> {};
INSTANTIATE_TEST_SUITE_P(Engines, Queue, testing::ValuesIn(engines()),
                         [](const auto& engine) { return engine.param == IoEngine::kUring ? "Uring" : "Threads"; });

struct Range {
  uint64_t offset, size;
};

// Cuts [0, size) into pieces of 4 KiB to 2 MiB, in any order.
std::vector<Range> cut(uint64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Range> ranges;
  for (uint64_t at = 0; at < size; at += ranges.back().size)
    ranges.push_back({at, std::min<uint64_t>(size - at, kAlign << random() % 10)});
  std::shuffle(ranges.begin(), ranges.end(), random);
  return ranges;
}

void QueueTest::write_and_read_back(IoQueue& queue, uint64_t size) {
  Pattern data(size, 1), room(size, 2);
  auto writer = create(size);
  std::vector<Range> pieces = cut(size, 3);
  Answers written(pieces.size());
  for (size_t i = 0; i < pieces.size(); i++)
    queue.write(*writer, pieces[i].offset, data.bytes().subspan(pieces[i].offset, pieces[i].size), written.at(i));
  written.expect_once_and_ok();
  ASSERT_EQ(code(writer->publish(size)), "OK");
  auto reader = store_->open("a").take();
  auto out = MutableBytes(const_cast<std::byte*>(room.bytes().data()), size);
  pieces = cut(size, 4);
  Answers read(pieces.size());
  for (size_t i = 0; i < pieces.size(); i++)
    queue.read(*reader, pieces[i].offset, out.subspan(pieces[i].offset, pieces[i].size), read.at(i));
  read.expect_once_and_ok();
  EXPECT_TRUE(same(room.bytes(), data.bytes()));
  EXPECT_EQ(code(store_->remove("a", false)), "OK");
}

TEST_P(Queue, PiecesOfManySizesInAnyOrderComeBackAsTheyWere) { write_and_read_back(*make(7, GetParam()), 24 * kMiB); }

TEST_P(Queue, FilesInThePageCacheComeBackAsTheyWere) {
  open_at(scratch_ / "cached", {.direct_io = false});
  write_and_read_back(*make(7, GetParam()), 8 * kMiB);
}

TEST_P(Queue, OnePlaceIsEnough) { write_and_read_back(*make(1, GetParam()), 4 * kMiB); }
TEST_P(Queue, NoPlaceMeansOne) { write_and_read_back(*make(0, GetParam()), kMiB); }

TEST_P(Queue, ATransferOfNothingIsOk) {
  auto reader = written(Pattern(kMiB, 1));
  auto queue = make(2, GetParam());
  Answers answers(1);
  queue->read(*reader, 0, {}, answers.at(0));
  answers.expect_once_and_ok();
}

TEST_P(Queue, ManyStartersAtOnceLoseNothing) {
  constexpr size_t kStarters = 4, kEach = 200;
  Pattern data(kStarters * kEach * kAlign, 1);
  auto writer = create(data.bytes().size());
  auto queue = make(5, GetParam());
  Answers answers(kStarters * kEach);
  std::vector<std::thread> starters;
  for (size_t s = 0; s < kStarters; s++)
    starters.emplace_back([&, s] {
      for (size_t i = s * kEach; i < (s + 1) * kEach; i++)
        queue->write(*writer, i * kAlign, data.bytes().subspan(i * kAlign, kAlign), answers.at(i));
    });
  for (auto& starter : starters) starter.join();
  answers.expect_once_and_ok();
  ASSERT_EQ(code(writer->publish(data.bytes().size())), "OK");
  EXPECT_TRUE(same(*store_->get("a", 16 * kMiB), data.bytes()));
}

TEST_P(Queue, AStarterThatEndsLeavesItsTransfersUnderWay) {
  Pattern data(16 * kMiB, 1);
  auto writer = create(data.bytes().size());
  auto queue = make(16, GetParam());
  Answers answers(16);
  for (size_t i = 0; i < 16; i++)
    std::thread([&, i] {
      queue->write(*writer, i * kMiB, data.bytes().subspan(i * kMiB, kMiB), answers.at(i));
    }).join();
  answers.expect_once_and_ok();
}

// ---- places ----

// Its writes wait until they are released, and it counts how many wait at once.
class SlowWriter : public Writer {
 public:
  bool direct() const override { return false; }
  Status publish(uint64_t) override { return Ok(); }
  Status write_at(uint64_t offset, Bytes) override {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++running_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || let_.count(offset); });
    running_--;
    return Ok();
  }
  void wait_for_running(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ >= count; });
  }
  void let(uint64_t offset) {
    std::lock_guard lock(mutex_);
    let_.insert(offset);
    changed_.notify_all();
  }
  void let_all() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int most() const { return most_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0, most_ = 0;
  bool open_ = false;
  std::set<uint64_t> let_;
};

TEST_P(Queue, AsManyAsItsDepthRunAtOnceAndNoMore) {
  SlowWriter writer;
  auto queue = make(3, GetParam());
  Answers answers(60);
  std::vector<std::thread> starters;
  for (size_t s = 0; s < 4; s++)
    starters.emplace_back([&, s] {
      for (size_t i = s * 15; i < (s + 1) * 15; i++) queue->write(writer, i, {}, answers.at(i));
    });
  writer.wait_for_running(3);
  writer.let_all();
  for (auto& starter : starters) starter.join();
  answers.expect_once_and_ok();
  EXPECT_EQ(writer.most(), 3);
}

TEST_P(Queue, AStarterWaitsForAPlace) {
  SlowWriter writer;
  auto queue = make(2, GetParam());
  Answers answers(20);
  std::thread helper([&] {
    writer.wait_for_running(2);
    writer.let_all();
  });
  for (size_t i = 0; i < 20; i++) {
    queue->write(writer, i, {}, answers.at(i));
    EXPECT_GE(answers.total() + 2, i + 1) << "more than two were under way";
  }
  helper.join();
  answers.expect_once_and_ok();
}

TEST_P(Queue, ALongTransferDoesNotHoldUpOthers) {
  SlowWriter writer;
  auto queue = make(2, GetParam());
  Answers first(1), others(10);
  queue->write(writer, 0, {}, first.at(0));
  for (size_t i = 0; i < 10; i++) {
    writer.let(i + 1);
    queue->write(writer, i + 1, {}, others.at(i));
  }
  others.expect_once_and_ok();
  EXPECT_EQ(first.total(), 0u);
  writer.let(0);
  first.expect_once_and_ok();
}

TEST_P(Queue, DestructionWaitsForAllThatWasStarted) {
  Pattern data(16 * kMiB, 1);
  auto writer = create(data.bytes().size());
  SlowWriter slow;
  Answers answers(17);
  std::thread helper;
  {
    auto queue = make(17, GetParam());
    queue->write(slow, 0, {}, answers.at(16));
    for (size_t i = 0; i < 16; i++)
      queue->write(*writer, i * kMiB, data.bytes().subspan(i * kMiB, kMiB), answers.at(i));
    helper = std::thread([&] { slow.let_all(); });
  }
  EXPECT_EQ(answers.total(), 17u);
  answers.expect_once_and_ok();
  helper.join();
}

// ---- errors ----

TEST_P(Queue, AReadPastTheEndIsIncompleteInTheWordsOfTheBlockingCall) {
  auto reader = written(Pattern(kMiB + 5 * kAlign, 1));
  Pattern room(kMiB, 2);
  auto out = MutableBytes(const_cast<std::byte*>(room.bytes().data()), kMiB);
  auto queue = make(2, GetParam());
  for (uint64_t offset : {kMiB, kMiB + 5 * kAlign, 9 * kMiB}) {
    Answers answers(1);
    queue->read(*reader, offset, out, answers.at(0));
    EXPECT_EQ(code(answers.one()), "INCOMPLETE");
    EXPECT_EQ(answers.one().message(), reader->read_direct(offset, out).message());
  }
}

TEST_P(Queue, AFileThatEndsAmidAPageIsReadUpToThere) {
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto writer = create(kMiB);
  ASSERT_EQ(code(writer->write_at(0, data.bytes())), "OK");
  ASSERT_EQ(code(writer->publish(kMiB - 100)), "OK");
  auto reader = store_->open("a").take();
  auto queue = make(2, GetParam());
  Answers answers(1);
  queue->read(*reader, 0, MutableBytes(const_cast<std::byte*>(room.bytes().data()), kMiB), answers.at(0));
  EXPECT_EQ(code(answers.one()), "INCOMPLETE");
  EXPECT_TRUE(same(room.bytes().first(kMiB - 100), data.bytes().first(kMiB - 100)));
}

TEST_P(Queue, AnUnalignedDirectWriteIsRefusedAsByTheBlockingCall) {
  Pattern data(kMiB, 1);
  auto writer = create(kMiB);
  auto queue = make(2, GetParam());
  Answers answers(1);
  queue->write(*writer, 512, data.bytes().first(kAlign), answers.at(0));
  Status blocking = writer->write_at(512, data.bytes().first(kAlign));
  EXPECT_EQ(code(answers.one()), code(blocking));
  EXPECT_EQ(answers.one().message(), blocking.message());
}

TEST_P(Queue, AFullFileSystemIsNoSpace) {
  std::string small = scratch_ / "small";
  ASSERT_EQ(mkdir(small.c_str(), 0777), 0);
  TestMount mount(small, "size=1m");
  ASSERT_TRUE(mount.ok());
  open_at(small);
  Pattern data(4 * kMiB, 1);
  auto writer = create(0);
  auto queue = make(4, GetParam());
  Answers answers(1);
  queue->write(*writer, 0, data.bytes(), answers.at(0));
  EXPECT_EQ(code(answers.one()), "NO_SPACE");
  queue.reset();
  writer.reset();
  store_.reset();
}

TEST_P(Queue, AWriteBeyondTheLimitOfFileSizesIsAnErrorAndNoSignal) {
  in_child({}, [&] {
    rlimit limit{kMiB, kMiB};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    Pattern data(kMiB, 1);
    auto writer = create(kMiB);
    auto queue = make(2, GetParam());
    Answers answers(1);
    queue->write(*writer, kMiB, data.bytes(), answers.at(0));
    EXPECT_EQ(code(answers.one()), "NO_SPACE");
    std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(answers.one().message(), writer->write_at(kMiB, data.bytes()).message());
  });
}

TEST_P(Queue, AWriteAfterPublishIsInvalid) {
  Pattern data(kMiB, 1);
  auto writer = create(kMiB);
  ASSERT_EQ(code(writer->publish(kMiB)), "OK");
  auto queue = make(2, GetParam());
  Answers answers(1);
  queue->write(*writer, 0, data.bytes(), answers.at(0));
  EXPECT_EQ(code(answers.one()), "INVALID");
}

// A writer with any descriptor.
class OddWriter : public Writer {
 public:
  OddWriter(int fd, std::function<Status(uint64_t, Bytes)> write) : fd_(fd), write_(std::move(write)) {}
  bool direct() const override { return true; }
  Status publish(uint64_t) override { return Ok(); }
  int descriptor() const override { return fd_; }
  Status write_at(uint64_t offset, Bytes data) override { return write_(offset, data); }

 private:
  int fd_;
  std::function<Status(uint64_t, Bytes)> write_;
};

TEST_P(Queue, WhatTheDescriptorFailsIsDoneOnceMoreByTheBlockingCall) {
  std::atomic<int> calls{0};
  OddWriter writer(1 << 20, [&](uint64_t offset, Bytes data) {
    calls++;
    EXPECT_EQ(offset, kAlign);
    EXPECT_EQ(data.size(), 2 * kAlign);
    return Status(CKPT_IO, "the words of write_at");
  });
  Pattern data(2 * kAlign, 1);
  auto queue = make(2, GetParam());
  Answers answers(1);
  queue->write(writer, kAlign, data.bytes(), answers.at(0));
  EXPECT_EQ(answers.one().message(), "the words of write_at");
  EXPECT_EQ(calls, 1);
}

TEST_P(Queue, ShortTransfersAreGoneOnWith) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  OddWriter writer(pipes[1], [&](uint64_t, Bytes data) {
    for (ssize_t done; !data.empty(); data = data.subspan(static_cast<size_t>(done)))
      if ((done = ::write(pipes[1], data.data(), data.size())) <= 0) return Status(CKPT_IO, "pipe");
    return Ok();
  });
  Pattern data(4 * kMiB, 1);
  auto queue = make(2, GetParam());
  Answers answers(1);
  queue->write(writer, 0, data.bytes(), answers.at(0));
  std::vector<std::byte> found(4 * kMiB);
  size_t size = 0;
  for (ssize_t done; size < found.size(); size += static_cast<size_t>(done)) {
    done = ::read(pipes[0], found.data() + size, std::min<size_t>(found.size() - size, 10000));
    ASSERT_GT(done, 0);
  }
  answers.expect_once_and_ok();
  EXPECT_TRUE(same(found, data.bytes()));
  close(pipes[0]);
  close(pipes[1]);
}

// Proved by refusing the blocking calls to the threads of the queue.
TEST_P(Queue, DirectTransfersAreMadeByTheRingItself) {
  Pattern data(kMiB, 1), room(kMiB, 2);
  auto reader = written(data);
  in_child({}, [&] {
    auto writer = store_->create("b", kMiB).take();
    bool by_ring = writer->direct() && reader->direct_align() > 0 && GetParam() == IoEngine::kUring;
    ASSERT_TRUE(refuse({{SYS_pwrite64, EIO}, {SYS_pread64, EIO}}));
    auto queue = make(2, GetParam());
    Answers answers(2);
    queue->write(*writer, 0, data.bytes(), answers.at(0));
    queue->read(*reader, 0, MutableBytes(const_cast<std::byte*>(room.bytes().data()), kMiB), answers.at(1));
    EXPECT_EQ(code(answers.one()), by_ring ? "OK" : "IO");
    EXPECT_EQ(same(room.bytes(), data.bytes()), by_ring);
  });
}

// ---- what the system refuses ----

TEST_F(QueueTest, ThreadsDoTheWorkWhereIoUringIsRefused) {
  for (int error : {ENOSYS, EPERM, ENOMEM, EINVAL})
    in_child({{SYS_io_uring_setup, error}}, [&] {
      auto queue = IoQueue::make(4, true);
      ASSERT_EQ(code(queue.status()), "OK");
      EXPECT_EQ((*queue)->engine(), IoEngine::kThreads);
      write_and_read_back(**queue, 4 * kMiB);
    });
}

TEST_F(QueueTest, ThreadsDoTheWorkWhereTheRingTakesNoRequests) {
  for (int error : {EAGAIN, EBUSY, EPERM})
    in_child({{SYS_io_uring_enter, error}}, [&] { write_and_read_back(*IoQueue::make(4, true).take(), 4 * kMiB); });
}

TEST_F(QueueTest, WithoutAnyThreadThereIsNoQueue) {
  in_child({{SYS_clone3, EAGAIN}, {SYS_clone, EAGAIN}}, [&] {
    for (bool uring : {false, true}) EXPECT_EQ(code(IoQueue::make(4, uring).status()), "NOMEM");
  });
}

TEST_F(QueueTest, FewerThreadsDoTheSameWork) {
  in_child({}, [&] {
    auto queue = make(8, IoEngine::kThreads);
    ASSERT_TRUE(refuse({{SYS_clone3, EAGAIN}, {SYS_clone, EAGAIN}}));
    write_and_read_back(*queue, 4 * kMiB);
  });
}

// ---- queues of stores ----

TEST(QueueOfAStore, IsTheOneThatItsOptionsAskFor) {
  Scratch scratch;
  auto threads = open_posix(scratch / "a", {.uring = false}).take();
  EXPECT_EQ((*threads->make_queue(4))->engine(), IoEngine::kThreads);
  auto best = open_posix(scratch / "a", {}).take();
  EXPECT_EQ((*best->make_queue(4))->engine(), engines().back());
}

TEST(QueueOfAStore, InMemoryWritesAndReads) {
  auto store = open_memory("queue").take();
  auto queue = store->make_queue(16).take();
  Pattern data(kMiB, 1);
  std::vector<std::byte> found(kMiB);
  auto writer = store->create("a", kMiB).take();
  Answers written(256), read(256);
  for (size_t i = 0; i < 256; i++)
    queue->write(*writer, i * kAlign, data.bytes().subspan(i * kAlign, kAlign), written.at(i));
  written.expect_once_and_ok();
  ASSERT_EQ(code(writer->publish(kMiB)), "OK");
  auto reader = store->open("a").take();
  for (size_t i = 0; i < 256; i++)
    queue->read(*reader, i * kAlign, MutableBytes(found).subspan(i * kAlign, kAlign), read.at(i));
  read.expect_once_and_ok();
  EXPECT_TRUE(same(found, data.bytes()));
  EXPECT_TRUE(reader->cached(0, kMiB));
}

}  // namespace
}  // namespace ckpt::store
