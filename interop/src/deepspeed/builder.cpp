#include "interop/src/deepspeed/builder.h"

#include "interop/src/json.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::kNoNode;

Status StateBuilder::put(ForeignTensor tensor) {
  if (tensor.name.size() > kMaxName)
    return Status(CKPT_UNSUPPORTED, strformat("a tensor's path of {} bytes, at most {}", tensor.name.size(), kMaxName));
  if (!places_.emplace(tensor.name, to_.tensors.size()).second)
    return Status(CKPT_FORMAT, "two tensors are called " + shown(tensor.name)).with("tensor", tensor.name);
  to_.tensors.push_back(std::move(tensor));
  return Ok();
}

Status StateBuilder::add(ForeignTensor tensor) {
  CKPT_TRY(tree.add_tensor(tensor.name));
  return put(std::move(tensor));
}

// It has the target's pieces, so that it can take the target's place where that is left out.
ForeignTensor StateBuilder::alias_of(size_t target, std::string name) const {
  ForeignTensor alias = to_.tensors[target];
  alias.name = std::move(name);
  if (alias.is_alias()) return alias;  // of the same target
  alias.target = target;
  alias.target_strides = row_major(alias.shape);
  return alias;
}

Status StateBuilder::take(const DeepSpeedFile& file, size_t number, const std::string& name) {
  const ForeignTensor& from = file.tensors()[number];
  if (const auto taken = taken_.find(&from); taken != taken_.end()) return put(alias_of(taken->second, name));
  ForeignTensor tensor = from;
  tensor.name = name;
  tensor.target = ForeignTensor::kNoTarget;
  const auto target = from.is_alias() ? taken_.find(&file.tensors()[from.target]) : taken_.end();
  if (target != taken_.end() && !to_.tensors[target->second].is_alias())
    tensor.target = target->second;
  else if (from.is_alias() && from.bytes() > from.pieces[0].bytes.size)
    return Status(CKPT_UNSUPPORTED, file.path() + ": " + shown(from.name) + " repeats the elements of another tensor")
        .with("path", file.path())
        .with("tensor", from.name);
  taken_.emplace(&from, to_.tensors.size());
  return put(std::move(tensor));
}

Status StateBuilder::copy(const DeepSpeedFile& file, uint32_t number, const std::string& at, size_t cut) {
  const tree::TreeNode& node = file.tree()[number];
  if (node.kind == CKPT_NODE_TENSOR) {
    const size_t tensor = file.tensor(number);
    if (tensor == SIZE_MAX) return file.wrong(number, "no such tensor");
    const std::string name = at + std::string(node.text_view().substr(std::min<size_t>(cut, node.text_size)));
    CKPT_TRY(tree.add_tensor(name));
    return take(file, tensor, name);
  }
  if (!node.container()) return tree::copy_node(file.tree(), number, tree);
  CKPT_TRY(node.kind == CKPT_NODE_RECORD ? tree.begin(node.kind, node.text_view()) : tree.begin(node.kind));
  for (uint32_t child = file.tree().first_child(number); child != kNoNode; child = file.next(child))
    CKPT_TRY(copy_entry(file, child, at, cut));
  return tree.end();
}

Status StateBuilder::copy_entry(const DeepSpeedFile& file, uint32_t number, const std::string& at, size_t cut) {
  const tree::TreeNode& node = file.tree()[number];
  if (node.key_kind == CKPT_KEY_INT)
    CKPT_TRY(tree.key(node.place));
  else if (node.key_kind != CKPT_KEY_NONE)
    CKPT_TRY(tree.key(node.key_view()));
  return copy(file, number, at, cut);
}

Status StateBuilder::copy_own(const DeepSpeedFile& file, uint32_t node, const std::string& name) {
  const size_t number = file.tensor(node);
  if (number == SIZE_MAX) return copy(file, node, name, SIZE_MAX);
  ForeignTensor tensor = file.tensors()[number];
  if (tensor.shape.ndim != 0) return file.wrong(node, "expected a number, found a tensor " + to_text(tensor.shape));
  tensor.name = name;
  tensor.target = ForeignTensor::kNoTarget;
  return add(std::move(tensor));
}

Status StateBuilder::share(const std::string& name, const std::string& target) {
  CKPT_TRY(tree.add_tensor(name));
  shared_.emplace_back(name, target);
  return Ok();
}

Status StateBuilder::finish() {
  for (const auto& [name, target] : shared_) {
    const auto found = places_.find(target);
    if (found == places_.end())
      return Status(CKPT_MISMATCH, shown(name) + " shares its weights with " + shown(target) + ", which is not there")
          .with("tensor", name)
          .with("expected", target);
    CKPT_TRY(put(alias_of(found->second, name)));
  }
  return Ok();
}

}  // namespace ckpt::interop
