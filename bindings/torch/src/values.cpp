// Turns subtrees into IValues.
#include <algorithm>

#include "load_plan.h"

namespace ckpt_torch {
namespace internal {

// Tables, in dicts or by themselves, and nothing else.
static bool is_of_tables(const Node& node) {
  if (node.kind != CKPT_NODE_DICT || node.child_count == 0) return is_table(node);
  return std::all_of(node.begin(), node.end(), is_of_tables);
}

static bool contains(const std::vector<Node>& nodes, const Node& node) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& one) { return one.number() == node.number(); });
}

std::function<c10::IValue()> LoadPlan::value(const Node& node, const std::vector<Node>& without) {
  auto tensors = std::make_shared<Fresh>();
  ask_values(node, without, *tensors);
  return [this, node, without, tensors] { return build(node, without, *tensors); };
}

void LoadPlan::ask_values(const Node& node, const std::vector<Node>& without, Fresh& tensors) {
  if (contains(without, node) || is_table(node)) return;
  if (tensor_at(node)) {
    tensors[node.number()] = fresh(node);
    return;
  }
  if (node.kind == CKPT_NODE_RECORD && node.text_view() == CKPT_PER_RANK_CLASS && node.child_count == 1)
    check_own(node);
  for (const Node& child : node) ask_values(child, without, tensors);
}

// Python's ckpt.random_states() are rank 0's for a rank that has none, which LibTorch does not draw from.
static bool is_random(const Node& own) {
  const auto python = field(own, "python");
  return python && field(*python, "words");
}

void LoadPlan::check_own(const Node& record) const {
  if (options_.or_rank0 || is_random(*record.begin())) return;
  auto differs = [&](uint64_t saved) { return saved != world_size_; };
  const uint64_t saved = content_.ranks_of(record, differs);
  if (differs(saved))
    fail(CKPT_MISMATCH,
         in_quotes(path_of(record)) + ": the values of " + std::to_string(saved) + (saved == 1 ? " rank" : " ranks") +
             ", each its own, and this is a run of " + std::to_string(world_size_) +
             "; or_rank0 gives each rank its own or rank 0's, leaving it out gives none",
         {{"path", path_of(record)}, {"expected", std::to_string(saved)}, {"found", std::to_string(world_size_)}});
}

// Lists of one type become typed lists, so that toIntVector and its like work on them.
c10::IValue LoadPlan::build_list(std::vector<c10::IValue> values) {
  auto all = [&](auto&& is) { return !values.empty() && std::all_of(values.begin(), values.end(), is); };
  if (all([](const c10::IValue& v) { return v.isInt(); })) {
    c10::List<int64_t> list;
    for (const auto& value : values) list.push_back(value.toInt());
    return list;
  }
  if (all([](const c10::IValue& v) { return v.isDouble(); })) {
    c10::List<double> list;
    for (const auto& value : values) list.push_back(value.toDouble());
    return list;
  }
  if (all([](const c10::IValue& v) { return v.isBool(); })) {
    c10::List<bool> list;
    for (const auto& value : values) list.push_back(value.toBool());
    return list;
  }
  if (all([](const c10::IValue& v) { return v.isString(); })) {
    c10::List<std::string> list;
    for (const auto& value : values) list.push_back(value.toStringRef());
    return list;
  }
  if (all([](const c10::IValue& v) { return v.isTensor(); })) {
    c10::List<at::Tensor> list;
    for (const auto& value : values) list.push_back(value.toTensor());
    return list;
  }
  c10::impl::GenericList list(c10::AnyType::get());
  for (auto& value : values) list.push_back(std::move(value));
  return list;
}

