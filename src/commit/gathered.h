// What the parts of consecutive ranks say together: of each name once, with the pieces of its tensor in compact form.
// The leader of a group of ranks writes it into a GROUP file, from which rank 0 merges MANIFEST (README.md, "Groups
// of ranks").
#pragma once

#include <algorithm>
#include <span>

#include "base/large_memory.h"
#include "base/types.h"
#include "ckpt.h"
#include "format/buffer.h"
#include "format/summary.h"

namespace ckpt::commit {

// ---- pieces as rows of numbers ----

// A row is a piece of a tensor: kind and numbers of its region (FORMAT §4) and zeros behind them, so that all rows of a
// tensor are as long; start and count of its elements; the part that holds them. Of rows (kind 3), the first number is
// how many the part has.
inline constexpr size_t kRowEnd = 3;  // start, count, part
inline size_t row_width(size_t ndim) { return 1 + 2 * std::max<size_t>(ndim, 1) + kRowEnd; }

// A run is many rows that differ by the same numbers, as those of equal boxes side by side do: a count, the first row
// and, if the count is not 1, what is added to each row to get the next (modulo 2^64).
void put_runs(std::span<const uint64_t> rows, size_t width, LargeVector<uint64_t>* to);
// Whether these numbers are whole runs of so many numbers each.
bool are_runs(std::span<const uint64_t> runs, size_t width);

// How many numbers a run takes that begins with this count.
inline size_t run_size(uint64_t count, size_t width) { return 1 + width + (count == 1 ? 0 : width); }

template <typename Visit>
void for_each_row(std::span<const uint64_t> runs, size_t width, Visit&& visit) {
  uint64_t row[1 + 2 * kMaxNdim + kRowEnd];
  while (!runs.empty()) {
    const uint64_t count = runs[0];
    std::copy_n(&runs[1], width, row);
    for (uint64_t i = 1; i < count; i++) {
      visit(std::span<const uint64_t>(row, width));
      for (size_t at = 0; at < width; at++) row[at] += runs[1 + width + at];
    }
    visit(std::span<const uint64_t>(row, width));
    runs = runs.subspan(run_size(count, width));
  }
}

// ---- the records ----

struct Gathered {
  struct Range {
    uint64_t first, count;  // of `numbers`
  };
  // `rank` is the lowest that has the record. Records are in the order of FORMAT §4.
  struct Tensor {
    fb::Text name;
    uint16_t dtype, ndim;
    uint32_t rank;
    uint64_t shape;  // in `numbers`
    Range pieces;    // runs of rows
    uint64_t stored_bytes;
  };
  struct Alias {
    fb::Text name, target;
    uint32_t rank;
    uint16_t is_view, ndim;
    uint64_t view;  // in `numbers`
    Range view_range() const { return {view, is_view ? 1 + 2 * uint64_t{ndim} : 0}; }
  };
  struct Object {
    fb::Text name, media_type;
    uint64_t size;
    fb::Digest digest;
    Range holders;  // runs of parts; of a tree, of the parts with the first copy of it, each with its digest (lo, hi)
    uint32_t rank, scope;
    static size_t holder_width(uint32_t scope) { return scope == CKPT_OBJECT_TREE ? 3 : 1; }
  };
  struct Attr {
    fb::Text owner, key, value;
    uint32_t rank, zero;
  };
  // A rank's place in a replica group.
  struct Member {
    fb::Group group;
    uint32_t rank, zero;
  };

  // A tensor that a state tree of the group names and that no rank of the group added.
  struct Leaf {
    fb::Text name, object, path;
    uint32_t rank, zero;
  };

  format::Summary summary;  // of the first part
  LargeVector<fb::Part> parts;
  LargeVector<fb::Base> bases;  // of all these parts, each once; in order
  LargeVector<Member> members;
  LargeVector<Tensor> tensors;
  LargeVector<Alias> aliases;
  LargeVector<Object> objects;
  LargeVector<Attr> attrs;
  LargeVector<Leaf> leaves;
  LargeVector<uint64_t> numbers;
  LargeVector<char> names;
  LargeVector<std::byte> copies;  // of the parts' indexes, each padded, if MANIFEST may hold them

  std::string_view text(const fb::Text& text) const { return {names.data() + text.offset(), text.size()}; }
  std::span<const uint64_t> range(const Range& range) const { return {numbers.data() + range.first, range.count}; }
  fb::Text put_text(std::string_view text);
  uint64_t put_numbers(std::span<const uint64_t> values);
  Range put_rows(std::span<const uint64_t> rows, size_t width);

  // The bytes of a GROUP file.
  format::Buffer encode() const;
  // CORRUPT or FORMAT unless these are the bytes that encode() made, of parts [first, first + count) of this save.
  static Result<Gathered> decode(Bytes file, const Id& save_id, uint32_t first, uint32_t count);

 private:
  Status check(uint32_t first, uint32_t count) const;
};

}  // namespace ckpt::commit
