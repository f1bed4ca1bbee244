#include "interop/src/dcp/metadata.h"

#include <algorithm>
#include <string>

#include "ckpt.h"
#include "format/names.h"
#include "interop/src/json.h"
#include "interop/src/pickle/names.h"
#include "interop/src/pickle/pickle.h"
#include "interop/src/pt/dtype.h"

namespace ckpt::interop {

namespace {

constexpr size_t kMaxFields = 32;     // of an object; torch has at most eight
constexpr size_t kMaxPathKeys = 200;  // CKPT_TREE_MAX_DEPTH
// What values that are named again and again may grow to: a multiple of the pickle, and this. A chunk or an item takes
// more bytes of it than it is charged for.
constexpr uint64_t kSpare = 1 << 20, kCharge = 64;

bool same_offset(const Shape& a, const Shape& b) { return std::ranges::equal(a.span(), b.span()); }
bool offset_before(const Shape& a, const Shape& b) { return std::ranges::lexicographical_compare(a.span(), b.span()); }

class MetadataParser {
 public:
  MetadataParser(const PickleDocument& pickle, uint32_t rank, DcpMetadata& to)
      : pickle_(pickle), rank_(rank), to_(to), left_(4 * uint64_t{pickle.bytes_read()} + kSpare) {}

  Status run() {
    const PickleRef root = pickle_.root();
    if (last_name(root) != "Metadata" && last_name(root) != "MCoreMetadata")
      return Status(CKPT_FORMAT, "expected an object of class Metadata, found " + shown(pickle_.class_of(root)));
    CKPT_ASSIGN(const PickleRef items, dict_of(root, "state_dict_metadata", 0));
    CKPT_ASSIGN(const PickleRef places, dict_of(root, "storage_data", 2));
    mcore_ = field(root, "mcore_data", SIZE_MAX);
    const PickleRef paths = field(root, "planner_data", 1);
    if (paths != kNoValue && pickle_[paths].kind == PickleKind::kDict) CKPT_TRY(read_paths(paths));
    to_.by_name.reserve(to_.by_name.size() + pickle_[items].items.size() / 2);
    CKPT_TRY(each(items, [&](PickleRef key, PickleRef value) { return read_item(key, value); }));
    return each(places, [&](PickleRef key, PickleRef value) { return read_place(key, value); });
  }

 private:
  Status spend(uint64_t count) {
    if (count > left_)
      return Status(CKPT_UNSUPPORTED, "it repeats values so often that what it says is many times its size");
    left_ -= count;
    return Ok();
  }

  template <typename Visit>
  Status each(PickleRef dict, Visit&& visit) {
    const std::span<const PickleRef> items = pickle_[dict].items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      Status status = visit(items[i], items[i + 1]);
      if (!status.ok()) return status;
    }
    return Ok();
  }

  // ---- objects ----

  // "TensorStorageMetadata" of an object; empty for others.
  std::string_view last_name(PickleRef ref) const {
    if (ref == kNoValue || pickle_[ref].kind != PickleKind::kObject) return {};
    const std::string_view name = pickle_.class_of(ref);
    return name.substr(name.find_last_of(". ") + 1);
  }

  // In the object's dict of attributes, or among the arguments that made it.
  PickleRef field(PickleRef ref, std::string_view name, size_t argument) const {
    if (ref == kNoValue || pickle_[ref].kind != PickleKind::kObject) return kNoValue;
    const PickleValue& object = pickle_[ref];
    if (object.state() != kNoValue) {
      const PickleValue& state = pickle_[object.state()];
      const bool few = state.kind == PickleKind::kDict && state.items.size() <= 2 * kMaxFields;
      return few ? pickle_.find(object.state(), name) : kNoValue;
    }
    if (object.args() == kNoValue || argument >= pickle_[object.args()].items.size()) return kNoValue;
    return pickle_[object.args()].items[argument];
  }

  Result<PickleRef> dict_of(PickleRef ref, const char* name, size_t argument) const {
    const PickleRef found = field(ref, name, argument);
    if (found != kNoValue && pickle_[found].kind == PickleKind::kDict) return found;
    return Status(CKPT_FORMAT, std::string("expected a dict ") + name);
  }

