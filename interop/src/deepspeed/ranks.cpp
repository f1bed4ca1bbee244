// What tells that the files are those of the ranks of one save: of zero.h, what reads no elements, and the check of
// those that all ranks must have alike, which does.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "interop/src/deepspeed/zero.h"
#include "interop/src/json.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

constexpr const char* kSlices = "param_slice_mappings";
// Of an optimizer's states, beside its base optimizer: what the ranks decide together.
constexpr const char* kTogether[] = {"zero_stage",  "ds_version", "dynamic_loss_scale",
                                     "loss_scaler", "clip_grad",  "base_optimizer_state_step"};
constexpr const char* kNotOneSave = "the files are not of one save; put all files of one save there";

struct Places {
  uint32_t first, other;
};
// Where `b` first has another value than `a`. Of tensors only that both are ones.
std::optional<Places> differing(const Tree& a, uint32_t at, const Tree& b, uint32_t other) {
  const Places here{at, other};
  if (other == kNoNode) return here;
  const TreeNode &one = a[at], &two = b[other];
  if (one.kind != two.kind || one.child_count != two.child_count) return here;
  if (one.kind == CKPT_NODE_TENSOR) return std::nullopt;
  if (!one.container()) return tree::same_leaf(one, two) ? std::nullopt : std::optional(here);
  if (one.text_view() != two.text_view()) return here;
  for (uint32_t child = a.first_child(at); child != kNoNode; child = a[child].next) {
    const bool by_text = a[child].key_kind == CKPT_KEY_TEXT;
    const uint32_t twin = by_text ? b.find(other, a[child].key_view()) : b.find(other, a[child].place);
    if (const auto found = differing(a, child, b, twin)) return found;
  }
  return std::nullopt;
}

// Short, for messages.
std::string value_text(const Tree& tree, uint32_t node) {
  if (node == kNoNode) return "nothing";
  if (tree[node].kind == CKPT_NODE_TENSOR) return "a tensor";
  if (tree[node].container()) return strformat("{} entries", tree[node].child_count);
  Tree value;
  return tree::copy_node(tree, node, value).ok() ? tree::tree_json(value) : "another value";
}

// A number that is a tensor without dimensions; empty for dtypes that steps do not have.
std::string number_text(uint16_t dtype, Bytes bytes) {
  const auto text = [&](auto number) {
    if (bytes.size() != sizeof number) return std::string();
    std::memcpy(&number, bytes.data(), sizeof number);
    return strformat("{}", number);
  };
  return dtype == CKPT_DTYPE_F32 ? text(0.0f) : dtype == CKPT_DTYPE_I64 ? text(int64_t{0}) : "";
}

// Parameters 0, n, 2n, … went to the first of n ranks, 1, n + 1, … to the second.
ZeroGroup before_round_robin(const ZeroGroup& dealt, size_t ranks) {
  ZeroGroup group(dealt.size());
  size_t next = 0;
  for (size_t rank = 0; rank < ranks; rank++)
    for (size_t place = rank; place < group.size(); place += ranks) group[place] = dealt[next++];
  uint64_t begin = 0;
  for (ZeroParameter& parameter : group) begin += parameter.elements, parameter.begin = begin - parameter.elements;
  return group;
}

}  // namespace

Status check_equal(const DeepSpeedFile& first, uint32_t node, const DeepSpeedFile& other, uint32_t twin) {
  if (node == kNoNode && twin == kNoNode) return Ok();
  const std::optional<Places> at =
      node == kNoNode ? Places{node, twin} : differing(first.tree(), node, other.tree(), twin);
  if (!at) return Ok();
  const std::string path = at->first == kNoNode ? other.tree().path_of(twin) : first.tree().path_of(at->first);
  const std::string expected = value_text(first.tree(), at->first), text = value_text(other.tree(), at->other);
  return Status(CKPT_MISMATCH, strformat("{}: {}: expected {}, as {} has, found {}: {}", other.path(), in_quotes(path),
                                         expected, first.path(), text, kNotOneSave))
      .with("path", other.path())
      .with("expected", expected)
      .with("found", text);
}

