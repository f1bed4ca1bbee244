#include "load_plan.h"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "group.h"

namespace ckpt_torch {
namespace internal {

LoadPlan::LoadPlan(const Content& content, const LoadOptions& options, const ckpt::Options& settings,
                   uint32_t world_size)
    : content_(content),
      options_(options),
      world_size_(world_size),
      beside_(content, settings),
      in_place_(content, settings) {}

// ---- what a node says about its tensor ----

static std::vector<int64_t> size_of(const Node& node) {
  auto size = field(node, "size");
  if (size && size->text_view() == "torch.Size") size = field(*size, "items");
  std::vector<int64_t> shape;
  bool valid = size && is_list(*size);
  if (valid)
    for (const Node& child : *size) {
      valid &= child.kind == CKPT_NODE_INT && child.int_value >= 0;
      shape.push_back(child.int_value);
    }
  if (!valid)
    fail(CKPT_FORMAT, "tensor " + in_quotes(path_of(node)) + ": " + kind_name(node) + " without a size",
         {{"tensor", path_of(node)}});
  return shape;
}

static bool is_stored_dense(const Node& node) {
  return node.kind == CKPT_NODE_TENSOR || node.text_view() == "torch.Tensor";
}

std::vector<int64_t> LoadPlan::shape_of(const Node& given) const {
  const Node node = *tensor_at(given);
  const auto data = node.kind == CKPT_NODE_TENSOR ? std::optional<Node>(node) : field(node, "data");
  if (!data || data->kind != CKPT_NODE_TENSOR) return size_of(node);
  return torch_shape(content_.tensor(text_of(*data)));
}

std::optional<at::ScalarType> LoadPlan::type_of(const Node& given) const {
  const Node node = *tensor_at(given);
  if (node.kind == CKPT_NODE_TENSOR) return scalar_type_of(content_.tensor(text_of(node)).dtype);
  if (const auto name = field(node, "dtype"); name && is_stored_dense(node)) return named_type(text_of(*name));
  const auto elements = field(node, is_stored_dense(node) ? "data" : "values");
  if (!elements || elements->kind != CKPT_NODE_TENSOR) return std::nullopt;
  return type_of(*elements);
}

std::string LoadPlan::type_text(const Node& node) const {
  if (const auto name = field(node, "dtype")) return text_of(*name);
  const auto data = node.kind == CKPT_NODE_TENSOR ? std::optional<Node>(node) : field(node, "data");
  return data ? ckpt_dtype_name(content_.tensor(text_of(*data)).dtype) : kind_name(node);
}

// ---- fresh memory ----

at::Tensor LoadPlan::ask(const std::string& name, const at::Tensor& like) {
  const ckpt::TensorInfo info = content_.tensor(name);
  auto type = scalar_type_of(info.dtype);
  if (!type)
    fail(CKPT_UNSUPPORTED,
         "tensor " + in_quotes(name) + " is " + ckpt_dtype_name(info.dtype) + ", which this LibTorch does not have",
         {{"tensor", name}});
  const auto shape = torch_shape(info);
  bool same = like.defined() && is_dense(like) && like.sizes() == at::IntArrayRef(shape);
  at::Tensor tensor =
      same ? at::empty_like(like.detach(), at::TensorOptions().dtype(*type).device(at::kCPU)) : at::empty(shape, *type);
  const Memory memory = memory_of(tensor, name);
  any_beside_ = true;
  beside_.add_tensor(name, ckpt::Tensor(memory.desc), {memory.data, memory.bytes}, memory.device);
  return tensor;
}

// A tensor without memory that has the order of elements that the node's record says.
static at::Tensor ordered(const Node& given, const std::vector<int64_t>& shape, const at::Tensor& like) {
  const std::string format = memory_format_at(given);
  if (format.empty()) return like;
  const auto dim = static_cast<int64_t>(shape.size());
  return at::empty(shape, at::TensorOptions().device(at::kMeta), memory_format_named(format, dim, path_of(given)));
}

std::function<at::Tensor()> LoadPlan::fresh(const Node& given, const at::Tensor& any_like) {
  const Node node = *tensor_at(given);
  const at::Tensor like = is_stored_dense(node) ? ordered(given, shape_of(node), any_like) : any_like;
  if (node.kind == CKPT_NODE_TENSOR) {
    at::Tensor tensor = ask(text_of(node), like);
    return [tensor] { return tensor; };
  }
  auto record = std::make_shared<Record>();
  record->class_name = text_of(node);
  for (const Node& child : node) {
    const std::string key = child.name();
    const auto part = tensor_at(child);
    if (part && part->kind != CKPT_NODE_TENSOR)
      fail(CKPT_FORMAT, "tensor " + in_quotes(path_of(child)) + " is not dense, inside " + kind_name(node));
    if (part)
      record->fields.push_back({key, ask(text_of(*part), is_stored_dense(node) ? like : at::Tensor()), {}});
    else
      record->fields.push_back({key, {}, key == "size" ? c10::IValue(size_of(node)) : build(child, {}, {})});
  }
  std::string name = path_of(node);
  return [record, name] { return tensor_of(*record, name); };
}

// ---- into modules ----

void LoadPlan::check_fits(const Target& target) const {
  auto mismatch = [&](const std::string& what, const std::string& expected, const std::string& found) {
    fail(CKPT_MISMATCH, in_quotes(target.key) + ": the module has " + what + expected + ", the checkpoint " + found,
         {{"tensor", path_of(target.node)}, {"expected", expected}, {"found", found}});
  };
  const at::Tensor& tensor = target.tensor;
  if (tensor.is_meta())
    fail(CKPT_INVALID, in_quotes(target.key) + ": the module has a meta tensor: it has no memory to be loaded into",
         {{"tensor", path_of(target.node)}});
  auto shape = shape_of(target.node);
  if (tensor.sizes() != at::IntArrayRef(shape)) mismatch("shape ", shape_text(tensor.sizes()), shape_text(shape));
  std::string layout = is_dense(tensor) ? "a dense tensor" : "a " + record_class(tensor);
  std::string stored = is_stored_dense(target.node) ? "a dense tensor" : kind_name(target.node);
  if (layout != stored) mismatch("", layout, stored);
  for (int64_t d = 0; d < tensor.dim() && is_dense(tensor); d++)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1)
      fail(CKPT_UNSUPPORTED,
           in_quotes(target.key) +
               " is an expanded tensor: many of its elements are one, which cannot "
               "be loaded into",
           {{"tensor", path_of(target.node)}});
  if (tensor.is_quantized()) {
    const auto dtype = field(target.node, "dtype");
    const std::string found = dtype ? text_of(*dtype) : "none";
    if (found != quantized_name(tensor.scalar_type())) mismatch("dtype ", quantized_name(tensor.scalar_type()), found);
    return;
  }
  auto type = type_of(target.node);
  if (type == tensor.scalar_type()) return;
  std::string found = type ? type_name(*type) : type_text(target.node) + ", which this LibTorch does not have";
  const bool converts =
      type && c10::canCast(*type, tensor.scalar_type()) && !torchs_only(*type) && !torchs_only(tensor.scalar_type());
  if (!converts || !options_.convert)
    mismatch("dtype ", type_name(tensor.scalar_type()), found + (converts ? " (option convert would convert it)" : ""));
}

void LoadPlan::into(const at::Tensor& tensor, const Node& node, const std::string& key) {
  targets_.push_back({tensor, *tensor_at(node), key, targets_.size()});
  check_fits(targets_.back());
}

bool LoadPlan::readable_in_place(const Target& target) const {
  const at::Tensor& tensor = target.tensor;
  if (options_.stage_first || target.overlaps || target.node.kind != CKPT_NODE_TENSOR) return false;
  if (tensor.is_conj() || tensor.is_neg() || !tensor.is_non_overlapping_and_dense()) return false;
  const auto type = type_of(target.node);
  return type && content_.reads_into(tensor, *type);
}

static bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  auto storage = [](const at::Tensor& t) { return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); };
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset() && storage(a) == storage(b);
}

