// OLMo's checkpoint of type "full": a .pt of each part, or of model and optim what its safetensors_util writes: a
// tensor's name is the base64 of a pickle of (keys, is_pickled), and what is no tensor is a u8 tensor of its pickle.
#include <algorithm>

#include "base/base64.h"
#include "interop/src/json.h"
#include "interop/src/pickle/pickle.h"
#include "interop/src/pt/encoder.h"
#include "interop/src/pt/format.h"
#include "interop/src/safetensors/file_set.h"
#include "interop/src/safetensors/safetensors.h"
#include "interop/src/sets/format.h"

namespace ckpt::interop {

using tree::kNoNode;
using tree::Tree;

namespace {

constexpr std::string_view kSafetensors = "olmo-safetensors";  // of option format

// Header, tensors, and then the pickles, which no checkpoint holds.
class KeyedBody final : public FileBody {
 public:
  KeyedBody(std::string header, std::string pickles) : header_(std::move(header)), pickles_(std::move(pickles)) {}
  Status begin(OutputFile& file) override { return file.write(as_bytes(header_)); }
  Status write(OutputFile& file, std::span<const TensorStream::Piece>, Bytes bytes) override {
    return file.write(bytes);
  }
  Status end(OutputFile& file) override { return file.write(as_bytes(pickles_)); }

 private:
  std::string header_, pickles_;
};

class KeyedFile {
 public:
  KeyedFile(const State& state, const Tree& tree) : state_(state), tree_(tree), marks_(torch_marks(tree)) {}

  Result<ExportFile> run(uint32_t part, std::string name) {
    const uint32_t dict = dict_of(part);
    if (dict == kNoNode) return refuse(part, "a part that is no dict");
    CKPT_TRY(put_dict(dict));
    return file(std::move(name));
  }

 private:
  struct Leaf {
    Tensor tensor;  // by its name in the file
    TensorRange range;
    std::string pickle;  // in place of a range
  };

  Status refuse(uint32_t node, const std::string& what) const {
    const std::string path = tree_.path_of(node);
    return Status(CKPT_UNSUPPORTED,
                  shown(path) + ": OLMo's safetensors have no place for " + what + "; format pt has one")
        .with("path", path);
  }

  // What OLMo walks into: dicts, and classes that are dicts.
  uint32_t dict_of(uint32_t node) const {
    if (tree_[node].kind == CKPT_NODE_DICT) return node;
    if (tree_[node].kind != CKPT_NODE_RECORD) return kNoNode;
    const std::string_view name = tree_[node].text_view();
    const char* key = name == kOrderedDict ? "items" : name == "collections.defaultdict" ? "entries" : nullptr;
    const uint32_t dict = key ? tree_.find(node, key) : kNoNode;
    return dict != kNoNode && tree_[dict].kind == CKPT_NODE_DICT ? dict : kNoNode;
  }

  // A tensor, or what torch has around one that is a tensor still.
  uint32_t tensor_of(uint32_t node) const {
    while (node != kNoNode && tree_[node].kind == CKPT_NODE_RECORD &&
           (tree_[node].text_view() == "torch.Tensor" || tree_[node].text_view() == "torch.nn.parameter.Parameter"))
      node = tree_.find(node, "data");
    return node != kNoNode && tree_[node].kind == CKPT_NODE_TENSOR ? node : kNoNode;
  }

  // Recursion goes as deep as a state tree may.
  Status put_dict(uint32_t dict) {
    for (uint32_t child = tree_.first_child(dict); child != kNoNode; child = tree_[child].next) {
      keys_.push_back(child);
      const uint32_t tensor = tensor_of(child), below = dict_of(child);
      // OLMo forgets a dict without entries, which the part may need ("state" before the first step).
      if (below != kNoNode && tree_[below].child_count != 0)
        CKPT_TRY(put_dict(below));
      else
        CKPT_TRY(tensor != kNoNode ? put_tensor(tensor) : put_value(child));
      keys_.pop_back();
    }
    return Ok();
  }

  std::string name_of_keys(bool is_pickled) const {
    PickleWriter pickle;
    pickle.begin_tuple();
    for (const uint32_t node : keys_)
      if (tree_[node].key_kind == CKPT_KEY_INT)
        pickle.integer(tree_[node].place);
      else
        (void)pickle.text(tree_[node].key_view());  // a key is no 4 GiB long
    pickle.end_tuple();
    pickle.boolean(is_pickled);
    pickle.tuple2();
    std::string name;
    append_base64(as_bytes(pickle.finish()), &name);
    std::replace(name.begin(), name.end(), '+', '-');
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
  }

  Status put_tensor(uint32_t node) {
    const std::string name(tree_[node].text_view());
    CKPT_ASSIGN(const ckpt_tensor_info info, state_.tensor(name));
    const auto dtype = static_cast<uint16_t>(info.dtype);
    if (marks_.contains(name)) return refuse(node, "elements that torch changes when it uses them");
    if (!safetensors_dtype(dtype)) return refuse(node, strformat("dtype {}", ckpt_dtype_name(info.dtype)));
    Leaf& leaf = leaves_.emplace_back();
    leaf.tensor = {name_of_keys(false), dtype, shape_of(info)};
    const Result<uint64_t> bytes = tensor_bytes(leaf.tensor.shape, dtype);
    if (!bytes.ok()) return refuse(node, bytes.status().message());
    leaf.tensor.end = *bytes;
    CKPT_ASSIGN(const uint64_t elements, element_count(leaf.tensor.shape));
    leaf.range = {name, dtype, leaf.tensor.shape, 0, elements};
    return Ok();
  }

