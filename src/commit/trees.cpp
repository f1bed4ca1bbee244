#include "commit/trees.h"

#include <algorithm>
#include <deque>

#include "format/checksum.h"
#include "format/names.h"
#include "format/tree.h"

namespace ckpt::commit {

namespace {

struct SavedTree {
  uint32_t rank;
  std::string object;
  format::Tree tree;
};
struct Leaf {
  std::string_view name;
  const SavedTree* tree;
  uint32_t node;
  bool known = false;
};

}  // namespace

// All bytes of an object; nullopt if they cannot be read.
static std::optional<std::string> read_bytes(const checkpoint::PartFile& part, const format::Page& page,
                                             const fb::Object& object, const store::Reader* file) {
  if (object.placement() == 0)
    return std::string(as_text(page.inline_data.subspan(object.inline_offset(), object.size())));
  if (!file || object.size() > part.size) return std::nullopt;
  std::string bytes(object.size(), '\0');
  MutableBytes left = std::as_writable_bytes(std::span(bytes));
  for (const fb::Chunk& chunk : page.chunks_of(object)) {
    const MutableBytes to = left.first(chunk.raw_size());
    if (!file->read_at(chunk.offset(), to).ok() || format::xxh3_128(to) != format::id_of(chunk.digest()))
      return std::nullopt;
    left = left.subspan(chunk.raw_size());
  }
  return bytes;
}

static bool is_tree(const format::Page& page, const fb::Object& object) {
  return object.placement() != 2 && page.text(object.media_type()) == CKPT_TREE_MEDIA_TYPE;
}

// The trees of a part.
static Status add_trees(const checkpoint::PartFile& part, const store::Store& store, std::string_view directory,
                        std::deque<SavedTree>* trees) {
  std::unique_ptr<store::Reader> file;
  for (size_t i = 0; i < part.index->page_count(); i++) {
    CKPT_ASSIGN(const format::Page* page, part.index->page(i));
    for (const fb::Object& object : page->objects) {
      if (!is_tree(*page, object)) continue;
      if (object.placement() != 0 && !file)
        if (auto opened = store.open(format::part_key(directory, part.number)); opened.ok()) file = opened.take();
      const auto json = read_bytes(part, *page, object, file.get());
      if (!json) continue;
      if (auto tree = format::parse_tree_json(*json); tree.ok())
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
template <typename Record>
static size_t mark_known(std::span<Leaf> leaves, const format::Page& page, std::span<const Record> records) {
  size_t marked = 0;
  auto from = leaves.begin();
  for (const Record& record : records) {
    auto same = std::ranges::equal_range(from, leaves.end(), page.text(record.name()), {}, &Leaf::name);
    for (Leaf& leaf : same) {
      if (!leaf.known) marked++;
      leaf.known = true;
    }
    from = same.end();
  }
  return marked;
}

Status check_trees(std::span<const checkpoint::PartFile> parts, const store::Store& store, std::string_view directory) {
  std::deque<SavedTree> trees;
  for (const checkpoint::PartFile& part : parts) CKPT_TRY(add_trees(part, store, directory, &trees));
  std::vector<Leaf> leaves = leaves_of(trees);
  size_t unknown = leaves.size();
  for (const checkpoint::PartFile& part : parts)
    for (size_t i = 0; i < part.index->page_count() && unknown > 0; i++) {
      CKPT_ASSIGN(const format::Page* page, part.index->page(i));
      unknown -= mark_known(std::span(leaves), *page, page->tensors);
      unknown -= mark_known(std::span(leaves), *page, page->aliases);
    }
  if (unknown == 0) return Ok();
  const Leaf& leaf = *std::ranges::find(leaves, false, &Leaf::known);
  return Status(CKPT_MISMATCH,
                strformat("object {} of rank {}: its tree names tensor {} at {}, which no rank added; add it before "
                          "the save runs, or leave it out of the tree",
                          quoted(leaf.tree->object), leaf.tree->rank, quoted(leaf.name),
                          quoted(leaf.tree->tree.path_of(leaf.node))))
      .with("tensor", std::string(leaf.name))
      .with("ranks", std::to_string(leaf.tree->rank));
}

}  // namespace ckpt::commit
