// The elements of many tensors of a checkpoint, one after another through one buffer of bounded size: what an export
// writes. Small neighbours are read together, large tensors in pieces. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/client.h"
#include "interop/src/state.h"

namespace ckpt::interop {

// Elements [begin, begin + size) of a flattened tensor; with `axes` all of them, or those of `box`, in that order of
// the dimensions from the outermost to the innermost.
struct TensorRange {
  std::string name;
  uint16_t dtype = 0;
  Shape shape;
  uint64_t begin = 0, size = 0;
  std::vector<int> axes{};
  std::optional<Box> box{};
};

class TensorStream {
 public:
  static constexpr uint64_t kBufferBytes = 64 << 20;

  struct Piece {
    size_t item;             // as the caller numbered it
    uint64_t bytes;          // in this batch
    uint64_t item_bytes;     // in all
    bool is_first, is_last;  // of its item
  };
  // Gets what was added, in its order: the pieces of a batch and their bytes without gaps. An item without elements is
  // one piece of no bytes.
  using Sink = std::function<Status(std::span<const Piece> pieces, Bytes bytes)>;

  // `buffer` holds at least one group of 8 elements, 128 bytes.
  TensorStream(State state, client::Options options, MutableBytes buffer, Sink sink)
      : state_(std::move(state)), options_(std::move(options)), buffer_(buffer), sink_(std::move(sink)) {}

  Status add(size_t item, const TensorRange& range);
  Status flush();

 private:
  Status add_piece(const Piece& piece, const std::string& name, const ckpt_tensor_desc& desc);
  Status read(const std::string& name, const ckpt_tensor_desc& desc, MutableBytes out) const;
  Status read_columns(const std::string& name, const ckpt_tensor_desc& desc, MutableBytes out) const;
  // A box of an item whose elements lie in the order of range.axes, in as few pieces as the buffer allows.
  Status add_box(size_t item, const TensorRange& range, const Box& box, size_t level);

  State state_;
  client::Options options_;
  MutableBytes buffer_;
  Sink sink_;
  uint64_t used_ = 0;
  std::vector<Piece> pieces_;
  std::optional<client::Load> load_;
};

}  // namespace ckpt::interop
