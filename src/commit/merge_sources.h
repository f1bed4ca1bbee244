// What a merge reads: parts, and what groups of ranks gathered, as streams of records in the order of their names.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/part_file.h"
#include "commit/gathered.h"

namespace ckpt::commit {

// A part (with the pages of its index), or what several parts say together.
struct Source {
  const checkpoint::PartFile* part = nullptr;
  std::vector<const format::Page*> pages;
  const Gathered* gathered = nullptr;

  const format::Summary& summary() const { return gathered ? gathered->summary : part->summary(); }
  uint32_t first_rank() const { return gathered ? gathered->parts[0].rank() : part->header.rank; }
  size_t page_count() const { return gathered ? 1 : pages.size(); }
};
using Sources = std::span<const Source>;

// ---- records as a source tells them ----
// `rank` is the lowest rank of the source that has the record; `key` is what records are sorted by.

struct TensorEntry {
  std::string_view name;
  uint32_t rank;
  uint16_t dtype;
  std::span<const uint64_t> extents;
  bool rows;  // extents[0] is what the rank has, and not what all have together
  // Its pieces, in one of two forms:
  const format::Page* page;  // of a part
  const fb::Tensor* tensor;
  const Gathered* gathered;
  const Gathered::Tensor* pieces;

  std::string_view key() const { return name; }
  static size_t count(const Source& source, size_t page);
  void read(const Source& source, size_t number, size_t at);
};

struct AliasEntry {
  std::string_view name, target;
  uint32_t rank;
  bool is_view;
  int ndim;
  std::span<const uint64_t> view;

  std::string_view key() const { return name; }
  static size_t count(const Source& source, size_t page);
  void read(const Source& source, size_t number, size_t at);
};

struct ObjectEntry {
  std::string_view name, media_type;
  uint32_t rank;
  uint64_t size;
  Digest digest;
  uint8_t scope;                      // CKPT_OBJECT_*
  bool held;                          // of a part: whether its data is there
  uint32_t part;                      // of a part
  std::span<const uint64_t> holders;  // of what was gathered: runs of parts, see Gathered::Object

  std::string_view key() const { return name; }
  static size_t count(const Source& source, size_t page);
  void read(const Source& source, size_t number, size_t at);
};

struct AttrEntry {
  std::string_view owner, name, value;
  uint32_t rank;

  std::pair<std::string_view, std::string_view> key() const { return {owner, name}; }
  static size_t count(const Source& source, size_t page);
  void read(const Source& source, size_t number, size_t at);
};

// ---- by name ----

// The records of one kind of all sources, by their keys: visits those with the same key together, in order of sources.
template <typename Entry>
class ByName {
 public:
  using Same = std::span<const Entry* const>;

  explicit ByName(Sources sources) {
    cursors_.reserve(sources.size());
    std::vector<uint32_t> all;
    for (const Source& source : sources) {
      cursors_.push_back({&source, 0, 0, {}});
      if (read_record(cursors_.back())) all.push_back(static_cast<uint32_t>(cursors_.size() - 1));
    }
    put_back(std::move(all));
  }

  // Calls visit(Same) for each key, ascending, until one fails.
  template <typename Visit>
  Status visit(Visit&& visit) {
    std::vector<const Entry*> same;
    while (!heap_.empty()) {
      std::vector<uint32_t> members = take_least();
      same.clear();
      for (uint32_t number : members) same.push_back(&cursors_[number].entry);
      CKPT_TRY(visit(Same(same)));
      std::erase_if(members, [this](uint32_t number) { return !advance(cursors_[number]); });
      put_back(std::move(members));
    }
    return Ok();
  }

 private:
  struct Cursor {
    const Source* source;
    size_t page, at;
    Entry entry;  // the record at this place
  };
  // Sources whose next keys are equal, in their order. Ranks mostly have the same names, and so stay together: then a
  // name costs each of them one comparison.
  using Cohort = std::vector<uint32_t>;

  // Reads the record at a cursor, on a later page if there is none on this one. False at the end.
  static bool read_record(Cursor& cursor) {
    for (; cursor.page < cursor.source->page_count(); cursor.page++, cursor.at = 0) {
      if (cursor.at == Entry::count(*cursor.source, cursor.page)) continue;
      cursor.entry.read(*cursor.source, cursor.page, cursor.at);
      return true;
    }
    return false;
  }
  static bool advance(Cursor& cursor) {
    cursor.at++;
    return read_record(cursor);
  }
  auto key(uint32_t number) const { return cursors_[number].entry.key(); }
  auto key(const Cohort& cohort) const { return key(cohort[0]); }

  Cohort pop() {
    std::pop_heap(heap_.begin(), heap_.end(), after_);
    Cohort cohort = std::move(heap_.back());
    heap_.pop_back();
    return cohort;
  }
  void push(Cohort cohort) {
    heap_.push_back(std::move(cohort));
    std::push_heap(heap_.begin(), heap_.end(), after_);
  }
  Cohort take_least() {
    Cohort least = pop();
    bool several = false;
    for (; !heap_.empty() && key(heap_.front()) == key(least); several = true) {
      const Cohort more = pop();
      least.insert(least.end(), more.begin(), more.end());
    }
    if (several) std::sort(least.begin(), least.end());
    return least;
  }
  void put_back(Cohort members) {
    if (members.empty()) return;
    const auto first = key(members);
    if (std::all_of(members.begin() + 1, members.end(), [&](uint32_t number) { return key(number) == first; }))
      return push(std::move(members));
    std::sort(members.begin(), members.end(),
              [this](uint32_t a, uint32_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    for (auto begin = members.begin(), end = begin; begin != members.end(); begin = end) {
      end = std::find_if(begin, members.end(), [&](uint32_t number) { return key(number) != key(*begin); });
      push(Cohort(begin, end));
    }
  }

  std::vector<Cursor> cursors_;
  std::vector<Cohort> heap_;  // the cohort with the least key is the first
  struct After {
    const ByName* by;
    bool operator()(const Cohort& a, const Cohort& b) const { return by->key(b) < by->key(a); }
  } after_{this};
};

}  // namespace ckpt::commit
