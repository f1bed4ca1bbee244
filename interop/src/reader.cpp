#include "interop/src/reader.h"

#include <algorithm>
#include <map>

#include "base/strformat.h"
#include "base/text.h"
#include "format/names.h"

namespace ckpt::interop {

Status put_cannot(tree::Tree& tree, const Status& why, std::string_view message) {
  CKPT_TRY(tree.begin(CKPT_NODE_RECORD, kCannotClass));
  CKPT_TRY(tree.key("status"));
  CKPT_TRY(tree.add_int(why.code()));
  CKPT_TRY(tree.key("message"));
  CKPT_TRY(tree.add_text(message));
  for (const char* fact : {"path", "found", "expected"})
    if (const std::string* text = why.detail(fact); text && valid_utf8(*text)) {
      CKPT_TRY(tree.key(fact));
      CKPT_TRY(tree.add_text(*text));
    }
  return tree.end();
}

namespace {

constexpr size_t kMostExcluded = 512;  // bytes of a line of 1 KiB

std::string field_of(const tree::Tree& tree, uint32_t record, const char* key) {
  const uint32_t field = tree.find(record, key);
  return field == tree::kNoNode ? std::string() : std::string(tree[field].text_view());
}

bool is_cannot(const tree::Tree& tree, uint32_t node) {
  return tree[node].kind == CKPT_NODE_RECORD && tree[node].text_view() == kCannotClass;
}

// How to do without the value at `first`, and without those that the same fault takes, as a file of several tensors.
std::string way_out(const tree::Tree& tree, uint32_t first, const std::string& message) {
  const std::string place = tree.path_of(first);
  if (place.empty()) return {};
  size_t alike = 1;
  std::string places = place;
  for (uint32_t i = first + 1; i < tree.size(); i++) {
    if (!is_cannot(tree, i) || field_of(tree, i, "message") != message) continue;
    alike++;
    if (places.size() <= kMostExcluded) places += "," + tree.path_of(i);
  }
  if (alike == 1) return "; option exclude=" + place + " leaves it out";
  if (places.size() <= kMostExcluded) return strformat("; option exclude={} leaves out all {}", places, alike);
  return strformat("; option exclude={} leaves it out; {} more need the same", place, alike - 1);
}

}  // namespace

Status check_values(const tree::Tree& tree) {
  for (uint32_t i = 0; i < tree.size(); i++) {
    if (!is_cannot(tree, i)) continue;
    const uint32_t code = tree.find(i, "status");
    const std::string message = field_of(tree, i, "message");
    Status status(code == tree::kNoNode ? CKPT_FORMAT : static_cast<ckpt_status>(tree[code].integer),
                  message + way_out(tree, i, message));
    status = std::move(status).with("tensor", tree.path_of(i));
    for (const char* fact : {"path", "found", "expected"})
      if (const std::string found = field_of(tree, i, fact); !found.empty())
        status = std::move(status).with(fact, found);
    return status;
  }
  return Ok();
}

const ForeignPiece* ForeignTensor::whole() const {
  return pieces.size() == 1 && pieces[0].region.kind == RegionKind::kWhole ? pieces.data() : nullptr;
}

uint64_t ForeignTensor::elements() const {
  uint64_t count;
  count_elements(shape.span(), &count);  // was checked when the file was read
  return count;
}

uint64_t ForeignTensor::bytes() const {
  uint64_t size;
  count_bytes(elements(), dtype, &size);
  return size;
}

void ForeignCheckpoint::add_unchecked(uint64_t count) {
  constexpr std::string_view kKey = "import.unchecked";
  if (count == 0) return;
  for (auto& [key, value] : attributes)
    if (key == kKey) {
      value = std::to_string(std::stoull(value) + count);
      return;
    }
  attributes.emplace_back(kKey, std::to_string(count));
}

Status ForeignCheckpoint::put_cannots(const std::vector<std::pair<std::string, Status>>& cannot) {
  if (cannot.empty()) return Ok();
  std::map<std::string_view, const Status*> entries;
  for (const ForeignTensor& tensor : tensors) entries[tensor.name] = nullptr;
  for (const auto& [name, status] : cannot) entries[name] = &status;
  tree::Tree& dict = tree.emplace();
  CKPT_TRY(dict.begin(CKPT_NODE_DICT));
  for (const auto& [name, status] : entries) {
    if (Status key = dict.key(name); !key.ok()) return Status(CKPT_FORMAT, key.message());
    CKPT_TRY(status ? put_cannot(dict, *status, status->message()) : dict.add_tensor(name));
  }
  return dict.end();
}

Result<tree::Tree> ForeignCheckpoint::take_tree() {
  if (tree) return *std::exchange(tree, std::nullopt);
  tree::Tree dict;
  auto fill = [&]() -> Status {
    CKPT_TRY(dict.begin(CKPT_NODE_DICT));
    // In the order of their names, as of a checkpoint without a tree.
    std::vector<std::string_view> names;
    for (const ForeignTensor& tensor : tensors) names.push_back(tensor.name);
    std::ranges::sort(names);
    for (const std::string_view name : names) {
      CKPT_TRY(dict.key(name));
      CKPT_TRY(dict.add_tensor(name));
    }
    return dict.end();
  };
  // What is wrong with a tree that files asked for is wrong with the files.
  if (const Status status = fill(); !status.ok()) return Status(CKPT_FORMAT, status.message());
  return dict;
}

Result<std::vector<ForeignTable>> ForeignCheckpoint::tables() const {
  std::vector<ForeignTable> all;
  for (size_t i = 0; i < tensors.size(); i++) {
    const ForeignTensor& tensor = tensors[i];
    if (tensor.buckets == 0) continue;
    const auto is_in = [&](const ForeignTable& table) {
      if (tensor.is_alias()) return tensor.target == table.ids && tensor.name == table.name;
      const ForeignTensor& ids = tensors[table.ids];
      const auto same_rows = [&](const ForeignPiece& a, const ForeignPiece& b) {
        return a.rank == b.rank && !a.strides && !files.is_computed(a.bytes.file);
      };
      return tensor.name.starts_with(table.name + '/') && tensor.shape[0] == ids.shape[0] &&
             std::ranges::equal(tensor.pieces, ids.pieces, same_rows);
    };
    constexpr std::string_view kIds = "/ids";
    if (!tensor.is_alias() && tensor.dtype == CKPT_DTYPE_I64 && tensor.shape.ndim == 1 && tensor.name.ends_with(kIds)) {
      all.push_back({tensor.name.substr(0, tensor.name.size() - kIds.size()), i, {}});
    } else if (!all.empty() && is_in(all.back())) {
      if (!tensor.is_alias()) all.back().columns.push_back(i);
    } else {
      return Status(CKPT_UNSUPPORTED, "tensor " + ckpt::in_quotes(tensor.name) +
                                          " is of a sparse table, which is chosen, renamed or changed as a whole or "
                                          "not at all; columns may be left out")
          .with("tensor", tensor.name);
    }
  }
  return all;
}

// The tensor that a record is about, perhaps by another record.
static uint32_t tensor_of_record(const tree::Tree& tree, uint32_t node) {
  while (node != tree::kNoNode && tree[node].kind == CKPT_NODE_RECORD) node = tree.find(node, "data");
  return node != tree::kNoNode && tree[node].kind == CKPT_NODE_TENSOR ? node : tree::kNoNode;
}

std::string TorchMarks::verb() const {
  if (quantized) return "scales";
  return conj && neg ? "conjugates and negates" : conj ? "conjugates" : "negates";
}

std::map<std::string, TorchMarks> torch_marks(const tree::Tree& tree) {
  std::map<std::string, TorchMarks> found;
  for (uint32_t i = 0; i < tree.size(); i++) {
    if (tree[i].kind != CKPT_NODE_RECORD) continue;
    const auto is_set = [&](const char* key) {
      const uint32_t field = tree.find(i, key);
      return field != tree::kNoNode && tree[field].kind == CKPT_NODE_BOOL && tree[field].integer != 0;
    };
    const uint32_t dtype = tree.find(i, "dtype");
    const bool of_integers =
        dtype != tree::kNoNode && tree[dtype].kind == CKPT_NODE_TEXT &&
        (tree[dtype].text_view().starts_with("torch.qint") || tree[dtype].text_view().starts_with("torch.quint"));
    const TorchMarks marks{is_set("conj"), is_set("neg"), of_integers || tree[i].text_view() == "torch.QTensor"};
    const uint32_t tensor = marks.any() ? tensor_of_record(tree, i) : tree::kNoNode;
    if (tensor == tree::kNoNode) continue;
    TorchMarks& all = found[std::string(tree[tensor].text_view())];
    all = {all.conj || marks.conj, all.neg || marks.neg, all.quantized || marks.quantized};
  }
  return found;
}

}  // namespace ckpt::interop