// A file of a rank beyond the last one that is there would be missed by nothing else.
Status ZeroState::check_ranks() const {
  for (size_t rank = 0; rank < ranks_.size(); rank++) {
    const DeepSpeedFile& file = ranks_[rank];
    if (!file.is_dict(states(rank))) return file.wrong(0, "expected a dict with optimizer_state_dict");
    if (!file.is_null(file.find(states(rank), "ds_zero_partition_groups")))
      return Status(CKPT_UNSUPPORTED, file.path() +
                                          ": it divides experts among some of the ranks (ds_zero_partition_groups); "
                                          "convert it with DeepSpeed's ds_to_universal, and import that")
          .with("path", file.path());
    // Tensors of all ranks are joined and cut by parameters, and what torch makes of their elements would be lost.
    if (const auto marks = torch_marks(file.tree()); !marks.empty())
      return Status(CKPT_UNSUPPORTED,
                    strformat("{}: torch {} {} when it uses it: expected tensors whose elements are what they are",
                              file.path(), marks.begin()->second.verb(), in_quotes(marks.begin()->first)))
          .with("path", file.path())
          .with("tensor", marks.begin()->first);
    const uint32_t count = file.find(states(rank), "partition_count");
    if (file.is_null(count)) continue;
    uint64_t world = 0;
    if (file.tree()[count].kind == CKPT_NODE_INT) {
      CKPT_ASSIGN(world, file.number(count));
    } else {
      for (uint32_t child = file.first(count); child != kNoNode; child = file.next(child)) {
        CKPT_ASSIGN(const uint64_t of_group, file.number(child));
        world = std::max(world, of_group);
      }
    }
    if (world == ranks_.size()) continue;
    return Status(world > ranks_.size() ? CKPT_INCOMPLETE : CKPT_MISMATCH,
                  strformat("{}: it was written by {} ranks, found *_optim_states.pt of {}", file.path(), world,
                            ranks_.size()))
        .with("path", file.path())
        .with("expected", world)
        .with("found", ranks_.size());
  }
  return Ok();
}

// What is taken from rank 0 alone.
Status ZeroState::check_one_save() const {
  for (size_t rank = 1; rank < ranks_.size(); rank++) {
    for (const char* key : kTogether)
      CKPT_TRY(
          check_equal(ranks_[0], ranks_[0].find(states(0), key), ranks_[rank], ranks_[rank].find(states(rank), key)));
    CKPT_TRY(check_equal(ranks_[0], ranks_[0].find(base(0), "param_groups"), ranks_[rank],
                         ranks_[rank].find(base(rank), "param_groups")));
    for (size_t group = 0; group < groups_.size(); group++) {
      const uint32_t first = group_state(0, group), other = group_state(rank, group);
      // A rank that has nothing but padding of a group may have no state of it.
      if (!ranks_[0].is_dict(first) || !ranks_[rank].is_dict(other)) continue;
      CKPT_TRY(check_equal(ranks_[0], first, ranks_[rank], other));
    }
  }
  return Ok();
}

// Since DeepSpeed 0.7, each rank of ZeRO-1 and 2 says which parts of which parameters it has, and where: what the
// lengths of all ranks' partitions say as well. With round_robin_gradients it says so of the order that the parameters
// had before they were dealt out to the ranks.
Status ZeroState::check_slices(size_t group) const {
  const Status status = check_slices(group, groups_[group]);
  if (status.ok() || !check_slices(group, before_round_robin(groups_[group], ranks_.size())).ok()) return status;
  return Ok();
}

Status ZeroState::check_slices(size_t group, const ZeroGroup& parameters) const {
  uint64_t begin = 0;  // of the rank's partition
  for (size_t rank = 0; rank < ranks_.size(); rank++) {
    const DeepSpeedFile& file = ranks_[rank];
    const uint32_t all = file.find(states(rank), kSlices);
    if (all == kNoNode) return check_equal(ranks_[0], ranks_[0].find(states(0), kSlices), file, all);
    const uint32_t slices = file.find(all, static_cast<int64_t>(group));
    if (!file.is_dict(slices))
      return file.wrong(slices == kNoNode ? all : slices,
                        strformat("expected a dict of the slices of group {}", group));
    CKPT_TRY(check_slices_of(rank, group, parameters, slices, begin));
    begin += lengths_[rank][group];
  }
  return Ok();
}

