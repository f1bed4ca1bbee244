#include "save/staging_buffers.h"

namespace ckpt::save {

bool StagingBuffers::has(size_t wanted) {
  while (sure_ - used_ < wanted && sure_ < count_) {
    if (room_() < kStep)
      count_ = sure_;
    else
      sure_ = std::min<size_t>(count_, sure_ + std::max<uint64_t>(kStep / buffer_bytes_, 1));
  }
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
