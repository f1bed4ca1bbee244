// Everything is flattened and pickled first, so that what cannot be written is known before anything is. Where the
// entries lie is known once they are written: `.metadata` comes last.
#include <algorithm>
#include <set>

#include "interop/src/dcp/format.h"
#include "interop/src/dcp/metadata.h"
#include "interop/src/json.h"
#include "interop/src/pt/dtype.h"
#include "interop/src/pt/encoder.h"
#include "interop/src/pt/format.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;
using tree::TreeNode;

namespace {

constexpr uint64_t kEntryAlign = 64;    // so that elements have the alignment that they have in their archive
constexpr uint64_t kCutFrom = 1 << 20;  // bytes of a tensor that is cut into rows for the files
constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

// What one archive holds: a value, or rows of a tensor.
struct OutEntry {
  std::string pickle;
  std::vector<PtStorage> storages;
  Box box;                          // of a tensor, in torch's elements
  size_t file = 0;                  // whose number
  uint64_t offset = 0, length = 0;  // set once it is written
};

// A key of the flattened state.
struct OutItem {
  std::string name;
  std::vector<DcpKey> path;
  const char* dtype = nullptr;  // torch's; null: a value
  Shape shape;
  std::vector<size_t> entries;
};

struct OutLayout {
  std::vector<OutItem> items;
  std::vector<OutEntry> entries;
  size_t files = 1;
  std::string file_name(size_t file) const { return strformat("__{}_0.distcp", file); }
};

// ---- which entries there are ----

class Flattener {
 public:
  Flattener(const ExportRequest& request, const Tree& tree, uint64_t cut_from, OutLayout& out)
      : request_(request), tree_(tree), cut_from_(cut_from), out_(out), bytes_(out.files) {
    options_.opaque_as_dict = request.options.opaque == "dict";
    options_.trusting = request.options.opaque == "keep";
  }

  Status run(uint32_t root) {
    const uint32_t dict = dict_of(root);
    if (dict == kNoNode)
      return Status(CKPT_MISMATCH, "DCP holds dicts, and " + ckpt::in_quotes(place_of(tree_, root)) + " is none")
          .with("found", place_of(tree_, root));
    return put_dict(dict);
  }

 private:
  // ---- the tree, as torch flattens it ----

  std::string_view record_class(uint32_t node) const {
    return tree_[node].kind == CKPT_NODE_RECORD ? tree_[node].text_view() : std::string_view();
  }

  // The node with the entries of what is a dict to torch.
  uint32_t dict_of(uint32_t node) const {
    if (tree_[node].kind == CKPT_NODE_DICT || record_class(node) == CKPT_PER_RANK_CLASS) return node;
    if (record_class(node) != kOrderedDict) return kNoNode;
    const uint32_t items = tree_.find(node, "items");
    return items != kNoNode && tree_[items].kind == CKPT_NODE_DICT ? items : kNoNode;
  }

  // The leaf of a tensor of which DCP keeps the elements alone.
  uint32_t tensor_of(uint32_t node) const {
    if (tree_[node].kind == CKPT_NODE_TENSOR) return node;
    const std::string_view type = record_class(node);
    if (type != "torch.Tensor" && type != "torch.nn.parameter.Parameter") return kNoNode;
    for (const char* key : {"dtype", "conj", "neg"})
      if (tree_.find(node, key) != kNoNode) return kNoNode;
    const uint32_t data = tree_.find(node, "data");
    return data == kNoNode ? kNoNode : tensor_of(data);
  }

  // A list is a value, unless something in it is not.
  bool is_split(uint32_t node) const {
    if (tree_[node].kind != CKPT_NODE_LIST) return false;
    for (uint32_t child = tree_.first_child(node); child != kNoNode; child = tree_[child].next)
      if (tensor_of(child) != kNoNode || dict_of(child) != kNoNode || is_split(child)) return true;
    return false;
  }

