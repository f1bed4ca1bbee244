// Opens the root of an index. All arithmetic on numbers of the file is checked.
#include "format/index_root.h"

#include <algorithm>

#include "format/fault.h"
#include "format/framing.h"
#include "format/part_record.h"

namespace ckpt::format {

Result<Root> Root::open(Bytes bytes, IndexKind kind, uint64_t index_size, uint64_t data_end) {
  CKPT_ASSIGN(const fb::Root* from, open_flatbuffer<fb::Root>(bytes, "CKPR", "the root of the index"));
  if (!from->summary() || !from->names()) return bad("the root of the index has no summary or no names");
  Root root;
  root.kind = kind;
  root.data_end = data_end;
  CKPT_ASSIGN(root.summary, read_summary(from->summary()));
  root.names = {from->names()->c_str(), from->names()->size()};
  root.parts_per_page = from->parts_per_page();
  root.name_count = from->name_count();
  CKPT_TRY(get_column(from->numbers(), &root.numbers));
  CKPT_TRY(get_column(from->pages(), &root.pages));
  CKPT_TRY(get_column(from->part_pages(), &root.part_pages));
  CKPT_TRY(get_column(from->layouts(), &root.layouts));
  CKPT_TRY(get_column(from->runs(), &root.runs));
  CKPT_TRY(get_column(from->groups(), &root.groups));
  CKPT_TRY(get_column(from->bases(), &root.bases));
  CKPT_TRY(root.check_bases());
  CKPT_TRY(root.check_pages(index_size, bytes.size()));
  CKPT_TRY(root.check_layouts());
  CKPT_TRY(root.check_groups());
  return root;
}

// ---- pages ----

// FlatBuffers takes no larger one.
static Status check_page_size(const fb::PageRef& page) {
  if (page.size() <= kMaxRootSize) return Ok();
  return bad(strformat("a page of the index has {} bytes, at most {} are allowed", page.size(), kMaxRootSize));
}

Status Root::check_pages(uint64_t index_size, size_t root_size) const {
  uint64_t end = 0, previous_names = 0, previous_objects = 0;
  auto follows = [&](const fb::PageRef& page) {
    const bool ok = page.offset() == round_up(end, kPageAlign) && page.size() != 0 && page.pad() == 0 &&
                    page.offset() <= index_size && page.size() <= index_size - page.offset();
    end = ok ? page.offset() + page.size() : end;
    return ok && text_ok(names, page.first());
  };
  for (const fb::PageRef& page : pages) {
    const bool first = &page == pages.data();
    CKPT_TRY(check_page_size(page));
    if (!follows(page) ||
        (first ? page.first().size() != 0 || page.name_first() != 0 || page.object_first() != 0
               : first_name(page) <= first_name(*(&page - 1))) ||
        page.name_first() < previous_names || page.object_first() < previous_objects)
      return bad(strformat("page {} of the index does not follow that before", &page - pages.data()));
    previous_names = page.name_first();
    previous_objects = page.object_first();
  }
  if (pages.empty() || previous_names > name_count ||
      (kind == IndexKind::kManifest && previous_objects > summary.object_count))
    return bad("the index has no pages, or too few names or objects");
  CKPT_TRY(check_counts());
  for (const fb::PageRef& page : part_pages) {
    CKPT_TRY(check_page_size(page));
    if (!follows(page) || page.first().size() != 0 || page.name_first() != 0 || page.object_first() != 0)
      return bad("a page of parts does not follow that before");
  }
  if (round_up(end, kPageAlign) + root_size != index_size)
    return bad(strformat("the pages of the index end at {}, its root begins at {}", end, index_size - root_size));
  if (kind == IndexKind::kPart)
    return part_pages.empty() && parts_per_page == 0 ? Ok() : bad("a part's index lists parts");
  if (summary.part_count != summary.world_size || parts_per_page == 0 ||
      part_pages.size() != (uint64_t{file_count()} + parts_per_page - 1) / parts_per_page)
    return bad("the pages of parts do not hold as many as there are ranks");
  return Ok();
}

// Counts bound what readers allocate before they read a page, so a page must be large enough for what the root claims.
Status Root::check_counts() const {
  static_assert(sizeof(fb::Tensor) == sizeof(fb::Alias));
  for (size_t i = 0; i < pages.size(); i++) {
    const uint64_t end = i + 1 < pages.size() ? pages[i + 1].name_first() : name_count;
    if (end - pages[i].name_first() > pages[i].size() / sizeof(fb::Tensor))
      return bad(strformat("page {} of the index is too small for {} names", i, end - pages[i].name_first()));
  }
  for (size_t i = 0; i < part_pages.size(); i++) {
    const uint64_t before = std::min<uint64_t>(file_count(), uint64_t{i} * parts_per_page);
    const uint64_t count = std::min<uint64_t>(file_count() - before, parts_per_page);
    if (count > part_pages[i].size() / sizeof(fb::Part))
      return bad(strformat("page {} of parts is too small for {} of them", i, count));
  }
  return Ok();
}

size_t Root::page_of(std::string_view name) const {
  auto after =
      std::upper_bound(pages.begin(), pages.end(), name,
                       [this](std::string_view key, const fb::PageRef& page) { return key < first_name(page); });
  return static_cast<size_t>(after - pages.begin()) - 1;  // the first page begins with ""
}

template <typename First>
static size_t page_at(std::span<const fb::PageRef> pages, uint64_t position, First&& first) {
  auto after = std::upper_bound(pages.begin(), pages.end(), position,
                                [&](uint64_t at, const fb::PageRef& page) { return at < first(page); });
  return static_cast<size_t>(after - pages.begin()) - 1;
}

size_t Root::page_of_name(uint64_t position) const {
  return page_at(pages, position, [](const fb::PageRef& page) { return page.name_first(); });
}
size_t Root::page_of_object(uint64_t position) const {
  return page_at(pages, position, [](const fb::PageRef& page) { return page.object_first(); });
}

// ---- layouts ----

uint64_t Root::part_count(const fb::Layout& layout) const {
  uint64_t cells = 1;
  for (uint64_t count : cells_of(layout)) cells *= count;
  return cells * layout.per_cell();
}

Status Root::check_layout(const fb::Layout& layout) const {
  const bool grid = layout.kind() == 1;
  if (layout.kind() > 2 || layout.pad() != 0 || layout.ndim() > kMaxNdim || grid != (layout.ndim() != 0) ||
      (!grid && layout.cells() != 0) || (layout.kind() != 0 && layout.per_cell() == 0) ||
      layout.per_cell() > summary.world_size || !range_ok(layout.cells(), layout.ndim(), numbers.size()))
    return bad("a layout of no known kind");
  uint64_t expected = layout.per_cell(), found = 0;
  for (uint64_t count : cells_of(layout))
    if (count == 0 || mul_overflows(expected, count, &expected)) return bad("a layout with too many cells");
  int64_t previous = -1;
  for (const fb::PartRun& run : runs.subspan(layout.run_first(), layout.run_count())) {
    const int64_t last = run.first() + (int64_t{run.count()} - 1) * run.stride();
    if (run.count() == 0 || run.first() >= summary.world_size || last < 0 || last >= summary.world_size)
      return bad("a layout names a part that does not exist");
    if (!grid && (run.first() <= previous || (run.count() > 1 && run.stride() < 1)))
      return bad("the parts of a layout do not ascend");
    previous = last;
    found += run.count();
  }
  return found == expected ? Ok() : bad(strformat("a layout names {} parts, expected {}", found, expected));
}

Status Root::check_layouts() const {
  if (kind == IndexKind::kPart)
    return layouts.empty() && runs.empty() && numbers.empty() ? Ok() : bad("a part's index has layouts");
  uint64_t next = 0;
  for (const fb::Layout& layout : layouts) {
    if (layout.run_first() != next || !range_ok(next, layout.run_count(), runs.size()))
      return bad("the runs of a layout do not follow those before");
    next += layout.run_count();
    CKPT_TRY(check_layout(layout));
  }
  return next == runs.size() ? Ok() : bad("a run belongs to no layout");
}

Status Root::check_groups() const {
  if (kind == IndexKind::kManifest) return groups.empty() ? Ok() : bad("a manifest has replica groups");
  for (const fb::Group& group : groups) {
    const fb::Chunk& list = group.list();
    uint64_t end;
    if (group.index() >= group.count() || group.count() < 2 || list.offset() < kAlign || list.stored_size() == 0 ||
        list.stored_size() > list.raw_size() || list.raw_size() > kMaxChunkBytes ||
        list.raw_size() / 255 > list.stored_size() || add_overflows(list.offset(), list.stored_size(), &end) ||
        end > data_end)
      return bad("a replica group is not described well");
  }
  return Ok();
}

// ---- bases ----

Status Root::check_bases() const {
  if (summary.base_count > UINT32_MAX - summary.part_count) return bad("more parts and bases than can be numbered");
  if (kind == IndexKind::kPart ? summary.base_count != 0 : !bases.empty())
    return bad("bases are counted in a part, or described in the root of a manifest");
  const bool has_some = kind == IndexKind::kPart ? !bases.empty() : summary.base_count != 0;
  if (has_some != ((summary.required_features & kHasBases) != 0))
    return bad("required_features and bases contradict each other");
  if (bases.size() > UINT16_MAX) return bad(strformat("a part of {} bases", bases.size()));
  const fb::Part* before = nullptr;
  for (const fb::Base& base : bases) {
    CKPT_TRY(check_base(base.part(), summary.save_id, before));
    before = &base.part();
  }
  return Ok();
}

}  // namespace ckpt::format
