// What a save consists of: the state tree, and the tensors in it with who holds them. One thread.
#ifndef CKPT_TORCH_COLLECTOR_H
#define CKPT_TORCH_COLLECTOR_H

#include "tensors.h"

namespace ckpt_torch {
namespace internal {

enum class Holder { kAll, kRank0 };  // who adds a tensor: all ranks, to share the work, or rank 0 alone

class Collector {
 public:
  explicit Collector(uint32_t rank) : rank_(rank) {}

  // In document order; the tensors among the values are added by tensor() and value().
  ckpt::Tree& tree() { return tree_; }
  // Dense, sparse or quantized; named by its path. An undefined one is null.
  void tensor(const at::Tensor& tensor, Holder holder);
  // INVALID, naming `where`, for what a state tree cannot hold.
  void value(const c10::IValue& value, Holder holder, const std::string& where);

  // Adds this rank's share to `save`. The tensors in memory() must stay as they are until it is staged.
  void fill(ckpt::Save& save);
  std::vector<at::Tensor> memory() const { return memory_; }

 private:
  struct Item {
    std::string name;
    at::Tensor tensor;  // dense; on its device
    Holder holder;
    size_t alias_of;  // itself where it is none
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
