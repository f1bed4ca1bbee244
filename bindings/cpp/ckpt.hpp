// ckpt.hpp - ckpt for C++17 and later: RAII handles, typed tensors, errors thrown or returned.
//
//   auto store = ckpt::Store::open("/data/run7");
//   auto session = ckpt::Session::open(store);                  // rank 0 of 1
//   auto save = ckpt::Save::create(session, "step-100", 100);
//   save.add_tensor("w", {128, 64}, w);                         // any contiguous container
//   save.run();                                                 // durable, complete, committed
//
//   auto reader = ckpt::Reader::open(store, "latest");
//   for (const auto& tensor : reader.tensors()) std::puts(tensor.name);
//   std::vector<float> all = reader.read<float>("w");           // all there, all checked
//
// ckpt.h describes each call at the function of the same name: what it does, its options, statuses and thread class.
//
// Errors: by default a failed call throws ckpt::Error. If CKPT_HPP_EXPECTED is defined before the include, nothing is
// thrown (-fno-exceptions works): every call that can fail returns ckpt::Expected<T>. A program may use both, in
// different files.
// Memory given to Save and Load must live until the save is staged (when run() or start() returns) or the load has
// ended, so a temporary container does not compile. Until then it belongs to the engine: a save's must not change, a
// load's must not be used. Handles can be moved, not copied. Destroy them in any order: each keeps alive what it was
// made from.
#ifndef CKPT_HPP
#define CKPT_HPP

#if __has_include(<ckpt_file.h>)  // not installed if libckpt was built with CKPT_INTEROP=OFF
#include <ckpt_file.h>
#endif

#include "ckpt/background.hpp"
#include "ckpt/file.hpp"
#include "ckpt/table.hpp"
#include "ckpt/tree.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

using CheckpointInfo = ckpt_checkpoint_info;
using TensorInfo = ckpt_tensor_info;
using SegmentInfo = ckpt_segment_info;
using ObjectInfo = ckpt_object_info;
using PartInfo = ckpt_part_info;
using JobStats = ckpt_job_stats;
using Finding = ckpt_finding;
using OptionInfo = ckpt_option_info;
using RunInfo = ckpt_run_info;
using Attributes = std::map<std::string, std::string>;

// ---- library ----

inline std::string version() { return ckpt_version_string(); }
inline int32_t version_number() { return ckpt_version_number(); }
inline std::string status_name(ckpt_status status) { return ckpt_status_name(status); }
inline std::string dtype_name(int32_t dtype) { return ckpt_dtype_name(dtype); }
inline int32_t dtype_bits(int32_t dtype) { return ckpt_dtype_bits(dtype); }
inline std::optional<int32_t> dtype_find(const std::string& name) {
  const int32_t found = detail::holds_nul(name) ? -1 : ckpt_dtype_find(name.c_str());
  return found < 0 ? std::nullopt : std::optional<int32_t>(found);
}
// Every option that Options takes. Its texts are static.
inline Result<std::vector<OptionInfo>> option_list() {
  std::vector<OptionInfo> all(static_cast<size_t>(ckpt_option_count()), detail::sized<OptionInfo>());
  detail::Call call;
  for (size_t i = 0; i < all.size(); i++) call(ckpt_option_at, static_cast<int32_t>(i), &all[i]);
  return call.result(std::move(all));
}

// The option called `key`, if there is one.
inline Result<std::optional<OptionInfo>> option_find(std::string_view key) {
  auto info = detail::sized<OptionInfo>();
  detail::Call call;
  for (int32_t i = 0; i < ckpt_option_count() && call(ckpt_option_at, i, &info).ok(); i++)
    if (key == info.key) return std::optional<OptionInfo>(info);
  return call.result(std::optional<OptionInfo>());
}

// ---- report ----

// Findings in order: for (const ckpt::Finding& finding : report). The report owns their texts.
class Report : public detail::Handle<ckpt_report, ckpt_report_free> {
 public:
  using Handle::Handle;
  using Findings = Range<Finding, ckpt_report, size_t>;
  size_t size() const { return ckpt_report_count(get()); }
  bool empty() const { return size() == 0; }
  Result<Finding> at(size_t index) const { return detail::fill<Finding>(ckpt_report_at, get(), index); }
  Findings::iterator begin() const { return findings().begin(); }
  Findings::iterator end() const { return findings().end(); }

