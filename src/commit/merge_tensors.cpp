// Merges the tensors of all sources: checks that the ranks describe the same tensors and together hold every element
// once, and finds the layout of each. There may be a thousand million pieces, so the steps work on one array of rows,
// which is reused.
#include <algorithm>
#include <set>

#include "commit/merge_steps.h"
#include "plan/coverage.h"

namespace ckpt::commit {

using SameTensor = ByName<TensorEntry>::Same;

static std::string describe(const TensorEntry& tensor) {
  return (tensor.rows ? "rows of " : "") + std::string(dtype_name(tensor.dtype)) + " " +
         to_text(Shape::of(tensor.extents));
}

// A rank that has rows of it; null if none has.
static const TensorEntry* find_rows(SameTensor same) {
  const auto at = std::ranges::find_if(same, [](const TensorEntry* tensor) { return tensor->rows; });
  return at == same.end() ? nullptr : *at;
}

// Ranks that have rows agree on all extents but the first. One without a row says what one of an empty tensor says.
static bool fits_rows(const TensorEntry& rows, const TensorEntry& other) {
  return other.dtype == rows.dtype && other.extents.size() == rows.extents.size() &&
         (other.rows || other.extents[0] == 0) && std::ranges::equal(rows.extents.subspan(1), other.extents.subspan(1));
}

static Status check_same(SameTensor same) {
  const TensorEntry* rows = find_rows(same);
  const TensorEntry& first = rows ? *rows : *same[0];
  for (const TensorEntry* other : same)
    if (rows ? !fits_rows(first, *other)
             : other->dtype != first.dtype || !std::ranges::equal(first.extents, other->extents)) {
      const bool before = other->rank < first.rank;
      const TensorEntry &a = before ? *other : first, &b = before ? first : *other;
      return disagree("tensor", first.name, a.rank, b.rank, describe(a), describe(b));
    }
  return Ok();
}

// ---- the pieces of one tensor ----

namespace {

class Rows {
 public:
  // Collects what all sources say, in their order.
  void collect(SameTensor same);

  size_t width() const { return width_; }
  size_t count() const { return numbers_.size() / width_; }
  std::span<const uint64_t> all() const { return numbers_; }
  const uint64_t* row(size_t i) const { return &numbers_[i * width_]; }
  // Equal regions have equal kinds and numbers.
  size_t region_width() const { return width_ - kRowEnd; }
  uint64_t start(const uint64_t* row) const { return row[width_ - 3]; }
  uint64_t elements(const uint64_t* row) const { return row[width_ - 2]; }
  uint32_t part(const uint64_t* row) const { return static_cast<uint32_t>(row[width_ - 1]); }
  Region region(const uint64_t* row, size_t ndim) const {
    const auto kind = static_cast<RegionKind>(row[0]);
    return region_of_numbers(kind, {row + 1, region_number_count(kind, ndim)});
  }
  uint64_t stored_bytes() const { return stored_bytes_; }

 private:
  void collect_part(const TensorEntry& tensor);

  size_t width_ = 1;
  std::vector<uint64_t> numbers_;
  uint64_t stored_bytes_ = 0;
};

void Rows::collect_part(const TensorEntry& tensor) {
  const format::Page& page = *tensor.page;
  for (const fb::Region& region : page.regions_of(*tensor.tensor)) {
    const size_t count = region_number_count(static_cast<RegionKind>(region.kind()), tensor.extents.size());
    const uint64_t* numbers = page.numbers.data() + region.geometry();
    for (const fb::Segment& segment : page.segments_of(region)) {
      const size_t at = numbers_.size();
      numbers_.resize(at + width_);
      uint64_t* row = &numbers_[at];
      row[0] = region.kind();
      std::copy_n(numbers, count, row + 1);
      if (tensor.rows) row[1] = tensor.extents[0];
      row[width_ - 3] = segment.start();
      row[width_ - 2] = segment.count();
      row[width_ - 1] = tensor.rank;
      for (const fb::Chunk& chunk : page.chunks_of(segment)) stored_bytes_ += chunk.stored_size();
    }
  }
}

void Rows::collect(SameTensor same) {
  width_ = row_width(same[0]->extents.size());
  numbers_.clear();
  stored_bytes_ = 0;
  for (const TensorEntry* tensor : same) {
    if (!tensor->gathered) {
      collect_part(*tensor);
      continue;
    }
    stored_bytes_ += tensor->pieces->stored_bytes;
    for_each_row(tensor->gathered->range(tensor->pieces->pieces), width_,
                 [&](std::span<const uint64_t> row) { numbers_.insert(numbers_.end(), row.begin(), row.end()); });
  }
}

// ---- into a manifest ----

class TensorMerge {
 public:
  explicit TensorMerge(format::IndexBuilder& builder) : builder_(builder) {}
  Status add(SameTensor same);

