// Which step of writing a part comes next: of which block, and with which buffer. No thread, no disk, no clock: the
// writer asks, one thread at a time, and says what came of each step.
//
// Blocks are staged in order, together with their buffers, and staging leaves some buffers to encoding. So the first
// block that is not written never waits for a buffer that a later one holds. Blocks get their places in the file in
// order, too: a part's layout does not depend on timing.
#pragma once

#include "save/staging_buffers.h"

namespace ckpt::save {

// To open the file; to write a block, to take it from the caller's memory, to wait until it has come from devices, to
// encode its copy, to find out what of it need not be written; to ask again later; to end.
enum class Step { kOpen, kSubmit, kStage, kArrive, kEncode, kSettle, kWait, kDone };

struct Task {
  Step step = Step::kWait;
  size_t block = 0;
  std::byte* buffer = nullptr;  // what to stage or encode into; null: the block is written from the caller's memory
};

class BlockSchedule {
 public:
  // What a block needs beside being written.
  struct Needs {
    bool buffer = true;
    bool arrival = false;   // it comes from devices
    bool encoding = false;  // of its copy
    bool settling = false;  // once the file is open: an earlier one may have some of it
  };
  struct Limits {
    size_t threads = 1;    // that stage or encode at once
    size_t in_flight = 1;  // blocks that are written at once
  };
  BlockSchedule() = default;
  BlockSchedule(std::span<const Needs> needs, const Limits& limits, StagingBuffers* buffers, bool is_open);

  // `opens`: if nobody opens the file yet, this is what the caller does first.
  Task next(bool opens);

  // The file is open. If that failed, what can be staged is staged before the end.
  void opened(Status status);
  void staged(size_t block, Bytes data, device::Fences fences = {});
  void arrived(size_t block);
  void encoded(size_t block, std::byte* buffer, Bytes data);
  // Nothing of it is written if `data` is empty.
  void settled(size_t block, Bytes data);
  void written(size_t block);
  // The first error counts; OK changes nothing.
  void fail(Status status);

  // True once: nobody needs the caller's memory for staging any more. Device memory may change again once its copies
  // are there, hashed or not.
  bool has_just_staged();
  const Status& error() const { return error_; }
  uint64_t file_end() const { return file_end_; }  // of the blocks that have their places
  // How far a block is. What a step is about stays as it is until the step's end.
  enum class Phase : uint8_t { kUntouched, kFetching, kCopied, kStaged, kReady, kLeftOut };
  struct State {
    Needs needs;
    Phase phase = Phase::kUntouched;
    std::byte* buffer = nullptr;
    Bytes data{};             // what to write, once it is ready
    uint64_t offset = 0;      // its place in the file, once it is submitted
    device::Fences fences{};  // of what is on its way from devices

    Phase once_staged() const { return needs.settling ? Phase::kStaged : Phase::kReady; }
    Phase after_copy() const { return needs.encoding ? Phase::kCopied : once_staged(); }
    bool has_left() const { return phase != Phase::kFetching || fences.reached(); }
  };
  const State& at(size_t block) const { return blocks_[block]; }

 private:
  Task next_work();

  std::vector<State> blocks_;
  Limits limits_;
  StagingBuffers* buffers_ = nullptr;
  Status error_;
  Status refused_;  // why the file could not be opened
  bool opening_ = false, is_open_ = false, all_staged_ = false;
  size_t next_stage_ = 0, next_arrive_ = 0, next_encode_ = 0, next_settle_ = 0, next_submit_ = 0, in_flight_ = 0,
         written_ = 0;
  size_t working_ = 0;               // threads that stage or encode a block
  size_t staged_ = 0, fetched_ = 0;  // blocks; the first `fetched_` blocks are known to have left devices
  uint64_t file_end_ = kAlign;
};

}  // namespace ckpt::save