 private:
  Findings findings() const { return {get(), size(), ckpt_report_at}; }
};

// ---- job ----

// Work in the background. A save belongs to its session: dropping its Job loses nothing. Destroying the Job of a save
// in place waits until the engine no longer uses the memory. The Job of a load, a verification or a call cancels it if
// it still runs, and waits for the same. Assigning to a Job destroys the old one.
class Job {
 public:
  using Object = ckpt_job;
  explicit Job(ckpt_job* owned) : state_(owned ? std::make_shared<detail::JobState>(owned) : nullptr) {}
  Job(Job&&) noexcept = default;
  Job& operator=(Job&& from) noexcept {
    const Job old(std::move(*this));
    state_ = std::move(from.state_);
    return *this;
  }
  ~Job() { leave_memory(); }
  ckpt_job* get() const noexcept { return state_ ? state_->get() : nullptr; }
  explicit operator bool() const noexcept { return state_ != nullptr; }
  // For one call that blocks (Session::open, Store::prune, repair and import, Reader::diff, copy and export_to): put it
  // into the call's options by set_job. Destroying it while the call runs cancels the call.
  static Result<Job> create() { return detail::make<Job>(ckpt_job_new); }
  int32_t state() const { return ckpt_job_state(get()); }
  Result<void> wait(int32_t state, int64_t timeout_ms = -1) const {
    detail::Call call;
    if (!call(ckpt_job_wait, get(), state, timeout_ms).ok() && state_ && state_->ended()) state_->told = true;
    return call.done();
  }
  Result<void> wait_staged(int64_t timeout_ms = -1) const { return wait(CKPT_JOB_STAGED, timeout_ms); }
  Result<void> wait_committed(int64_t timeout_ms = -1) const { return wait(CKPT_JOB_COMMITTED, timeout_ms); }
  Result<void> wait_done(int64_t timeout_ms = -1) const { return wait(CKPT_JOB_DONE, timeout_ms); }
  // A save that is not committed yet will not be.
  void cancel() const {
    if (state_) state_->told = true;
    ckpt_job_cancel(get());
  }
  Result<JobStats> stats() const { return detail::fill<JobStats>(ckpt_job_stats_get, get()); }
  Result<Report> report() const { return detail::make<Report>(ckpt_job_report, get()); }

 private:
  friend class Save;
  explicit Job(std::shared_ptr<detail::JobState> state) : state_(std::move(state)) {}
  void leave_memory() const {
    if (!state_ || state_->label.empty()) return;  // otherwise freeing the job waits
    if (state_->unwinding && ckpt_job_state(get()) < CKPT_JOB_STAGED) cancel();
    state_->wait(CKPT_JOB_STAGED);
  }
  std::shared_ptr<detail::JobState> state_;
};

inline Options& Options::set_job(const Job& job) {
  job_ = job.get();
  return *this;
}

// ---- store ----

