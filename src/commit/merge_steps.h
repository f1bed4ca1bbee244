// The steps of merge_parts, and how they group the records of many parts by name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/large_memory.h"
#include "base/name_order.h"
#include "checkpoint/part_file.h"

namespace ckpt::commit {

// MISMATCH: two ranks describe one thing in two ways.
Status disagree(const char* what, std::string_view name, const checkpoint::PartFile& a, const checkpoint::PartFile& b,
                std::string expected, std::string found);

// Where the parts are, to look up what the indexes do not hold.
struct PartSource {
  const store::Store& store;
  std::string_view directory;
};
// Checks that all members of every replica group assigned from the same list. MISMATCH.
Status check_groups(std::span<const checkpoint::PartFile> parts, const PartSource& source);

// The tensors of all parts by name; equal names in order of parts.
LargeVector<NameRef> tensors_by_name(std::span<const checkpoint::PartFile> parts);
// Adds them to the builder; returns how many there are.
Result<uint64_t> merge_tensors(std::span<const checkpoint::PartFile> parts, std::span<const NameRef> tensors,
                               format::IndexBuilder& builder);
// Checks that every element of every tensor of the merged index has exactly one owner. MISMATCH names the ranks.
Status check_merged_coverage(std::span<const checkpoint::PartFile> parts, const format::Index& merged,
                             unsigned threads);

Status merge_aliases(std::span<const checkpoint::PartFile> parts, std::span<const NameRef> tensors,
                     format::IndexBuilder& builder);
Status merge_objects(std::span<const checkpoint::PartFile> parts, format::IndexBuilder& builder);
Status merge_attrs(std::span<const checkpoint::PartFile> parts, format::IndexBuilder& builder);

// ---- grouping by name ----

// A record and the part that holds it.
template <typename Record>
struct Held {
  const checkpoint::PartFile* part;
  const Record* record;
};

// The records of all parts, sorted by name. `list(part)` returns the records of a part, in order; `name(part, record)`
// is the name to sort by.
template <typename List, typename Name>
LargeVector<NameRef> records_by_name(std::span<const checkpoint::PartFile> parts, List&& list, Name&& name) {
  LargeVector<NameRef> refs;
  size_t count = 0, holders = 0;
  for (const checkpoint::PartFile& part : parts) count += list(part).size(), holders += !list(part).empty();
  refs.reserve(count);
  for (uint32_t i = 0; i < parts.size(); i++)
    for (uint32_t at = 0; at < list(parts[i]).size(); at++) refs.push_back({0, i, at});
  if (holders > 1)
    sort_by_name(std::span(refs),
                 [&](const NameRef& ref) { return name(parts[ref.list], list(parts[ref.list])[ref.at]); });
  return refs;
}

// Calls visit(records with the same name, in order of parts) for each name, in ascending order.
template <typename Record, typename List, typename Name, typename Visit>
Status for_each_name(std::span<const checkpoint::PartFile> parts, std::span<const NameRef> refs, List&& list,
                     Name&& name, Visit&& visit) {
  std::vector<Held<Record>> same;
  std::string_view current;
  for (size_t i = 0; i <= refs.size(); i++) {
    Held<Record> next{};
    if (i < refs.size()) {
      next.part = &parts[refs[i].list];
      next.record = &list(*next.part)[refs[i].at];
    }
    if (!same.empty() && (!next.part || name(*next.part, *next.record) != current)) {
      CKPT_TRY(visit(same));
      same.clear();
    }
    if (!next.part) break;
    if (same.empty()) current = name(*next.part, *next.record);
    same.push_back(next);
  }
  return Ok();
}

}  // namespace ckpt::commit
