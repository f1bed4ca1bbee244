// A state tree, or parts of one, as torch.save pickles it: plain values as they are, tensors as what rebuilds them from
// storages, and the records of schemas/STATE_TREE.md that torch.load(weights_only=True) of torch 2 makes objects of.
// numpy's arrays become tensors and its scalars Python's numbers, since weights_only refuses numpy (which the tool
// tells); where the file is for programs that trust it, they stay what they are. Recursion goes as deep as a state tree
// may. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "interop/src/client.h"
#include "interop/src/pickle/writer.h"
#include "interop/src/pt/storage_plan.h"

namespace ckpt::interop {

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict";

// "QInt8Storage" for "qint8"; null for what is not quantized.
const char* quantized_storage(std::string_view dtype);

struct PtEncoderOptions {
  // A record that weights_only refuses becomes a dict of its fields, with its class under "__class__".
  bool opaque_as_dict = false;
  // For torch.load(weights_only=False): numpy's values, dates, paths and versions are written as such. Never another
  // class, since to make an object may run what an imported file wanted.
  bool trusting = false;
  // Aliases of these tensors are written as tensors of their own.
  std::set<std::string> apart;
};

class PtEncoder {
  using TreeNode = tree::TreeNode;

 public:
  using Keep = std::function<bool(uint32_t node)>;

  // All of these must outlive the encoder.
  PtEncoder(const State& state, const tree::Tree& tree, const PtEncoderOptions& options)
      : state_(state), tree_(tree), options_(options), storages_(state) {}

  // The value of a node, without its key; of what is below it only what `keep` takes, where there is one.
  // UNSUPPORTED for what weights_only refuses, FORMAT for a record that lacks its fields; with the path.
  Status value(uint32_t node);
  Status value(uint32_t node, const Keep& keep);
  Status key(uint32_t number);
  // torch.Size(shape)
  void size(const Shape& shape);
  // Elements [begin, begin + size) of a tensor in a row.
  Status piece(const std::string& name, uint64_t begin, uint64_t size);
  // Rows [begin, begin + count) of a tensor or alias as a tensor of its own.
  Status rows(const std::string& name, uint64_t begin, uint64_t count);
  // A box of it, likewise.
  Status box(const std::string& name, const Box& box);
  Status whole(const std::string& name);

  PickleWriter& pickle() { return pickle_; }
  const PtStoragePlan& storages() const { return storages_; }

 private:
  using Encode = Status (PtEncoder::*)(const TreeNode& record);
  struct Row;
  // How a tensor is written but for its place.
  struct Look {
    std::string_view dtype;          // "bits8"; empty: what the checkpoint's says
    std::string_view memory_format;  // "torch.channels_last"; empty: row-major
    bool requires_grad = false, conj = false, neg = false;
  };

  // ---- encoder.cpp: values and tensors ----
  Status put(uint32_t number);
  Status scalar(const TreeNode& node);
  Status sequence(const TreeNode& node);
  Status dict(const TreeNode& node);
  Status pairs(const TreeNode& list);
  Status leaf(const TreeNode& node, const Look& look);
  Status tensor(const PtPlace& place, const Look& look);
  void tensor_function(const PtPlace& place, const Look& look);
  Status tensor_arguments(const PtPlace& place, const Look& look);
  Result<PtPlace> place_of(const TreeNode& leaf, const Look& look);
  Status storage(const PtPlace& place, std::string_view type);
  void shape(const PtPlace& place);
  uint32_t number_of(const TreeNode& node) const { return static_cast<uint32_t>(&node - &tree_[0]); }
  uint32_t first_child(const TreeNode& node) const { return tree_.first_child(number_of(node)); }
  uint32_t find(const TreeNode& record, const char* key) const { return tree_.find(number_of(record), key); }
  Status refuse(ckpt_status code, const TreeNode& node, const std::string& what) const;

  // ---- encode_records.cpp ----
  Status record(const TreeNode& node);
  Status opaque(const TreeNode& node);
  Status ordered_dict(const TreeNode& node);
  Status plain_dict(const TreeNode& node);
  Status per_rank(const TreeNode& node);
  Status torch_size(const TreeNode& node);
  Status torch_device(const TreeNode& node);
  Status torch_layout(const TreeNode& node);
  Status torch_dtype(const TreeNode& node);
  Status torch_tensor(const TreeNode& node);
  Status torch_storage(const TreeNode& node);
  Status parameter(const TreeNode& node);
  Status sparse(const TreeNode& node);
  Status quantized(const TreeNode& node);
  Status byte_array(const TreeNode& node);
  Status called(const TreeNode& node);
  Result<Look> look_of(const TreeNode& record) const;
  bool is_number(const TreeNode& record) const;
  bool can_be_key(uint32_t number) const;
  Status key_value(uint32_t number);
  Result<uint32_t> field(const TreeNode& record, const char* key) const;
  Status put_field(const TreeNode& record, const char* key);
  bool flag(const TreeNode& record, const char* key) const;
  std::string_view text(const TreeNode& record, const char* key) const;
  static const Row* row_of(std::string_view class_name);

  // ---- encode_numpy.cpp ----
  Status array(const TreeNode& node);
  Status number(const TreeNode& node);
  Status numpy_dtype(uint16_t dtype);

  const State state_;
  const tree::Tree& tree_;
  const PtEncoderOptions& options_;
  PickleWriter pickle_;
  PtStoragePlan storages_;
  Keep keep_;
};

}  // namespace ckpt::interop