class Store : public detail::Handle<ckpt_store, ckpt_store_free> {
 public:
  using Handle::Handle;
  static Result<Store> open(const std::string& uri, const Options& options = {}) {
    return detail::make_first<Store>(ckpt_store_open, detail::Text{"uri", uri}, options);
  }
  // A snapshot, oldest first.
  Result<std::vector<CheckpointInfo>> list() const {
    ckpt_list* made = nullptr;
    detail::Call call;
    call(ckpt_store_list, get(), &made);
    const detail::Handle<ckpt_list, ckpt_list_free> list(made);
    std::vector<CheckpointInfo> all(made ? ckpt_list_count(made) : 0, detail::sized<CheckpointInfo>());
    for (size_t i = 0; i < all.size(); i++) call(ckpt_list_at, made, i, &all[i]);
    return call.result(std::move(all));
  }
  // By name.
  Result<std::vector<RunInfo>> runs() const {
    ckpt_runs* made = nullptr;
    detail::Call call;
    call(ckpt_store_runs, get(), &made);
    const detail::Handle<ckpt_runs, ckpt_runs_free> runs(made);
    std::vector<RunInfo> all(made ? ckpt_runs_count(made) : 0, detail::sized<RunInfo>());
    for (size_t i = 0; i < all.size(); i++) call(ckpt_runs_at, made, i, &all[i]);
    return call.result(std::move(all));
  }
  Result<CheckpointInfo> find(const std::string& selector, const Options& options = {}) const {
    return detail::fill<CheckpointInfo>(ckpt_store_find, get(), detail::Text{"selector", selector}, options);
  }
  Result<void> remove(const std::string& id) const {
    return detail::call(ckpt_store_remove, get(), detail::Text{"id", id});
  }
  // Nothing removes that checkpoint any more, until a call with false.
  Result<void> keep(const std::string& id, bool keep = true) const {
    return detail::call(ckpt_store_keep, get(), detail::Text{"id", id}, int32_t{keep});
  }
  // That checkpoint of the run has the name from now on, and no other one ("name:N" selects it); with "" none has it.
  Result<void> name(const std::string& run, const std::string& name, const std::string& id) const {
    return detail::call(ckpt_store_name, get(), detail::Text{"run", run}, detail::Text{"name", name},
                        detail::Text{"id", id});
  }
  Result<Report> prune(const Options& options) const { return detail::make<Report>(ckpt_store_prune, get(), options); }
  Result<Report> repair(const std::string& id, const Options& options = {}) const {
    return detail::make<Report>(ckpt_store_repair, get(), detail::Text{"id", id}, options);
  }
#ifdef CKPT_FILE_H
  Result<CheckpointInfo> import(const std::string& path, const std::string& label, int64_t step = -1,
                                const Options& options = {}) const {
    return detail::fill<CheckpointInfo>(ckpt_import, get(), detail::Text{"path", path}, detail::Text{"label", label},
                                        step, options);
  }
#endif
};

// ---- session ----

// Owns the saves in its background. The destructor waits for them, and prints a failure that nobody was told of;
// close() returns it. In unwinding (an exception) it cancels them at once, so that other ranks do not wait.
class Session : public detail::Handle<ckpt_session, ckpt_session_free> {
 public:
  using Handle::Handle;
  Session(Session&&) noexcept = default;
  Session& operator=(Session&& from) noexcept {
    if (this == &from) return *this;
    if (saves_) saves_->end_and_print();
    Handle::operator=(std::move(from));
    saves_ = std::move(from.saves_);
    return *this;
  }
  ~Session() {
    if (saves_) saves_->end_and_print();
  }
  // `session_string`: on the other ranks, rank 0's string(); otherwise empty.
  static Result<Session> open(const Store& store, uint32_t rank = 0, uint32_t world_size = 1,
                              const std::string& session_string = {}, const Options& options = {}) {
    auto open_with = [&](const auto& string) {
      return detail::make_first<Session>(ckpt_session_open, store.get(), rank, world_size, string, options);
    };
    return session_string.empty() ? open_with(nullptr) : open_with(detail::Text{"session string", session_string});
  }
  std::string string() const { return ckpt_session_string(get()); }
  // Rank 0 of a store with option mirror: a job that is DONE once the mirror has all that was committed before this
  // call. Destroying it stops the waiting, not the copying; destroying the session waits for what is to be copied.
  Result<Job> mirror() const { return detail::make<Job>(ckpt_session_mirror, get()); }
  // Waits for the saves in the background; fails as the first that failed, if nobody was told. Then the session is
  // empty.
  Result<void> close() {
    detail::Call call;
    if (saves_) call.refuse(saves_->end());
    const Session closed(std::move(*this));
    return call.done();
  }

 private:
  friend class Save;
  std::shared_ptr<detail::Saves> saves_ = std::make_shared<detail::Saves>();
};

// ---- save ----

class Save : public detail::Handle<ckpt_save, ckpt_save_free> {
 public:
  using Handle::Handle;
  // Fails, and tells the other ranks, if an earlier save of the session failed in the background and nobody was told.
  static Result<Save> create(const Session& session, const std::string& label, int64_t step = -1,
                             const Options& options = {}) {
    detail::Call call;
    Save save = made_by(call, session, [&](ckpt_save** made) {
      call(ckpt_save_new, made, session.get(), detail::Text{"label", label}, step, options);
    });
    save.label_ = label;
    return call.result(std::move(save));
  }
  Result<void> add_tensor(const std::string& name, const Tensor& tensor, Memory memory, Device device = {}) {
    return detail::add_tensor(ckpt_save_add_tensor, get(), name, tensor, memory, device);
  }
  // A whole tensor; its dtype is that of the elements.
  template <class C, class T = detail::NumberOf<C>>
  Result<void> add_tensor(const std::string& name, const Extents& shape, const C& container) {
    return add_tensor(name, Tensor::of<T>(shape), Memory(container));
  }
  // run() would read a temporary after its end.
  template <class C, class = std::enable_if_t<detail::Temporary<C>::value>>
  Result<void> add_tensor(const std::string& name, const Tensor& tensor, C&& temporary, Device device = {}) = delete;
  template <class C, class = std::enable_if_t<detail::Temporary<C>::value>>
  Result<void> add_tensor(const std::string& name, const Extents& shape, C&& temporary) = delete;
  // This rank's rows of a sparse table.
  Result<void> add_table(const std::string& name, const Rows& rows) { return detail::add_table(get(), name, rows); }
  Result<void> add_object(const std::string& name, const std::string& media_type, int32_t scope, Memory memory) {
    return detail::call(ckpt_save_add_object, get(), detail::Text{"name", name}, detail::Text{"media type", media_type},
                        scope, memory.data, memory.bytes);
  }
  Result<void> add_alias(const std::string& name, const std::string& target) {
    return add_alias_of(name, target, nullptr);
  }
  Result<void> add_alias(const std::string& name, const std::string& target, const Tensor& view) {
    return add_alias_of(name, target, &view.desc());
  }
  Result<void> add_tree(const Tree& tree, const std::string& name = CKPT_TREE_OBJECT) {
    return add_tree(tree.view(), name);
  }
  Result<void> add_tree(const TreeView& tree, const std::string& name = CKPT_TREE_OBJECT) {
    return detail::call(ckpt_save_add_tree, get(), detail::Text{"name", name}, tree.get());
  }
  Result<void> set_attr(const std::string& key, const std::string& value) {
    return detail::call(ckpt_save_set_attr, get(), nullptr, detail::Text{"key", key}, detail::Text{"value", value});
  }
  Result<void> set_tensor_attr(const std::string& tensor, const std::string& key, const std::string& value) {
    return detail::call(ckpt_save_set_attr, get(), detail::Text{"tensor", tensor}, detail::Text{"key", key},
                        detail::Text{"value", value});
  }
  std::string id() const { return ckpt_save_id(get()); }
  Result<void> run() { return detail::call(ckpt_save_run, get()); }
  // Instead of run() or start(), where this rank cannot save: the other ranks end at once and learn why.
  Result<void> give_up(const std::string& reason) {
    return detail::call(ckpt_save_give_up, get(), detail::Text{"reason", reason});
  }
  // Returns when it is staged: the memory may change again. The rest is done in the background and belongs to the
  // session, so the Job may be dropped. A failure, also before it was staged, is that of the Job's wait; if nobody
  // waits, that of the session's next save or of its close().
  Result<Job> start() { return start_with(ckpt_save_start, CKPT_JOB_STAGED); }
  // Returns at once and makes no copy, like run(): staged when all data has been written, and the memory must not
  // change before. Dropping the Job waits for that.
  [[nodiscard]] Result<Job> start_in_place() { return start_with(ckpt_save_start_in_place, CKPT_JOB_RUNNING); }
  // Once it has ended, on rank 0: what retention did.
  Result<Report> report() const { return detail::make<Report>(ckpt_save_report, get()); }

