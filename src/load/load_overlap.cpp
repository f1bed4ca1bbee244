// Refuses a load into memory that two of its requests share: which of them stays would be a matter of chance.
#include <algorithm>
#include <numeric>

#include "base/large_memory.h"
#include "load/load.h"
#include "load/same_content.h"
#include "plan/box.h"
#include "plan/overlap.h"

namespace ckpt::load {

namespace {

uint64_t address_of(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

// The dimensions of `box`, whose elements lie `strides` apart in memory of `width` bytes, `sources` in the source.
plan::Placement placed(const Box& box, const std::byte* data, uint64_t width, std::span<const uint64_t> strides,
                       std::span<const uint64_t> sources) {
  plan::Placement placement{.source = {}, .address = address_of(data), .width = width};
  for (size_t d = 0; d < strides.size(); d++)
    placement.dimensions.push_back({box.extent[static_cast<int>(d)], strides[d] * width, sources[d]});
  return placement;
}

plan::Stretch stretch_of(const device::Memory& memory, const Box& box) {
  const std::span<const uint64_t> strides(memory.strides.data(), static_cast<size_t>(box.ndim()));
  uint64_t last = box.volume() != 0;
  for (size_t d = 0; d < strides.size() && last != 0; d++) last += (box.extent[static_cast<int>(d)] - 1) * strides[d];
  const uint64_t begin = address_of(memory.data), width = static_cast<uint64_t>(dtype_bits(memory.dtype)) / 8;
  return {begin, begin + last * width, plan::is_contiguous(box.extent.span(), strides)};
}

// Of a box that is all of its tensor, in a row: most are.
plan::Stretch stretch_of(const checkpoint::TensorRef& tensor, const WantedBox& box) {
  uint64_t elements = 0, bytes = 0;
  count_elements(tensor.extents(), &elements);
  count_bytes(elements, tensor.dtype(), &bytes);
  const int from = dtype_bits(tensor.dtype()), to = dtype_bits(box.dtype);
  if (from % 8 == 0) bytes = elements * static_cast<uint64_t>(to) / 8;  // else a byte unit is a byte
  return {address_of(box.data), address_of(box.data) + bytes, true};
}

// Who asks for what memory: boxes of tensors first, then of views, then plain bytes of tables and objects.
class Requests {
 public:
  Requests(const LoadPlan& plan, const Views& views, const std::vector<TableRequest>& tables) : plan_(plan) {
    stretches_.reserve(plan.boxes.size());
    for (const WantedBox& box : plan.boxes)
      stretches_.push_back(box.numbers == kNoNumbers ? stretch_of(plan.tensors[box.tensor], box)
                                                     : stretch_of(plan.memory_of(box), plan.box_of(box)));
    ViewWindow window{};
    for (ViewWalk walk(&views.requests()); walk.next(UINT64_MAX, &window);) {
      stretches_.push_back(stretch_of(window.memory, window.box));
      windows_.push_back(window);
    }
    for (const TableRequest& request : tables) add(request);
  }
  void add(std::string_view name, uint64_t kind, const void* memory, uint64_t bytes) {
    stretches_.push_back({address_of(memory), address_of(memory) + bytes, true});
    bytes_.push_back({name, kind});
  }
  Result<std::optional<plan::Meeting>> overlap(const checkpoint::Checkpoint& checkpoint) const {
    if (plan::are_apart(stretches_)) return std::optional<plan::Meeting>{};
    CKPT_ASSIGN(const std::vector<size_t> kept, without_twins(checkpoint));
    std::vector<plan::Stretch> stretches;
    for (const size_t i : kept) stretches.push_back(stretches_[i]);
    auto found = plan::find_overlap(stretches, [&](size_t i) { return placement(kept[i]); });
    if (found) *found = std::minmax(kept[found->first], kept[found->second]);
    return found;
  }
  std::string_view name(size_t i) const {
    if (i < plan_.boxes.size()) return plan_.tensors[plan_.boxes[i].tensor].name();
    i -= plan_.boxes.size();
    return i < windows_.size() ? windows_[i].request->named.name() : bytes_[i - windows_.size()].name;
  }

 private:
  struct NamedBytes {
    std::string_view name;
    uint64_t kind;
  };

  void add(const TableRequest& request) {
    const Table& table = request.share->table();
    const uint64_t rows = request.share->windows()[request.window].rows;
    const uint64_t kind = address_of(request.share.get()) + request.window;
    if (request.ids) add(table.ids.tensor.name(), kind, request.ids, rows * sizeof(uint64_t));
    for (const auto& [column, data] : request.columns) add(column->tensor.name(), kind, data, rows * column->row_bytes);
  }
  // All but tensors of equal content that have exactly the memory of another one, element by element: weights that are
  // tied here and were saved under two names.
  Result<std::vector<size_t>> without_twins(const checkpoint::Checkpoint& checkpoint) const {
    std::vector<size_t> order(stretches_.size()), kept;
    std::iota(order.begin(), order.end(), size_t{0});
    auto key = [&](size_t i) { return std::tuple(stretches_[i].begin, stretches_[i].end, i); };
    std::ranges::sort(order, {}, key);
    size_t first = 0;  // with these addresses
    for (const size_t i : order) {
      const bool beside =
          !kept.empty() && stretches_[i].begin == stretches_[first].begin && stretches_[i].end == stretches_[first].end;
      CKPT_ASSIGN(const bool twins, beside ? are_twins(checkpoint, first, i) : Result<bool>(false));
      if (twins) continue;
      if (!beside) first = i;
      kept.push_back(i);
    }
    std::ranges::sort(kept);
    return kept;
  }
  Result<bool> are_twins(const checkpoint::Checkpoint& checkpoint, size_t a, size_t b) const {
    if (!same_memory(placement(a), placement(b)) || !tensor(a) || !tensor(b)) return false;
    return same_content(checkpoint, *tensor(a), *tensor(b));
  }
  // The same elements of two tensors, at the same places.
  static bool same_memory(const plan::Placement& a, const plan::Placement& b) {
    return a.source != b.source && a.kind == b.kind && a.width == b.width && a.first == b.first &&
           a.dimensions == b.dimensions;
  }
  // Null for columns and ids of tables, and objects.
  const checkpoint::TensorRef* tensor(size_t i) const {
    if (i < plan_.boxes.size()) return &plan_.tensors[plan_.boxes[i].tensor];
    i -= plan_.boxes.size();
    return i < windows_.size() ? &windows_[i].request->named.tensor : nullptr;
  }

  plan::Placement placement(size_t i) const {
    if (i < plan_.boxes.size()) return of_box(plan_.boxes[i]);
    const size_t after = i - plan_.boxes.size();
    if (after < windows_.size()) return of_view(windows_[after]);
    const auto& [name, kind] = bytes_[after - windows_.size()];
    const auto& [begin, end, dense] = stretches_[i];
    return {name, kind, begin, 1, 0, {{end - begin, 1, 1}}};
  }
  plan::Placement of_box(const WantedBox& wanted) const {
    const checkpoint::TensorRef& tensor = plan_.tensors[wanted.tensor];
    const device::Memory memory = plan_.memory_of(wanted);
    const Box box = plan_.box_of(wanted);
    const Shape sources = plan::contiguous_strides(plan::geometry_of(tensor.dtype(), tensor.shape())->shape);
    const auto strides = std::span(memory.strides).first(static_cast<size_t>(box.ndim()));
    plan::Placement placement =
        placed(box, wanted.data, static_cast<uint64_t>(dtype_bits(wanted.dtype)) / 8, strides, sources.span());
    placement.source = tensor.name();
    placement.kind = wanted.dtype;
    for (int d = 0; d < box.ndim(); d++) placement.first += box.offset[d] * sources[d];
    return placement;
  }
  static plan::Placement of_view(const ViewWindow& window) {
    const ViewRequest& request = *window.request;
    const auto strides = std::span(window.memory.strides).first(static_cast<size_t>(window.box.ndim()));
    plan::Placement placement =
        placed(window.box, window.memory.data, request.want.geometry.width, strides, request.strides_in_target());
    placement.source = request.named.tensor.name();
    placement.kind = request.want.memory.dtype;
    placement.first = window.first;
    return placement;
  }

  const LoadPlan& plan_;
  std::vector<ViewWindow> windows_;
  std::vector<NamedBytes> bytes_;
  LargeVector<plan::Stretch> stretches_;
};

}  // namespace

Status Load::check_overlaps() const {
  Requests requests(plan_, views_, tables_.requests());
  for (const ObjectRequest& object : objects_)
    requests.add(object.name, object.object.rank(), object.to.data(), object.to.size());
  CKPT_ASSIGN(const auto found, requests.overlap(*checkpoint_));
  if (!found) return Ok();
  auto name_of = [&](size_t i) {
    const auto alias = aliases_.find(i);
    return alias == aliases_.end() ? requests.name(i) : alias->second;
  };
  const std::string_view first = name_of(found->first), second = name_of(found->second);
  const std::string what = found->first == found->second ? "overlaps itself" : "overlaps that for " + in_quotes(first);
  return error_about(CKPT_INVALID, second,
                     strformat("the memory for {} {}: give each element a place of its own", in_quotes(second), what))
      .with("found", std::string(first));
}

}  // namespace ckpt::load