  Result<std::string_view> text_of(PickleRef ref, const char* what) const {
    if (ref == kNoValue || pickle_[ref].kind != PickleKind::kText)
      return Status(CKPT_FORMAT, std::string(what) + ": expected text");
    return pickle_[ref].text;
  }

  Result<uint64_t> number_of(PickleRef ref, const char* what) const {
    if (ref == kNoValue || pickle_[ref].kind != PickleKind::kInt || pickle_[ref].integer < 0)
      return Status(CKPT_FORMAT, std::string(what) + ": expected a number");
    return static_cast<uint64_t>(pickle_[ref].integer);
  }

  // torch.Size((2, 3)), a tuple or a list.
  Result<Shape> shape_of(PickleRef ref, const char* what) const {
    if (ref != kNoValue && last_name(ref) == "Size" && pickle_[ref].args() != kNoValue &&
        pickle_[pickle_[ref].args()].items.size() == 1)
      ref = pickle_[pickle_[ref].args()].items[0];
    const bool list =
        ref != kNoValue && (pickle_[ref].kind == PickleKind::kTuple || pickle_[ref].kind == PickleKind::kList);
    if (!list) return Status(CKPT_FORMAT, std::string(what) + ": expected a tuple of numbers");
    const std::span<const PickleRef> items = pickle_[ref].items;
    if (items.size() > static_cast<size_t>(kMaxNdim))
      return Status(CKPT_UNSUPPORTED, strformat("{}: {} dimensions, at most {}", what, items.size(), kMaxNdim))
          .with("found", items.size());
    Shape shape{.ndim = static_cast<int>(items.size())};
    for (size_t i = 0; i < items.size(); i++) {
      CKPT_ASSIGN(shape.dims[i], number_of(items[i], what));
    }
    return shape;
  }

  // ---- paths ----

  Status read_paths(PickleRef paths) {
    paths_.reserve(pickle_[paths].items.size() / 2);
    return each(paths, [&](PickleRef key, PickleRef path) -> Status {
      CKPT_ASSIGN(const std::string_view name, text_of(key, "planner_data"));
      paths_[name] = path;
      return Ok();
    });
  }

  Result<std::vector<DcpKey>> path_of(std::string_view name) {
    std::vector<DcpKey> path;
    const auto found = paths_.find(name);
    if (found == paths_.end()) {
      path.push_back({std::string(name)});
      return path;
    }
    const PickleValue& tuple = pickle_[found->second];
    const bool fits = (tuple.kind == PickleKind::kTuple || tuple.kind == PickleKind::kList) && !tuple.items.empty() &&
                      tuple.items.size() <= kMaxPathKeys;
    if (!fits) return Status(CKPT_FORMAT, strformat("planner_data: expected a path of 1 to {} keys", kMaxPathKeys));
    path.reserve(tuple.items.size());
    for (const PickleRef ref : tuple.items) {
      const PickleValue& key = pickle_[ref];
      const bool is_place = key.kind == PickleKind::kInt && key.integer >= 0;
      if (!is_place && key.kind != PickleKind::kText)
        return Status(CKPT_FORMAT, "planner_data: expected a path of texts and positions");
      CKPT_TRY(spend(1 + key.text.size()));
      path.push_back(is_place ? DcpKey{{}, key.integer} : DcpKey{std::string(key.text), -1});
    }
    return path;
  }

  // ---- tensors and values ----

  Status read_item(PickleRef key, PickleRef value) {
    CKPT_ASSIGN(const std::string_view name, text_of(key, "state_dict_metadata"));
    Status status = read_named(name, value);
    return status.ok() ? Ok() : std::move(status).in(shown(name)).with("tensor", std::string(name));
  }

  Status read_named(std::string_view name, PickleRef value) {
    CKPT_TRY(spend(kCharge + name.size()));
    DcpItem item;
    item.name = name;
    CKPT_ASSIGN(item.path, path_of(name));
    const std::string_view type = last_name(value);
    if (type == "TensorStorageMetadata")
      CKPT_TRY(read_tensor(value, &item));
    else if (type != "BytesStorageMetadata")
      return Status(CKPT_UNSUPPORTED, "expected TensorStorageMetadata or BytesStorageMetadata, found " + shown(type))
          .with("found", std::string(type));
    const auto found = to_.by_name.find(name);
    if (found != to_.by_name.end()) return join(to_.items[found->second], std::move(item));
    to_.items.push_back(std::move(item));
    to_.by_name.emplace(to_.items.back().name, to_.items.size() - 1);
    return Ok();
  }

  Status read_tensor(PickleRef ref, DcpItem* item) {
    item->is_tensor = true;
    CKPT_TRY(read_dtype(field(ref, "properties", 0), item));
    CKPT_ASSIGN(item->shape, shape_of(field(ref, "size", 1), "size"));
    CKPT_TRY(count_pairs(*item, &item->shape));
    CKPT_TRY(read_boxed(item));
    const PickleRef chunks = field(ref, "chunks", 2);
    if (chunks == kNoValue || pickle_[chunks].kind != PickleKind::kList)
      return Status(CKPT_FORMAT, "expected a list of chunks");
    CKPT_TRY(spend(pickle_[chunks].items.size() * kCharge));
    item->chunks.reserve(pickle_[chunks].items.size());
    for (const PickleRef chunk : pickle_[chunks].items) {
      Box box;
      CKPT_ASSIGN(box.offset, shape_of(field(chunk, "offsets", 0), "offsets"));
      CKPT_ASSIGN(box.extent, shape_of(field(chunk, "sizes", 1), "sizes"));
      CKPT_TRY(count_pairs(*item, &box.offset));
      CKPT_TRY(count_pairs(*item, &box.extent));
      item->chunks.push_back({box, {}});
    }
    return settle(item);
  }

  // Each dimension is cut into equal parts, whose elements the last dimension has in a row.
  Status read_boxed(DcpItem* item) const {
    if (mcore_ == kNoValue || pickle_[mcore_].kind != PickleKind::kDict) return Ok();
    const PickleRef data = pickle_.find(mcore_, item->name);
    if (data == kNoValue || pickle_[data].kind != PickleKind::kDict) return Ok();
    const PickleRef shape = pickle_.find(data, "nd_reformulated_orig_global_shape");
    if (shape == kNoValue) return Ok();
    CKPT_ASSIGN(item->boxed, shape_of(shape, "nd_reformulated_orig_global_shape"));
    uint64_t elements = 1;
    bool fits = item->shape.ndim == item->boxed->ndim + 1 && dtype_bits(item->dtype) % 8 == 0;
    for (int i = 0; fits && i < item->boxed->ndim; i++) {
      const uint64_t parts = item->shape[i];
      fits = parts != 0 && (*item->boxed)[i] % parts == 0 &&
             !mul_overflows(elements, (*item->boxed)[i] / parts, &elements);
    }
    if (fits && elements == item->shape[item->boxed->ndim]) return Ok();
    return Status(CKPT_MISMATCH, "mcore_data says it is of shape " + to_text(*item->boxed) + ", which " +
                                     to_text(item->shape) + " is no division of");
  }

  // torch's element of float4_e2m1fn_x2 is two of ours, neighbours in the last dimension.
  static Status count_pairs(const DcpItem& item, Shape* numbers) {
    if (item.dtype != CKPT_DTYPE_F4_E2M1FN || numbers->ndim == 0) return Ok();
    uint64_t& last = (*numbers)[numbers->ndim - 1];
    return mul_overflows(last, 2, &last) ? Status(CKPT_FORMAT, "an extent past 2^64") : Ok();
  }

