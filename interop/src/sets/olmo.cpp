// OLMo's checkpoints of type "full": model, optim and train beside config.yaml, each a .pt or a safetensors file. In
// the latter a name is the base64 of a pickle of (keys, is_pickled), and what was no tensor is a u8 tensor of its
// pickle.
#include <algorithm>
#include <deque>
#include <map>

#include "base/base64.h"
#include "format/names.h"
#include "interop/src/json.h"
#include "interop/src/pickle/pickle.h"
#include "interop/src/safetensors/format.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMostConfig = 1 << 20;

bool has_file(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

constexpr size_t kMaxNodes = 10'000'000;  // what shared values may grow to

// Plain values only: of others a .pt tells more.
Status put_value(tree::Tree& tree, const PickleDocument& pickle, PickleRef ref, const std::string& path, int depth) {
  const PickleValue& value = pickle[ref];
  if (depth == kMaxDepth || tree.size() > kMaxNodes) return Status(CKPT_UNSUPPORTED, path + ": a value too large");
  switch (value.kind) {
    case PickleKind::kNone:
      return tree.add_null();
    case PickleKind::kBool:
      return tree.add_bool(value.integer != 0);
    case PickleKind::kInt:
      return tree.add_int(value.integer);
    case PickleKind::kBigInt:
      return tree.add_bigint(value.text);
    case PickleKind::kFloat:
      return tree.add_float(value.real);
    case PickleKind::kText:
      return tree.add_text(value.text);
    case PickleKind::kBytes:
      return tree.add_bytes(as_bytes(value.text));
    case PickleKind::kList:
    case PickleKind::kTuple:
    case PickleKind::kDict:
      break;
    default:
      return Status(CKPT_UNSUPPORTED, path + ": a pickled value that is an object; save it as .pt");
  }
  const bool dict = value.kind == PickleKind::kDict;
  CKPT_TRY(tree.begin(dict ? CKPT_NODE_DICT : value.kind == PickleKind::kList ? CKPT_NODE_LIST : CKPT_NODE_TUPLE));
  for (size_t i = 0; i < value.items.size(); i++) {
    if (dict) {
      const PickleValue& key = pickle[value.items[i++]];
      if (key.kind != PickleKind::kText && key.kind != PickleKind::kInt)
        return Status(CKPT_UNSUPPORTED, path + ": a key that is neither text nor a number");
      CKPT_TRY(key.kind == PickleKind::kText ? tree.key(key.text) : tree.key(key.integer));
    }
    CKPT_TRY(put_value(tree, pickle, value.items[i], path, depth + 1));
  }
  return tree.end();
}

// The nested dicts that the keys of all names make.
class KeyedState {
 public:
  KeyedState(std::string path, ForeignCheckpoint& content) : path_(std::move(path)), content_(content) {}

  Status run() {
    nodes_.emplace_back();
    std::vector<ForeignTensor> tensors;
    for (ForeignTensor& tensor : content_.tensors) {
      Status status = add(tensor);
      if (!status.ok()) return Status(status).in(path_).with("path", path_).with("tensor", tensor.name);
      if (!tensor.name.empty()) tensors.push_back(std::move(tensor));
    }
    content_.tensors = std::move(tensors);
    std::erase_if(content_.attributes, [](const auto& row) { return row.first.starts_with("safetensors."); });
    tree::Tree& tree = content_.tree.emplace();
    const Status status = put(tree, 0);
    return status.code() == CKPT_INVALID ? Status(CKPT_FORMAT, path_ + ": " + status.message()) : status;
  }

 private:
  struct Node {
    std::vector<std::pair<const PickleValue*, size_t>> children;
    std::map<std::string, size_t> by_key;
    std::string tensor;                     // its name
    const PickleDocument* value = nullptr;  // what was pickled
  };

  static Status refuse(const std::string& name) {
    return Status(CKPT_FORMAT, "the name " + shown(name) + " is none of OLMo's");
  }

  // A tensor that is a value has no name afterwards.
  Status add(ForeignTensor& tensor) {
    std::string text = tensor.name;
    std::replace(text.begin(), text.end(), '-', '+');
    std::replace(text.begin(), text.end(), '_', '/');
    const std::optional<std::string> bytes = parse_base64(text);
    if (!bytes) return refuse(tensor.name);
    texts_.push_back(*bytes);
    CKPT_ASSIGN(PickleDocument parsed, parse_pickle(as_bytes(texts_.back()), "a name"));
    const PickleDocument& name = documents_.emplace_back(std::move(parsed));
    const PickleValue& pair = name[name.root()];
    if (pair.kind != PickleKind::kTuple || pair.items.size() != 2) return refuse(tensor.name);
    const PickleValue &keys = name[pair.items[0]], &pickled = name[pair.items[1]];
    const bool good = keys.kind == PickleKind::kTuple && !keys.items.empty() && pickled.kind == PickleKind::kBool;
    if (!good || keys.items.size() > kMaxDepth) return refuse(tensor.name);
    size_t at = 0;
    std::string path;
    for (const PickleRef ref : keys.items) {
      const PickleValue& key = name[ref];
      if (key.kind != PickleKind::kText && key.kind != PickleKind::kInt) return refuse(tensor.name);
      const std::string segment =
          key.kind == PickleKind::kText ? tree::path_segment(key.text) : std::to_string(key.integer);
      path += (path.empty() ? "" : "/") + segment;
      const auto [found, is_new] = nodes_[at].by_key.try_emplace(segment, nodes_.size());
      if (is_new) {
        nodes_[at].children.emplace_back(&key, nodes_.size());
        nodes_.emplace_back();
      }
      at = found->second;
    }
    Node& node = nodes_[at];
    if (!node.tensor.empty() || node.value || !node.children.empty())
      return Status(CKPT_FORMAT, shown(path) + " comes twice");
    if (pickled.integer == 0) {
      node.tensor = tensor.name = path;
      return Ok();
    }
    tensor.name.clear();
    CKPT_ASSIGN(const Bytes value, content_.files.bytes(tensor.pieces[0].bytes));
    CKPT_ASSIGN(PickleDocument document, parse_pickle(value, path));
    node.value = &documents_.emplace_back(std::move(document));
    return Ok();
  }

  Status put(tree::Tree& tree, size_t number) const {
    const Node& node = nodes_[number];
    if (!node.tensor.empty() && !node.children.empty()) return Status(CKPT_FORMAT, "a tensor that is a dict, too");
    if (node.value && !node.children.empty()) return Status(CKPT_FORMAT, "a value that is a dict, too");
    if (!node.tensor.empty()) return tree.add_tensor(node.tensor);
    if (node.value) return put_pickled(tree, *node.value, path_);
    CKPT_TRY(tree.begin(CKPT_NODE_DICT));
    for (const auto& [key, child] : node.children) {
      CKPT_TRY(key->kind == PickleKind::kText ? tree.key(key->text) : tree.key(key->integer));
      CKPT_TRY(put(tree, child));
    }
    return tree.end();
  }

  const std::string path_;
  ForeignCheckpoint& content_;
  std::deque<std::string> texts_;
  std::deque<PickleDocument> documents_;
  std::deque<Node> nodes_;
};

// The file of one part of the state; empty where there is none. A .safetensors wins, as OLMo has it.
std::string file_of_part(const std::vector<std::string>& names, const std::string& part) {
  for (const char* ending : {".safetensors", ".pt"})
    if (has_file(names, part + ending)) return part + ending;
  return "";
}

}  // namespace

