#include "commit/rank_groups.h"

#include "commit/merge.h"
#include "commit/trees.h"
#include "format/names.h"

namespace ckpt::commit {

RankGroups::RankGroups(uint32_t world_size, uint32_t least) : world(world_size), size(world_size) {
  if (world < least) return;
  size = 1;
  while (uint64_t{size} * size < world) size++;
}

Status put_group(store::Store& store, std::string_view directory, uint32_t group,
                 std::span<const checkpoint::PartFile> parts) {
  CKPT_ASSIGN(Gathered gathered, gather_parts(parts));
  CKPT_ASSIGN(const auto leaves, unknown_leaves(parts, store, directory));
  for (const UnknownLeaf& leaf : leaves) {
    const fb::Text name = gathered.put_text(leaf.name), object = gathered.put_text(leaf.object);
    gathered.leaves.push_back({name, object, gathered.put_text(leaf.path), leaf.rank, 0});
  }
  Status put = store.put_own(format::group_key(directory, group), Bytes(gathered.encode()));
  return put.code() == CKPT_EXISTS ? Ok() : put;  // nobody else writes it: a network file system tried twice
}

Result<Gathered> get_group(const store::Store& store, std::string_view directory, uint32_t group,
                           const RankGroups& groups, const Id& save_id) {
  const std::string key = format::group_key(directory, group);
  CKPT_ASSIGN(const std::vector<std::byte> file, store.get(key, uint64_t{1} << 40));
  auto gathered = Gathered::decode(file, save_id, groups.first(group), groups.ranks(group));
  if (gathered.ok()) return gathered;
  const std::string path = store.path(key);
  return std::move(gathered).status().in(path).with("path", path);
}

}  // namespace ckpt::commit
