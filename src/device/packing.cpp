#include "device/packing.h"

#include <algorithm>
#include <functional>

#include "plan/box.h"

namespace ckpt::device {

// From the innermost dimension of the memory on. As long as no dimension leaves gaps, the packed elements lie as those
// of the memory do, which are then one run; this holds for permuted, repeated and overlapping elements, too.
Packing::Packing(const Shape& extent, std::span<const uint64_t> strides, uint64_t width) : width_(width) {
  std::array<int, kMaxNdim> order;
  int count = 0;
  for (int d = extent.ndim - 1; d >= 0; d--)
    if (extent[d] > 1 && strides[static_cast<size_t>(d)] != 0) order[static_cast<size_t>(count++)] = d;
  auto stride_of = [&](int d) { return strides[static_cast<size_t>(d)]; };
  std::ranges::stable_sort(order.begin(), order.begin() + count, {}, stride_of);
  bool one_run = true;
  for (int i = 0; i < count; i++) {
    const int d = order[static_cast<size_t>(i)];
    one_run &= stride_of(d) <= units_;
    strides_[static_cast<size_t>(d)] = one_run ? stride_of(d) : units_;
    if (one_run)
      run_ = units_ += (extent[d] - 1) * stride_of(d);
    else
      add_loop(extent[d], stride_of(d));
  }
  std::ranges::stable_sort(loops_.begin(), loops_.begin() + loop_count_, std::greater<>(), &Loop::extent);
  in_order_ = plan::is_contiguous(extent.span(), strides_);
}

void Packing::add_loop(uint64_t extent, uint64_t memory) {
  const uint64_t packed = units_;
  units_ *= extent;
  if (loop_count_ != 0)
    if (Loop& last = loops_[loop_count_ - 1]; last.extent * last.memory == memory) {
      last.extent *= extent;
      return;
    }
  loops_[loop_count_++] = {extent, packed, memory};
}

}  // namespace ckpt::device
