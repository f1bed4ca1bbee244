#include "load/views.h"

#include <algorithm>

#include "plan/box.h"

namespace ckpt::load {

// ---- windows ----

// `box` is of the request's view, `memory` is that of the box.
static ViewWindow window_of(const ViewRequest& request, const Box& box, const device::Memory& memory) {
  ViewWindow window{&request, box, memory, request.named.view()[0], 1};
  const std::span<const uint64_t> strides = request.strides_in_target();
  for (int d = 0; d < box.ndim(); d++) {
    window.first += box.offset[d] * strides[static_cast<size_t>(d)];
    window.count += (box.extent[d] - 1) * strides[static_cast<size_t>(d)];
  }
  return window;
}

bool ViewWindow::straight() const {
  const std::span<const uint64_t> strides(memory.strides.data(), static_cast<size_t>(box.ndim()));
  return plan::is_contiguous(box.extent.span(), request->strides_in_target()) &&
         plan::is_contiguous(box.extent.span(), strides);
}

// Keeps the first half of the window along a dimension, and returns the second.
static ViewWindow cut(ViewWindow* window, int dimension) {
  Box first = window->box, second = first;
  const uint64_t kept = first.extent[dimension] / 2;
  first.extent[dimension] = kept;
  second.offset[dimension] += kept;
  second.extent[dimension] -= kept;
  device::Memory memory = window->memory;
  const ViewRequest& request = *window->request;
  memory.data += kept * memory.strides[static_cast<size_t>(dimension)] * request.want.geometry.width;
  *window = window_of(request, first, window->memory);
  return window_of(request, second, memory);
}

// The dimension along which the window reaches furthest in the target: halving it makes the range shorter, and does
// not make the ranges of the halves overlap more than they must.
static int widest(const ViewWindow& window) {
  const std::span<const uint64_t> strides = window.request->strides_in_target();
  int found = 0;
  uint64_t most = 0;
  for (int d = 0; d < window.box.ndim(); d++) {
    const uint64_t reach = (window.box.extent[d] - 1) * strides[static_cast<size_t>(d)];
    if (reach > most) found = d;
    most = std::max(most, reach);
  }
  return found;
}

// A flat range of a view is a few boxes that follow each other in memory.
void ViewWalk::start(const ViewRequest& request) {
  const device::RegionRequest& want = request.want;
  if (plan::units_of(want.geometry, want.units) == 0) return;
  if (want.units.kind != RegionKind::kFlat)
    return rest_.push_back(window_of(request, plan::order_of(want.geometry, want.units).box, want.memory));
  device::Memory memory = want.memory;
  for (const Box& box :
       plan::boxes_of_range(Box::whole(want.geometry.shape), want.units.flat_offset, want.units.flat_size)) {
    memory.ndim = box.ndim();
    memory.strides = plan::contiguous_strides(box.extent).dims;
    rest_.push_back(window_of(request, box, memory));
    memory.data += box.volume() * want.geometry.width;
  }
  std::reverse(rest_.begin(), rest_.end());
}

bool ViewWalk::next(uint64_t most_bytes, ViewWindow* window) {
  while (rest_.empty() && begun_ < requests_->size()) start((*requests_)[begun_++]);
  if (rest_.empty()) return false;
  *window = rest_.back();
  rest_.pop_back();
  while (window->bytes() > most_bytes && !window->straight()) rest_.push_back(cut(window, widest(*window)));
  return true;
}

// ---- reading through them ----

static constexpr uint64_t kBounce = 64 << 10;  // memory through which elements go that are strided on both sides

Status Views::begin(uint64_t most_bytes) {
  most_bytes_ = most_bytes - kBounce;
  ViewWindow window{};
  for (ViewWalk walk(&requests_); walk.next(most_bytes_, &window);)
    if (!window.straight()) bytes_left_ += window.bytes();
  if (bytes_left_ == 0) return Ok();
  CKPT_ASSIGN(memory_, Mapping::make(std::min(most_bytes, bytes_left_ + kBounce)));
  return Ok();
}

void Views::plan_window(const ViewWindow& window, std::byte* to, uint8_t device, LoadPlan* plan) {
  const checkpoint::TensorRef& tensor = window.request->named.tensor;
  const plan::Geometry target = *plan::geometry_of(tensor.dtype(), tensor.shape());
  Region range;
  range.kind = RegionKind::kFlat;
  range.flat_offset = window.first;
  range.flat_size = window.count;
  add_boxes(plan, tensor, target, range,
            {.data = to, .dtype = target.dtype, .strides = {1}, .ndim = 1, .device = device});
}

bool Views::plan_next(LoadPlan* plan) {
  planned_.clear();
  uint64_t used = 0;
  for (ViewWindow window{}; walk_.next(most_bytes_, &window);) {
    if (window.straight()) {
      plan_window(window, window.memory.data, window.memory.device, plan);
      continue;
    }
    if (used + window.bytes() > memory_.bytes().size() - kBounce) {
      walk_.put_back(window);
      return true;
    }
    plan_window(window, memory_.bytes().data() + used, 0, plan);
    planned_.push_back(window);
    used += window.bytes();
    bytes_left_ -= window.bytes();
  }
  return false;
}

// `from` is where the window's first element is.
static Status copy_window(ViewWindow window, const std::byte* from, MutableBytes bounce, device::Transfers& transfers) {
  const uint64_t width = window.request->want.geometry.width, volume = window.box.volume();
  device::Memory target{.data = const_cast<std::byte*>(from),
                        .dtype = window.request->want.geometry.dtype,
                        .strides = {},
                        .ndim = window.box.ndim()};
  std::ranges::copy(window.request->strides_in_target(), target.strides.begin());
  const std::span<const uint64_t> strides(window.memory.strides.data(), static_cast<size_t>(window.box.ndim()));
  const bool on_host = window.memory.device == 0;
  if (on_host && plan::is_contiguous(window.box.extent.span(), strides)) {
    device::gather(target, window.box.extent, 0, volume, {window.memory.data, volume * width});
    return Ok();
  }
  if (volume * width > bounce.size()) {
    const auto extents = window.box.extent.span();
    const uint64_t first = window.first;
    const ViewWindow second = cut(&window, static_cast<int>(std::ranges::max_element(extents) - extents.begin()));
    CKPT_TRY(copy_window(second, from + (second.first - first) * width, bounce, transfers));
    return copy_window(window, from, bounce, transfers);
  }
  const MutableBytes elements = bounce.first(volume * width);
  device::gather(target, window.box.extent, 0, volume, elements);
  if (!on_host)
    return transfers.scatter(elements, target.dtype, window.box, 0, volume, window.box, window.memory).status();
  (void)device::scatter(elements, target.dtype, window.box, 0, volume, window.box, window.memory);
  return Ok();
}

Status Views::copy(device::Transfers& transfers) const {
  const std::byte* from = memory_.bytes().data();
  for (const ViewWindow& window : planned_) {
    CKPT_TRY(copy_window(window, from, memory_.bytes().last(kBounce), transfers));
    from += window.bytes();
  }
  return Ok();
}

}  // namespace ckpt::load
