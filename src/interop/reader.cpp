#include "interop/reader.h"

namespace ckpt::interop {

const ForeignPiece* ForeignTensor::whole() const {
  return pieces.size() == 1 && pieces[0].region.kind == RegionKind::kWhole ? pieces.data() : nullptr;
}

uint64_t ForeignTensor::elements() const {
  uint64_t count;
  count_elements(shape.span(), &count);  // was checked when the file was read
  return count;
}

uint64_t ForeignTensor::bytes() const {
  uint64_t size;
  count_bytes(elements(), dtype, &size);
  return size;
}

Result<format::Tree> ForeignCheckpoint::take_tree() {
  if (tree) return *std::exchange(tree, std::nullopt);
  format::Tree dict;
  auto fill = [&]() -> Status {
    CKPT_TRY(dict.begin(CKPT_NODE_DICT));
    for (const ForeignTensor& tensor : tensors) {
      CKPT_TRY(dict.key(tensor.name));
      CKPT_TRY(dict.add_tensor(tensor.name));
    }
    return dict.end();
  };
  // What is wrong with a tree that files asked for is wrong with the files.
  if (const Status status = fill(); !status.ok()) return Status(CKPT_FORMAT, status.message());
  return dict;
}

}  // namespace ckpt::interop
