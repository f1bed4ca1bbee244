#include "interop/src/sets/combine.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "interop/src/json.h"
#include "tree/merge.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

class Combiner {
 public:
  explicit Combiner(const char* format) { out_.format = format; }

  Status add(StatePart& part) {
    const std::string place = part.key.empty() ? "" : tree::path_segment(part.key);
    before_ = 0;
    if (part.per_rank) return add_ranks(part, place);
    std::vector<Tree> trees;
    for (ForeignCheckpoint& content : part.content) {
      CKPT_ASSIGN(Tree tree, content.take_tree());
      trees.push_back(std::move(tree));
    }
    const uint32_t meant = trees.size() == 1 ? inside(trees[0], part.around) : 0;
    if (meant != 0) before_ = tree::path_segment(part.around).size() + 1;
    for (ForeignCheckpoint& content : part.content) CKPT_TRY(take(content, place));
    if (trees.size() == 1 && !part.key.empty()) {
      CKPT_TRY(tree_.key(part.key));
      return put(trees[0], meant, place);
    }
    if (!part.key.empty()) {
      CKPT_TRY(tree_.key(part.key));
      CKPT_TRY(tree_.begin(CKPT_NODE_DICT));
    }
    for (const Tree& tree : trees) CKPT_TRY(put_entries(tree, place));
    return part.key.empty() ? Ok() : tree_.end();
  }

  Status begin() { return tree_.begin(CKPT_NODE_DICT); }
  Result<ForeignCheckpoint> finish() {
    CKPT_TRY(tree_.end());
    out_.tree = std::move(tree_);
    out_.add_unchecked(unchecked_);
    if (!later_.empty())
      out_.locate = [later = std::move(later_)](ForeignCheckpoint& self, ForeignCheckpoint::First first,
                                                const ReadOptions& options) -> Status {
        for (const auto& [locate, at] : later)
          CKPT_TRY(locate(self, {first.tensor + at.tensor, first.file + at.file}, options));
        return Ok();
      };
    out_.attributes.emplace_back("import.format", out_.format);
    return std::move(out_);
  }

 private:
  Status add_ranks(StatePart& part, const std::string& place) {
    CKPT_TRY(tree_.key(part.key));
    CKPT_TRY(tree_.begin(CKPT_NODE_RECORD, tree::kPerRankClass));
    for (uint32_t rank = 0; rank < part.content.size(); rank++) {
      const std::string key = tree::per_rank_key(rank), at = place + '/' + key;
      CKPT_ASSIGN(const Tree tree, part.content[rank].take_tree());
      CKPT_TRY(take(part.content[rank], at));
      CKPT_TRY(tree_.key(key));
      CKPT_TRY(put(tree, 0, at));
    }
    return tree_.end();
  }

  // The one entry of the root, if it is a container of this key; else the root.
  static uint32_t inside(const Tree& tree, const std::string& key) {
    const uint32_t found =
        key.empty() || tree[0].kind != CKPT_NODE_DICT || tree[0].child_count != 1 ? kNoNode : tree.find(0, key);
    return found == kNoNode || !tree[found].container() ? 0 : found;
  }

  std::string name_in(const std::string& place, std::string_view name) const {
    if (name.starts_with(kAliasMemory))
      return strformat("{}x{}_{}", kAliasMemory, parts_, std::string(name.substr(kAliasMemory.size())));
    name.remove_prefix(std::min(before_, name.size()));
    return place.empty() ? std::string(name) : place + '/' + std::string(name);
  }

  // The tensors, files and attributes of one checkpoint.
  Status take(ForeignCheckpoint& content, const std::string& place) {
    parts_++;
    const size_t first_tensor = out_.tensors.size(), first_file = out_.files.append(std::move(content.files));
    if (content.locate) later_.push_back({std::move(content.locate), {first_tensor, first_file}});
    for (ForeignTensor& tensor : content.tensors) {
      tensor.name = name_in(place, tensor.name);
      if (!names_.insert(tensor.name).second)
        return Status(CKPT_FORMAT, "tensor " + shown(tensor.name) + " is in two files").with("tensor", tensor.name);
      if (tensor.is_alias()) tensor.target += first_tensor;
      for (ForeignPiece& piece : tensor.pieces)
        if (piece.bytes.file != SIZE_MAX) piece.bytes.file += first_file;
      out_.tensors.push_back(std::move(tensor));
    }
    for (auto& [key, value] : content.attributes) {
      if (key == "import.unchecked") unchecked_ += std::stoull(value);
      // Of the first that has them, which is the model.
      const bool is_new =
          std::ranges::find(out_.attributes, key, [](const auto& row) { return row.first; }) == out_.attributes.end();
      if (key.starts_with("safetensors.") && is_new) out_.attributes.emplace_back(key, value);
    }
    std::move(content.keep.begin(), content.keep.end(), std::back_inserter(out_.keep));
    return Ok();
  }

  Status put_entries(const Tree& tree, const std::string& place) {
    uint32_t root = 0;
    if (tree[0].kind == CKPT_NODE_RECORD && tree[0].text_view() == "collections.OrderedDict")
      root = tree.find(0, "items");
    if (root == kNoNode || tree[root].kind != CKPT_NODE_DICT)
      return Status(CKPT_FORMAT, "a file that holds no dict is not part of a state");
    for (uint32_t child = tree.first_child(root); child != kNoNode; child = tree[child].next) {
      CKPT_TRY(put_key(tree[child]));
      CKPT_TRY(put(tree, child, place));
    }
    return Ok();
  }

