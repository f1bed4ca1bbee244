#include "collector.h"

namespace ckpt_torch {
namespace internal {

Collector::Collector(uint32_t rank) : rank_(rank) {
  tree_ = make<TreeHandle>([](ckpt_tree** out, ckpt_error** err) { return ckpt_tree_new(out, err); });
}

// ---- the tree ----

void Collector::begin(int32_t kind, const char* class_name) {
  check([&](ckpt_error** err) { return ckpt_tree_begin(tree_.get(), kind, class_name, err); });
}
void Collector::end() {
  check([&](ckpt_error** err) { return ckpt_tree_end(tree_.get(), err); });
}
void Collector::key(const std::string& key) {
  check([&](ckpt_error** err) { return ckpt_tree_key(tree_.get(), key.data(), key.size(), err); });
}
void Collector::key(int64_t key) {
  check([&](ckpt_error** err) { return ckpt_tree_key_int(tree_.get(), key, err); });
}
void Collector::null() {
  check([&](ckpt_error** err) { return ckpt_tree_add_null(tree_.get(), err); });
}
void Collector::boolean(bool value) {
  check([&](ckpt_error** err) { return ckpt_tree_add_bool(tree_.get(), value, err); });
}
void Collector::integer(int64_t value) {
  check([&](ckpt_error** err) { return ckpt_tree_add_int(tree_.get(), value, err); });
}
void Collector::real(double value) {
  check([&](ckpt_error** err) { return ckpt_tree_add_float(tree_.get(), value, err); });
}
void Collector::text(const std::string& value) {
  check([&](ckpt_error** err) { return ckpt_tree_add_text(tree_.get(), value.data(), value.size(), err); });
}

// ---- values ----

void Collector::dense(const at::Tensor& tensor, Holder holder) {
  const char* path = nullptr;
  check([&](ckpt_error** err) { return ckpt_tree_add_tensor(tree_.get(), nullptr, &path, err); });
  if (tensor.is_meta())
    fail(CKPT_INVALID, "tensor " + in_quotes(path) + " is a meta tensor: it has no values", {{"tensor", path}});
  items_.push_back({path, tensor.detach(), holder, items_.size()});
}

void Collector::tensor(const at::Tensor& tensor, Holder holder) {
  if (!tensor.defined()) return null();
  if (is_dense(tensor)) return dense(tensor, holder);
  Record record = record_of(tensor, "of shape " + shape_text(tensor.sizes()));
  begin(CKPT_NODE_RECORD, record.class_name.c_str());
  for (const Field& field : record.fields) {
    key(field.name);
    if (field.tensor.defined())
      dense(field.tensor, holder);
    else
      value(field.value, holder, field.name);
  }
  end();
}

void Collector::dict(const c10::IValue& value, Holder holder, const std::string& where) {
  begin(CKPT_NODE_DICT);
  for (const auto& entry : value.toGenericDict()) {
    if (entry.key().isString()) {
      key(entry.key().toStringRef());
      this->value(entry.value(), holder, where + "/" + entry.key().toStringRef());
    } else if (entry.key().isInt()) {
      key(entry.key().toInt());
      this->value(entry.value(), holder, where + "/" + std::to_string(entry.key().toInt()));
    } else {
      fail(CKPT_INVALID, in_quotes(where) + ": keys of a dict may be text or integers, found " + entry.key().tagKind());
    }
  }
  end();
}

void Collector::value(const c10::IValue& value, Holder holder, const std::string& where) {
  if (value.isNone()) return null();
  if (value.isBool()) return boolean(value.toBool());
  if (value.isInt()) return integer(value.toInt());
  if (value.isDouble()) return real(value.toDouble());
  if (value.isString()) return text(value.toStringRef());
  if (value.isTensor()) return tensor(value.toTensor(), holder);
  if (value.isGenericDict()) return dict(value, holder, where);
  if (value.isComplexDouble()) {
    begin(CKPT_NODE_RECORD, "builtins.complex");
    key("args");
    begin(CKPT_NODE_TUPLE);
    real(value.toComplexDouble().real());
    real(value.toComplexDouble().imag());
    end();
    return end();
  }
  if (!value.isList() && !value.isTuple())
    fail(CKPT_INVALID, in_quotes(where) +
                           ": a checkpoint holds None, bool, int, double, complex, str, tensors, lists, "
                           "tuples and dicts, found " +
                           value.tagKind());
  begin(value.isList() ? CKPT_NODE_LIST : CKPT_NODE_TUPLE);
  int64_t place = 0;
  auto child = [&](const c10::IValue& element) { this->value(element, holder, where + "/" + std::to_string(place++)); };
  if (value.isList()) {
    c10::List<c10::IValue> list = value.toList();
    for (size_t i = 0; i < list.size(); i++) child(list.get(i));
  } else {
    for (const c10::IValue& element : value.toTuple()->elements()) child(element);
  }
  end();
}

// ---- shared memory ----

namespace {

const void* storage_of(const at::Tensor& t) { return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

// Whether `view` lies inside the elements of the contiguous `target`.
bool inside(const at::Tensor& view, const at::Tensor& target) {
  if (view.scalar_type() != target.scalar_type()) return false;
  int64_t last = view.storage_offset();
  for (int64_t d = 0; d < view.dim(); d++) last += (view.size(d) - 1) * view.stride(d);
  return view.storage_offset() >= target.storage_offset() && last < target.storage_offset() + target.numel();
}

}  // namespace

// Tensors in one storage: the largest contiguous one is stored, views of it become aliases, what else overlaps is
// stored by itself. Every rank must come to the same aliases, so what only rank 0 holds is never the target of what all
// hold.
void Collector::find_aliases() {
  using Targets = std::map<const void*, size_t>;
  Targets shared, rank0;
  auto may_share = [](const at::Tensor& t) {
    return t.numel() > 0 && !t.is_conj() && !t.is_neg() && !t._is_zerotensor();
  };
  for (size_t i = 0; i < items_.size(); i++) {
    const at::Tensor& tensor = items_[i].tensor;
    if (!may_share(tensor) || !tensor.is_contiguous()) continue;
    Targets& targets = items_[i].holder == Holder::kAll ? shared : rank0;
    auto [found, added] = targets.emplace(storage_of(tensor), i);
    if (!added && tensor.numel() > items_[found->second].tensor.numel()) found->second = i;
  }
  auto resolve = [&](size_t i, const Targets& targets) {
    Item& item = items_[i];
    if (item.alias_of != i || !may_share(item.tensor)) return;
    auto found = targets.find(storage_of(item.tensor));
    if (found == targets.end() || items_[found->second].alias_of != found->second) return;
    if (inside(item.tensor, items_[found->second].tensor)) item.alias_of = found->second;
  };
  for (size_t i = 0; i < items_.size(); i++) resolve(i, shared);
  for (size_t i = 0; i < items_.size(); i++)
    if (items_[i].holder == Holder::kRank0) resolve(i, rank0);
}

void Collector::add_alias(ckpt_save* save, const Item& item) const {
  const Item& target = items_[item.alias_of];
  bool same = item.tensor.is_contiguous() && item.tensor.sizes() == target.tensor.sizes();
  ckpt_tensor_desc view{};
  if (!same) {
    view = memory_of(item.tensor, item.name).desc;
    view.flags = CKPT_TENSOR_STRIDED;
    for (int64_t d = 0; d < item.tensor.dim(); d++) view.strides[d] = item.tensor.stride(d);
    view.flat_offset = item.tensor.storage_offset() - target.tensor.storage_offset();
  }
  check([&](ckpt_error** err) {
    return ckpt_save_add_alias(save, item.name.c_str(), target.name.c_str(), same ? nullptr : &view, err);
  });
}

void Collector::fill(ckpt_save* save) {
  find_aliases();
  for (size_t i = 0; i < items_.size(); i++) {
    const Item& item = items_[i];
    if (item.holder == Holder::kRank0 && rank_ != 0) continue;
    if (item.alias_of != i) {
      add_alias(save, item);
      continue;
    }
    memory_.push_back(to_host(item.tensor));
    Memory memory = memory_of(memory_.back(), item.name);
    if (item.holder == Holder::kRank0) {
      memory.desc.replica_count = 1;
      memory.desc.replica_group = 1;
    }
    check([&](ckpt_error** err) {
      return ckpt_save_add_tensor(save, item.name.c_str(), &memory.desc, memory.data, memory.bytes, CKPT_DEVICE_CPU, 0,
                                  err);
    });
  }
  if (rank_ == 0) check([&](ckpt_error** err) { return ckpt_save_add_tree(save, nullptr, tree_.get(), err); });
}

}  // namespace internal
}  // namespace ckpt_torch
