// Loads windows of tables. A window is planned step by step: a step of a filter or of a list of ids may have a run for
// each row. One thread.
#pragma once

#include <memory>
#include <vector>

#include "device/transfers.h"
#include "load/load_plan.h"
#include "load/share.h"

namespace ckpt::load {

// A window of a share, and where its rows go.
struct TableRequest {
  std::shared_ptr<const Share> share;
  size_t window = 0;
  std::byte* ids = nullptr;  // null: not wanted
  std::vector<std::pair<const Table::Column*, std::byte*>> columns = {};
  device::Location where = {};  // of the columns
  int64_t stream = 0;           // behind whose work they are copied
  uint8_t device = 0;           // `where`, as device::Memory has it
};

// Adds neighbouring rows of a tensor to a plan.
void plan_rows(LoadPlan* plan, const Table::Column& column, uint64_t first, uint64_t count, std::byte* to,
               uint8_t device = 0);

class TableReads {
 public:
  void add(TableRequest request);
  const std::vector<TableRequest>& requests() const { return requests_; }
  // What steps that are not planned yet will give.
  uint64_t bytes_left() const { return bytes_left_; }
  // Whether there are steps that are not planned yet.
  bool more() const { return next_ < requests_.size() || !extras_.empty(); }
  // Adds to the plan what the next steps want: all those of plain ranges, and of others until they have many runs of
  // rows. Rows that go between others come with the next plan, once those are there. What takes long to check goes to
  // the plan `ids`, which is to be read before.
  Status plan_next(LoadPlan* ids, LoadPlan* plan);
  // Checks the ids of the steps that were planned last: those of the plan `ids`, or all others. FORMAT, MISMATCH.
  Status check(bool many, unsigned threads) const;

 private:
  struct Planned {
    const TableRequest* request;
    std::shared_ptr<const Share::Step> step;
    std::byte* ids;
    bool many() const { return step->rows >= kManyIds; }
  };
  static constexpr uint64_t kManyIds = 64 << 10;
  // The rows of a step that go to step->places.
  struct Extra {
    const Share* share;
    std::shared_ptr<const Share::Step> step;
    size_t column;
    std::byte* to;
  };
  // Returns how many runs it has, if it may have very many.
  Result<uint64_t> plan_step(const TableRequest& request, size_t number, LoadPlan* of_ids, LoadPlan* plan);
  void plan_column(const Share& share, const std::shared_ptr<const Share::Step>& step, size_t column, std::byte* to,
                   uint8_t device, LoadPlan* plan);
  void plan_extra(const Extra& extra, LoadPlan* plan);
  static Status check(const Planned& planned, unsigned threads);

  std::vector<TableRequest> requests_;
  size_t next_ = 0, step_ = 0;  // the next step, of requests_[next_]
  uint64_t row_ = 0;            // of its window, rows before it
  uint64_t bytes_left_ = 0;
  std::vector<Planned> planned_;
  std::vector<Extra> extras_;          // for the next plan,
  std::vector<Extra> planned_extras_;  // and those whose places the last one needs
};

}  // namespace ckpt::load
