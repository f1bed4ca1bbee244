// The files of a tag's directory become one state.
#include <algorithm>
#include <optional>

#include "interop/src/deepspeed/builder.h"
#include "interop/src/deepspeed/format.h"
#include "interop/src/deepspeed/universal.h"
#include "interop/src/deepspeed/zero.h"
#include "interop/src/json.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

using tree::kNoNode;

namespace {

// Of the model states: what is put together otherwise.
constexpr std::string_view kPutTogether[] = {"module",        "buffer_names",        "param_shapes",
                                             "shared_params", "frozen_param_shapes", "frozen_param_fragments"};

constexpr std::string_view kZero3File = "/zero_pp_rank_0_mp_rank_00_model_states.pt";

class DeepSpeedReader {
 public:
  DeepSpeedReader(DeepSpeedFiles files, const ReadOptions& options)
      : files_(std::move(files)), options_(options), to_(out_) {}

  Result<ForeignCheckpoint> run() {
    out_.format = "deepspeed";
    CKPT_TRY(check_files());
    CKPT_TRY(open_all(files_.model, &model_));
    CKPT_TRY(open_all(files_.optim, &optim_));
    CKPT_TRY(check_one_save());
    const uint32_t shapes = model_[0].find(0, "param_shapes");
    if (!model_[0].is_null(shapes)) {
      CKPT_ASSIGN(groups_, zero_groups(model_[0], shapes));
    }
    CKPT_TRY(read_optimizer());
    CKPT_TRY(to_.tree.begin(CKPT_NODE_DICT));
    CKPT_TRY(put_model());
    CKPT_TRY(put_module());
    CKPT_TRY(put_optimizer());
    CKPT_TRY(put_engine());
    CKPT_TRY(to_.tree.end());
    CKPT_TRY(to_.finish());
    out_.tree = std::move(to_.tree);
    if (zero_) out_.locate = zero_->check_steps();
    out_.attributes.emplace_back("import.format", out_.format);
    return std::move(out_);
  }

 private:
  Status check_files() const {
    const bool parallel = !files_.others.empty() && !files_.universal;
    if (!parallel) return Ok();
    return Status(
               CKPT_UNSUPPORTED,
               files_.directory + shown(files_.others[0]) +
                   " is of a tensor, pipeline or expert parallel model, whose parts DeepSpeed's ds_to_universal puts "
                   "together; convert it with that, and import the universal checkpoint")
        .with("path", files_.directory + files_.others[0]);
  }

  Status open_all(const std::vector<std::string>& names, std::vector<DeepSpeedFile>* files) {
    expect_files(files_.directory, names, options_.folder);
    for (const std::string& name : names) {
      CKPT_ASSIGN(DeepSpeedFile file, DeepSpeedFile::open(files_.directory + name, options_, out_));
      if (!file.is_dict(0)) return file.wrong(0, "expected a dict");
      files->push_back(std::move(file));
    }
    return Ok();
  }

  // Of the model states: each rank of ZeRO-3 has its own.
  Status check_one_save() const {
    for (size_t rank = 1; rank < model_.size(); rank++)
      for (const char* key : {"param_shapes", "frozen_param_shapes", "global_steps", "skipped_steps", "dp_world_size"})
        CKPT_TRY(check_equal(model_[0], model_[0].find(0, key), model_[rank], model_[rank].find(0, key)));
    const uint32_t version = model_[0].find(0, "ds_version");
    for (const std::vector<DeepSpeedFile>* files : {&model_, &optim_})
      for (const DeepSpeedFile& other : *files)
        if (const uint32_t found = other.find(0, "ds_version"); found != kNoNode && version != kNoNode)
          CKPT_TRY(check_equal(model_[0], version, other, found));
    return Ok();
  }

  Status read_optimizer() {
    if (files_.universal) {
      CKPT_ASSIGN(universal_, UniversalState::open(files_.directory, options_, out_));
      return files_.others.empty() ? universal_->check(model_[0].path(), groups_) : Ok();
    }
    if (optim_.empty() && groups_.empty()) return Ok();  // without ZeRO
    if (optim_.empty())
      return Status(CKPT_INCOMPLETE, files_.directory +
                                         ": no *zero_pp_rank_*_optim_states.pt, which hold the weights "
                                         "and the optimizer's state of ZeRO")
          .with("path", files_.directory);
    CKPT_ASSIGN(ZeroState made, ZeroState::make(optim_, groups_));
    zero_.emplace(std::move(made));
    if (!zero_->is_zero3() || model_.size() == optim_.size()) return Ok();
    return Status(CKPT_INCOMPLETE, strformat("{}: {} ranks wrote *_optim_states.pt, found *_model_states.pt of {}",
                                             files_.directory, optim_.size(), model_.size()))
        .with("path", files_.directory)
        .with("expected", optim_.size())
        .with("found", model_.size());
  }

