// The parts of an hfai directory as one state.

#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "interop/src/hfai/format.h"
#include "interop/src/hfai/layout.h"
#include "interop/src/hfai/parts.h"
#include "interop/src/json.h"
#include "interop/src/pt/format.h"
#include "interop/src/pt/sharing.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

// A node of one of the parts.
struct Place {
  size_t part;
  uint32_t node;
};

// What one part says of a tensor that was cut: (shape, elements).
struct Piece {
  Place shape, elements;
};

// A tensor that was cut: where each part has its elements.
struct Large {
  Place key;                   // whose key it has; of an optimizer the node of k2
  std::optional<Place> outer;  // k1
  std::string segment;         // of its path
  std::vector<Piece> pieces;   // by part
};

// A key of a dict, to compare: kind and text.
std::string key_text(const TreeNode& node) {
  if (node.key_kind == CKPT_KEY_INT) return "i" + std::to_string(node.place);
  return "t" + std::string(node.key_view());
}
// The same of a value that is a key: k1 and k2 are values of a tuple.
std::optional<std::string> value_text(const TreeNode& node) {
  if (node.kind == CKPT_NODE_INT) return "i" + std::to_string(node.integer);
  if (node.kind == CKPT_NODE_TEXT) return "t" + std::string(node.text_view());
  return std::nullopt;
}

class Merger {
 public:
  Merger(std::vector<HfaiPart>& parts, ForeignCheckpoint& state)
      : parts_(parts), renamed_(parts.size()), state_(state) {
    for (HfaiPart& part : parts) {
      auto& places = tensors_.emplace_back();
      for (size_t i = 0; i < part.content.tensors.size(); i++) places[part.content.tensors[i].name] = i;
    }
  }

  Status run() {
    CKPT_TRY(check_others());
    const Tree& first = parts_[0].tree();
    CKPT_TRY(out().begin(CKPT_NODE_DICT));
    for (uint32_t child = first.first_child(parts_[0].root); child != kNoNode; child = first[child].next) {
      CKPT_TRY(put_key(first[child]));
      const std::string_view key = first[child].key_kind == CKPT_KEY_TEXT ? first[child].key_view() : "";
      if (key == kHfaiModel)
        CKPT_TRY(put_list(parts_[0].models.size(), kHfaiModel, &Merger::put_model));
      else if (key == kHfaiOptimizer)
        CKPT_TRY(put_list(parts_[0].optimizers.size(), kHfaiOptimizer, &Merger::put_optimizer));
      else
        CKPT_TRY(copy({0, child}, "", ""));
    }
    CKPT_TRY(out().end());
    state_.tree = std::move(tree_);
    for (size_t part = 0; part < parts_.size(); part++) share(part);
    std::move(cut_.begin(), cut_.end(), std::back_inserter(state_.tensors));
    return Ok();
  }

 private:
  using Put = Status (Merger::*)(size_t number, const std::string& from, const std::string& to);

  Tree& out() { return tree_; }
  const TreeNode& at(Place place) const { return parts_[place.part].tree()[place.node]; }
  Status wrong(Place place, const std::string& what) const { return parts_[place.part].wrong(place.node, what); }

  Status put_key(const TreeNode& node) {
    return node.key_kind == CKPT_KEY_INT ? out().key(node.place) : out().key(node.key_view());
  }

  // What hfai's load looks at in part 0 only must not be elsewhere, or it would be lost.
  Status check_others() const {
    for (size_t i = 1; i < parts_.size(); i++) {
      const Tree& tree = parts_[i].tree();
      for (uint32_t child = tree.first_child(parts_[i].root); child != kNoNode; child = tree[child].next)
        if (!has_key(tree[child])) return wrong({i, child}, "a key that PART_000.pt lacks");
    }
    return Ok();
  }

  bool has_key(const TreeNode& node) const {
    const Tree& first = parts_[0].tree();
    return (node.key_kind == CKPT_KEY_INT ? first.find(parts_[0].root, node.place)
                                          : first.find(parts_[0].root, node.key_view())) != kNoNode;
  }

  // One by itself, many as a list; `from` and `to` are the beginnings of the tensors' names in the parts and here.
  Status put_list(size_t count, const std::string& key, Put put) {
    if (count == 1) return (this->*put)(0, key + "/0/0/", key + '/');
    CKPT_TRY(out().begin(CKPT_NODE_LIST));
    for (size_t i = 0; i < count; i++) {
      const std::string place = key + '/' + std::to_string(i) + '/';
      CKPT_TRY((this->*put)(i, place + "0/", place));
    }
    return out().end();
  }

