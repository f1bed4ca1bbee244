// What an export will write: which tensors go to which file, at which offsets, under which header. Made from the
// reader's names and the attributes that an import left.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "base/text.h"
#include "interop/src/map/change.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/format.h"
#include "interop/src/safetensors/safetensors.h"

namespace ckpt::interop {

namespace {

// What of the checkpoint is written: the tensors whose names begin with `prefix` ("" or "model/").
struct From {
  const State& reader;
  std::string prefix;
  std::map<std::string, std::string> own;    // by the names in the files
  std::map<std::string, std::string> names;  // in the files
  std::map<std::string, TorchMarks> marks;

  const std::string& name_of(const Tensor& tensor) const { return own.at(tensor.name); }
};

struct PlannedFile {
  std::string name;
  std::vector<Tensor> tensors;  // by their names in the file, with their offsets, in order
  std::optional<StringMap> metadata;
  uint64_t data_bytes = 0;
};

Status tensor_error(ckpt_status code, const std::string& name, const std::string& what) {
  return Status(code, "tensor " + shown(name) + ": " + what).with("tensor", name);
}

Status attribute_error(const Status& status, const std::string& key) {
  return Status(CKPT_FORMAT, "attribute " + key + ": " + status.message());
}

// Elements that torch would not use as they are: nothing in the file would say so.
Status check_marks(const From& from, const std::string& name) {
  const auto found = from.marks.find(name);
  if (found == from.marks.end()) return Ok();
  const TorchMarks& marks = found->second;
  const std::string what =
      marks.quantized ? "it is quantized, and safetensors has no place for the scales"
                      : "torch " + marks.verb() + " its elements when it uses them, and safetensors cannot say that";
  return tensor_error(CKPT_UNSUPPORTED, name,
                      what + ": expected what " +
                          (marks.quantized ? "tensor.dequantize()" : "tensor.resolve_conj().resolve_neg()") +
                          " gives, format pt, dcp or composer, or option exclude=" + name)
      .with("found", marks.quantized ? "quantized"
                     : marks.conj    ? "conj"
                                     : "neg");
}

// Not set: it is not written.
Result<std::optional<Tensor>> tensor_at(const From& from, uint64_t index) {
  CKPT_ASSIGN(const ckpt_tensor_info info, from.reader.tensor(index));
  const auto name = from.names.find(info.name);
  if (name == from.names.end()) return std::optional<Tensor>();
  CKPT_TRY(check_marks(from, info.name));
  Tensor tensor;
  tensor.name = name->second;
  tensor.dtype = static_cast<uint16_t>(info.dtype);
  tensor.shape = shape_of(info);
  if (tensor.name == "__metadata__")
    return tensor_error(CKPT_UNSUPPORTED, tensor.name, "safetensors reserves this name");
  if (!safetensors_dtype(tensor.dtype)) {
    const std::string found = strformat("{} (0x{:04x})", ckpt_dtype_name(info.dtype), info.dtype);
    return tensor_error(CKPT_UNSUPPORTED, tensor.name, "safetensors has no dtype " + found).with("found", found);
  }
  const Result<uint64_t> bytes = tensor_bytes(tensor.shape, tensor.dtype);
  if (!bytes.ok()) return tensor_error(CKPT_UNSUPPORTED, tensor.name, bytes.status().message());
  tensor.end = *bytes;
  return std::optional(std::move(tensor));
}

// The names that were imported; one default name where nothing was.
Result<std::vector<std::string>> file_names(const State& reader) {
  const std::string text = get_text(reader, kFilesAttr);
  if (text.empty()) return std::vector<std::string>{kDefaultFile};
  Result<std::vector<std::string>> names = parse_string_list(text);
  if (!names.ok()) return attribute_error(names.status(), kFilesAttr);
  if (names->empty()) names->emplace_back(kDefaultFile);
  for (const std::string& name : *names) {
    const Status status = check_file_name(name);
    if (!status.ok()) return attribute_error(status, kFilesAttr);
  }
  std::vector<std::string> sorted = *names;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return attribute_error(Status(CKPT_FORMAT, "a name comes twice"), kFilesAttr);
  return names;
}

// Tensors that were not imported go to the first file.
Result<size_t> file_of(const From& from, const Tensor& tensor, size_t file_count) {
  if (file_count == 1) return size_t{0};
  const std::optional<std::string> text = from.reader.tensor_attr(from.name_of(tensor), kFileAttr);
  if (!text) return size_t{0};
  size_t file = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, file);
  if (error == std::errc() && stop == end && file < file_count) return file;
  return tensor_error(
      CKPT_FORMAT, tensor.name,
      strformat("attribute {}: expected a number below {}, found ", kFileAttr, file_count) + shown(*text));
}

Result<std::optional<StringMap>> metadata_of(const State& reader, size_t file, size_t file_count) {
  const std::string key = metadata_attr(file, file_count);
  const std::string text = get_text(reader, key);
  if (text.empty()) return std::optional<StringMap>();
  Result<StringMap> map = parse_string_map(text);
  if (!map.ok()) return attribute_error(map.status(), key);
  return std::optional<StringMap>(map.take());
}

// One file out of several: the union, of which the first file's value of a key stays.
void merge(std::optional<StringMap>& into, const std::optional<StringMap>& from) {
  if (!from) return;
  if (!into) into.emplace();
  for (const auto& pair : *from)
    if (std::none_of(into->begin(), into->end(), [&](const auto& had) { return had.first == pair.first; }))
      into->push_back(pair);
}

// The imported order where one was kept, then the reference implementation's.
Status sort_tensors(const From& from, std::vector<PlannedFile>& files) {
  const std::string text = get_text(from.reader, kOrderAttr);
  std::vector<std::string> order;
  if (!text.empty()) {
    Result<std::vector<std::string>> names = parse_string_list(text);
    if (!names.ok()) return attribute_error(names.status(), kOrderAttr);
    order = names.take();
  }
  std::unordered_map<std::string_view, size_t> place;
  for (size_t i = 0; i < order.size(); i++) place.try_emplace(order[i], i);
  const auto place_of = [&](const Tensor& tensor) {
    const auto found = place.find(from.name_of(tensor));
    return found == place.end() ? order.size() : found->second;
  };
  for (PlannedFile& file : files)
    std::sort(file.tensors.begin(), file.tensors.end(), [&](const Tensor& a, const Tensor& b) {
      const size_t place_a = place_of(a), place_b = place_of(b);
      return place_a != place_b ? place_a < place_b : canonical_before(a, b);
    });
  return Ok();
}

Status set_offsets(PlannedFile& file) {
  uint64_t offset = 0;
  for (Tensor& tensor : file.tensors) {
    const uint64_t bytes = tensor.end - tensor.begin;
    tensor.begin = offset;
    if (add_overflows(offset, bytes, &offset) || offset >> 63)
      return tensor_error(CKPT_UNSUPPORTED, tensor.name, "the file would be larger than 2^63-1 bytes");
    tensor.end = offset;
  }
  file.data_bytes = offset;
  return Ok();
}

class MetadataCheck final : public JsonEvents {
 public:
  Status begin_object() override {
    depth_++;
    return Ok();
  }
  Status end_object() override { return leave(); }
  Status begin_array() override { return depth_++ == 0 ? unexpected("an array") : Ok(); }
  Status end_array() override { return leave(); }
  Status string(std::string) override { return scalar(); }
  Status number(uint64_t) override { return scalar(); }
  Status other(std::string_view) override { return scalar(); }