Status put_pickled(tree::Tree& tree, const PickleDocument& pickle, const std::string& path) {
  return put_value(tree, pickle, pickle.root(), path, 0);
}

Result<std::string> text_of_file(const std::string& path, const Folder& folder) {
  CKPT_ASSIGN(const InputFile file, InputFile::open_whole(path, kMostConfig, folder));
  if (!valid_utf8(as_text(file.addresses())))
    return Status(CKPT_FORMAT, path + ": expected a text in UTF-8").with("path", path);
  return std::string(as_text(file.addresses()));
}

bool is_olmo(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  const std::vector<std::string> names = names_in_directory(candidate.path, candidate.folder);
  return has_file(names, "config.yaml") && !file_of_part(names, "model").empty();
}

Result<ForeignCheckpoint> read_olmo(const std::string& path, const ReadOptions& options) {
  const std::vector<std::string> names = names_in_directory(path, options.folder);
  std::vector<StatePart> parts;
  for (const char* part : kOlmoParts) {
    const std::string file = file_of_part(names, part);
    if (file.empty()) continue;
    CKPT_ASSIGN(StatePart read, read_part(part, path + '/' + file, options));
    if (file.ends_with(".safetensors")) CKPT_TRY(KeyedState(path + '/' + file, read.content[0]).run());
    parts.push_back(std::move(read));
  }
  CKPT_ASSIGN(ForeignCheckpoint all, combine("olmo", std::move(parts)));
  CKPT_ASSIGN(std::string config, text_of_file(path + "/config.yaml", options.folder));
  all.attributes.emplace_back(kOlmoConfigAttr, std::move(config));
  keep_file_names(all, path, {"config.yaml"});
  return all;
}

}  // namespace ckpt::interop
