// OLMo's type local: what FSDP (torch < 2.3) holds on each rank. Parameters of a module lie one after another in a flat
// one, which is cut into equal parts, so a rank has a range of each parameter's elements; its optimizer has the same
// range of each state.
#include <algorithm>
#include <map>

#include "format/names.h"
#include "interop/src/json.h"
#include "interop/src/pieces.h"
#include "interop/src/sets/format.h"
#include "interop/src/shards/format.h"
#include "interop/src/shards/merge.h"

namespace ckpt::interop {

namespace {

constexpr const char* kWrapped = "_fsdp_wrapped_module.";

// What a rank has of a parameter.
struct FlatRange {
  Shape shape;  // of all of it
  uint64_t first = 0, count = 0;
};
using FlatRanges = std::map<std::string, FlatRange, std::less<>>;

std::string without_wrappers(std::string_view name) {
  std::string text(name);
  const size_t size = std::string_view(kWrapped).size();
  for (size_t at = text.find(kWrapped); at != text.npos; at = text.find(kWrapped, at)) text.erase(at, size);
  return text;
}

// One rank's modules.
class LocalModel {
 public:
  LocalModel(const PtSource& source, const std::string& file, PieceJoiner& joiner, FlatRanges& ranges)
      : source_(source), pickle_(source.pickle()), file_(file), joiner_(joiner), ranges_(ranges) {}

  Status run() {
    CKPT_ASSIGN(const std::span<const PickleRef> modules, list_of(entry(pickle_.root(), "modules"), "modules"));
    for (const PickleRef module : modules) {
      CKPT_ASSIGN(std::string prefix, text_of(entry(module, "name"), "name"));
      prefix = without_wrappers(prefix);
      // The root is named so where it is a wrapper itself.
      CKPT_ASSIGN(const std::span<const PickleRef> handles, list_of(entry(module, "handles"), "handles"));
      for (const PickleRef handle : handles) CKPT_TRY(read_handle(prefix.empty() ? "" : prefix + '.', handle));
    }
    return Ok();
  }

 private:
  static Status expected(const std::string& what) { return Status(CKPT_FORMAT, "expected " + what); }

  PickleRef entry(PickleRef dict, std::string_view key) const {
    return dict != kNoValue && pickle_[dict].kind == PickleKind::kDict ? pickle_.find(dict, key) : kNoValue;
  }
  Result<std::span<const PickleRef>> list_of(PickleRef ref, const char* what) const {
    const bool list =
        ref != kNoValue && (pickle_[ref].kind == PickleKind::kList || pickle_[ref].kind == PickleKind::kTuple);
    if (!list) return expected(std::string("a list ") + what);
    return std::span<const PickleRef>(pickle_[ref].items);
  }
  Result<std::string> text_of(PickleRef ref, const char* what) const {
    if (ref == kNoValue || pickle_[ref].kind != PickleKind::kText) return expected(std::string("a text ") + what);
    return std::string(pickle_[ref].text);
  }
  Result<uint64_t> number_of(PickleRef ref, const char* what) const {
    if (ref == kNoValue || pickle_[ref].kind != PickleKind::kInt || pickle_[ref].integer < 0)
      return expected(std::string("a number ") + what);
    return static_cast<uint64_t>(pickle_[ref].integer);
  }

