// What torchtune writes: the parts of a state as files of their own, under the names that an import kept.
#include <algorithm>
#include <set>

#include "interop/src/json.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/format.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;

Result<uint32_t> entries_of(const Tree& tree) {
  if (tree[0].kind == CKPT_NODE_DICT) return 0U;
  const bool ordered = tree[0].kind == CKPT_NODE_RECORD && tree[0].text_view() == "collections.OrderedDict";
  const uint32_t items = ordered ? tree.find(0, "items") : kNoNode;
  if (items != kNoNode && tree[items].kind == CKPT_NODE_DICT) return items;
  return Status(CKPT_MISMATCH, "export: the state is no dict of parts");
}

namespace {

bool is_safetensors_path(const std::string& path) { return path.ends_with(kSuffix); }

// "epoch_3/" of "epoch_3/model.safetensors"; empty for a file beside the others.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Of a file, or of one in a directory.
Status check_path(const std::string& path) {
  const std::string folder = folder_of(path);
  CKPT_TRY(check_file_name(name_of(path), ""));
  return folder.empty() ? Ok() : check_file_name(folder.substr(0, folder.size() - 1), "");
}

struct TorchtuneFiles {
  std::vector<std::string> models;
  std::string adapter = "epoch_0/adapter_model.pt", recipe = "recipe_state/recipe_state.pt";
  std::string folder = "epoch_0/";  // of the model
  std::string index;                // of .bin files, where they had one
};

Result<TorchtuneFiles> torchtune_files(const State& state) {
  TorchtuneFiles files;
  const std::string text = get_text(state, kTorchtuneFilesAttr);
  if (text.empty()) return files;
  const auto wrong = [](const std::string& what) {
    return Status(CKPT_FORMAT, strformat("attribute {}: ", kTorchtuneFilesAttr) + what);
  };
  Result<std::vector<std::string>> paths = parse_string_list(text);
  if (!paths.ok()) return wrong(paths.status().message());
  std::set<std::string> seen;
  for (const std::string& path : *paths) {
    if (const Status status = check_path(path); !status.ok()) return wrong(status.message());
    if (!seen.insert(path).second) return wrong("a path comes twice");
    const std::string name = name_of(path);
    if (name == "recipe_state.pt") {
      files.recipe = path;
    } else if (name.starts_with("adapter")) {
      files.adapter = path;
      files.folder = folder_of(path);
    } else if (name == kBinIndex) {
      files.index = path;
    } else {
      files.models.push_back(path);
    }
  }
  if (!files.models.empty()) files.folder = folder_of(files.models[0]);
  return files;
}

class TorchtunePlan {
 public:
  TorchtunePlan(const ExportRequest& request, const Tree& tree, const TorchtuneFiles& files)
      : request_(request), tree_(tree), files_(files) {}

  Result<ExportPlan> run() {
    plan_.is_directory = true;
    CKPT_ASSIGN(const uint32_t root, entries_of(tree_));
    const uint32_t model = tree_.find(root, "model"), adapter = tree_.find(root, "adapter");
    const bool in_parts = model != kNoNode || adapter != kNoNode;
    const uint32_t weights = in_parts ? model : root;
    if (!in_parts) CKPT_TRY(check_weights(root));
    if (weights != kNoNode) CKPT_TRY(put_model(weights, in_parts ? "model" : ""));
    if (adapter != kNoNode) CKPT_TRY(put_adapter(adapter));
    uint32_t others = 0;
    for (uint32_t child = tree_.first_child(root); in_parts && child != kNoNode; child = tree_[child].next)
      others += child != model && child != adapter;
    if (others == 0) return std::move(plan_);
    const auto keep = [model, adapter](uint32_t node) { return node != model && node != adapter; };
    CKPT_ASSIGN(ExportFile recipe, pt_file_of(request_, tree_, root, files_.recipe, {.keep = keep}));
    plan_.files.push_back(std::move(recipe));
    return std::move(plan_);
  }

