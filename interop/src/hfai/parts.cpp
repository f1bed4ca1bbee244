#include "interop/src/hfai/parts.h"

#include <algorithm>

#include "interop/src/hfai/format.h"
#include "interop/src/hfai/layout.h"
#include "interop/src/json.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;

namespace {

constexpr size_t kMaxParts = 4096;

// Names of the form PART_*.pt, as hfai counts them.
std::vector<std::string> part_names(const std::string& path, const Folder& folder) {
  std::vector<std::string> names = names_in_directory(path, folder);
  std::erase_if(names, [](const std::string& name) {
    return !name.starts_with("PART_") || !name.ends_with(".pt") || name.size() < 8;
  });
  return names;
}

Status check_names(const std::string& path, const std::vector<std::string>& names) {
  if (names.size() > kMaxParts)
    return Status(CKPT_UNSUPPORTED, strformat("{}: {} parts, at most {}", path, names.size(), kMaxParts))
        .with("path", path);
  for (size_t i = 0; i < names.size(); i++) {
    const std::string expected = hfai_part_name(i);
    if (std::find(names.begin(), names.end(), expected) != names.end()) continue;
    return Status(CKPT_INCOMPLETE,
                  strformat("{}: {} is missing: there are {} files PART_*.pt, which hfai numbers from 000", path,
                            expected, names.size()))
        .with("path", path)
        .with("part", expected);
  }
  return Ok();
}

Status part_error(ckpt_status code, const HfaiPart& part, const std::string& what) {
  return Status(code, part.source->path() + ": " + what).with("path", part.source->path()).with("part", part.name);
}

Status unlike(ckpt_status code, const HfaiPart& part, const std::string& what, const std::string& expected,
              const std::string& found) {
  return part_error(code, part, what + ": expected " + expected + ", found " + found)
      .with("expected", expected)
      .with("found", found);
}

Status check_header(const HfaiPart& part, size_t count) {
  const Tree& tree = part.tree();
  const uint32_t version = tree.find(part.root, kHfaiVersionKey), shards = tree.find(part.root, kHfaiShards);
  const std::string found = version == kNoNode                     ? "1.0.0"  // which did not say so
                            : tree[version].kind == CKPT_NODE_TEXT ? std::string(tree[version].text_view())
                                                                   : "another kind of value";
  if (found != kHfaiVersion) return unlike(CKPT_UNSUPPORTED, part, "__version__", kHfaiVersion, found);
  if (shards == kNoNode || tree[shards].kind != CKPT_NODE_INT) return part.wrong(part.root, "no number __nshards__");
  if (tree[shards].integer == static_cast<int64_t>(count)) return Ok();
  return unlike(tree[shards].integer > static_cast<int64_t>(count) ? CKPT_INCOMPLETE : CKPT_MISMATCH, part,
                "__nshards__, for the files that there are", std::to_string(count),
                std::to_string(tree[shards].integer));
}

bool is_list(const tree::TreeNode& node) { return node.kind == CKPT_NODE_LIST || node.kind == CKPT_NODE_TUPLE; }

// [(whole, large), …]
Result<std::vector<HfaiShare>> shares_of(const HfaiPart& part, const char* key) {
  const Tree& tree = part.tree();
  const uint32_t list = tree.find(part.root, key);
  if (list == kNoNode || !is_list(tree[list])) return part.wrong(part.root, "no list " + ckpt::in_quotes(key));
  std::vector<HfaiShare> shares;
  for (uint32_t pair = tree.first_child(list); pair != kNoNode; pair = tree[pair].next) {
    if (!is_list(tree[pair]) || tree[pair].child_count != 2)
      return part.wrong(pair, "expected a pair of what is whole and what is cut");
    const uint32_t first = tree.first_child(pair), second = tree[first].next;
    HfaiShare share{hfai_entries_of(tree, first), hfai_entries_of(tree, second)};
    // Of an optimizer the keys are pairs.
    if (share.large == kNoNode && tree[second].kind == CKPT_NODE_RECORD && tree[second].text_view() == "builtins.dict")
      share.large = second;
    if (share.whole == kNoNode) return part.wrong(first, "expected a dict");
    if (share.large == kNoNode) return part.wrong(second, "expected a dict");
    shares.push_back(share);
  }
  return shares;
}

Result<HfaiPart> open_part(const std::string& path, std::string name, size_t count, const ReadOptions& options,
                           SpareTree& spare, FileTable& files) {
  const std::string file_path = path + '/' + name;
  CKPT_ASSIGN(InputFile file, InputFile::open(file_path, options.folder));
  CKPT_ASSIGN(PtSource source, PtSource::parse(file_path, file.bytes(), options));
  files.add(file_path, std::move(file));
  CKPT_ASSIGN(PtTree content, make_tree(source, spare));
  HfaiPart part{std::make_shared<const PtSource>(std::move(source)), std::move(content), std::move(name), 0, {}, {}};
  part.root = hfai_entries_of(part.tree(), 0);
  if (part.root == kNoNode) return part.wrong(0, "expected a dict");
  CKPT_TRY(check_header(part, count));
  CKPT_ASSIGN(part.models, shares_of(part, kHfaiModel));
  CKPT_ASSIGN(part.optimizers, shares_of(part, kHfaiOptimizer));
  return part;
}

Status check_alike(const HfaiPart& first, const HfaiPart& part) {
  if (part.models.size() != first.models.size())
    return unlike(CKPT_MISMATCH, part, "number of models", std::to_string(first.models.size()) + " as in " + first.name,
                  std::to_string(part.models.size()));
  if (part.optimizers.size() != first.optimizers.size())
    return unlike(CKPT_MISMATCH, part, "number of optimizers",
                  std::to_string(first.optimizers.size()) + " as in " + first.name,
                  std::to_string(part.optimizers.size()));
  return Ok();
}

}  // namespace

Status HfaiPart::wrong(uint32_t node, const std::string& what) const {
  const std::string place = tree().path_of(node);
  return part_error(CKPT_FORMAT, *this, (place.empty() ? "" : "at " + shown(place) + ": ") + what);
}

uint32_t hfai_entries_of(const Tree& tree, uint32_t node) {
  if (tree[node].kind == CKPT_NODE_DICT) return node;
  if (tree[node].kind != CKPT_NODE_RECORD || tree[node].text_view() != "collections.OrderedDict") return kNoNode;
  const uint32_t items = tree.find(node, "items");
  return items != kNoNode && tree[items].kind == CKPT_NODE_DICT ? items : kNoNode;
}

bool is_hfai(const Candidate& candidate) {
  return candidate.is_directory && !part_names(candidate.path, candidate.folder).empty();
}

Result<std::vector<HfaiPart>> open_hfai_parts(const std::string& path, const ReadOptions& options, FileTable& files) {
  const std::vector<std::string> names = part_names(path, options.folder);
  if (names.empty()) return Status(CKPT_NOT_FOUND, path + ": no files PART_*.pt").with("path", path);
  CKPT_TRY(check_names(path, names));
  expect_files(path, names, options.folder);
  std::vector<HfaiPart> parts;
  SpareTree spare;
  for (size_t i = 0; i < names.size(); i++) {
    CKPT_ASSIGN(HfaiPart part, open_part(path, hfai_part_name(i), names.size(), options, spare, files));
    parts.push_back(std::move(part));
    CKPT_TRY(check_alike(parts.front(), parts.back()));
  }
  return parts;
}

}  // namespace ckpt::interop
