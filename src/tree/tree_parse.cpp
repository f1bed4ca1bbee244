// Parses a tree from untrusted JSON (STATE_TREE.md: "As JSON").
#include <cmath>
#include <limits>

#include "base/base64.h"
#include "base/text.h"
#include "tree/json_text.h"
#include "tree/tree.h"

namespace ckpt::tree {

namespace {

// A kind of object with "$", and its members: exactly these, in this order.
struct Tag {
  const char* name;
  int kind;
  const char* members[2];
};
constexpr Tag kTags[] = {
    {"tensor", CKPT_NODE_TENSOR, {"name", nullptr}}, {"tuple", CKPT_NODE_TUPLE, {"items", nullptr}},
    {"set", CKPT_NODE_SET, {"items", nullptr}},      {"dict", CKPT_NODE_DICT, {"items", nullptr}},
    {"float", CKPT_NODE_FLOAT, {"value", nullptr}},  {"int", CKPT_NODE_BIGINT, {"value", nullptr}},
    {"bytes", CKPT_NODE_BYTES, {"base64", nullptr}}, {"record", CKPT_NODE_RECORD, {"class", "items"}},
};

// One container of the tree takes at most three of JSON, {"$":"dict","items":[[key,…]]}. The limit allows one container
// more, so that the tree itself reports what is too deep.
constexpr int kMaxDepth = 3 * (CKPT_TREE_MAX_DEPTH + 1);

class Reader final : public JsonEvents {
 public:
  Tree tree;

  Status null() override {
    return value("null", [&] { return tree.add_null(); });
  }
  Status boolean(bool flag) override {
    return value(flag ? "true" : "false", [&] { return tree.add_bool(flag); });
  }
  Status number(uint64_t number) override {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return big_integer(std::to_string(number));
    return negative(static_cast<int64_t>(number));
  }
  Status negative(int64_t number) override {
    if (takes_key()) return pair_key([&] { return tree.key(number); });
    return value("a number", [&] { return tree.add_int(number); });
  }
  Status big_integer(std::string_view digits) override {
    return value("an integer beyond 64 bits", [&] { return tree.add_bigint(digits); });
  }
  Status real(double number, std::string_view) override {
    return value("a number", [&] { return tree.add_float(number); });
  }
  Status string(std::string text) override {
    if (takes_key()) return pair_key([&] { return tree.key(text); });
    if (in() == In::kTag) return choose_tag(text);
    if (in() == In::kMembers) return member(std::move(text));
    return value("a string", [&] { return tree.add_text(text); });
  }

  Status begin_array() override {
    if (in() == In::kPairs) return push(In::kPair);
    if (in() != In::kMembers) return value("an array", [&] { return begin(CKPT_NODE_LIST, In::kItems); });
    Frame& top = stack_.back();
    const int kind = top.tag->kind;
    if (top.taken != 1 || (kind != CKPT_NODE_TUPLE && kind != CKPT_NODE_SET && kind != CKPT_NODE_DICT))
      return unexpected("an array");
    return begin(kind, kind == CKPT_NODE_DICT ? In::kPairs : In::kItems);
  }
  Status end_array() override {
    if (in() == In::kPair && stack_.back().taken != 2)
      return refuse(strformat("a pair of {}, expected [key,value]", stack_.back().taken));
    const bool pair = in() == In::kPair;
    stack_.pop_back();
    return pair ? Ok() : blame(tree.end());
  }

  Status begin_object() override {
    if (in() != In::kMembers) return value("an object", [&] { return push(In::kObject); });
    const Frame& top = stack_.back();
    if (top.tag->kind != CKPT_NODE_RECORD || top.taken != 2) return unexpected("an object");
    CKPT_TRY(blame(tree.begin(CKPT_NODE_RECORD, top.class_name)));
    return push(In::kRecord);
  }
  Status key(std::string text) override {
    if (in() == In::kMembers) return member_key(text);
    if (in() == In::kObject) {
      if (text == "$") return move_to(In::kTag);
      CKPT_TRY(blame(tree.begin(CKPT_NODE_DICT)));
      stack_.back().in = In::kDict;
    }
    if (in() == In::kDict && text == "$") return refuse("\"$\" that is not the first member");
    return blame(tree.key(text));
  }
  Status end_object() override {
    const Frame top = std::move(stack_.back());
    stack_.pop_back();
    if (top.in == In::kObject) CKPT_TRY(blame(tree.begin(CKPT_NODE_DICT)));
    if (top.in != In::kMembers) return blame(tree.end());
    const char* missing = top.taken < 2 ? top.tag->members[top.taken] : nullptr;
    return missing ? refuse(std::string(top.tag->name) + " without \"" + missing + "\"") : Ok();
  }