 private:
  // Equal regions of several pieces, and the parts that hold it, by their first element.
  struct HeldRegion {
    const uint64_t* row;
    size_t parts_first, parts_count;
  };
  void sort();
  void find_parts();
  Status find_regions();
  uint64_t volume(const uint64_t* row) const;
  Status bad_share(size_t begin, size_t at, size_t end, uint64_t covered) const;
  Status add_region(size_t begin, size_t end);
  Status check_regions() const;
  Status add_rows();
  bool find_grid();
  uint32_t layout();
  Status uncovered(Status status, const std::vector<uint32_t>& ranks) const;
  Region region(const HeldRegion& held) const { return rows_.region(held.row, extents_.size()); }

  format::IndexBuilder& builder_;
  // The current tensor:
  SameTensor same_;
  std::span<const uint64_t> extents_;
  uint64_t elements_ = 0;
  Rows rows_;
  std::vector<const uint64_t*> order_;  // the rows, sorted
  std::vector<uint32_t> parts_;         // that hold something, ascending
  std::vector<HeldRegion> regions_;
  std::vector<uint32_t> holders_;  // of all regions
  std::vector<uint64_t> cells_;    // of the grid that the regions make; empty if they make none
  std::vector<uint32_t> sequence_;
};

// By region, start, count, part.
void TensorMerge::sort() {
  order_.resize(rows_.count());
  for (size_t i = 0; i < order_.size(); i++) order_[i] = rows_.row(i);
  auto before = [width = rows_.width()](const uint64_t* a, const uint64_t* b) {
    return std::lexicographical_compare(a, a + width, b, b + width);
  };
  if (!std::is_sorted(order_.begin(), order_.end(), before)) std::sort(order_.begin(), order_.end(), before);
}

void TensorMerge::find_parts() {
  parts_.clear();
  for (size_t i = 0; i < rows_.count(); i++)
    if (const uint32_t part = rows_.part(rows_.row(i)); parts_.empty() || parts_.back() != part) parts_.push_back(part);
}

// Whether an element is missing or double, the ranks' descriptions do not fit together.
Status TensorMerge::uncovered(Status status, const std::vector<uint32_t>& ranks) const {
  std::string owners;
  const std::string_view name = same_[0]->name;
  const std::set<uint32_t> distinct(ranks.begin(), ranks.end());
  for (uint32_t rank : distinct) owners += (owners.empty() ? "" : ", ") + std::to_string(rank);
  Status mismatch(CKPT_MISMATCH, "tensor " + in_quotes(name) + " (ranks " + owners + "): " + status.message());
  if (const std::string* found = status.detail("found")) mismatch = std::move(mismatch).with("found", *found);
  return std::move(mismatch).with("tensor", std::string(name)).with("ranks", owners);
}

uint64_t TensorMerge::volume(const uint64_t* row) const {
  const auto kind = static_cast<RegionKind>(row[0]);
  if (kind != RegionKind::kBox) return kind == RegionKind::kWhole ? elements_ : row[2];
  uint64_t volume = 1;
  for (size_t d = 0; d < extents_.size(); d++) volume *= row[1 + extents_.size() + d];
  return volume;
}

// A share that begins too early or too late, or nothing where the region goes on.
Status TensorMerge::bad_share(size_t begin, size_t at, size_t end, uint64_t covered) const {
  const std::string region = to_text(rows_.region(order_[begin], extents_.size()));
  if (at < end && rows_.start(order_[at]) < covered)
    return uncovered(Status(CKPT_MISMATCH, strformat("both hold element {} of {}", rows_.start(order_[at]), region))
                         .with("found", region),
                     {rows_.part(order_[at - 1]), rows_.part(order_[at])});
  return uncovered(
      Status(CKPT_INCOMPLETE, strformat("no rank holds element {} of {}", covered, region)).with("found", region),
      parts_);
}

// Rows [begin, end) of the order are all of one region: they must cover it, each element once.
Status TensorMerge::add_region(size_t begin, size_t end) {
  const auto first = static_cast<std::ptrdiff_t>(holders_.size());
  uint64_t covered = 0;
  for (size_t i = begin; i < end; i++) {
    if (rows_.start(order_[i]) != covered) return bad_share(begin, i, end, covered);
    covered += rows_.elements(order_[i]);
    const uint32_t part = rows_.part(order_[i]);
    if (std::find(holders_.begin() + first, holders_.end(), part) == holders_.end()) holders_.push_back(part);
  }
  if (covered != volume(order_[begin])) return bad_share(begin, end, end, covered);
  regions_.push_back({order_[begin], static_cast<size_t>(first), holders_.size() - static_cast<size_t>(first)});
  return Ok();
}

Status TensorMerge::find_regions() {
  regions_.clear();
  holders_.clear();
  for (size_t begin = 0, end; begin < order_.size(); begin = end) {
    for (end = begin + 1;
         end < order_.size() && std::equal(order_[begin], order_[begin] + rows_.region_width(), order_[end]); end++) {
    }
    CKPT_TRY(add_region(begin, end));
  }
  return Ok();
}

Status TensorMerge::check_regions() const {
  if (regions_.size() == 1 && regions_[0].row[0] == 0) return Ok();  // the whole tensor
  std::vector<Region> regions;
  for (const HeldRegion& held : regions_) regions.push_back(region(held));
  Status covered = plan::check_coverage(Shape::of(extents_), regions);
  if (covered.ok()) return covered;
  std::vector<uint32_t> ranks;
  const std::string *first = covered.detail("first"), *second = covered.detail("second");
  for (const std::string* at : {first, second})
    if (at && std::stoul(*at) < regions_.size()) ranks.push_back(holders_[regions_[std::stoul(*at)].parts_first]);
  if (ranks.empty()) ranks = parts_;
  if (ranks.empty())
    for (const TensorEntry* tensor : same_) ranks.push_back(tensor->rank);
  return uncovered(std::move(covered), ranks);
}

// Whether the regions are one box for each cell of a grid of several cells. Then they cover the tensor, each element
// once. Regions ascend by their offsets, so those of a grid come in the order of its cells.
bool TensorMerge::find_grid() {
  const size_t ndim = extents_.size();
  cells_.clear();
  if (regions_.size() < 2 || regions_[0].row[0] != 1 || regions_.back().row[0] != 1) return false;
  const uint64_t* size = regions_[0].row + 1 + ndim;
  uint64_t count = 1;
  std::vector<uint64_t> cells(ndim), at(ndim, 0);
  for (size_t d = 0; d < ndim; d++) {
    if (size[d] == 0) return false;
    cells[d] = (extents_[d] + size[d] - 1) / size[d];
    // The smallest number of cells of that size must give that size again.
    if ((extents_[d] + cells[d] - 1) / cells[d] != size[d] || mul_overflows(count, cells[d], &count)) return false;
  }
  if (count != regions_.size()) return false;
  for (const HeldRegion& held : regions_) {
    const uint64_t *offset = held.row + 1, *extent = offset + ndim;
    for (size_t d = 0; d < ndim; d++)
      if (offset[d] != at[d] || extent[d] != std::min(size[d], extents_[d] - at[d])) return false;
    for (size_t d = ndim; d-- > 0;) {
      at[d] += size[d];
      if (at[d] < extents_[d]) break;
      at[d] = 0;
    }
  }
  cells_ = std::move(cells);
  return true;
}

uint32_t TensorMerge::layout() {
  if (cells_.empty()) return builder_.list_layout(parts_);
  size_t per_cell = 1;
  for (const HeldRegion& held : regions_) per_cell = std::max(per_cell, held.parts_count);
  sequence_.clear();
  for (const HeldRegion& held : regions_)
    for (size_t i = 0; i < per_cell; i++)
      sequence_.push_back(holders_[held.parts_first + std::min(i, held.parts_count - 1)]);
  return builder_.grid_layout(cells_, static_cast<uint32_t>(per_cell), sequence_);
}

// The parts have their rows one after the other. Each has all of its own (FORMAT §4); a group may say anything.
Status TensorMerge::add_rows() {
  std::vector<uint64_t> extents(extents_.begin(), extents_.end());
  extents[0] = 1;
  uint64_t row_elements = 0, total = 0, bytes = 0;
  count_elements(extents, &row_elements);
  bool fits = true;
  for (size_t begin = 0, end; begin < rows_.count(); begin = end) {
    const uint64_t* first = rows_.row(begin);
    uint64_t covered = 0, elements = 0;
    for (end = begin; end < rows_.count() && rows_.part(rows_.row(end)) == rows_.part(first); end++) {
      if (rows_.start(rows_.row(end)) != covered || rows_.row(end)[1] != first[1]) covered = UINT64_MAX;
      if (add_overflows(covered, rows_.elements(rows_.row(end)), &covered)) covered = UINT64_MAX;
    }
    if (mul_overflows(first[1], row_elements, &elements) || covered != elements || elements == 0)
      return uncovered(Status(CKPT_INCOMPLETE, "not all of the rows that it has"), {rows_.part(first)});
    fits &= !add_overflows(total, first[1], &total);
  }
  extents[0] = total;
  if (!fits || !count_elements(extents, &elements_) || !count_bytes(elements_, same_[0]->dtype, &bytes))
    return tensor_error(CKPT_UNSUPPORTED, same_[0]->name, "the rows of all ranks together take more than 2^63-1 bytes");
  builder_.add_tensor(same_[0]->name, same_[0]->dtype, extents);
  builder_.add_holding(rows_.stored_bytes(), static_cast<uint32_t>(rows_.count()), builder_.rows_layout(parts_));
  return Ok();
}

Status TensorMerge::add(SameTensor same) {
  CKPT_TRY(check_same(same));
  same_ = same;
  extents_ = same[0]->extents;
  count_elements(extents_, &elements_);
  rows_.collect(same);
  find_parts();
  if (find_rows(same)) return add_rows();
  cells_.clear();
  if (elements_ != 0) {
    sort();
    CKPT_TRY(find_regions());
    if (!find_grid()) CKPT_TRY(check_regions());
  }
  builder_.add_tensor(same[0]->name, same[0]->dtype, extents_);
  builder_.add_holding(rows_.stored_bytes(), static_cast<uint32_t>(rows_.count()), layout());
  return Ok();
}

}  // namespace

Status merge_tensors(Sources sources, format::IndexBuilder& builder) {
  TensorMerge merge(builder);
  return ByName<TensorEntry>(sources).visit([&](SameTensor same) { return merge.add(same); });
}

// ---- into a group's file ----

Status gather_tensors(Sources sources, Gathered& gathered) {
  Rows rows;
  return ByName<TensorEntry>(sources).visit([&](SameTensor same) {
    CKPT_TRY(check_same(same));
    rows.collect(same);
    const TensorEntry& first = *same[0];
    Gathered::Tensor& tensor = gathered.tensors.emplace_back();
    tensor.name = gathered.put_text(first.name);
    tensor.dtype = first.dtype;
    tensor.ndim = static_cast<uint16_t>(first.extents.size());
    tensor.rank = first.rank;
    tensor.shape = gathered.put_numbers(first.extents);
    tensor.pieces = gathered.put_rows(rows.all(), rows.width());
    tensor.stored_bytes = rows.stored_bytes();
    return Ok();
  });
}

}  // namespace ckpt::commit
