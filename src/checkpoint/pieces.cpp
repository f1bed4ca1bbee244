// What parts hold of a tensor or object, found through the manifest's layouts and the parts' own indexes.
#include <algorithm>
#include <map>

#include "checkpoint/checkpoint.h"
#include "checkpoint/region_order.h"
#include "format/names.h"
#include "format/part_record.h"
#include "plan/box.h"
#include "plan/coverage.h"

namespace ckpt::checkpoint {

// ---- the indexes of parts ----

Result<std::unique_ptr<IndexFile>> Checkpoint::open_part_index(uint32_t number) const {
  CKPT_ASSIGN(fb::Part record, part_record(number));
  const IndexPlace place{format::IndexKind::kPart, record.index_size(),
                         record.root_size(),       format::id_of(record.root_digest()),
                         record.index_offset(),    number,
                         store_->traits().remote};
  if (trailer_.copies_size != 0) {
    const uint64_t begin = format::manifest_copies_offset(trailer_);
    if (record.copy_offset() % format::kPageAlign != 0 || record.copy_offset() > trailer_.copies_size ||
        record.index_size() > trailer_.copies_size - record.copy_offset())
      return Status(CKPT_FORMAT, strformat("the copy of the index of part {} lies outside the copies", number));
    if (!bytes_.bytes().empty())
      return IndexFile::open(place, Bytes(bytes_.bytes()).subspan(begin + record.copy_offset(), place.size));
    return IndexFile::open(
        place, [this, begin = begin + record.copy_offset()](uint64_t offset, const IndexMemory& out, bool again) {
          return read_index(file_, begin + offset, out, again);
        });
  }
  // Only a part that is as large as the record says makes us allocate what the record says.
  CKPT_TRY(part(number).status());
  return IndexFile::open(
      place, [this, number, at = record.index_offset()](uint64_t offset, const IndexMemory& out, bool again) -> Status {
        CKPT_ASSIGN(const PartReader file, part(number));
        return read_index(file, at + offset, out, again);
      });
}

Result<const IndexFile*> Checkpoint::part_index(uint32_t number) const {
  {
    std::lock_guard lock(mutex_);
    if (auto found = indexes_.find(number); found != indexes_.end()) return found->second.index.get();
  }
  PartIndex opened;
  auto open = [&]() -> Status {
    CKPT_ASSIGN(opened.index, open_part_index(number));
    const format::Root& root = opened.index->root();
    if (root.summary.save_id != summary().save_id || root.summary.world_size != summary().world_size)
      return Status(CKPT_FORMAT, "the summary of its index is that of another save");
    CKPT_ASSIGN(opened.bases, number_bases(root.bases));
    return Ok();
  };
  if (Status status = open(); !status.ok()) {
    if (status.detail("part")) return status;
    return trailer_.copies_size ? at_manifest(std::move(status)) : at_part(std::move(status), number);
  }
  std::lock_guard lock(mutex_);
  auto [at, fresh] = indexes_.try_emplace(number, std::move(opened));  // another thread may have been faster
  return at->second.index.get();
}

// Both lists are in one order. What the manifest says of a base is what counts, so a part must say the same.
Result<std::vector<uint32_t>> Checkpoint::number_bases(std::span<const fb::Base> bases) const {
  std::vector<uint32_t> numbers;
  uint32_t first = summary().part_count;
  for (const fb::Base& base : bases) {
    for (uint32_t end = file_count(); first < end;) {
      const uint32_t middle = first + (end - first) / 2;
      CKPT_ASSIGN(const fb::Part at, part_record(middle));
      if (format::identity_of(at) < format::identity_of(base.part()))
        first = middle + 1;
      else
        end = middle;
    }
    const bool known = first < file_count();
    CKPT_ASSIGN(const fb::Part record, part_record(known ? first : 0));
    if (!known || !format::same_file(record, base.part()))
      return Status(CKPT_FORMAT,
                    strformat("the manifest does not describe {} as its index does", format::file_name(base.part())));
    numbers.push_back(first++);
  }
  return numbers;
}

// ---- the pieces of a tensor ----

static bool are_rows(const fb::Region& region) { return static_cast<RegionKind>(region.kind()) == RegionKind::kRows; }

bool Piece::unplaced() const { return are_rows(*region) && row_total == 0; }

Shape Piece::shape() const {
  Shape shape = page->shape_of(*tensor);
  if (row_total != 0) shape[0] = row_total;
  return shape;
}

Region Piece::held() const {
  if (!are_rows(*region)) return page->region_of(*region, tensor->ndim());
  const auto extents = page->extents_of(*tensor);
  if (row_total == 0 || row_total == extents[0]) return {};
  uint64_t elements = 0;
  count_elements(extents, &elements);
  return {RegionKind::kFlat, {}, elements / extents[0] * row_first, elements};
}

namespace {

class Collector {
 public:
  Collector(const Checkpoint& checkpoint, const TensorRef& tensor, const Box* wanted)
      : checkpoint_(checkpoint), tensor_(tensor), wanted_(wanted) {}
  Result<std::vector<Piece>> run();

