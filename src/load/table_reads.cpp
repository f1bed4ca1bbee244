#include "load/table_reads.h"

#include <cstring>

namespace ckpt::load {

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

// Whether it may have very many runs.
Result<bool> TableReads::plan_step(const TableRequest& request, size_t number, LoadPlan* plan) {
  CKPT_ASSIGN(Share::Step step, request.share->step(number));
  uint64_t rows = 0;
  for (const RowRun& run : step.runs) rows += run.count;
  auto add = [&](const Table::Column& column, std::byte* to, uint8_t device) {
    to += row_ * column.row_bytes;
    for (const RowRun& run : step.runs) {
      plan_rows(plan, column, run.first, run.count, to, device);
      to += run.count * column.row_bytes;
    }
  };
  std::byte* const ids = request.ids ? request.ids + row_ * sizeof(uint64_t) : nullptr;
  if (ids && !step.checked)
    add(request.share->table().ids, request.ids, 0);
  else if (ids && !step.ids.empty())
    std::memcpy(ids, step.ids.data(), step.ids.size() * sizeof(uint64_t));
  for (const auto& [column, data] : request.columns) add(*column, data, request.device);
  bytes_left_ -= rows * row_bytes(request);
  row_ += rows;
  const bool many = step.checked;
  if (!many && ids) planned_.push_back({&request, std::move(step), ids});
  return many;
}

Status TableReads::plan_next(LoadPlan* plan) {
  planned_.clear();
  for (bool many = false; more() && !many;) {
    const TableRequest& request = requests_[next_];
    const Share::Window& window = request.share->windows()[request.window];
    if (step_ < window.step_end) {
      CKPT_ASSIGN(many, plan_step(request, step_++, plan));
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
  for (const RowRun& run : planned.step.runs) {
    pieces.push_back({share.parts()[run.part].part, at, run.count});
    at += run.count * sizeof(uint64_t);
  }
  CKPT_TRY(check_sorted(share.table(), pieces, planned.step.from, planned.step.to, threads));
  return check_distinct(share.table(), pieces, threads);
}

Status TableReads::check(unsigned threads) {
  for (const Planned& planned : planned_) CKPT_TRY(check(planned, threads));
  return Ok();
}

}  // namespace ckpt::load