  // ---- entries of all parts ----

  // In the order in which hfai's load meets them. A key in two parts comes from two saves.
  Result<std::vector<Place>> entries_of(const std::vector<uint32_t>& dicts) const {
    std::vector<Place> entries;
    std::unordered_map<std::string, size_t> part_of;
    for (size_t part = 0; part < dicts.size(); part++) {
      const Tree& tree = parts_[part].tree();
      for (uint32_t child = tree.first_child(dicts[part]); child != kNoNode; child = tree[child].next) {
        const auto [found, is_new] = part_of.try_emplace(key_text(tree[child]), part);
        if (!is_new) return wrong({part, child}, "it is also in " + parts_[found->second].name);
        entries.push_back({part, child});
      }
    }
    return entries;
  }

  Status put_model(size_t number, const std::string& from, const std::string& to) {
    std::vector<uint32_t> wholes;
    for (const HfaiPart& part : parts_) wholes.push_back(part.models[number].whole);
    CKPT_ASSIGN(const std::vector<Place> entries, entries_of(wholes));
    CKPT_ASSIGN(const std::vector<Large> larges, larges_of_model(number));
    std::unordered_set<std::string> keys;
    for (const Large& large : larges) keys.insert(key_text(at(large.key)));
    CKPT_TRY(out().begin(CKPT_NODE_DICT));
    for (Place entry : entries) {
      if (keys.contains(key_text(at(entry)))) return wrong(entry, "a parameter that is both whole and cut");
      CKPT_TRY(put_key(at(entry)));
      CKPT_TRY(copy(entry, from, to));
    }
    for (const Large& large : larges) {
      CKPT_TRY(put_key(at(large.key)));
      CKPT_TRY(put_large(large, to + large.segment));
    }
    return out().end();
  }

  // The state_dict of part 0 with the "state" of all.
  Status put_optimizer(size_t number, const std::string& from, const std::string& to) {
    std::vector<uint32_t> states;
    for (size_t part = 0; part < parts_.size(); part++) {
      const Tree& tree = parts_[part].tree();
      const uint32_t whole = parts_[part].optimizers[number].whole, state = tree.find(whole, "state");
      const uint32_t entries = state == kNoNode ? kNoNode : hfai_entries_of(tree, state);
      if (entries == kNoNode) return wrong({part, whole}, "an optimizer without a dict \"state\"");
      states.push_back(entries);
    }
    CKPT_ASSIGN(const std::vector<Large> larges, larges_of_optimizer(number));
    const uint32_t whole = parts_[0].optimizers[number].whole;
    const Tree& first = parts_[0].tree();
    CKPT_TRY(out().begin(CKPT_NODE_DICT));
    for (uint32_t child = first.first_child(whole); child != kNoNode; child = first[child].next) {
      CKPT_TRY(put_key(first[child]));
      if (first[child].key_kind == CKPT_KEY_TEXT && first[child].key_view() == "state")
        CKPT_TRY(put_states(states, larges, from, to));
      else
        CKPT_TRY(copy({0, child}, from, to));
    }
    return out().end();
  }

  Status put_states(const std::vector<uint32_t>& states, const std::vector<Large>& larges, const std::string& from,
                    const std::string& to) {
    CKPT_ASSIGN(const std::vector<Place> entries, entries_of(states));
    std::map<std::string, std::vector<const Large*>> by_outer;
    for (const Large& large : larges) by_outer[*value_text(at(*large.outer))].push_back(&large);
    CKPT_TRY(out().begin(CKPT_NODE_DICT));
    for (Place entry : entries) {
      CKPT_TRY(put_key(at(entry)));
      const auto found = by_outer.find(key_text(at(entry)));
      if (found == by_outer.end()) {
        CKPT_TRY(copy(entry, from, to));
        continue;
      }
      added_ = &found->second;
      Status status = copy(entry, from, to, hfai_entries_of(parts_[entry.part].tree(), entry.node));
      if (!status.ok()) return status;
      if (added_) return wrong(entry, "a tensor of it is cut, but it is no dict");
      by_outer.erase(found);
    }
    if (!by_outer.empty()) return wrong(by_outer.begin()->second[0]->key, "a cut tensor of an entry that no part has");
    return out().end();
  }

  // ---- copies ----

