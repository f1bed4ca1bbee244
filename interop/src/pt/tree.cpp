#include "interop/src/pt/tree.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "interop/src/json.h"
#include "interop/src/pickle/names.h"
#include "interop/src/pt/tree_maker.h"

namespace ckpt::interop {

namespace {

uint64_t edges_of(const PickleDocument& pickle) {
  uint64_t edges = pickle.size();
  for (PickleRef ref = 0; ref < pickle.size(); ref++) edges += pickle[ref].items.size() + pickle[ref].entries().size();
  return edges;
}

bool is_plain_key(const PickleValue& key) { return key.kind == PickleKind::kText || key.kind == PickleKind::kInt; }

constexpr uint64_t kNodesOfCannot = 8;  // what a record of kCannotClass has at most

// What is wrong with a tree that a file asked for is wrong with the file.
Status blame(Status status) {
  return status.code() == CKPT_INVALID ? Status(CKPT_FORMAT, status.message()) : std::move(status);
}

}  // namespace

Result<PtTree> make_tree(const PtSource& source, SpareTree& spare, std::string at, const TakeObject& take) {
  TreeMaker maker(source, spare, std::move(at), take);
  Status status = maker.run();
  if (!status.ok()) return std::move(status).in(source.path()).with("path", source.path());
  return std::move(maker).take();
}

TreeMaker::TreeMaker(const PtSource& source, SpareTree& spare, std::string at, const TakeObject& take)
    : source_(source),
      pickle_(source.pickle()),
      take_(take),
      open_(pickle_.size()),
      path_{std::move(at)},
      spare_(spare),
      nodes_left_(2 * edges_of(pickle_)),
      text_left_(16 * uint64_t{source.pickle_bytes()}) {}

Status TreeMaker::run() {
  if (pickle_.root() == kNoValue) return Status(CKPT_FORMAT, "an empty pickle");
  CKPT_TRY(blame(value(pickle_.root())));
  // What a dict forgot or nobody holds is in no place that could be left out.
  if (!refused_) CKPT_TRY(pickle_.refused());
  return cannot_ ? Ok() : source_.damage();
}

Status TreeMaker::refuse(ckpt_status code, const std::string& what) const {
  const std::string place = where();
  return Status(code, place.empty() ? what : "at " + shown(place) + ": " + what).with("tensor", place);
}

static bool take_from(uint64_t* own, uint64_t* spare, uint64_t amount) {
  const uint64_t first = std::min(*own, amount);
  *own -= first;
  if (amount - first > *spare) return false;
  *spare -= amount - first;
  return true;
}

Status TreeMaker::refuse_name(const std::string& why, const std::string& found) {
  refused_ = true;
  return refuse(CKPT_UNSUPPORTED, why).with("found", found);
}

Status TreeMaker::spend(uint64_t nodes, uint64_t text) {
  spent_ |= !take_from(&nodes_left_, &spare_.nodes, nodes) || !take_from(&text_left_, &spare_.text, text);
  if (spent_)
    return refuse(CKPT_UNSUPPORTED, "the pickle repeats values so often that its tree would be many times its size");
  return Ok();
}

// ---- paths ----

std::string TreeMaker::where(size_t segments) const {
  std::string path;
  for (const std::string& segment : std::span(path_).first(segments))
    if (!segment.empty()) path += path.empty() ? segment : '/' + segment;
  return path;
}

std::string TreeMaker::tensor_name() const {
  const std::string path = where();
  return path.empty() ? CKPT_TREE_OBJECT : path;
}

// A tensor of the path where we are; its name.
Result<std::string> TreeMaker::add_leaf() {
  std::string name = tensor_name();
  CKPT_TRY(spend(0, name.size()));
  if (name.size() > kMaxName)
    return refuse(CKPT_UNSUPPORTED, strformat("a tensor's path of {} bytes, at most {}", name.size(), kMaxName));
  if (!names_.insert(name).second) return refuse(CKPT_UNSUPPORTED, "two tensors have this path");
  CKPT_TRY(out_.tree.add_tensor(name));
  return name;
}

Status TreeMaker::leaf(PtTensor tensor) {
  CKPT_ASSIGN(std::string name, add_leaf());
  out_.tensors.push_back({std::move(name), std::move(tensor)});
  return Ok();
}

Result<bool> TreeMaker::taken(PickleRef ref) {
  if (!take_) return false;
  Result<bool> took = take_(ref, [this] { return tensor_name(); });
  if (!took.ok()) return refuse(took.status().code(), took.status().message());
  if (*took) CKPT_TRY(add_leaf().status());
  return took;
}

// ---- values ----

Status TreeMaker::value(PickleRef ref) {
  CKPT_TRY(spend(1, 0));
  if (open_[ref] != 0) return place({where(walked_[open_[ref] - 1].path), open_[ref]});
  if (const auto known = circular_.find(ref); known != circular_.end()) return place(known->second);
  const size_t nodes = out_.tree.size(), open = out_.tree.depth(), segments = path_.size();
  walked_.push_back({segments, static_cast<uint32_t>(walked_.size() + 1), in_circles_.size()});
  open_[ref] = static_cast<uint32_t>(walked_.size());
  // Containers are counted by the tree; notes of a type inside each other are not.
  Status status = walked_.size() > size_t{2} * CKPT_TREE_MAX_DEPTH
                      ? refuse(CKPT_UNSUPPORTED, "values too deep inside each other")
                      : value_of(ref);
  path_.resize(segments);
  leave(ref);
  if (const PickleValue* argument = status.ok() ? nullptr : refused_argument(ref))
    status = refuse_name(std::string(argument->refused()), std::string(argument->object->found));
  return status.ok() || spent_ ? status : cannot(status, nodes, open);
}

// Why an object could not be had, perhaps: a storage in bytes of its own, say, of a tensor that pickle.dump wrote.
const PickleValue* TreeMaker::refused_argument(PickleRef ref) const {
  if (pickle_[ref].args() == kNoValue) return nullptr;
  for (const PickleRef argument : pickle_[pickle_[ref].args()].items)
    if (!pickle_[argument].refused().empty()) return &pickle_[argument];
  return nullptr;
}

// Values that hold each other are walked once, from the first of them on.
void TreeMaker::leave(PickleRef ref) {
  const Walked left = walked_.back();
  walked_.pop_back();
  if (left.lowest < std::exchange(open_[ref], 0)) {
    circular_[ref] = {where(left.path), left.lowest};
    in_circles_.push_back(ref);
    walked_.back().lowest = std::min(walked_.back().lowest, left.lowest);
    return;
  }
  for (; in_circles_.size() > left.circles; in_circles_.pop_back()) circular_.erase(in_circles_.back());
}

// In the place of a value that stands elsewhere, and holds this place.
Status TreeMaker::place(const Place& of) {
  walked_.back().lowest = std::min(walked_.back().lowest, of.lowest);
  return record(kPlaceClass, [&] { return field_text("path", of.path); });
}

// In the place of a value that failed: why, for whoever keeps it (reader.h). What was begun is ended, and has it
// inside. Where containers are as deep as can be, it stands further out.
Status TreeMaker::cannot(const Status& why, size_t nodes, size_t open) {
  tree::Tree& tree = out_.tree;
  const std::string message = source_.path() + ": " + why.message();
  if (!spend(kNodesOfCannot, message.size()).ok()) return why;
  bool told = false;
  for (;;) {
    const bool takes_one = tree.depth() > open || tree.size() == nodes;
    if (!told && takes_one && tree.depth() < CKPT_TREE_MAX_DEPTH) {
      if (tree.wants_key()) CKPT_TRY(tree.key("~"));
      CKPT_TRY(put_cannot(tree, Status(blame(why)).with("path", source_.path()), message));
      told = cannot_ = true;
    }
    if (tree.depth() <= open) return told ? Ok() : why;
    if (tree.has_key()) CKPT_TRY(tree.add_null());
    CKPT_TRY(tree.end());
  }
}

Status TreeMaker::value_of(PickleRef ref) {
  const PickleValue& value = pickle_[ref];
  if (const std::string_view why = value.refused(); !why.empty())
    return refuse_name(std::string(why), std::string(value.object->found));
  switch (value.kind) {
    case PickleKind::kList:
      return sequence(CKPT_NODE_LIST, value.items);
    case PickleKind::kTuple:
      return sequence(CKPT_NODE_TUPLE, value.items);
    case PickleKind::kSet:
      return sequence(CKPT_NODE_SET, value.items);
    case PickleKind::kFrozenSet:
      return record("builtins.frozenset",
                    [&] { return field("items", [&] { return sequence(CKPT_NODE_SET, value.items); }); });
    case PickleKind::kByteArray:
      return record("builtins.bytearray", [&] {
        return field("value", [&]() -> Status {
          CKPT_TRY(spend(1, value.text.size()));
          return out_.tree.add_bytes(as_bytes(value.text));
        });
      });
    case PickleKind::kDict:
      return dict(value.items);
    case PickleKind::kName:
      if (value.integer == static_cast<int64_t>(NameRule::kRefused))
        return refuse_name("the pickle names " + dotted(value.text) + ", which is not data", dotted(value.text));
      return name(value.text);
    case PickleKind::kSurrogates:
      return surrogates(value.text);
    case PickleKind::kPersistent:
      return persistent(ref);
    case PickleKind::kObject:
      return object(ref);
    default:
      return scalar(value);
  }
}

Status TreeMaker::scalar(const PickleValue& value) {
  CKPT_TRY(spend(0, value.text.size()));
  switch (value.kind) {
    case PickleKind::kNone:
      return out_.tree.add_null();
    case PickleKind::kBool:
      return out_.tree.add_bool(value.integer != 0);
    case PickleKind::kInt:
      return out_.tree.add_int(value.integer);
    case PickleKind::kBigInt:
      return out_.tree.add_bigint(value.text);
    case PickleKind::kFloat:
      return out_.tree.add_float(value.real);
    case PickleKind::kText:
      return out_.tree.add_text(value.text);
    default:
      return out_.tree.add_bytes(as_bytes(value.text));
  }
}

// str(bytes, "utf-8", "surrogatepass")
Status TreeMaker::surrogates(std::string_view text) {
  CKPT_TRY(spend(3, text.size()));
  return record("builtins.str", [&] {
    return field("args", [&] {
      return container(CKPT_NODE_TUPLE, {}, [&]() -> Status {
        CKPT_TRY(out_.tree.add_bytes(as_bytes(text)));
        CKPT_TRY(out_.tree.add_text("utf-8"));
        return out_.tree.add_text("surrogatepass");
      });
    });
  });
}

Status TreeMaker::container(int kind, std::string_view class_name, const Body& body) {
  CKPT_TRY(spend(1, class_name.size()));
  CKPT_TRY(out_.tree.begin(kind, class_name));  // refuses what is too deep
  CKPT_TRY(body());
  return out_.tree.end();
}

Status TreeMaker::sequence(int kind, const std::span<const PickleRef> items) {
  return container(kind, {}, [&]() -> Status {
    path_.emplace_back();
    for (size_t i = 0; i < items.size(); i++) {
      path_.back() = std::to_string(i);
      CKPT_TRY(value(items[i]));
    }
    path_.pop_back();
    return Ok();
  });
}

Status TreeMaker::field(std::string_view key, const Body& body, bool silent) {
  CKPT_TRY(spend(0, key.size()));
  CKPT_TRY(out_.tree.key(key));
  path_.push_back(silent ? std::string() : tree::path_segment(key));
  CKPT_TRY(body());
  path_.pop_back();
  return Ok();
}

Status TreeMaker::field_text(std::string_view key, std::string_view text) {
  CKPT_TRY(spend(1, key.size() + text.size()));
  CKPT_TRY(out_.tree.key(key));
  return out_.tree.add_text(text);
}

Status TreeMaker::field_bool(std::string_view key, bool flag) {
  CKPT_TRY(spend(1, key.size()));
  CKPT_TRY(out_.tree.key(key));
  return out_.tree.add_bool(flag);
}

// ---- dicts ----

// As Python fills a dict: a key keeps the place where it came first and the value that came last.
Result<TreeMaker::KeyRefs> TreeMaker::without_repeats(const std::span<const PickleRef> items) {
  CKPT_TRY(spend(items.size() / 2, 0));  // what is left may be one entry of a million
  KeyRefs entries;
  std::unordered_map<std::string_view, size_t, SeededHash> texts;
  std::unordered_map<int64_t, size_t, SeededHash> numbers;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue& key = pickle_[items[i]];
    size_t place = entries.size();
    if (key.kind == PickleKind::kText)
      place = texts.try_emplace(key.text, place).first->second;
    else
      place = numbers.try_emplace(key.integer, place).first->second;
    if (place == entries.size())
      entries.emplace_back(items[i], items[i + 1]);
    else
      entries[place].second = items[i + 1];
  }
  return entries;
}

