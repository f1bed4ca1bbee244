#include "save/staging_buffers.h"

namespace ckpt::save {

BufferCounts count_buffers(const BufferWants& wants) {
  const bool encodes = wants.most_reserve != 0;
  BufferCounts counts;
  counts.sure = std::max<size_t>(wants.budget / wants.buffer_bytes, encodes ? 2 : 1);
  if (encodes) counts.reserve = std::clamp<size_t>(counts.sure / 2, 1, wants.most_reserve);
  const uint64_t more = wants.room < StagingBuffers::kStep ? 0 : wants.room / wants.buffer_bytes;
  counts.all = std::min<uint64_t>(wants.staging + counts.reserve, counts.sure + more);
  return counts;
}

bool StagingBuffers::has(size_t wanted) {
  while (sure_ - used_ < wanted && sure_ < count_) {
    if (room_() < kStep)
      count_ = sure_;
    else
      sure_ = std::min<size_t>(count_, sure_ + std::max<uint64_t>(kStep / buffer_bytes_, 1));
  }
  free_.reserve(sure_);  // so that give() needs no memory: it is called where a write has ended
  return free_.size() + sure_ - used_ >= wanted;
}

std::byte* StagingBuffers::take() {
  if (used_ < sure_) return memory_.bytes().data() + used_++ * buffer_bytes_;
  std::byte* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

Status StagingBuffers::populate(std::byte* buffer) const {
  return fresh_ ? Mapping::make_pages({buffer, buffer_bytes_}) : Ok();
}

Mapping StagingBuffers::end() {
  if (fresh_) memory_.shrink(count_ * buffer_bytes_);
  return std::move(memory_);
}

}  // namespace ckpt::save
