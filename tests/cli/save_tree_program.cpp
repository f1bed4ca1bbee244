// save_tree_program STORE LABEL TREE.JSON [NAME]: saves the tree, and for every tensor that it names six f32 as [2, 3].
// What is not JSON of the convention is saved as it is, so that scenarios see what the tool says to it.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "ckpt_tree.h"

namespace {

int failed(ckpt_error* error) {
  std::fprintf(stderr, "%s\n", ckpt_error_message(error));
  return 1;
}

ckpt_status add_tensors(ckpt_save* save, const ckpt_tree* tree, ckpt_error** error) {
  static const float kNumbers[6] = {0, 1, 2, 3, 4, 5};
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = CKPT_DTYPE_F32;
  desc.ndim = 2;
  desc.shape[0] = 2;
  desc.shape[1] = 3;
  std::set<std::string> added;
  for (uint64_t i = 0; i < ckpt_tree_node_count(tree); i++) {
    ckpt_node node{};
    node.struct_size = sizeof node;
    if (ckpt_status status = ckpt_tree_at(tree, i, &node, error)) return status;
    if (node.kind != CKPT_NODE_TENSOR || !added.insert(node.text).second) continue;
    if (ckpt_status status =
            ckpt_save_add_tensor(save, node.text, &desc, kNumbers, sizeof kNumbers, CKPT_DEVICE_CPU, 0, error))
      return status;
  }
  return CKPT_OK;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  std::ifstream in(argv[3], std::ios::binary);
  const std::string json{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const char* name = argc > 4 ? argv[4] : CKPT_TREE_OBJECT;
  ckpt_error* error = nullptr;
  ckpt_store* store = nullptr;
  ckpt_session* session = nullptr;
  ckpt_save* save = nullptr;
  ckpt_tree* tree = nullptr;
  if (ckpt_store_open(&store, argv[1], nullptr, &error) ||
      ckpt_session_open(&session, store, 0, 1, nullptr, nullptr, &error) ||
      ckpt_save_new(&save, session, argv[2], -1, nullptr, &error))
    return failed(error);
  if (ckpt_tree_parse(&tree, json.data(), json.size(), nullptr) == CKPT_OK) {
    if (add_tensors(save, tree, &error) || ckpt_save_add_tree(save, name, tree, &error)) return failed(error);
  } else if (ckpt_save_add_object(save, name, CKPT_TREE_MEDIA_TYPE, CKPT_OBJECT_SHARED, json.data(), json.size(),
                                  &error)) {
    return failed(error);
  }
  if (ckpt_save_run(save, &error)) return failed(error);
  ckpt_tree_free(tree);
  ckpt_save_free(save);
  ckpt_session_free(session);
  ckpt_store_free(store);
  return 0;
}
