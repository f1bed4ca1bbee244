// What olmo_core 0.1 wrote: safetensors of each rank, whose tensors are flat, and metadata.json, which says what
// elements of the whole each of them has. The optimizer's names are "state.{parameter}.__{key}", and what is no tensor
// is a u8 tensor of its pickle.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text.h"
#include "format/names.h"
#include "interop/src/pieces.h"
#include "interop/src/safetensors/safetensors.h"
#include "interop/src/seeded_hash.h"
#include "interop/src/sets/format.h"
#include "interop/src/shards/format.h"

namespace ckpt::interop {

namespace {

using Json = nlohmann::json;

constexpr size_t kMostMetadata = 256 << 20;

struct RankTensors {
  FileBytes bytes{Bytes()};
  Header header;
  std::unordered_map<std::string_view, const Tensor*, SeededHash> by_name;
};

class CoreReader {
 public:
  CoreReader(std::string folder, const ReadOptions& options)
      : folder_(std::move(folder)), options_(options), joiner_(folder_, options) {}

  Result<ForeignCheckpoint> run() {
    const std::string path = folder_ + "/metadata.json";
    CKPT_ASSIGN(const InputFile file, InputFile::open_whole(path, kMostMetadata, options_.folder));
    if (Status status = tree::check_json(as_text(file.addresses())); !status.ok())
      return wrong(CKPT_FORMAT, "", "metadata.json: " + status.message());
    const Json json = Json::parse(as_text(file.addresses()), nullptr, false);
    if (!json.is_object() || !json.contains("tensors") || !json["tensors"].is_object())
      return wrong(CKPT_FORMAT, "", "metadata.json: expected an object with tensors");
    for (const auto& [name, described] : json["tensors"].items()) {
      CKPT_TRY(options_.check());
      CKPT_TRY(add(name, described));
    }
    CKPT_ASSIGN(state_.tensors, std::move(joiner_).finish(state_.files));
    state_.attributes.emplace_back("import.unchecked", std::to_string(state_.tensors.size()));
    return std::move(state_);
  }

 private:
  Status wrong(ckpt_status code, const std::string& name, const std::string& what) const {
    Status status(code, folder_ + ": " + (name.empty() ? "" : "tensor " + shown(name) + ": ") + what);
    status = std::move(status).with("path", folder_);
    return name.empty() ? std::move(status) : std::move(status).with("tensor", name);
  }

  static bool shape_of(const Json& json, Shape* shape) {
    if (!json.is_array() || json.size() > static_cast<size_t>(kMaxNdim)) return false;
    shape->ndim = static_cast<int>(json.size());
    for (size_t i = 0; i < json.size(); i++) {
      if (!json[i].is_number_unsigned()) return false;
      shape->dims[i] = json[i].get<uint64_t>();
    }
    return true;
  }