 private:
  // Without parts the state is the model, which holds tensors only.
  Status check_weights(uint32_t root) const {
    for (uint32_t child = tree_.first_child(root); child != kNoNode; child = tree_[child].next)
      if (tree_[child].kind != CKPT_NODE_TENSOR && tree_[child].kind != CKPT_NODE_RECORD)
        return Status(CKPT_MISMATCH, "export: torchtune's state has model or adapter, or is a dict of tensors; found " +
                                         shown(tree_[child].key_view()))
            .with("found", std::string(tree_[child].key_view()));
    return Ok();
  }

  // As safetensors are exported, but for their place.
  Status put_safetensors(const std::string& at, const std::string& path, const std::string& folder) {
    ExportRequest part{request_.reader, path, request_.options, request_.job};
    if (!at.empty()) part.options.at = at;
    CKPT_ASSIGN(ExportPlan made, plan_safetensors(part));
    for (ExportFile& file : made.files) {
      file.name = made.is_directory ? folder + file.name : path;
      plan_.files.push_back(std::move(file));
    }
    return Ok();
  }

  Status put_model(uint32_t node, const std::string& at) {
    const std::vector<std::string>& paths = files_.models;
    if (paths.empty() || std::ranges::all_of(paths, is_safetensors_path))
      return put_safetensors(at, files_.folder, files_.folder);
    for (size_t i = 0; i < paths.size(); i++) {
      const auto keep = [&](uint32_t child) { return paths.size() == 1 || file_of(child) == i; };
      CKPT_ASSIGN(ExportFile file, pt_file_of(request_, tree_, node, paths[i], {.keep = keep}));
      plan_.files.push_back(std::move(file));
    }
    return files_.index.empty() ? Ok() : put_index(node);
  }

  // Of .bin files, as torchtune writes it.
  Status put_index(uint32_t model) {
    const bool is_record = tree_[model].kind == CKPT_NODE_RECORD;
    const uint32_t entries = is_record ? tree_.find(model, "items") : model;
    StringMap weight_map;
    uint64_t total = 0;
    for (uint32_t child = entries == kNoNode ? kNoNode : tree_.first_child(entries); child != kNoNode;
         child = tree_[child].next) {
      weight_map.emplace_back(tree_[child].key_view(), name_of(files_.models[file_of(child)]));
      if (tree_[child].kind != CKPT_NODE_TENSOR) continue;
      CKPT_ASSIGN(const ckpt_tensor_info info, request_.reader.tensor(std::string(tree_[child].text_view())));
      total += info.bytes;
    }
    plan_.files.push_back(
        text_file(files_.index, make_index("{\"total_size\":" + std::to_string(total) + "}", weight_map)));
    return Ok();
  }

  // Which file of the model a tensor was in. What was in none is in the first.
  size_t file_of(uint32_t node) const {
    const tree::TreeNode& found = tree_[node];
    if (found.kind != CKPT_NODE_TENSOR) return 0;
    const auto text = request_.reader.tensor_attr(std::string(found.text_view()), kModelFileAttr);
    for (size_t i = 0; text && i < files_.models.size(); i++)
      if (*text == std::to_string(i)) return i;
    return 0;
  }

  Status put_adapter(uint32_t node) {
    if (is_safetensors_path(files_.adapter)) return put_safetensors("adapter", files_.adapter, {});
    CKPT_ASSIGN(ExportFile file, pt_file_of(request_, tree_, node, files_.adapter, {}));
    plan_.files.push_back(std::move(file));
    return Ok();
  }

  const ExportRequest& request_;
  const Tree& tree_;
  const TorchtuneFiles& files_;
  ExportPlan plan_;
};

}  // namespace

Result<ExportPlan> plan_torchtune(const ExportRequest& request) {
  CKPT_ASSIGN(TorchtuneFiles files, torchtune_files(request.reader));
  CKPT_ASSIGN(const auto given, index_in(request.options.config));
  if (given && files.folder.empty()) files = {};  // an older torchtune's .pt had no directory
  if (given) files.models.clear();
  CKPT_ASSIGN(const Tree tree, request.reader.tree());
  return TorchtunePlan(request, tree, files).run();
}

}  // namespace ckpt::interop
