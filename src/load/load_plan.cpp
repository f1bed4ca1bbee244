// Finds the chunks that a set of boxes needs.
#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "checkpoint/chunk_io.h"
#include "load/load_plan.h"
#include "plan/box.h"

namespace ckpt::load {

namespace {

// A chunk that an overlap needs.
struct Pair {
  const fb::Chunk* chunk;
  uint64_t offset;
  uint32_t file, overlap;
};

class ReadPlanner {
 public:
  explicit ReadPlanner(LoadPlan* plan) : plan_(plan) {}

  Status add(uint32_t number);
  void finish();

 private:
  void use_tensor(uint32_t number);
  Status find_pieces(const WantedBox& wanted);
  bool add_only_segment(const WantedBox& wanted);
  void use_box(const WantedBox& wanted);
  bool may_overlap(const checkpoint::Piece& piece) const;
  uint64_t add_piece(const WantedBox& wanted, const checkpoint::Piece& piece);
  uint64_t add_rows(const Box& order, const Box& common, uint32_t overlap);
  uint32_t stored(const checkpoint::Piece& piece, uint64_t first, uint64_t units);
  uint32_t new_overlap(const WantedBox& wanted, uint32_t segment);
  void need_box(StoredSegment& segment, const Box& box);
  void add_pairs(uint32_t overlap, uint64_t begin, uint64_t end);
  void count(uint32_t overlap, uint64_t units, uint64_t runs);
  bool simple(const WantedBox& wanted) const {
    return wanted.dtype == geometry_.dtype && wanted.device == 0 &&
           !plan_->places_of(static_cast<uint32_t>(&wanted - plan_->boxes.data()));
  }

  LoadPlan* plan_;
  std::vector<Pair> pairs_;
  // The current tensor:
  uint32_t tensor_number_ = kNone;
  checkpoint::TensorRef tensor_;
  plan::Geometry geometry_;
  std::vector<checkpoint::Piece> pieces_;                    // of the tensor, or of the current box
  bool all_pieces_ = false;                                  // of the tensor
  std::unordered_map<const fb::Segment*, uint32_t> stored_;  // its place in the plan
  // The current box:
  Box box_;
  Shape strides_;
  uint64_t low_ = 0, high_ = 0;  // its first and last unit in the order of the tensor