 private:
  Status leave() {
    depth_--;
    return Ok();
  }
  Status scalar() { return depth_ == 0 ? unexpected("a value, not an object") : Ok(); }
  int depth_ = 0;
};

// A set of several files has one; a single file only where it was imported with one.
Result<std::optional<std::string>> index_of(const From& from, const std::vector<PlannedFile>& files) {
  std::string metadata = get_text(from.reader, kIndexAttr);
  if (metadata.empty() && files.size() == 1) return std::optional<std::string>();
  if (!from.prefix.empty()) metadata.clear();  // it is about all tensors
  StringMap weight_map;
  uint64_t total = 0;
  for (const PlannedFile& file : files) {
    total += file.data_bytes;
    for (const Tensor& tensor : file.tensors) weight_map.emplace_back(tensor.name, file.name);
  }
  if (metadata.empty()) metadata = "{\"total_size\":" + std::to_string(total) + "}";
  MetadataCheck check;
  const Status status = parse_json(metadata, check);
  if (!status.ok()) return attribute_error(status, kIndexAttr);
  return std::optional<std::string>(make_index(metadata, weight_map));
}

// The files that were imported, or one of all tensors.
Result<std::vector<PlannedFile>> imported_files(const From& from, bool split) {
  CKPT_ASSIGN(const std::vector<std::string> names, file_names(from.reader));
  std::vector<PlannedFile> files(split ? names.size() : 1);
  for (size_t i = 0; i < files.size(); i++) files[i].name = names[i];
  for (size_t i = 0; i < names.size(); i++) {
    CKPT_ASSIGN(const std::optional<StringMap> metadata, metadata_of(from.reader, i, names.size()));
    merge(files[split ? i : 0].metadata, metadata);
  }
  const uint64_t count = from.reader.tensor_count();
  for (uint64_t i = 0; i < count; i++) {
    CKPT_ASSIGN(std::optional<Tensor> tensor, tensor_at(from, i));
    if (!tensor) continue;
    CKPT_ASSIGN(const size_t file, file_of(from, *tensor, files.size()));
    files[file].tensors.push_back(*std::move(tensor));
  }
  if (!from.prefix.empty()) std::erase_if(files, [](const PlannedFile& file) { return file.tensors.empty(); });
  return files;
}

// Begins another file before one would have more than `most` bytes of tensors, so a larger tensor has one of its own.
std::vector<PlannedFile> cut(PlannedFile whole, uint64_t most) {
  std::vector<PlannedFile> files;
  uint64_t room = 0;
  for (Tensor& tensor : whole.tensors) {
    const uint64_t bytes = tensor.end - tensor.begin;
    if (files.empty() || bytes > room) {
      files.emplace_back().metadata = whole.metadata;
      room = most;
    }
    room -= std::min(room, bytes);
    files.back().tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < files.size(); i++) {
    const bool only = files.size() == 1;
    files[i].name = only ? kDefaultFile : strformat("model-{:05}-of-{:05}{}", i + 1, files.size(), kSuffix);
  }
  return files;
}

// Into the files that the index of a given model names, as torchtune writes a model that it read from them.
Result<std::vector<PlannedFile>> divide(PlannedFile whole, const Index& index) {
  const std::map<std::string_view, std::string_view> file_of(index.weight_map.begin(), index.weight_map.end());
  std::map<std::string_view, PlannedFile> by_name;
  for (Tensor& tensor : whole.tensors) {
    const auto found = file_of.find(tensor.name);
    if (found == file_of.end())
      return tensor_error(CKPT_MISMATCH, tensor.name,
                          strformat("{} of option config names no file for it; option exclude leaves it out, and "
                                    "without a directory files are as they were imported",
                                    kIndexFile));
    by_name[found->second].tensors.push_back(std::move(tensor));
  }
  std::vector<PlannedFile> files;
  for (auto& [name, file] : by_name) {
    file.name = name;
    file.metadata = whole.metadata ? whole.metadata : StringMap{{"format", "pt"}};  // what transformers asks for
    files.push_back(std::move(file));
  }
  return files;
}

// The error says what places the state has.
Status nothing_below(const From& from) {
  const std::string at = from.prefix.substr(0, from.prefix.size() - 1);
  std::set<std::string> places;
  for (uint64_t i = 0; i < from.reader.tensor_count() && places.size() < 10; i++) {
    CKPT_ASSIGN(const ckpt_tensor_info info, from.reader.tensor(i));
    const std::string_view name = info.name;
    if (name.find('/') != name.npos) places.insert(shown(name.substr(0, name.find('/'))));
  }
  std::string there;
  for (const std::string& place : places) there += (there.empty() ? "; there is " : ", ") + place;
  return Status(CKPT_NOT_FOUND, "option at: no tensor is below " + shown(at) + there).with("found", at);
}

// `most`: bytes of tensors in a file; 0: as `given` says, or as they were imported.
Result<std::vector<PlannedFile>> plan_files(const From& from, bool is_directory, uint64_t most,
                                            const std::optional<Index>& given) {
  CKPT_ASSIGN(std::vector<PlannedFile> files, imported_files(from, is_directory && most == 0 && !given));
  if (!from.prefix.empty() && (files.empty() || files[0].tensors.empty())) return nothing_below(from);
  if (most != 0 && !files[0].tensors.empty()) files = cut(std::move(files[0]), most);
  if (given && most == 0) {
    CKPT_ASSIGN(files, divide(std::move(files[0]), *given));
  }
  CKPT_TRY(sort_tensors(from, files));
  for (PlannedFile& file : files) CKPT_TRY(set_offsets(file));
  return files;
}

Result<ExportFile> export_file(const From& from, const PlannedFile& planned) {
  CKPT_ASSIGN(std::string header, make_header(planned.tensors, planned.metadata));
  ExportFile file{planned.name, nullptr, {}, header.size() + planned.data_bytes};
  for (const Tensor& tensor : planned.tensors) {
    CKPT_ASSIGN(const uint64_t elements, element_count(tensor.shape));
    file.ranges.push_back({from.name_of(tensor), tensor.dtype, tensor.shape, 0, elements});
  }
  file.body = std::make_unique<PlainBody>(std::move(header));
  return file;
}

Result<std::map<std::string, std::string>> safetensors_names(const State& state, const tree::Tree& tree,
                                                             const std::string& at) {
  const std::string prefix = at.empty() ? "" : at + '/';
  const std::map<std::string, std::string> dotted = dotted_names(tree, prefix);
  std::map<std::string, std::string> own;
  for (uint64_t i = 0; i < state.tensor_count(); i++) {
    CKPT_ASSIGN(const ckpt_tensor_info info, state.tensor(i));
    const std::string_view name = info.name;
    if (!name.starts_with(prefix)) continue;
    const auto keys = dotted.find(info.name);
    const bool by_keys = keys != dotted.end() && (!at.empty() || name.find('/') == name.npos);
    const std::string made = by_keys ? keys->second : std::string(name.substr(prefix.size()));
    if (made.empty() || made.find('\0') != made.npos)
      return tensor_error(CKPT_UNSUPPORTED, info.name, "its key is empty or holds a NUL, and so would its name");
    const auto [first, is_new] = own.emplace(made, name);
    if (!is_new)
      return tensor_error(CKPT_UNSUPPORTED, info.name,
                          "safetensors would call it " + shown(made) + ", as tensor " + shown(first->second) +
                              "; option exclude leaves one of them out")
          .with("found", first->second);
  }
  return own;
}

}  // namespace

