// What a load reads: a checkpoint in a store, or files of another program where they lie. One thread.
#ifndef CKPT_TORCH_CONTENT_H
#define CKPT_TORCH_CONTENT_H

#include <functional>
#include <unordered_map>

#include "nodes.h"

namespace ckpt_torch {
namespace internal {

// Whether a path names a file, or a directory with files, of another program; of a directory that holds none of a known
// format the answer is true, too. Of a bucket only its store can tell: false.
bool is_foreign(const std::string& path);

class Content {
 public:
  // Files at a path.
  Content(const std::string& path, const ckpt::Options& options);
  // A checkpoint, as a rank sees it.
  Content(const ckpt::Store& store, const std::string& id, uint32_t rank, const ckpt::Options& options);

  Node root() const;
  // NOT_FOUND. Of a file only its name, dtype and shape are told.
  ckpt::TensorInfo tensor(const std::string& name) const;
  // The tensor that this is another name of, or itself. A view of some of another's elements is a tensor of its own.
  std::string named(const std::string& name) const;
  // None in a file.
  std::optional<std::string> attr(const std::string& key) const;
  std::optional<ckpt::ObjectInfo> object(const std::string& name, uint32_t rank) const;
  // How many ranks have saved what the record of a value of each rank has; `differs` tells whether a number will not
  // do.
  uint64_t ranks_of(const Node& record, const std::function<bool(uint64_t)>& differs) const;
  void describe(Loaded& loaded) const;
  // Whether a load reads elements of `type` into the memory of a tensor, as they are or converted.
  bool reads_into(const at::Tensor& tensor, at::ScalarType type) const;

 private:
  friend class ContentLoad;
  uint64_t index_of(const std::string& name) const;

  std::string where_;
  ckpt::Reader reader_{nullptr};  // of a checkpoint
  ckpt::Tree tree_{nullptr};
  mutable std::optional<ckpt::File> file_;
  std::unordered_map<std::string, uint64_t> tensors_;  // of the file
};

// Tensors and objects of it that are read together. The content must outlive it.
class ContentLoad {
 public:
  ContentLoad(const Content& content, const ckpt::Options& options);
  void add_tensor(const std::string& name, const ckpt::Tensor& tensor, ckpt::MutableMemory memory, ckpt::Device device);
  void add_object(const std::string& name, uint32_t rank, ckpt::MutableMemory memory);
  void run();

 private:
  struct Read {
    uint64_t tensor;
    ckpt::Tensor region;
    ckpt::MutableMemory memory;
  };
  const Content& content_;
  ckpt::Load load_{nullptr};
  std::vector<Read> reads_;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif
