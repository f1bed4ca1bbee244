// What torchtune's checkpointers write: since 0.5 a directory for each epoch, before that files with the epoch in their
// names; and the state of the recipe.
#include <algorithm>
#include <charconv>
#include <optional>

#include "interop/src/json.h"
#include "interop/src/look.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

namespace {

// The number in "epoch_3" or "hf_model_0001_3.pt"; none for another name.
std::optional<uint64_t> epoch_of(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size()) return {};
  std::string_view middle = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (const size_t last = middle.rfind('_'); last != middle.npos) middle.remove_prefix(last + 1);
  uint64_t epoch = 0;
  const auto [stop, error] = std::from_chars(middle.data(), middle.data() + middle.size(), epoch);
  if (error != std::errc() || stop != middle.data() + middle.size()) return {};
  return epoch;
}

constexpr std::string_view kModels[] = {"hf_model_", "meta_model_", "torchtune_model_"};

struct Epoch {
  std::string directory;            // of a newer torchtune
  bool has_weights = false;         // in it: with LoRA there may be an adapter alone
  std::vector<std::string> models;  // of an older one
  std::string adapter;              // file
  std::string missing;              // the newest, of which nothing is there
  std::vector<std::string> others;  // beside it
};

// The newest; none where there is none.
std::optional<Epoch> newest(const std::string& path, const Folder& folder) {
  const std::vector<std::string> names = names_in_directory(path, folder);
  std::optional<uint64_t> last;
  for (const std::string& name : names) {
    const auto epoch = epoch_of(name, "epoch_", "");
    if (epoch && (!last || *epoch > *last)) last = epoch;
  }
  if (last) {
    Epoch epoch;
    epoch.directory = path + "/epoch_" + std::to_string(*last);
    std::vector<std::string> files = names_in_directory(epoch.directory, folder);
    // Of an adapter there are two copies; a recipe resumes from torchtune's own.
    for (const char* name : {"adapter_model.bin", "adapter_model.safetensors", "adapter_model.pt"})
      if (std::binary_search(files.begin(), files.end(), name)) epoch.adapter = epoch.directory + '/' + name;
    std::erase_if(files, [](const std::string& name) { return name.starts_with("adapter_"); });
    epoch.has_weights = holds_weights(files) || std::binary_search(files.begin(), files.end(), kIndexFile);
    if (epoch.has_weights || !epoch.adapter.empty()) return epoch;
    if (files.empty()) epoch.missing = "epoch_" + std::to_string(*last);
    for (const std::string& name : names)
      if (epoch_of(name, "epoch_", "") && !names_in_directory(path + '/' + name, folder).empty())
        epoch.others.push_back(name);
    // Anybody may have such directories.
    const bool is_ours = !epoch.missing.empty() && std::ranges::any_of(epoch.others, [&](const std::string& name) {
      return holds_weights(names_in_directory(path + '/' + name, folder));
    });
    return is_ours ? std::optional(epoch) : std::nullopt;
  }
  for (const std::string& name : names)
    for (const std::string_view prefix : kModels)
      if (const auto epoch = epoch_of(name, prefix, ".pt"); epoch && (!last || *epoch > *last)) last = epoch;
  if (!last) return {};
  Epoch epoch;
  for (const std::string& name : names) {
    for (const std::string_view prefix : kModels)
      if (epoch_of(name, prefix, ".pt") == last) epoch.models.push_back(path + '/' + name);
    if (epoch_of(name, "adapter_", ".pt") == last) epoch.adapter = path + '/' + name;
  }
  return epoch;
}

std::string recipe_of(const std::string& path, const Folder& folder) {
  for (const char* inner : {"/recipe_state", ""}) {
    const std::vector<std::string> names = names_in_directory(path + inner, folder);
    if (std::binary_search(names.begin(), names.end(), "recipe_state.pt")) return path + inner + "/recipe_state.pt";
  }
  return "";
}

Status read_model(const Epoch& epoch, const ReadOptions& options, std::vector<StatePart>* parts) {
  StatePart model{"model", {}};
  for (const std::string& path : epoch.models) {
    CKPT_ASSIGN(StatePart part, read_part("", path, options));
    model.content.push_back(std::move(part.content[0]));
  }
  if (epoch.has_weights) {
    CKPT_ASSIGN(model.content, read_weights(epoch.directory, options));
  }
  for (size_t i = 0; model.content.size() > 1 && i < model.content.size(); i++)
    for (ForeignTensor& tensor : model.content[i].tensors)
      tensor.attributes.emplace_back(kModelFileAttr, std::to_string(i));
  if (!model.content.empty()) parts->push_back(std::move(model));
  return Ok();
}

}  // namespace

bool is_torchtune(const Candidate& candidate) {
  return candidate.is_directory && newest(candidate.path, candidate.folder).has_value();
}

Result<ForeignCheckpoint> read_torchtune(const std::string& path, const ReadOptions& options) {
  const std::optional<Epoch> epoch = newest(path, options.folder);
  if (!epoch) return Status(CKPT_NOT_FOUND, path + ": no epoch any more").with("path", path);
  if (!epoch->missing.empty()) return newest_is_missing(path, "the newest directory", epoch->missing, epoch->others);
  std::vector<StatePart> parts;
  CKPT_TRY(read_model(*epoch, options, &parts));
  if (!epoch->adapter.empty()) {
    CKPT_ASSIGN(StatePart part, read_part("adapter", epoch->adapter, options));
    parts.push_back(std::move(part));
  }
  if (const std::string recipe = recipe_of(path, options.folder); !recipe.empty()) {
    CKPT_ASSIGN(StatePart part, read_part("recipe_state", recipe, options));
    // Its entries stand beside the model. What cannot be read is left out by that name.
    if (*part.content[0].format != '\0') part.key.clear();
    parts.push_back(std::move(part));
  }
  CKPT_ASSIGN(ForeignCheckpoint all, combine("torchtune", std::move(parts)));
  std::vector<std::string> files;
  for (size_t i = 0; i < all.files.count(); i++) {
    const std::string file = all.files.path(i);
    if (file.starts_with(path)) files.push_back(file.substr(file.find_first_not_of('/', path.size())));
  }
  if (epoch->has_weights && reads_bin_index(epoch->directory, options.folder))
    files.push_back(epoch->directory.substr(path.size() + 1) + '/' + kBinIndex);
  all.attributes.emplace_back(kTorchtuneFilesAttr, json_of(files));
  keep_file_names(all, path);
  return all;
}

}  // namespace ckpt::interop
