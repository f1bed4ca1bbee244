// The bytes as a whole .pt or safetensors file, and as the pickle of a .pt whose other parts are sound. Whatever is
// accepted is read to its last byte.
#include <set>

#include "fuzz/harness.h"
#include "interop/foreign_file.h"
#include "interop/zip_fixture.h"

namespace ckpt::fuzz {
namespace {

using interop::ForeignFile;
using interop::ForeignTensor;

// The number of elements from the first to the last of a view of row-major data.
uint64_t reach(const Shape& shape, std::span<const int64_t> strides) {
  uint64_t last = 0;
  for (int i = 0; i < shape.ndim; i++) last += (shape[i] - 1) * static_cast<uint64_t>(strides[static_cast<size_t>(i)]);
  return last + 1;
}

uint64_t read_tensor(const std::vector<ForeignTensor>& tensors, const ForeignTensor& tensor) {
  uint64_t sum = 0;
  for (const std::byte byte : tensor.data) sum += static_cast<uint64_t>(byte);
  const uint64_t elements = tensor.elements();
  if (elements == 0) return sum;
  const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  must((reach(tensor.shape, tensor.strides) * bits + 7) / 8 == tensor.data.size());
  if (tensor.target == ForeignTensor::kNoTarget) return sum;
  const ForeignTensor& target = tensors[tensor.target];
  must(tensor.target < static_cast<size_t>(&tensor - tensors.data()) && target.target == ForeignTensor::kNoTarget);
  must(target.dtype == tensor.dtype);
  must(tensor.target_offset + reach(tensor.shape, tensor.target_strides) <= target.elements());
  return sum;
}

void open_file(Bytes bytes) {
  auto file = ForeignFile::parse("pt-fuzz", bytes, true, 1);
  must_blame_the_bytes(file.status());
  if (!file.ok()) return;
  std::set<std::string_view> names;
  for (const ForeignTensor& tensor : file->tensors()) {
    must(names.insert(tensor.name).second);
    read_tensor(file->tensors(), tensor);
  }
  const std::string json = format::tree_json(file->tree());
  must(format::parse_tree_json(json).ok());
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  const Bytes bytes = fuzz::input(data, size);
  fuzz::open_file(bytes);
  const std::string storage(64, 's');
  const interop::Zip zip = interop::make_zip({{"m/data.pkl", std::string(as_text(bytes))},
                                              {"m/data/0", storage},
                                              {"m/data/1", storage},
                                              {"m/data/2", storage}});
  fuzz::open_file(as_bytes(zip.bytes));
  return 0;
}