Status ZeroState::check_slices_of(size_t rank, size_t group, const ZeroGroup& parameters, uint32_t slices,
                                  uint64_t begin) const {
  const DeepSpeedFile& file = ranks_[rank];
  const uint64_t end = begin + lengths_[rank][group];
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    return Status(
               CKPT_MISMATCH,
               strformat("{}: {} of group {}: expected {}, which rank {} has, found {}: it is a file of another rank "
                         "or save; put that of this rank there",
                         file.path(), kSlices, group, expected, rank, found))
        .with("path", file.path())
        .with("rank", rank)
        .with("expected", expected)
        .with("found", found);
  };
  const auto text = [](uint64_t count, const std::string& name, uint64_t start) {
    return strformat("{} elements of {} at {}", count, in_quotes(name), start);
  };
  uint32_t expected_count = 0;
  auto parameter = std::ranges::upper_bound(parameters, begin, {}, &ZeroParameter::begin);
  while (parameter != parameters.begin() && std::prev(parameter)->begin + std::prev(parameter)->elements > begin)
    --parameter;
  for (; parameter != parameters.end() && parameter->begin < end; ++parameter) {
    const uint64_t first = std::max(parameter->begin, begin),
                   last = std::min(parameter->begin + parameter->elements, end);
    if (first >= last) continue;
    expected_count++;
    const std::string expected = text(last - first, parameter->name, first - begin);
    const uint32_t slice = file.find(slices, parameter->name);
    if (slice == kNoNode) return refuse(expected, "none of it");
    const uint32_t address = file.tree()[slice].kind == CKPT_NODE_RECORD ? file.tree().find(slice, "state") : kNoNode;
    if (!file.is_dict(address)) return file.wrong(slice, "expected a fragment_address");
    CKPT_ASSIGN(const uint64_t count, file.number(file.find(address, "numel")));
    CKPT_ASSIGN(const uint64_t start, file.number(file.find(address, "start")));
    if (count != last - first || start != first - begin) return refuse(expected, text(count, parameter->name, start));
  }
  uint32_t found_count = 0;
  for (uint32_t child = file.first(slices); child != kNoNode; child = file.next(child)) found_count++;
  if (found_count == expected_count) return Ok();
  return refuse(strformat("slices of {} parameters", expected_count), std::to_string(found_count));
}

std::function<Status(ForeignCheckpoint&, ForeignCheckpoint::First, const ReadOptions&)> ZeroState::check_steps() const {
  struct Twins {
    FileRange first, other;
    uint16_t dtype;
    std::string path, place, as;  // of the other, and whose the first is
  };
  auto all = std::make_shared<std::vector<Twins>>();
  for (size_t group = 0; group < groups_.size(); group++) {
    const DeepSpeedFile& file = ranks_[0];
    const uint32_t state = group_state(0, group);
    for (uint32_t child = file.first(state); child != kNoNode; child = file.next(child)) {
      const size_t tensor = file.tensor(child);
      if (tensor == SIZE_MAX || file.tensors()[tensor].shape.ndim != 0) continue;
      for (size_t rank = 1; rank < ranks_.size(); rank++) {
        const DeepSpeedFile& other = ranks_[rank];
        const size_t twin = other.tensor(other.find(group_state(rank, group), file.tree()[child].key_view()));
        if (twin == SIZE_MAX) continue;  // check_one_save() has refused it
        all->push_back({file.tensors()[tensor].pieces[0].bytes, other.tensors()[twin].pieces[0].bytes,
                        file.tensors()[tensor].dtype, other.path(), other.tensors()[twin].name, file.path()});
      }
    }
  }
  if (all->empty()) return nullptr;
  return [all](ForeignCheckpoint& self, ForeignCheckpoint::First before, const ReadOptions& options) -> Status {
    std::vector<FileRange> ranges;
    for (const Twins& twins : *all)
      for (FileRange range : {twins.first, twins.other}) {
        range.file += before.file;
        CKPT_TRY(self.files.place(range).status());
        ranges.push_back(range);
      }
    CKPT_TRY(options.check());
    CKPT_TRY(self.files.fetch(ranges));
    for (size_t i = 0; i < all->size(); i++) {
      const Bytes first = self.files.mapped(ranges[2 * i]), other = self.files.mapped(ranges[2 * i + 1]);
      if (std::ranges::equal(first, other)) continue;
      const Twins& twins = (*all)[i];
      return Status(CKPT_MISMATCH,
                    strformat("{}: {}: expected {}, as {} has, found {}: {}", twins.path, in_quotes(twins.place),
                              number_text(twins.dtype, first), twins.as, number_text(twins.dtype, other), kNotOneSave))
          .with("path", twins.path)
          .with("tensor", twins.place);
    }
    return Ok();
  };
}

}  // namespace ckpt::interop