Status TreeMaker::dict(const std::span<const PickleRef> items) {
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (!is_plain_key(pickle_[items[i]])) return pairs_dict(items);
  CKPT_ASSIGN(const KeyRefs entries, without_repeats(items));
  return plain_dict(entries);
}

Status TreeMaker::plain_dict(const KeyRefs& entries) {
  return container(CKPT_NODE_DICT, {}, [&]() -> Status {
    path_.emplace_back();
    for (const auto& [key, entry] : entries) {
      CKPT_TRY(key_of(pickle_[key]));
      CKPT_TRY(value(entry));
    }
    path_.pop_back();
    return Ok();
  });
}

Status TreeMaker::key_of(const PickleValue& key) {
  if (key.kind == PickleKind::kInt) {
    path_.back() = std::to_string(key.integer);
    return out_.tree.key(key.integer);
  }
  CKPT_TRY(spend(0, key.text.size()));
  path_.back() = tree::path_segment(key.text);
  return out_.tree.key(key.text);
}

// Keys of other kinds: [(key, value), …].
Status TreeMaker::pairs_dict(const std::span<const PickleRef> items) {
  return record("builtins.dict", [&] {
    return field(
        "items",
        [&] {
          return container(CKPT_NODE_LIST, {}, [&]() -> Status {
            path_.emplace_back();
            for (size_t i = 0; i + 1 < items.size(); i += 2) {
              path_.back() = std::to_string(i / 2);
              CKPT_TRY(sequence(CKPT_NODE_TUPLE, items.subspan(i, 2)));
            }
            path_.pop_back();
            return Ok();
          });
        },
        true);
  });
}

}  // namespace ckpt::interop