  // A value of a part. A tensor's name begins with `to` where it began with `from`. The cut tensors of `added_` are put
  // at the end of dict `into`.
  Status copy(Place place, const std::string& from, const std::string& to, uint32_t into = kNoNode) {
    const TreeNode& node = at(place);
    switch (node.kind) {
      case CKPT_NODE_NULL:
        return out().add_null();
      case CKPT_NODE_BOOL:
        return out().add_bool(node.integer != 0);
      case CKPT_NODE_INT:
        return out().add_int(node.integer);
      case CKPT_NODE_BIGINT:
        return out().add_bigint(node.text_view());
      case CKPT_NODE_FLOAT:
        return out().add_float(node.real);
      case CKPT_NODE_TEXT:
        return out().add_text(node.text_view());
      case CKPT_NODE_BYTES:
        return out().add_bytes(as_bytes(node.text_view()));
      case CKPT_NODE_TENSOR:
        return copy_tensor(place, from, to);
      default:
        return copy_container(place, from, to, into);
    }
  }

  Status copy_container(Place place, const std::string& from, const std::string& to, uint32_t into) {
    const TreeNode& node = at(place);
    const Tree& tree = parts_[place.part].tree();
    CKPT_TRY(out().begin(node.kind, node.kind == CKPT_NODE_RECORD ? node.text_view() : std::string_view()));
    for (uint32_t child = tree.first_child(place.node); child != kNoNode; child = tree[child].next) {
      if (node.keyed()) CKPT_TRY(put_key(tree[child]));
      CKPT_TRY(copy({place.part, child}, from, to, into));
    }
    if (place.node == into)
      for (const Large* large : *std::exchange(added_, nullptr)) CKPT_TRY(add_large(place, *large, to));
    return out().end();
  }

  Status add_large(Place dict, const Large& large, const std::string& to) {
    const TreeNode& key = at(large.key);
    const Tree& tree = parts_[dict.part].tree();
    const bool is_text = key.kind == CKPT_NODE_TEXT;
    if ((is_text ? tree.find(dict.node, key.text_view()) : tree.find(dict.node, key.integer)) != kNoNode)
      return wrong(dict, "tensor " + shown(large.segment) + " is both whole and cut");
    CKPT_TRY(is_text ? out().key(key.text_view()) : out().key(key.integer));
    return put_large(large, to + "state/" + large.segment);
  }

  Status copy_tensor(Place place, const std::string& from, const std::string& to) {
    const std::string old(at(place).text_view());
    const std::string name = old.starts_with(from) ? to + old.substr(from.size()) : old;
    CKPT_TRY(add_leaf(place, name));
    renamed_[place.part].emplace(old, name);
    return Ok();
  }

  Status add_leaf(Place place, const std::string& name) {
    if (name.size() > kMaxName)
      return wrong(place, strformat("a tensor's path of {} bytes, at most {}", name.size(), kMaxName));
    if (!names_.insert(name).second) return wrong(place, "two tensors have the path " + shown(name));
    return out().add_tensor(name);
  }

  // ---- cut tensors ----

  // Adds what one part has of a tensor, which is (shape, elements).
  Status add_piece(std::vector<Large>* larges, std::map<std::string, size_t>* places, const std::string& id,
                   Large found, Place value) {
    const Tree& tree = parts_[value.part].tree();
    if (at(value).kind != CKPT_NODE_TUPLE && at(value).kind != CKPT_NODE_LIST)
      return wrong(value, "expected a pair of shape and tensor");
    if (at(value).child_count != 2) return wrong(value, "expected a pair of shape and tensor");
    const uint32_t shape = tree.first_child(value.node), piece = tree[shape].next;
    const auto [entry, is_new] = places->try_emplace(id, larges->size());
    if (is_new) larges->push_back(std::move(found));
    std::vector<Piece>& pieces = (*larges)[entry->second].pieces;
    if (!pieces.empty() && pieces.back().shape.part == value.part) return wrong(value, "a key that comes twice");
    pieces.push_back({{value.part, shape}, {value.part, piece}});
    return Ok();
  }

  static std::string segment_of(const TreeNode& node) {
    return node.key_kind == CKPT_KEY_INT ? std::to_string(node.place) : tree::path_segment(node.key_view());
  }

