// ckpt.hpp - ckpt for C++17 and later: handles that free themselves, views for memory, errors thrown or returned.
//
//   auto store = ckpt::Store::open("/data/run7");
//   auto session = ckpt::Session::open(store);                                    // rank 0 of 1
//   auto save = ckpt::Save::create(session, "step-100", 100);
//   save.add_tensor("w", ckpt::Tensor::of<float>({128, 64}), w);                  // any contiguous container
//   save.run();                                                                   // durable, complete, committed
//
//   auto reader = ckpt::Reader::open(store, "latest");
//   auto load = ckpt::Load::create(reader);
//   load.add_tensor("w", ckpt::Tensor::of<float>({128, 64}), w);
//   load.run();                                                                   // all there, all checked
//
// Errors: by default a failed call throws ckpt::Error. With CKPT_HPP_EXPECTED defined before the include nothing is
// thrown (it builds with -fno-exceptions) and every fallible call returns ckpt::Expected<T>; a program may use both, in
// different files. What a call does, its options, statuses and thread class: ckpt.h, at the function of the same name.
// Memory given to Save and Load is the engine's from run() or start() until the job is staged (save) or ended (load);
// it must live until then, so a temporary container will not do.
//
// Handles move and do not copy. They may be destroyed in any order: each keeps alive what it was made from.
#ifndef CKPT_HPP
#define CKPT_HPP

#include "ckpt_base.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

using CheckpointInfo = ckpt_checkpoint_info;
using TensorInfo = ckpt_tensor_info;
using SegmentInfo = ckpt_segment_info;
using ObjectInfo = ckpt_object_info;
using PartInfo = ckpt_part_info;
using JobStats = ckpt_job_stats;
using Finding = ckpt_finding;
using Node = ckpt_node;
using OptionInfo = ckpt_option_info;

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
// Every option that a bag takes. Texts in it are static.
inline Result<std::vector<OptionInfo>> option_list() {
  std::vector<OptionInfo> all(static_cast<size_t>(ckpt_option_count()), detail::sized<OptionInfo>());
  return detail::call(
      [&](ckpt_error** err) {
        ckpt_status status = CKPT_OK;
        for (size_t i = 0; status == CKPT_OK && i < all.size(); i++)
          status = ckpt_option_at(static_cast<int32_t>(i), &all[i], err);
        return status;
      },
      [&] { return std::move(all); });
}

// ---- report ----

class Report : public detail::Handle<ckpt_report, ckpt_report_free> {
 public:
  using Handle::Handle;
  size_t size() const { return ckpt_report_count(get()); }
  bool empty() const { return size() == 0; }
  // Texts in it are borrowed from the report.
  Result<Finding> at(size_t index) const {
    auto out = detail::sized<Finding>();
    return detail::call([&](ckpt_error** err) { return ckpt_report_at(get(), index, &out, err); }, [&] { return out; });
  }
};

// ---- job ----

// Work in the background. Its destructor cancels what still runs and waits until the memory is the caller's again; so a
// Job that is dropped is a save that is lost, and assigning to a Job destroys, and so cancels, the one before.
class [[nodiscard]] Job : public detail::Handle<ckpt_job, ckpt_job_free> {
 public:
  using Handle::Handle;
  int32_t state() const { return ckpt_job_state(get()); }
  Result<void> wait(int32_t state, int64_t timeout_ms = -1) const {
    return detail::call([&](ckpt_error** err) { return ckpt_job_wait(get(), state, timeout_ms, err); });
  }
  Result<void> wait_staged(int64_t timeout_ms = -1) const { return wait(CKPT_JOB_STAGED, timeout_ms); }
  Result<void> wait_committed(int64_t timeout_ms = -1) const { return wait(CKPT_JOB_COMMITTED, timeout_ms); }
  Result<void> wait_done(int64_t timeout_ms = -1) const { return wait(CKPT_JOB_DONE, timeout_ms); }
  void cancel() const { ckpt_job_cancel(get()); }
  Result<JobStats> stats() const {
    auto out = detail::sized<JobStats>();
    return detail::call([&](ckpt_error** err) { return ckpt_job_stats_get(get(), &out, err); }, [&] { return out; });
  }
  Result<Report> report() const {
    ckpt_report* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_job_report(get(), &out, err); },
                        [&] { return Report(out); });
  }
};

