// What a load consists of: tensors that are read into fresh memory, and what is made of them; then tensors that are
// read into modules in place, and what else changes. So that whatever can be found wrong is found before anything
// changes. One thread.
#ifndef CKPT_TORCH_LOAD_PLAN_H
#define CKPT_TORCH_LOAD_PLAN_H

#include <functional>

#include "nodes.h"

namespace ckpt_torch {
namespace internal {

class LoadPlan {
 public:
  // All outlive the plan.
  LoadPlan(const ckpt::Reader& reader, const LoadOptions& options, const ckpt::Options& settings);

  const LoadOptions& options() const { return options_; }
  std::vector<std::string>& ignored() { return ignored_; }

  // The shape of a tensor node (of tensor_at), FORMAT where its record has none; its dtype where it is not quantized.
  std::vector<int64_t> shape_of(const Node& node) const;
  std::optional<at::ScalarType> type_of(const Node& node) const;

  // Asks for the tensor of a node in fresh CPU memory, with the strides of `like` where their shapes are the same.
  // The result gives it once read_beside() has returned; sparse and quantized ones too.
  std::function<at::Tensor()> fresh(const Node& node, const at::Tensor& like = {});

  // Asks for the tensor of a node in `target`: in place where that can be read into, else through fresh memory and a
  // copy at the end. `key`: its name in the module.
  void into(const at::Tensor& target, const Node& node, const std::string& key);

  // The values of a subtree, once read_beside() has returned: what IValue lacks has another form, and is noted in
  // ignored(). Nodes in `without` are left out.
  std::function<c10::IValue()> value(const Node& node, const std::vector<Node>& without = {});

  // The bytes of this rank's object `name` into `target`.
  void object(const std::string& name, uint32_t rank, const at::Tensor& target);

  // What is made of values that have been read: it may fail, and changes nothing outside of the plan.
  void make(std::function<void()> action) { makes_.push_back(std::move(action)); }
  // What changes something, once all of it was made; after the modules, in the order given.
  void apply(std::function<void()> action) { applies_.push_back(std::move(action)); }

  // In this order, after the last request.
  void prepare();
  void read_beside();    // all but what is read in place, and make()
  void read_in_place();  // the rest, into the modules
  void finish();         // apply()

  // Names of the module's tensors that reading in place has changed, or has left undefined where it failed.
  std::vector<std::string> touched() const { return touched_ ? in_place_names_ : std::vector<std::string>(); }

 private:
  struct Target {
    at::Tensor tensor;
    Node node;
    std::string key;
    size_t winner;          // itself, or the last target that is the same memory
    bool overlaps = false;  // another target shares some of its memory
  };
  at::Tensor ask(const std::string& name, const at::Tensor& like);
  void check_fits(const Target& target) const;
  bool readable_in_place(const Target& target) const;
  void find_overlaps();
  void place(const Target& target);
  void replace(const Target& target);
  using Fresh = std::map<uint64_t, std::function<at::Tensor()>>;  // by the number of the node
  void ask_values(const Node& node, const std::vector<Node>& without, Fresh& tensors);
  c10::IValue build(const Node& node, const std::vector<Node>& without, const Fresh& tensors);
  c10::IValue build_list(std::vector<c10::IValue> values);
  c10::IValue build_dict(const Node& node, const std::vector<Node>& without, const Fresh& tensors);
  c10::IValue build_record(const Node& node, const std::vector<Node>& without, const Fresh& tensors);
  void note(const Node& node, const std::string& what) { ignored_.push_back(path_of(node) + ": " + what); }

  const ckpt::Reader& reader_;
  const LoadOptions& options_;
  ckpt::Load beside_, in_place_;
  bool any_beside_ = false;  // whether anything was asked of it
  std::vector<Target> targets_;
  std::vector<at::Tensor> in_place_tensors_;
  std::vector<std::string> in_place_names_;  // with all names of tied ones
  bool touched_ = false;
  std::vector<std::function<void()>> makes_, applies_;
  std::vector<std::string> ignored_;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif
