#include "load_plan.h"

#include <algorithm>
#include <tuple>

#include "group.h"

namespace ckpt_torch {
namespace internal {

LoadPlan::LoadPlan(const ckpt_reader* reader, const ckpt_tree* tree, const LoadOptions& options,
                   const ckpt_options* settings)
    : reader_(reader), tree_(tree), options_(options) {
  for (LoadOp* op : {&beside_, &in_place_})
    *op = internal::make<LoadOp>(
        [&](ckpt_load** out, ckpt_error** err) { return ckpt_load_new(out, reader, settings, err); });
}

// ---- what a node says of its tensor ----

static ckpt_tensor_info info_of(const ckpt_reader* reader, const std::string& name) {
  ckpt_tensor_info info{};
  info.struct_size = sizeof info;
  check([&](ckpt_error** err) { return ckpt_reader_tensor_find(reader, name.c_str(), &info, err); });
  return info;
}

std::vector<int64_t> LoadPlan::size_of(uint64_t node) const {
  uint64_t size = tree_.field(node, "size");
  if (size != CKPT_NODE_END && tree_.text(size) == "torch.Size") size = tree_.field(size, "items");
  std::vector<int64_t> shape;
  bool valid = size != CKPT_NODE_END && TreeView::is_list(tree_[size]);
  if (valid)
    for (uint64_t child : tree_.children(size)) {
      valid &= tree_[child].kind == CKPT_NODE_INT && tree_[child].int_value >= 0;
      shape.push_back(tree_[child].int_value);
    }
  if (!valid)
    fail(CKPT_FORMAT, "tensor " + in_quotes(tree_.path(node)) + ": " + tree_.kind_name(node) + " without a size",
         {{"tensor", tree_.path(node)}});
  return shape;
}

std::vector<int64_t> LoadPlan::shape_of(uint64_t node) const {
  node = tree_.tensor_at(node);
  uint64_t data = tree_[node].kind == CKPT_NODE_TENSOR ? node : tree_.field(node, "data");
  if (data == CKPT_NODE_END || tree_[data].kind != CKPT_NODE_TENSOR) return size_of(node);
  ckpt_tensor_info info = info_of(reader_, tree_.text(data));
  return {info.shape, info.shape + info.ndim};
}

std::optional<at::ScalarType> LoadPlan::type_of(uint64_t node) const {
  node = tree_.tensor_at(node);
  if (tree_[node].kind == CKPT_NODE_TENSOR) return scalar_type_of(info_of(reader_, tree_.text(node)).dtype);
  uint64_t elements = tree_.field(node, is_stored_dense(node) ? "data" : "values");
  if (elements == CKPT_NODE_END || tree_[elements].kind != CKPT_NODE_TENSOR) return std::nullopt;
  return type_of(elements);
}

bool LoadPlan::is_stored_dense(uint64_t node) const {
  return tree_[node].kind == CKPT_NODE_TENSOR || tree_.text(node) == "torch.Tensor";
}

// ---- fresh memory ----

at::Tensor LoadPlan::ask(const std::string& name, const at::Tensor& like) {
  ckpt_tensor_info info = info_of(reader_, name);
  auto type = scalar_type_of(info.dtype);
  if (!type)
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(name) + " is " + ckpt_dtype_name(info.dtype) + ", which this LibTorch does not have",
         {{"tensor", name}});
  at::IntArrayRef shape(info.shape, static_cast<size_t>(info.ndim));
  bool same = like.defined() && is_dense(like) && like.sizes() == shape;
  at::Tensor tensor =
      same ? at::empty_like(like.detach(), at::TensorOptions().dtype(*type).device(at::kCPU)) : at::empty(shape, *type);
  Memory memory = memory_of(tensor, name);
  any_beside_ = true;
  check([&](ckpt_error** err) {
    return ckpt_load_add_tensor(beside_.get(), name.c_str(), &memory.desc, memory.data, memory.bytes, CKPT_DEVICE_CPU,
                                0, err);
  });
  return tensor;
}

std::function<at::Tensor()> LoadPlan::fresh(uint64_t node, const at::Tensor& like) {
  node = tree_.tensor_at(node);
  if (tree_[node].kind == CKPT_NODE_TENSOR) {
    at::Tensor tensor = ask(tree_.text(node), like);
    return [tensor] { return tensor; };
  }
  auto record = std::make_shared<Record>();
  record->class_name = tree_.text(node);
  for (uint64_t child : tree_.children(node)) {
    std::string key = tree_.key(child);
    uint64_t part = tree_.tensor_at(child);
    if (part != CKPT_NODE_END && tree_[part].kind != CKPT_NODE_TENSOR)
      fail(CKPT_FORMAT, "tensor " + in_quotes(tree_.path(child)) + " is not dense, inside " + tree_.kind_name(node));
    if (part != CKPT_NODE_END)
      record->fields.push_back({key, ask(tree_.text(part), {}), {}});
    else
      record->fields.push_back({key, {}, key == "size" ? c10::IValue(size_of(node)) : build(child, {}, {})});
  }
  std::string name = tree_.path(node);
  return [record, name] { return tensor_of(*record, name); };
}

// ---- into modules ----

void LoadPlan::check_fits(const Target& target) const {
  auto mismatch = [&](const std::string& what, const std::string& expected, const std::string& found) {
    fail(CKPT_MISMATCH, in_quotes(target.key) + ": the module has " + what + expected + ", the checkpoint " + found,
         {{"tensor", tree_.path(target.node)}, {"expected", expected}, {"found", found}});
  };
  const at::Tensor& tensor = target.tensor;
  if (tensor.is_meta())
    fail(CKPT_INVALID, in_quotes(target.key) + ": the module has a meta tensor: it has no memory to be loaded into",
         {{"tensor", tree_.path(target.node)}});
  auto shape = shape_of(target.node);
  if (tensor.sizes() != at::IntArrayRef(shape)) mismatch("shape ", shape_text(tensor.sizes()), shape_text(shape));
  std::string layout = is_dense(tensor) ? "a dense tensor" : "a " + record_class(tensor);
  std::string stored = is_stored_dense(target.node) ? "a dense tensor" : tree_.kind_name(target.node);
  if (layout != stored) mismatch("", layout, stored);
  for (int64_t d = 0; d < tensor.dim() && is_dense(tensor); d++)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1)
      fail(CKPT_UNSUPPORTED,
           in_quotes(target.key) +
               " is an expanded tensor: many of its elements are one, which cannot "
               "be loaded into",
           {{"tensor", tree_.path(target.node)}});
  if (tensor.is_quantized()) {
    uint64_t dtype = tree_.field(target.node, "dtype");
    std::string found = dtype == CKPT_NODE_END ? "none" : tree_.text(dtype);
    if (found != quantized_name(tensor.scalar_type())) mismatch("dtype ", quantized_name(tensor.scalar_type()), found);
    return;
  }
  auto type = type_of(target.node);
  if (type == tensor.scalar_type()) return;
  std::string found = type ? type_name(*type) : "a dtype that this LibTorch does not have";
  if (!type || !options_.convert || !c10::canCast(*type, tensor.scalar_type()))
    mismatch("dtype ", type_name(tensor.scalar_type()),
             found + (type && !options_.convert ? " (option convert would convert it)" : ""));
}

