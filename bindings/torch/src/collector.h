// What a save consists of: the state tree, and its tensors with the ranks that hold them. One thread.
#ifndef CKPT_TORCH_COLLECTOR_H
#define CKPT_TORCH_COLLECTOR_H

#include "tensors.h"

namespace ckpt_torch {
namespace internal {

enum class Holder { kAll, kRank0 };  // who adds a tensor: all ranks, to share the work, or rank 0 alone

class Collector {
 public:
  explicit Collector(uint32_t rank) : rank_(rank) {}

  // To be built in document order; tensor() and value() add their tensors to it.
  ckpt::Tree& tree() { return tree_; }
  // Adds a dense, sparse or quantized tensor, named by its path; an undefined one as null.
  void tensor(const at::Tensor& tensor, Holder holder);
  // Adds a value. INVALID, naming `where`, if a state tree cannot hold it.
  void value(const c10::IValue& value, Holder holder, const std::string& where);

  // Adds this rank's share to `save`. The tensors in memory() must stay as they are until it is staged.
  void fill(ckpt::Save& save);
  std::vector<at::Tensor> memory() const { return memory_; }

 private:
  struct Item {
    std::string name;
    at::Tensor tensor;  // dense; on its device
    Holder holder;
    size_t alias_of;  // its own index if it is no alias
  };
  void dense(const at::Tensor& tensor, Holder holder);
  void dict(const c10::IValue& value, Holder holder, const std::string& where);
  void find_aliases();
  void add_alias(ckpt::Save& save, const Item& item) const;

  uint32_t rank_;
  ckpt::Tree tree_ = ckpt::Tree::create();
  std::vector<Item> items_;
  std::vector<at::Tensor> memory_;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif
