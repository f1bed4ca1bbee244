// How the ranks of a large world form groups. Each group is of consecutive ranks, and the first of them leads it: it
// collects the parts of the group and tells rank 0 what they say together, in a file of the attempt. So rank 0 opens as
// many files as there are groups, and not as there are ranks.
#pragma once

#include <span>

#include "checkpoint/part_file.h"
#include "commit/gathered.h"

namespace ckpt::commit {

struct RankGroups {
  // Worlds of fewer than `least` ranks are one group. Otherwise there are about as many groups as ranks in each.
  RankGroups(uint32_t world_size, uint32_t least);

  uint32_t world, size;
  uint32_t count() const { return (world + size - 1) / size; }
  uint32_t first(uint32_t group) const { return group * size; }
  uint32_t ranks(uint32_t group) const { return std::min(size, world - first(group)); }
  // Whether a rank leads a group other than rank 0's own, which needs no file.
  bool leads(uint32_t rank) const { return rank != 0 && rank % size == 0; }
};

// Writes what the parts of a group say together into the directory of the attempt. MISMATCH, or an error of the store.
Status put_group(store::Store& store, std::string_view directory, uint32_t group,
                 std::span<const checkpoint::PartFile> parts);

// Reads it. NOT_FOUND, or another error that names the file.
Result<Gathered> get_group(const store::Store& store, std::string_view directory, uint32_t group,
                           const RankGroups& groups, const Id& save_id);

}  // namespace ckpt::commit
