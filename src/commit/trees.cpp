#include "commit/trees.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "codec/checksum.h"
#include "format/names.h"
#include "format/part_record.h"
#include "tree/merge.h"

namespace ckpt::commit {

namespace {

struct SavedTree {
  uint32_t rank;
  std::string object;
  tree::Tree tree;
};
struct Leaf {
  std::string_view name;
  const SavedTree* tree;
  uint32_t node;
  bool known = false;
};

}  // namespace

namespace {

// The files that hold the objects of a part: itself, and its bases.
class HomeFiles {
 public:
  HomeFiles(const checkpoint::PartFile& part, const store::Store& store, std::string_view directory)
      : part_(part), store_(store), directory_(directory) {}
  // Of all of them, as the part tells.
  uint64_t bytes() const {
    uint64_t sum = part_.size;
    for (const fb::Base& base : part_.index->root().bases)
      if (add_overflows(sum, base.part().size(), &sum)) return UINT64_MAX;
    return sum;
  }
  // Null if it cannot be opened.
  const store::Reader* of(const format::Page& page, const fb::Chunk& chunk) {
    const uint16_t home = page.home_of(chunk);
    if (home == 0 && part_.file) return part_.file.get();
    std::unique_ptr<store::Reader>& file = files_[home];
    if (!file) {
      auto opened = store_.open(
          home == 0 ? format::part_key(directory_, part_.number)
                    : format::file_key(directory_, format::file_name(part_.index->root().bases[home - 1].part())));
      if (opened.ok()) file = opened.take();
    }
    return file.get();
  }