  Status put(uint32_t node) {
    const uint32_t tensor = tensor_of(node), dict = dict_of(node);
    if (tensor != kNoNode) return put_tensor(tensor);
    // torch forgets an empty dict; as a value it stays.
    if (dict != kNoNode && tree_[dict].child_count != 0) return put_dict(dict);
    return is_split(node) ? put_list(node) : put_value(node);
  }

  Status put_dict(uint32_t dict) {
    for (uint32_t child = tree_.first_child(dict); child != kNoNode; child = tree_[child].next) {
      const TreeNode& node = tree_[child];
      // torch makes text of integers, too.
      path_.push_back({node.key_kind == CKPT_KEY_INT ? std::to_string(node.place) : std::string(node.key_view()), -1});
      CKPT_TRY(put(child));
      path_.pop_back();
    }
    return Ok();
  }

  Status put_list(uint32_t list) {
    int64_t place = 0;
    for (uint32_t child = tree_.first_child(list); child != kNoNode; child = tree_[child].next) {
      path_.push_back({{}, place++});
      CKPT_TRY(put(child));
      path_.pop_back();
    }
    return Ok();
  }

  // ---- entries ----

  Result<OutItem*> add_item(uint32_t node) {
    std::string name;
    for (const DcpKey& key : path_)
      name += (name.empty() ? "" : ".") + (key.is_place() ? std::to_string(key.place) : key.text);
    if (!names_.insert(name).second)
      return Status(CKPT_UNSUPPORTED, "at " + ckpt::in_quotes(place_of(tree_, node)) +
                                          ": another value has DCP's name " + ckpt::in_quotes(name) + " for it")
          .with("tensor", place_of(tree_, node))
          .with("found", name);
    out_.items.push_back({std::move(name), path_, nullptr, {}, {}});
    return &out_.items.back();
  }

  // What `encode` pickles, as an entry of `file`.
  template <typename Encode>
  Status add_entry(OutItem* item, size_t file, Box box, Encode&& encode) {
    PtEncoder encoder(request_.reader, tree_, options_);
    CKPT_TRY(encode(encoder));
    OutEntry entry;
    entry.pickle = encoder.pickle().finish();
    entry.storages = encoder.storages().storages();
    entry.box = box;
    entry.file = file;
    bytes_[file] += encoder.storages().bytes();
    item->entries.push_back(out_.entries.size());
    out_.entries.push_back(std::move(entry));
    return Ok();
  }

  Status put_value(uint32_t node) {
    CKPT_ASSIGN(OutItem* const item, add_item(node));
    return add_entry(item, 0, {}, [&](PtEncoder& encoder) { return encoder.value(node); });
  }

  Status put_tensor(uint32_t leaf) {
    const std::string name(tree_[leaf].text_view());
    CKPT_ASSIGN(OutItem* const item, add_item(leaf));
    CKPT_ASSIGN(const TensorRange all, whole_of(request_.reader, name));
    CKPT_ASSIGN(const uint64_t bytes, element_bytes(all.size, all.dtype));
    item->dtype = torch_name_of_dtype(all.dtype);
    item->shape = all.shape;
    if (all.dtype == CKPT_DTYPE_F4_E2M1FN) item->shape[all.shape.ndim - 1] /= 2;
    const bool cut = out_.files > 1 && bytes >= cut_from_ && all.shape.ndim > 0 && dtype_bits(all.dtype) >= 8;
    if (!cut) {
      const auto least = static_cast<size_t>(std::ranges::min_element(bytes_) - bytes_.begin());
      return add_entry(item, least, Box::whole(item->shape), [&](PtEncoder& encoder) { return encoder.whole(name); });
    }
    // As torch.chunk does.
    const uint64_t rows = all.shape[0], each = (rows + out_.files - 1) / out_.files;
    for (uint64_t begin = 0, file = 0; begin < rows; begin += each, file++) {
      Box box = Box::whole(item->shape);
      box.offset[0] = begin;
      box.extent[0] = std::min(each, rows - begin);
      CKPT_TRY(
          add_entry(item, file, box, [&](PtEncoder& encoder) { return encoder.rows(name, begin, box.extent[0]); }));
    }
    return Ok();
  }