std::optional<Node> LoadPlan::tied(const at::Tensor& tensor) const {
  if (!is_dense(tensor) || tensor.is_meta() || tensor.numel() == 0) return std::nullopt;
  for (const Target& target : targets_)
    if (is_dense(target.tensor) && same_memory(target.tensor, tensor)) return target.node;
  return std::nullopt;
}

static std::string element_text(const at::Tensor& element) {
  std::ostringstream text;
  if (element.is_complex())
    text << element.to(at::kComplexDouble).item<c10::complex<double>>();
  else
    text << element.to(at::kDouble).item<double>();
  return text.str();
}

// Compares bits; names the first element that differs.
static void check_equal(const std::string& first, const at::Tensor& one, const std::string& second,
                        const at::Tensor& other) {
  auto differ = [&](const std::string& where, const std::string& expected, const std::string& found) {
    fail(CKPT_MISMATCH,
         in_quotes(first) + " and " + in_quotes(second) +
             " share memory (tied weights), but in the checkpoint they differ" + where + ": " + expected + " and " +
             found + "; give one of them, or untie them",
         {{"tensor", second}, {"expected", expected}, {"found", found}});
  };
  auto kind = [](const at::Tensor& t) { return type_name(t.scalar_type()) + " of shape " + shape_text(t.sizes()); };
  if (kind(one) != kind(other)) differ("", kind(one), kind(other));
  const at::Tensor a = one.contiguous(), b = other.contiguous();
  const auto *bytes = static_cast<const char*>(a.data_ptr()), *end = bytes + a.nbytes();
  const auto at = std::mismatch(bytes, end, static_cast<const char*>(b.data_ptr())).first;
  if (at == end) return;
  const auto place = static_cast<int64_t>((at - bytes) / static_cast<ptrdiff_t>(a.element_size()));
  differ(" at element " + std::to_string(place), element_text(a.flatten()[place]), element_text(b.flatten()[place]));
}