  // Those with elements, in order, each once.
  static Status settle(DcpItem* item) {
    std::vector<DcpChunk>& chunks = item->chunks;
    std::erase_if(chunks, [](const DcpChunk& chunk) {
      return std::ranges::find(chunk.box.extent.span(), 0) != chunk.box.extent.span().end();
    });
    for (const DcpChunk& chunk : chunks)
      if (chunk.box.offset.ndim != item->shape.ndim || chunk.box.extent.ndim != item->shape.ndim)
        return Status(CKPT_FORMAT,
                      strformat("a chunk of {} dimensions in a tensor of {}", chunk.box.extent.ndim, item->shape.ndim));
    if (chunks.size() > 1)  // most have one, and a stable sort takes memory
      std::stable_sort(chunks.begin(), chunks.end(),
                       [](const DcpChunk& a, const DcpChunk& b) { return offset_before(a.box.offset, b.box.offset); });
    // Replicas: ranks that name their own chunks alone name the same ones.
    const auto same = [](const DcpChunk& a, const DcpChunk& b) { return a.box == b.box; };
    chunks.erase(std::unique(chunks.begin(), chunks.end(), same), chunks.end());
    return Ok();
  }

  // TensorProperties, whose state is a tuple that begins with the dtype.
  Status read_dtype(PickleRef properties, DcpItem* item) const {
    if (last_name(properties) != "TensorProperties") return Status(CKPT_FORMAT, "expected TensorProperties");
    const PickleValue& object = pickle_[properties];
    const PickleRef holder = object.state() != kNoValue ? object.state() : object.args();
    PickleRef dtype = kNoValue;
    if (holder != kNoValue && pickle_[holder].kind == PickleKind::kTuple && !pickle_[holder].items.empty())
      dtype = pickle_[holder].items[0];
    else
      dtype = field(properties, "dtype", 0);
    const std::string_view name =
        dtype != kNoValue && pickle_[dtype].kind == PickleKind::kName ? pickle_[dtype].text : "";
    const TorchDtype found = torch_dtype_of_name(name);
    item->dtype = found.dtype;
    item->torch_dtype = found.name;
    if (found.dtype != 0) return Ok();
    return Status(CKPT_UNSUPPORTED, "unknown dtype " + shown(dotted(name))).with("found", dotted(name));
  }

  // The same name in the metadata of another rank.
  Status join(DcpItem& known, DcpItem item) {
    if (known.is_tensor != item.is_tensor)
      return Status(CKPT_MISMATCH, "it is a tensor on one rank and a value on another");
    if (known.path != item.path) return Status(CKPT_MISMATCH, "its path differs between ranks");
    if (!item.is_tensor) return Ok();
    if (known.dtype != item.dtype || known.shape != item.shape || known.torch_dtype != item.torch_dtype)
      return Status(CKPT_MISMATCH, strformat("{} {} on one rank, {} {} on another", dtype_name(known.dtype),
                                             to_text(known.shape), dtype_name(item.dtype), to_text(item.shape)));
    known.chunks.insert(known.chunks.end(), item.chunks.begin(), item.chunks.end());
    return settle(&known);
  }

  // ---- places ----

  Status read_place(PickleRef key, PickleRef value) {
    CKPT_ASSIGN(const std::string_view name, text_of(field(key, "fqn", 0), "storage_data"));
    const std::optional<size_t> found = item_called(name);
    if (!found) return Ok();  // described by nothing, so nobody can ask for it
    Status status = put_place(to_.items[*found], field(key, "offset", 1), value);
    return status.ok() ? Ok() : std::move(status).in(shown(name)).with("tensor", std::string(name));
  }

  // Places mostly come in the order of the items, one or several for each.
  std::optional<size_t> item_called(std::string_view name) {
    for (size_t i = place_item_; i < std::min(place_item_ + 2, to_.items.size()); i++)
      if (to_.items[i].name == name) return place_item_ = i;
    const auto found = to_.by_name.find(name);
    if (found == to_.by_name.end()) return std::nullopt;
    return place_item_ = found->second;
  }