// ---- tree ----

namespace detail {
// What is asked of a tree, whoever owns it.
template <class Self>
class TreeReading {
 public:
  uint64_t size() const { return ckpt_tree_node_count(self()); }
  // Texts in it are borrowed from the tree.
  Result<Node> at(uint64_t node) const {
    auto out = detail::sized<Node>();
    return detail::call([&](ckpt_error** err) { return ckpt_tree_at(self(), node, &out, err); }, [&] { return out; });
  }
  Result<uint64_t> find(uint64_t parent, const std::string& key) const {
    if (holds_nul(key)) return find_among_children(parent, key);
    uint64_t out = 0;
    return detail::call([&](ckpt_error** err) { return ckpt_tree_find(self(), parent, key.c_str(), &out, err); },
                        [&] { return out; });
  }
  Result<uint64_t> find(uint64_t parent, int64_t key) const {
    uint64_t out = 0;
    return detail::call([&](ckpt_error** err) { return ckpt_tree_find_int(self(), parent, key, &out, err); },
                        [&] { return out; });
  }
  // Borrowed from the tree.
  Result<std::string_view> json() const {
    const char* text = nullptr;
    uint64_t size = 0;
    return detail::call([&](ckpt_error** err) { return ckpt_tree_json(self(), &text, &size, err); },
                        [&] { return std::string_view(text, size); });
  }

 private:
  // ckpt_tree_find takes no size, so it cannot be asked for a key that holds a NUL.
  Result<uint64_t> find_among_children(uint64_t parent, std::string_view key) const {
    auto node = detail::sized<Node>();
    ckpt_error* err = nullptr;
    ckpt_status status = ckpt_tree_at(self(), parent, &node, &err);
    for (uint64_t child = node.first_child; status == CKPT_OK && child != CKPT_NODE_END; child = node.next_sibling) {
      status = ckpt_tree_at(self(), child, &node, &err);
      if (status == CKPT_OK && node.key_kind == CKPT_KEY_TEXT && std::string_view(node.key, node.key_size) == key)
        return child;
    }
    if (status != CKPT_OK) return failed<uint64_t>(Error(status, err));
    return failed<uint64_t>(Error(CKPT_NOT_FOUND, "node " + std::to_string(parent) + " has no key " + as_literal(key),
                                  {{"found", "none"}}));
  }
  const ckpt_tree* self() const { return static_cast<const Self*>(this)->get(); }
};
}  // namespace detail

// A tree that something else owns and that lives as long.
class TreeView : public detail::TreeReading<TreeView> {
 public:
  explicit TreeView(const ckpt_tree* borrowed) : borrowed_(borrowed) {}
  const ckpt_tree* get() const noexcept { return borrowed_; }

 private:
  const ckpt_tree* borrowed_;
};

