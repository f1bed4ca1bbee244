#include "tree/tree.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <charconv>
#include <cstring>

#include "base/text.h"
#include "format/names.h"
#include "tree/json_text.h"

namespace ckpt::tree {

namespace {

constexpr size_t kMaxNodes = kNoNode;
constexpr size_t kMaxText = UINT32_MAX - 1;

// "12", "-7", without leading zeros or a minus before zero; empty if `digits` is no integer.
std::string canonical_integer(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return {};
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (negative && digits != "0" ? "-" : "") + std::string(digits);
}

TreeNode node_of(int kind) {
  TreeNode node;
  node.kind = static_cast<uint8_t>(kind);
  return node;
}

}  // namespace

Tree::Tree() : text_(std::make_unique<std::pmr::monotonic_buffer_resource>(1024)), seed_(random_id().lo) {}

// ---- rules ----

Status Tree::refuse(const std::string& what) const {
  const std::string place = where();
  return Status(CKPT_INVALID, "state tree" + (place.empty() ? "" : " at " + shown(place)) + ": " + what);
}

Status Tree::check_complete() const {
  if (complete()) return Ok();
  return refuse(nodes_.empty() ? "empty" : strformat("unfinished, {} containers are open", open_.size()));
}

Status Tree::check_value() const {
  if (nodes_.size() >= kMaxNodes) return refuse(strformat("more than {} nodes", kMaxNodes));
  if (complete()) return refuse("a value after the last; a tree is one value");
  if (!open_.empty() && nodes_[open_.back().node].keyed() && !pending_) return refuse("a value without a key");
  return Ok();
}

Status Tree::check_key() const {
  if (open_.empty() || !nodes_[open_.back().node].keyed()) return refuse("a key outside of a dict or record");
  return pending_ ? refuse("a key after a key") : Ok();
}

Status Tree::check_text(std::string_view what, std::string_view text) const {
  if (text.size() > kMaxText)
    return refuse(strformat("{} of {} bytes, at most {}", what.data(), text.size(), kMaxText));
  return valid_utf8(text) ? Ok() : refuse(std::string(what) + " that is not UTF-8");
}

// ---- build ----

const char* Tree::store(std::string_view text) {
  auto* copy = static_cast<char*>(text_->allocate(text.size() + 1, 1));
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = 0;
  return copy;
}

Status Tree::key(std::string_view key) {
  CKPT_TRY(check_key());
  CKPT_TRY(check_text("a key", key));
  Key found{CKPT_KEY_TEXT, key.data(), static_cast<uint32_t>(key.size()), 0};
  if (lookup(open_.back().node, found) != kNoNode) return refuse("key " + shown(key) + " comes twice");
  found.text = store(key);
  pending_ = found;
  return Ok();
}

Status Tree::key(int64_t key) {
  CKPT_TRY(check_key());
  if (nodes_[open_.back().node].kind == CKPT_NODE_RECORD) return refuse("an integer as key in a record");
  const Key found{CKPT_KEY_INT, nullptr, 0, key};
  if (lookup(open_.back().node, found) != kNoNode) return refuse("key " + std::to_string(key) + " comes twice");
  pending_ = found;
  return Ok();
}

Tree::Key Tree::next_key() const {
  if (pending_) return *pending_;
  return {CKPT_KEY_NONE, nullptr, 0, open_.empty() ? 0 : nodes_[open_.back().node].child_count};
}

// Adds `node`, whose value is set and checked, at its place.
void Tree::append(TreeNode node) {
  const Key key = next_key();
  node.key_kind = key.kind;
  node.key = key.text;
  node.key_size = key.size;
  node.place = key.place;
  const auto number = static_cast<uint32_t>(nodes_.size());
  if (!open_.empty()) node.parent = open_.back().node;
  if (node.container()) open_.reserve(open_.size() + 1);
  grow_slots();
  nodes_.push_back(node);  // nothing after this can fail
  pending_.reset();
  if (node.parent != kNoNode) {
    Open& open = open_.back();
    nodes_[open.node].child_count++;
    if (open.last_child != kNoNode) nodes_[open.last_child].next = number;
    open.last_child = number;
    index(number);
  }
  if (node.container()) open_.push_back({number});
}

Status Tree::add_number(int kind, int64_t value) {
  CKPT_TRY(check_value());
  TreeNode node = node_of(kind);
  node.integer = value;
  append(node);
  return Ok();
}

Status Tree::add_float(double value) {
  CKPT_TRY(check_value());
  TreeNode node = node_of(CKPT_NODE_FLOAT);
  node.real = value;
  append(node);
  return Ok();
}

Status Tree::add_stored(int kind, std::string_view text) {
  CKPT_TRY(check_value());
  TreeNode node = node_of(kind);
  node.text = store(text);
  node.text_size = static_cast<uint32_t>(text.size());
  append(node);
  return Ok();
}

Status Tree::add_bigint(std::string_view digits) {
  const std::string number = canonical_integer(digits);
  if (number.empty()) return refuse("an integer that is not decimal digits: " + shown(digits));
  CKPT_TRY(check_text("an integer", number));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc() ? add_int(value) : add_stored(CKPT_NODE_BIGINT, number);
}

Status Tree::add_text(std::string_view text) {
  CKPT_TRY(check_text("text", text));
  return add_stored(CKPT_NODE_TEXT, text);
}

Status Tree::add_bytes(Bytes bytes) {
  if (bytes.size() > kMaxText) return refuse(strformat("{} bytes, at most {}", bytes.size(), kMaxText));
  return add_stored(CKPT_NODE_BYTES, as_text(bytes));
}

Status Tree::add_tensor(std::string_view name) {
  CKPT_TRY(check_value());
  if (Status status = format::check_tensor_name(name); !status.ok()) return refuse(status.message());
  return add_stored(CKPT_NODE_TENSOR, name);
}

Status Tree::add_tensor() {
  CKPT_TRY(check_value());
  const std::string path = tensor_path();
  if (path.size() > kMaxName)
    return refuse(strformat("the tensor's path has {} bytes, a name at most {}", path.size(), kMaxName));
  return add_tensor(path);
}

Status Tree::begin(int kind, std::string_view class_name) {
  CKPT_TRY(check_value());
  if (kind < CKPT_NODE_LIST || kind > CKPT_NODE_RECORD) return refuse(strformat("no kind of container: {}", kind));
  if (open_.size() == CKPT_TREE_MAX_DEPTH) return refuse(strformat("more than {} levels", CKPT_TREE_MAX_DEPTH));
  TreeNode node = node_of(kind);
  if (kind == CKPT_NODE_RECORD) {
    if (class_name.empty()) return refuse("a record without a class");
    CKPT_TRY(check_text("a class", class_name));
    node.text = store(class_name);
    node.text_size = static_cast<uint32_t>(class_name.size());
  } else if (!class_name.empty()) {
    return refuse("the class " + shown(class_name) + " of what is no record");
  }
  append(node);
  return Ok();
}

Status Tree::end() {
  if (open_.empty()) return refuse("an end where no container is open");
  if (pending_) return refuse("a key without a value");
  open_.pop_back();
  return Ok();
}

// ---- lookup ----

uint64_t Tree::hash(uint32_t parent, const Key& key) const {
  const uint64_t seed = seed_ + parent * uint64_t{0x9e3779b97f4a7c15};
  if (key.kind == CKPT_KEY_TEXT) return XXH3_64bits_withSeed(key.text, key.size, seed);
  return XXH3_64bits_withSeed(&key.place, sizeof key.place, ~seed);
}

bool Tree::has_key(const TreeNode& node, uint32_t parent, const Key& key) {
  if (node.parent != parent || node.key_kind != key.kind || node.place != key.place) return false;
  return node.key_view() == std::string_view(key.text, key.size);
}

uint32_t Tree::lookup(uint32_t parent, const Key& key) const {
  if (slots_.empty()) return kNoNode;
  for (size_t at = hash(parent, key) & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const uint32_t node = slots_[at];
    if (node == kNoNode || has_key(nodes_[node], parent, key)) return node;
  }
}

void Tree::index(uint32_t number) {
  const TreeNode& node = nodes_[number];
  const Key key{node.key_kind, node.key, node.key_size, node.place};
  size_t at = hash(node.parent, key) & (slots_.size() - 1);
  while (slots_[at] != kNoNode) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = number;
}

// Makes room for one more node.
void Tree::grow_slots() {
  if ((nodes_.size() + 1) * 2 <= slots_.size()) return;
  slots_ = std::vector<uint32_t>(std::max<size_t>(16, slots_.size() * 2), kNoNode);
  for (uint32_t i = 1; i < nodes_.size(); i++) index(i);
}

uint32_t Tree::find(uint32_t parent, std::string_view key) const {
  if (key.size() > kMaxText) return kNoNode;
  return lookup(parent, {CKPT_KEY_TEXT, key.data(), static_cast<uint32_t>(key.size()), 0});
}

uint32_t Tree::find(uint32_t parent, int64_t key) const {
  return lookup(parent, {nodes_[parent].keyed() ? uint8_t{CKPT_KEY_INT} : uint8_t{CKPT_KEY_NONE}, nullptr, 0, key});
}

// ---- paths ----

// Whether a text key would read as the segment of an integer key.
static bool reads_as_integer(std::string_view key) { return !key.empty() && canonical_integer(key) == key; }

std::string path_segment(std::string_view key) {
  if (key.empty()) return "~e";
  if (key == ".") return "~d";
  if (key == "..") return "~d~d";
  std::string segment = reads_as_integer(key) ? "~s" : "";
  for (const char c : key) {
    if (c == '~')
      segment += "~0";
    else if (c == '/')
      segment += "~1";
    else if (is_control(c))
      segment += strformat("~x{:02X}", static_cast<unsigned char>(c));
    else
      segment += c;
  }
  return segment;
}

static void prepend(std::string* path, const std::string& segment) {
  *path = path->empty() ? segment : segment + "/" + *path;
}

static std::string segment_of(const TreeNode& node) {
  return node.key_kind == CKPT_KEY_TEXT ? path_segment(node.key_view()) : std::to_string(node.place);
}

std::string Tree::path_of(uint32_t node) const {
  std::string path;
  for (; nodes_[node].parent != kNoNode; node = nodes_[node].parent) prepend(&path, segment_of(nodes_[node]));
  return path;
}

std::string Tree::where() const { return open_.empty() ? "" : path_of(open_.back().node); }

// The path of a tensor, if it came next.
std::string Tree::tensor_path() const {
  if (open_.empty()) return CKPT_TREE_OBJECT;
  const uint32_t parent = open_.back().node;
  const Key key = next_key();
  const bool data = nodes_[parent].kind == CKPT_NODE_RECORD && std::string_view(key.text, key.size) == "data";
  std::string path = path_of(parent);
  if (data && !path.empty()) return path;
  const std::string last = key.kind == CKPT_KEY_TEXT ? path_segment({key.text, key.size}) : std::to_string(key.place);
  return path.empty() ? last : path + "/" + last;
}

}  // namespace ckpt::tree