c10::IValue LoadPlan::build_dict(const Node& node, const std::vector<Node>& without, const Fresh& tensors) {
  bool ints = node.child_count > 0, texts = true;
  for (const Node& child : node) {
    ints &= child.key_kind == CKPT_KEY_INT;
    texts &= child.key_kind == CKPT_KEY_TEXT;
  }
  c10::TypePtr key_type = c10::AnyType::get();
  if (texts) key_type = c10::StringType::get();
  if (ints) key_type = c10::IntType::get();
  c10::impl::GenericDict dict(key_type, c10::AnyType::get());
  for (const Node& child : node) {
    if (contains(without, child)) continue;
    if (is_of_tables(child)) {
      note(child, "a sparse table is not among others: load_table loads its rows");
      continue;
    }
    c10::IValue key =
        child.key_kind == CKPT_KEY_INT ? c10::IValue(child.key_int) : c10::IValue(std::string(child.key_view()));
    dict.insert(key, build(child, without, tensors));
  }
  return dict;
}

c10::IValue LoadPlan::build_record(const Node& node, const std::vector<Node>& without, const Fresh& tensors) {
  std::string name = text_of(node);
  auto field = [&](const char* key) -> std::optional<c10::IValue> {
    const auto child = node.find(key);
    if (!child) return std::nullopt;
    return build(*child, without, tensors);
  };
  if (dict_at(node).number() != node.number()) return build_dict(dict_at(node), without, tensors);
  if (name == CKPT_PER_RANK_CLASS && node.child_count == 1) return build(*node.begin(), without, tensors);
  if (name == "builtins.complex")
    if (auto args = field("args"); args && args->isTuple() && args->toTuple()->elements().size() == 2) {
      const auto& parts = args->toTuple()->elements();
      if (parts[0].isDouble() && parts[1].isDouble())
        return c10::complex<double>(parts[0].toDouble(), parts[1].toDouble());
    }
  if (name == "torch.Size" || name == "builtins.frozenset")
    if (auto items = field("items")) return *items;
  if (name.rfind("numpy.", 0) == 0 || name == "builtins.bytearray")
    if (auto value = field("value")) return *value;
  note(node, "a " + name + " is returned as a dict of its fields with its class under '__class__'");
  auto dict = build_dict(node, without, tensors).toGenericDict();
  dict.insert_or_assign(c10::IValue("__class__"), c10::IValue(name));
  return dict;
}

c10::IValue LoadPlan::build(const Node& node, const std::vector<Node>& without, const Fresh& tensors) {
  if (is_table(node)) {  // in a list, where the others keep their places
    note(node, "a sparse table is not among others: load_table loads its rows");
    return {};
  }
  auto found = tensors.find(node.number());
  if (found != tensors.end()) return found->second().to(options_.map_location);
  switch (node.kind) {
    case CKPT_NODE_NULL:
      return {};
    case CKPT_NODE_BOOL:
      return node.bool_value != 0;
    case CKPT_NODE_INT:
      return node.int_value;
    case CKPT_NODE_FLOAT:
      return node.float_value;
    case CKPT_NODE_TEXT:
      return text_of(node);
    case CKPT_NODE_BIGINT:
      note(node, "an integer beyond 64 bits is returned as text");
      return text_of(node);
    case CKPT_NODE_DICT:
      return build_dict(node, without, tensors);
    case CKPT_NODE_RECORD:
      return build_record(node, without, tensors);
    case CKPT_NODE_BYTES: {
      note(node, "bytes are returned as a tensor of u8");
      at::Tensor bytes = at::empty({static_cast<int64_t>(node.text_size)}, at::kByte);
      std::copy_n(reinterpret_cast<const uint8_t*>(node.text), node.text_size, bytes.data_ptr<uint8_t>());
      return bytes;
    }
    case CKPT_NODE_LIST:
    case CKPT_NODE_TUPLE:
    case CKPT_NODE_SET:
      break;
    default:
      fail(CKPT_REVISION, in_quotes(path_of(node)) + " is " + kind_name(node));
  }
  std::vector<c10::IValue> values;
  for (const Node& child : node)
    if (!contains(without, child)) values.push_back(build(child, without, tensors));
  if (node.kind == CKPT_NODE_TUPLE) return c10::ivalue::Tuple::create(std::move(values));
  if (node.kind == CKPT_NODE_SET) note(node, "a set is returned as a list");
  return build_list(std::move(values));
}

}  // namespace internal
}  // namespace ckpt_torch