  // Ranges like [[5, 5]], or a box without elements.
  static bool is_nothing(bool old, const Json& spec) {
    if (!old && has(spec, "local_shape")) {
      const Json& extents = spec["local_shape"];
      return extents.is_array() && std::find(extents.begin(), extents.end(), Json(0U)) != extents.end();
    }
    const Json ranges = old ? spec : spec.value("flattened_offsets", Json());
    const auto is_empty = [](const Json& range) {
      return range.is_array() && range.size() == 2 && range[0] == range[1] && range[0].is_number();
    };
    return is_empty(ranges) || (ranges.is_array() && std::all_of(ranges.begin(), ranges.end(), is_empty));
  }
  static bool has(const Json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

  Status add(const std::string& name, const Json& described) {
    Shape shape;
    const bool named = !name.empty() && name.size() <= kMaxName / 2 && name.find('\0') == name.npos;
    if (!named || !described.is_object() || !has(described, "shape") || !shape_of(described["shape"], &shape))
      return wrong(CKPT_FORMAT, name, "metadata.json: expected a name and a shape");
    const bool old = has(described, "flattened_offsets_per_file");
    const char* key = old ? "flattened_offsets_per_file" : "shard_spec_per_file";
    if (!has(described, key) || !described[key].is_object() || described[key].empty())
      return wrong(CKPT_FORMAT, name, "metadata.json: expected files that have it");
    bool any = false;
    for (const auto& [file, spec] : described[key].items()) {
      if (!old && !spec.is_object()) return wrong(CKPT_FORMAT, name, "metadata.json: expected what " + file + " has");
      CKPT_ASSIGN(const RankTensors* rank, open(file, name));
      const auto found = rank->by_name.find(name);
      // An optimizer has no state of a parameter of which its rank has nothing.
      if (found == rank->by_name.end() && is_nothing(old, spec)) continue;
      if (found == rank->by_name.end()) return wrong(CKPT_INCOMPLETE, name, file + " lacks it");
      any = true;
      const Tensor& tensor = *found->second;
      const char* dtype = safetensors_dtype(tensor.dtype);
      if (dtype_bits(tensor.dtype) < 8) return wrong(CKPT_UNSUPPORTED, name, "packed elements");
      if (has(described, "dtype") && described["dtype"].is_string() && dtype && described["dtype"] != dtype)
        return wrong(
            CKPT_MISMATCH, name,
            "metadata.json says dtype " + shown(described["dtype"].get<std::string>()) + ", " + file + " " + dtype);
      CKPT_ASSIGN(const size_t number, joiner_.tensor(name, tensor.dtype, shape, file));
      const Bytes bytes = rank->bytes.all().subspan(rank->header.data_offset + tensor.begin, tensor.end - tensor.begin);
      CKPT_TRY(
          !old && has(spec, "local_shape")
              ? add_box(number, name, spec, bytes, file)
              : add_ranges(number, name, old ? spec : spec.value("flattened_offsets", Json()), tensor, bytes, file));
    }
    if (!any) return wrong(CKPT_INCOMPLETE, name, "no file has anything of it");
    return Ok();
  }

  Status add_box(size_t number, const std::string& name, const Json& spec, Bytes bytes, const std::string& file) {
    Box box;
    const bool good = has(spec, "global_offset") && shape_of(spec["local_shape"], &box.extent) &&
                      shape_of(spec["global_offset"], &box.offset) && box.offset.ndim == box.extent.ndim;
    if (!good) return wrong(CKPT_FORMAT, name, "metadata.json: expected local_shape and global_offset of " + file);
    return joiner_.add(number, {RegionKind::kBox, box, 0, 0}, bytes, std::nullopt, file);
  }

  // [[begin, end], …], or one pair by itself; the file has them one after another.
  Status add_ranges(size_t number, const std::string& name, const Json& given, const Tensor& tensor, Bytes bytes,
                    const std::string& file) {
    const bool one = given.is_array() && given.size() == 2 && given[0].is_number_unsigned();
    const Json list = one ? Json::array({given}) : given;
    const auto width = static_cast<uint64_t>(dtype_bits(tensor.dtype)) / 8;
    uint64_t at = 0;
    if (!list.is_array()) return wrong(CKPT_FORMAT, name, "metadata.json: expected flattened_offsets of " + file);
    for (const Json& range : list) {
      Shape pair;
      if (!shape_of(range, &pair) || pair.ndim != 2 || pair[1] < pair[0])
        return wrong(CKPT_FORMAT, name, "metadata.json: expected [begin, end] of " + file);
      const uint64_t count = pair[1] - pair[0];
      if (count > (bytes.size() - at) / width)
        return wrong(CKPT_MISMATCH, name, strformat("{} has {} bytes of it, expected more", file, bytes.size()));
      CKPT_TRY(joiner_.add(number, {RegionKind::kFlat, {}, pair[0], count}, bytes.subspan(at, count * width),
                           std::nullopt, file));
      at += count * width;
    }
    if (at == bytes.size()) return Ok();
    return wrong(CKPT_MISMATCH, name, strformat("{} has {} bytes of it, expected {}", file, bytes.size(), at));
  }

  // rank_3.safetensors
  Result<const RankTensors*> open(const std::string& file, const std::string& name) {
    if (const auto known = ranks_.find(file); known != ranks_.end()) return &known->second;
    const std::string_view prefix = "rank_", ending = ".safetensors";
    const bool plain = file.starts_with(prefix) && file.ends_with(ending) && file.size() < 40 &&
                       file.find_first_not_of("0123456789", prefix.size()) == file.size() - ending.size();
    if (!plain)
      return wrong(CKPT_FORMAT, name, "metadata.json: expected a file rank_N.safetensors, found " + shown(file));
    const std::string path = folder_ + '/' + file;
    Result<InputFile> input = InputFile::open(path, options_.folder);
    if (!input.ok()) {
      if (input.status().code() != CKPT_NOT_FOUND) return std::move(input).status();
      return wrong(CKPT_INCOMPLETE, name, file + " is missing, which has some of it").with("path", path);
    }
    RankTensors& rank = ranks_[file];
    rank.bytes = input->bytes();
    CKPT_ASSIGN(rank.header, parse_header(rank.bytes, path));
    for (const Tensor& tensor : rank.header.tensors) rank.by_name.emplace(tensor.name, &tensor);
    state_.files.add(path, input.take());
    return &rank;
  }

  const std::string folder_;
  const ReadOptions& options_;
  PieceJoiner joiner_;
  std::map<std::string, RankTensors> ranks_;
  ForeignCheckpoint state_;
};

Status name_model(ForeignCheckpoint& model) {
  tree::Tree& tree = model.tree.emplace();
  CKPT_TRY(tree.begin(CKPT_NODE_DICT));
  for (ForeignTensor& tensor : model.tensors) {
    CKPT_TRY(tree.key(tensor.name));
    tensor.name = tree::path_segment(tensor.name);
    CKPT_TRY(tree.add_tensor(tensor.name));
  }
  return tree.end();
}

// {"state": {parameter: {key: tensor}}, "param_groups": [the pickles]}
class CoreOptimizer {
 public:
  CoreOptimizer(std::string folder, ForeignCheckpoint& state) : folder_(std::move(folder)), state_(state) {}

