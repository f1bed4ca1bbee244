#include "interop/src/deepspeed/zero.h"

#include <algorithm>
#include <unordered_set>

#include "interop/src/json.h"

namespace ckpt::interop {

using tree::kNoNode;

namespace {

constexpr const char *kStateDict = "optimizer_state_dict", *kBaseState = "base_optimizer_state",
                     *kPartitions = "single_partition_of_fp32_groups", *kFlatGroups = "fp32_flat_groups";
// What is said otherwise here, or is of how the ranks divided the work.
constexpr std::string_view kZeroLayout[] = {kStateDict,        kBaseState,
                                            kPartitions,       kFlatGroups,
                                            "fp32_groups",     "group_paddings",
                                            "zero_stage",      "param_alignment_paddings",
                                            "partition_count", "param_slice_mappings"};

// ZeRO-1 and 2 fill their groups up to a multiple of this, in elements.
uint64_t zero2_aligned(uint64_t elements, size_t ranks) { return round_up(elements, 2 * ranks); }

}  // namespace

bool is_zero_layout(std::string_view key) { return std::ranges::find(kZeroLayout, key) != std::end(kZeroLayout); }

Result<std::vector<ZeroGroup>> zero_groups(const DeepSpeedFile& file, uint32_t param_shapes) {
  std::unordered_set<std::string_view> names;
  std::vector<ZeroGroup> groups;
  const auto add = [&](uint32_t dict) -> Status {
    if (!file.is_dict(dict)) return file.wrong(dict, "expected a dict of shapes");
    ZeroGroup& group = groups.emplace_back();
    for (uint32_t child = file.first(dict); child != kNoNode; child = file.next(child)) {
      const tree::TreeNode& node = file.tree()[child];
      if (node.key_kind != CKPT_KEY_TEXT) return file.wrong(child, "expected the name of a parameter");
      if (!names.insert(node.key_view()).second) return file.wrong(child, "it comes twice");
      ZeroParameter& parameter = group.emplace_back();
      parameter.name = node.key_view();
      CKPT_ASSIGN(parameter.shape, file.shape(child));
      count_elements(parameter.shape.span(), &parameter.elements);
    }
    return Ok();
  };
  if (file.is_dict(param_shapes)) {
    CKPT_TRY(add(param_shapes));
    return groups;
  }
  for (uint32_t child = file.first(param_shapes); child != kNoNode; child = file.next(child)) CKPT_TRY(add(child));
  return groups;
}

Result<ZeroState> ZeroState::make(const std::vector<DeepSpeedFile>& ranks, std::vector<ZeroGroup> groups) {
  ZeroState state(ranks, std::move(groups));
  CKPT_TRY(state.run());
  return state;
}

Status ZeroState::run() {
  const uint32_t first = states(0);
  zero3_ = ranks_[0].find(first, kFlatGroups) != kNoNode;
  CKPT_TRY(check_ranks());
  CKPT_TRY(check_one_save());
  const char* key = zero3_ ? kFlatGroups : kPartitions;
  const Find find = [&](size_t rank, size_t group) {
    return ranks_[rank].find(ranks_[rank].find(states(rank), key), static_cast<int64_t>(group));
  };
  for (size_t rank = 0; rank < ranks_.size(); rank++) {
    const DeepSpeedFile& file = ranks_[rank];
    const uint32_t list = file.find(states(rank), key);
    if (list == kNoNode) return file.wrong(0, std::string("it has no ") + key);
    if (file.tree()[list].child_count != groups_.size())
      return Status(CKPT_MISMATCH, strformat("{}: {} has {} groups, param_shapes {}", file.path(), key,
                                             file.tree()[list].child_count, groups_.size()))
          .with("path", file.path());
    std::vector<uint64_t>& lengths = lengths_.emplace_back();
    for (size_t group = 0; group < groups_.size(); group++) {
      const size_t tensor = file.tensor(find(rank, group));
      if (tensor == SIZE_MAX || file.tensors()[tensor].shape.ndim != 1)
        return file.wrong(find(rank, group), "expected a tensor of one dimension");
      lengths.push_back(file.tensors()[tensor].shape[0]);
    }
  }
  for (size_t group = 0; group < groups_.size(); group++) {
    CKPT_ASSIGN(Parts parts, join(group, false, find));
    weights_.push_back(std::move(parts));
    CKPT_TRY(place(group));
    if (!zero3_) CKPT_TRY(check_slices(group));
  }
  return Ok();
}

// The number for a group in a list of numbers; 0 where there is no list.
Result<uint64_t> ZeroState::number_in(size_t rank, const char* list, size_t group) const {
  const DeepSpeedFile& file = ranks_[rank];
  const uint32_t numbers = file.find(states(rank), list);
  if (numbers == kNoNode) return uint64_t{0};
  return file.number(file.find(numbers, static_cast<int64_t>(group)));
}

Result<ZeroState::Parts> ZeroState::join(size_t group, bool may_be_longer, const Find& find) const {
  Parts parts(zero3_ ? ranks_.size() : 1);
  for (size_t rank = 0; rank < ranks_.size(); rank++) {
    const DeepSpeedFile& file = ranks_[rank];
    const uint32_t node = find(rank, group);
    const size_t tensor = file.tensor(node);
    if (tensor == SIZE_MAX)
      return Status(CKPT_INCOMPLETE, strformat("{}: group {} lacks a tensor that other ranks have", file.path(), group))
          .with("path", file.path());
    const ForeignTensor& found = file.tensors()[tensor];
    const uint64_t expected = lengths_[rank][group];
    CKPT_ASSIGN(const uint64_t padding, may_be_longer ? number_in(rank, "group_paddings", group) : uint64_t{0});
    if (found.shape.ndim != 1 || (found.shape[0] != expected && found.shape[0] - expected != padding))
      return Status(CKPT_MISMATCH, strformat("{}: {}: expected {} elements, as the weights have, found {}", file.path(),
                                             shown(found.name), expected, to_text(found.shape)))
          .with("path", file.path())
          .with("tensor", found.name);
    Status status = parts[zero3_ ? rank : 0].add(found, expected);
    if (!status.ok()) return std::move(status).in(file.path()).with("path", file.path());
  }
  return parts;
}

// Where the parameters begin, and that the partitions have them all and nothing else.
Status ZeroState::place(size_t group) {
  const DeepSpeedFile& file = ranks_[0];
  const uint32_t paddings = file.find(file.find(states(0), "param_alignment_paddings"), static_cast<int64_t>(group));
  uint64_t end = 0;
  bool overflow = false;
  for (size_t i = 0; i < groups_[group].size(); i++) {
    ZeroParameter& parameter = groups_[group][i];
    parameter.begin = end;
    overflow |= add_overflows(end, zero3_ ? zero3_share(parameter.elements, ranks_.size()) : parameter.elements, &end);
    if (zero3_ || file.is_null(paddings)) continue;
    CKPT_ASSIGN(const uint64_t padding, file.number(file.find(paddings, static_cast<int64_t>(i))));
    overflow |= add_overflows(end, padding, &end);
  }
  for (size_t rank = 0; rank < weights_[group].size(); rank++) {
    const uint64_t size = weights_[group][rank].size();
    const bool fits =
        zero3_ ? end == size : end <= size && zero2_aligned(end, ranks_.size()) == zero2_aligned(size, ranks_.size());
    if (fits && !overflow) continue;
    const std::string whose = zero3_ ? strformat("rank {}", rank) : "the ranks together";
    return Status(end > size || overflow ? CKPT_INCOMPLETE : CKPT_MISMATCH,
                  strformat("{}: group {}: param_shapes needs {} elements, found {} of {}", file.path(), group,
                            overflow ? UINT64_MAX : end, size, whose))
        .with("path", file.path())
        .with("expected", end)
        .with("found", size);
  }
  return Ok();
}

ForeignTensor ZeroState::cut(const Parts& parts, const ZeroParameter& parameter, std::string name) const {
  ForeignTensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = parts[0].dtype();
  tensor.shape = parameter.shape;
  const uint64_t share = zero3_ ? zero3_share(parameter.elements, ranks_.size()) : parameter.elements;
  for (size_t i = 0; i < parts.size() && share * i < parameter.elements; i++)
    parts[i].cut(parameter.begin, std::min(share, parameter.elements - share * i), share * i, &tensor);
  if (parameter.elements == 0) tensor.pieces.emplace_back();
  return tensor;
}

// ---- the optimizer's state ----

uint32_t ZeroState::base(size_t rank) const {
  return ranks_[rank].find(states(rank), zero3_ ? kStateDict : kBaseState);
}

// {"exp_avg": …}; an elastic checkpoint has a list of them.
uint32_t ZeroState::group_state(size_t rank, size_t group) const {
  const DeepSpeedFile& file = ranks_[rank];
  const uint32_t all = file.is_dict(base(rank)) ? file.find(base(rank), "state") : base(rank);
  return file.find(all, static_cast<int64_t>(group));
}

Status ZeroState::put_optimizer(StateBuilder& to) const {
  const DeepSpeedFile& file = ranks_[0];
  CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
  CKPT_TRY(to.tree.key("state"));
  CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
  for (size_t group = 0; group < groups_.size(); group++) CKPT_TRY(put_group(to, group));
  CKPT_TRY(to.tree.end());
  if (const uint32_t list = file.find(base(0), "param_groups"); list != kNoNode) {
    CKPT_TRY(to.tree.key("param_groups"));
    CKPT_TRY(put_parameter_groups(to, file, list, groups_));
  }
  for (uint32_t child = file.first(states(0)); child != kNoNode; child = file.next(child))
    if (!is_zero_layout(file.tree()[child].key_view()))
      CKPT_TRY(to.copy_entry(file, child, "optimizer", std::string_view(kStateDict).size()));
  return to.tree.end();
}

// What is as long as the weights is divided as they are; all else is of each parameter.
Status ZeroState::put_group(StateBuilder& to, size_t group) const {
  const DeepSpeedFile& file = ranks_[0];
  const uint32_t state = group_state(0, group);
  if (!file.is_dict(state)) return Ok();  // no step was taken yet
  std::vector<std::pair<uint32_t, Parts>> values;
  for (uint32_t child = file.first(state); child != kNoNode; child = file.next(child)) {
    const std::string_view key = file.tree()[child].key_view();
    const size_t tensor = file.tensor(child);
    const bool divided = tensor != SIZE_MAX && file.tensors()[tensor].shape.ndim > 0;
    auto& value = values.emplace_back(child, Parts());
    if (!divided) continue;
    CKPT_ASSIGN(value.second, join(group, true, [&](size_t rank, size_t number) {
                  return ranks_[rank].find(group_state(rank, number), key);
                }));
  }
  for (const ZeroParameter& parameter : groups_[group]) {
    const std::string at = StateBuilder::joined("optimizer/state", parameter.name);
    CKPT_TRY(to.tree.key(parameter.name));
    CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
    for (const auto& [node, parts] : values) {
      const std::string_view key = file.tree()[node].key_view();
      CKPT_TRY(to.tree.key(key));
      const std::string name = StateBuilder::joined(at, key);
      if (!parts.empty())
        CKPT_TRY(to.add(cut(parts, parameter, name)));
      else
        CKPT_TRY(to.copy_own(file, node, name));
    }
    CKPT_TRY(to.tree.end());
  }
  return Ok();
}

Status put_parameter_groups(StateBuilder& to, const DeepSpeedFile& file, uint32_t list,
                            const std::vector<ZeroGroup>& groups) {
  const tree::Tree& tree = file.tree();
  CKPT_TRY(to.tree.begin(CKPT_NODE_LIST));
  size_t names = 0;  // each parameter is in one group
  for (const ZeroGroup& group : groups) names += group.size();
  for (uint32_t group = file.first(list); group != kNoNode; group = file.next(group)) {
    CKPT_TRY(to.tree.begin(CKPT_NODE_DICT));
    for (uint32_t child = file.first(group); child != kNoNode; child = file.next(child)) {
      const std::string at = strformat("optimizer/param_groups/{}/", tree[group].place);
      if (tree[child].key_view() != "params") {
        CKPT_TRY(to.copy_entry(file, child, at, tree.path_of(group).size() + 1));
        continue;
      }
      CKPT_TRY(to.tree.key("params"));
      CKPT_TRY(to.tree.begin(CKPT_NODE_LIST));
      for (uint32_t id = file.first(child); id != kNoNode; id = file.next(id)) {
        CKPT_ASSIGN(const uint64_t number, file.number(id));
        if (number >= groups.size() || groups[number].size() > names)
          return file.wrong(
              id, strformat("{} is none of the {} groups of param_shapes, or it comes twice", number, groups.size()));
        names -= groups[number].size();
        for (const ZeroParameter& parameter : groups[number]) CKPT_TRY(to.tree.add_text(parameter.name));
      }
      CKPT_TRY(to.tree.end());
    }
    CKPT_TRY(to.tree.end());
  }
  return to.tree.end();
}

}  // namespace ckpt::interop
