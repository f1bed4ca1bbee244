// The root of an index: what the checkpoint is, where the pages are, which parts hold what (FORMAT §4). A checked view
// of encoded bytes, which must outlive it and be aligned to 8. Immutable; concurrent use is fine.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "format/summary.h"

namespace ckpt::format {

enum class IndexKind { kManifest, kPart };

inline constexpr uint64_t kPageAlign = 64;  // of pages and roots in an index, and of an index in its file

class Root {
 public:
  // Walks a layout's sequence of parts. Faster than for_each_part for many ranges that ascend: it goes on from where it
  // is.
  class PartCursor {
   public:
    PartCursor(const Root& root, const fb::Layout& layout)
        : runs_(root.runs.subspan(layout.run_first(), layout.run_count())) {}
    // Calls visit(part) for positions [first, first + count).
    template <typename Visit>
    void visit(uint64_t first, uint64_t count, Visit&& visit) {
      if (first < begin_) run_ = begin_ = 0;
      for (; run_ < runs_.size() && count > 0; begin_ += runs_[run_++].count()) {
        const fb::PartRun& run = runs_[run_];
        for (; first < begin_ + run.count() && count > 0; first++, count--)
          visit(static_cast<uint32_t>(run.first() + static_cast<int64_t>(first - begin_) * run.stride()));
        if (count == 0) return;
      }
    }

   private:
    std::span<const fb::PartRun> runs_;
    size_t run_ = 0;
    uint64_t begin_ = 0;  // the position of the run's first part
  };

  // Checks every rule of FORMAT §4 that concerns the root alone. `bytes` are the end of an index of `index_size` bytes.
  // `data_end`: where the index begins in its part; chunks lie before it. FORMAT, REVISION.
  static Result<Root> open(Bytes bytes, IndexKind kind, uint64_t index_size, uint64_t data_end = 0);

  IndexKind kind = IndexKind::kManifest;
  uint64_t data_end = 0;
  static constexpr uint32_t kNoRank = UINT32_MAX;
  uint32_t rank = kNoRank;  // of the part, where the caller knows it
  Summary summary;
  std::string_view names;
  std::span<const uint64_t> numbers;
  std::span<const fb::PageRef> pages, part_pages;
  uint32_t parts_per_page = 0;
  uint64_t name_count = 0;
  std::span<const fb::Layout> layouts;
  std::span<const fb::PartRun> runs;
  std::span<const fb::Group> groups;
  std::span<const fb::Base> bases;  // of a part

  // Of MANIFEST: the parts, and then the bases.
  uint32_t file_count() const { return summary.part_count + summary.base_count; }
  std::string_view first_name(const fb::PageRef& page) const {
    return names.substr(page.first().offset(), page.first().size());
  }
  // The page whose range a name lies in; the page that holds tensor or alias `position`, or object `position`.
  size_t page_of(std::string_view name) const;
  size_t page_of_name(uint64_t position) const;
  size_t page_of_object(uint64_t position) const;

  bool is_grid(const fb::Layout& layout) const { return layout.kind() == 1; }
  bool is_rows(const fb::Layout& layout) const { return layout.kind() == 2; }
  std::span<const uint64_t> cells_of(const fb::Layout& layout) const {
    return numbers.subspan(layout.cells(), layout.ndim());
  }
  // Calls visit(part) for positions [first, first + count) of the layout's sequence of parts.
  template <typename Visit>
  void for_each_part(const fb::Layout& layout, uint64_t first, uint64_t count, Visit&& visit) const {
    PartCursor(*this, layout).visit(first, count, visit);
  }
  // The length of that sequence.
  uint64_t part_count(const fb::Layout& layout) const;

 private:
  Status check_pages(uint64_t index_size, size_t root_size) const;
  Status check_counts() const;
  Status check_layouts() const;
  Status check_layout(const fb::Layout& layout) const;
  Status check_groups() const;
  Status check_bases() const;
};

}  // namespace ckpt::format