  Status run() {
    std::map<std::string, std::map<std::string, size_t>> by_parameter;
    std::map<uint64_t, size_t> groups;
    for (size_t i = 0; i < state_.tensors.size(); i++) {
      const std::string& name = state_.tensors[i].name;
      const std::string_view head = "state.", group = "param_group", middle = ".__";
      const size_t at = name.rfind(middle);
      if (name.starts_with(head) && at != name.npos && at >= head.size())
        by_parameter[name.substr(head.size(), at - head.size())][name.substr(at + middle.size())] = i;
      else if (name.starts_with(group) && name.size() > group.size() && name.size() < group.size() + 7 &&
               name.find_first_not_of("0123456789", group.size()) == name.npos)
        groups[std::stoull(name.substr(group.size()))] = i;
      else if (name != "state_keys" && name != "num_param_groups")
        return refuse(name, "expected a name of an optimizer's state");
    }
    tree::Tree& tree = state_.tree.emplace();
    CKPT_TRY(tree.begin(CKPT_NODE_DICT));
    CKPT_TRY(tree.key("state"));
    CKPT_TRY(tree.begin(CKPT_NODE_DICT));
    for (const auto& [parameter, keys] : by_parameter) {
      CKPT_TRY(tree.key(parameter));
      CKPT_TRY(tree.begin(CKPT_NODE_DICT));
      for (const auto& [key, i] : keys) {
        CKPT_TRY(tree.key(key));
        std::string name = "state/" + tree::path_segment(parameter) + '/' + tree::path_segment(key);
        CKPT_TRY(tree.add_tensor(name));
        state_.tensors[i].name = std::move(name);
      }
      CKPT_TRY(tree.end());
    }
    CKPT_TRY(tree.end());
    CKPT_TRY(tree.key("param_groups"));
    CKPT_TRY(tree.begin(CKPT_NODE_LIST));
    for (const auto& [number, i] : groups) CKPT_TRY(put_group(state_.tensors[i], tree));
    CKPT_TRY(tree.end());
    std::erase_if(state_.tensors, [](const ForeignTensor& tensor) { return !tensor.name.starts_with("state/"); });
    return tree.end();
  }

 private:
  Status refuse(const std::string& name, const std::string& what) const {
    return Status(CKPT_FORMAT, folder_ + ": tensor " + shown(name) + ": " + what)
        .with("path", folder_)
        .with("tensor", name);
  }

  Status put_group(const ForeignTensor& tensor, tree::Tree& tree) {
    if (!tensor.whole() || tensor.dtype != CKPT_DTYPE_U8) return refuse(tensor.name, "expected a pickle in one file");
    CKPT_ASSIGN(const Bytes bytes, state_.files.bytes(tensor.whole()->bytes));
    CKPT_ASSIGN(const PickleDocument pickle, parse_pickle(bytes, folder_ + ": " + tensor.name));
    return put_pickled(tree, pickle, folder_ + ": " + tensor.name);
  }

  const std::string folder_;
  ForeignCheckpoint& state_;
};

// What is wrong with a tree that files asked for is wrong with the files.
Status blame_folder(const Status& status, const std::string& folder) {
  return status.code() == CKPT_INVALID ? Status(CKPT_FORMAT, folder + ": " + status.message()) : status;
}

}  // namespace

Result<std::vector<StatePart>> read_olmo_core(const std::string& path, const ReadOptions& options) {
  std::vector<StatePart> parts;
  for (const char* key : {"model", "optim"}) {
    const std::string folder = path + '/' + key;
    const bool is_model = parts.empty();
    const std::vector<std::string> names = names_in_directory(folder, options.folder);
    if (!is_model && names.empty()) continue;  // it was saved without
    CKPT_ASSIGN(ForeignCheckpoint read, CoreReader(folder, options).run());
    CKPT_TRY(blame_folder(is_model ? name_model(read) : CoreOptimizer(folder, read).run(), folder));
    parts.push_back({key, {}});
    parts.back().content.push_back(std::move(read));
  }
  return parts;
}

}  // namespace ckpt::interop