class Tree : public detail::Handle<ckpt_tree, ckpt_tree_free>, public detail::TreeReading<Tree> {
 public:
  using Handle::Handle;
  TreeView view() const { return TreeView(get()); }
  static Result<Tree> create() {
    ckpt_tree* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_tree_new(&out, err); }, [&] { return Tree(out); });
  }
  static Result<Tree> parse(std::string_view json) {
    ckpt_tree* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_tree_parse(&out, json.data(), json.size(), err); },
                        [&] { return Tree(out); });
  }

  // In document order; a value inside a dict or record comes after its key.
  Result<void> key(std::string_view key) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_key(get(), key.data(), key.size(), err); });
  }
  Result<void> key(int64_t key) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_key_int(get(), key, err); });
  }
  Result<void> add_null() {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_add_null(get(), err); });
  }
  Result<void> add_bool(bool value) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_add_bool(get(), value, err); });
  }
  Result<void> add_int(int64_t value) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_add_int(get(), value, err); });
  }
  Result<void> add_bigint(const std::string& digits) {
    return detail::call(detail::texts({{"digits", digits}}),
                        [&](ckpt_error** err) { return ckpt_tree_add_bigint(get(), digits.c_str(), err); });
  }
  Result<void> add_float(double value) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_add_float(get(), value, err); });
  }
  Result<void> add_text(std::string_view text) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_add_text(get(), text.data(), text.size(), err); });
  }
  Result<void> add_bytes(Memory bytes) {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_add_bytes(get(), bytes.data, bytes.bytes, err); });
  }
  // Returns the name under which the tensor is to be saved: its path in the tree, or `name`.
  Result<std::string> add_tensor() { return add_tensor_as(nullptr); }
  Result<std::string> add_tensor(const std::string& name) {
    return add_tensor_as(name.c_str(), detail::texts({{"name", name}}));
  }
  Result<void> begin_dict() { return begin(CKPT_NODE_DICT); }
  Result<void> begin_list() { return begin(CKPT_NODE_LIST); }
  Result<void> begin_tuple() { return begin(CKPT_NODE_TUPLE); }
  Result<void> begin_set() { return begin(CKPT_NODE_SET); }
  Result<void> begin_record(const std::string& class_name) {
    return begin(CKPT_NODE_RECORD, class_name.c_str(), detail::texts({{"class name", class_name}}));
  }
  Result<void> end() {
    return detail::call([&](ckpt_error** err) { return ckpt_tree_end(get(), err); });
  }

 private:
  Result<std::string> add_tensor_as(const char* name, detail::Refusal refusal = {}) {
    const char* path = nullptr;
    return detail::call(
        std::move(refusal), [&](ckpt_error** err) { return ckpt_tree_add_tensor(get(), name, &path, err); },
        [&] { return std::string(path); });
  }
  Result<void> begin(int32_t kind, const char* class_name = nullptr, detail::Refusal refusal = {}) {
    return detail::call(std::move(refusal),
                        [&](ckpt_error** err) { return ckpt_tree_begin(get(), kind, class_name, err); });
  }
};

// ---- store ----

class Store : public detail::Handle<ckpt_store, ckpt_store_free> {
 public:
  using Handle::Handle;
  static Result<Store> open(const std::string& uri, const Options& options = {}) {
    ckpt_store* out = nullptr;
    return detail::call_with(
        detail::texts({{"uri", uri}}), options,
        [&](auto bag, ckpt_error** err) { return ckpt_store_open(&out, uri.c_str(), bag, err); },
        [&] { return Store(out); });
  }
  // A snapshot, oldest first.
  Result<std::vector<CheckpointInfo>> list() const {
    ckpt_list* made = nullptr;
    std::unique_ptr<ckpt_list, detail::Free<ckpt_list, ckpt_list_free>> list;
    std::vector<CheckpointInfo> all;
    return detail::call(
        [&](ckpt_error** err) {
          ckpt_status status = ckpt_store_list(get(), &made, err);
          list.reset(made);
          const size_t count = status == CKPT_OK ? ckpt_list_count(made) : 0;
          for (size_t i = 0; status == CKPT_OK && i < count; i++) {
            all.push_back(detail::sized<CheckpointInfo>());
            status = ckpt_list_at(made, i, &all.back(), err);
          }
          return status;
        },
        [&] { return std::move(all); });
  }
  Result<CheckpointInfo> find(const std::string& selector, const Options& options = {}) const {
    auto out = detail::sized<CheckpointInfo>();
    return detail::call_with(
        detail::texts({{"selector", selector}}), options,
        [&](auto bag, ckpt_error** err) { return ckpt_store_find(get(), selector.c_str(), bag, &out, err); },
        [&] { return out; });
  }
  Result<void> remove(const std::string& id) const {
    return detail::call(detail::texts({{"id", id}}),
                        [&](ckpt_error** err) { return ckpt_store_remove(get(), id.c_str(), err); });
  }
  Result<Report> prune(const Options& options) const {
    ckpt_report* out = nullptr;
    return detail::call_with(
        nullptr, options, [&](auto bag, ckpt_error** err) { return ckpt_store_prune(get(), bag, &out, err); },
        [&] { return Report(out); });
  }
  Result<Report> repair(const std::string& id, const Options& options = {}) const {
    ckpt_report* out = nullptr;
    return detail::call_with(
        detail::texts({{"id", id}}), options,
        [&](auto bag, ckpt_error** err) { return ckpt_store_repair(get(), id.c_str(), bag, &out, err); },
        [&] { return Report(out); });
  }
#ifdef CKPT_FILE_H
  Result<CheckpointInfo> import(const std::string& path, const std::string& label, int64_t step = -1,
                                const Options& options = {}) const {
    auto out = detail::sized<CheckpointInfo>();
    return detail::call_with(
        detail::texts({{"path", path}, {"label", label}}), options,
        [&](auto bag, ckpt_error** err) {
          return ckpt_import(get(), path.c_str(), label.c_str(), step, bag, &out, err);
        },
        [&] { return out; });
  }
#endif
};

