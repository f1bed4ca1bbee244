// Writes a tree as JSON: compact, and the same bytes for the same tree (STATE_TREE.md: "As JSON").
#include <charconv>
#include <cmath>

#include "base/base64.h"
#include "base/text.h"
#include "tree/json_text.h"
#include "tree/tree.h"

namespace ckpt::tree {

namespace {

class Writer {
 public:
  explicit Writer(const Tree& tree) : tree_(tree) {}

  std::string write() {
    for (uint32_t i = 0; i < tree_.size(); i++) {
      before(tree_[i]);
      value(i);
      while (!open_.empty() && open_.back().left == 0) {
        out_ += open_.back().closing;
        open_.pop_back();
        after();
      }
    }
    return std::move(out_);
  }

 private:
  struct Open {
    uint32_t left;  // children to come
    bool pairs, first;
    const char* closing;
  };

  // Writes what separates a value from the one before it, and its key.
  void before(const TreeNode& node) {
    if (open_.empty()) return;
    Open& open = open_.back();
    if (!open.first) out_ += ',';
    open.first = false;
    open.left--;
    if (open.pairs) out_ += '[';
    if (node.key_kind == CKPT_KEY_NONE) return;
    if (node.key_kind == CKPT_KEY_INT)
      out_ += std::to_string(node.place);
    else
      append_json_quoted(node.key_view(), &out_);
    out_ += open.pairs ? ',' : ':';
  }

  void after() {
    if (!open_.empty() && open_.back().pairs) out_ += ']';
  }

  void value(uint32_t number) {
    const TreeNode& node = tree_[number];
    if (node.container()) return open(number);
    leaf(node);
    after();
  }

  void open(uint32_t number) {
    const TreeNode& node = tree_[number];
    const bool pairs = node.kind == CKPT_NODE_DICT && !plain(number);
    const char* closing = "]";
    switch (node.kind) {
      case CKPT_NODE_LIST:
        out_ += '[';
        break;
      case CKPT_NODE_TUPLE:
      case CKPT_NODE_SET:
        out_ += node.kind == CKPT_NODE_TUPLE ? R"({"$":"tuple","items":[)" : R"({"$":"set","items":[)";
        closing = "]}";
        break;
      case CKPT_NODE_RECORD:
        out_ += R"({"$":"record","class":)";
        append_json_quoted(node.text_view(), &out_);
        out_ += R"(,"items":{)";
        closing = "}}";
        break;
      default:
        out_ += pairs ? R"({"$":"dict","items":[)" : "{";
        closing = pairs ? "]}" : "}";
    }
    open_.push_back({node.child_count, pairs, true, closing});
  }

  // Whether a dict can be a plain JSON object.
  bool plain(uint32_t dict) const {
    for (uint32_t child = tree_.first_child(dict); child != kNoNode; child = tree_[child].next)
      if (tree_[child].key_kind != CKPT_KEY_TEXT || tree_[child].key_view() == "$") return false;
    return true;
  }

  void leaf(const TreeNode& node) {
    switch (node.kind) {
      case CKPT_NODE_NULL:
        out_ += "null";
        break;
      case CKPT_NODE_BOOL:
        out_ += node.integer ? "true" : "false";
        break;
      case CKPT_NODE_INT:
        out_ += std::to_string(node.integer);
        break;
      case CKPT_NODE_FLOAT:
        real(node.real);
        break;
      case CKPT_NODE_TEXT:
        append_json_quoted(node.text_view(), &out_);
        break;
      case CKPT_NODE_BIGINT:
        tagged(R"({"$":"int","value":)", node.text_view());
        break;
      case CKPT_NODE_TENSOR:
        tagged(R"({"$":"tensor","name":)", node.text_view());
        break;
      default:
        out_ += R"({"$":"bytes","base64":")";
        append_base64(as_bytes(node.text_view()), &out_);
        out_ += "\"}";
    }
  }

  void tagged(const char* opening, std::string_view text) {
    out_ += opening;
    append_json_quoted(text, &out_);
    out_ += '}';
  }

  // The shortest digits that read back as the same number, marked as not an integer.
  void real(double number) {
    if (!std::isfinite(number))
      return tagged(R"({"$":"float","value":)", std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
    char buffer[32];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, number);
    const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
    out_ += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }

  const Tree& tree_;
  std::string out_;
  std::vector<Open> open_;
};

}  // namespace

std::string tree_json(const Tree& tree) { return Writer(tree).write(); }

}  // namespace ckpt::tree