 private:
  Status collect_list(const fb::Layout& layout);
  Status collect_rows(const fb::Layout& layout);
  Status collect_grid(const fb::Layout& layout);
  Status collect_cell(format::Root::PartCursor& holders, const fb::Layout& layout, const Box& cell, uint64_t number);
  Result<const format::Page*> page_in(uint32_t part) const;
  Status collect_part(uint32_t part, const Box* cell);
  Status collect_rows_of(uint32_t part, uint64_t* first);
  Status check_list() const;
  Status check_cover(std::span<const Piece> pieces, uint64_t elements) const;
  Status wrong(std::string what) const { return tensor_error(CKPT_FORMAT, tensor_.name(), std::move(what)); }

  const Checkpoint& checkpoint_;
  const TensorRef tensor_;
  const Box* wanted_;
  std::vector<Piece> pieces_;
};

// The region of a tensor that is this box, or none. They ascend, and a part may have a region for each of many cells.
std::span<const fb::Region> find_region(const format::Page& page, const fb::Tensor& tensor, const Box& box) {
  const auto regions = page.regions_of(tensor);
  const Region wanted{RegionKind::kBox, box, 0, 0};
  auto before = [&](const fb::Region& region, const Region& key) {
    return RegionOrder()(page.region_of(region, tensor.ndim()), key);
  };
  const auto at = std::lower_bound(regions.begin(), regions.end(), wanted, before);
  const bool found = at != regions.end() && page.region_of(*at, tensor.ndim()) == wanted;
  return {at, size_t{found}};
}

Result<const format::Page*> Collector::page_in(uint32_t part) const {
  CKPT_ASSIGN(const IndexFile* index, checkpoint_.part_index(part));
  auto opened = index->page_of(tensor_.name());
  if (!opened.ok()) return checkpoint_.at_part(std::move(opened).status(), part);
  return *opened;
}

// Adds what one part holds: of the tensor, or of a cell of it.
Status Collector::collect_part(uint32_t part, const Box* cell) {
  CKPT_ASSIGN(const format::Page* page, page_in(part));
  const fb::Tensor* theirs = page->find_tensor(tensor_.name());
  std::span<const fb::Region> regions = theirs ? page->regions_of(*theirs) : std::span<const fb::Region>();
  if (!theirs || theirs->dtype() != tensor_.dtype() ||
      !std::ranges::equal(page->extents_of(*theirs), tensor_.extents()) || (!regions.empty() && are_rows(regions[0])))
    return wrong(strformat("{} does not hold it as the manifest says", format::part_name(part)));
  const size_t before = pieces_.size();
  if (cell) regions = find_region(*page, *theirs, *cell);
  for (const fb::Region& region : regions)
    for (const fb::Segment& segment : page->segments_of(region))
      pieces_.push_back({part, page, theirs, &region, &segment});
  if (pieces_.size() != before) return Ok();
  return wrong(strformat("{} holds nothing of it, though the manifest says so", format::part_name(part)));
}

Status Collector::collect_list(const fb::Layout& layout) {
  Status status;
  checkpoint_.root().for_each_part(layout, 0, layout.per_cell(), [&](uint32_t part) {
    if (status.ok()) status = collect_part(part, nullptr);
  });
  CKPT_TRY(std::move(status));
  return check_list();
}

// Adds the rows of one part, which come after *first others.
Status Collector::collect_rows_of(uint32_t part, uint64_t* first) {
  CKPT_ASSIGN(const format::Page* page, page_in(part));
  const fb::Tensor* theirs = page->find_tensor(tensor_.name());
  const auto extents = theirs ? page->extents_of(*theirs) : std::span<const uint64_t>(), all = tensor_.extents();
  const auto regions = theirs ? page->regions_of(*theirs) : std::span<const fb::Region>();
  if (!theirs || theirs->dtype() != tensor_.dtype() || extents.size() != all.size() || regions.size() != 1 ||
      !are_rows(regions[0]) || !std::ranges::equal(extents.subspan(1), all.subspan(1)) || extents[0] > all[0] - *first)
    return wrong(strformat("{} does not hold rows of it as the manifest says", format::part_name(part)));
  for (const fb::Segment& segment : page->segments_of(regions[0]))
    pieces_.push_back({part, page, theirs, regions.data(), &segment, *first, all[0]});
  *first += extents[0];
  return Ok();
}

// All rows, whatever is wanted: the parts before tell where those of a part begin.
Status Collector::collect_rows(const fb::Layout& layout) {
  Status status;
  uint64_t rows = 0;
  checkpoint_.root().for_each_part(layout, 0, layout.per_cell(), [&](uint32_t part) {
    if (status.ok()) status = collect_rows_of(part, &rows);
  });
  CKPT_TRY(std::move(status));
  const uint64_t all = tensor_.extents()[0];
  return rows == all ? Ok() : wrong(strformat("the parts have {} rows, the manifest says {}", rows, all));
}

// The segments of one region cover it, each element once. `pieces` are all of one region.
Status Collector::check_cover(std::span<const Piece> pieces, uint64_t elements) const {
  std::vector<const fb::Segment*> segments;
  for (const Piece& piece : pieces) segments.push_back(piece.segment);
  std::sort(segments.begin(), segments.end(), [](auto* a, auto* b) { return a->start() < b->start(); });
  uint64_t end = 0;
  for (const fb::Segment* segment : segments) {
    if (segment->start() != end)
      return wrong(strformat("elements {} to {} of region {} are {}", std::min(end, segment->start()),
                             std::max(end, segment->start()), to_text(pieces[0].held()),
                             segment->start() > end ? "in no part" : "in two parts"));
    end += segment->count();
  }
  return end == elements ? Ok() : wrong(strformat("only {} of {} elements of a region are there", end, elements));
}

Status Collector::check_list() const {
  uint64_t total = 0;
  count_elements(tensor_.extents(), &total);
  if (pieces_.size() == 1 && pieces_[0].region->kind() == 0) return check_cover(pieces_, total);
  std::map<Region, std::vector<Piece>, RegionOrder> regions;
  for (const Piece& piece : pieces_) regions[piece.held()].push_back(piece);
  std::vector<Region> distinct;
  for (const auto& [region, held] : regions) {
    distinct.push_back(region);
    CKPT_TRY(check_cover(held, region_volume(region, total)));
  }
  if (distinct.size() == 1 && distinct[0].kind == RegionKind::kWhole) return Ok();
  Status covered = plan::check_coverage(tensor_.shape(), distinct);
  return covered.ok() ? Ok() : wrong(covered.message());
}

Status Collector::collect_cell(format::Root::PartCursor& holders, const fb::Layout& layout, const Box& cell,
                               uint64_t number) {
  const size_t before = pieces_.size();
  Status status;
  int64_t last = -1;
  holders.visit(number * layout.per_cell(), layout.per_cell(), [&](uint32_t part) {
    if (status.ok() && part != last) status = collect_part(part, &cell);  // the last one is repeated
    last = part;
  });
  CKPT_TRY(std::move(status));
  return check_cover(std::span(pieces_).subspan(before), cell.volume());
}

// The cells that overlap the wanted box.
Status Collector::collect_grid(const fb::Layout& layout) {
  if (wanted_ && wanted_->volume() == 0) return Ok();
  const Shape shape = tensor_.shape(), cells = Shape::of(checkpoint_.root().cells_of(layout));
  Box range = Box::whole(cells);
  Shape size = cells;
  for (int d = 0; d < cells.ndim; d++) {
    size[d] = (shape[d] + cells[d] - 1) / cells[d];
    if (!wanted_) continue;
    range.offset[d] = wanted_->offset[d] / size[d];
    range.extent[d] = (wanted_->offset[d] + wanted_->extent[d] - 1) / size[d] + 1 - range.offset[d];
  }
  const Shape strides = plan::contiguous_strides(cells);
  format::Root::PartCursor holders(checkpoint_.root(), layout);
  for (uint64_t i = 0, count = range.volume(); i < count; i++) {
    Box cell{shape, shape};
    uint64_t rest = i, number = 0;
    for (int d = cells.ndim - 1; d >= 0; d--) {
      const uint64_t at = range.offset[d] + rest % range.extent[d];
      rest /= range.extent[d];
      number += at * strides[d];
      cell.offset[d] = at * size[d];
      cell.extent[d] = std::min(size[d], shape[d] - cell.offset[d]);
    }
    CKPT_TRY(collect_cell(holders, layout, cell, number));
  }
  return Ok();
}

Result<std::vector<Piece>> Collector::run() {
  if (tensor_.part != TensorRef::kNoPart) {
    CKPT_TRY(collect_part(tensor_.part, nullptr));
    return std::move(pieces_);
  }
  const fb::Layout& layout = checkpoint_.root().layouts[tensor_.page->holding_of(*tensor_.tensor).layout()];
  CKPT_TRY(checkpoint_.root().is_grid(layout)   ? collect_grid(layout)
           : checkpoint_.root().is_rows(layout) ? collect_rows(layout)
                                                : collect_list(layout));
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.part < b.part; });
  return std::move(pieces_);
}

}  // namespace