  Status read_handle(const std::string& prefix, PickleRef handle) {
    auto flat = [&](const char* key) { return entry(handle, std::string("flat_param.") + key); };
    if (flat("data") == kNoValue) return expected("flat_param.data");
    CKPT_ASSIGN(const PtTensor data, tensor_of(source_, flat("data")));
    if (data.shape.ndim != 1 || !data.contiguous() || data.torch_dtype || data.conj || data.neg ||
        dtype_bits(data.dtype) < 8)
      return expected("flat_param.data of one dimension");
    CKPT_ASSIGN(const std::span<const PickleRef> names, list_of(flat("_fqns"), "_fqns"));
    CKPT_ASSIGN(const std::span<const PickleRef> shapes, list_of(flat("_shapes"), "_shapes"));
    if (names.size() != shapes.size()) return expected("as many _shapes as _fqns");
    std::vector<FlatRange> ranges(names.size());
    std::vector<uint64_t> places(names.size());
    CKPT_TRY(flat("_shard_indices") != kNoValue
                 ? old_ranges(flat("_shard_indices"), flat("_shard_param_offsets"), ranges, places)
                 : new_ranges(flat("_shard_param_infos"), ranges, places));
    const auto width = static_cast<uint64_t>(dtype_bits(data.dtype)) / 8;
    for (size_t i = 0; i < names.size(); i++) {
      CKPT_ASSIGN(const std::string name, text_of(names[i], "in _fqns"));
      CKPT_ASSIGN(ranges[i].shape, extents_of(pickle_, shapes[i], "_shapes"));
      if (!valid_utf8(name) || name.size() > kMaxName / 2) return expected("names of parameters");
      CKPT_ASSIGN(const size_t tensor, joiner_.tensor(prefix + name, data.dtype, ranges[i].shape, file_));
      if (places[i] > data.shape[0] || ranges[i].count > data.shape[0] - places[i])
        return Status(CKPT_FORMAT, strformat("{}: elements {} of {} in a flat parameter of {}", shown(prefix + name),
                                             places[i], ranges[i].count, data.shape[0]));
      CKPT_TRY(joiner_.add(tensor, {RegionKind::kFlat, {}, ranges[i].first, ranges[i].count},
                           data.bytes().subspan(places[i] * width, ranges[i].count * width), std::nullopt, file_));
      ranges_[prefix + name] = ranges[i];
    }
    return Ok();
  }

  // torch 2.1 and 2.2: (in_shard, offset in the shard, count, first, last) for each parameter.
  Status new_ranges(PickleRef infos, std::vector<FlatRange>& ranges, std::vector<uint64_t>& places) const {
    CKPT_ASSIGN(const std::span<const PickleRef> list, list_of(infos, "_shard_param_infos"));
    if (list.size() != ranges.size()) return expected("as many _shard_param_infos as _fqns");
    for (size_t i = 0; i < list.size(); i++) {
      auto field = [&](const char* name, size_t place) { return attribute_of(pickle_, list[i], name, place); };
      const PickleRef held = field("in_shard", 0);
      if (held == kNoValue || pickle_[held].kind != PickleKind::kBool) return expected("a _ShardParamInfo");
      if (pickle_[held].integer == 0) continue;
      CKPT_ASSIGN(places[i], number_of(field("offset_in_shard", 1), "offset_in_shard"));
      CKPT_ASSIGN(const uint64_t count, number_of(field("numel_in_shard", 2), "numel_in_shard"));
      CKPT_ASSIGN(const uint64_t first, number_of(field("intra_param_start_idx", 3), "intra_param_start_idx"));
      CKPT_ASSIGN(const uint64_t last, number_of(field("intra_param_end_idx", 4), "intra_param_end_idx"));
      if (last < first || last - first + 1 != count)
        return Status(CKPT_MISMATCH, strformat("a shard of {} elements from {} to {}", count, first, last));
      ranges[i].first = first, ranges[i].count = count;
    }
    return Ok();
  }

  // torch 2.0: the first parameter and the last, and (first, last) of each of them.
  Status old_ranges(PickleRef indices, PickleRef offsets, std::vector<FlatRange>& ranges,
                    std::vector<uint64_t>& places) const {
    CKPT_ASSIGN(const std::vector<int64_t> from_to, integers_of(pickle_, indices));
    CKPT_ASSIGN(const std::span<const PickleRef> list, list_of(offsets, "_shard_param_offsets"));
    const bool fits = !from_to.empty() && from_to[0] >= 0 && static_cast<uint64_t>(from_to[0]) <= ranges.size() &&
                      list.size() <= ranges.size() - static_cast<uint64_t>(from_to[0]);
    if (!fits) return expected("_shard_indices of parameters that _fqns has");
    uint64_t place = 0;
    for (size_t i = 0; i < list.size(); i++) {
      CKPT_ASSIGN(const Shape pair, extents_of(pickle_, list[i], "_shard_param_offsets"));
      if (pair.ndim != 2 || pair[1] < pair[0]) return expected("first and last element");
      const size_t at = static_cast<size_t>(from_to[0]) + i;
      ranges[at].first = pair[0], ranges[at].count = pair[1] - pair[0] + 1;
      places[at] = place;
      place += ranges[at].count;  // of numbers below 2^63 few enough not to pass 2^64 unseen: checked against the data
      if (place >> 62 != 0) return expected("a shard that fits 62 bits");
    }
    return Ok();
  }