  Status put_key(const TreeNode& node) {
    if (node.key_kind == CKPT_KEY_NONE) return Ok();
    const Status status = node.key_kind == CKPT_KEY_INT ? tree_.key(node.place) : tree_.key(node.key_view());
    return status.ok() ? status : Status(CKPT_FORMAT, status.message());
  }

  Status put(const Tree& tree, uint32_t number, const std::string& place) {
    const TreeNode& node = tree[number];
    if (node.kind == CKPT_NODE_TENSOR) return tree_.add_tensor(name_in(place, node.text_view()));
    if (!node.container()) return tree::copy_node(tree, number, tree_);
    const Status begun =
        node.kind == CKPT_NODE_RECORD ? tree_.begin(node.kind, node.text_view()) : tree_.begin(node.kind);
    if (!begun.ok()) return Status(CKPT_FORMAT, begun.message());
    for (uint32_t child = tree.first_child(number); child != kNoNode; child = tree[child].next) {
      CKPT_TRY(put_key(tree[child]));
      CKPT_TRY(put(tree, child, place));
    }
    return tree_.end();
  }

  ForeignCheckpoint out_;
  Tree tree_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<decltype(ForeignCheckpoint::locate), ForeignCheckpoint::First>> later_;
  size_t parts_ = 0;
  size_t before_ = 0;  // of the part that is added: bytes of each name that stand for a key which is left out
  uint64_t unchecked_ = 0;
};

}  // namespace

Result<ForeignCheckpoint> combine(const char* format, std::vector<StatePart> parts) {
  Combiner combiner(format);
  CKPT_TRY(combiner.begin());
  for (StatePart& part : parts) CKPT_TRY(combiner.add(part));
  return combiner.finish();
}

// The entries of the directory that tensors lie in.
static std::vector<std::string> entries_of_files(const ForeignCheckpoint& content, const std::string& directory) {
  std::vector<std::string> names;
  const std::string inside = directory.ends_with('/') ? directory : directory + '/';
  for (size_t i = 0; i < content.files.count(); i++) {
    const std::string path = content.files.path(i);
    const size_t begin = path.starts_with(inside) ? path.find_first_not_of('/', inside.size() - 1) : path.npos;
    if (begin != path.npos) names.push_back(path.substr(begin, path.find('/', begin) - begin));
  }
  return names;
}

void keep_file_names(ForeignCheckpoint& content, const std::string& directory, std::vector<std::string> more) {
  for (std::string& name : entries_of_files(content, directory)) more.push_back(std::move(name));
  std::sort(more.begin(), more.end());
  more.erase(std::unique(more.begin(), more.end()), more.end());
  content.attributes.emplace_back(kImportFilesAttr, json_of(more));
}

// What readers of formats whose files are no list of names look at.
static bool is_read_by_name(const std::string& name) {
  return (name.starts_with("PART_") && name.ends_with(".pt")) || name.ends_with(".distcp") ||
         name.ends_with(".metadata") || (name.starts_with("shard-") && name.ends_with(".safetensors"));
}

void note_left_out(ForeignCheckpoint& content, const std::string& directory, const Folder& folder) {
  constexpr size_t kNamed = 256;
  constexpr std::string_view kIndex = ".index.json", kOnly = "model.safetensors";
  std::set<std::string> taken;
  bool has_index = false;
  for (const auto& [key, value] : content.attributes) {
    has_index |= key == "safetensors.index";
    if (key != "safetensors.files" && key != kImportFilesAttr) continue;
    if (Result<std::vector<std::string>> names = parse_string_list(value); names.ok())
      taken.insert(names->begin(), names->end());
  }
  const bool by_name = taken.empty();
  for (std::string& name : entries_of_files(content, directory)) taken.insert(std::move(name));
  size_t more = 0;
  // "model.safetensors.index.fp16.json" is of model.fp16-00001-of-00002.safetensors.
  const auto is_index_of_variant = [&](const std::string& name) {
    const size_t at = name.find(".index.");
    if (by_name || at == name.npos || !name.ends_with(".json") || name.ends_with(kIndex)) return false;
    const std::string variant = name.substr(at + 6, name.size() - at - 11);  // ".fp16"
    return std::ranges::any_of(taken, [&](const std::string& file) {
      return file.find(variant + '.') != file.npos || file.find(variant + '-') != file.npos;
    });
  };
  for (const std::string& name : names_in_directory(directory, folder)) {
    // An index beside the one file that was taken is of others.
    const bool is_index = name.ends_with(kIndex) && !by_name;
    const bool is_of_others = name == std::string(kOnly) + std::string(kIndex) && taken.contains(std::string(kOnly));
    if (taken.contains(name) || (is_of_others ? has_index : is_index) || (by_name && is_read_by_name(name)) ||
        is_index_of_variant(name))
      continue;
    if (content.left_out.size() < kNamed)
      content.left_out.push_back(name + (is_directory(directory + '/' + name, folder) ? "/" : ""));
    else
      more++;
  }
  if (more != 0) content.left_out.push_back(strformat("and {} more", more));
  if (!content.left_out.empty()) content.attributes.emplace_back("import.left_out", json_of(content.left_out));
}

}  // namespace ckpt::interop
