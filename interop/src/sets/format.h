// Directories of several files that are one state, as trainers of the Hugging Face and PyTorch worlds write them: rows
// of formats.cpp. Their files are .pt and safetensors; what is not known among them is left out.
#pragma once

#include "interop/src/formats.h"
#include "interop/src/pickle/pickle.h"
#include "interop/src/sets/combine.h"

namespace ckpt::interop {

// ---- hugging_face.cpp ----
// pytorch_model.bin, or pytorch_model-00001-of-00002.bin … with an index: a directory, or the index.
bool is_bin_set(const Candidate& candidate);
Result<ForeignCheckpoint> read_bin_set(const std::string& path, const ReadOptions& options);
// checkpoint-500 of Trainer: {"model" (or "adapter"), "optimizer", "scheduler", "scaler", "rng_state",
// "trainer_state"}; with save_only_model it has the first and the last. The random states of several ranks are a dict
// {"rank0", "rank1", …}.
bool is_hf_trainer(const Candidate& candidate);
Result<ForeignCheckpoint> read_hf_trainer(const std::string& path, const ReadOptions& options);
// {"unet", "vae", "text_encoder", …}: the weights of each folder of a pipeline of diffusers.
bool is_diffusers(const Candidate& candidate);
Result<ForeignCheckpoint> read_diffusers(const std::string& path, const ReadOptions& options);
// Whether there is a model in one of the files that read_weights tries first.
bool holds_model_weights(const std::vector<std::string>& names);

// ---- accelerate.cpp ----
// A directory of save_state: {"model", "optimizer", "scheduler", "sampler", "dl_state_dict", "scaler",
// "custom_checkpoint_0", "random_states" of each rank}; a second model is "model_1", its optimizer "optimizer_1". As
// load_state does, it forgives that random states are not there. INCOMPLETE for a model that is not, unless hooks of
// save_state wrote it into a folder, and for a number before others.
bool is_accelerate(const Candidate& candidate);
Result<ForeignCheckpoint> read_accelerate(const std::string& path, const ReadOptions& options);
// Models and optimizers that accelerate prepared, as Trainer writes them too: each in one file, sharded by FSDP (DCP,
// or a file of each rank), or by DeepSpeed; a PEFT adapter alone is "adapter". INCOMPLETE without a model.
bool holds_prepared(const std::vector<std::string>& names);
Result<std::vector<StatePart>> read_prepared(const std::string& path, const ReadOptions& options);

// ---- torchtune.cpp ----
// A recipe's output directory: what its newest epoch has as {"model", "adapter"}, and the recipe's state beside.
bool is_lightning(const Candidate& candidate);
Result<ForeignCheckpoint> read_lightning(const std::string& path, const ReadOptions& options);

bool is_torchtune(const Candidate& candidate);
Result<ForeignCheckpoint> read_torchtune(const std::string& path, const ReadOptions& options);

// ---- meta.cpp ----
// consolidated.00.pth …: of several, each holds a box of most tensors.
bool is_meta(const Candidate& candidate);
Result<ForeignCheckpoint> read_meta(const std::string& path, const ReadOptions& options);
// How several files divide a weight. Llama 2 divides each row of the embeddings, Llama 3 their number.
enum class MetaRule { kWhole, kRows, kColumns, kEmbeddings };
MetaRule meta_rule(std::string_view name);
std::string meta_name(uint64_t number);  // "consolidated.00.pth"

// ---- meta_writer.cpp ----
// The same names in option shards' files, or as many as were imported. MISMATCH where the names are others', or a
// weight does not divide.
Result<ExportPlan> plan_meta(const ExportRequest& request);

// ---- olmo.cpp ----
// step100-unsharded of OLMo (type "full"): {"model", "optim", "train"}.
bool is_olmo(const Candidate& candidate);
Result<ForeignCheckpoint> read_olmo(const std::string& path, const ReadOptions& options);

// ---- olmo_writer.cpp ----
// A .pt for each of OLMo's parts, and its config.yaml, which an import kept. With format "olmo-safetensors", or where
// they were imported, model and optim are safetensors. MISMATCH for another state, UNSUPPORTED for what is no value.
Result<ExportPlan> plan_olmo(const ExportRequest& request);

// ---- writer.cpp ----
// The files that were imported, or epoch_0: {"model", "adapter"} of the state, or all of it as the model; what else it
// holds is the recipe's state. FORMAT for an attribute of the import that names files outside.
Result<ExportPlan> plan_torchtune(const ExportRequest& request);

// ---- shared ----
// The node with the entries of a state that is a dict of parts; MISMATCH.
Result<uint32_t> entries_of(const tree::Tree& tree);
// Attributes that an import leaves for an export: the text of config.yaml; the paths of all files, as JSON; and of a
// tensor which of the model's .pt files it was in.
inline constexpr const char *kOlmoConfigAttr = "olmo.config", *kTorchtuneFilesAttr = "torchtune.files",
                            *kModelFileAttr = "torchtune.file";
// And of Meta's several files: how many there were, and whether each had "rows" or "columns" of the embeddings.
inline constexpr const char *kMetaFilesAttr = "meta.files", *kMetaEmbeddingsAttr = "meta.embeddings";
inline constexpr uint64_t kMaxMetaFiles = 99;  // two digits
inline constexpr const char* kOlmoParts[] = {"model", "optim", "train", "other"};
bool holds_weights(const std::vector<std::string>& names);
// Whether a directory's weights are the .bin files that pytorch_model.bin.index.json names.
inline constexpr const char* kBinIndex = "pytorch_model.bin.index.json";
bool reads_bin_index(const std::string& directory, const Folder& folder);
// The value that a pickle holds, which must be plain: of other values a .pt tells more. `path` is for messages.
// UNSUPPORTED.
Status put_pickled(tree::Tree& tree, const PickleDocument& pickle, const std::string& path);
// Of at most 1 MiB; FORMAT.
Result<std::string> text_of_file(const std::string& path, const Folder& folder);
// The weights in a directory, whatever they are called.
Result<std::vector<ForeignCheckpoint>> read_weights(const std::string& directory, const ReadOptions& options);
Result<StatePart> read_part(const std::string& key, const std::string& path, const ReadOptions& options);

}  // namespace ckpt::interop