  const PtSource& source_;
  const PickleDocument& pickle_;
  const std::string& file_;
  PieceJoiner& joiner_;
  FlatRanges& ranges_;
};

// The names that an optimizer's param_groups give its numbers.
Result<std::map<std::string, std::string>> names_by_id(const tree::Tree& tree) {
  std::map<std::string, std::string> names;
  const uint32_t groups = tree[0].kind == CKPT_NODE_DICT ? tree.find(0, "param_groups") : tree::kNoNode;
  if (groups == tree::kNoNode || tree[groups].kind != CKPT_NODE_LIST)
    return Status(CKPT_FORMAT, "expected an optimizer with a list param_groups");
  for (uint32_t group = tree.first_child(groups); group != tree::kNoNode; group = tree[group].next) {
    const bool dict = tree[group].kind == CKPT_NODE_DICT;
    const uint32_t ids = dict ? tree.find(group, "params") : tree::kNoNode;
    const uint32_t texts = dict ? tree.find(group, "param_names") : tree::kNoNode;
    if (ids == tree::kNoNode || texts == tree::kNoNode || tree[ids].child_count != tree[texts].child_count)
      return Status(CKPT_UNSUPPORTED, "a group of parameters whose names are not said (param_names)");
    uint32_t text = tree.first_child(texts);
    for (uint32_t id = tree.first_child(ids); id != tree::kNoNode; id = tree[id].next, text = tree[text].next)
      if (tree[id].kind == CKPT_NODE_INT && tree[text].kind == CKPT_NODE_TEXT)
        names[std::to_string(tree[id].integer)] = without_wrappers(tree[text].text_view());
  }
  return names;
}

// Of an optimizer's tensors those with elements of a parameter become shards of its shape.
Status find_shards(RankFile& rank, const FlatRanges& ranges) {
  CKPT_ASSIGN(const auto names, names_by_id(rank.content.tree));
  std::vector<NamedPtTensor> plain;
  for (NamedPtTensor& named : rank.content.tensors) {
    const PtTensor& tensor = named.tensor;
    const std::string_view path = named.name;
    const size_t slash = path.starts_with("state/") ? path.find('/', 6) : path.npos;
    if (slash == path.npos || tensor.shape.ndim == 0 || tensor.torch_dtype || dtype_bits(tensor.dtype) < 8) {
      plain.push_back(std::move(named));
      continue;
    }
    const auto name = names.find(std::string(path.substr(6, slash - 6)));
    const auto range = name == names.end() ? ranges.end() : ranges.find(name->second);
    if (range == ranges.end())
      return Status(CKPT_FORMAT, shown(path) + ": its parameter is not in the model").with("tensor", named.name);
    if (tensor.elements() != range->second.count || tensor.shape.ndim != 1)
      return Status(CKPT_MISMATCH,
                    strformat("{}: expected {} elements, as the rank has of {}, found shape {}", shown(path),
                              range->second.count, shown(name->second), to_text(tensor.shape)))
          .with("tensor", named.name);
    Sharded sharded{tensor.dtype, range->second.shape, {}};
    sharded.shards.push_back({{RegionKind::kFlat, {}, range->second.first, range->second.count}, tensor.bytes(), {}});
    if (!tensor.contiguous()) sharded.shards.back().strides = tensor.strides;
    rank.sharded.emplace(named.name, std::move(sharded));
  }
  rank.content.tensors = std::move(plain);
  return Ok();
}

// "world_size: 2" of metadata.yaml.
Status check_world_size(const std::string& path, size_t found, const Folder& folder) {
  CKPT_ASSIGN(const std::string text, text_of_file(path + "/metadata.yaml", folder));
  const std::string_view key = "world_size:";
  const size_t at = text.find(key);
  const std::string expected = std::to_string(found);
  const size_t begin = at == text.npos ? text.npos : text.find_first_not_of(' ', at + key.size());
  if (begin == text.npos) return Ok();
  const std::string said = text.substr(begin, text.find_first_not_of("0123456789", begin) - begin);
  if (said == expected) return Ok();
  return Status(CKPT_INCOMPLETE,
                path + ": expected files of " + said + " ranks, as metadata.yaml says, found " + expected)
      .with("path", path)
      .with("expected", said)
      .with("found", expected);
}

Status blame_file(Status status, const std::string& path) {
  return status.ok() || status.detail("path") ? std::move(status) : std::move(status).in(path).with("path", path);
}

Result<ForeignCheckpoint> read_model(const std::string& folder, const std::vector<std::string>& names,
                                     std::vector<FlatRanges>& ranges, const ReadOptions& options) {
  ForeignCheckpoint model;
  PieceJoiner joiner(folder, options);
  size_t unchecked = 0;
  expect_files(folder, names, options.folder);
  for (const std::string& name : names) {
    CKPT_TRY(options.check());
    const std::string path = folder + '/' + name;
    CKPT_ASSIGN(InputFile file, InputFile::open(path, options.folder));
    CKPT_ASSIGN(PtSource parsed, PtSource::parse(path, file.bytes(), options));
    const auto source = std::make_shared<const PtSource>(std::move(parsed));
    CKPT_TRY(blame_file(LocalModel(*source, name, joiner, ranges.emplace_back()).run(), path));
    unchecked += source->unchecked();
    model.files.add(path, std::move(file));
    model.keep.push_back(source);
  }
  CKPT_ASSIGN(model.tensors, std::move(joiner).finish(model.files));
  tree::Tree& tree = model.tree.emplace();
  CKPT_TRY(tree.begin(CKPT_NODE_DICT));
  for (ForeignTensor& tensor : model.tensors) {
    const Status key = tree.key(tensor.name);
    if (!key.ok()) return Status(CKPT_FORMAT, folder + ": " + key.message());
    tensor.name = tree::path_segment(tensor.name);
    CKPT_TRY(tree.add_tensor(tensor.name));
  }
  CKPT_TRY(tree.end());
  if (unchecked != 0) model.attributes.emplace_back("import.unchecked", std::to_string(unchecked));
  return model;
}

}  // namespace

Result<std::vector<StatePart>> read_olmo_local(const std::string& path, const ReadOptions& options) {
  const std::vector<std::string> names = rank_files_in(path + "/model", options.folder);
  CKPT_TRY(check_world_size(path, names.size(), options.folder));
  std::vector<StatePart> parts;
  std::vector<FlatRanges> ranges;
  CKPT_ASSIGN(ForeignCheckpoint model, read_model(path + "/model", names, ranges, options));
  parts.push_back({"model", {}});
  parts.back().content.push_back(std::move(model));
  const std::string folder = path + "/optim";
  const std::vector<std::string> optimizers = rank_files_in(folder, options.folder);
  if (optimizers.empty()) return parts;
  CKPT_ASSIGN(std::vector<RankFile> ranks, open_rank_files(folder, optimizers, options));
  if (ranks.size() != ranges.size())
    return Status(CKPT_INCOMPLETE, folder + strformat(": expected files of {} ranks, as in model, found {}",
                                                      ranges.size(), ranks.size()))
        .with("path", folder);
  for (size_t i = 0; i < ranks.size(); i++)
    CKPT_TRY(blame_file(find_shards(ranks[i], ranges[i]), folder + '/' + ranks[i].name));
  CKPT_ASSIGN(ForeignCheckpoint optim, merge_rank_files(folder, ranks, {.drop_text = kWrapped}, options));
  parts.push_back({"optim", {}});
  parts.back().content.push_back(std::move(optim));
  return parts;
}

}  // namespace ckpt::interop