void LoadPlan::into(const at::Tensor& tensor, uint64_t node, const std::string& key) {
  targets_.push_back({tensor, tree_.tensor_at(node), key, targets_.size()});
  check_fits(targets_.back());
}

static bool engine_converts(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

bool LoadPlan::readable_in_place(const Target& target) const {
  const at::Tensor& tensor = target.tensor;
  if (options_.stage_first || target.overlaps || tree_[target.node].kind != CKPT_NODE_TENSOR) return false;
  if (!tensor.is_cpu() || tensor.is_conj() || tensor.is_neg() || !tensor.is_non_overlapping_and_dense()) return false;
  auto type = type_of(target.node);
  return type == tensor.scalar_type() || (type && engine_converts(*type) && engine_converts(tensor.scalar_type()));
}

// Where targets share memory the last one wins, as in Python's load_state_dict: the same memory is read once, and what
// overlaps otherwise is copied in order.
void LoadPlan::find_overlaps() {
  struct Range {
    int64_t first, last;  // bytes in the storage
    size_t target;
  };
  std::map<const void*, std::vector<Range>> storages;
  for (size_t i = 0; i < targets_.size(); i++) {
    const at::Tensor& t = targets_[i].tensor;
    if (!is_dense(t) || t.numel() == 0) continue;
    int64_t last = t.storage_offset();
    for (int64_t d = 0; d < t.dim(); d++) last += (t.size(d) - 1) * t.stride(d);
    auto width = static_cast<int64_t>(t.element_size());
    storages[t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()].push_back(
        {t.storage_offset() * width, (last + 1) * width, i});
  }
  for (auto& [storage, ranges] : storages) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return std::tie(a.first, a.target) < std::tie(b.first, b.target); });
    for (size_t i = 0; i < ranges.size(); i++)
      for (size_t j = i + 1; j < ranges.size() && ranges[j].first < ranges[i].last; j++) {
        auto [first, later] = std::minmax(ranges[i].target, ranges[j].target);
        Target &a = targets_[first], &b = targets_[later];
        bool same = a.tensor.sizes() == b.tensor.sizes() && a.tensor.strides() == b.tensor.strides() &&
                    a.tensor.storage_offset() == b.tensor.storage_offset() && a.tensor.dtype() == b.tensor.dtype();
        if (same)
          a.winner = std::max(a.winner, later);
        else
          a.overlaps = b.overlaps = true;
      }
  }
}