 private:
  const checkpoint::PartFile& part_;
  const store::Store& store_;
  const std::string_view directory_;
  std::map<uint16_t, std::unique_ptr<store::Reader>> files_;
};

}  // namespace

// All bytes of an object; nullopt if they cannot be read.
static std::optional<std::string> read_bytes(const format::Page& page, const fb::Object& object, HomeFiles& files) {
  if (object.placement() == 0)
    return std::string(as_text(page.inline_data.subspan(object.inline_offset(), object.size())));
  if (object.size() > files.bytes()) return std::nullopt;
  std::string bytes(object.size(), '\0');
  MutableBytes left = std::as_writable_bytes(std::span(bytes));
  for (const fb::Chunk& chunk : page.chunks_of(object)) {
    const MutableBytes to = left.first(chunk.raw_size());
    const store::Reader* file = files.of(page, chunk);
    if (!file || !file->read_at(chunk.offset(), to).ok() || codec::xxh3_128(to) != format::id_of(chunk.digest()))
      return std::nullopt;
    left = left.subspan(chunk.raw_size());
  }
  return bytes;
}

static bool is_tree(const format::Page& page, const fb::Object& object) {
  return object.placement() != 2 && page.text(object.media_type()) == CKPT_TREE_MEDIA_TYPE;
}

using SeenTrees = std::set<std::pair<std::string_view, Id>>;  // object, digest

// The trees of a part but those whose object had the same bytes on a rank before.
static Status add_trees(const checkpoint::PartFile& part, const store::Store& store, std::string_view directory,
                        SeenTrees* seen, std::deque<SavedTree>* trees) {
  HomeFiles files(part, store, directory);
  for (size_t i = 0; i < part.index->page_count(); i++) {
    CKPT_ASSIGN(const format::Page* page, part.index->page(i));
    for (const fb::Object& object : page->objects) {
      if (!is_tree(*page, object)) continue;
      if (!seen->emplace(page->text(object.name()), format::id_of(object.digest())).second) continue;
      const auto json = read_bytes(*page, object, files);
      if (!json) continue;
      if (auto tree = tree::parse_tree_json(*json); tree.ok())
        trees->push_back({part.header.rank, std::string(page->text(object.name())), tree.take()});
    }
  }
  return Ok();
}

// The tensors that trees name, in the order of their names.
static std::vector<Leaf> leaves_of(const std::deque<SavedTree>& trees) {
  std::vector<Leaf> leaves;
  for (const SavedTree& saved : trees)
    for (uint32_t i = 0; i < saved.tree.size(); i++)
      if (saved.tree[i].kind == CKPT_NODE_TENSOR) leaves.push_back({saved.tree[i].text_view(), &saved, i, false});
  std::ranges::stable_sort(leaves, {}, &Leaf::name);
  return leaves;
}

// Marks the leaves whose names are among those of the records, which are in order. Returns how many it marked.
template <typename AnyLeaf, typename Record, typename Text>
static size_t mark_known(std::span<AnyLeaf> leaves, std::span<const Record> records, Text&& text) {
  size_t marked = 0;
  auto from = leaves.begin();
  for (const Record& record : records) {
    const std::string_view name = text(record);
    from = std::ranges::lower_bound(from, leaves.end(), name, {}, &AnyLeaf::name);
    for (; from != leaves.end() && from->name == name; ++from) {
      if (!from->known) marked++;
      from->known = true;
    }
  }
  return marked;
}

// Marks the leaves that these parts added. Returns how many are left.
template <typename AnyLeaf>
static Result<size_t> mark_in_parts(std::span<const checkpoint::PartFile> parts, std::span<AnyLeaf> leaves) {
  size_t unknown = leaves.size();
  for (const checkpoint::PartFile& part : parts)
    for (size_t i = 0; i < part.index->page_count() && unknown > 0; i++) {
      CKPT_ASSIGN(const format::Page* page, part.index->page(i));
      auto text = [page](const auto& record) { return page->text(record.name()); };
      unknown -= mark_known(leaves, page->tensors, text);
      unknown -= mark_known(leaves, page->aliases, text);
    }
  return unknown;
}

static Result<std::deque<SavedTree>> trees_in(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                                              std::string_view directory) {
  std::deque<SavedTree> trees;
  SeenTrees seen;
  for (const checkpoint::PartFile& part : parts) CKPT_TRY(add_trees(part, store, directory, &seen, &trees));
  return trees;
}

static Result<std::vector<UnknownLeaf>> unknown_leaves(std::span<const checkpoint::PartFile> parts,
                                                       const std::deque<SavedTree>& trees) {
  std::vector<Leaf> leaves = leaves_of(trees);
  CKPT_TRY(mark_in_parts(parts, std::span(leaves)).status());
  std::vector<UnknownLeaf> unknown;
  for (const Leaf& leaf : leaves)
    if (!leaf.known)
      unknown.push_back(
          {std::string(leaf.name), leaf.tree->object, leaf.tree->tree.path_of(leaf.node), leaf.tree->rank});
  return unknown;
}

Result<std::vector<UnknownLeaf>> unknown_leaves(std::span<const checkpoint::PartFile> parts, const store::Store& store,
                                                std::string_view directory) {
  CKPT_ASSIGN(const auto trees, trees_in(parts, store, directory));
  return unknown_leaves(parts, trees);
}

// ---- whether trees fit together ----

static Result<tree::Tree> read_tree(const checkpoint::PartFile& part, std::string_view name, const store::Store& store,
                                    std::string_view directory) {
  HomeFiles files(part, store, directory);
  CKPT_ASSIGN(const format::Page* page, part.index->page_of(name));
  const fb::Object* object = page->find_object(name);
  auto json = object ? read_bytes(*page, *object, files) : std::nullopt;
  if (!json)
    return Status(CKPT_CORRUPT, "object " + in_quotes(name) + ": its bytes are not what the part's index says");
  return tree::parse_tree_json(*json);
}

// The trees of one object must not contradict each other. `known` has those of the first ranks that could be read.
static Status check_merge(const HeldTree& held, const std::deque<SavedTree>& known, const store::Store& store,
                          std::string_view directory) {
  if (held.parts.size() == 1) return Ok();
  std::deque<tree::Tree> read;
  std::vector<tree::RankTree> ranks;
  for (uint32_t number : held.parts) {
    auto is_it = [&](const SavedTree& saved) { return saved.rank == number && saved.object == held.object; };
    if (const auto found = std::ranges::find_if(known, is_it); found != known.end()) {
      ranks.push_back({number, &found->tree});
      continue;
    }
    CKPT_ASSIGN(const checkpoint::PartFile part, checkpoint::open_part(store, directory, number));
    auto tree = read_tree(part, held.object, store, directory);
    if (!tree.ok()) return checkpoint::at_part(std::move(tree).status(), store, directory, number);
    ranks.push_back({number, &read.emplace_back(tree.take())});
  }
  auto merged = tree::merge_trees(ranks);
  return merged.ok() ? Ok() : std::move(merged).status().in("object " + in_quotes(held.object));
}

Status check_trees(std::span<const checkpoint::PartFile> parts, std::span<const Gathered> groups,
                   std::span<const HeldTree> trees, const store::Store& store, std::string_view directory) {
  CKPT_ASSIGN(const auto known, trees_in(parts, store, directory));
  for (const HeldTree& held : trees) CKPT_TRY(check_merge(held, known, store, directory));
  CKPT_ASSIGN(auto leaves, unknown_leaves(parts, known));
  for (const Gathered& group : groups)
    for (const Gathered::Leaf& leaf : group.leaves)
      leaves.push_back({std::string(group.text(leaf.name)), std::string(group.text(leaf.object)),
                        std::string(group.text(leaf.path)), leaf.rank});
  std::ranges::stable_sort(leaves, {}, &UnknownLeaf::name);
  CKPT_ASSIGN(size_t unknown, mark_in_parts(parts, std::span(leaves)));
  for (const Gathered& group : groups) {
    auto text = [&group](const auto& record) { return group.text(record.name); };
    unknown -= mark_known(std::span(leaves), std::span<const Gathered::Tensor>(group.tensors), text);
    unknown -= mark_known(std::span(leaves), std::span<const Gathered::Alias>(group.aliases), text);
  }
  if (unknown == 0) return Ok();
  const UnknownLeaf& leaf = *std::ranges::find(leaves, false, &UnknownLeaf::known);
  return error_about(
             CKPT_MISMATCH, leaf.name,
             strformat("object {} of rank {}: its tree names tensor {} at {}, which no rank added; add it before "
                       "the save runs, or leave it out of the tree",
                       in_quotes(leaf.object), leaf.rank, in_quotes(leaf.name), in_quotes(leaf.path)))
      .with("ranks", std::to_string(leaf.rank));
}

}  // namespace ckpt::commit
