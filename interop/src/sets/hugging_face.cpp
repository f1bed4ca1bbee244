// What transformers writes: weights in .bin files, and the checkpoints of its Trainer.
#include <algorithm>
#include <map>

#include "interop/src/json.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/format.h"
#include "interop/src/sets/format.h"
#include "tree/tree.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kMostText = 1 << 30;
constexpr const char* kBin = ".bin";
constexpr const char* kPipelineFile = "model_index.json";
constexpr const char* kBinFile = "pytorch_model.bin";

bool has_name(const std::vector<std::string>& names, std::string_view name) {
  return std::binary_search(names.begin(), names.end(), name);
}

bool is_bin_shard(std::string_view name) {
  return (name.starts_with("pytorch_model-") || name.starts_with("model-")) && name.ends_with(kBin);
}

// A PEFT adapter, or a model of diffusers; "diffusion_pytorch_model.fp16.bin" is a variant of it.
bool is_other_bin(std::string_view name) {
  return name == "adapter_model.bin" || (name.starts_with("diffusion_pytorch_model.") && name.ends_with(kBin)) ||
         (name.starts_with("pytorch_model.") && name.ends_with(kBin));
}

// Of several the plain one, then the first.
std::string other_bin(const std::vector<std::string>& names) {
  for (const char* plain : {kBinFile, "diffusion_pytorch_model.bin", "adapter_model.bin"})
    if (has_name(names, plain)) return plain;
  const auto found = std::ranges::find_if(names, is_other_bin);
  return found == names.end() ? "" : *found;
}

// What the index says of a file that cannot be read: nobody may want it.
Result<ForeignCheckpoint> without_file(Status why, const std::string& path, std::string_view file,
                                       std::map<std::string, std::string_view>* file_of) {
  if (!may_be_left_out(why.code())) return why;
  if (why.code() == CKPT_NOT_FOUND)
    why = Status(CKPT_NOT_FOUND, path + " is missing, which the index names").with("path", path);
  ForeignCheckpoint content;
  std::vector<std::pair<std::string, Status>> cannot;
  for (const auto& [tensor, name] : *file_of)
    if (name == file) cannot.emplace_back(tensor, why);
  std::erase_if(*file_of, [&](const auto& row) { return row.second == file; });
  CKPT_TRY(content.put_cannots(cannot).in(path));
  return content;
}

