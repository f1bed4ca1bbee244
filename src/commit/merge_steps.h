// The steps of merge_parts, and how they group the records of many parts by name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/large_memory.h"
#include "base/name_order.h"
#include "checkpoint/part_file.h"
#include "format/index_builder.h"

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

// A page of a part's index. All pages of all parts, in order of parts and names, are what is merged.
struct PartPage {
  const checkpoint::PartFile* part;
  const format::Page* page;
};
using PartPages = std::span<const PartPage>;

// Adds the tensors of all parts to the builder; returns them by name, equal names in order of parts. MISMATCH names the
// ranks if they do not describe the same tensors, or if an element of one has no owner, or more than one.
Result<LargeVector<NameRef>> merge_tensors(PartPages pages, format::IndexBuilder& builder);

Status merge_aliases(PartPages pages, std::span<const NameRef> tensors, format::IndexBuilder& builder);
// `count`: of the objects, where one of each rank counts once for each.
Status merge_objects(PartPages pages, format::IndexBuilder& builder, uint64_t* count);
Status merge_attrs(PartPages pages, format::IndexBuilder& builder);

// ---- grouping by name ----

// A record, and the page and part that hold it.
template <typename Record>
struct Held {
  const checkpoint::PartFile* part;
  const format::Page* page;
  const Record* record;
};

// The records of all pages, sorted by name. `list(page)` returns the records of a page, in order; `name(page, record)`
// is the name to sort by.
template <typename List, typename Name>
LargeVector<NameRef> records_by_name(PartPages pages, List&& list, Name&& name) {
  LargeVector<NameRef> refs;
  size_t count = 0;
  const checkpoint::PartFile* holder = nullptr;
  bool several = false;
  for (const PartPage& at : pages) {
    if (list(*at.page).empty()) continue;
    count += list(*at.page).size();
    several |= holder && holder != at.part;
    holder = at.part;
  }
  refs.reserve(count);
  for (uint32_t i = 0; i < pages.size(); i++)
    for (uint32_t at = 0; at < list(*pages[i].page).size(); at++) refs.push_back({0, i, at});
  if (several)
    sort_by_name(std::span(refs),
                 [&](const NameRef& ref) { return name(*pages[ref.list].page, list(*pages[ref.list].page)[ref.at]); });
  return refs;
}

// Calls visit(records with the same name, in order of parts) for each name, in ascending order.
template <typename Record, typename List, typename Name, typename Visit>
Status for_each_name(PartPages pages, std::span<const NameRef> refs, List&& list, Name&& name, Visit&& visit) {
  std::vector<Held<Record>> same;
  std::string_view current;
  for (size_t i = 0; i <= refs.size(); i++) {
    Held<Record> next{};
    if (i < refs.size()) {
      const PartPage& at = pages[refs[i].list];
      next = {at.part, at.page, &list(*at.page)[refs[i].at]};
    }
    if (!same.empty() && (!next.part || name(*next.page, *next.record) != current)) {
      CKPT_TRY(visit(same));
      same.clear();
    }
    if (!next.part) break;
    if (same.empty()) current = name(*next.page, *next.record);
    same.push_back(next);
  }
  return Ok();
}

}  // namespace ckpt::commit