  // Only what an import of it takes again.
  Status put_value(uint32_t node) {
    PtEncoder encoder(state_, tree_, kPlain);
    CKPT_TRY(encoder.value(node));
    if (!encoder.storages().storages().empty()) return refuse(node, "a tensor in a list");
    Leaf& leaf = leaves_.emplace_back();
    leaf.pickle = encoder.pickle().finish();
    CKPT_ASSIGN(const PickleDocument value, parse_pickle(as_bytes(leaf.pickle), tree_.path_of(node)));
    Tree again;
    if (!put_pickled(again, value, "").ok()) return refuse(node, "an object");
    const uint64_t size[] = {leaf.pickle.size()};
    leaf.tensor = {name_of_keys(true), CKPT_DTYPE_U8, Shape::of(size)};
    leaf.tensor.end = leaf.pickle.size();
    return Ok();
  }

  // Tensors, widest elements first, so that each lies at a multiple of its size; then pickles, whose elements are
  // bytes.
  Result<ExportFile> file(std::string name) {
    std::ranges::stable_sort(leaves_, [](const Leaf& a, const Leaf& b) {
      if (a.pickle.empty() != b.pickle.empty()) return a.pickle.empty();  // the body writes them last
      return dtype_bits(a.tensor.dtype) > dtype_bits(b.tensor.dtype);
    });
    ExportFile out;
    std::vector<Tensor> tensors;
    std::string pickles;
    uint64_t end = 0;
    for (Leaf& leaf : leaves_) {
      leaf.tensor.begin = end;
      if (add_overflows(end, leaf.tensor.end, &end) || end >> 63)
        return Status(CKPT_UNSUPPORTED, name + " would be larger than 2^63-1 bytes");
      leaf.tensor.end = end;
      tensors.push_back(std::move(leaf.tensor));
      pickles += leaf.pickle;
      if (leaf.pickle.empty()) out.ranges.push_back(std::move(leaf.range));
    }
    CKPT_ASSIGN(std::string header, make_header(tensors, std::nullopt));
    out.name = std::move(name);
    out.bytes = header.size() + end;
    out.body = std::make_unique<KeyedBody>(std::move(header), std::move(pickles));
    return out;
  }

  static inline const PtEncoderOptions kPlain = {};
  const State& state_;
  const Tree& tree_;
  const std::map<std::string, TorchMarks> marks_;
  std::vector<uint32_t> keys_;  // nodes on the way to this one
  std::vector<Leaf> leaves_;
};

// Its train is a .pt always, as OLMo's own tool makes it: it holds lists with tensors.
bool is_keyed(const ExportRequest& request, const std::string& part, const std::vector<std::string>& imported) {
  if (part != "model" && part != "optim") return false;
  return request.options.format == kSafetensors || std::ranges::find(imported, part + kSuffix) != imported.end();
}

Result<std::string> config_of(const ExportRequest& request) {
  if (const std::string& given = request.options.config; !given.empty()) return text_of_file(given, nullptr);
  if (request.reader.attr(kOlmoConfigAttr)) return get_text(request.reader, kOlmoConfigAttr);
  return Status(CKPT_MISMATCH,
                "export: an OLMo directory has a config.yaml, which its import keeps, and this "
                "checkpoint was not imported from one: option config names the file")
      .with("expected", kOlmoConfigAttr);
}

}  // namespace

Result<ExportPlan> plan_olmo(const ExportRequest& request) {
  CKPT_ASSIGN(const Tree tree, request.reader.tree());
  CKPT_ASSIGN(const uint32_t root, entries_of(tree));
  std::vector<std::string> imported;
  if (request.reader.attr(kOlmoConfigAttr))
    if (auto names = parse_string_list(get_text(request.reader, kImportFilesAttr)); names.ok()) imported = names.take();
  ExportPlan plan;
  plan.is_directory = true;
  for (uint32_t child = tree.first_child(root); child != kNoNode; child = tree[child].next) {
    const std::string key(tree[child].key_view());
    if (std::ranges::find(kOlmoParts, key) == std::end(kOlmoParts))
      return Status(CKPT_MISMATCH, "export: OLMo's state has model, optim and train (or other), found " + shown(key))
          .with("found", key);
    CKPT_ASSIGN(ExportFile file, is_keyed(request, key, imported)
                                     ? KeyedFile(request.reader, tree).run(child, key + kSuffix)
                                     : pt_file_of(request, tree, child, key + ".pt", {.trusting = true}));
    plan.files.push_back(std::move(file));
  }
  CKPT_ASSIGN(std::string config, config_of(request));
  plan.files.push_back(text_file("config.yaml", std::move(config)));
  return plan;
}

}  // namespace ckpt::interop