  static constexpr uint32_t kNone = UINT32_MAX;
};

void ReadPlanner::use_tensor(uint32_t number) {
  if (tensor_number_ == number) return;
  tensor_number_ = number;
  tensor_ = plan_->tensors[number];
  geometry_ = *plan::geometry_of(tensor_.dtype(), tensor_.shape());
  all_pieces_ = false;
  stored_.clear();
}

// Of a tensor in several pieces, those that the box needs; all of any other, which later boxes use again.
Status ReadPlanner::find_pieces(const WantedBox& wanted) {
  if (all_pieces_) return Ok();
  if (pieces_.size() == 1 && plan_->source->next_piece(tensor_, pieces_.data())) {
    all_pieces_ = true;
    return Ok();
  }
  all_pieces_ = wanted.numbers == kNoNumbers || geometry_.packed;  // units are elements otherwise
  const Box box = all_pieces_ ? Box{} : plan_->box_of(wanted);
  CKPT_ASSIGN(pieces_, plan_->source->pieces(tensor_, all_pieces_ ? nullptr : &box));
  all_pieces_ |= pieces_.size() == 1 && pieces_[0].region->kind() == 0;
  all_pieces_ |= !pieces_.empty() && pieces_[0].row_total != 0;  // rows always come all
  return Ok();
}

void ReadPlanner::use_box(const WantedBox& wanted) {
  box_ = plan_->box_of(wanted);
  strides_ = Shape::of(std::span(plan_->memory_of(wanted).strides.data(), static_cast<size_t>(box_.ndim())));
  Shape steps = plan::contiguous_strides(geometry_.shape);
  low_ = high_ = 0;
  for (int i = 0; i < steps.ndim; i++) {
    low_ += box_.offset[i] * steps[i];
    high_ += (box_.offset[i] + box_.extent[i] - 1) * steps[i];
  }
}

// Whether a piece may hold something of the box, by a quick look at its numbers: of a thousand tiles, a box needs few.
bool ReadPlanner::may_overlap(const checkpoint::Piece& piece) const {
  if (geometry_.packed || piece.region->kind() == 0) return true;  // packed: the numbers are elements
  if (piece.row_total != 0) {
    const Region rows = piece.held();
    return rows.kind == RegionKind::kWhole || (rows.flat_offset <= high_ && low_ < rows.flat_offset + rows.flat_size);
  }
  const uint64_t* numbers = piece.page->numbers.data() + piece.region->geometry();
  if (piece.region->kind() == 2) return numbers[0] <= high_ && low_ < numbers[0] + numbers[1];
  for (int i = 0; i < box_.ndim(); i++) {
    uint64_t offset = numbers[i], extent = numbers[box_.ndim() + i];
    if (offset >= box_.offset[i] + box_.extent[i] || box_.offset[i] >= offset + extent) return false;
  }
  return true;
}

uint32_t ReadPlanner::stored(const checkpoint::Piece& piece, uint64_t first, uint64_t units) {
  const auto number = static_cast<uint32_t>(plan_->segments.size());
  if (pieces_.size() > 1 || !all_pieces_) {
    auto [at, fresh] = stored_.try_emplace(piece.segment, number);
    if (!fresh) return at->second;
  } else if (number > 0 && plan_->segments.back().piece.segment == piece.segment) {
    return number - 1;
  }
  plan_->segments.push_back({piece, first, units, piece.chunks()[0].raw_size() / geometry_.width, kNoNumbers,
                             tensor_number_, geometry_.dtype, static_cast<uint8_t>(geometry_.width)});
  return number;
}

uint32_t ReadPlanner::new_overlap(const WantedBox& wanted, uint32_t segment) {
  plan_->overlaps.push_back({static_cast<uint32_t>(&wanted - plan_->boxes.data()), segment, 0, 0, nullptr});
  return static_cast<uint32_t>(plan_->overlaps.size() - 1);
}

void ReadPlanner::need_box(StoredSegment& segment, const Box& box) {
  if (segment.numbers == kNoNumbers) segment.numbers = put_numbers(plan_, {box.offset.span(), box.extent.span()});
}

// Adds the chunks that hold units [begin, end) of the segment's order.
void ReadPlanner::add_pairs(uint32_t overlap, uint64_t begin, uint64_t end) {
  const StoredSegment& stored = plan_->segments[plan_->overlaps[overlap].segment];
  const auto chunks = stored.piece.chunks();
  uint64_t last = (end - 1 - stored.first) / stored.chunk_units;
  for (uint64_t i = (begin - stored.first) / stored.chunk_units; i <= last; i++) {
    const uint32_t file = plan_->source->file_of(stored.piece.part, *stored.piece.page, chunks[i]);
    pairs_.push_back({&chunks[i], chunks[i].offset(), file, overlap});
  }
}

void ReadPlanner::count(uint32_t overlap, uint64_t units, uint64_t runs) {
  const StoredSegment& segment = plan_->segments[plan_->overlaps[overlap].segment];
  plan_->run_count += runs;
  plan_->bytes_requested += units * segment.width;
  plan_->bytes_allowed += (units + runs * 2 * segment.chunk_units) * segment.width;
}

// The usual case in few steps: all of a tensor that is stored as one piece. False in any other case.
bool ReadPlanner::add_only_segment(const WantedBox& wanted) {
  if (wanted.numbers != kNoNumbers || pieces_.size() != 1) return false;  // all pieces cover all, so one is all
  uint32_t overlap = new_overlap(wanted, stored(pieces_[0], 0, geometry_.volume));
  Overlap& made = plan_->overlaps[overlap];
  if (simple(wanted)) {
    made.count = geometry_.volume;
    made.to = wanted.data;
  } else {
    need_box(plan_->segments[made.segment], Box::whole(geometry_.shape));
  }
  add_pairs(overlap, 0, geometry_.volume);
  count(overlap, geometry_.volume, 1);
  return true;
}

// For an overlap of several rows on one of the two sides: goes chunk by chunk, since some may hold nothing of the box.
uint64_t ReadPlanner::add_rows(const Box& order, const Box& common, uint32_t overlap) {
  const StoredSegment& stored = plan_->segments[plan_->overlaps[overlap].segment];
  uint64_t first = stored.first, last = first + stored.units, found = 0, runs = 0;
  if (common == order) {
    add_pairs(overlap, first, last);
    count(overlap, stored.units, 1);
    return stored.units;
  }
  // Only chunks between the first and the last wanted position can hold anything.
  Shape steps = plan::contiguous_strides(order.extent);
  uint64_t low = 0, high = 0;
  for (int i = 0; i < steps.ndim; i++) {
    low += (common.offset[i] - order.offset[i]) * steps[i];
    high += (common.offset[i] + common.extent[i] - 1 - order.offset[i]) * steps[i];
  }
  if (high < first || low >= last) return 0;
  uint64_t begin = low <= first ? 0 : (low - first) / stored.chunk_units;
  for (uint64_t from = first + begin * stored.chunk_units; from < last && from <= high; from += stored.chunk_units) {
    uint64_t units = 0;
    plan::for_each_run(order, from, std::min(last, from + stored.chunk_units), box_, strides_.span(),
                       [&](const plan::Run& run) {
                         units += run.count;
                         runs++;
                       });
    if (units != 0) add_pairs(overlap, from, from + 1);
    found += units;
  }
  count(overlap, found, runs);
  return found;
}

// Returns the number of units that this piece gives. Pieces do not overlap, so the sum proves that the box is complete.
uint64_t ReadPlanner::add_piece(const WantedBox& wanted, const checkpoint::Piece& piece) {
  if (!may_overlap(piece)) return 0;
  const checkpoint::PieceOrder order = checkpoint::order_of(piece, geometry_);
  Box common = plan::intersect(order.box, box_);
  if (common.volume() == 0) return 0;
  plan::RowWalk walk(order.box, box_, strides_.span());
  uint64_t first = order.first, last = first + order.units;
  bool one_row = walk.count() == common.volume();
  if (one_row) {
    first = std::max(first, walk.source());
    last = std::min(last, walk.source() + walk.count());
    if (first >= last) return 0;
  }
  uint32_t overlap = new_overlap(wanted, stored(piece, order.first, order.units));
  Overlap& made = plan_->overlaps[overlap];
  if (one_row && simple(wanted) && (walk.target_stride() == 1 || walk.count() == 1)) {
    made.source = first;
    made.count = last - first;
    made.to = wanted.data + (walk.target() + first - walk.source()) * geometry_.width;
  } else {
    need_box(plan_->segments[made.segment], order.box);
  }
  if (!one_row) return add_rows(order.box, common, overlap);
  add_pairs(overlap, first, last);
  count(overlap, last - first, 1);
  return last - first;
}

Status ReadPlanner::add(uint32_t number) {
  const WantedBox& wanted = plan_->boxes[number];
  use_tensor(wanted.tensor);
  CKPT_TRY(find_pieces(wanted));
  if (add_only_segment(wanted)) return Ok();
  use_box(wanted);
  uint64_t found = 0, volume = box_.volume();
  for (size_t i = 0; i < pieces_.size() && found != volume; i++) found += add_piece(wanted, pieces_[i]);
  if (found == volume) return Ok();
  std::string name(tensor_.name());
  return tensor_error(CKPT_INCOMPLETE, name,
                      strformat("{} of the {} elements of box {} are stored", found, volume, to_text(box_)));
}

// Sorts the pairs by their place in the parts. Overlaps that want the same chunk share its read.
void ReadPlanner::finish() {
  auto place = [](const Pair& pair) { return std::tie(pair.file, pair.offset, pair.chunk, pair.overlap); };
  auto before = [&](const Pair& a, const Pair& b) { return place(a) < place(b); };
  if (!std::is_sorted(pairs_.begin(), pairs_.end(), before)) std::sort(pairs_.begin(), pairs_.end(), before);
  plan_->reads.reserve(pairs_.size());
  plan_->targets.reserve(pairs_.size());
  for (const Pair& pair : pairs_) {
    if (plan_->reads.empty() || plan_->reads.back().chunk != pair.chunk)
      plan_->reads.push_back({pair.chunk, pair.file, static_cast<uint32_t>(plan_->targets.size()), 0});
    plan_->targets.push_back(pair.overlap);
    plan_->reads.back().target_count++;
  }
}

}  // namespace

Status plan_reads(LoadPlan* plan) {
  ReadPlanner planner(plan);
  plan->segments.reserve(plan->boxes.size());
  plan->overlaps.reserve(plan->boxes.size());
  for (uint32_t i = 0; i < plan->boxes.size(); i++) CKPT_TRY(planner.add(i));
  planner.finish();
  return Ok();
}

}  // namespace ckpt::load