void LoadPlan::place(const Target& target) {
  Memory memory = memory_of(target.tensor, target.key);
  memory.desc.flags |= CKPT_TENSOR_CONVERT;  // checked before: where dtypes differ, conversion is wanted
  std::string name = tree_.text(target.node);
  check([&](ckpt_error** err) {
    return ckpt_load_add_tensor(in_place_.get(), name.c_str(), &memory.desc, memory.data, memory.bytes, CKPT_DEVICE_CPU,
                                0, err);
  });
  in_place_tensors_.push_back(target.tensor);
}

void LoadPlan::replace(const Target& target) {
  auto value = fresh(target.node, target.tensor);
  at::Tensor tensor = target.tensor;
  auto loaded = std::make_shared<at::Tensor>();
  make([value, tensor, loaded] {
    *loaded = value();
    if (is_dense(tensor)) return;
    *loaded = loaded->is_quantized() ? loaded->to(tensor.device()) : loaded->to(tensor.device(), tensor.scalar_type());
  });
  apply([tensor, loaded] {
    if (is_dense(tensor))
      tensor.copy_(*loaded);
    else
      replace_data(tensor, *loaded);
  });
}

void LoadPlan::object(const char* name, uint32_t rank, const at::Tensor& target) {
  any_beside_ = true;
  check([&](ckpt_error** err) {
    return ckpt_load_add_object(beside_.get(), name, rank, target.data_ptr(), target.nbytes(), err);
  });
}

// ---- the load ----

void LoadPlan::prepare() {
  at::NoGradGuard no_grad;
  find_overlaps();
  std::vector<std::function<void()>> others;
  others.swap(applies_);  // modules first
  for (size_t i = 0; i < targets_.size(); i++) {
    const Target& winner = targets_[targets_[i].winner];
    const bool in_place = readable_in_place(winner);
    if (in_place) in_place_names_.push_back(targets_[i].key);
    if (targets_[i].winner != i) continue;
    if (in_place)
      place(winner);
    else
      replace(winner);
  }
  applies_.insert(applies_.end(), others.begin(), others.end());
}

void LoadPlan::read_beside() {
  at::NoGradGuard no_grad;
  if (any_beside_) check([&](ckpt_error** err) { return ckpt_load_run(beside_.get(), err); });
  for (const auto& action : makes_) action();
}

// The engine finds these before it changes memory.
static bool is_structural(ckpt_status status) {
  return status == CKPT_INVALID || status == CKPT_UNSUPPORTED || status == CKPT_NOT_FOUND || status == CKPT_MISMATCH ||
         status == CKPT_INCOMPLETE;
}

void LoadPlan::read_in_place() {
  if (in_place_tensors_.empty()) return;
  auto failed = caught([&] { check([&](ckpt_error** err) { return ckpt_load_run(in_place_.get(), err); }); });
  touched_ = !failed || !is_structural(failed->status());
  for (const at::Tensor& tensor : in_place_tensors_)
    if (touched_ && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  if (failed) throw *failed;
}

void LoadPlan::finish() {
  at::NoGradGuard no_grad;
  for (const auto& action : applies_) action();
}

}  // namespace internal
}  // namespace ckpt_torch
