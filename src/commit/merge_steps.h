// The steps of a merge. Each compares what the sources say of one kind of record, and hands over each name once.
#pragma once

#include <functional>
#include <string>

#include "commit/merge_sources.h"
#include "format/index_builder.h"

namespace ckpt::commit {

// MISMATCH: two ranks describe one thing in two ways.
Status disagree(const char* what, std::string_view name, uint32_t rank, uint32_t other, std::string expected,
                std::string found);

// Where the parts are, to look up what the indexes do not hold.
struct PartFolder {
  const store::Store& store;
  std::string_view directory;
};
// Checks that all members of every replica group assigned from the same list. MISMATCH.
Status check_groups(Sources sources, const PartFolder& folder);

// Adds bases, which are in order and of parts of rank `rank` and those after, to those that are known: what both use
// is summed. MISMATCH if they describe one file in two ways.
Status merge_bases(std::span<const fb::Base> bases, uint32_t rank, LargeVector<fb::Base>* known);

// Adds the tensors to the builder of a manifest, with their layouts. MISMATCH names the ranks if they do not describe
// the same tensors, or if an element of one has more than one owner; INCOMPLETE if one has none.
Status merge_tensors(Sources sources, format::IndexBuilder& builder);
// Adds the tensors and their pieces. MISMATCH if the ranks do not describe the same tensors.
Status gather_tensors(Sources sources, Gathered& gathered);

// MISMATCH if two ranks describe one thing in two ways, or what `add` returns. `add` gets the record of the lowest
// rank and, for an object, the parts that hold it; of equal trees, the first.
struct Holder {
  uint32_t part;
  Id digest;  // of a tree
};
Status merge_aliases(Sources sources, const std::function<Status(const AliasEntry&)>& add);
Status merge_objects(Sources sources,
                     const std::function<Status(const ObjectEntry&, std::span<const Holder> holders)>& add);
Status merge_attrs(Sources sources, const std::function<Status(const AttrEntry&)>& add);

}  // namespace ckpt::commit