// ---- session ----

class Session : public detail::Handle<ckpt_session, ckpt_session_free> {
 public:
  using Handle::Handle;
  // `session_string`: rank 0's string() on the other ranks; empty for none.
  static Result<Session> open(const Store& store, uint32_t rank = 0, uint32_t world_size = 1,
                              const std::string& session_string = {}, const Options& options = {}) {
    ckpt_session* out = nullptr;
    const char* text = session_string.empty() ? nullptr : session_string.c_str();
    return detail::call_with(
        detail::texts({{"session string", session_string}}), options,
        [&](auto bag, ckpt_error** err) {
          return ckpt_session_open(&out, store.get(), rank, world_size, text, bag, err);
        },
        [&] { return Session(out); });
  }
  std::string string() const { return ckpt_session_string(get()); }
};

// ---- save ----

class Save : public detail::Handle<ckpt_save, ckpt_save_free> {
 public:
  using Handle::Handle;
  static Result<Save> create(const Session& session, const std::string& label, int64_t step = -1,
                             const Options& options = {}) {
    ckpt_save* out = nullptr;
    return detail::call_with(
        detail::texts({{"label", label}}), options,
        [&](auto bag, ckpt_error** err) { return ckpt_save_new(&out, session.get(), label.c_str(), step, bag, err); },
        [&] { return Save(out); });
  }
  Result<void> add_tensor(const std::string& name, const Tensor& tensor, Memory memory, Device device = {}) {
    return detail::call(detail::elements(name, tensor, memory.element), [&](ckpt_error** err) {
      return ckpt_save_add_tensor(get(), name.c_str(), &tensor.desc(), memory.data, memory.bytes, device.type,
                                  device.id, err);
    });
  }
  // A temporary would be gone when run() reads it.
  template <class C, class = std::enable_if_t<detail::Temporary<C>::value>>
  Result<void> add_tensor(const std::string& name, const Tensor& tensor, C&& temporary, Device device = {}) = delete;
  Result<void> add_object(const std::string& name, const std::string& media_type, int32_t scope, Memory memory) {
    return detail::call(detail::texts({{"name", name}, {"media type", media_type}}), [&](ckpt_error** err) {
      return ckpt_save_add_object(get(), name.c_str(), media_type.c_str(), scope, memory.data, memory.bytes, err);
    });
  }
  Result<void> add_alias(const std::string& name, const std::string& target) {
    return detail::call(detail::texts({{"name", name}, {"target", target}}), [&](ckpt_error** err) {
      return ckpt_save_add_alias(get(), name.c_str(), target.c_str(), nullptr, err);
    });
  }
  Result<void> add_alias(const std::string& name, const std::string& target, const Tensor& view) {
    return detail::call(detail::texts({{"name", name}, {"target", target}}), [&](ckpt_error** err) {
      return ckpt_save_add_alias(get(), name.c_str(), target.c_str(), &view.desc(), err);
    });
  }
  Result<void> add_tree(const Tree& tree, const std::string& name = CKPT_TREE_OBJECT) {
    return add_tree(tree.view(), name);
  }
  Result<void> add_tree(const TreeView& tree, const std::string& name = CKPT_TREE_OBJECT) {
    return detail::call(detail::texts({{"name", name}}),
                        [&](ckpt_error** err) { return ckpt_save_add_tree(get(), name.c_str(), tree.get(), err); });
  }
  Result<void> set_attr(const std::string& key, const std::string& value) {
    return detail::call(detail::texts({{"key", key}, {"value", value}}), [&](ckpt_error** err) {
      return ckpt_save_set_attr(get(), nullptr, key.c_str(), value.c_str(), err);
    });
  }
  Result<void> set_tensor_attr(const std::string& tensor, const std::string& key, const std::string& value) {
    return detail::call(detail::texts({{"tensor", tensor}, {"key", key}, {"value", value}}), [&](ckpt_error** err) {
      return ckpt_save_set_attr(get(), tensor.c_str(), key.c_str(), value.c_str(), err);
    });
  }
  std::string id() const { return ckpt_save_id(get()); }
  Result<void> run() {
    return detail::call([&](ckpt_error** err) { return ckpt_save_run(get(), err); });
  }
  Result<Job> start() {
    ckpt_job* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_save_start(get(), &out, err); }, [&] { return Job(out); });
  }
  // Without a copy, as run(): staged once all of it was written out.
  Result<Job> start_in_place() {
    ckpt_job* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_save_start_in_place(get(), &out, err); },
                        [&] { return Job(out); });
  }
};

