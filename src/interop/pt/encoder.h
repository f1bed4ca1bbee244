// A state tree, or parts of one, as torch.save pickles it: plain values as they are, tensors as what rebuilds them from
// storages, and the records of schemas/STATE_TREE.md that torch.load(weights_only=True) of torch 2 makes objects of.
// numpy's arrays become tensors and its scalars Python's numbers, since weights_only refuses numpy. Recursion goes as
// deep as a state tree may. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ckpt.h"
#include "interop/pickle/writer.h"
#include "interop/pt/storage_plan.h"
#include "interop/tree_view.h"

namespace ckpt::interop {

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict";

// "QInt8Storage" for "qint8"; null for what is not quantized.
const char* quantized_storage(std::string_view dtype);

struct PtEncoderOptions {
  // A record that weights_only refuses becomes a dict of its fields, with its class under "__class__".
  bool opaque_as_dict = false;
  // Aliases of these tensors are written as tensors of their own.
  std::set<std::string> apart;
};

class PtEncoder {
 public:
  using Keep = std::function<bool(uint64_t node)>;

  // `options` must outlive the encoder.
  PtEncoder(const ckpt_reader* reader, TreeView tree, const PtEncoderOptions& options)
      : reader_(reader), tree_(tree), options_(options), storages_(reader) {}

  // The value of a node, without its key; of what is below it only what `keep` takes, where there is one.
  // UNSUPPORTED for what weights_only refuses, FORMAT for a record that lacks its fields; with the path.
  Status value(uint64_t node);
  Status value(uint64_t node, const Keep& keep);
  Status key(uint64_t node);
  // torch.Size(shape)
  void size(const Shape& shape);
  // Elements [begin, begin + size) of a tensor in a row.
  Status piece(const std::string& name, uint64_t begin, uint64_t size);

  PickleWriter& pickle() { return pickle_; }
  const PtStoragePlan& storages() const { return storages_; }

 private:
  using Encode = Status (PtEncoder::*)(const TreeEntry& record);
  struct Row;
  // How a tensor is written but for its place.
  struct Look {
    std::string_view dtype;  // "float4_e2m1fn_x2"; empty: what the checkpoint's says
    bool requires_grad = false, conj = false, neg = false;
  };

  // ---- encoder.cpp: values and tensors ----
  Status put(uint64_t number);
  Status scalar(const TreeEntry& node);
  Status sequence(const TreeEntry& node);
  Status dict(const TreeEntry& node);
  Status pairs(const TreeEntry& list);
  Status leaf(const TreeEntry& node, const Look& look);
  Status tensor(const PtPlace& place, const Look& look);
  void tensor_function(const PtPlace& place, const Look& look);
  Status tensor_arguments(const PtPlace& place, const Look& look);
  Result<PtPlace> place_of(const TreeEntry& leaf, const Look& look);
  Status storage(const PtPlace& place, std::string_view type);
  void shape(const PtPlace& place);
  Status refuse(ckpt_status code, const TreeEntry& node, const std::string& what) const;

  // ---- encode_records.cpp ----
  Status record(const TreeEntry& node);
  Status opaque(const TreeEntry& node);
  Status ordered_dict(const TreeEntry& node);
  Status plain_dict(const TreeEntry& node);
  Status torch_size(const TreeEntry& node);
  Status torch_device(const TreeEntry& node);
  Status torch_layout(const TreeEntry& node);
  Status torch_dtype(const TreeEntry& node);
  Status torch_tensor(const TreeEntry& node);
  Status torch_storage(const TreeEntry& node);
  Status parameter(const TreeEntry& node);
  Status sparse(const TreeEntry& node);
  Status quantized(const TreeEntry& node);
  Status array(const TreeEntry& node);
  Status number(const TreeEntry& node);
  Status byte_array(const TreeEntry& node);
  Status called(const TreeEntry& node);
  Result<Look> look_of(const TreeEntry& record) const;
  Result<uint64_t> field(const TreeEntry& record, const char* key) const;
  Status put_field(const TreeEntry& record, const char* key);
  bool flag(const TreeEntry& record, const char* key) const;
  std::string_view text(const TreeEntry& record, const char* key) const;
  static const Row* row_of(std::string_view class_name);

  const ckpt_reader* reader_;
  TreeView tree_;
  const PtEncoderOptions& options_;
  PickleWriter pickle_;
  PtStoragePlan storages_;
  Keep keep_;
};

}  // namespace ckpt::interop