  const ExportRequest& request_;
  const Tree& tree_;
  const uint64_t cut_from_;
  OutLayout& out_;
  PtEncoderOptions options_;
  std::vector<DcpKey> path_;
  std::set<std::string> names_;
  std::vector<uint64_t> bytes_;  // of each file
};

// ---- the files ----

// Archives one after another. Items of the stream are the storages of all of them.
class EntriesBody final : public FileBody {
 public:
  EntriesBody(std::shared_ptr<OutLayout> layout, std::vector<size_t> entries)
      : layout_(std::move(layout)), entries_(std::move(entries)) {}

  Status begin(OutputFile&) override { return Ok(); }
  Status write(OutputFile& file, std::span<const TensorStream::Piece> pieces, Bytes bytes) override {
    for (const TensorStream::Piece& piece : pieces) {
      CKPT_TRY(go_to(file, piece.item));
      CKPT_TRY(archive_.write(piece.item - first_item_, piece, bytes.first(piece.bytes)));
      bytes = bytes.subspan(piece.bytes);
    }
    return Ok();
  }
  Status end(OutputFile& file) override { return go_to(file, SIZE_MAX); }

 private:
  OutEntry& entry() { return layout_->entries[entries_[at_]]; }

  // Opens the archive that item `item` belongs to, and writes those before it.
  Status go_to(OutputFile& file, size_t item) {
    for (;;) {
      if (at_ == entries_.size()) return Ok();
      if (!open_) {
        const uint64_t begin = round_up(position_, kEntryAlign);
        CKPT_TRY(file.write(as_bytes(std::string(begin - position_, '\0'))));
        entry().offset = position_ = begin;
        CKPT_TRY(archive_.begin(file, begin, entry().pickle));
        open_ = true;
      }
      if (item != SIZE_MAX && item < first_item_ + entry().storages.size()) return Ok();
      CKPT_TRY(archive_.end());
      entry().length = archive_.size();
      position_ += entry().length;
      first_item_ += entry().storages.size();
      open_ = false;
      at_++;
    }
  }

  const std::shared_ptr<OutLayout> layout_;
  const std::vector<size_t> entries_;
  PtArchive archive_;
  size_t at_ = 0, first_item_ = 0;
  uint64_t position_ = 0;
  bool open_ = false;
};

// `.metadata`, by the constructors of torch's classes, whose arguments are the same in all versions.
class MetadataBody final : public FileBody {
 public:
  explicit MetadataBody(std::shared_ptr<const OutLayout> layout) : layout_(std::move(layout)) {}

  Status begin(OutputFile& file) override {
    pickle_.global(kModule, "Metadata");
    pickle_.begin_tuple();
    CKPT_TRY(put_items());
    CKPT_TRY(put_paths());
    CKPT_TRY(put_places());
    pickle_.end_tuple();
    pickle_.reduce();
    return file.write(as_bytes(pickle_.finish()));
  }
  Status write(OutputFile&, std::span<const TensorStream::Piece>, Bytes) override { return Ok(); }

 private:
  void size(const Shape& shape) {
    pickle_.global("torch", "Size");
    pickle_.extents(shape);
    pickle_.tuple1();
    pickle_.reduce();
  }

  // {name: TensorStorageMetadata(TensorProperties(dtype), size, [ChunkStorageMetadata(offsets, sizes), …])}
  Status put_items() {
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const OutItem& item : layout_->items) {
      CKPT_TRY(pickle_.text(item.name));
      pickle_.global(kModule, item.dtype ? "TensorStorageMetadata" : "BytesStorageMetadata");
      pickle_.begin_tuple();
      if (item.dtype) put_tensor(item);
      pickle_.end_tuple();
      pickle_.reduce();
    }
    pickle_.end_items();
    return Ok();
  }