// ---- reader ----

class Reader : public detail::Handle<ckpt_reader, ckpt_reader_free> {
 public:
  using Handle::Handle;
  static Result<Reader> open(const Store& store, const std::string& selector = "latest", const Options& options = {}) {
    ckpt_reader* out = nullptr;
    return detail::call_with(
        detail::texts({{"selector", selector}}), options,
        [&](auto bag, ckpt_error** err) { return ckpt_reader_open(&out, store.get(), selector.c_str(), bag, err); },
        [&] { return Reader(out); });
  }
  Result<CheckpointInfo> info() const {
    auto out = detail::sized<CheckpointInfo>();
    return detail::call([&](ckpt_error** err) { return ckpt_reader_info(get(), &out, err); }, [&] { return out; });
  }
  // Names in what follows are borrowed from the reader.
  uint64_t tensor_count() const { return ckpt_reader_tensor_count(get()); }
  Result<TensorInfo> tensor(uint64_t index) const {
    auto out = detail::sized<TensorInfo>();
    return detail::call([&](ckpt_error** err) { return ckpt_reader_tensor_at(get(), index, &out, err); },
                        [&] { return out; });
  }
  Result<TensorInfo> tensor(const std::string& name) const {
    auto out = detail::sized<TensorInfo>();
    return detail::call(
        detail::texts({{"name", name}}),
        [&](ckpt_error** err) { return ckpt_reader_tensor_find(get(), name.c_str(), &out, err); }, [&] { return out; });
  }
  // The view that alias `name` is of its target, as Save::add_alias takes it.
  Result<Tensor> alias(const std::string& name) const {
    auto out = detail::sized<ckpt_tensor_desc>();
    return detail::call(
        detail::texts({{"name", name}}),
        [&](ckpt_error** err) { return ckpt_reader_alias_find(get(), name.c_str(), &out, err); },
        [&] { return Tensor(out); });
  }
  Result<SegmentInfo> segment(const std::string& tensor, uint32_t index) const {
    auto out = detail::sized<SegmentInfo>();
    return detail::call(
        detail::texts({{"tensor", tensor}}),
        [&](ckpt_error** err) { return ckpt_reader_segment_at(get(), tensor.c_str(), index, &out, err); },
        [&] { return out; });
  }
  uint64_t object_count() const { return ckpt_reader_object_count(get()); }
  Result<ObjectInfo> object(uint64_t index) const {
    auto out = detail::sized<ObjectInfo>();
    return detail::call([&](ckpt_error** err) { return ckpt_reader_object_at(get(), index, &out, err); },
                        [&] { return out; });
  }
  Result<ObjectInfo> object(const std::string& name, uint32_t rank = 0) const {
    auto out = detail::sized<ObjectInfo>();
    return detail::call(
        detail::texts({{"name", name}}),
        [&](ckpt_error** err) { return ckpt_reader_object_find(get(), name.c_str(), rank, &out, err); },
        [&] { return out; });
  }
  Result<PartInfo> part(uint32_t index) const {
    auto out = detail::sized<PartInfo>();
    return detail::call([&](ckpt_error** err) { return ckpt_reader_part_at(get(), index, &out, err); },
                        [&] { return out; });
  }
  // Of the checkpoint; of a tensor.
  Result<std::map<std::string, std::string>> attrs() const { return attrs_of(nullptr); }
  Result<std::map<std::string, std::string>> tensor_attrs(const std::string& tensor) const {
    return attrs_of(tensor.c_str(), detail::texts({{"tensor", tensor}}));
  }
  // A text that holds a NUL is the name of no attribute and of no tensor.
  std::optional<std::string> attr(const std::string& key) const { return attr_of(nullptr, key); }
  std::optional<std::string> tensor_attr(const std::string& tensor, const std::string& key) const {
    return detail::holds_nul(tensor) ? std::nullopt : attr_of(tensor.c_str(), key);
  }
  // A view without a copy; it lives as long as the reader.
  Result<Memory> map(const std::string& tensor, const Options& options = {}) const {
    Memory out;
    return detail::call_with(
        detail::texts({{"tensor", tensor}}), options,
        [&](auto bag, ckpt_error** err) {
          return ckpt_reader_map(get(), tensor.c_str(), bag, &out.data, &out.bytes, err);
        },
        [&] { return out; });
  }
  Result<Tree> tree() const { return tree_of(nullptr); }
  Result<Tree> tree(const std::string& name) const { return tree_of(name.c_str(), detail::texts({{"name", name}})); }
  Result<Job> verify(const Options& options = {}) const {
    ckpt_job* out = nullptr;
    return detail::call_with(
        nullptr, options, [&](auto bag, ckpt_error** err) { return ckpt_reader_verify(get(), bag, &out, err); },
        [&] { return Job(out); });
  }
  Result<Report> diff(const Reader& other, const Options& options = {}) const {
    ckpt_report* out = nullptr;
    return detail::call_with(
        nullptr, options,
        [&](auto bag, ckpt_error** err) { return ckpt_reader_diff(get(), other.get(), bag, &out, err); },
        [&] { return Report(out); });
  }
#ifdef CKPT_FILE_H
  Result<void> export_to(const std::string& path, const Options& options = {}) const {
    return detail::call_with(detail::texts({{"path", path}}), options,
                             [&](auto bag, ckpt_error** err) { return ckpt_export(get(), path.c_str(), bag, err); });
  }
#endif

