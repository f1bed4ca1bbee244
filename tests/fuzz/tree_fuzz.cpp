// The bytes as the JSON of a state tree: either refused, or a sound tree whose own JSON gives the same tree again.
#include "fuzz/harness.h"
#include "tree/tree.h"

namespace ckpt::fuzz {
namespace {

using namespace tree;

void walk_tree(const Tree& tree) {
  for (uint32_t i = 0; i < tree.size(); i++) {
    const TreeNode& node = tree[i];
    must(node.key_size == 0 || node.key[node.key_size] == 0);
    must(node.text == nullptr || node.text[node.text_size] == 0);
    must(i == 0 || node.parent < i);
    uint32_t children = 0;
    for (uint32_t child = tree.first_child(i); child != kNoNode; child = tree[child].next, children++) {
      must(tree[child].parent == i);
      const bool text = tree[child].key_kind == CKPT_KEY_TEXT;
      must((text ? tree.find(i, tree[child].key_view()) : tree.find(i, tree[child].place)) == child);
    }
    must(children == node.child_count);
  }
}

}  // namespace
}  // namespace ckpt::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ckpt;
  auto parsed = tree::parse_tree_json(as_text(fuzz::input(data, size)));
  fuzz::must_blame_the_bytes(parsed.status());
  if (!parsed.ok()) return 0;
  fuzz::must(parsed->complete());
  fuzz::walk_tree(*parsed);
  const std::string json = tree::tree_json(*parsed);
  auto again = tree::parse_tree_json(json);
  fuzz::must(again.ok() && again->size() == parsed->size() && tree::tree_json(*again) == json);
  return 0;
}
