// What a save consists of: the state tree, and its tensors with the ranks that hold them. One thread.
#ifndef CKPT_TORCH_COLLECTOR_H
#define CKPT_TORCH_COLLECTOR_H

#include "group.h"
#include "tensors.h"

namespace ckpt_torch {
namespace internal {

// Who adds a tensor: all ranks, to share the work; rank 0 alone; or this rank alone, which nobody else has.
enum class Holder { kAll, kRank0, kOwn };

class Collector {
 public:
  explicit Collector(uint32_t rank) : rank_(rank) {}

  // Goes on where a save would be refused, and lists what it would say.
  void survey(std::vector<std::string>& refused) { refused_ = &refused; }
  // Throws what `body` throws. In a survey lists it, and puts None in its place.
  template <class Body>
  void refusable(Body&& body) {
    if (!refused_) return body();
    const auto error = caught(std::forward<Body>(body));
    if (!error) return;
    refused_->push_back(error->what());
    tree_.add_null();
  }

  uint32_t rank() const { return rank_; }
  // To be built in document order; tensor() and value() add their tensors to it.
  ckpt::Tree& tree() { return tree_; }
  // Adds a dense, sparse or quantized tensor, named by its path; an undefined one as null.
  void tensor(const at::Tensor& tensor, Holder holder);
  // Adds a value. INVALID, naming `where`, if a state tree cannot hold it.
  void value(const c10::IValue& value, Holder holder, const std::string& where);

  // Adds this rank's share to `save`. The tensors in memory() must stay as they are until it is staged.
  void fill(ckpt::Save& save, bool with_tree);
  std::vector<at::Tensor> memory() const { return memory_; }
  // The tensors that this rank adds, but no aliases of others, and their bytes. Refuses what fill() would.
  std::map<std::string, uint64_t> sizes();

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
  std::vector<std::string>* refused_ = nullptr;
};

// All of a state but, on ranks other than 0, what is per rank; collect_own adds only that. INVALID for what cannot be
// saved.
void collect(Collector& out, const State& state, const OptimizerHooks& hooks);
void collect_own(Collector& out, const State& state);

}  // namespace internal
}  // namespace ckpt_torch
#endif
