// One rank's share of one checkpoint: what the caller added (content.h), and the steps to a committed checkpoint:
// collect (this file) -> layout (who writes what, where) -> part_writer (bytes) -> commit (all ranks).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/call_options.h"
#include "base/job.h"
#include "commit/commit.h"
#include "device/transfers.h"
#include "format/summary.h"
#include "save/name_set.h"
#include "save/replica_values.h"
#include "save/source.h"
#include "tree/tree.h"

namespace ckpt::save {

struct SaveSettings {
  ByName by_name{};
  commit::CommitSettings commit{};
  std::string compression{};
  std::string incremental = "off", base{};
  double most_dead = 0.5;  // of a file that is reused
  uint64_t most_runs = 1;
  ReplicaCheck replicas = ReplicaCheck::kAll;
  unsigned threads = 2;
  uint64_t staging_bytes = 0;
  bool staging_grows = false;  // nobody set staging_bytes: a save that copies takes more where much memory is free
  std::shared_ptr<LateMemory> memory = nullptr;  // null: the caller's memory is all there
};

struct SaveIdentity;

// Opens the attempt once, and says then what came of it. Asks go_on() while it waits for other ranks.
using Opening = std::function<Status(const std::function<Status()>& go_on)>;

// A rank's rows of a sparse table as the caller describes them.
struct TableRequest {
  struct Column {
    std::string_view name;
    ckpt_column_desc desc;
    std::span<const void* const> data;  // of its blocks
    std::span<const uint64_t> data_bytes;
  };
  ckpt_table_desc desc;
  const void* ids;
  uint64_t ids_bytes;
  const uint64_t* positions;
  std::vector<Column> columns;
  device::Location where;  // of the columns
  int64_t stream = 0;      // behind whose work they are copied
};

class Save {
 public:
  // If it fails after the label was accepted, the other ranks are told. `asked`: what its caller says of the session,
  // which only the session may set.
  static Result<std::shared_ptr<Save>> make(std::shared_ptr<session::Session> session, std::string_view label,
                                            int64_t step, const SaveOptions& options, const SessionOptions& asked = {});
  // Tells the other ranks if the save has not begun.
  ~Save();

  Status add_tensor(std::string_view name, const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes,
                    device::Location where = {});
  Status add_object(std::string_view name, std::string_view media_type, int32_t scope, Bytes data);
  Status add_tree(std::string_view name, const tree::Tree& tree);
  Status add_alias(std::string_view name, std::string_view target, const ckpt_tensor_desc* view);
  Status add_table(std::string_view name, const TableRequest& request);  // table.cpp
  Status set_attr(std::string_view tensor, std::string_view key, std::string_view value);
  // The memory of tensors is filled as the save comes to it. Of those whose elements lie in a row alone; before
  // begin().
  void fill_from(std::shared_ptr<LateMemory> memory) { settings_.memory = std::move(memory); }
  bool begun() const { return begun_; }
  // Calls that once, at the end of the work on its thread, or when the save goes without any: whether it has succeeded,
  // as far as this rank knows. Before begin().
  void at_end(std::function<void(bool good)> told) { at_end_ = std::move(told); }
  // Keeps the first failure of adding something: the reason to give if the save is freed for it.
  Status noted(Status status);
  // Instead of running it: tells the other ranks why. INVALID once it has begun.
  Status give_up(std::string_view reason);
  const std::string& id() const { return attempt_.directory; }

  // Call it once, even if it fails: the second call is INVALID.
  Status begin();
  // `copies`: copies the caller's memory before writing it, and is STAGED after that copy.
  Status work(Job& job, bool copies);
  // What retention did. INVALID before the end of the work.
  Result<Report> report() const;
  // The state in which a job of the work ends well.
  int32_t goal() const;
  // For a save that has begun but whose work cannot start: tells the other ranks.
  Status refuse(Status cause);

 private:
  Save() = default;
  Status configure(const SaveOptions& options, const SessionOptions& asked);
  Status put_object(std::string_view name, std::string_view media_type, uint8_t scope, Bytes data);
  Result<SaveTensor*> add_rows(const std::string& name, const ckpt_tensor_desc& desc, const void* first);
  Status add_tensors_of(const TableRequest& request, SaveTable* table);
  Status add_ids(const TableRequest& request, SaveTable* table);
  Status note_blocks(const TableRequest& request, const TableRequest::Column& column, uint64_t row_bytes,
                     SaveTensor* tensor);
  Status add_column(const TableRequest& request, const TableRequest::Column& column, SaveTable* table);
  Status make_ready();
  Status run_steps(Job& job, bool copies);
  Status find_holders(Job& job);
  Status write(const SaveIdentity& identity, bool copies, const Opening& open, Job& job);
  Status check_attr_owners() const;
  bool carries_tables() const;

  std::shared_ptr<session::Session> session_;
  SaveContent content_;
  device::Transfers transfers_;
  NameSet names_{&content_.memory};
  SaveSettings settings_;
  session::Attempt attempt_;
  int64_t step_ = -1;
  uint64_t sequence_ = 0;  // on rank 0
  bool begun_ = true;      // until it is made: one that is not has nobody to tell
  Status failure_;
  Status half_added_;  // of a table, whose other tensors are there already: nothing may be saved then
  std::unique_ptr<store::Writer> unfinished_;  // the file that is to be no part
  Report report_;
  std::atomic<bool> ended_{false};  // `report_` is written before
  std::function<void(bool)> at_end_;
};

// The identity that goes into part headers and indexes.
struct SaveIdentity {
  format::Summary summary;
  uint32_t rank = 0;
  session::Attempt attempt;
};

}  // namespace ckpt::save