  Result<std::vector<Large>> larges_of_model(size_t number) {
    std::vector<Large> larges;
    std::map<std::string, size_t> places;
    for (size_t part = 0; part < parts_.size(); part++) {
      const Tree& tree = parts_[part].tree();
      const uint32_t dict = parts_[part].models[number].large;
      if (tree[dict].kind != CKPT_NODE_DICT) return wrong({part, dict}, "expected a dict with names as keys");
      for (uint32_t child = tree.first_child(dict); child != kNoNode; child = tree[child].next) {
        Large large{{part, child}, std::nullopt, segment_of(tree[child]), {}};
        CKPT_TRY(add_piece(&larges, &places, key_text(tree[child]), std::move(large), {part, child}));
      }
    }
    return larges;
  }

  // {(k1, k2): (shape, elements)}; as a record, [((k1, k2), (shape, elements)), …].
  Result<std::vector<Large>> larges_of_optimizer(size_t number) {
    std::vector<Large> larges;
    std::map<std::string, size_t> places;
    for (size_t part = 0; part < parts_.size(); part++) {
      const Tree& tree = parts_[part].tree();
      const uint32_t large = parts_[part].optimizers[number].large;
      if (tree[large].kind == CKPT_NODE_DICT && tree[large].child_count == 0) continue;
      const uint32_t items = tree[large].kind == CKPT_NODE_RECORD ? tree.find(large, "items") : kNoNode;
      if (items == kNoNode) return wrong({part, large}, "expected a dict with pairs as keys");
      for (uint32_t item = tree.first_child(items); item != kNoNode; item = tree[item].next)
        CKPT_TRY(add_item(&larges, &places, {part, item}));
    }
    return larges;
  }

  Status add_item(std::vector<Large>* larges, std::map<std::string, size_t>* places, Place item) {
    const Tree& tree = parts_[item.part].tree();
    const uint32_t key = tree.first_child(item.node);
    const bool pair = at(item).child_count == 2 && tree[key].kind == CKPT_NODE_TUPLE && tree[key].child_count == 2;
    if (!pair) return wrong(item, "expected a pair as key");
    const Place outer{item.part, tree.first_child(key)}, inner{item.part, tree[outer.node].next};
    const auto outer_text = value_text(at(outer)), inner_text = value_text(at(inner));
    if (!outer_text || !inner_text) return wrong(item, "expected a pair of text or integers as key");
    const auto segment = [](const TreeNode& node) {
      return node.kind == CKPT_NODE_INT ? std::to_string(node.integer) : tree::path_segment(node.text_view());
    };
    Large large{inner, outer, segment(at(outer)) + '/' + segment(at(inner)), {}};
    const std::string id = std::to_string(outer_text->size()) + ':' + *outer_text + *inner_text;
    return add_piece(larges, places, id, std::move(large), {item.part, tree[key].next});
  }

  Status put_large(const Large& large, const std::string& name) {
    const Piece& first = large.pieces[0];
    CKPT_TRY(add_leaf(first.elements, name));
    CKPT_ASSIGN(const Shape shape, shape_of(first.shape));
    const Result<uint64_t> elements = element_count(shape);
    if (!elements.ok()) return wrong(first.shape, elements.status().message());
    CKPT_ASSIGN(const PtTensor* of_first, elements_at(first.elements));
    uint64_t at_element = 0;
    ForeignTensor& cut = cut_.emplace_back();
    cut.name = name;
    cut.dtype = of_first->dtype;
    cut.shape = shape;
    for (const Piece& piece : large.pieces) {
      CKPT_ASSIGN(const Shape said, shape_of(piece.shape));
      CKPT_ASSIGN(const PtTensor* tensor, elements_at(piece.elements));
      if (!(said == shape)) return unlike(piece, first, name, "shape", to_text(shape), to_text(said));
      if (tensor->dtype != of_first->dtype)
        return unlike(piece, first, name, "dtype", dtype_name(of_first->dtype), dtype_name(tensor->dtype));
      const uint64_t size = tensor->elements();
      cut.pieces.push_back({{RegionKind::kFlat, {}, at_element, size},
                            state_.files.range_of(tensor->bytes()),
                            std::nullopt,
                            static_cast<uint32_t>(piece.shape.part)});
      if (add_overflows(at_element, size, &at_element)) at_element = UINT64_MAX;
    }
    if (at_element == *elements) return Ok();
    return wrong(first.shape, strformat("cut tensor {} of shape {}: expected {} elements in all parts, found {}",
                                        shown(name), to_text(shape), *elements, at_element))
        .with("tensor", name)
        .with("expected", *elements)
        .with("found", at_element);
  }

