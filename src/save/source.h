// Bytes that a save reads. Only a Source knows where they are: in a row, with strides or as rows of a table, in memory
// of the host or of a device, the caller's or the engine's own. It is made when it is wanted, of a tensor's record. Any
// thread may use it.
#pragma once

#include <functional>

#include "device/transfers.h"
#include "save/content.h"

namespace ckpt::save {

struct Source {
  const SaveTensor* tensor = nullptr;  // null: the engine's own memory
  const std::byte* data = nullptr;     // if the host has the bytes in a row
  uint64_t first = 0;                  // of the tensor's bytes, in the row-major order of its region

  static Source of(Bytes own) { return {.data = own.data()}; }
  // From byte `first` on.
  static Source of(const SaveTensor& tensor, uint64_t first = 0) {
    const bool in_a_row = tensor.arrangement == Arrangement::kRow && tensor.device == 0;
    return {.tensor = &tensor, .data = in_a_row ? tensor.data + first : nullptr, .first = first};
  }

  bool on_device() const { return tensor && tensor->device != 0; }
  // All positions and sizes below are in bytes from `first` on, and end at whole byte units of the tensor.

  // The bytes where they lie, if the host has them in a row; else empty.
  Bytes direct(uint64_t at, uint64_t size) const { return data ? Bytes(data + at, size) : Bytes(); }
  // Copies them. What is the host's needs no `transfers`, and cannot fail.
  Status read(uint64_t at, MutableBytes to, device::Transfers* transfers) const;
  // direct(), or else read() into `scratch`, which grows.
  Result<Bytes> view(uint64_t at, uint64_t size, std::vector<std::byte>* scratch, device::Transfers* transfers) const;
  // The same as read(), but of a device's memory into pinned memory, and returns before the bytes are there; end_read()
  // once they are. It may need `scratch` (see Transfers::begin_gather), and has nothing to do if they come in order.
  Status begin_read(uint64_t at, MutableBytes to, device::Transfers& transfers) const;
  void end_read(uint64_t at, MutableBytes fetched, std::vector<std::byte>* scratch) const;
  bool comes_in_order() const { return !tensor || tensor->arrangement != Arrangement::kStrided; }
};

// Memory of a save's caller that is filled only as the save comes to it (ckpt_late_memory of ckpt_layer.h): an import
// from a web server, which would not fit into memory whole. Called by the threads of the save.
class LateMemory {
 public:
  virtual ~LateMemory() = default;
  // Fills samples of what is to come, and returns once they are there.
  virtual Status fill(const std::vector<Bytes>& samples) = 0;
  // What the save will read: the memory of block after block, in this order. Ranges of other memory may be among them.
  virtual Status begin(std::vector<std::vector<Bytes>> blocks) = 0;
  // Returns once a block is there. Asks `go_on` now and then, and ends with its error.
  virtual Status wait(size_t block, const std::function<Status()>& go_on) = 0;
  // Nobody reads that block any more.
  virtual void done(size_t block) = 0;
};

}  // namespace ckpt::save
