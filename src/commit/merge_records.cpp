// Compares the aliases, objects and attributes of all sources. Equal ones become one.
#include <algorithm>
#include <set>

#include "commit/merge_steps.h"

namespace ckpt::commit {

// ---- aliases ----

Status merge_aliases(Sources sources, const std::function<Status(const AliasEntry&)>& add) {
  return ByName<AliasEntry>(sources).visit([&](ByName<AliasEntry>::Same same) {
    const AliasEntry& first = *same[0];
    for (const AliasEntry* other : same)
      if (other->target != first.target || !std::ranges::equal(first.view, other->view))
        return disagree("alias", first.name, first.rank, other->rank, "target " + in_quotes(first.target),
                        "target " + in_quotes(other->target) + " or another view");
    return add(first);
  });
}

// ---- objects ----

static Status check_objects(ByName<ObjectEntry>::Same same) {
  const ObjectEntry& a = *same[0];
  auto describe = [](const ObjectEntry& object) {
    return strformat("{} bytes, XXH3-128 {}", object.size, to_hex(object.digest));
  };
  for (const ObjectEntry* other : same) {
    const ObjectEntry& b = *other;
    static constexpr const char* kScopes[] = {"a shared one", "its own", "a state tree"};
    if (a.scope != b.scope) return disagree("object", a.name, a.rank, b.rank, kScopes[a.scope], kScopes[b.scope]);
    if (a.scope == CKPT_OBJECT_SHARED && (a.size != b.size || !(a.digest == b.digest)))
      return disagree("shared object", a.name, a.rank, b.rank, describe(a), describe(b));
  }
  return Ok();
}

Status merge_objects(Sources sources,
                     const std::function<Status(const ObjectEntry&, std::span<const Holder> holders)>& add) {
  std::vector<Holder> holders;
  std::set<Id> trees;
  auto hold = [&](uint8_t scope, uint64_t part, const Id& digest) {
    if (scope != CKPT_OBJECT_TREE || trees.insert(digest).second)
      holders.push_back({static_cast<uint32_t>(part), digest});
  };
  return ByName<ObjectEntry>(sources).visit([&](ByName<ObjectEntry>::Same same) {
    CKPT_TRY(check_objects(same));
    holders.clear();
    trees.clear();
    for (const ObjectEntry* object : same) {
      if (object->held) hold(object->scope, object->part, object->digest);
      const size_t width = Gathered::Object::holder_width(object->scope);
      for_each_row(object->holders, width, [&](std::span<const uint64_t> row) {
        hold(object->scope, row[0], width == 1 ? Id{} : Id{row[1], row[2]});
      });
    }
    return add(*same[0], holders);
  });
}

// ---- attributes ----

Status merge_attrs(Sources sources, const std::function<Status(const AttrEntry&)>& add) {
  return ByName<AttrEntry>(sources).visit([&](ByName<AttrEntry>::Same same) {
    const AttrEntry& first = *same[0];
    for (const AttrEntry* other : same)
      if (other->value != first.value)
        return disagree("attribute of tensor", first.owner, first.rank, other->rank,
                        in_quotes(first.value.substr(0, 80)), in_quotes(other->value.substr(0, 80)));
    return add(first);
  });
}

}  // namespace ckpt::commit