 private:
  friend class Keeper;
  // make(&save) makes one of the session, or none, by `call`.
  template <class Make>
  static Save made_by(detail::Call& call, const Session& session, Make make) {
    ckpt_save* made = nullptr;
    make(&made);
    Save save(made);
    if (!made) return save;
    save.saves_ = session.saves_;
    save.label_ = save.id();
    if (auto earlier = session.saves_->failure()) {
      detail::Call()(ckpt_save_give_up, made, earlier->what());
      call.refuse(std::move(earlier));
    }
    return save;
  }
  Result<Job> start_with(ckpt_status (*begin)(ckpt_save*, ckpt_job**, ckpt_error**), int32_t until) {
    ckpt_job* made = nullptr;
    detail::Call call;
    call(begin, get(), &made);
    Job job(made ? std::make_shared<detail::JobState>(made, label_) : nullptr);
    if (call.ok()) {
      saves_->add(job.state_);
      job.state_->wait(until);
    }
    return call.result(std::move(job));
  }
  Result<void> add_alias_of(const std::string& name, const std::string& target, const ckpt_tensor_desc* view) {
    return detail::call(ckpt_save_add_alias, get(), detail::Text{"name", name}, detail::Text{"target", target}, view);
  }
  std::string label_ = "?";  // or the id; of a handle that was made in C
  std::shared_ptr<detail::Saves> saves_ = std::make_shared<detail::Saves>();
};

// ---- reader ----

class Reader : public detail::Handle<ckpt_reader, ckpt_reader_free> {
 public:
  using Handle::Handle;
  using Tensors = Range<TensorInfo, ckpt_reader>;
  using Tables = Range<TableInfo, ckpt_reader>;
  using Objects = Range<ObjectInfo, ckpt_reader>;
  static Result<Reader> open(const Store& store, const std::string& selector = "latest", const Options& options = {}) {
    return detail::make_first<Reader>(ckpt_reader_open, store.get(), detail::Text{"selector", selector}, options);
  }
  Result<CheckpointInfo> info() const { return detail::fill<CheckpointInfo>(ckpt_reader_info, get()); }
  // The newer checkpoints of the run that could not be loaded and were passed over, newest first.
  Result<Report> report() const { return detail::make<Report>(ckpt_reader_report, get()); }

  // ---- what it holds: the reader owns the names and texts in the records ----

  // Tensors and aliases, in the order of their names.
  Tensors tensors() const& { return {get(), tensor_count(), ckpt_reader_tensor_at}; }
  Tensors tensors() && = delete;  // they would outlive the reader
  uint64_t tensor_count() const { return ckpt_reader_tensor_count(get()); }
  Result<TensorInfo> tensor(uint64_t index) const {
    return detail::fill<TensorInfo>(ckpt_reader_tensor_at, get(), index);
  }
  Result<TensorInfo> tensor(const std::string& name) const {
    return detail::fill<TensorInfo>(ckpt_reader_tensor_find, get(), detail::Text{"name", name});
  }
  bool has_tensor(const std::string& name) const {
    auto info = detail::sized<TensorInfo>();
    return detail::Call()(ckpt_reader_tensor_find, get(), detail::Text{"name", name}, &info).ok();
  }
  // How alias `name` views its target, as Save::add_alias takes it.
  Result<Tensor> alias(const std::string& name) const {
    auto view = detail::sized<ckpt_tensor_desc>();
    detail::Call call;
    call(ckpt_reader_alias_find, get(), detail::Text{"name", name}, &view);
    return call.result(Tensor(view));
  }
  Result<SegmentInfo> segment(const std::string& tensor, uint32_t index) const {
    return detail::fill<SegmentInfo>(ckpt_reader_segment_at, get(), detail::Text{"tensor", tensor}, index);
  }
  // Sparse tables, and their columns.
  Tables tables() const& { return {get(), ckpt_reader_table_count(get()), ckpt_reader_table_at}; }
  Tables tables() && = delete;
  Result<TableInfo> table(const std::string& name) const {
    return detail::fill<TableInfo>(ckpt_reader_table_find, get(), detail::Text{"name", name});
  }
  Result<std::vector<ColumnInfo>> columns(const std::string& table) const {
    auto info = detail::sized<TableInfo>();
    detail::Call call;
    call(ckpt_reader_table_find, get(), detail::Text{"name", table}, &info);
    std::vector<ColumnInfo> all(info.column_count, detail::sized<ColumnInfo>());
    for (uint32_t i = 0; i < info.column_count; i++)
      call(ckpt_reader_table_column_at, get(), table.c_str(), i, &all[i]);
    return call.result(std::move(all));
  }
  // Some rows of a table, to load by Load::add_table.
  Result<Share> share(const std::string& table, const Rowset& rows, const Options& options = {}) const {
    return detail::make_first<Share>(ckpt_share_open, get(), detail::Text{"table", table}, &rows.desc(),
                                     rows.id_list().data(), uint64_t{rows.id_list().size()}, options);
  }
  Objects objects() const& { return {get(), object_count(), ckpt_reader_object_at}; }
  Objects objects() && = delete;
  uint64_t object_count() const { return ckpt_reader_object_count(get()); }
  Result<ObjectInfo> object(uint64_t index) const {
    return detail::fill<ObjectInfo>(ckpt_reader_object_at, get(), index);
  }
  Result<ObjectInfo> object(const std::string& name, uint32_t rank = 0) const {
    return detail::fill<ObjectInfo>(ckpt_reader_object_find, get(), detail::Text{"name", name}, rank);
  }
  bool has_object(const std::string& name, uint32_t rank = 0) const {
    auto info = detail::sized<ObjectInfo>();
    return detail::Call()(ckpt_reader_object_find, get(), detail::Text{"name", name}, rank, &info).ok();
  }
  Result<PartInfo> part(uint32_t index) const { return detail::fill<PartInfo>(ckpt_reader_part_at, get(), index); }
  // The attributes of the checkpoint, or of a tensor.
  Result<Attributes> attrs() const { return attrs_of(nullptr); }
  Result<Attributes> tensor_attrs(const std::string& tensor) const { return attrs_of(&tensor); }
  // Nothing if there is no such attribute.
  std::optional<std::string> attr(const std::string& key) const { return attr_of(nullptr, key); }
  std::optional<std::string> tensor_attr(const std::string& tensor, const std::string& key) const {
    return detail::holds_nul(tensor) ? std::nullopt : attr_of(tensor.c_str(), key);
  }
  // The main tree, or the one called `name`.
  Result<Tree> tree() const { return detail::make<Tree>(ckpt_reader_tree, get(), nullptr); }
  Result<Tree> tree(const std::string& name) const {
    return detail::make<Tree>(ckpt_reader_tree, get(), detail::Text{"name", name});
  }
  // The same, but of what is each rank's own (Tree::begin_per_rank) only what `rank` saved: Node::own() reads it.
  Result<Tree> tree_of_rank(uint32_t rank) const {
    return detail::make<Tree>(ckpt_reader_tree_of_rank, get(), nullptr, rank);
  }
  Result<Tree> tree_of_rank(uint32_t rank, const std::string& name) const {
    return detail::make<Tree>(ckpt_reader_tree_of_rank, get(), detail::Text{"name", name}, rank);
  }