  Status unlike(const Piece& piece, const Piece& first, const std::string& name, const char* what,
                const std::string& expected, const std::string& found) const {
    return wrong(piece.shape, "cut tensor " + shown(name) + ": " + what + ": expected " + expected + " as in " +
                                  parts_[first.shape.part].name + ", found " + found)
        .with("tensor", name)
        .with("expected", expected)
        .with("found", found);
  }

  Result<const PtTensor*> elements_at(Place place) const {
    if (at(place).kind != CKPT_NODE_TENSOR) return wrong(place, "expected a plain tensor with elements in a row");
    const auto& places = tensors_[place.part];
    const auto found = places.find(std::string(at(place).text_view()));
    if (found == places.end()) return wrong(place, "no such tensor");
    const PtTensor& tensor = parts_[place.part].content.tensors[found->second].tensor;
    if (tensor.shape.ndim != 1 || !tensor.contiguous() || dtype_bits(tensor.dtype) % 8 != 0)
      return wrong(place, "expected a tensor of one dimension without gaps, found shape " + to_text(tensor.shape));
    return &tensor;
  }

  // torch.Size, or a plain tuple.
  Result<Shape> shape_of(Place place) const {
    const Tree& tree = parts_[place.part].tree();
    uint32_t list = place.node;
    if (at(place).kind == CKPT_NODE_RECORD && at(place).text_view() == "torch.Size") list = tree.find(list, "items");
    if (list == kNoNode || (tree[list].kind != CKPT_NODE_TUPLE && tree[list].kind != CKPT_NODE_LIST))
      return wrong(place, "expected a shape");
    if (tree[list].child_count > static_cast<uint32_t>(kMaxNdim))
      return wrong(place, strformat("{} dimensions, at most {}", tree[list].child_count, kMaxNdim));
    Shape shape;
    for (uint32_t child = tree.first_child(list); child != kNoNode; child = tree[child].next) {
      if (tree[child].kind != CKPT_NODE_INT || tree[child].integer < 0) return wrong(place, "expected a shape");
      shape[shape.ndim++] = static_cast<uint64_t>(tree[child].integer);
    }
    return shape;
  }

  // ---- what shares memory inside a part ----

  void share(size_t part) {
    std::vector<NamedPtTensor> kept;
    for (NamedPtTensor& tensor : parts_[part].content.tensors) {
      const auto found = renamed_[part].find(tensor.name);
      if (found == renamed_[part].end()) continue;
      kept.push_back({found->second, tensor.tensor});
      // Storages of other parts have the same keys.
      if (part > 0) kept.back().tensor.storage_key = "PART" + std::to_string(part) + '_' + tensor.tensor.storage_key;
    }
    const size_t before = state_.tensors.size();
    for (ForeignTensor& tensor :
         plan_sharing(std::move(kept), parts_[part].source->file_bytes(), state_.files, static_cast<uint32_t>(part))) {
      if (tensor.is_alias()) tensor.target += before;
      state_.tensors.push_back(std::move(tensor));
    }
  }

  std::vector<HfaiPart>& parts_;
  std::vector<std::unordered_map<std::string, size_t>> tensors_;       // by part: by name
  std::vector<std::unordered_map<std::string, std::string>> renamed_;  // by part: of those that are in the tree
  std::unordered_set<std::string> names_;
  const std::vector<const Large*>* added_ = nullptr;
  Tree tree_;
  std::vector<ForeignTensor> cut_;
  ForeignCheckpoint& state_;
};

}  // namespace

Result<ForeignCheckpoint> read_hfai(const std::string& path, const ReadOptions& options) {
  ForeignCheckpoint state;
  state.format = "hfai";
  CKPT_ASSIGN(std::vector<HfaiPart> parts, open_hfai_parts(path, options, state.files));
  state.ranks = static_cast<uint32_t>(parts.size());
  if (const Status status = Merger(parts, state).run(); !status.ok()) {
    // What is wrong with a tree that files asked for is wrong with the files.
    return status.code() == CKPT_INVALID ? Status(CKPT_FORMAT, status.message()) : status;
  }
  size_t unchecked = 0;
  for (const HfaiPart& part : parts) {
    unchecked += part.source->unchecked();
    state.keep.push_back(part.source);
  }
  state.attributes = import_attributes("hfai", unchecked);
  return state;
}

}  // namespace ckpt::interop
