// What torch makes of a tensor's stored elements when it uses them: records of a state tree say it, and the tool must
// not show other numbers than torch does. One thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ckpt.hpp>

namespace cli {

struct Marks {
  bool conj = false, neg = false;
  bool operator==(const Marks&) const = default;
  std::string quantized;  // "torch.per_tensor_affine, scale 0.5, zero_point 3"; the elements are its integers
};
using MarkedTensors = std::map<std::string, Marks>;  // by the names of the tensors that have any

MarkedTensors marks_in(ckpt::TreeView tree);
// By the main tree. None, and a note on standard error, if it cannot be read.
MarkedTensors marks_in(const ckpt::Reader& reader);
Marks marks_of(const MarkedTensors& marked, const std::string& tensor);

// Conjugates and negates the elements as torch does; false if the dtype is none whose numbers this can turn.
bool can_turn(int32_t dtype);
void turn(const Marks& marks, int32_t dtype, std::vector<std::byte>* data);

}  // namespace cli