Result<std::vector<Piece>> Checkpoint::pieces(const TensorRef& tensor, const Box* wanted) const {
  return Collector(*this, tensor, wanted).run();
}

Piece Checkpoint::placed(Piece piece) const {
  if (!are_rows(*piece.region)) return piece;
  const auto named = find(piece.page->text(piece.tensor->name()));
  if (!named.ok() || !named->tensor || named->alias) return piece;
  const auto all = pieces(named->tensor);
  if (!all.ok()) return piece;
  for (const Piece& at : *all)
    if (at.part == piece.part) piece.row_first = at.row_first, piece.row_total = at.row_total;
  return piece;
}

// Whether the segments of a region, which ascend, are all of it.
static bool is_complete(const format::Page& page, const fb::Region& region, uint64_t elements) {
  uint64_t end = 0;
  for (const fb::Segment& segment : page.segments_of(region)) {
    if (segment.start() != end) return false;
    end += segment.count();
  }
  return end == elements;
}

// Whether a region has all that is wanted, by a quick look.
static bool contains(const Region& region, const Region& wanted) {
  if (region.kind == RegionKind::kWhole) return true;
  if (region.kind != wanted.kind) return false;
  if (region.kind == RegionKind::kBox) return plan::intersect(region.box, wanted.box) == wanted.box;
  return region.flat_offset <= wanted.flat_offset && wanted.flat_offset - region.flat_offset <= region.flat_size &&
         wanted.flat_size <= region.flat_size - (wanted.flat_offset - region.flat_offset);
}