  // ---- the model ----

  // In the module's order, then what the module does not have.
  Status put_model() {
    const DeepSpeedFile& file = model_[0];
    std::unordered_map<std::string_view, Place> places;
    if (zero_)
      for (size_t group = 0; group < zero_->groups().size(); group++)
        for (const ZeroParameter& parameter : zero_->groups()[group]) places[parameter.name] = {group, &parameter};
    const uint32_t module = file.find(0, "module"), shared = file.find(0, "shared_params");
    if (!file.is_dict(module)) return file.wrong(0, "expected a dict with module, found no module");
    CKPT_TRY(to_.tree.key("model"));
    CKPT_TRY(to_.tree.begin(CKPT_NODE_DICT));
    for (uint32_t child = file.first(module); child != kNoNode; child = file.next(child)) {
      if (file.tree()[child].key_kind != CKPT_KEY_TEXT) return file.wrong(child, "expected the name of a weight");
      CKPT_TRY(put_weight(places, shared, std::string(file.tree()[child].key_view()), child));
    }
    if (zero_)
      for (const ZeroGroup& group : zero_->groups())
        for (const ZeroParameter& parameter : group) CKPT_TRY(put_weight(places, kNoNode, parameter.name, kNoNode));
    if (universal_)
      for (const std::string& name : universal_->names()) CKPT_TRY(put_weight(places, kNoNode, name, kNoNode));
    return to_.tree.end();
  }

  struct Place {
    size_t group = 0;
    const ZeroParameter* parameter = nullptr;
  };

  Status put_weight(const std::unordered_map<std::string_view, Place>& places, uint32_t shared, const std::string& name,
                    uint32_t node) {
    if (!done_.insert(name).second) return Ok();
    const DeepSpeedFile& file = model_[0];
    const std::string path = StateBuilder::joined("model", name);
    const uint32_t twin = file.find(shared, name);
    if (twin != kNoNode && file.tree()[twin].kind == CKPT_NODE_TEXT && !places.contains(name)) {
      const std::string target(file.tree()[twin].text_view());
      if (places.contains(target) || (universal_ && universal_->has(target))) {
        CKPT_TRY(to_.tree.key(name));
        return to_.share(path, StateBuilder::joined("model", target));
      }
    }
    if (const auto found = places.find(name); found != places.end()) {
      CKPT_TRY(to_.tree.key(name));
      return to_.add(zero_->weight(found->second.group, *found->second.parameter, path));
    }
    if (universal_ && universal_->has(name)) {
      CKPT_TRY(to_.tree.key(name));
      return universal_->put_weight(to_, name, path);
    }
    if (is_zero3() && is_placeholder(node)) {
      const uint32_t frozen = file.find(file.find(0, "frozen_param_shapes"), name);
      return frozen == kNoNode ? Ok() : put_frozen(name, path, frozen);  // or it was left out of the checkpoint
    }
    CKPT_TRY(to_.tree.key(name));
    return to_.copy(file, node, "model", std::string_view("module").size());
  }

  // Or was, before it became universal.
  bool is_zero3() const { return zero_ ? zero_->is_zero3() : universal_ && model_[0].path().ends_with(kZero3File); }

  // ZeRO-3 leaves a tensor without elements in a parameter's place.
  bool is_placeholder(uint32_t node) const {
    const size_t tensor = model_[0].tensor(node);
    return tensor != SIZE_MAX && model_[0].tensors()[tensor].shape.ndim == 1 &&
           model_[0].tensors()[tensor].shape[0] == 0;
  }

  // Frozen parameters lie in the model states of ZeRO-3, a share in each rank's.
  Status put_frozen(const std::string& name, const std::string& path, uint32_t shape) {
    ForeignTensor tensor;
    tensor.name = path;
    CKPT_ASSIGN(tensor.shape, model_[0].shape(shape));
    const uint64_t elements = tensor.elements(), share = zero3_share(elements, model_.size());
    for (size_t rank = 0; rank < model_.size(); rank++) {
      const DeepSpeedFile& file = model_[rank];
      const size_t fragment = file.tensor(file.find(file.find(0, "frozen_param_fragments"), name));
      if (fragment == SIZE_MAX)
        return Status(CKPT_INCOMPLETE, file.path() + ": frozen_param_fragments lacks " + shown(name))
            .with("path", file.path())
            .with("tensor", name);
      Joined part;
      const ForeignTensor& found = file.tensors()[fragment];
      Status status = part.add(found, share);
      if (status.ok() && found.shape[0] != share)
        status =
            Status(CKPT_MISMATCH, strformat("{}: expected {} elements, found {}", shown(name), share, found.shape[0]))
                .with("tensor", name);
      if (status.ok() && tensor.dtype != 0 && found.dtype != tensor.dtype)
        status = Status(CKPT_MISMATCH, shown(name) + ": its dtype differs between ranks").with("tensor", name);
      if (!status.ok()) return std::move(status).in(file.path()).with("path", file.path());
      tensor.dtype = found.dtype;
      if (rank * share < elements) part.cut(0, std::min(share, elements - rank * share), rank * share, &tensor);
    }
    if (elements == 0) tensor.pieces.emplace_back();
    CKPT_TRY(to_.tree.key(name));
    return to_.add(std::move(tensor));
  }

  // ---- what is beside it ----

  Status put_module() {
    if (!zero_ || zero_->is_zero3()) return Ok();  // it has placeholders only, or is the model
    return to_.copy_entry(model_[0], model_[0].find(0, "module"), "", 0);
  }

  Status put_optimizer() {
    if (!zero_ && !universal_) {
      const uint32_t whole = model_[0].find(0, "optimizer");
      return model_[0].is_null(whole) ? Ok() : to_.copy_entry(model_[0], whole, "", 0);
    }
    CKPT_TRY(to_.tree.key("optimizer"));
    return zero_ ? zero_->put_optimizer(to_) : universal_->put_optimizer(to_, groups_);
  }

  Status put_engine() {
    const DeepSpeedFile& file = model_[0];
    CKPT_TRY(to_.tree.key("engine"));
    CKPT_TRY(to_.tree.begin(CKPT_NODE_DICT));
    for (uint32_t child = file.first(0); child != kNoNode; child = file.next(child)) {
      const std::string_view key = file.tree()[child].key_view();
      const bool optimizer = key == "optimizer" && (file.is_null(child) || (!zero_ && !universal_));
      if (optimizer || std::ranges::find(kPutTogether, key) != std::end(kPutTogether)) continue;
      CKPT_TRY(to_.copy_entry(file, child, "engine/", 0));
    }
    return to_.tree.end();
  }

  const DeepSpeedFiles files_;
  const ReadOptions& options_;
  ForeignCheckpoint out_;
  StateBuilder to_;
  std::vector<DeepSpeedFile> model_, optim_;
  std::vector<ZeroGroup> groups_;
  std::optional<ZeroState> zero_;
  std::optional<UniversalState> universal_;
  std::unordered_set<std::string> done_;  // weights
};

}  // namespace

bool is_deepspeed(const Candidate& candidate) {
  if (!candidate.is_directory) return false;
  const Result<std::string> found = deepspeed_directory(candidate.path, candidate.folder);
  return found.ok() || found.status().detail("found");  // a wrong tag beside right ones
}

Result<ForeignCheckpoint> read_deepspeed(const std::string& path, const ReadOptions& options) {
  CKPT_ASSIGN(const std::string directory, deepspeed_directory(path, options.folder));
  CKPT_ASSIGN(DeepSpeedFiles files, deepspeed_files(directory, options.folder));
  Result<ForeignCheckpoint> state = DeepSpeedReader(std::move(files), options).run();
  // What is wrong with a tree that files asked for is wrong with the files.
  if (!state.ok() && state.status().code() == CKPT_INVALID)
    return Status(CKPT_FORMAT, directory + ": " + state.status().message()).with("path", directory);
  CKPT_TRY(state.status());
  const bool is_tag = directory.size() <= path.size() + 1;
  keep_file_names(*state, path.substr(0, path.find_last_not_of('/') + 1), {is_tag ? "zero" : "latest"});
  return state;
}

}  // namespace ckpt::interop
