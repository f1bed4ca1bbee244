// numpy's arrays and scalars in a pickle that torch.load(weights_only=True) reads, where they are torch's tensors and
// Python's numbers; or as numpy itself pickles them.
#include <charconv>
#include <cstring>
#include <vector>

#include "device/convert.h"
#include "interop/src/pt/dtype.h"
#include "interop/src/pt/encoder.h"
#include "interop/src/pt/numpy.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::TreeNode;

namespace {

// numpy pickles elements among the values, which are made in memory before anything is written.
constexpr uint64_t kMostOfAnArray = 64 << 20;

// The elements in a row of the dimensions' order in `range`.
Result<std::string> elements_of(const State& state, const TensorRange& range, uint64_t bytes) {
  std::string elements;
  std::vector<std::byte> buffer(std::max<uint64_t>(bytes, 128));
  TensorStream stream(state, {}, buffer, [&](std::span<const TensorStream::Piece>, Bytes piece) -> Status {
    elements += as_text(piece);
    return Ok();
  });
  CKPT_TRY(stream.add(0, range));
  CKPT_TRY(stream.flush());
  return elements;
}

// The little-endian bytes of a number that numpy has as `dtype`; empty for what is none.
std::string bytes_of_number(uint16_t dtype, const TreeNode& value) {
  const auto width = static_cast<size_t>(dtype_bits(dtype)) / 8;
  std::string bytes(width, '\0');
  const bool real = value.kind == CKPT_NODE_FLOAT;
  uint64_t integer = static_cast<uint64_t>(value.integer);
  if (value.kind == CKPT_NODE_BIGINT)
    std::from_chars(value.text_view().data(), value.text_view().data() + value.text_view().size(), integer);
  const auto single = static_cast<float>(value.real);
  if (real && dtype == CKPT_DTYPE_F64) {
    std::memcpy(bytes.data(), &value.real, width);
  } else if (real && dtype == CKPT_DTYPE_F32) {
    std::memcpy(bytes.data(), &single, width);
  } else if (real && dtype == CKPT_DTYPE_F16) {
    device::convert(CKPT_DTYPE_F32, reinterpret_cast<const std::byte*>(&single), dtype,
                    reinterpret_cast<std::byte*>(bytes.data()), 1, 1);
  } else if (!real && width <= 8) {
    std::memcpy(bytes.data(), &integer, width);
  } else {
    bytes.clear();
  }
  return bytes;
}

}  // namespace

// dtype("f4", False, True) with its state (3, "<", None, None, None, -1, -1, 0).
Status PtEncoder::numpy_dtype(uint16_t dtype) {
  pickle_.global("numpy", "dtype");
  CKPT_TRY(pickle_.text(numpy_code(dtype)));
  pickle_.boolean(false);
  pickle_.boolean(true);
  pickle_.tuple3();
  pickle_.reduce();
  pickle_.begin_tuple();
  pickle_.integer(3);
  CKPT_TRY(pickle_.text(dtype_bits(dtype) == 8 ? "|" : "<"));
  for (int i = 0; i < 3; i++) pickle_.none();
  for (const int64_t number : {-1, -1, 0}) pickle_.integer(number);
  pickle_.end_tuple();
  pickle_.build();
  return Ok();
}

Status PtEncoder::array(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t data, field(node, "data"));
  if (!options_.trusting || tree_[data].kind != CKPT_NODE_TENSOR) return leaf(tree_[data], {});
  CKPT_ASSIGN(TensorRange range, whole_of(state_, std::string(tree_[data].text_view())));
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(range.size, range.dtype));
  if (numpy_code(range.dtype).empty())
    return refuse(CKPT_UNSUPPORTED, node, "numpy has no dtype " + std::string(dtype_name(range.dtype)));
  if (bytes > kMostOfAnArray)
    return refuse(CKPT_UNSUPPORTED, node,
                  strformat("an array of numpy's of {} bytes; at most {} are written", bytes, kMostOfAnArray));
  const bool fortran = text(node, "order") == "F";
  for (int i = range.shape.ndim; fortran && i-- > 0;) range.axes.push_back(i);
  CKPT_ASSIGN(const std::string elements, elements_of(state_, range, bytes));
  pickle_.global("numpy.core.multiarray", "_reconstruct");
  pickle_.global("numpy", "ndarray");
  pickle_.integer(0);
  pickle_.tuple1();
  CKPT_TRY(pickle_.bytes("b"));
  pickle_.tuple3();
  pickle_.reduce();
  pickle_.begin_tuple();
  pickle_.integer(1);
  pickle_.extents(range.shape);
  CKPT_TRY(numpy_dtype(range.dtype));
  pickle_.boolean(fortran);
  CKPT_TRY(pickle_.bytes(elements));
  pickle_.end_tuple();
  pickle_.build();
  return Ok();
}

// numpy.float32{value}; the parts of a complex one are bytes.
Status PtEncoder::number(const TreeNode& node) {
  CKPT_ASSIGN(const uint32_t value, field(node, "value"));
  const TreeNode& found = tree_[value];
  const std::string_view name = node.text_view().substr(std::string_view("numpy.").size());
  const uint16_t dtype = name == "bool_" ? uint16_t{CKPT_DTYPE_BOOL} : torch_dtype_of_name(name).dtype;
  const bool plain = !found.container() && found.kind != CKPT_NODE_BYTES && found.kind != CKPT_NODE_TEXT;
  if (options_.trusting && plain && !numpy_code(dtype).empty())
    if (const std::string bytes = bytes_of_number(dtype, found); !bytes.empty()) {
      pickle_.global("numpy.core.multiarray", "scalar");
      CKPT_TRY(numpy_dtype(dtype));
      CKPT_TRY(pickle_.bytes(bytes));
      pickle_.tuple2();
      pickle_.reduce();
      return Ok();
    }
  if (found.kind != CKPT_NODE_BYTES) return put(value);
  double parts[2] = {};
  if (node.text_view() == "numpy.complex64" && found.text_size == 2 * sizeof(float)) {
    float narrow[2];
    std::memcpy(narrow, found.text, sizeof narrow);
    parts[0] = static_cast<double>(narrow[0]);
    parts[1] = static_cast<double>(narrow[1]);
  } else if (node.text_view() == "numpy.complex128" && found.text_size == sizeof parts) {
    std::memcpy(parts, found.text, sizeof parts);
  } else {
    return refuse(CKPT_UNSUPPORTED, node, "a number of class " + std::string(node.text_view()))
        .with("found", std::string(node.text_view()));
  }
  pickle_.global("__builtin__", "complex");
  pickle_.real(parts[0]);
  pickle_.real(parts[1]);
  pickle_.tuple2();
  pickle_.reduce();
  return Ok();
}

}  // namespace ckpt::interop
