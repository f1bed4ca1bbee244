// The order of the steps of a part, without a thread or a disk.
#include "save/block_schedule.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace ckpt::save {
namespace {

using Needs = BlockSchedule::Needs;

constexpr uint64_t kBuffer = 4096;

StagingBuffers buffers_of(size_t count, size_t reserve = 0) {
  auto memory = Mapping::make(count * kBuffer);
  EXPECT_TRUE(memory.ok());
  return {memory.take(), kBuffer, {.all = count, .sure = count, .reserve = reserve}, false, [] { return uint64_t{0}; }};
}

Bytes data_of(size_t block) {
  static const std::vector<std::byte> memory(64 * kBuffer);
  return Bytes(memory).first((block % 3 + 1) * kBuffer - 1);
}

class TestFence : public device::Fence {
 public:
  explicit TestFence(const bool& is_reached) : is_reached_(is_reached) {}
  Result<bool> reached() const override { return bool{is_reached_}; }
  Status wait() const override { return Ok(); }

 private:
  const bool& is_reached_;
};

device::Fences fences_of(const bool& is_reached) {
  device::Fences fences;
  fences.add(std::make_unique<TestFence>(is_reached));
  return fences;
}

// Of blocks that are settled.
bool is_left_out(size_t block) { return block % 3 == 1; }

// Ends a task as a writer does.
void end(BlockSchedule& schedule, const Task& task) {
  switch (task.step) {
    case Step::kOpen:
      return schedule.opened(Ok());
    case Step::kSubmit:
      return schedule.written(task.block);
    case Step::kStage:
      return schedule.staged(task.block, data_of(task.block));
    case Step::kArrive:
      return schedule.arrived(task.block);
    case Step::kEncode:
      return schedule.encoded(task.block, task.buffer, data_of(task.block));
    case Step::kSettle:
      return schedule.settled(task.block, is_left_out(task.block) ? Bytes() : schedule.at(task.block).data);
    default:
      FAIL() << "nothing that ends";
  }
}

TEST(BlockSchedule, GivesBlocksTheirPlacesInOrderHoweverTheyAreStaged) {
  StagingBuffers buffers = buffers_of(3);
  BlockSchedule schedule(std::vector<Needs>(3), {.threads = 3, .in_flight = 3}, &buffers, true);
  Task tasks[3];
  for (size_t i = 0; i < 3; i++) {
    tasks[i] = schedule.next(false);
    EXPECT_EQ(tasks[i].step, Step::kStage);
    EXPECT_EQ(tasks[i].block, i);
  }
  end(schedule, tasks[2]);
  end(schedule, tasks[1]);
  EXPECT_EQ(schedule.next(false).step, Step::kWait) << "the first one has no place yet";
  end(schedule, tasks[0]);
  uint64_t place = kAlign;
  for (size_t i = 0; i < 3; i++) {
    const Task task = schedule.next(false);
    EXPECT_EQ(task.step, Step::kSubmit);
    EXPECT_EQ(task.block, i);
    EXPECT_EQ(schedule.at(i).offset, place);
    place += round_up(data_of(i).size(), kAlign);
  }
  EXPECT_EQ(schedule.file_end(), place);
}

TEST(BlockSchedule, WritesNoMoreAtOnceThanTheStoreTakes) {
  StagingBuffers buffers = buffers_of(3);
  BlockSchedule schedule(std::vector<Needs>(3), {.threads = 1, .in_flight = 2}, &buffers, true);
  for (int i = 0; i < 3; i++) {
    Task task;
    while ((task = schedule.next(false)).step != Step::kStage) ASSERT_EQ(task.step, Step::kSubmit);
    end(schedule, task);
  }
  EXPECT_EQ(schedule.next(false).step, Step::kWait);
  schedule.written(0);
  EXPECT_EQ(schedule.next(false).step, Step::kSubmit);
}

// Any order in which steps end, any needs, and few buffers: one step at least is always under way or due, blocks are
// written in order, and at the end every buffer has come back.
TEST(BlockSchedule, ComesToTheEndInAnyOrderWithAsFewBuffersAsItWasGiven) {
  for (uint32_t seed = 0; seed < 3000; seed++) {
    std::mt19937 random(seed);
    auto one_in = [&](uint32_t n) { return random() % n == 0; };
    std::vector<Needs> needs(random() % 12 + 1);
    bool encodes = false;
    for (Needs& of_block : needs) {
      of_block.buffer = !one_in(4);
      of_block.arrival = of_block.buffer && one_in(3);
      of_block.encoding = of_block.buffer && one_in(3);
      of_block.settling = one_in(2);
      encodes |= of_block.encoding;
    }
    const size_t reserve = encodes ? random() % 2 + 1 : 0, count = reserve + 1 + random() % 3;
    StagingBuffers buffers = buffers_of(count, reserve);
    const bool is_open = one_in(2);
    BlockSchedule schedule(needs, {.threads = random() % 3 + 1, .in_flight = random() % 3 + 1}, &buffers, is_open);
    std::vector<Task> under_way;
    size_t submitted = 0, opened = 0, just_staged = 0;
    for (Task task; (task = schedule.next(one_in(2))).step != Step::kDone;) {
      opened += task.step == Step::kOpen;
      const auto left_out = [&] {
        return submitted < needs.size() && needs[submitted].settling && is_left_out(submitted);
      };
      if (task.step == Step::kSubmit) {
        while (left_out()) submitted++;
        ASSERT_EQ(task.block, submitted++);
      }
      if (task.step == Step::kStage) {
        ASSERT_EQ(task.buffer != nullptr, needs[task.block].buffer);
      }
      if (task.step != Step::kWait) under_way.push_back(task);
      ASSERT_LE(buffers.bytes_in_use(), count * kBuffer);
      if (task.step != Step::kWait && !one_in(3)) continue;
      ASSERT_FALSE(under_way.empty()) << "stands still with seed " << seed;
      const size_t which = random() % under_way.size();
      std::swap(under_way[which], under_way.back());
      end(schedule, under_way.back());
      under_way.pop_back();
      just_staged += schedule.has_just_staged();
    }
    EXPECT_TRUE(schedule.error().ok());
    while (submitted < needs.size() && needs[submitted].settling && is_left_out(submitted)) submitted++;
    EXPECT_EQ(submitted, needs.size());
    EXPECT_EQ(opened, is_open ? 0u : 1u);
    EXPECT_EQ(just_staged, 1u);
    EXPECT_EQ(buffers.bytes_in_use(), 0u);
  }
}

TEST(BlockSchedule, SettlesABlockOnceTheFileIsOpenAndGivesItsBufferBackIfNothingOfItIsWritten) {
  StagingBuffers buffers = buffers_of(2);
  BlockSchedule schedule(std::vector<Needs>(3, {.settling = true}), {.threads = 2, .in_flight = 3}, &buffers, false);
  const Task opening = schedule.next(true), first = schedule.next(false), second = schedule.next(false);
  end(schedule, first);
  end(schedule, second);
  EXPECT_EQ(schedule.next(false).step, Step::kWait) << "nobody knows yet what an earlier file has";
  end(schedule, opening);
  const Task settling = schedule.next(false);
  EXPECT_EQ(settling.step, Step::kSettle);
  EXPECT_EQ(settling.block, 0u);
  end(schedule, settling);
  EXPECT_EQ(schedule.next(false).step, Step::kSubmit);
  end(schedule, schedule.next(false));  // block 1, of which nothing is written
  EXPECT_EQ(buffers.bytes_in_use(), kBuffer);
  const Task third = schedule.next(false);
  EXPECT_EQ(third.step, Step::kStage);
  end(schedule, third);
  end(schedule, schedule.next(false));
  const Task last = schedule.next(false);
  EXPECT_EQ(last.step, Step::kSubmit);
  EXPECT_EQ(last.block, 2u);
  EXPECT_EQ(schedule.at(2).offset, schedule.at(0).offset + round_up(data_of(0).size(), kAlign)) << "no hole";
}

TEST(BlockSchedule, LeavesBuffersToEncodingSoThatACopyCanAlwaysBeEncoded) {
  StagingBuffers buffers = buffers_of(3, 1);
  BlockSchedule schedule(std::vector<Needs>(4, {.encoding = true}), {.threads = 4, .in_flight = 1}, &buffers, true);
  const Task first = schedule.next(false), second = schedule.next(false);
  EXPECT_EQ(second.step, Step::kStage);
  EXPECT_EQ(schedule.next(false).step, Step::kWait) << "the third buffer is for encoding";
  end(schedule, second);
  EXPECT_EQ(schedule.next(false).step, Step::kWait) << "blocks are encoded in order";
  end(schedule, first);
  const Task encode = schedule.next(false);
  EXPECT_EQ(encode.step, Step::kEncode);
  EXPECT_EQ(encode.block, 0u);
  EXPECT_NE(encode.buffer, first.buffer);
  EXPECT_EQ(schedule.at(0).buffer, first.buffer);
  end(schedule, encode);
  EXPECT_EQ(schedule.at(0).buffer, encode.buffer);
}

TEST(BlockSchedule, LetsTheFirstWorkerCopyWhileAnotherOneOpensTheFile) {
  StagingBuffers buffers = buffers_of(1);
  BlockSchedule schedule(std::vector<Needs>(1), {}, &buffers, false);
  const Task copy = schedule.next(false);
  EXPECT_EQ(copy.step, Step::kStage);
  EXPECT_EQ(schedule.next(true).step, Step::kOpen);
  EXPECT_EQ(schedule.next(true).step, Step::kWait) << "it is opened once";
  end(schedule, copy);
  EXPECT_EQ(schedule.next(false).step, Step::kWait) << "nothing is written into a file that is not open";
  schedule.opened(Ok());
  EXPECT_EQ(schedule.next(false).step, Step::kSubmit);
}

TEST(BlockSchedule, OpensTheFileByTheOnlyWorkerOnceNothingElseCanBeDone) {
  StagingBuffers buffers = buffers_of(1);
  BlockSchedule schedule(std::vector<Needs>(2), {}, &buffers, false);
  end(schedule, schedule.next(false));
  EXPECT_EQ(schedule.next(false).step, Step::kOpen);
}

TEST(BlockSchedule, StagesAllThatItHasBuffersForBeforeARefusalEndsIt) {
  for (size_t count : {1, 2}) {
    StagingBuffers buffers = buffers_of(count);
    BlockSchedule schedule(std::vector<Needs>(2), {.threads = 1}, &buffers, false);
    EXPECT_EQ(schedule.next(true).step, Step::kOpen);
    schedule.opened(Status(CKPT_EXISTS, "the label is taken"));
    for (size_t i = 0; i < count; i++) {
      const Task task = schedule.next(true);
      ASSERT_EQ(task.step, Step::kStage);
      end(schedule, task);
    }
    EXPECT_EQ(schedule.has_just_staged(), count == 2);
    EXPECT_EQ(schedule.next(true).step, Step::kDone);
    EXPECT_EQ(schedule.error().code(), CKPT_EXISTS);
  }
}

TEST(BlockSchedule, EndsWithTheFirstError) {
  StagingBuffers buffers = buffers_of(1);
  BlockSchedule schedule(std::vector<Needs>(1), {}, &buffers, true);
  schedule.fail(Ok());
  EXPECT_EQ(schedule.next(false).step, Step::kStage);
  schedule.fail(Status(CKPT_IO, "first"));
  schedule.fail(Status(CKPT_NOMEM, "second"));
  EXPECT_EQ(schedule.next(false).step, Step::kDone);
  EXPECT_EQ(schedule.error().code(), CKPT_IO);
}

TEST(BlockSchedule, IsStagedOnceTheCopiesOfDevicesAreThereHashedOrNot) {
  StagingBuffers buffers = buffers_of(2);
  const std::vector<Needs> needs{{.arrival = true}, {}};
  BlockSchedule schedule(needs, {.threads = 2}, &buffers, true);
  const Task device = schedule.next(false), host = schedule.next(false);
  bool is_there = false;
  schedule.staged(device.block, data_of(0), fences_of(is_there));
  end(schedule, host);
  EXPECT_FALSE(schedule.has_just_staged());
  const Task arrive = schedule.next(false);
  EXPECT_EQ(arrive.step, Step::kArrive);
  EXPECT_FALSE(schedule.has_just_staged());
  is_there = true;
  EXPECT_TRUE(schedule.has_just_staged());
  EXPECT_FALSE(schedule.has_just_staged()) << "once";
  EXPECT_EQ(schedule.next(false).step, Step::kWait) << "what was not hashed is not written";
  end(schedule, arrive);
  EXPECT_EQ(schedule.next(false).step, Step::kSubmit);
}

TEST(BufferCounts, AreNoMoreThanTheBudgetHasUnlessTheMachineHasMuchMemory) {
  BufferWants wants{.staging = 6, .buffer_bytes = kBuffer, .budget = 64 * kBuffer};
  EXPECT_EQ(count_buffers(wants).all, 6u);
  wants.most_reserve = 6;
  EXPECT_EQ(count_buffers(wants).reserve, 6u);
  EXPECT_EQ(count_buffers(wants).all, 12u);
  wants = {.staging = 100, .buffer_bytes = kBuffer, .budget = 64 * kBuffer, .room = StagingBuffers::kStep - 1};
  EXPECT_EQ(count_buffers(wants).all, 64u) << "too little to ask for";
  wants.room = StagingBuffers::kStep;
  EXPECT_EQ(count_buffers(wants).all, 100u);
  EXPECT_EQ(count_buffers(wants).sure, 64u);
}

TEST(BufferCounts, AreEnoughForOneBlockHoweverSmallTheBudgetIs) {
  BufferWants wants{.staging = 9, .buffer_bytes = kBuffer, .budget = 1};
  EXPECT_EQ(count_buffers(wants).all, 1u);
  wants.most_reserve = 8;
  EXPECT_EQ(count_buffers(wants).all, 2u);
  EXPECT_EQ(count_buffers(wants).reserve, 1u);
}

}  // namespace
}  // namespace ckpt::save