  void put_tensor(const OutItem& item) {
    pickle_.global(kModule, "TensorProperties");
    pickle_.global("torch", item.dtype);
    pickle_.tuple1();
    pickle_.reduce();
    size(item.shape);
    pickle_.begin_list();
    for (const size_t entry : item.entries) {
      pickle_.global(kModule, "ChunkStorageMetadata");
      size(layout_->entries[entry].box.offset);
      size(layout_->entries[entry].box.extent);
      pickle_.tuple2();
      pickle_.reduce();
    }
    pickle_.end_list();
  }

  Status put_paths() {
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const OutItem& item : layout_->items) {
      CKPT_TRY(pickle_.text(item.name));
      pickle_.begin_tuple();
      for (const DcpKey& key : item.path) {
        if (key.is_place())
          pickle_.integer(key.place);
        else
          CKPT_TRY(pickle_.text(key.text));
      }
      pickle_.end_tuple();
    }
    pickle_.end_items();
    return Ok();
  }

  // {MetadataIndex(name, offset, index): _StorageInfo(file, offset, length)}
  Status put_places() {
    pickle_.empty_dict();
    pickle_.begin_items();
    for (const OutItem& item : layout_->items)
      for (size_t i = 0; i < item.entries.size(); i++) {
        const OutEntry& entry = layout_->entries[item.entries[i]];
        pickle_.global(kModule, "MetadataIndex");
        pickle_.begin_tuple();
        CKPT_TRY(pickle_.text(item.name));
        if (item.dtype) {
          size(entry.box.offset);
          pickle_.integer(static_cast<int64_t>(i));
        }
        pickle_.end_tuple();
        pickle_.reduce();
        pickle_.global("torch.distributed.checkpoint.filesystem", "_StorageInfo");
        CKPT_TRY(pickle_.text(layout_->file_name(entry.file)));
        pickle_.integer(static_cast<int64_t>(entry.offset));
        pickle_.integer(static_cast<int64_t>(entry.length));
        pickle_.tuple3();
        pickle_.reduce();
      }
    pickle_.end_items();
    return Ok();
  }

  const std::shared_ptr<const OutLayout> layout_;
  PickleWriter pickle_;
};

std::vector<ExportFile> entries_files(const std::shared_ptr<OutLayout>& layout) {
  std::vector<ExportFile> files(layout->files);
  std::vector<std::vector<size_t>> entries(layout->files);
  for (size_t i = 0; i < layout->entries.size(); i++) {
    const OutEntry& entry = layout->entries[i];
    ExportFile& file = files[entry.file];
    entries[entry.file].push_back(i);
    file.bytes += entry.pickle.size();
    for (const PtStorage& storage : entry.storages) {
      file.ranges.push_back(storage.range);
      file.bytes += storage.bytes;
    }
  }
  for (size_t i = 0; i < files.size(); i++) {
    files[i].name = layout->file_name(i);
    files[i].body = std::make_unique<EntriesBody>(layout, std::move(entries[i]));
  }
  return files;
}

}  // namespace

Result<ExportPlan> plan_dcp(const ExportRequest& request, uint64_t cut_from) {
  CKPT_ASSIGN(const Tree tree, request.reader.tree());
  CKPT_ASSIGN(const uint32_t root, node_at(tree, request.options.at));
  const auto layout = std::make_shared<OutLayout>();
  layout->files = static_cast<size_t>(request.options.shards);
  CKPT_TRY(Flattener(request, tree, cut_from, *layout).run(root));
  ExportPlan plan;
  plan.is_directory = true;
  plan.files = entries_files(layout);
  plan.files.push_back({".metadata", std::make_unique<MetadataBody>(layout), {}, 0});
  return plan;
}

Result<ExportPlan> plan_dcp(const ExportRequest& request) { return plan_dcp(request, kCutFrom); }

}  // namespace ckpt::interop
