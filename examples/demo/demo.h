// Shared by the demo's programs: the source weights, and the training state made from them.
//
// The source is a safetensors file. It is read by a table (name, dtype, shape, offset) from examples/demo/weights.py,
// so that what ckpt loads is compared with bytes that ckpt has not touched. Adam's moments are a function of the
// weights: every process can make its share alone, and knows the value of every element.
#pragma once

#include <ckpt.hpp>

namespace demo {

using Shape = ckpt::Extents;

// "--name value" pairs of the command line.
class Arguments {
 public:
  Arguments(int argc, char** argv);
  std::string text(const std::string& name, const std::string& fallback = "") const;
  uint32_t number(const std::string& name, uint32_t fallback = 0) const;
  bool has(const std::string& name) const { return values_.count(name) > 0; }

 private:
  std::map<std::string, std::string> values_;
};

// --store, with the options --mirror and --cache of its own.
ckpt::Store open_store(const Arguments& arguments);

// main() of each program: prints an error of ckpt and returns 1.
int run(int argc, char** argv, int (*body)(const Arguments& arguments));

struct Tensor {
  std::string name;
  int32_t dtype = 0;
  Shape shape;
  uint64_t element_bytes = 0;
  int64_t elements = 0;
  const char* data = nullptr;  // in the mapped source
};

// The weights, mapped read-only for the life of the process.
class Source {
 public:
  Source(const std::string& safetensors, const std::string& table);
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

enum class Kind { kWeight, kExpAvg, kExpAvgSq };
constexpr Kind kKinds[] = {Kind::kWeight, Kind::kExpAvg, Kind::kExpAvgSq};

std::string state_name(const Tensor& tensor, Kind kind);

// Elements [first, first + count) of the flattened tensor, as training would hold them. Integers have no moments.
std::vector<char> state_values(const Tensor& tensor, Kind kind, int64_t first, int64_t count);
inline bool has_moments(const Tensor& tensor) { return tensor.dtype == CKPT_DTYPE_F32; }

struct Box {
  Shape offset, extent;
  int64_t elements() const;
};
Box whole(const Tensor& tensor);
// Share `index` of `count` of dimension `dim`; may be empty.
Box share(const Tensor& tensor, size_t dim, uint32_t index, uint32_t count);
std::vector<char> box_values(const Tensor& tensor, Kind kind, const Box& box);

inline ckpt::Tensor describe(const Tensor& tensor) { return ckpt::Tensor(tensor.dtype, tensor.shape); }

// The state of a rank's random generator; too big to be stored inside the manifest.
std::string rng_state(uint32_t rank);
std::string loader_state(uint32_t rank);
std::string trainer_state(int64_t step);

std::string size_text(uint64_t bytes);
std::string rate_text(uint64_t bytes, double seconds);  // "262.1 MB in 0.31 s, 0.85 GB/s"

}  // namespace demo
