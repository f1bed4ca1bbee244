#include "save/block_schedule.h"

#include <utility>

namespace ckpt::save {

BlockSchedule::BlockSchedule(std::span<const Needs> needs, const Limits& limits, StagingBuffers* buffers, bool is_open)
    : limits_(limits), buffers_(buffers), opening_(is_open), is_open_(is_open) {
  for (const Needs& of_block : needs) blocks_.push_back({.needs = of_block});
}

Task BlockSchedule::next(bool opens) {
  if (!error_.ok() || written_ == blocks_.size()) return {Step::kDone};
  if (opens && !std::exchange(opening_, true)) return {Step::kOpen};
  if (all_staged_) error_ = refused_;
  if (!error_.ok()) return {Step::kDone};
  while (next_submit_ < blocks_.size() && blocks_[next_submit_].phase == Phase::kLeftOut) next_submit_++;
  if (is_open_ && next_submit_ < blocks_.size() && blocks_[next_submit_].phase == Phase::kReady &&
      in_flight_ < limits_.in_flight) {
    State& block = blocks_[next_submit_];
    block.offset = file_end_;
    file_end_ += round_up(block.data.size(), kAlign);
    in_flight_++;
    return {Step::kSubmit, next_submit_++};
  }
  if (working_ < limits_.threads)
    if (const Task task = next_work(); task.step != Step::kWait) {
      working_++;
      return task;
    }
  if (!std::exchange(opening_, true)) return {Step::kOpen};
  if (working_ == 0) error_ = refused_;
  return {error_.ok() ? Step::kWait : Step::kDone};
}

Task BlockSchedule::next_work() {
  while (next_settle_ < next_stage_ && !blocks_[next_settle_].needs.settling) next_settle_++;
  if (is_open_ && next_settle_ < next_stage_ && blocks_[next_settle_].phase == Phase::kStaged)
    return {Step::kSettle, next_settle_++};
  if (next_stage_ < blocks_.size()) {
    State& block = blocks_[next_stage_];
    if (!block.needs.buffer || buffers_->has_to_stage()) {
      if (block.needs.buffer) block.buffer = buffers_->take();
      return {Step::kStage, next_stage_++, block.buffer};
    }
  }
  while (next_arrive_ < next_stage_ && !blocks_[next_arrive_].needs.arrival) next_arrive_++;
  if (next_arrive_ < next_stage_ && blocks_[next_arrive_].phase == Phase::kFetching)
    return {Step::kArrive, next_arrive_++};
  while (next_encode_ < next_stage_ && !blocks_[next_encode_].needs.encoding) next_encode_++;
  if (next_encode_ < next_stage_ && blocks_[next_encode_].phase == Phase::kCopied && buffers_->has_to_encode())
    return {Step::kEncode, next_encode_++, buffers_->take()};
  return {};
}

void BlockSchedule::opened(Status status) {
  is_open_ = status.ok();
  refused_ = std::move(status);
}

void BlockSchedule::staged(size_t block, Bytes data, device::Fences fences) {
  State& staged = blocks_[block];
  staged.phase = staged.needs.arrival ? Phase::kFetching : staged.after_copy();
  staged.data = data;
  staged.fences = std::move(fences);
  staged_++;
  working_--;
}

void BlockSchedule::arrived(size_t block) {
  blocks_[block].phase = blocks_[block].after_copy();
  blocks_[block].fences = {};
  working_--;
}

void BlockSchedule::encoded(size_t block, std::byte* buffer, Bytes data) {
  State& encoded = blocks_[block];
  buffers_->give(encoded.buffer);
  encoded.phase = encoded.once_staged();
  encoded.buffer = buffer;
  encoded.data = data;
  working_--;
}

void BlockSchedule::settled(size_t block, Bytes data) {
  State& settled = blocks_[block];
  settled.data = data;
  settled.phase = data.empty() ? Phase::kLeftOut : Phase::kReady;
  working_--;
  if (!data.empty()) return;
  if (settled.buffer) buffers_->give(settled.buffer);
  written_++;
}

void BlockSchedule::written(size_t block) {
  if (blocks_[block].buffer) buffers_->give(blocks_[block].buffer);
  in_flight_--;
  written_++;
}

void BlockSchedule::fail(Status status) {
  if (error_.ok()) error_ = std::move(status);
}

bool BlockSchedule::has_just_staged() {
  if (all_staged_ || staged_ != blocks_.size()) return false;
  while (fetched_ < blocks_.size() && blocks_[fetched_].has_left()) fetched_++;
  return all_staged_ = fetched_ == blocks_.size();
}

}  // namespace ckpt::save