void LoadPlan::check_tied(const Target& target, const Target& winner) {
  auto name = [&](const Node& node) { return content_.named(text_of(node)); };
  const Node &one = target.node, &other = winner.node;
  const bool plain = one.kind == CKPT_NODE_TENSOR && other.kind == CKPT_NODE_TENSOR;
  if (one.number() == other.number() || (plain && name(one) == name(other))) return;
  auto first = fresh(one), second = fresh(other);
  makes_.insert(makes_.begin(),
                [first, second, a = target.key, b = winner.key] { check_equal(a, first(), b, second()); });
}

// If targets share memory the last one wins, as in Python's load_state_dict: equal memory is read once, and targets
// that overlap otherwise are copied in order.
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
        if (same_memory(a.tensor, b.tensor))
          a.winner = std::max(a.winner, later);
        else
          a.overlaps = b.overlaps = true;
      }
  }
}

void LoadPlan::place(const Target& target) {
  Memory memory = memory_of(target.tensor, target.key);
  memory.desc.flags |= CKPT_TENSOR_CONVERT;  // if dtypes differ, check_fits has allowed the conversion
  in_place_.add_tensor(text_of(target.node), ckpt::Tensor(memory.desc), {memory.data, memory.bytes}, memory.device);
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
      countable(tensor).copy_(countable(*loaded));
    else
      replace_data(tensor, *loaded);
  });
}

void LoadPlan::object(const std::string& name, uint32_t rank, const at::Tensor& target) {
  any_beside_ = true;
  beside_.add_object(name, rank, {target.data_ptr(), target.nbytes()});
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
    if (targets_[i].winner != i) {
      check_tied(targets_[i], winner);
      continue;
    }
    if (in_place)
      place(winner);
    else
      replace(winner);
  }
  applies_.insert(applies_.end(), others.begin(), others.end());
}

void LoadPlan::read_beside() {
  at::NoGradGuard no_grad;
  if (any_beside_) beside_.run();
  for (const auto& action : makes_) action();
}

// The engine finds these before it changes memory.
static bool is_structural(ckpt_status status) {
  return status == CKPT_INVALID || status == CKPT_UNSUPPORTED || status == CKPT_NOT_FOUND || status == CKPT_MISMATCH ||
         status == CKPT_INCOMPLETE;
}

void LoadPlan::read_in_place() {
  if (in_place_tensors_.empty()) return;
  auto failed = caught([&] { in_place_.run(); });
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
