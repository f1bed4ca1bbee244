// The optimizer states of ZeRO: the fp32 master weights and the optimizer's state by parameter, as pieces of what the
// ranks wrote. Nothing is read but the pickles.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "interop/src/deepspeed/builder.h"
#include "interop/src/deepspeed/joined.h"

namespace ckpt::interop {

// A parameter, as param_shapes lists it.
struct ZeroParameter {
  std::string name;
  Shape shape;
  uint64_t elements = 0;
  uint64_t begin = 0;  // in its group: of all ranks together; with ZeRO-3 of each rank
};
using ZeroGroup = std::vector<ZeroParameter>;

// param_shapes: a list of dicts {name: shape}, or one dict. FORMAT; a name twice as well.
Result<std::vector<ZeroGroup>> zero_groups(const DeepSpeedFile& file, uint32_t param_shapes);

// MISMATCH where what `other` has at `twin` is not what `first` has at `node` (tensors are not looked at), as files of
// one save have it; kNoNode is nothing.
Status check_equal(const DeepSpeedFile& first, uint32_t node, const DeepSpeedFile& other, uint32_t twin);

// Whether a key of an optimizer's states is put together otherwise, or tells how the ranks divided the work.
bool is_zero_layout(std::string_view key);

// Of a tensor that `ranks` ranks divided as ZeRO-3 does: each has so many elements, the last ones with padding.
inline uint64_t zero3_share(uint64_t elements, size_t ranks) { return elements / ranks + (elements % ranks != 0); }

class ZeroState {
 public:
  // What the files of all ranks have of the parameters. INCOMPLETE, MISMATCH, FORMAT.
  static Result<ZeroState> make(const std::vector<DeepSpeedFile>& ranks, std::vector<ZeroGroup> groups);

  bool is_zero3() const { return zero3_; }
  const std::vector<ZeroGroup>& groups() const { return groups_; }
  // The master weight of a parameter.
  ForeignTensor weight(size_t group, const ZeroParameter& parameter, std::string name) const {
    return cut(weights_[group], parameter, std::move(name));
  }
  // The value of "optimizer".
  Status put_optimizer(StateBuilder& to) const;
  // What compares the numbers that are tensors (steps) of all ranks, of which rank 0's are taken: as `locate` of what
  // the files become. MISMATCH. Null where there are none.
  std::function<Status(ForeignCheckpoint&, ForeignCheckpoint::First, const ReadOptions&)> check_steps() const;

 private:
  // One of all ranks, or with ZeRO-3 one of each.
  using Parts = std::vector<Joined>;
  // The tensor of a group on a rank.
  using Find = std::function<uint32_t(size_t rank, size_t group)>;

  ZeroState(const std::vector<DeepSpeedFile>& ranks, std::vector<ZeroGroup> groups)
      : ranks_(ranks), groups_(std::move(groups)) {}
  Status run();
  // ---- ranks.cpp ----
  Status check_ranks() const;
  Status check_one_save() const;
  Status check_slices(size_t group) const;
  Status check_slices(size_t group, const ZeroGroup& parameters) const;
  Status check_slices_of(size_t rank, size_t group, const ZeroGroup& parameters, uint32_t slices, uint64_t begin) const;
  // ----
  Status place(size_t group);
  Result<uint64_t> number_in(size_t rank, const char* list, size_t group) const;
  uint32_t states(size_t rank) const { return ranks_[rank].find(0, "optimizer_state_dict"); }
  uint32_t base(size_t rank) const;
  uint32_t group_state(size_t rank, size_t group) const;
  Result<Parts> join(size_t group, bool may_be_longer, const Find& find) const;
  ForeignTensor cut(const Parts& parts, const ZeroParameter& parameter, std::string name) const;
  Status put_group(StateBuilder& to, size_t group) const;
  Status put_value(StateBuilder& to, size_t group, uint32_t node, const std::string& name) const;

  const std::vector<DeepSpeedFile>& ranks_;
  std::vector<ZeroGroup> groups_;
  bool zero3_ = false;
  std::vector<std::vector<uint64_t>> lengths_;  // of what a rank has of a group, by rank
  std::vector<Parts> weights_;                  // by group
};

// The list of an optimizer's groups, where the numbers of its tensors become the names of their parameters.
Status put_parameter_groups(StateBuilder& to, const DeepSpeedFile& file, uint32_t list,
                            const std::vector<ZeroGroup>& groups);

}  // namespace ckpt::interop
