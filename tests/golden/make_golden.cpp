// make_golden DIRECTORY: saves the catalogue's checkpoints through ckpt.h as DIRECTORY/<label>. Beside each it writes
// <label>.json: what a reader must find there, in the words of reference_reader.py. The committed goldens were made
// like this once and stay; tests make fresh ones to check today's writer.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden/catalogue.h"
#include "golden/sha256.h"

namespace {

using nlohmann::json;
using namespace ckpt_golden;

std::string sha256(const Bytes& bytes) { return Sha256::of(bytes.data(), bytes.size()); }

std::string dtype_text(int32_t dtype) {
  std::string name = ckpt_dtype_name(dtype);
  return name != "dtype" ? name : "opaque" + std::to_string(dtype >> 8) + "_" + std::to_string(ckpt_dtype_bits(dtype));
}

json expected(const Contents& contents) {
  json out;
  out["identity"] = {
      {"label", contents.label}, {"run", "main"}, {"step", contents.step}, {"world_size", contents.world}};
  out["attrs"] = contents.attrs;
  out["tensors"] = out["aliases"] = json::object();
  out["objects"] = json::array();
  for (const Tensor& tensor : contents.tensors)
    out["tensors"][tensor.name] = {{"attrs", tensor.attrs},
                                   {"dtype", dtype_text(tensor.dtype)},
                                   {"sha256", sha256(tensor.bytes)},
                                   {"shape", tensor.shape}};
  for (const Alias& alias : contents.aliases) {
    json& entry = out["aliases"][alias.name];
    entry = out["tensors"][alias.target];
    entry["attrs"] = json::object();
    entry["sha256"] = sha256(expected_alias(contents, alias));
    entry["target"] = alias.target;
    entry["view"] = nullptr;
    if (!alias.view) continue;
    entry["shape"] = alias.extents;
    entry["view"] = {{"extents", alias.extents}, {"offset", alias.offset}, {"strides", alias.strides}};
  }
  for (const Object& object : contents.objects)
    for (size_t rank = 0; rank < object.bytes.size(); rank++)
      out["objects"].push_back({{"name", object.name},
                                {"rank", object.per_rank ? json(rank) : json(nullptr)},
                                {"size", object.bytes[rank].size()},
                                {"media_type", object.media_type},
                                {"sha256", sha256(object.bytes[rank])}});
  for (const RankTrees& trees : contents.trees) {
    auto add = [&](const std::string& name, const Stored& stored) {
      out["objects"].push_back({{"name", name},
                                {"rank", stored.rank},
                                {"size", stored.text.size()},
                                {"media_type", CKPT_TREE_MEDIA_TYPE},
                                {"sha256", Sha256::of(stored.text.data(), stored.text.size())}});
    };
    for (const Stored& stored : trees.different) add(trees.name, stored);
    for (const Stored& stored : trees.own) add(trees.name + ".per_rank", stored);
    out["trees"][trees.name] = json::parse(trees.merged);
  }
  return out;
}

int make(const ckpt_store* store, const std::string& directory, const Contents& contents) {
  std::string id, problem;
  if (save_contents(store, contents, &id, &problem) != CKPT_OK) {
    std::fprintf(stderr, "%s: %s\n", contents.label.c_str(), problem.c_str());
    return 1;
  }
  std::filesystem::rename(directory + "/" + id, directory + "/" + contents.label);
  std::ofstream(directory + "/" + contents.label + ".json") << expected(contents).dump(1, ' ', false) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_golden DIRECTORY\n");
    return 2;
  }
  ckpt_store* store = nullptr;
  ckpt_error* error = nullptr;
  if (ckpt_store_open(&store, argv[1], nullptr, &error) != CKPT_OK) {
    std::fprintf(stderr, "%s\n", ckpt_error_message(error));
    return 1;
  }
  int failed = 0;
  for (const Contents& contents : catalogue()) failed |= make(store, argv[1], contents);
  ckpt_store_free(store);
  return failed;
}
