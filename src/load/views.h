// Loads aliases that are views. A view's elements lie anywhere in its target, so they are read through windows: boxes
// of the view whose elements lie in a range of the flattened target that fits into the budget. What lies in one piece
// on both sides goes straight to the caller's memory. One thread.
#pragma once

#include <deque>
#include <vector>

#include "base/mapping.h"
#include "device/descriptor.h"
#include "device/transfers.h"
#include "load/load_plan.h"

namespace ckpt::load {

struct ViewRequest {
  checkpoint::Checkpoint::Named named;
  device::RegionRequest want;

  // In elements of the flattened target.
  std::span<const uint64_t> strides_in_target() const {
    return named.view().subspan(1 + named.alias->ndim(), named.alias->ndim());
  }
};

// A box of a view, and the memory it goes to. Its elements lie in [first, first + count) of the flattened target.
struct ViewWindow {
  const ViewRequest* request;
  Box box;
  device::Memory memory;
  uint64_t first, count;

  uint64_t bytes() const { return count * request->want.geometry.width; }
  // Its elements lie in one piece, in the target and in memory.
  bool straight() const;
};

// Goes through the windows of all requests, in order.
class ViewWalk {
 public:
  explicit ViewWalk(const std::deque<ViewRequest>* requests) : requests_(requests) {}
  // The next window, straight or of at most `most_bytes` (which hold one element at least). False after the last.
  bool next(uint64_t most_bytes, ViewWindow* window);
  void put_back(const ViewWindow& window) { rest_.push_back(window); }

 private:
  void start(const ViewRequest& request);

  const std::deque<ViewRequest>* requests_;
  size_t begun_ = 0;              // of the requests
  std::vector<ViewWindow> rest_;  // of the last of these; the next window comes last
};

class Views {
 public:
  Views() = default;
  Views(const Views&) = delete;  // `walk_` points into it
  void add(const ViewRequest& request) { requests_.push_back(request); }
  const std::deque<ViewRequest>& requests() const { return requests_; }

  // Once, after all were added: makes the memory for windows, of at most `most_bytes`. NOMEM.
  Status begin(uint64_t most_bytes);
  uint64_t memory_bytes() const { return memory_.bytes().size(); }
  // What windows that are not planned yet will read.
  uint64_t bytes_left() const { return bytes_left_; }
  // Adds to the plan what the next windows want, as many as fit into the memory. False if none is left after these.
  bool plan_next(LoadPlan* plan);
  // Copies what was read for the windows that were planned last.
  Status copy(device::Transfers& transfers) const;

 private:
  static void plan_window(const ViewWindow& window, std::byte* to, uint8_t device, LoadPlan* plan);

  std::deque<ViewRequest> requests_;
  ViewWalk walk_{&requests_};
  uint64_t most_bytes_ = 0;          // of a window
  Mapping memory_;                   // for the windows, and to copy elements
  std::vector<ViewWindow> planned_;  // one after another in `memory_`
  uint64_t bytes_left_ = 0;
};

}  // namespace ckpt::load