 private:
  Result<std::map<std::string, std::string>> attrs_of(const char* tensor, detail::Refusal refusal = {}) const {
    std::map<std::string, std::string> all;
    auto info = detail::sized<CheckpointInfo>();
    return detail::call(
        std::move(refusal),
        [&](ckpt_error** err) {
          ckpt_status status =
              ckpt_reader_info(get(), &info, err);  // the count alone cannot say that there is no reader
          const uint64_t count = ckpt_reader_attr_count(get(), tensor);
          for (uint64_t i = 0; status == CKPT_OK && i < count; i++) {
            const char *key = nullptr, *value = nullptr;
            status = ckpt_reader_attr_at(get(), tensor, i, &key, &value, err);
            if (status == CKPT_OK) all.emplace(key, value);
          }
          return status;
        },
        [&] { return std::move(all); });
  }
  std::optional<std::string> attr_of(const char* tensor, const std::string& key) const {
    const char* value = detail::holds_nul(key) ? nullptr : ckpt_reader_attr(get(), tensor, key.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  }
  Result<Tree> tree_of(const char* name, detail::Refusal refusal = {}) const {
    ckpt_tree* out = nullptr;
    return detail::call(
        std::move(refusal), [&](ckpt_error** err) { return ckpt_reader_tree(get(), name, &out, err); },
        [&] { return Tree(out); });
  }
};

// ---- load ----

class Load : public detail::Handle<ckpt_load, ckpt_load_free> {
 public:
  using Handle::Handle;
  static Result<Load> create(const Reader& reader, const Options& options = {}) {
    ckpt_load* out = nullptr;
    return detail::call_with(
        nullptr, options, [&](auto bag, ckpt_error** err) { return ckpt_load_new(&out, reader.get(), bag, err); },
        [&] { return Load(out); });
  }
  Result<void> add_tensor(const std::string& name, const Tensor& tensor, MutableMemory memory, Device device = {}) {
    return detail::call(detail::elements(name, tensor, memory.element), [&](ckpt_error** err) {
      return ckpt_load_add_tensor(get(), name.c_str(), &tensor.desc(), memory.data, memory.bytes, device.type,
                                  device.id, err);
    });
  }
  Result<void> add_object(const std::string& name, uint32_t rank, MutableMemory memory) {
    return detail::call(detail::texts({{"name", name}}), [&](ckpt_error** err) {
      return ckpt_load_add_object(get(), name.c_str(), rank, memory.data, memory.bytes, err);
    });
  }
  Result<void> run() {
    return detail::call([&](ckpt_error** err) { return ckpt_load_run(get(), err); });
  }
  Result<Job> start() {
    ckpt_job* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_load_start(get(), &out, err); }, [&] { return Job(out); });
  }
  Result<Report> report() const {
    ckpt_report* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_load_report(get(), &out, err); },
                        [&] { return Report(out); });
  }
};

// ---- other people's files ----

#ifdef CKPT_FILE_H
using FileTensor = ckpt_file_tensor;

class File : public detail::Handle<ckpt_file, ckpt_file_free> {
 public:
  using Handle::Handle;
  static Result<File> open(const std::string& path, const Options& options = {}) {
    ckpt_file* out = nullptr;
    return detail::call_with(
        detail::texts({{"path", path}}), options,
        [&](auto bag, ckpt_error** err) { return ckpt_file_open(&out, path.c_str(), bag, err); },
        [&] { return File(out); });
  }
  std::string format() const { return ckpt_file_format(get()); }
  uint64_t tensor_count() const { return ckpt_file_tensor_count(get()); }
  // What it points at is borrowed from the file.
  Result<FileTensor> tensor(uint64_t index) const {
    auto out = detail::sized<FileTensor>();
    return detail::call([&](ckpt_error** err) { return ckpt_file_tensor_at(get(), index, &out, err); },
                        [&] { return out; });
  }
  // Borrowed from the file.
  Result<TreeView> tree() const {
    const ckpt_tree* out = nullptr;
    return detail::call([&](ckpt_error** err) { return ckpt_file_tree(get(), &out, err); },
                        [&] { return TreeView(out); });
  }
};
#endif

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_HPP
