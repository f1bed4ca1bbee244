#include "load/table_reads.h"

#include <cstring>

namespace ckpt::load {

// Of one plan. Steps share chunks, and each plan reads those that it needs once.
static constexpr uint64_t kManyRuns = 64 << 10;

void plan_rows(LoadPlan* plan, const Table::Column& column, uint64_t first, uint64_t count, std::byte* to,
               uint8_t device) {
  const plan::Geometry geometry = *plan::geometry_of(column.tensor.dtype(), column.tensor.shape());
  const uint64_t units = column.row_bytes / geometry.width;
  const Region rows{RegionKind::kFlat, {}, first * units, count * units};
  add_boxes(plan, column.tensor, geometry, rows,
            {.data = to, .dtype = geometry.dtype, .strides = {1}, .ndim = 1, .device = device});
}

static uint64_t row_bytes(const TableRequest& request) {
  uint64_t bytes = request.ids && !request.share->of_ids() ? sizeof(uint64_t) : 0;
  for (const auto& [column, data] : request.columns) bytes += column->row_bytes;
  return bytes;
}

void TableReads::add(TableRequest request) {
  const Share::Window& window = request.share->windows()[request.window];
  bytes_left_ += window.rows * row_bytes(request);
  if (requests_.empty()) step_ = window.step_first;
  requests_.push_back(std::move(request));
}

static constexpr size_t kIds = SIZE_MAX;  // in place of a column's number

static const Table::Column& column_of(const Layer& layer, size_t column) {
  return column == kIds ? layer.ids : layer.columns[column];
}

// Plans the rows of a step in a column. On the host, what goes between others comes later.
void TableReads::plan_column(const Share& share, const std::shared_ptr<const Share::Step>& step, size_t column,
                             std::byte* to, uint8_t device, LoadPlan* plan) {
  const uint64_t row_bytes = column_of(share.table(), column).row_bytes;
  to += row_ * row_bytes;
  auto add = [&](std::span<const RowRun> runs, std::byte* at) {
    for (const RowRun& run : runs) {
      plan_rows(plan, column_of(share.layer_of(run), column), run.first, run.count, at, device);
      at += run.count * row_bytes;
    }
  };
  if (device != 0) return add(share.in_order(*step), to);
  add(step->runs, to);
  if (step->places.empty()) return;
  extras_.push_back({&share, step, column, to});
  bytes_left_ += step->places.size() * row_bytes;
}

void TableReads::plan_extra(const Extra& extra, LoadPlan* plan) {
  bytes_left_ -= extra.step->places.size() * column_of(extra.share->table(), extra.column).row_bytes;
  const uint64_t* places = extra.step->places.data();
  for (const RowRun& run : extra.step->extra) {
    plan->placed.push_back({static_cast<uint32_t>(plan->boxes.size()), places});
    plan_rows(plan, column_of(extra.share->layer_of(run), extra.column), run.first, run.count, extra.to);
    places += run.count;
  }
}

Result<uint64_t> TableReads::plan_step(const TableRequest& request, size_t number, LoadPlan* of_ids, LoadPlan* plan) {
  const Share& share = *request.share;
  CKPT_ASSIGN(Share::Step found, share.step(number));
  const auto step = std::make_shared<const Share::Step>(std::move(found));
  std::byte* const ids = request.ids ? request.ids + row_ * sizeof(uint64_t) : nullptr;
  const Planned planned{&request, step, ids};
  if (ids && step->ids.empty())
    plan_column(share, step, kIds, request.ids, 0, planned.many() && !step->checked ? of_ids : plan);
  else if (ids)
    std::memcpy(ids, step->ids.data(), step->ids.size() * sizeof(uint64_t));
  for (const auto& [column, data] : request.columns)
    plan_column(share, step, static_cast<size_t>(column - share.table().columns.data()), data, request.device, plan);
  bytes_left_ -= step->rows * row_bytes(request);
  row_ += step->rows;
  if (!step->checked) {
    if (ids) planned_.push_back(planned);
    return 0;
  }
  const uint64_t runs = step->runs.size() + step->extra.size() + (request.device == 0 ? 0 : step->places.size());
  return runs * (request.columns.size() + 1);
}

Status TableReads::plan_next(LoadPlan* ids, LoadPlan* plan) {
  planned_.clear();
  planned_extras_ = std::exchange(extras_, {});
  for (const Extra& extra : planned_extras_) plan_extra(extra, plan);
  for (uint64_t runs = 0; next_ < requests_.size() && runs < kManyRuns;) {
    const TableRequest& request = requests_[next_];
    const Share::Window& window = request.share->windows()[request.window];
    if (step_ < window.step_end) {
      CKPT_ASSIGN(const uint64_t more, plan_step(request, step_++, ids, plan));
      runs += more;
    }
    if (step_ < window.step_end) continue;
    row_ = 0;
    if (++next_ < requests_.size()) {
      const TableRequest& following = requests_[next_];
      step_ = following.share->windows()[following.window].step_first;
    }
  }
  return Ok();
}

Status TableReads::check(const Planned& planned, unsigned threads) {
  const Share& share = *planned.request->share;
  std::vector<PartIds> pieces;
  const std::byte* at = planned.ids;
  for (const RowRun& run : planned.step->runs) {
    pieces.push_back({share.parts()[run.part].part, at, run.count});
    at += run.count * sizeof(uint64_t);
  }
  CKPT_TRY(check_sorted(share.table(), pieces, planned.step->from, planned.step->to, threads));
  CKPT_TRY(share.check_starts(planned.step->runs, pieces));
  return check_distinct(share.table(), pieces, threads);
}

Status TableReads::check(bool many, unsigned threads) const {
  for (const Planned& planned : planned_)
    if (planned.many() == many) CKPT_TRY(check(planned, threads));
  return Ok();
}

}  // namespace ckpt::load
