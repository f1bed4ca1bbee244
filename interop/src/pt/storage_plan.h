// Which storages a .pt file gets and where in them its tensors lie: one storage for a tensor of the checkpoint and all
// its aliases, so that what shared memory shares it again. Made from the reader's names before anything is written.
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/strides.h"
#include "interop/src/tensor_stream.h"

namespace ckpt::interop {

struct PtStorage {
  TensorRange range;  // what it holds
  uint64_t bytes = 0;
};

// A tensor in a storage, in torch's elements.
struct PtPlace {
  uint16_t dtype = 0;
  Shape shape;
  Strides strides{};    // in elements
  uint64_t offset = 0;  // of the first element, in elements
  size_t storage = 0;   // position in storages(), which is also its key in the file
};

class PtStoragePlan {
 public:
  explicit PtStoragePlan(State state) : state_(std::move(state)) {}

  // Tensor or alias `name`. `type` is torch's class of the storage: storages of different classes cannot be one.
  // `axes`: the order of its elements in memory, from the outermost to the innermost; empty for row-major ones. FORMAT
  // for a name that the checkpoint lacks, UNSUPPORTED for packed elements that are no pairs of 4 bits.
  Result<PtPlace> place(const std::string& name, std::string_view type, const std::vector<int>& axes);
  // The same by itself, without gaps, even if it is an alias.
  Result<PtPlace> place_alone(const std::string& name, std::string_view type, const std::vector<int>& axes);
  // Elements [begin, begin + size) of it in a row, by themselves.
  Result<PtPlace> place_range(const std::string& name, std::string_view type, uint64_t begin, uint64_t size);
  // A box of it, by itself. UNSUPPORTED for elements of less than a byte.
  Result<PtPlace> place_box(const std::string& name, std::string_view type, const Box& box);

  const std::vector<PtStorage>& storages() const { return storages_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Result<size_t> storage_of(TensorRange range, std::string_view type);

  State state_;
  std::vector<PtStorage> storages_;
  std::map<std::string, size_t> position_;  // by type, range and name
  uint64_t bytes_ = 0;
};

// Of tensor or alias `name`: its dtype, shape and all of its elements. FORMAT, UNSUPPORTED as above.
Result<TensorRange> whole_of(const State& state, const std::string& name);
// The tensor that alias `name` is of; empty where it is none. FORMAT.
Result<std::string> target_of(const State& state, const std::string& name);

}  // namespace ckpt::interop
