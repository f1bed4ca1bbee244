// Meta's consolidated.NN.pth again: of most weights each file has an equal part, of the others all.
#include "interop/src/json.h"
#include "interop/src/pt/encoder.h"
#include "interop/src/pt/format.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;

namespace {

// Llama 1 and 2 have 32,000 rows of embeddings (Code Llama 32,016) and divide each; Llama 3 has 128,256 and divides
// their number.
constexpr uint64_t kManyEmbeddings = 1 << 16;

class MetaPlan {
 public:
  MetaPlan(const ExportRequest& request, const Tree& tree) : request_(request), tree_(tree) {}

  Result<ExportPlan> run() {
    CKPT_ASSIGN(const uint32_t root, node_at(tree_, request_.options.at));
    ordered_ = tree_[root].kind == CKPT_NODE_RECORD && tree_[root].text_view() == kOrderedDict;
    entries_ = ordered_ ? tree_.find(root, "items") : root;
    if (entries_ == kNoNode || tree_[entries_].kind != CKPT_NODE_DICT)
      return Status(CKPT_MISMATCH, "export: Meta's files are dicts of weights, and " +
                                       ckpt::in_quotes(place_of(tree_, root)) + " is no dict");
    if (tree_.find(entries_, "norm.weight") == kNoNode)
      return Status(CKPT_MISMATCH,
                    "export: found no norm.weight, which Meta's files have beside layers.0.attention.wq.weight and "
                    "others; option map_back or map translates names (llama-hf-to-meta), option at says where the "
                    "model is")
          .with("expected", "norm.weight");
    CKPT_TRY(count_files());
    ExportPlan plan;
    plan.is_directory = true;
    const PtEncoderOptions options{request_.options.opaque == "dict", false, {}};
    for (uint64_t file = 0; file < files_; file++) {
      PtEncoder encoder(request_.reader, tree_, options);
      CKPT_TRY(put_file(encoder, file));
      plan.files.push_back(pt_file(meta_name(file), encoder.pickle().finish(), encoder.storages().storages()));
    }
    return plan;
  }

 private:
  // As many as were imported, if nothing else is wanted.
  Status count_files() {
    if (request_.options.is_set.shards) {
      files_ = static_cast<uint64_t>(request_.options.shards);
      if (files_ <= kMaxMetaFiles) return Ok();
      return Status(CKPT_INVALID,
                    strformat("export: option shards: expected up to {} of Meta's files, whose names have "
                              "two digits, found {}",
                              kMaxMetaFiles, files_));
    }
    const std::optional<std::string> text = request_.reader.attr(kMetaFilesAttr);
    if (!text) return Ok();
    files_ = 0;
    for (const char digit : *text)
      files_ =
          digit >= '0' && digit <= '9' && files_ <= kMaxMetaFiles ? files_ * 10 + uint64_t(digit - '0') : UINT64_MAX;
    if (files_ >= 1 && files_ <= kMaxMetaFiles) return Ok();
    return Status(CKPT_FORMAT, strformat("attribute {}: expected a number of files up to {}, found {}", kMetaFilesAttr,
                                         kMaxMetaFiles, shown(*text)));
  }

  Status put_file(PtEncoder& encoder, uint64_t file) {
    if (ordered_)
      encoder.pickle().ordered_dict();
    else
      encoder.pickle().empty_dict();
    encoder.pickle().begin_items();
    for (uint32_t child = tree_.first_child(entries_); child != kNoNode; child = tree_[child].next) {
      CKPT_TRY(encoder.key(child));
      CKPT_TRY(put_weight(encoder, child, file));
    }
    encoder.pickle().end_items();
    return Ok();
  }

  Status put_weight(PtEncoder& encoder, uint32_t node, uint64_t file) {
    const std::string key(tree_[node].key_view());
    if (files_ == 1) return encoder.value(node);
    const MetaRule rule = meta_rule(key);
    if (tree_[node].kind != CKPT_NODE_TENSOR) {
      if (rule == MetaRule::kWhole) return encoder.value(node);
      return Status(CKPT_MISMATCH,
                    "export: " + ckpt::in_quotes(key) + " is divided among Meta's files, and is no tensor")
          .with("tensor", key);
    }
    const std::string name(tree_[node].text_view());
    CKPT_ASSIGN(const ckpt_tensor_info info, request_.reader.tensor(name));
    // Nothing shares memory in several files.
    if (rule == MetaRule::kWhole || info.ndim != 2) return encoder.whole(name);
    Box box = Box::whole(shape_of(info));
    const int dim = dimension(rule, box.extent);
    const uint64_t all = box.extent[dim];
    if (all % files_ != 0)
      return Status(CKPT_MISMATCH, strformat("export: the {} {} of {} do not divide among {} of Meta's files", all,
                                             dim == 0 ? "rows" : "columns", ckpt::in_quotes(key), files_))
          .with("tensor", name)
          .with("found", all);
    box.extent[dim] = all / files_;
    box.offset[dim] = all / files_ * file;
    return encoder.box(name, box);
  }

  int dimension(MetaRule rule, const Shape& shape) const {
    if (rule != MetaRule::kEmbeddings) return rule == MetaRule::kRows ? 0 : 1;
    const std::optional<std::string> imported = request_.reader.attr(kMetaEmbeddingsAttr);
    return imported ? (*imported == "rows" ? 0 : 1) : (shape[0] >= kManyEmbeddings ? 0 : 1);
  }

  const ExportRequest& request_;
  const Tree& tree_;
  bool ordered_ = false;
  uint32_t entries_ = kNoNode;
  uint64_t files_ = 1;
};

}  // namespace

Result<ExportPlan> plan_meta(const ExportRequest& request) {
  CKPT_ASSIGN(const Tree tree, request.reader.tree());
  return MetaPlan(request, tree).run();
}

}  // namespace ckpt::interop
