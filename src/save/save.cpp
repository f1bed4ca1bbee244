// Collects what a rank saves, and runs the steps of a save in order.
#include "save/save.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/parallel.h"
#include "base/text.h"
#include "codec/checksum.h"
#include "commit/holders.h"
#include "commit/retention.h"
#include "format/names.h"
#include "plan/box.h"
#include "save/part_writer.h"
#include "save/table_changes.h"
#include "save/table_runs.h"
#include "save/table_sort.h"
#include "tree/merge.h"

namespace ckpt::save {

Result<std::shared_ptr<Save>> Save::make(std::shared_ptr<session::Session> session, std::string_view label,
                                         int64_t step, const SaveOptions& options, const SessionOptions& asked) {
  CKPT_TRY(format::check_label(label));
  std::shared_ptr<Save> save(new Save);
  // Counted first, so that all ranks count alike whatever fails on one of them.
  save->attempt_ = session->next_attempt(label);
  save->session_ = std::move(session);
  save->step_ = step;
  save->begun_ = false;
  Status configured = save->configure(options, asked);
  if (configured.ok()) return save;
  save->begun_ = true;
  // Only what is refused asks the store, to tell the other ranks, on a disk that may hang.
  constexpr int64_t kTellMs = 2000;
  return run_apart(std::make_shared<Job>(), kTellMs, [save, configured](Job&) { return save->refuse(configured); });
}

Save::~Save() {
  (void)call_guarded([this] {
    if (at_end_ && !ended_) at_end_(false);
    if (begun_) return Ok();
    // The other ranks would wait for a part that never comes.
    std::string why = failure_.ok() ? "the save was freed without being run" : failure_.message();
    return refuse(Status(failure_.ok() ? CKPT_ABORTED : failure_.code(), std::move(why)));
  });
}

static Status check_agreed(const char* key, bool is_set, int64_t asked, uint64_t agreed) {
  if (!is_set || static_cast<uint64_t>(asked) == agreed) return Ok();
  return Status(CKPT_MISMATCH, strformat("option {}: the session has {}, this save {}; only the session may set it",
                                         key, agreed, asked))
      .with("expected", agreed)
      .with("found", std::to_string(asked));
}

// "0.5", "1"
static Result<double> parse_share(std::string_view key, std::string_view text) {
  const bool fixed = text.find_first_not_of("0123456789.") == text.npos;
  const std::optional<double> share = fixed ? to_double(text) : std::nullopt;
  if (share && *share <= 1) return *share;
  return Status(CKPT_INVALID, strformat("option {}: expected a number from 0 to 1, found {}", key, in_quotes(text)))
      .with("expected", "0 to 1")
      .with("found", std::string(text));
}

Status Save::configure(const SaveOptions& options, const SessionOptions& asked) {
  const session::SessionPlan& plan = session_->plan();
  if (step_ < -1) return Status(CKPT_INVALID, strformat("step: expected -1 or more, found {}", step_));
  CKPT_TRY(check_agreed("chunk_bytes", asked.is_set.chunk_bytes, asked.chunk_bytes, plan.chunk_bytes));
  CKPT_TRY(check_agreed("large_tensor_bytes", asked.is_set.large_tensor_bytes, asked.large_tensor_bytes,
                        plan.large_tensor_bytes));
  const unsigned threads = resolve_threads(options.threads);
  settings_.incremental = options.is_set.incremental ? options.incremental : session_->incremental();
  settings_.base = options.base;
  CKPT_ASSIGN(settings_.most_dead, parse_share("most_dead", options.most_dead));
  settings_.most_runs = static_cast<uint64_t>(options.most_runs);
  settings_.commit = {.on_existing = options.on_existing,
                      .protect = options.protect,
                      .timeout_ms = options.timeout_ms,
                      .keep_last = options.keep_last,
                      .keep_every = options.keep_every,
                      .threads = threads,
                      .wait = options.wait,
                      .some_hold = options.held_by == "some" && plan.world_size > 1,
                      .incremental = settings_.incremental != "off",
                      .step = step_};
  settings_.compression = options.compression;
  settings_.replicas = replica_check(options.replicas);
  settings_.threads = threads;
  settings_.staging_bytes = static_cast<uint64_t>(options.staging_bytes);
  settings_.staging_grows = !options.is_set.staging_bytes;
  CKPT_TRY(commit::check_policy(
      {.run = plan.run, .keep_last = options.keep_last, .keep_every = options.keep_every, .protect = options.protect}));
  if (settings_.staging_grows) settings_.staging_bytes = std::max(settings_.staging_bytes, session_->arena_bytes());
  uint64_t smallest = 2 * plan.chunk_bytes;
  if (settings_.staging_bytes < smallest)
    return Status(CKPT_INVALID, strformat("option staging_bytes: expected at least two chunks, {}, found {}", smallest,
                                          settings_.staging_bytes));
  return Ok();
}

Status Save::noted(Status status) {
  if (failure_.ok()) failure_ = status;
  return status;
}

static Status taken(std::string_view name) {
  return error_about(CKPT_EXISTS, name, in_quotes(name) + " was added already");
}

// A rank may add several regions of one tensor. `first`: the one that was added first; null if the name is an alias's.
static Status check_another(std::string_view name, const SaveTensor* first, const device::RegionRequest& request) {
  auto all = [](RegionKind kind) { return kind == RegionKind::kWhole || kind == RegionKind::kRows; };
  if (!first || all(first->kind) || all(request.region.kind) ||
      (request.bytes != 0 && first->region() == request.region))
    return taken(name);
  if (first->dtype == request.dtype && first->shape() == request.shape) return Ok();
  auto text = [](uint16_t dtype, const Shape& shape) { return dtype_name(dtype) + std::string(" ") + to_text(shape); };
  return tensor_error(CKPT_INVALID, name,
                      strformat("a region of {}, but another one of {}", text(request.dtype, request.shape),
                                text(first->dtype, first->shape())));
}

Status Save::add_tensor(std::string_view name, const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes,
                        device::Location where) {
  if (begun_) return Status(CKPT_INVALID, "the save has begun; nothing can be added");
  CKPT_TRY(format::check_tensor_name(name));
  device::RegionRequest request;
  CKPT_TRY(device::read_request(name, desc, data, data_bytes, where, &transfers_, &request));
  if (desc.flags & CKPT_TENSOR_CONVERT) return tensor_error(CKPT_INVALID, name, "conversion is for loads");
  const bool given = desc.replica_count != 0;
  if (desc.region_kind == CKPT_REGION_ROWS && (given || (desc.flags & CKPT_TENSOR_FIRST_REPLICA)))
    return tensor_error(CKPT_INVALID, name, "rows are of one rank only, and have no replicas");
  if (!given && desc.replica_index != 0)
    return tensor_error(CKPT_INVALID, name, strformat("replica_index {} without replica_count", desc.replica_index));
  Replica replica{
      .group = desc.replica_group,
      .index = given ? desc.replica_index : 0,
      .count = given ? desc.replica_count : 1,
      .first_only = settings_.replicas == ReplicaCheck::kFirst || (desc.flags & CKPT_TENSOR_FIRST_REPLICA) != 0,
      .assumed = desc.region_kind == CKPT_REGION_WHOLE && !given};
  if (replica.assumed) replica.index = session_->rank(), replica.count = session_->world_size();
  if (replica.index >= replica.count || replica.count > session_->world_size())
    return tensor_error(
        CKPT_INVALID, name,
        strformat("replica {} of {} in a world of {}", replica.index, replica.count, session_->world_size()));
  const auto [cell, fresh] = names_.insert(name);
  if (!fresh) CKPT_TRY(check_another(name, cell.tensor, request));
  SaveTensor* const tensor = keep_tensor(cell.name(), request, replica, &content_.memory);
  content_.tensors.push_back(tensor);
  if (fresh) cell.tensor = tensor;
  return Ok();
}

Status Save::add_object(std::string_view name, std::string_view media_type, int32_t scope, Bytes data) {
  if (scope != CKPT_OBJECT_SHARED && scope != CKPT_OBJECT_PER_RANK)
    return Status(CKPT_INVALID,
                  strformat("object {}: expected scope SHARED (0) or PER_RANK (1), found {}", in_quotes(name), scope));
  return put_object(name, media_type, static_cast<uint8_t>(scope), data);
}

// In a world of one rank the tree is a shared object. In a larger one each rank writes its own, as it cannot know what
// the others have: equal ones are read once. What is each rank's own is kept apart, so that they can be equal.
Status Save::add_tree(std::string_view name, const tree::Tree& tree) {
  auto put = [&](std::string_view object, uint8_t scope, const tree::Tree& from) {
    return put_object(object, CKPT_TREE_MEDIA_TYPE, scope, as_bytes(tree::tree_json(from)));
  };
  CKPT_TRY(tree.check_complete());
  if (session_->world_size() == 1) return put(name, CKPT_OBJECT_SHARED, tree);
  CKPT_ASSIGN(const tree::SplitTree split, tree::split_ranks(tree, session_->rank()));
  CKPT_TRY(put(name, CKPT_OBJECT_TREE, split.common));
  return split.own ? put(tree::per_rank_object(name), CKPT_OBJECT_PER_RANK, *split.own) : Ok();
}

Status Save::put_object(std::string_view name, std::string_view media_type, uint8_t scope, Bytes data) {
  if (begun_) return Status(CKPT_INVALID, "the save has begun; nothing can be added");
  CKPT_TRY(format::check_tensor_name(name));
  CKPT_TRY(format::check_text(media_type));
  SaveObject object{std::string(name), std::string(media_type), scope, {data.begin(), data.end()}};
  if (!content_.objects.try_emplace(std::string(name), std::move(object)).second) return taken(name);
  return Ok();
}

Status Save::add_alias(std::string_view name, std::string_view target, const ckpt_tensor_desc* view) {
  if (begun_) return Status(CKPT_INVALID, "the save has begun; nothing can be added");
  CKPT_TRY(format::check_tensor_name(name));
  CKPT_TRY(format::check_tensor_name(target));
  SaveAlias alias{std::string(name), std::string(target), view != nullptr, 0, {}};
  if (view) {
    if (view->ndim < 0 || view->ndim > kMaxNdim || view->flat_offset < 0)
      return Status(CKPT_INVALID,
                    strformat("alias \"{}\": ndim {} at offset {}", alias.name, view->ndim, view->flat_offset));
    alias.ndim = view->ndim;
    alias.view.push_back(static_cast<uint64_t>(view->flat_offset));
    const bool strided = view->flags & CKPT_TENSOR_STRIDED;
    Shape shape{.ndim = view->ndim}, strides{.ndim = view->ndim};
    for (int i = 0; i < view->ndim; i++) {
      if (view->shape[i] < 0 || (strided && view->strides[i] < 0))
        return Status(CKPT_INVALID, "alias \"" + alias.name + "\": negative shape or stride");
      shape[i] = static_cast<uint64_t>(view->shape[i]);
      strides[i] = static_cast<uint64_t>(view->strides[i]);
    }
    if (!strided) strides = plan::contiguous_strides(shape);
    for (const Shape& numbers : {shape, strides})
      alias.view.insert(alias.view.end(), numbers.span().begin(), numbers.span().end());
  }
  if (!names_.insert(name).second) return taken(name);
  content_.aliases.try_emplace(std::string(name), std::move(alias));
  return Ok();
}

Status Save::set_attr(std::string_view tensor, std::string_view key, std::string_view value) {
  if (begun_) return Status(CKPT_INVALID, "the save has begun; nothing can be added");
  CKPT_TRY(format::check_attr_key(key));
  CKPT_TRY(format::check_text(value));
  if (value.size() > format::kMaxAttrValue)
    return Status(CKPT_INVALID, strformat("attribute \"{}\" has {} bytes, at most 1 MiB expected", key, value.size()));
  content_.attrs[std::string(tensor)].insert_or_assign(std::string(key), std::string(value));
  return Ok();
}

Status Save::check_attr_owners() const {
  for (const auto& [owner, values] : content_.attrs)
    if (!owner.empty() && !names_.contains(owner))
      return error_about(CKPT_NOT_FOUND, owner, "an attribute of tensor " + in_quotes(owner) + ", which was not added");
  return Ok();
}

Status Save::begin() {
  if (begun_) return Status(CKPT_INVALID, "a save runs once; make another");
  begun_ = true;
  Status ready = call_guarded([this] { return make_ready(); });
  return ready.ok() ? Ok() : refuse(std::move(ready));
}

Status Save::make_ready() {
  // Drawn here, not by the job: of two saves in the background, the one that was started later is the newer one.
  if (session_->rank() == 0) {
    sequence_ = session_->next_sequence();
    settings_.commit.goes_back = !session_->continuation().begin_save(attempt_.label, step_, sequence_);
  }
  CKPT_TRY(check_attr_owners());
  CKPT_TRY(half_added_);
  for (SaveTable& table : content_.tables) table.since = session_->note_table(table.name, attempt_.directory);
  names_.forget();
  if (const SaveTensor* twice = sort_tensors(&content_.tensors)) return taken(twice->name);
  return transfers_.mark();
}

Status Save::give_up(std::string_view reason) {
  if (begun_) return Status(CKPT_INVALID, "the save has begun; cancel its job");
  CKPT_TRY(format::check_text(reason));
  begun_ = true;
  (void)refuse(Status(CKPT_ABORTED, strformat("rank {} gave up: {}", session_->rank(), reason)));
  return Ok();
}

Status Save::refuse(Status cause) {
  Call::settle_current(cause);
  return commit::refuse_attempt(*session_, attempt_, std::move(cause));
}

static uint64_t unix_ms() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

static SaveIdentity identify(session::Session& session, const session::Attempt& attempt, int64_t step,
                             uint64_t sequence) {
  SaveIdentity identity;
  identity.rank = session.rank();
  identity.attempt = attempt;
  format::Summary& summary = identity.summary;
  const session::SessionPlan& plan = session.plan();
  summary.store_id = plan.store_id;
  summary.session_id = plan.session_id;
  summary.save_id = attempt.save_id;
  summary.run = plan.run;
  summary.label = attempt.label;
  summary.writer = "ckpt " CKPT_VERSION;
  summary.token = plan.token;
  summary.attempt = attempt.number;
  summary.sequence = sequence;
  summary.step = step;
  summary.world_size = plan.world_size;
  summary.created_unix_ms = unix_ms();
  return identity;
}

int32_t Save::goal() const {
  return session_->rank() == 0 || settings_.commit.wait ? CKPT_JOB_COMMITTED : CKPT_JOB_DELIVERED;
}

Status Save::work(Job& job, bool copies) {
  const ContextScope working = job.enter(settings_.commit.timeout_ms);
  std::shared_ptr<void> alive;
  Status status = call_guarded(
      [&] {
        alive = session_->begin_save(attempt_);
        return run_steps(job, copies);
      },
      [&](Status why) {  // that there is no memory leaves no rank waiting, and does not undo what is known
        Status known = job.call->answer_of_left(why);
        return known.code() == why.code() ? refuse(std::move(why)) : known;
      });
  unfinished_.reset();  // the others have been told
  (void)call_guarded([&] {
    report_ = job.report;
    if (status.ok()) session_->note_saved(attempt_.directory, job.counters.bytes_written);
    return Ok();
  });
  ended_ = true;
  if (at_end_) at_end_(status.ok());
  return status;
}

Result<Report> Save::report() const {
  if (!ended_) return Status(CKPT_INVALID, "the save has not ended; its report comes with the end");
  return report_;
}

// The tensors of which the caller did not say who holds them go to those that do.
Status Save::find_holders(Job& job) {
  std::vector<std::pair<uint64_t, SaveTensor*>> assumed;
  for (SaveTensor* tensor : content_.tensors)
    if (tensor->replica.assumed) assumed.emplace_back(codec::xxh3_64(as_bytes(tensor->name)), tensor);
  std::ranges::sort(assumed);
  LargeVector<uint64_t> names(assumed.size());
  for (size_t i = 0; i < names.size(); i++) names[i] = assumed[i].first;
  CKPT_ASSIGN(const auto holders, commit::find_holders(*session_, attempt_, settings_.commit, job, names));
  for (size_t i = 0; i < names.size(); i++) {
    Replica& replica = assumed[i].second->replica;
    replica = {holders[i].group, holders[i].index, holders[i].count, replica.first_only, true};
  }
  return Ok();
}

// Which asks the base before anything is laid out.
bool Save::carries_tables() const {
  return settings_.incremental != "off" && std::ranges::any_of(content_.tables, [](const SaveTable& table) {
           return table.has_changes && !table.since.empty();
         });
}

Status Save::write(const SaveIdentity& identity, bool copies, const Opening& open, Job& job) {
  Status written = call_guarded([&]() -> Status {
    Carried carried;
    for (SaveTable& table : content_.tables)
      if (table.has_changes && settings_.incremental != "off")
        CKPT_TRY(find_changes(*session_, attempt_.directory, settings_.threads, job, &table));
    if (carries_tables()) {
      CKPT_ASSIGN(carried, carry_tables({*session_, identity, settings_, job}, &content_));
    }
    TableOrder order(content_, settings_.threads, job);
    CKPT_TRY(order.begin());
    if (settings_.compression != "none") CKPT_TRY(order.sort(order.waves() - 1));  // codecs are chosen by samples
    if (settings_.commit.some_hold) CKPT_TRY(find_holders(job));
    CKPT_TRY(transfers_.open(
        std::min(settings_.staging_bytes / 8, uint64_t{settings_.threads} * device::Transfers::kPieceBytes)));
    CKPT_ASSIGN(const auto values, digest_replicas(content_, settings_.replicas, settings_.threads, job, &transfers_));
    const PartInput input{.session = *session_,
                          .identity = identity,
                          .content = content_,
                          .order = order,
                          .carried = carried,
                          .settings = settings_,
                          .values = values,
                          .transfers = transfers_,
                          .copies = copies,
                          .open_attempt = open,
                          .job = job};
    return write_part(input, &unfinished_);
  });
  Status copied = transfers_.close();
  return written.ok() ? copied : written;
}

// A save that copies opens the attempt beside the copies, so that its caller waits neither for the store nor for other
// ranks; so does one that reuses, beside its hashes. One that asks other ranks first does that through the attempt.
Status Save::run_steps(Job& job, bool copies) {
  SaveIdentity identity = identify(*session_, attempt_, step_, sequence_);
  std::optional<Status> opened;
  const Opening open = [&](const std::function<Status()>& go_on) {
    if (!opened) opened = commit::open_attempt(*session_, attempt_, settings_.commit, job, go_on);
    return *opened;
  };
  const bool opens_first = (!copies && !settings_.commit.incremental) || carries_tables();
  if (opens_first || settings_.memory || settings_.commit.some_hold) CKPT_TRY(open({}));
  Status written = write(identity, copies, open, job);
  if (!opened) return refuse(std::move(written));
  if (!opened->ok()) return written;
  const bool published = written.ok();
  if (published) written = job.check();
  if (!written.ok()) return commit::give_up(*session_, attempt_, std::move(written), published);
  job.counters.write_us = job.elapsed_us();
  job.reach(CKPT_JOB_WRITTEN);
  Status finished = commit::finish_attempt(*session_, attempt_, settings_.commit, job);
  job.counters.commit_us = job.elapsed_us();
  return finished;
}

}  // namespace ckpt::save
