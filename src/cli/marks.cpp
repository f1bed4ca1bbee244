#include "cli/marks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/text.h"

namespace cli {
namespace {

bool is_complex(int32_t dtype) {
  return dtype == CKPT_DTYPE_C32 || dtype == CKPT_DTYPE_C64 || dtype == CKPT_DTYPE_C128;
}

bool is_set(const ckpt::Node& record, const char* key) {
  const std::optional<ckpt::Node> field = record.find(key);
  return field && field->kind == CKPT_NODE_BOOL && field->bool_value != 0;
}

// The fields of a quantizer that are no tensors.
std::string quantizer_of(const ckpt::Node& record) {
  const std::optional<ckpt::Node> scheme = record.find("qscheme"), dtype = record.find("dtype");
  const bool of_integers =
      dtype && dtype->kind == CKPT_NODE_TEXT &&
      (dtype->text_view().starts_with("torch.qint") || dtype->text_view().starts_with("torch.quint"));
  if (record.text_view() != "torch.QTensor" && !of_integers) return "";
  std::string text = scheme && scheme->kind == CKPT_NODE_TEXT ? std::string(scheme->text_view()) : "quantized";
  for (const char* key : {"scale", "zero_point", "axis"}) {
    const std::optional<ckpt::Node> field = record.find(key);
    if (field && field->kind == CKPT_NODE_FLOAT)
      text += strformat(", {} {}", key, print_format("%.17g", field->float_value));
    if (field && field->kind == CKPT_NODE_INT) text += strformat(", {} {}", key, field->int_value);
  }
  return text;
}

// The tensor that a record is about, perhaps by another record.
std::optional<ckpt::Node> tensor_of(std::optional<ckpt::Node> node) {
  while (node && node->kind == CKPT_NODE_RECORD) node = node->find("data");
  return node && node->kind == CKPT_NODE_TENSOR ? node : std::nullopt;
}

}  // namespace

MarkedTensors marks_in(ckpt::TreeView tree) {
  MarkedTensors found;
  const uint64_t count = tree.size();
  for (uint64_t i = 0; i < count; i++) {
    const ckpt::Node node = tree.at(i);
    if (node.kind != CKPT_NODE_RECORD) continue;
    const Marks marks{is_set(node, "conj"), is_set(node, "neg"), quantizer_of(node)};
    if (!marks.conj && !marks.neg && marks.quantized.empty()) continue;
    const std::optional<ckpt::Node> tensor = tensor_of(node);
    if (!tensor) continue;
    Marks& all = found[std::string(tensor->text_view())];
    all.conj |= marks.conj;
    all.neg |= marks.neg;
    if (all.quantized.empty()) all.quantized = marks.quantized;
  }
  return found;
}

MarkedTensors marks_in(const ckpt::Reader& reader) {
  const std::vector<std::string> trees = tree_names(reader);
  if (std::find(trees.begin(), trees.end(), CKPT_TREE_OBJECT) == trees.end()) return {};
  try {
    return marks_in(reader.tree().view());
  } catch (const ckpt::Error& error) {
    std::fputs(
        strformat("ckpt: note: elements are shown as they are stored, since the state tree, which says what torch "
                  "makes of them, cannot be read: {}\n",
                  escaped(error.what()))
            .c_str(),
        stderr);
    return {};
  }
}

Marks marks_of(const MarkedTensors& marked, const std::string& tensor) {
  const auto found = marked.find(tensor);
  return found == marked.end() ? Marks() : found->second;
}

bool can_turn(int32_t dtype) {
  return is_complex(dtype) || dtype == CKPT_DTYPE_F16 || dtype == CKPT_DTYPE_BF16 || dtype == CKPT_DTYPE_F32 ||
         dtype == CKPT_DTYPE_F64;
}

// The sign of a number is the top bit of its last byte.
void turn(const Marks& marks, int32_t dtype, std::vector<std::byte>* data) {
  const bool pairs = is_complex(dtype);
  const auto width = static_cast<size_t>(dtype % 256) / (pairs ? 16 : 8);
  for (size_t i = 0; (i + 1) * width <= data->size(); i++) {
    const bool imaginary = pairs && i % 2 == 1;
    if (marks.neg != (marks.conj && imaginary)) (*data)[(i + 1) * width - 1] ^= std::byte{0x80};
  }
}

}  // namespace cli