 private:
  // What the innermost JSON container is.
  enum class In {
    kNothing,
    kItems,    // an array of values
    kDict,     // an object of values
    kRecord,   // the same, but "$" is an ordinary key
    kObject,   // an object before its first member
    kTag,      // the value of "$" is next
    kMembers,  // the members of an object with "$"
    kPairs,    // the array of a dict's pairs
    kPair      // [key,value]
  };
  struct Frame {
    In in;
    const Tag* tag = nullptr;
    int taken = 0;  // keys of members seen so far, or elements of a pair
    std::string class_name;
  };

  In in() const { return stack_.empty() ? In::kNothing : stack_.back().in; }
  Status push(In in) {
    stack_.push_back({in, nullptr, 0, {}});
    return Ok();
  }
  Status move_to(In in) {
    stack_.back().in = in;
    return Ok();
  }
  Status begin(int kind, In in) {
    CKPT_TRY(blame(tree.begin(kind)));
    return push(in);
  }
  bool takes_key() const { return in() == In::kPair && stack_.back().taken == 0; }

  template <typename Add>
  Status pair_key(Add add) {
    stack_.back().taken = 1;
    return blame(add());
  }

  // Adds a value of the tree, if one may come here.
  template <typename Add>
  Status value(const char* what, Add add) {
    switch (in()) {
      case In::kNothing:
      case In::kItems:
      case In::kDict:
      case In::kRecord:
        return blame(add());
      case In::kPair:
        if (stack_.back().taken != 1) return unexpected(what);
        stack_.back().taken = 2;
        return blame(add());
      default:
        return unexpected(what);
    }
  }

  Status choose_tag(const std::string& name) {
    for (const Tag& tag : kTags)
      if (name == tag.name) {
        stack_.back().tag = &tag;
        return move_to(In::kMembers);
      }
    return Status(CKPT_REVISION, at() + "unknown kind of node " + shown(name)).with("found", name);
  }

  Status member_key(const std::string& text) {
    Frame& top = stack_.back();
    const char* expected = top.taken < 2 ? top.tag->members[top.taken] : nullptr;
    top.taken++;
    if (expected && text == expected) return Ok();
    return refuse(std::string(top.tag->name) + ": member " + shown(text) +
                  (expected ? ", expected \"" + std::string(expected) + "\"" : ""));
  }

  // Handles the text of a member.
  Status member(std::string text) {
    Frame& top = stack_.back();
    switch (top.tag->kind) {
      case CKPT_NODE_TENSOR:
        return blame(tree.add_tensor(text));
      case CKPT_NODE_FLOAT:
        return add_float(text);
      case CKPT_NODE_BIGINT:
        return blame(tree.add_bigint(text));
      case CKPT_NODE_BYTES: {
        const auto bytes = parse_base64(text);
        return bytes ? blame(tree.add_bytes(as_bytes(*bytes))) : refuse("bytes that are not base64");
      }
      case CKPT_NODE_RECORD:
        if (top.taken != 1) return unexpected("a string");
        top.class_name = std::move(text);
        return Ok();
      default:
        return unexpected("a string");
    }
  }

  Status add_float(const std::string& text) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "nan") return blame(tree.add_float(std::numeric_limits<double>::quiet_NaN()));
    if (text == "inf" || text == "-inf") return blame(tree.add_float(text == "inf" ? kInfinity : -kInfinity));
    return refuse("float " + shown(text) + ", expected nan, inf or -inf");
  }

  // What the tree's builder refuses is the fault of the document.
  Status blame(Status status) const {
    if (status.code() != CKPT_INVALID) return status;
    return Status(CKPT_FORMAT, status.message());
  }
  std::string at() const {
    const std::string place = tree.where();
    return "state tree" + (place.empty() ? "" : " at " + shown(place)) + ": ";
  }
  Status refuse(const std::string& what) const { return Status(CKPT_FORMAT, at() + what); }
  Status unexpected(std::string_view what) const override { return refuse("unexpected " + std::string(what)); }

  std::vector<Frame> stack_;
};

}  // namespace

Result<Tree> parse_tree_json(std::string_view json) {
  Reader reader;
  CKPT_TRY(parse_json(json, reader, kMaxDepth));
  return std::move(reader.tree);
}

}  // namespace ckpt::tree
