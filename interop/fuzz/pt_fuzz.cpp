// The bytes as a whole .pt or safetensors file, and as the pickle of a .pt whose other parts are sound. Whatever is
// accepted is read to its last byte.
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "fuzz/harness.h"
#include "interop/src/formats.h"
#include "interop/tests/zip_fixture.h"

namespace ckpt::fuzz {
namespace {

using interop::ForeignCheckpoint;
using interop::ForeignPiece;
using interop::ForeignTensor;

// The number of elements from the first to the last of a view of row-major data.
uint64_t reach(const Shape& shape, std::span<const int64_t> strides) {
  uint64_t last = 0;
  for (int i = 0; i < shape.ndim; i++) last += (shape[i] - 1) * static_cast<uint64_t>(strides[static_cast<size_t>(i)]);
  return last + 1;
}

uint64_t read_tensor(ForeignCheckpoint& file, const ForeignTensor& tensor) {
  const ForeignPiece* whole = tensor.whole();
  must(whole != nullptr);
  const auto data = file.files.bytes(whole->bytes);
  must(data.ok() && data->size() == whole->bytes.size);
  uint64_t sum = 0;
  for (const std::byte byte : *data) sum += static_cast<uint64_t>(byte);
  const uint64_t elements = tensor.elements();
  if (elements == 0) return sum;
  const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
  const interop::Strides strides = whole->strides.value_or(interop::row_major(tensor.shape));
  must((reach(tensor.shape, strides) * bits + 7) / 8 == data->size());
  if (!tensor.is_alias()) return sum;
  const ForeignTensor& target = file.tensors[tensor.target];
  must(tensor.target < static_cast<size_t>(&tensor - file.tensors.data()) && !target.is_alias());
  must(target.dtype == tensor.dtype);
  must(tensor.target_offset + reach(tensor.shape, tensor.target_strides) <= target.elements());
  return sum;
}

// A file in memory.
class Input {
 public:
  explicit Input(Bytes bytes) : fd_(memfd_create("pt-fuzz", MFD_CLOEXEC)) {
    must(fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  Input(const Input&) = delete;
  ~Input() { close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

void open_file(Bytes bytes) {
  const Input input(bytes);
  auto file = interop::read_foreign(input.path(), {true, 1});
  must_blame_the_bytes(file.status());
  if (!file.ok()) return;
  std::set<std::string_view> names;
  for (const ForeignTensor& tensor : file->tensors) {
    must(names.insert(tensor.name).second);
    read_tensor(*file, tensor);
  }
  const auto tree = file->take_tree();
  must_blame_the_bytes(tree.status());
  if (tree.ok()) must(tree::parse_tree_json(tree::tree_json(*tree)).ok());
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