  // ---- its data, one tensor or object at a time; for many tensors at once, and for regions, use Load ----

  // All elements of a tensor. MISMATCH if T does not fit its dtype, by the rules of add_tensor.
  template <class T>
  Result<std::vector<T>> read(const std::string& name, const Options& options = {}) const;
  Result<std::string> read_object(const std::string& name, uint32_t rank = 0, const Options& options = {}) const;
  // A view without a copy; it lives as long as the reader.
  Result<Memory> map(const std::string& tensor, const Options& options = {}) const {
    Memory view;
    detail::Call call;
    call(ckpt_reader_map, get(), detail::Text{"tensor", tensor}, options, &view.data, &view.bytes);
    return call.result(std::move(view));
  }
  [[nodiscard]] Result<Job> verify(const Options& options = {}) const {
    return detail::make<Job>(ckpt_reader_verify, get(), options);
  }
  Result<Report> diff(const Reader& other, const Options& options = {}) const {
    return detail::make<Report>(ckpt_reader_diff, get(), other.get(), options);
  }
  Result<Report> copy(const Store& to, const Options& options = {}) const {
    return detail::make<Report>(ckpt_reader_copy, get(), to.get(), options);
  }
#ifdef CKPT_FILE_H
  Result<void> export_to(const std::string& path, const Options& options = {}) const {
    return detail::call(ckpt_export, get(), detail::Text{"path", path}, options);
  }
#endif