Result<std::map<std::string, std::string>> safetensors_names(const State& state, const std::string& at) {
  CKPT_ASSIGN(const tree::Tree tree, state.tree());
  return safetensors_names(state, tree, at);
}

Result<ExportPlan> plan_safetensors(const ExportRequest& request) {
  ExportPlan plan;
  plan.is_directory = !request.path.ends_with(kSuffix);
  const auto most = static_cast<uint64_t>(request.options.shard_bytes);
  if (!plan.is_directory && most != 0)
    return Status(CKPT_INVALID,
                  "export: option shard_bytes is for a directory of files, found the file " + request.path)
        .with("found", request.path);
  const std::string& at = request.options.at;
  std::optional<Index> given;
  if (plan.is_directory) {
    CKPT_ASSIGN(given, index_in(request.options.config));
  }
  CKPT_ASSIGN(const tree::Tree tree, request.reader.tree());
  CKPT_ASSIGN(auto own, safetensors_names(request.reader, tree, at));
  From from{request.reader, at.empty() ? "" : at + '/', std::move(own), {}, torch_marks(tree)};
  for (const auto& [name, of_state] : from.own) from.names[of_state] = name;
  CKPT_ASSIGN(const std::vector<PlannedFile> files, plan_files(from, plan.is_directory, most, given));
  for (const PlannedFile& planned : files) {
    CKPT_ASSIGN(ExportFile file, export_file(from, planned));
    plan.files.push_back(std::move(file));
  }
  if (!plan.is_directory) return plan;
  CKPT_ASSIGN(std::optional<std::string> index, index_of(from, files));
  if (!index) return plan;
  // Of the files that were imported: that of a variant has another name.
  std::string name = most == 0 && !given ? get_text(request.reader, kIndexNameAttr) : "";
  if (!name.ends_with(".json") || !check_file_name(name, ".json").ok()) name = kIndexFile;
  plan.files.push_back(text_file(std::move(name), *std::move(index)));
  return plan;
}

}  // namespace ckpt::interop
