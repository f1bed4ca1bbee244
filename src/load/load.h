// Many requests for regions of tensors, planned and read together. Planning finds every structural error before any
// byte of caller memory changes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/call_options.h"
#include "base/job.h"
#include "checkpoint/checkpoint.h"
#include "device/descriptor.h"
#include "device/transfers.h"
#include "load/load_plan.h"
#include "load/table_reads.h"
#include "load/views.h"

namespace ckpt::load {

class Load {
 public:
  static Result<std::shared_ptr<Load>> make(std::shared_ptr<checkpoint::Checkpoint> checkpoint,
                                            const LoadOptions& options);

  Status add_tensor(std::string_view name, const ckpt_tensor_desc& desc, void* data, uint64_t data_bytes,
                    device::Location where = {});
  Status add_object(std::string_view name, uint32_t rank, MutableBytes data);
  // The rows of a window of a share; `ids` may be empty for a share of ids. Memory must hold them.
  Status add_table(TableRequest request);
  // Neighbouring rows of a table's tensor, which are the caller's own affair.
  void add_rows(const Table::Column& column, uint64_t first, uint64_t count, std::byte* to) {
    plan_rows(&plan_, column, first, count, to);
  }
  Status begin();
  Status work(Job& job);
  Report report() const;

 private:
  struct ObjectRequest {
    std::string name;
    checkpoint::ObjectRef object;
    MutableBytes to;
  };

  Load(std::shared_ptr<checkpoint::Checkpoint> checkpoint, const LoadOptions& options);
  Result<checkpoint::Checkpoint::Named> locate(std::string_view name);
  checkpoint::TensorRef locate_in_own(std::string_view name, const device::RegionRequest& want);
  Result<checkpoint::ObjectRef> locate_object(std::string_view name, uint32_t rank);
  std::vector<bool> all_asked() const;
  Status check_request(const checkpoint::Checkpoint::Named& named, const device::RegionRequest& want,
                       bool convert) const;
  Status check_strict() const;
  Status check_overlaps() const;  // before anything is planned: load_overlap.cpp
  Status open_parts(const checkpoint::TensorRef& tensor) const;
  Status open_parts(const LoadPlan& plan) const;
  Status run_steps(Job& job);
  Status read(const LoadPlan& plan, Job& job);
  Status read_and_check(const LoadPlan& ids, const LoadPlan& plan, Job& job);
  Status load_objects(Job& job) const;

  std::shared_ptr<checkpoint::Checkpoint> checkpoint_;
  LoadPlan plan_;
  Views views_;
  TableReads tables_;
  device::Transfers transfers_;
  std::vector<ObjectRequest> objects_;
  std::map<size_t, std::string_view> aliases_;  // names by which boxes of plan_ were asked for, if not their tensors'
  std::vector<std::string> missing_;
  std::vector<bool> asked_;            // for each name, in their order
  std::vector<std::string_view> own_;  // names found in the own part; where they are in that order is not known yet
  checkpoint::TensorRef last_;         // the tensor found last, since many callers ask in the order of names
  uint64_t last_position_ = 0;
  LoadOptions options_;
  unsigned threads_;
  uint64_t staging_bytes_;
  bool begun_ = false;
};

struct ReadOptions {
  ByName by_name{};
  unsigned threads = 1;
  uint64_t staging_bytes = 0;
  bool verify = true;
  device::Transfers* transfers = nullptr;  // open; null: all memory is the host's
};
// Carries out the plan: reads, checks, decodes and scatters. CORRUPT names tensor, part, offset and element range.
Status execute_reads(const checkpoint::Checkpoint& checkpoint, const LoadPlan& plan, const ReadOptions& options,
                     Job& job);

}  // namespace ckpt::load