 private:
  Result<Attributes> attrs_of(const std::string* tensor) const {
    Attributes all;
    detail::Call call;
    auto info = detail::sized<CheckpointInfo>();
    call(ckpt_reader_info, get(), &info);  // fails on an empty reader, where the count is just 0
    if (tensor) call.refuse_nul({"tensor", *tensor});
    const char* of = tensor ? tensor->c_str() : nullptr;
    const uint64_t count = call.ok() ? ckpt_reader_attr_count(get(), of) : 0;
    for (uint64_t i = 0; i < count; i++) {
      const char *key = nullptr, *value = nullptr;
      call(ckpt_reader_attr_at, get(), of, i, &key, &value);
      if (call.ok()) all.emplace(key, value);
    }
    return call.result(std::move(all));
  }
  std::optional<std::string> attr_of(const char* tensor, const std::string& key) const {
    const char* value = detail::holds_nul(key) ? nullptr : ckpt_reader_attr(get(), tensor, key.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
};

// ---- load ----

class Load : public detail::Handle<ckpt_load, ckpt_load_free> {
 public:
  using Handle::Handle;
  static Result<Load> create(const Reader& reader, const Options& options = {}) {
    return detail::make_first<Load>(ckpt_load_new, reader.get(), options);
  }
  Result<void> add_tensor(const std::string& name, const Tensor& tensor, MutableMemory memory, Device device = {}) {
    return detail::add_tensor(ckpt_load_add_tensor, get(), name, tensor, memory, device);
  }
  // A whole tensor; its dtype is that of the elements.
  template <class C, class T = detail::NumberOf<C>>
  Result<void> add_tensor(const std::string& name, const Extents& shape, C& container) {
    return add_tensor(name, Tensor::of<T>(shape), MutableMemory(container));
  }
  // The rows of a window of a share: their ids, and some columns. `ids` may be empty where the share lists them.
  // `device`, `stream`: of the columns' memory, as in Rows.
  Result<void> add_table(const Share& share, uint64_t window, MutableMemory ids,
                         const std::vector<ColumnMemory>& columns, Device device = {}, int64_t stream = 0) {
    return detail::add_table(get(), share, window, ids, columns, device, stream);
  }
  Result<void> add_object(const std::string& name, uint32_t rank, MutableMemory memory) {
    return detail::call(ckpt_load_add_object, get(), detail::Text{"name", name}, rank, memory.data, memory.bytes);
  }
  Result<void> run() { return detail::call(ckpt_load_run, get()); }
  [[nodiscard]] Result<Job> start() { return detail::make<Job>(ckpt_load_start, get()); }
  Result<Report> report() const { return detail::make<Report>(ckpt_load_report, get()); }
};

template <class T>
Result<std::vector<T>> Reader::read(const std::string& name, const Options& options) const {
  static_assert(!std::is_same_v<T, bool>, "vector<bool> has no memory of its own: read<uint8_t>");
  constexpr detail::Element kElement = detail::element_of<T>();
  auto info = detail::sized<TensorInfo>();
  detail::Call call;
  call(ckpt_reader_tensor_find, get(), detail::Text{"name", name}, &info);
  if (call.ok() && !detail::fits(kElement, info.dtype)) {
    const std::string found = ckpt_dtype_name(info.dtype), expected = detail::element_name(kElement);
    call.refuse(CKPT_MISMATCH, "tensor " + detail::as_literal(name) + " is " + found + ", not " + expected,
                {{"tensor", name}, {"expected", expected}, {"found", found}});
  }
  std::vector<T> all(call.ok() ? info.bytes / sizeof(T) : 0);
  ckpt_load* made = nullptr;
  call(ckpt_load_new, &made, get(), options);
  const Load load(made);
  call(ckpt_load_add_tensor, made, name.c_str(), &Tensor(info).desc(), all.data(), info.bytes, CKPT_DEVICE_CPU, 0);
  return call(ckpt_load_run, made).result(std::move(all));
}
inline Result<std::string> Reader::read_object(const std::string& name, uint32_t rank, const Options& options) const {
  auto info = detail::sized<ObjectInfo>();
  detail::Call call;
  call(ckpt_reader_object_find, get(), detail::Text{"name", name}, rank, &info);
  std::string all(info.size, '\0');
  ckpt_load* made = nullptr;
  call(ckpt_load_new, &made, get(), options);
  const Load load(made);
  call(ckpt_load_add_object, made, name.c_str(), rank, all.data(), info.size);
  return call(ckpt_load_run, made).result(std::move(all));
}

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE

#include "ckpt/keeper.hpp"

#endif  // CKPT_HPP