// The files of a set; what the index says of each tensor must be true.
Result<std::vector<ForeignCheckpoint>> read_indexed(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(const InputFile file, InputFile::open(path, options.folder));
  CKPT_TRY(file.bytes().need(0, file.bytes().size()));
  CKPT_ASSIGN(const Index index, parse_index_of_set(as_text(file.addresses()), path, kBin));
  std::vector<std::string> names;
  std::map<std::string, std::string_view> file_of;  // by the path that a key of a .pt becomes
  for (const auto& [tensor, name] : index.weight_map) {
    names.push_back(name);
    file_of[tree::path_segment(tensor)] = name;
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const size_t slash = path.rfind('/');
  expect_files(path.substr(0, slash == path.npos ? 0 : slash), names, options.folder);
  std::vector<ForeignCheckpoint> set;
  for (const std::string& name : names) {
    const std::string at = (slash == path.npos ? "" : path.substr(0, slash + 1)) + name;
    Result<ForeignCheckpoint> content = read_pt(at, options);
    if (!content.ok()) {
      CKPT_ASSIGN(content, without_file(content.status(), at, name, &file_of));
    }
    for (const ForeignTensor& tensor : content->tensors)
      if (const auto found = file_of.find(tensor.name); found != file_of.end() && found->second == name)
        file_of.erase(found);
    set.push_back(content.take());
  }
  if (file_of.empty()) return set;
  const auto& [tensor, name] = *file_of.begin();
  return Status(CKPT_FORMAT, path + ": tensor " + shown(tensor) + " is not in " + std::string(name))
      .with("path", path)
      .with("tensor", std::string(tensor));
}

Status read_if_there(const std::string& directory, const std::vector<std::string>& names, const std::string& file,
                     const std::string& key, const ReadOptions& options, std::vector<StatePart>* parts) {
  if (!has_name(names, file)) return Ok();
  CKPT_ASSIGN(StatePart part, read_part(key, directory + '/' + file, options));
  parts->push_back(std::move(part));
  return Ok();
}

// A file's text as a value.
Result<StatePart> text_part(const std::string& key, const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(const InputFile file, InputFile::open_whole(path, kMostText, options.folder));
  StatePart part{key, {}};
  tree::Tree& tree = part.content.emplace_back().tree.emplace();
  if (const Status status = tree.add_text(as_text(file.addresses())); !status.ok())
    return Status(CKPT_FORMAT, path + ": " + status.message()).with("path", path);
  return part;
}

// rng_state_0.pth, rng_state_1.pth, … as what each rank has.
Status read_random_states(const std::string& directory, const std::vector<std::string>& names,
                          const ReadOptions& options, std::vector<StatePart>* parts) {
  std::vector<StatePart> ranks;
  for (size_t rank = 0; has_name(names, strformat("rng_state_{}.pth", rank)); rank++) {
    const std::string file = directory + '/' + strformat("rng_state_{}.pth", rank);
    CKPT_ASSIGN(StatePart part, read_part(strformat("rank{}", rank), file, options));
    ranks.push_back(std::move(part));
  }
  if (ranks.empty()) return read_if_there(directory, names, "rng_state.pth", "rng_state", options, parts);
  CKPT_ASSIGN(ForeignCheckpoint all, combine("pt", std::move(ranks)));
  StatePart& part = parts->emplace_back();
  part.key = "rng_state";
  part.content.push_back(std::move(all));
  return Ok();
}

}  // namespace

bool holds_model_weights(const std::vector<std::string>& names) {
  return std::ranges::any_of(std::initializer_list<const char*>{kIndexFile, kDefaultFile, kBinIndex, kBinFile},
                             [&](const char* name) { return has_name(names, name); });
}

bool holds_weights(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.ends_with(kSuffix) || name == kBinFile || name == kBinIndex || is_bin_shard(name) || is_other_bin(name);
  });
}

// What cannot be read is a part that can be left out by its key.
static Result<StatePart> part_of(const std::string& key, Result<std::vector<ForeignCheckpoint>> content) {
  StatePart part{key, {}};
  if (content.ok()) {
    part.content = content.take();
    return part;
  }
  const Status why = std::move(content).status();
  if (key.empty() || !may_be_left_out(why.code())) return why;
  CKPT_TRY(put_cannot(part.content.emplace_back().tree.emplace(), why, why.message()));
  return part;
}

Result<StatePart> read_part(const std::string& key, const std::string& path, const ReadOptions& options) {
  Result<ForeignCheckpoint> content = path.ends_with(kSuffix) || is_directory(path, options.folder)
                                          ? read_safetensors(path, options)
                                          : read_pt(path, options);
  if (!content.ok()) return part_of(key, std::move(content).status());
  std::vector<ForeignCheckpoint> one;
  one.push_back(content.take());
  return part_of(key, std::move(one));
}

bool reads_bin_index(const std::string& directory, const Folder& folder) {
  const std::vector<std::string> names = names_in_directory(directory, folder);
  return chosen_weights(directory, names, folder).empty() &&
         chosen_weights(directory, names, folder, kBinFile, kBinIndex, kBin) == kBinIndex;
}

