#include "collector.h"

namespace ckpt_torch {
namespace internal {

// ---- values ----

void Collector::dense(const at::Tensor& tensor, Holder holder) {
  const std::string path = tree_.add_tensor();
  if (tensor.is_meta()) {
    const std::string why = "tensor " + in_quotes(path) + " is a meta tensor: it has no values";
    if (!refused_) fail(CKPT_INVALID, why, {{"tensor", path}});
    return refused_->push_back(why);
  }
  items_.push_back({path, tensor.detach(), holder, items_.size()});
}

void Collector::tensor(const at::Tensor& tensor, Holder holder) {
  if (!tensor.defined()) return tree_.add_null();
  if (tensor.is_meta()) return dense(tensor, holder);
  std::optional<Record> known;
  refusable([&] { known = record_of(tensor, "of shape " + shape_text(tensor.sizes())); });
  if (!known) return;
  const Record& record = *known;
  if (is_dense(tensor) && record.fields.size() == 1) return dense(tensor, holder);
  tree_.begin_record(record.class_name);
  for (const Field& field : record.fields) {
    tree_.key(field.name);
    if (field.tensor.defined())
      dense(field.tensor, holder);
    else
      value(field.value, holder, field.name);
  }
  tree_.end();
}

void Collector::dict(const c10::IValue& value, Holder holder, const std::string& where) {
  tree_.begin_dict();
  for (const auto& entry : value.toGenericDict()) {
    if (entry.key().isString()) {
      tree_.key(entry.key().toStringRef());
      this->value(entry.value(), holder, where + "/" + entry.key().toStringRef());
    } else if (entry.key().isInt()) {
      tree_.key(entry.key().toInt());
      this->value(entry.value(), holder, where + "/" + std::to_string(entry.key().toInt()));
    } else {
      const std::string why = ": keys of a dict may be text or integers, found " + entry.key().tagKind();
      if (!refused_) fail(CKPT_INVALID, in_quotes(where) + why);
      refused_->push_back(in_quotes(where) + why);
    }
  }
  tree_.end();
}

void Collector::value(const c10::IValue& value, Holder holder, const std::string& where) {
  if (value.isNone()) return tree_.add_null();
  if (value.isBool()) return tree_.add_bool(value.toBool());
  if (value.isInt()) return tree_.add_int(value.toInt());
  if (value.isDouble()) return tree_.add_float(value.toDouble());
  if (value.isString()) return tree_.add_text(value.toStringRef());
  if (value.isTensor()) return tensor(value.toTensor(), holder);
  if (value.isGenericDict()) return dict(value, holder, where);
  if (value.isComplexDouble()) {
    tree_.begin_record("builtins.complex");
    tree_.key("args");
    tree_.begin_tuple();
    tree_.add_float(value.toComplexDouble().real());
    tree_.add_float(value.toComplexDouble().imag());
    tree_.end();
    return tree_.end();
  }
  if (!value.isList() && !value.isTuple())
    return refusable([&] {
      fail(CKPT_INVALID, in_quotes(where) +
                             ": a checkpoint holds None, bool, int, double, complex, str, tensors, lists, "
                             "tuples and dicts, found " +
                             value.tagKind());
    });
  tree_.begin(value.isList() ? CKPT_NODE_LIST : CKPT_NODE_TUPLE);
  int64_t place = 0;
  auto child = [&](const c10::IValue& element) { this->value(element, holder, where + "/" + std::to_string(place++)); };
  if (value.isList()) {
    c10::List<c10::IValue> list = value.toList();
    for (size_t i = 0; i < list.size(); i++) child(list.get(i));
  } else {
    for (const c10::IValue& element : value.toTuple()->elements()) child(element);
  }
  tree_.end();
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

// Of the tensors in one storage the largest contiguous one is stored, and views of it become aliases; others that
// overlap are stored separately. Every rank must find the same aliases, so a tensor that only rank 0 holds is never the
// target of one that all ranks hold.
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
    if (items_[i].holder != Holder::kAll) resolve(i, rank0);
}

void Collector::add_alias(ckpt::Save& save, const Item& item) const {
  const Item& target = items_[item.alias_of];
  if (item.tensor.is_contiguous() && item.tensor.sizes() == target.tensor.sizes())
    return save.add_alias(item.name, target.name);
  ckpt::Tensor view(memory_of(item.tensor, item.name).desc);
  save.add_alias(item.name, target.name,
                 view.strides(item.tensor.strides().vec())
                     .view_offset(item.tensor.storage_offset() - target.tensor.storage_offset()));
}

void Collector::fill(ckpt::Save& save, bool with_tree) {
  find_aliases();
  for (size_t i = 0; i < items_.size(); i++) {
    const Item& item = items_[i];
    if (item.holder == Holder::kRank0 && rank_ != 0) continue;
    if (item.alias_of != i) {
      add_alias(save, item);
      continue;
    }
    memory_.push_back(to_plain(item.tensor));
    const Memory memory = memory_of(memory_.back(), item.name);
    ckpt::Tensor tensor(memory.desc);
    if (item.holder != Holder::kAll) tensor.replica(1, 0, 1);
    save.add_tensor(item.name, tensor, {memory.data, memory.bytes}, memory.device);
  }
  if (with_tree) save.add_tree(tree_);
}

std::map<std::string, uint64_t> Collector::sizes() {
  find_aliases();
  std::map<std::string, uint64_t> out;
  for (size_t i = 0; i < items_.size(); i++) {
    const Item& item = items_[i];
    if ((item.holder == Holder::kRank0 && rank_ != 0) || item.alias_of != i) continue;
    out[item.name] = static_cast<uint64_t>(item.tensor.numel()) * item.tensor.element_size();
    auto error = caught([&] { memory_of(item.tensor, item.name); });
    if (error && !refused_) throw *error;
    if (error) refused_->push_back(error->what());
  }
  return out;
}

}  // namespace internal
}  // namespace ckpt_torch