Result<TensorRef> Checkpoint::find_in_part(uint32_t number, std::string_view name, const Shape& shape,
                                           const Region& wanted) const {
  if (number >= summary().part_count) return TensorRef{};
  CKPT_ASSIGN(const IndexFile* index, part_index(number));
  auto page = index->page_of(name);
  if (!page.ok()) return at_part(std::move(page).status(), number);
  const fb::Tensor* tensor = (*page)->find_tensor(name);
  uint64_t elements = 0;
  if (!tensor || !((*page)->shape_of(*tensor) == shape) || !count_elements(shape.span(), &elements)) return TensorRef{};
  for (const fb::Region& at : (*page)->regions_of(*tensor)) {
    const Region region = (*page)->region_of(at, tensor->ndim());
    if (are_rows(at)) break;  // only all parts together know where they begin
    if (contains(region, wanted) && is_complete(**page, at, region_volume(region, elements)))
      return TensorRef{*page, tensor, number};
  }
  return TensorRef{};
}

bool Checkpoint::next_piece(const TensorRef& tensor, Piece* piece) const {
  if (tensor.part != TensorRef::kNoPart) return false;
  const fb::Layout& layout = root().layouts[tensor.page->holding_of(*tensor.tensor).layout()];
  const fb::Tensor* next = piece->tensor + 1;
  const format::Page& page = *piece->page;
  if (layout.kind() != 0 || layout.per_cell() != 1 || root().runs[layout.run_first()].first() != piece->part ||
      next == page.tensors.data() + page.tensors.size() || next->region_count() != 1 ||
      page.text(next->name()) != tensor.name() || next->dtype() != tensor.dtype() ||
      !std::ranges::equal(page.extents_of(*next), tensor.extents()))
    return false;
  const fb::Region& region = page.regions_of(*next)[0];
  const fb::Segment& segment = page.segments_of(region)[0];
  uint64_t elements = 0;
  if (region.kind() != 0 || !count_elements(tensor.extents(), &elements) || segment.count() != elements) return false;
  *piece = {piece->part, &page, next, &region, &segment};
  return true;
}

