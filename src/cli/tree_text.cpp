#include "cli/tree_text.h"

#include <algorithm>
#include <vector>

#include "cli/error.h"
#include "cli/json.h"
#include "cli/text.h"

namespace cli {
namespace {

constexpr uint64_t kInlineNodes = 12;  // a container of at most so many nodes may be shown on one line
constexpr size_t kInlineWidth = 72, kLongestText = 60, kLongestDigits = 40;

// The first `longest` bytes of `text`, not cut inside a character.
std::string cut(std::string_view text, size_t longest) {
  if (text.size() <= longest) return std::string(text);
  size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string float_text(double value) {
  std::string text = shortest(value);
  return is_integer(text) ? text + ".0" : text;
}

std::string text_text(std::string_view text) {
  std::string shown = "\"" + escaped(cut(text, kLongestText)) + "\"";
  return text.size() > kLongestText ? strformat("{} ({})", shown, counted(text.size(), "byte")) : shown;
}

class Outline {
 public:
  Outline(ckpt::TreeView tree, const TensorText& tensor, uint64_t max_lines)
      : tree_(tree), tensor_(tensor), max_lines_(max_lines), count_(tree.size()) {
    if (count_ == 0) invalid("the tree is empty");
    measure();
    choose_depth();
  }

  std::string text() const {
    std::string out;
    uint64_t lines = 0, shown = 0;
    for (uint64_t i = 0; i < count_ && lines < max_lines_;) {
      bool whole = false;
      out += std::string(size_t{2} * depths_[i], ' ') + line(tree_.at(i), &whole) + "\n";
      ++lines;
      bool skip = whole || depths_[i] == max_depth_;
      shown += whole ? sizes_[i] : 1;
      i += skip ? sizes_[i] : 1;
    }
    if (shown < count_) out += strformat("… {} more of {}\n", count_ - shown, counted(count_, "node"));
    return out;
  }

 private:
  // For each node: its depth, the number of nodes of its subtree, and whether one of them is a tensor.
  void measure() {
    sizes_.assign(count_, 1);
    depths_.assign(count_, 0);
    tensors_.assign(count_, false);
    std::vector<uint64_t> parents(count_);
    for (uint64_t i = 0; i < count_; ++i) {
      const ckpt::Node node = tree_.at(i);
      parents[i] = node.parent;
      tensors_[i] = node.kind == CKPT_NODE_TENSOR;
      if (i > 0) depths_[i] = static_cast<uint8_t>(depths_[node.parent] + 1);
    }
    for (uint64_t i = count_; i-- > 1;) {
      sizes_[parents[i]] += sizes_[i];
      if (tensors_[i]) tensors_[parents[i]] = true;
    }
  }

  // Sets max_depth_ to the deepest level at which all lines fit; at least the root's children.
  void choose_depth() {
    std::vector<uint64_t> lines(CKPT_TREE_MAX_DEPTH + 1, 0);
    for (uint64_t i = 0; i < count_;) {
      ++lines[depths_[i]];
      i += inline_text(tree_.at(i)) ? sizes_[i] : 1;
    }
    uint64_t sum = 1;
    max_depth_ = 1;
    for (size_t depth = 1; depth < lines.size() && sum + lines[depth] <= max_lines_; ++depth) {
      sum += lines[depth];
      max_depth_ = depth;
    }
  }

  std::string line(const ckpt::Node& node, bool* whole) const { return key_text(node) + value_text(node, whole); }

  static std::string key_text(const ckpt::Node& node) {
    if (node.number() == 0) return "";
    if (node.key_kind == CKPT_KEY_INT) return strformat("{}: ", node.key_int);
    if (node.key_kind == CKPT_KEY_NONE) return "- ";
    std::string_view key = node.key_view();
    bool quote = key.empty() || is_integer(key) || key.find_first_of(" :\"") != std::string_view::npos;
    return quote ? strformat("\"{}\": ", escaped(key)) : escaped(key) + ": ";
  }

  std::string leaf_text(const ckpt::Node& node) const {
    std::string_view text = node.text_view();
    switch (node.kind) {
      case CKPT_NODE_NULL:
        return "null";
      case CKPT_NODE_BOOL:
        return node.bool_value != 0 ? "true" : "false";
      case CKPT_NODE_INT:
        return std::to_string(node.int_value);
      case CKPT_NODE_BIGINT:
        return cut(text, kLongestDigits);
      case CKPT_NODE_FLOAT:
        return float_text(node.float_value);
      case CKPT_NODE_TEXT:
        return text_text(text);
      case CKPT_NODE_BYTES:
        return "bytes, " + human_bytes(node.text_size);
      case CKPT_NODE_TENSOR: {
        std::string known = tensor_ ? tensor_(text) : "";
        return "tensor " + (known.empty() ? escaped(text) : known);
      }
      default:
        return strformat("node of kind {}", node.kind);
    }
  }

  // Whether the node is shown on one line: a small container without tensors, or a list of scalars of any length.
  bool inline_text(const ckpt::Node& node, std::string* out = nullptr) const {
    const uint64_t size = sizes_[node.number()];
    if (!node.is_container() || tensors_[node.number()]) return false;
    bool row = node.kind <= CKPT_NODE_SET && size == node.child_count + 1;
    if (!row && size > kInlineNodes) return false;
    std::string text = written(node);
    if (size <= kInlineNodes && text_width(text) > kInlineWidth) return false;
    if (out != nullptr) *out = std::move(text);
    return true;
  }

  // kInlineNodes bounds the recursion.
  std::string written(const ckpt::Node& node) const {
    if (!node.is_container()) return leaf_text(node);
    std::string out = node.kind == CKPT_NODE_RECORD ? escaped(node.text_view()) : "";
    const char* brackets = node.kind == CKPT_NODE_LIST ? "[]" : node.kind == CKPT_NODE_TUPLE ? "()" : "{}";
    out += brackets[0];
    uint64_t written_ones = 0;
    for (const ckpt::Node& child : node) {
      if (written_ones > 0) out += ", ";
      if (written_ones++ > 0 && text_width(out) > kInlineWidth && sizes_[node.number()] > kInlineNodes)
        return out + strformat("… {} in all", node.child_count) + brackets[1];
      if (child.key_kind != CKPT_KEY_NONE) out += key_text(child);
      out += written(child);
    }
    return out + brackets[1];
  }

  std::string value_text(const ckpt::Node& node, bool* whole) const {
    std::string text;
    *whole = !node.is_container() || inline_text(node, &text);
    if (!node.is_container()) return leaf_text(node);
    if (*whole) return text;
    std::string name = node.kind == CKPT_NODE_RECORD ? escaped(node.text_view())
                       : node.kind <= CKPT_NODE_DICT ? node.kind_name()
                                                     : strformat("node of kind {}", node.kind);
    bool hidden = depths_[node.number()] == max_depth_;
    return strformat("{} of {}{}", name, node.child_count, hidden ? " …" : "");
  }

  ckpt::TreeView tree_;
  const TensorText& tensor_;
  uint64_t max_lines_, count_;
  size_t max_depth_ = 0;
  std::vector<uint64_t> sizes_;
  std::vector<uint8_t> depths_;
  std::vector<bool> tensors_;
};

// The end of the value that starts at `begin`, if it has at most `longest` bytes; else `begin`.
size_t short_end(std::string_view json, size_t begin, size_t longest) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = begin; i < json.size() && i - begin < longest; ++i) {
    char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      ++depth;
    } else if (!in_string && (c == ']' || c == '}') && --depth == 0) {
      return i + 1;
    }
  }
  return begin;
}

}  // namespace

std::string outline(ckpt::TreeView tree, const TensorText& tensor, uint64_t max_lines) {
  return Outline(tree, tensor, max_lines).text();
}

std::string indented_json(std::string_view tree) {
  const std::string json = json_shown(tree);
  constexpr size_t kOneLine = 90;
  std::string out;
  size_t depth = 0, flat_until = 0;
  bool in_string = false;
  auto new_line = [&](size_t i) {
    if (i >= flat_until) out += "\n" + std::string(2 * depth, ' ');
  };
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (in_string) {
      out += json.substr(i, c == '\\' ? 2 : 1);
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '[' || c == '{') {
      if (i >= flat_until) flat_until = std::max(flat_until, short_end(json, i, kOneLine));
      out += c;
      ++depth;
      new_line(i);
    } else if (c == ']' || c == '}') {
      --depth;
      new_line(i);
      out += c;
    } else {
      out += c;
      if (c == ',' || c == ':') out += i < flat_until || c == ':' ? " " : "";
      if (c == ',') new_line(i);
      in_string = c == '"';
    }
  }
  return out + "\n";
}

}  // namespace cli
