// The state tree of a checkpoint whose tensors were left out, renamed, cut or put together; and names without what
// wrappers of a module put into them.
#include <algorithm>
#include <map>
#include <set>

#include "interop/src/json.h"
#include "interop/src/map/change.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

constexpr uint64_t kMostPaths = 1 << 30;  // bytes of them that are made to choose by

// Fields that have no segment in the names of tensors (STATE_TREE.md §5).
bool is_silent(const TreeNode& record, std::string_view key) {
  const std::string_view name = record.text_view();
  if (name == "collections.OrderedDict" || name == "builtins.dict") return key == "items";
  return name == "collections.defaultdict" ? key == "entries" : key == "data";
}

std::string_view place_above(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}
std::string_view last_segment(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

// The key that a segment was made of.
std::string unescape(std::string_view segment) {
  if (segment == "~e") return "";
  if (segment.starts_with("~s")) segment.remove_prefix(2);
  std::string key;
  for (size_t i = 0; i < segment.size(); i++) {
    const char next = segment[i] == '~' && i + 1 < segment.size() ? segment[i + 1] : '\0';
    if (next == '0' || next == '1' || next == 'd') {
      key += next == '0' ? '~' : next == '1' ? '/' : '.';
      i++;
    } else if (next == 'x' && i + 3 < segment.size()) {
      key += static_cast<char>(hex_digit(segment[i + 2]) * 16 + hex_digit(segment[i + 3]));
      i += 3;
    } else {
      key += segment[i];
    }
  }
  return key;
}

class TreeChanger {
 public:
  TreeChanger(const Tree& in, const NewNames& names, const Selection& selection, std::set<std::string>* found)
      : in_(in), names_(names), selection_(selection), found_(found), kept_(in.size(), false) {}

  Result<Tree> run() {
    for (const auto& [old, now] : names_)
      for (const std::string& name : now) parents_.insert(place_above(name));
    look(0, "");
    CKPT_TRY(check_spent());
    kept_[0] = true;
    for (const auto& [parent, moves] : moved_)
      if (!dicts_.contains(parent)) new_dicts_.push_back(parent);
    CKPT_TRY(put(0, "", nullptr));
    CKPT_TRY(check_spent());
    for (const auto& [parent, moves] : moved_)
      if (!placed_.contains(parent)) return no_place(moves[0].second);
    return std::move(out_);
  }

 private:
  using Move = std::pair<uint32_t, std::string>;  // what stands under a key, and its tensor's new name

  static Status no_place(const std::string& name) {
    return Status(CKPT_UNSUPPORTED, "the state has no place for tensor " + shown(name)).with("tensor", name);
  }

  Status check_spent() {
    if (std::exchange(spent_, 0) <= kMostPaths) return Ok();
    return Status(CKPT_UNSUPPORTED, "the keys of the state are so long that its paths would be many times its size");
  }

  // What is longer than any name is no tensor's, and what is below is chosen with it: paths of a few long keys would
  // be many times the tree.
  std::string path_in(uint32_t parent, const std::string& path, uint32_t child) {
    const TreeNode& node = in_[child];
    spent_ += path.size();
    if (spent_ > kMostPaths) return {};
    if (path.size() > kMaxName) return path;
    if (in_[parent].kind == CKPT_NODE_RECORD && is_silent(in_[parent], node.key_view())) return path;
    if (node.key_size > kMaxName) return std::string(kMaxName + 1, '~');  // what no path looks like
    const std::string segment =
        node.key_kind == CKPT_KEY_TEXT ? tree::path_segment(node.key_view()) : std::to_string(node.place);
    return path.empty() ? segment : path + '/' + segment;
  }

  // The tensor that a value is, or that its record is about; kNoNode.
  uint32_t tensor_of(uint32_t node) const {
    if (in_[node].kind == CKPT_NODE_TENSOR) return node;
    if (in_[node].kind != CKPT_NODE_RECORD || !is_silent(in_[node], "data")) return kNoNode;
    const uint32_t data = in_.find(node, "data");
    return data != kNoNode ? tensor_of(data) : kNoNode;
  }

  const std::vector<std::string>* new_names(uint32_t tensor) const {
    const auto found = names_.find(in_[tensor].text_view());
    return found == names_.end() ? nullptr : &found->second;
  }

  // ---- what stays ----

  bool look(uint32_t node, const std::string& path) {
    const TreeNode& at = in_[node];
    if (at.kind == CKPT_NODE_TENSOR) {
      const auto* now = new_names(node);
      return kept_[node] = !now || !now->empty();
    }
    selection_.note(path, found_);
    if (!at.container()) return kept_[node] = selection_.keeps(path);
    bool any = false, whole = true;
    for (uint32_t child = in_.first_child(node); child != kNoNode; child = in_[child].next) {
      const std::string below = path_in(node, path, child);
      any |= look(child, below);
      whole &= kept_[child] || tensor_of(child) == kNoNode;
      if (at.kind == CKPT_NODE_DICT) note_moves(child, path, below);
    }
    if (const auto wanted = parents_.find(path); at.kind == CKPT_NODE_DICT && wanted != parents_.end())
      dicts_.insert(*wanted);
    // A record is nothing without its tensor.
    if (at.kind == CKPT_NODE_RECORD && !whole) return false;
    return kept_[node] = any || selection_.keeps(path);
  }

  void note_moves(uint32_t child, const std::string& path, const std::string& below) {
    const uint32_t tensor = tensor_of(child);
    if (tensor == kNoNode || in_[tensor].text_view() != below) return;
    if (const auto* now = new_names(tensor))
      for (const std::string& name : *now)
        if (place_above(name) != path) moved_[std::string(place_above(name))].emplace_back(child, name);
  }

  // ---- the new tree ----

  Status put_key(const TreeNode& node) {
    if (node.key_kind == CKPT_KEY_NONE) return Ok();
    return checked(node.key_kind == CKPT_KEY_INT ? out_.key(node.place) : out_.key(node.key_view()));
  }
  Status put_segment(std::string_view segment) {
    const bool number = !segment.empty() && segment.size() < 19 &&
                        segment.find_first_not_of("0123456789") == segment.npos &&
                        (segment == "0" || segment[0] != '0');
    return checked(number ? out_.key(static_cast<int64_t>(std::stoll(std::string(segment))))
                          : out_.key(unescape(segment)));
  }
  // What names of files ask for is wrong with the files.
  static Status checked(const Status& status) {
    return status.code() == CKPT_INVALID ? Status(CKPT_FORMAT, status.message()) : status;
  }

  // `name`: what its tensor is called now; null: as `names` say.
  Status put(uint32_t node, const std::string& path, const std::string* name) {
    const TreeNode& at = in_[node];
    if (at.container()) return put_container(node, path, name);
    return at.kind == CKPT_NODE_TENSOR ? put_tensor(node, name) : tree::copy_node(in_, node, out_);
  }

  Status put_tensor(uint32_t node, const std::string* name) {
    if (name) return checked(out_.add_tensor(*name));
    const auto* now = new_names(node);
    if (!now) return out_.add_tensor(in_[node].text_view());
    if (now->size() == 1) return checked(out_.add_tensor(now->front()));
    return no_place(now->back());
  }

  Status put_container(uint32_t node, const std::string& path, const std::string* name) {
    const TreeNode& at = in_[node];
    CKPT_TRY(checked(at.kind == CKPT_NODE_RECORD ? out_.begin(at.kind, at.text_view()) : out_.begin(at.kind)));
    for (uint32_t child = in_.first_child(node); child != kNoNode; child = in_[child].next) {
      const std::string below = path_in(node, path, child);
      if (at.kind == CKPT_NODE_DICT) {
        CKPT_TRY(put_entry(child, path, below));
      } else if (at.kind == CKPT_NODE_RECORD) {
        if (!kept_[child] && in_[child].container()) continue;
        CKPT_TRY(put_key(in_[child]));
        CKPT_TRY(put(child, below, is_silent(at, in_[child].key_view()) ? name : nullptr));
      } else {
        CKPT_TRY(kept_[child] ? put(child, below, nullptr) : out_.add_null());  // the others keep their places
      }
    }
    if (at.kind == CKPT_NODE_DICT) CKPT_TRY(put_moved(path));
    return checked(out_.end());
  }

  // An entry of a dict: once for each tensor that its tensor became, as far as those stand here.
  Status put_entry(uint32_t child, const std::string& path, const std::string& below) {
    if (!kept_[child]) return Ok();
    const uint32_t tensor = tensor_of(child);
    const auto* now = tensor == kNoNode ? nullptr : new_names(tensor);
    if (!now || in_[tensor].text_view() != below) {
      CKPT_TRY(put_key(in_[child]));
      return put(child, below, nullptr);
    }
    for (const std::string& name : *now) {
      if (place_above(name) != path) continue;
      CKPT_TRY(name == below ? put_key(in_[child]) : put_segment(last_segment(name)));
      CKPT_TRY(put(child, below, &name));
    }
    return Ok();
  }

  Status put_moves(const std::string& parent) {
    placed_.insert(parent);
    for (const auto& [child, name] : moved_[parent]) {
      CKPT_TRY(put_segment(last_segment(name)));
      CKPT_TRY(put(child, name, &name));
    }
    return Ok();
  }

  Status put_moved(const std::string& path) {
    if (moved_.contains(path) && !placed_.contains(path)) CKPT_TRY(put_moves(path));
    if (!path.empty()) return Ok();
    for (const std::string& parent : std::exchange(new_dicts_, {})) {
      size_t opened = 0;
      for (std::string_view rest = parent;; opened++) {
        const size_t slash = rest.find('/');
        CKPT_TRY(put_segment(rest.substr(0, slash)));
        CKPT_TRY(checked(out_.begin(CKPT_NODE_DICT)));
        if (slash == rest.npos) break;
        rest.remove_prefix(slash + 1);
      }
      CKPT_TRY(put_moves(parent));
      for (size_t i = 0; i <= opened; i++) CKPT_TRY(checked(out_.end()));
    }
    return Ok();
  }

  const Tree& in_;
  const NewNames& names_;
  const Selection& selection_;
  std::set<std::string>* found_;  // globs that mean something
  Tree out_;
  std::vector<bool> kept_;
  std::set<std::string_view> parents_, dicts_;  // where tensors are to stand; those of these that are dicts
  std::set<std::string, std::less<>> placed_;
  uint64_t spent_ = 0;                              // bytes of paths
  std::map<std::string, std::vector<Move>> moved_;  // by the place of the dict
  std::vector<std::string> new_dicts_;
};

// torch.compile, activation checkpointing and FSDP put a word before the name of whatever module they wrap.
// DistributedDataParallel and DataParallel wrap the whole, by a word that a module may have itself.
constexpr std::string_view kWrappers[] = {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"};
constexpr std::string_view kAround = "module.";

// "a.w" of "_orig_mod.a._checkpoint_wrapped_module.w"; the last word stays.
std::string unwrapped(std::string_view key) {
  std::string name;
  for (;;) {
    const size_t end = key.find('.');
    const std::string_view word = key.substr(0, end);
    if (end == key.npos) return name.append(word);
    if (std::ranges::find(kWrappers, word) == std::end(kWrappers)) name.append(word) += '.';
    key.remove_prefix(end + 1);
  }
}

// What the keys of a dict become; the same where two would be one.
std::vector<std::string> unwrapped(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) names.push_back(unwrapped(key));
  const auto is_around = [](const std::string& name) { return name.starts_with(kAround); };
  while (!names.empty() && std::ranges::all_of(names, is_around))
    for (std::string& name : names) name.erase(0, kAround.size());
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? names : keys;
}

class Unwrapper {
 public:
  explicit Unwrapper(const Tree& in) : in_(in) {}

  Result<Tree> run() {
    for (uint32_t node = 0; node < in_.size(); node++)
      if (in_[node].kind == CKPT_NODE_TENSOR)
        for (uint32_t above = in_[node].parent; above != kNoNode && holders_.insert(above).second;)
          above = in_[above].parent;
    for (const uint32_t node : holders_)
      if (in_[node].kind == CKPT_NODE_DICT) note(node);
    CKPT_TRY(put(0, "", ""));
    return std::move(out_);
  }
  std::map<std::string, std::string, std::less<>> names;  // of tensors, by those that they had

 private:
  void note(uint32_t dict) {
    std::vector<std::string> keys;
    std::vector<uint32_t> children;
    for (uint32_t child = in_.first_child(dict); child != kNoNode; child = in_[child].next)
      if (in_[child].key_kind == CKPT_KEY_TEXT) {
        keys.emplace_back(in_[child].key_view());
        children.push_back(child);
      }
    const std::vector<std::string> now = unwrapped(keys);
    for (size_t i = 0; i < keys.size(); i++)
      if (now[i] != keys[i]) {
        keys_[children[i]] = now[i];
        texts_.emplace(keys[i], now[i]);
      }
  }

  // `path` in the tree as it was, `now` as it is.
  Status put(uint32_t number, const std::string& path, const std::string& now) {
    const TreeNode& node = in_[number];
    if (node.kind == CKPT_NODE_TENSOR) {
      const std::string name = node.text_view() == path ? now : std::string(node.text_view());
      return out_.add_tensor(names.emplace(node.text_view(), name).first->second);
    }
    // An optimizer's list of the names of its parameters.
    const auto text = node.kind == CKPT_NODE_TEXT ? texts_.find(node.text_view()) : texts_.end();
    if (text != texts_.end()) return out_.add_text(text->second);
    if (!node.container()) return tree::copy_node(in_, number, out_);
    CKPT_TRY(node.kind == CKPT_NODE_RECORD ? out_.begin(node.kind, node.text_view()) : out_.begin(node.kind));
    for (uint32_t child = in_.first_child(number); child != kNoNode; child = in_[child].next) {
      const TreeNode& below = in_[child];
      const auto key = keys_.find(child);
      std::string old_segment = std::to_string(below.place), segment = old_segment;
      if (below.key_kind == CKPT_KEY_INT) CKPT_TRY(out_.key(below.place));
      if (below.key_kind == CKPT_KEY_TEXT) {
        const std::string_view name = key == keys_.end() ? below.key_view() : std::string_view(key->second);
        CKPT_TRY(out_.key(name));
        old_segment = tree::path_segment(below.key_view());
        segment = tree::path_segment(name);
      }
      const bool silent = node.kind == CKPT_NODE_RECORD && is_silent(node, below.key_view());
      CKPT_TRY(put(child, silent ? path : joined(path, old_segment), silent ? now : joined(now, segment)));
    }
    return out_.end();
  }

  static std::string joined(const std::string& path, const std::string& segment) {
    return path.empty() ? segment : path + '/' + segment;
  }

  const Tree& in_;
  Tree out_;
  std::set<uint32_t> holders_;                             // containers with tensors in them
  std::map<uint32_t, std::string> keys_;                   // by child
  std::map<std::string, std::string, std::less<>> texts_;  // by what was a key
};

}  // namespace