// ---- objects ----

// `scope`: what MANIFEST, or another part, says.
Result<ObjectRef> Checkpoint::object_in(uint32_t number, std::string_view name, int scope) const {
  CKPT_ASSIGN(const IndexFile* index, part_index(number));
  auto page = index->page_of(name);
  if (!page.ok()) return at_part(std::move(page).status(), number);
  const fb::Object* object = (*page)->find_object(name);
  if (object && object->scope() == scope && object->placement() != 2) return ObjectRef{number, *page, object};
  return at_manifest(error_about(
      CKPT_FORMAT, name,
      strformat("object {} is not in {} as the manifest says", in_quotes(name), format::part_name(number))));
}

Result<ObjectRef> Checkpoint::find_object(std::string_view name, uint32_t rank) const {
  CKPT_ASSIGN(const format::Page* page, page_of(name));
  const fb::Object* object = page->find_object(name);
  if (!object) return ObjectRef{};
  bool held = object->scope() == CKPT_OBJECT_SHARED;
  const fb::Layout& layout = root().layouts[object->layout()];
  root().for_each_part(layout, 0, layout.per_cell(), [&](uint32_t part) { held |= part == rank; });
  if (!held) return ObjectRef{};
  return object_in(object->scope() == CKPT_OBJECT_SHARED ? 0 : rank, name, object->scope());
}

Result<ObjectRef> Checkpoint::find_object_in_part(std::string_view name, uint32_t rank) const {
  if (rank >= summary().part_count) return ObjectRef{};
  CKPT_ASSIGN(const IndexFile* index, part_index(rank));
  auto page = index->page_of(name);
  if (!page.ok()) return at_part(std::move(page).status(), rank);
  const fb::Object* object = (*page)->find_object(name);
  if (object && object->placement() == 2) return object_in(0, name, CKPT_OBJECT_SHARED);
  return object ? ObjectRef{rank, *page, object} : ObjectRef{};
}

Result<Checkpoint::Held> Checkpoint::holders_of(std::string_view name) const {
  CKPT_ASSIGN(const format::Page* page, page_of(name));
  Held held;
  if (const fb::Object* object = page->find_object(name)) {
    held.scope = object->scope();
    const fb::Layout& layout = root().layouts[object->layout()];
    root().for_each_part(layout, 0, layout.per_cell(), [&](uint32_t part) { held.parts.push_back(part); });
  }
  return held;
}

Result<ObjectRef> Checkpoint::object_at(uint64_t position) const {
  const size_t number = root().page_of_object(position);
  auto opened = manifest_->page(number);
  if (!opened.ok()) return at_manifest(std::move(opened).status());
  uint64_t at = position - root().pages[number].object_first();
  for (const fb::Object& object : (*opened)->objects) {
    const fb::Layout& layout = root().layouts[object.layout()];
    if (at >= layout.per_cell()) {
      at -= layout.per_cell();
      continue;
    }
    uint32_t holder = 0;
    root().for_each_part(layout, at, 1, [&](uint32_t part) { holder = part; });
    return object_in(holder, (*opened)->text(object.name()), object.scope());
  }
  return Status(CKPT_INTERNAL, strformat("object {} of {}", position, object_count()));
}

}  // namespace ckpt::checkpoint
