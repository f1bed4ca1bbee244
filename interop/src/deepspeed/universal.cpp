#include "interop/src/deepspeed/universal.h"

#include <algorithm>

#include "interop/src/json.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

using tree::kNoNode;

Result<UniversalState> UniversalState::open(const std::string& directory, const ReadOptions& options,
                                            ForeignCheckpoint& to) {
  UniversalState state;
  state.directory_ = directory + "zero/";
  for (const std::string& name : names_in_directory(state.directory_, options.folder)) {
    if (name == "optimizer_state.pt") {
      CKPT_ASSIGN(DeepSpeedFile file, DeepSpeedFile::open(state.directory_ + name, options, to));
      state.optimizer_.push_back(std::move(file));
      continue;
    }
    std::vector<Value> values;
    const std::vector<std::string> entries = names_in_directory(state.directory_ + name, options.folder);
    expect_files(state.directory_ + name, entries, options.folder);
    for (const std::string& entry : entries) {
      if (!entry.ends_with(".pt")) continue;
      CKPT_ASSIGN(DeepSpeedFile file, DeepSpeedFile::open(state.directory_ + name + '/' + entry, options, to, entries));
      const uint32_t param = file.find(0, "param");
      values.push_back({entry.substr(0, entry.size() - 3), std::move(file), param == kNoNode ? 0 : param});
    }
    if (values.empty()) continue;
    const auto weight = std::ranges::find(values, kWeight, &Value::key);
    if (weight == values.end() || weight->file.tensor(weight->node) == SIZE_MAX)
      return Status(CKPT_INCOMPLETE, state.directory_ + name + " has no " + kWeight + ".pt with a tensor")
          .with("path", state.directory_ + name)
          .with("tensor", name);
    std::rotate(values.begin(), weight, weight + 1);
    state.names_.push_back(name);
    state.parameters_.emplace(name, std::move(values));
  }
  return state;
}

const UniversalState::Value& UniversalState::weight(const std::string& name) const {
  return parameters_.find(name)->second[0];
}

Status UniversalState::check(const std::string& where, const std::vector<ZeroGroup>& groups) {
  for (const ZeroGroup& group : groups)
    for (const ZeroParameter& parameter : group) {
      if (!has(parameter.name))
        return Status(CKPT_INCOMPLETE, directory_ + " lacks " + shown(parameter.name) + ", which " + where + " lists")
            .with("path", directory_)
            .with("tensor", parameter.name);
      const Value& value = weight(parameter.name);
      const Shape& found = value.file.tensors()[value.file.tensor(value.node)].shape;
      // The rows that fill up a vocabulary are left out.
      const bool vocabulary = value.file.find(0, "vocab_tensor") != kNoNode;
      if (found == parameter.shape || vocabulary) continue;
      if (found.ndim == 1 && found[0] == parameter.elements) {
        shapes_[parameter.name] = parameter.shape;
        continue;
      }
      return Status(CKPT_MISMATCH, value.file.path() + ": expected " + to_text(parameter.shape) + " as " + where +
                                       " says, found " + to_text(found))
          .with("path", value.file.path())
          .with("tensor", parameter.name);
    }
  return Ok();
}

Status UniversalState::put(StateBuilder& to, const Value& value, const std::string& name,
                           const std::string& path) const {
  const size_t number = value.file.tensor(value.node);
  const auto shape = shapes_.find(name);
  const bool flat = shape != shapes_.end() && number != SIZE_MAX && value.file.tensors()[number].shape.ndim == 1 &&
                    !value.file.tensors()[number].pieces[0].strides;
  if (!flat) return to.copy(value.file, value.node, path, SIZE_MAX);
  ForeignTensor tensor = value.file.tensors()[number];
  uint64_t elements = 0;
  count_elements(shape->second.span(), &elements);
  if (tensor.shape[0] != elements)
    return Status(CKPT_MISMATCH, value.file.path() + ": expected " + std::to_string(elements) + " elements, found " +
                                     to_text(tensor.shape))
        .with("path", value.file.path())
        .with("tensor", name);
  tensor.name = path;
  tensor.target = ForeignTensor::kNoTarget;
  tensor.shape = shape->second;
  return to.add(std::move(tensor));
}

Status UniversalState::put_weight(StateBuilder& to, const std::string& name, const std::string& path) const {
  return put(to, weight(name), name, path);
}

Status UniversalState::put_optimizer(StateBuilder& to, const std::vector<ZeroGroup>& groups) const {
  CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
  CKPT_TRY(to.tree.key("state"));
  CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
  for (const std::string& name : names_) {
    const std::vector<Value>& values = parameters_.find(name)->second;
    if (values.size() == 1) continue;
    const std::string at = StateBuilder::joined("optimizer/state", name);
    CKPT_TRY(to.tree.key(name));
    CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
    for (size_t i = 1; i < values.size(); i++) {
      CKPT_TRY(to.tree.key(values[i].key));
      CKPT_TRY(put(to, values[i], name, StateBuilder::joined(at, values[i].key)));
    }
    CKPT_TRY(to.tree.end());
  }
  CKPT_TRY(to.tree.end());
  if (optimizer_.empty()) return to.tree.end();
  const DeepSpeedFile& file = optimizer_[0];
  for (uint32_t child = file.first(0); child != kNoNode; child = file.next(child)) {
    const std::string_view key = file.tree()[child].key_view();
    if (is_zero_layout(key)) continue;
    if (key != "param_groups") {
      CKPT_TRY(to.copy_entry(file, child, "optimizer/", 0));
      continue;
    }
    CKPT_TRY(to.tree.key(key));
    CKPT_TRY(put_parameter_groups(to, file, child, groups));
  }
  return to.tree.end();
}

}  // namespace ckpt::interop