bool is_wrapped(std::string_view name) {
  const std::string_view key = last_segment(name);
  return key.starts_with(kAround) || unwrapped(key) != key;
}

Status unwrap_names(ForeignCheckpoint& content) {
  std::map<std::string, std::string, std::less<>> names;
  if (content.tree) {
    Unwrapper unwrapper(*content.tree);
    Result<Tree> tree = unwrapper.run();
    if (!tree.ok()) return Status(CKPT_FORMAT, tree.status().message());
    content.tree = tree.take();
    names = std::move(unwrapper.names);
  } else {
    std::vector<std::string> keys;
    for (const ForeignTensor& tensor : content.tensors) keys.push_back(tensor.name);
    const std::vector<std::string> now = unwrapped(keys);
    for (size_t i = 0; i < keys.size(); i++) names.emplace(keys[i], now[i]);
  }
  for (ForeignTensor& tensor : content.tensors)
    if (const auto found = names.find(tensor.name); found != names.end()) tensor.name = found->second;
  return Ok();
}

Result<Tree> changed_tree(const Tree& tree, const NewNames& names, const Selection& selection,
                          std::set<std::string>* found) {
  return TreeChanger(tree, names, selection, found).run();
}

std::map<std::string, std::string> dotted_names(const Tree& tree, const std::string& below) {
  std::map<std::string, std::string> names;
  for (uint32_t leaf = 0; leaf < tree.size(); leaf++) {
    if (tree[leaf].kind != CKPT_NODE_TENSOR || !tree[leaf].text_view().starts_with(below)) continue;
    std::vector<std::string> segments;
    size_t size = 0;  // what is longer than the name is not its path
    for (uint32_t node = leaf; tree[node].parent != kNoNode && size <= kMaxName; node = tree[node].parent) {
      const TreeNode& above = tree[tree[node].parent];
      if (above.kind == CKPT_NODE_RECORD && is_silent(above, tree[node].key_view())) continue;
      size += tree[node].key_size;
      if (size > kMaxName) break;
      segments.push_back(tree[node].key_kind == CKPT_KEY_TEXT ? tree::path_segment(tree[node].key_view())
                                                              : std::to_string(tree[node].place));
    }
    if (size > kMaxName) continue;
    std::string path, dotted;
    for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
      if (path.size() >= below.size()) dotted += (path.size() == below.size() ? "" : ".") + unescape(*segment);
      path += *segment + '/';
    }
    if (path.size() == tree[leaf].text_size + 1 && path.starts_with(tree[leaf].text_view()))
      names[std::string(tree[leaf].text_view())] = dotted;
  }
  return names;
}

}  // namespace ckpt::interop
