// save_tree_program STORE LABEL TREE.JSON [NAME [RANK WORLD]]: saves the tree, and for every tensor that it names six
// f32 as [2, 3].
// What is not JSON of the convention is saved as it is, so that scenarios see what the tool says to it; but "give up"
// saves nothing and leaves an attempt that aborted.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include <ckpt.hpp>

static void add_tree(ckpt::Save& save, const std::string& json, const std::string& name) {
  static const float kNumbers[6] = {0, 1, 2, 3, 4, 5};
  ckpt::Tree tree(nullptr);
  try {
    tree = ckpt::Tree::parse(json);
  } catch (const ckpt::Error&) {
    return save.add_object(name, CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, json);
  }
  std::set<std::string> added;
  for (uint64_t i = 0; i < tree.size(); i++) {
    const ckpt::Node node = tree.at(i);
    if (node.kind == CKPT_NODE_TENSOR && added.insert(node.text).second) save.add_tensor(node.text, {2, 3}, kNumbers);
  }
  save.add_tree(tree, name);
}

int main(int argc, char** argv) try {
  if (argc < 4) return 2;
  std::ifstream in(argv[3], std::ios::binary);
  const std::string json{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const uint32_t rank = argc > 6 ? static_cast<uint32_t>(std::atoi(argv[5])) : 0;
  const uint32_t world = argc > 6 ? static_cast<uint32_t>(std::atoi(argv[6])) : 1;
  auto session = ckpt::Session::open(ckpt::Store::open(argv[1]), rank, world, "", {{"rendezvous", world > 1}});
  auto save = ckpt::Save::create(session, argv[2]);
  if (json == "give up\n") return save.give_up("the scenario wants it so"), 0;
  add_tree(save, json, argc > 4 ? argv[4] : CKPT_TREE_OBJECT);
  save.run();
  return 0;
} catch (const ckpt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
