// A load in two steps: first it reads tensors into fresh memory and makes values of them; then it reads tensors into
// modules in place and changes the rest. So errors are found before anything changes. One thread.
#ifndef CKPT_TORCH_LOAD_PLAN_H
#define CKPT_TORCH_LOAD_PLAN_H

#include <functional>

#include "content.h"

namespace ckpt_torch {
namespace internal {

class LoadPlan {
 public:
  // All arguments must outlive the plan.
  LoadPlan(const Content& content, const LoadOptions& options, const ckpt::Options& settings, uint32_t world_size);

  const LoadOptions& options() const { return options_; }
  std::vector<std::string>& ignored() { return ignored_; }

  // The shape of a tensor node (from tensor_at); FORMAT if its record has none. Its dtype, unless it is quantized.
  std::vector<int64_t> shape_of(const Node& node) const;
  std::optional<at::ScalarType> type_of(const Node& node) const;

  // Asks for the tensor of a node, also a sparse or quantized one, in fresh CPU memory, with the strides of `like` if
  // the shapes are equal. Call the result after read_beside().
  std::function<at::Tensor()> fresh(const Node& node, const at::Tensor& like = {});

  // Asks for the tensor of a node in `target`: read in place if possible, else into fresh memory and copied at the end.
  // `key`: its name in the module.
  void into(const at::Tensor& target, const Node& node, const std::string& key);
  // The node that the memory of a tensor is loaded from under another name (tied weights), if it is.
  std::optional<Node> tied(const at::Tensor& tensor) const;

  // The values of a subtree; call the result after read_beside(). What IValue lacks gets another form and is noted in
  // ignored(). Nodes in `without` are left out.
  std::function<c10::IValue()> value(const Node& node, const std::vector<Node>& without = {});

  // Asks for the bytes of `rank`'s object `name` in `target`.
  void object(const std::string& name, uint32_t rank, const at::Tensor& target);

  // `action` makes something of values that were read. It may fail, and changes nothing outside of the plan.
  void make(std::function<void()> action) { makes_.push_back(std::move(action)); }
  // `action` changes something, after all was made and the modules are read; in the order given.
  void apply(std::function<void()> action) { applies_.push_back(std::move(action)); }

  // To be called in this order, after the last request.
  void prepare();
  void read_beside();    // reads all but what is read in place; runs the make() actions
  void read_in_place();  // reads the rest into the modules
  void finish();         // runs the apply() actions

  // Names of the module's tensors that read_in_place() has changed or, if it failed, left undefined.
  std::vector<std::string> touched() const { return touched_ ? in_place_names_ : std::vector<std::string>(); }

 private:
  struct Target {
    at::Tensor tensor;
    Node node;
    std::string key;
    size_t winner;          // the last target with the same memory; itself if there is no other
    bool overlaps = false;  // another target shares some of its memory
  };
  at::Tensor ask(const std::string& name, const at::Tensor& like);
  void check_own(const Node& record) const;       // MISMATCH for values of another number of ranks
  std::string type_text(const Node& node) const;  // of a tensor, as the checkpoint has it
  void check_fits(const Target& target) const;
  bool readable_in_place(const Target& target) const;
  void find_overlaps();
  void check_tied(const Target& target, const Target& winner);  // MISMATCH later, if the checkpoint's values differ
  void place(const Target& target);
  void replace(const Target& target);
  using Fresh = std::map<uint64_t, std::function<at::Tensor()>>;  // by the number of the node
  void ask_values(const Node& node, const std::vector<Node>& without, Fresh& tensors);
  c10::IValue build(const Node& node, const std::vector<Node>& without, const Fresh& tensors);
  c10::IValue build_list(std::vector<c10::IValue> values);
  c10::IValue build_dict(const Node& node, const std::vector<Node>& without, const Fresh& tensors);
  c10::IValue build_record(const Node& node, const std::vector<Node>& without, const Fresh& tensors);
  void note(const Node& node, const std::string& what) { ignored_.push_back(path_of(node) + ": " + what); }

  const Content& content_;
  const LoadOptions& options_;
  const uint32_t world_size_;
  ContentLoad beside_, in_place_;
  bool any_beside_ = false;  // whether beside_ has requests
  std::vector<Target> targets_;
  std::vector<at::Tensor> in_place_tensors_;
  std::vector<std::string> in_place_names_;  // tied tensors under all their names
  bool touched_ = false;
  std::vector<std::function<void()>> makes_, applies_;
  std::vector<std::string> ignored_;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif
