// Collects the requests of a load, and runs its steps in order.
#include "load/load.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/parallel.h"
#include "checkpoint/chunk_io.h"
#include "checkpoint/line.h"
#include "device/convert.h"

namespace ckpt::load {

Result<std::shared_ptr<Load>> Load::make(std::shared_ptr<checkpoint::Checkpoint> checkpoint,
                                         const LoadOptions& options) {
  return std::shared_ptr<Load>(new Load(std::move(checkpoint), options));
}

Load::Load(std::shared_ptr<checkpoint::Checkpoint> checkpoint, const LoadOptions& options)
    : checkpoint_(std::move(checkpoint)),
      plan_(*checkpoint_),
      asked_(checkpoint_->name_count()),
      options_(options),
      threads_(resolve_threads(options.threads)),
      staging_bytes_(static_cast<uint64_t>(options.staging_bytes)) {}

static Status mismatch(std::string_view name, const char* what, std::string stored, std::string asked) {
  return tensor_error(CKPT_MISMATCH, name,
                      strformat("its {} is {} in the checkpoint, {} in the request", what, stored, asked))
      .with("expected", std::move(stored))
      .with("found", std::move(asked));
}

Status Load::check_request(const checkpoint::Checkpoint::Named& named, const device::RegionRequest& want,
                           bool convert) const {
  std::string_view name = named.name();
  uint16_t dtype = named.tensor.dtype();
  bool view = named.is_view();
  if (!std::ranges::equal(named.extents(), want.shape.span()))
    return mismatch(name, "shape", to_text(Shape::of(named.extents())), to_text(want.shape));
  if (view && dtype_bits(dtype) % 8 != 0)
    return error_about(CKPT_UNSUPPORTED, name, "alias " + in_quotes(name) + ": a view of packed elements");
  if (dtype == want.dtype) return Ok();
  if (convert && device::convertible(dtype, want.dtype) && !view) return Ok();
  if (convert)
    return tensor_error(
        CKPT_UNSUPPORTED, name,
        strformat("no conversion of {} to {}{}", dtype_name(dtype), dtype_name(want.dtype), view ? " for a view" : ""));
  return mismatch(name, "dtype", dtype_name(dtype), dtype_name(want.dtype));
}

// Finds a name and its position. Names that come in the order of the index need no search.
Result<checkpoint::Checkpoint::Named> Load::locate(std::string_view name) {
  if (last_ && last_.page->aliases.empty())
    for (size_t step : {1, 0}) {
      const fb::Tensor* next = last_.tensor + step;
      if (next >= last_.page->tensors.data() + last_.page->tensors.size() || last_.page->text(next->name()) != name)
        continue;
      last_.tensor = next;
      last_position_ += step;
      return checkpoint::Checkpoint::Named{last_};
    }
  CKPT_ASSIGN(checkpoint::Checkpoint::Named named, checkpoint_->find(name, &last_position_));
  last_ = named.alias ? checkpoint::TensorRef{} : named.tensor;
  return named;
}

// The tensor, if the own part alone holds what is wanted of it. A part that cannot be read is no reason to fail: all of
// it may lie elsewhere, too, and if not, the load itself says what is wrong.
checkpoint::TensorRef Load::locate_in_own(std::string_view name, const device::RegionRequest& want) {
  if (options_.own_part < 0) return {};
  auto found = checkpoint_->find_in_part(static_cast<uint32_t>(options_.own_part), name, want.shape, want.region);
  if (!found.ok()) options_.own_part = -1;
  if (!found.ok() || !*found) return {};
  own_.push_back(found->name());
  return *found;
}

static Status check_strides(std::string_view name, const device::RegionRequest& want) {
  for (int i = 0; i < want.memory_extent.ndim; i++)
    if (want.memory.strides[static_cast<size_t>(i)] == 0 && want.memory_extent[i] > 1)
      return tensor_error(CKPT_INVALID, name,
                          strformat("stride 0 in dimension {} would write elements over each other", i));
  return Ok();
}

Status Load::add_tensor(std::string_view name, const ckpt_tensor_desc& desc, void* data, uint64_t data_bytes,
                        device::Location where) {
  if (begun_) return Status(CKPT_INVALID, "the load has begun; nothing can be added");
  if (desc.region_kind == CKPT_REGION_ROWS)
    return tensor_error(CKPT_INVALID, name,
                        "region kind ROWS is for saves; a load asks for a box of the shape "
                        "that ckpt_reader_tensor_find tells");
  device::RegionRequest want;
  CKPT_TRY(device::read_request(name, desc, data, data_bytes, where, &transfers_, &want));
  // Skip empty regions: their default strides contain zeros.
  if (plan::units_of(want.geometry, want.units) != 0) CKPT_TRY(check_strides(name, want));
  checkpoint::Checkpoint::Named named{locate_in_own(name, want)};
  const bool own{named.tensor};
  if (!own) {
    CKPT_ASSIGN(named, locate(name));
  }
  if (!named.tensor) {
    missing_.emplace_back(name);
    return Ok();
  }
  CKPT_TRY(check_request(named, want, desc.flags & CKPT_TENSOR_CONVERT));
  if (!own) asked_[last_position_] = true;
  if (named.is_view()) {
    views_.add({named, want});
    return Ok();
  }
  const size_t before = plan_.boxes.size();
  // Convertible dtypes have whole bytes on both sides, so units are elements.
  if (want.dtype == named.tensor.dtype()) {
    add_boxes(&plan_, named.tensor, want.geometry, want.units, want.memory);
  } else {
    device::Memory memory = want.memory;
    memory.dtype = want.dtype;
    add_boxes(&plan_, named.tensor, *plan::geometry_of(named.tensor.dtype(), want.shape), want.units, memory);
  }
  for (size_t i = before; named.alias && i < plan_.boxes.size(); i++) aliases_.emplace(i, named.name());
  return Ok();
}

Result<checkpoint::ObjectRef> Load::locate_object(std::string_view name, uint32_t rank) {
  if (options_.own_part >= 0 && rank == options_.own_part)
    if (auto found = checkpoint_->find_object_in_part(name, rank); found.ok() && found->object) return found;
  return checkpoint_->find_object(name, rank);
}

Status Load::add_object(std::string_view name, uint32_t rank, MutableBytes data) {
  if (begun_) return Status(CKPT_INVALID, "the load has begun; nothing can be added");
  CKPT_ASSIGN(checkpoint::ObjectRef own, locate_object(name, rank));
  if (!own.object && options_.object_policy == "rank0") {
    CKPT_ASSIGN(own, checkpoint_->find_object(name, 0));
  }
  if (!own.object) {
    CKPT_ASSIGN(const checkpoint::Checkpoint::Held held, checkpoint_->holders_of(name));
    std::string why =
        !held.parts.empty()
            ? strformat("object {}: rank {} of a world of {} has none (option object_policy=rank0 takes rank 0's)",
                        in_quotes(name), rank, checkpoint_->summary().world_size)
            : "object " + in_quotes(name) + ": not in the checkpoint";
    return error_about(CKPT_NOT_FOUND, name, why).with("rank", uint64_t{rank});
  }
  const uint64_t size = own.object->size();
  if (data.size() < size)
    return Status(CKPT_INVALID, strformat("object {} has {} bytes, the memory {}", in_quotes(name), size, data.size()))
        .with("expected", size)
        .with("found", uint64_t{data.size()});
  objects_.push_back({std::string(name), own, data.first(size)});
  return Ok();
}

Status Load::add_table(TableRequest request) {
  if (begun_) return Status(CKPT_INVALID, "the load has begun; nothing can be added");
  const Table& table = request.share->table();
  if (request.share->checkpoint() != checkpoint_)
    return Status(CKPT_INVALID, "the share of table " + in_quotes(table.name) + " is of another reader");
  auto ask = [&](std::string_view name) -> Status {
    uint64_t position = 0;
    CKPT_TRY(checkpoint_->find(name, &position).status());
    asked_[position] = true;
    return Ok();
  };
  CKPT_TRY(ask(table.name));
  if (table.live.tensor) CKPT_TRY(ask(table.live.tensor.name()));
  for (size_t i = 0; i <= table.later.size(); i++)
    for (const Table::Column* column : {&table.layer(i).ids, &table.layer(i).buckets})
      CKPT_TRY(ask(column->tensor.name()));
  const uint64_t rows = request.share->windows()[request.window].rows;
  CKPT_TRY(transfers_.check(request.where));
  for (const auto& [column, data] : request.columns) {
    const auto number = static_cast<size_t>(column - table.columns.data());
    for (size_t i = 0; i <= table.later.size(); i++)
      if (!Table::removes(i)) CKPT_TRY(ask(table.layer(i).columns[number].tensor.name()));
    if (rows == 0) continue;
    auto device = transfers_.note(request.where, data, rows * column->row_bytes, request.stream);
    if (!device.ok()) return std::move(device).status().in("tensor " + in_quotes(column->tensor.name()));
    request.device = *device;
  }
  tables_.add(std::move(request));
  return Ok();
}

static Finding name_finding(int32_t kind, ckpt_status status, std::string_view name, const char* text) {
  Finding finding;
  finding.kind = kind;
  finding.status = status;
  finding.name = name;
  finding.text = in_quotes(name) + ": " + text;
  return finding;
}

// With the names that were found in the own part. One that the manifest cannot tell the place of counts as not asked.
std::vector<bool> Load::all_asked() const {
  std::vector<bool> asked = asked_;
  uint64_t position = 0;
  for (std::string_view name : own_)
    if (auto named = checkpoint_->find(name, &position); named.ok() && named->tensor) asked[position] = true;
  return asked;
}

Report Load::report() const {
  Report report;
  for (const auto& name : missing_)
    report.findings.push_back(
        name_finding(CKPT_FINDING_MISSING, CKPT_NOT_FOUND, name, "asked for, not in the checkpoint"));
  const std::vector<bool> asked = all_asked();
  for (uint64_t i = 0; i < asked.size(); i++) {
    if (asked[i]) continue;
    auto named = checkpoint_->named_at(i);
    const std::string name = named.ok() ? std::string(named->name()) : strformat("name {}", i);
    report.findings.push_back(name_finding(CKPT_FINDING_EXTRA, CKPT_OK, name, "in the checkpoint, not asked for"));
  }
  return report;
}

Status Load::check_strict() const {
  if (options_.strict == "none") return Ok();
  if (!missing_.empty())
    return error_about(
        CKPT_NOT_FOUND, missing_[0],
        strformat("{} names are not in the checkpoint, the first is {}", missing_.size(), in_quotes(missing_[0])));
  if (options_.strict != "exact") return Ok();
  const std::vector<bool> asked = all_asked();
  size_t extra = static_cast<size_t>(std::count(asked.begin(), asked.end(), false));
  if (extra == 0) return Ok();
  const auto first = static_cast<uint64_t>(std::find(asked.begin(), asked.end(), false) - asked.begin());
  CKPT_ASSIGN(checkpoint::Checkpoint::Named named, checkpoint_->named_at(first));
  const std::string name(named.name());
  return error_about(
      CKPT_MISMATCH, name,
      strformat("{} names of the checkpoint were not asked for, the first is {}", extra, in_quotes(name)));
}

Status Load::begin() {
  if (begun_) return Status(CKPT_INVALID, "a load runs once; make another");
  begun_ = true;
  return transfers_.mark();
}

// ---- the work ----

Status Load::load_objects(Job& job) const {
  for (const ObjectRequest& request : objects_)
    CKPT_TRY(checkpoint::read_object(*checkpoint_, request.object, request.to, job));
  return Ok();
}

// Reports a part that is missing or too short before memory is allocated for what the manifest claims.
Status Load::open_parts(const checkpoint::TensorRef& tensor) const {
  CKPT_ASSIGN(auto pieces, checkpoint_->pieces(tensor));
  std::set<uint32_t> files;
  for (const checkpoint::Piece& piece : pieces)
    for (const fb::Chunk& chunk : piece.chunks()) files.insert(checkpoint_->file_of(piece.part, *piece.page, chunk));
  for (const uint32_t file : files) CKPT_TRY(checkpoint_->check_part(file, tensor.name()));
  return Ok();
}

// All parts that are needed must be there before caller memory changes. Of a server several are asked for at once.
Status Load::open_parts(const LoadPlan& plan) const {
  for (const ObjectRequest& request : objects_) CKPT_TRY(checkpoint_->check_object(request.object, request.name));
  std::vector<const ChunkRead*> firsts;  // of each file: reads are in their order
  for (const ChunkRead& read : plan.reads)
    if (firsts.empty() || firsts.back()->file != read.file) firsts.push_back(&read);
  const store::Traits traits = checkpoint_->store().traits();
  return for_each_parallel(traits.remote ? traits.read_depth : 1, firsts.size(), [&](size_t i) {
    return checkpoint_->check_part(firsts[i]->file, plan.name_of(*firsts[i]));
  });
}

// Reads what is planned, beside the memory of the views.
Status Load::read(const LoadPlan& plan, Job& job) {
  std::atomic<uint64_t>& peak = job.counters.staging_peak_bytes;
  const uint64_t before = peak.exchange(0), beside = views_.memory_bytes() + transfers_.bounce_bytes();
  Status status = execute_reads(*checkpoint_, plan,
                                {.threads = threads_,
                                 .staging_bytes = staging_bytes_ - beside,
                                 .verify = options_.verify,
                                 .transfers = &transfers_},
                                job);
  peak = std::max(before, peak + beside);
  return status;
}

// Ids that take long to check are read first and checked beside the rest of the reading, which waits for the disk.
Status Load::read_and_check(const LoadPlan& ids, const LoadPlan& plan, Job& job) {
  CKPT_TRY(read(ids, job));
  std::atomic<bool> begun = false;
  Status done, checked;
  CKPT_TRY(run_parallel(2, [&](unsigned worker, const std::atomic<bool>&) {
    if (worker == 0) done = read(plan, job);
    if (!begun.exchange(true)) checked = tables_.check(true, std::max(1u, threads_ / 2));
    return Ok();
  }));
  CKPT_TRY(std::move(done));
  return checked;
}

Status Load::work(Job& job) {
  const ContextScope working = job.enter(options_.timeout_ms);
  Status status = run_steps(job);
  Status copied = transfers_.close();
  if (status.ok()) status = std::move(copied);
  if (status.ok() && (job.counters.bytes_requested != 0 || !objects_.empty()))
    checkpoint::note_loaded(checkpoint_->summary(), checkpoint_->summary().step);
  return status;
}

// Views beyond the budget are read window after window, once all else is there; so are tables of which a step may have
// very many runs.
Status Load::run_steps(Job& job) {
  CKPT_TRY(check_strict());
  CKPT_TRY(check_overlaps());
  for (const ViewRequest& view : views_.requests()) CKPT_TRY(open_parts(view.named.tensor));
  CKPT_TRY(views_.begin(staging_bytes_ / 2));
  CKPT_TRY(transfers_.open(std::min(staging_bytes_ / 8, uint64_t{2} * threads_ * device::Transfers::kPieceBytes)));
  LoadPlan plan = std::move(plan_);
  for (bool first = true, more = true; more; first = false) {
    LoadPlan ids(*checkpoint_);
    more = views_.plan_next(&plan);
    CKPT_TRY(tables_.plan_next(&ids, &plan));
    more |= tables_.more();
    for (LoadPlan* each : {&ids, &plan}) CKPT_TRY(plan_reads(each));
    for (const LoadPlan* each : {&ids, &plan}) CKPT_TRY(open_parts(*each));
    if (first)
      job.counters.bytes_requested = job.counters.bytes_total =
          ids.bytes_requested + plan.bytes_requested + views_.bytes_left() + tables_.bytes_left();
    job.counters.run_count += ids.run_count + plan.run_count;
    CKPT_TRY(ids.boxes.empty() ? read(plan, job) : read_and_check(ids, plan, job));
    CKPT_TRY(views_.copy(transfers_));
    CKPT_TRY(tables_.check(false, threads_));
    plan = LoadPlan(*checkpoint_);
  }
  return load_objects(job);
}

}  // namespace ckpt::load
