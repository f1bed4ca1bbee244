// What a load consists of: tensors that are read into fresh memory, and what is made of them; then tensors that are
// read into modules in place, and what else changes. So that whatever can be found wrong is found before anything
// changes. One thread.
#ifndef CKPT_TORCH_LOAD_PLAN_H
#define CKPT_TORCH_LOAD_PLAN_H

#include <functional>

#include "tensors.h"

namespace ckpt_torch {
namespace internal {

// The tree of a checkpoint, for reading.
class TreeView {
 public:
  explicit TreeView(const ckpt_tree* tree) : tree_(tree) {}
  ckpt_node operator[](uint64_t node) const;
  bool has_entries(uint64_t node) const { return is_dict((*this)[dict_at(node)]); }
  static bool is_dict(const ckpt_node& node) { return node.kind == CKPT_NODE_DICT || node.kind == CKPT_NODE_RECORD; }
  static bool is_list(const ckpt_node& node) { return node.kind == CKPT_NODE_LIST || node.kind == CKPT_NODE_TUPLE; }
  // The TENSOR, or the record of a tensor that is not dense, that this node is, a Parameter's inside of it;
  // CKPT_NODE_END where it is none.
  uint64_t tensor_at(uint64_t node) const;
  bool is_tensor(uint64_t node) const { return tensor_at(node) != CKPT_NODE_END; }
  // The dict itself of what may be an OrderedDict, whose entries are inside of it.
  uint64_t dict_at(uint64_t node) const;
  // By key; CKPT_NODE_END where there is none. `field`: of a record itself; `find`: of dict_at(parent).
  uint64_t field(uint64_t parent, const std::string& key) const;
  uint64_t find(uint64_t parent, const std::string& key) const { return field(dict_at(parent), key); }
  uint64_t find(uint64_t parent, int64_t key) const;
  std::vector<uint64_t> children(uint64_t node) const;
  std::vector<uint64_t> entries(uint64_t node) const { return children(dict_at(node)); }
  std::string key(uint64_t node) const;   // "0" for an integer key
  std::string path(uint64_t node) const;  // "optimizer/state/0", for messages
  std::string text(uint64_t node) const;
  std::string kind_name(uint64_t node) const;  // for messages

 private:
  const ckpt_tree* tree_;
};

class LoadPlan {
 public:
  // All outlive the plan.
  LoadPlan(const ckpt_reader* reader, const ckpt_tree* tree, const LoadOptions& options, const ckpt_options* settings);

  const TreeView& tree() const { return tree_; }
  const LoadOptions& options() const { return options_; }
  std::vector<std::string>& ignored() { return ignored_; }

  // The shape of a tensor node (of tensor_at), FORMAT where its record has none; its dtype where it is not quantized.
  std::vector<int64_t> shape_of(uint64_t node) const;
  std::optional<at::ScalarType> type_of(uint64_t node) const;

  // Asks for the tensor of a node in fresh CPU memory, with the strides of `like` where their shapes are the same.
  // The result gives it once read_beside() has returned; sparse and quantized ones too.
  std::function<at::Tensor()> fresh(uint64_t node, const at::Tensor& like = {});

  // Asks for the tensor of a node in `target`: in place where that can be read into, else through fresh memory and a
  // copy at the end. `key`: its name in the module.
  void into(const at::Tensor& target, uint64_t node, const std::string& key);

  // The values of a subtree, once read_beside() has returned: what IValue lacks has another form, and is noted in
  // ignored(). Nodes in `without` are left out.
  std::function<c10::IValue()> value(uint64_t node, const std::vector<uint64_t>& without = {});

  // The bytes of this rank's object `name` into `target`.
  void object(const char* name, uint32_t rank, const at::Tensor& target);

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
    uint64_t node;
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
  using Fresh = std::map<uint64_t, std::function<at::Tensor()>>;  // by node
  bool is_stored_dense(uint64_t node) const;
  void ask_values(uint64_t node, const std::vector<uint64_t>& without, Fresh& tensors);
  c10::IValue build(uint64_t node, const std::vector<uint64_t>& without, const Fresh& tensors);
  c10::IValue build_list(std::vector<c10::IValue> values);
  c10::IValue build_dict(uint64_t node, const std::vector<uint64_t>& without, const Fresh& tensors);
  std::vector<int64_t> size_of(uint64_t node) const;
  c10::IValue build_record(uint64_t node, const std::vector<uint64_t>& without, const Fresh& tensors);
  void note(uint64_t node, const std::string& what) { ignored_.push_back(tree_.path(node) + ": " + what); }

  const ckpt_reader* reader_;
  TreeView tree_;
  const LoadOptions& options_;
  LoadOp beside_, in_place_;
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