  Status put_place(DcpItem& item, PickleRef offset, PickleRef info) {
    const bool has_offset = offset != kNoValue && pickle_[offset].kind != PickleKind::kNone;
    CKPT_ASSIGN(const DcpPlace place, place_of(info));
    if (!item.is_tensor) {
      if (item.values.empty() || item.values.back().rank != rank_) item.values.push_back({rank_, place});
      return Ok();
    }
    if (!has_offset && item.chunks.size() != 1) return Ok();
    Shape at = item.chunks.empty() ? Shape() : item.chunks[0].box.offset;
    if (has_offset) {
      CKPT_ASSIGN(at, shape_of(offset, "offset"));
      CKPT_TRY(count_pairs(item, &at));
    }
    const auto chunk =
        std::lower_bound(item.chunks.begin(), item.chunks.end(), at,
                         [](const DcpChunk& a, const Shape& b) { return offset_before(a.box.offset, b); });
    // One without elements is no chunk any more; of replicas the first counts.
    if (chunk == item.chunks.end() || !same_offset(chunk->box.offset, at) || chunk->place.file != SIZE_MAX) return Ok();
    chunk->place = place;
    return Ok();
  }

  Result<DcpPlace> place_of(PickleRef info) {
    DcpPlace place;
    CKPT_ASSIGN(const std::string_view path, text_of(field(info, "relative_path", 0), "relative_path"));
    CKPT_ASSIGN(place.offset, number_of(field(info, "offset", 1), "offset"));
    CKPT_ASSIGN(place.length, number_of(field(info, "length", 2), "length"));
    uint64_t end;
    if (add_overflows(place.offset, place.length, &end)) return Status(CKPT_FORMAT, "a place past 2^64");
    CKPT_ASSIGN(place.zstd, is_zstd(field(info, "transform_descriptors", 3)));
    CKPT_ASSIGN(place.file, file_of(path));
    return place;
  }

  // What was done to the bytes: nothing, or zstd.
  Result<bool> is_zstd(PickleRef descriptors) const {
    if (descriptors == kNoValue || pickle_[descriptors].kind == PickleKind::kNone) return false;
    const PickleValue& list = pickle_[descriptors];
    const bool is_list = list.kind == PickleKind::kList || list.kind == PickleKind::kTuple;
    if (is_list && list.items.empty()) return false;
    const PickleValue* one = is_list && list.items.size() == 1 ? &pickle_[list.items[0]] : nullptr;
    const std::string_view text = one && one->kind == PickleKind::kText ? one->text : "several";
    if (text == "stream.zstd" || text.starts_with("stream.zstd/1")) return true;
    return Status(CKPT_UNSUPPORTED, "its bytes were transformed by " + shown(text) + ", expected stream.zstd/1")
        .with("found", std::string(text));
  }

  // A path that stays in the directory.
  Result<size_t> file_of(std::string_view path) {
    if (!path.empty() && path == last_path_) return last_file_;
    bool plain = !path.empty() && path.size() <= kMaxName && path[0] != '/' && valid_utf8(path) &&
                 std::ranges::none_of(path, is_control);
    for (size_t at = 0; plain && at <= path.size();) {
      const size_t end = std::min(path.find('/', at), path.size());
      plain = path.substr(at, end - at) != "..";
      at = end + 1;
    }
    if (!plain)
      return Status(CKPT_FORMAT, "expected the path of a file in the directory, found " + shown(path))
          .with("found", shown(path));
    const auto [known, is_new] = to_.by_file.try_emplace(std::string(path), to_.files.size());
    if (is_new) to_.files.emplace_back(path);
    last_path_ = path;
    return last_file_ = known->second;
  }

  const PickleDocument& pickle_;
  const uint32_t rank_;
  DcpMetadata& to_;
  uint64_t left_;
  std::unordered_map<std::string_view, PickleRef, SeededHash> paths_;
  PickleRef mcore_ = kNoValue;  // of Megatron
  size_t place_item_ = 0;       // of the last place
  std::string_view last_path_;  // and its file
  size_t last_file_ = 0;
};

}  // namespace

Status add_dcp_metadata(Bytes pickle, std::string_view where, uint32_t rank, DcpMetadata* to) {
  CKPT_ASSIGN(const PickleDocument document, parse_pickle(pickle, where));
  Status status = MetadataParser(document, rank, *to).run();
  return status.ok() ? Ok() : std::move(status).in(where);
}

}  // namespace ckpt::interop