Result<std::vector<ForeignCheckpoint>> read_weights(const std::string& directory, const ReadOptions& options) {
  const std::vector<std::string> names = names_in_directory(directory, options.folder);
  std::vector<ForeignCheckpoint> weights;
  if (const std::string file = chosen_weights(directory, names, options.folder); !file.empty()) {
    CKPT_ASSIGN(ForeignCheckpoint content, read_safetensors(directory + '/' + file, options));
    weights.push_back(std::move(content));
    return weights;
  }
  std::string bin = chosen_weights(directory, names, options.folder, kBinFile, kBinIndex, kBin);
  if (bin == kBinIndex) return read_indexed(directory + '/' + kBinIndex, options);
  const auto is_shard_name = [](const std::string& name) {
    return is_bin_shard(name) || (name.starts_with("model-") && name.ends_with(kSuffix));
  };
  if (bin.empty() && std::ranges::none_of(names, is_shard_name)) bin = other_bin(names);
  if (bin.empty()) CKPT_TRY(check_numbered(directory, names));
  for (const std::string& name : names) {
    if (bin.empty() ? !is_shard_name(name) : name != bin) continue;
    CKPT_ASSIGN(StatePart part, read_part("", directory + '/' + name, options));
    weights.push_back(std::move(part.content[0]));
  }
  if (weights.empty())
    return Status(CKPT_NOT_FOUND, directory + " holds no weights: no model.safetensors, pytorch_model.bin or shards")
        .with("path", directory);
  return weights;
}

bool is_bin_set(const Candidate& candidate) {
  if (!candidate.is_directory) return candidate.path.ends_with(".bin.index.json");
  const std::vector<std::string> names = names_in_directory(candidate.path, candidate.folder);
  return !holds_safetensors(candidate.path, candidate.folder) && holds_weights(names);
}

Result<ForeignCheckpoint> read_bin_set(const std::string& path, const ReadOptions& options) {
  StatePart model;
  CKPT_ASSIGN(model.content, path.ends_with(".json") ? read_indexed(path, options) : read_weights(path, options));
  std::vector<StatePart> parts;
  parts.push_back(std::move(model));
  CKPT_ASSIGN(ForeignCheckpoint all, combine("bin", std::move(parts)));
  if (!path.ends_with(".json")) keep_file_names(all, path);
  return all;
}

bool is_diffusers(const Candidate& candidate) {
  return candidate.is_directory && is_file(candidate.path + '/' + kPipelineFile, candidate.folder);
}

Result<ForeignCheckpoint> read_diffusers(const std::string& path, const ReadOptions& options) {
  std::vector<StatePart> parts;
  for (const std::string& name : names_in_directory(path, options.folder)) {
    const std::string inside = path + '/' + name;
    if (!is_directory(inside, options.folder) || !holds_weights(names_in_directory(inside, options.folder))) continue;
    CKPT_ASSIGN(StatePart part, holds_safetensors(inside, options.folder)
                                    ? read_part(name, inside, options)
                                    : part_of(name, read_weights(inside, options)));
    parts.push_back(std::move(part));
  }
  if (parts.empty())
    return Status(CKPT_INCOMPLETE, path + " has " + kPipelineFile + ", and no folder with weights").with("path", path);
  CKPT_ASSIGN(ForeignCheckpoint all, combine("diffusers", std::move(parts)));
  keep_file_names(all, path, {kPipelineFile});
  return all;
}

bool is_hf_trainer(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  const std::vector<std::string> names = names_in_directory(candidate.path, candidate.folder);
  return has_name(names, "trainer_state.json") && holds_prepared(names);
}

Result<ForeignCheckpoint> read_hf_trainer(const std::string& path, const ReadOptions& options) {
  const std::vector<std::string> names = names_in_directory(path, options.folder);
  CKPT_ASSIGN(std::vector<StatePart> parts, read_prepared(path, options));
  for (const char* key : {"optimizer", "scheduler", "scaler"})
    CKPT_TRY(read_if_there(path, names, std::string(key) + ".pt", key, options, &parts));
  CKPT_TRY(read_random_states(path, names, options, &parts));
  CKPT_ASSIGN(StatePart text, text_part("trainer_state", path + "/trainer_state.json", options));
  parts.push_back(std::move(text));
  CKPT_ASSIGN(ForeignCheckpoint all, combine("hf-trainer", std::move(parts)));
  keep_file_names(all, path, {"trainer_state.json"});
  return all;
}

}  // namespace ckpt::interop
