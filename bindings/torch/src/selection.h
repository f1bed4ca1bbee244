// What of a checkpoint is restored into the caller's state: all of it, or what is chosen, under other names, past other
// shapes. No state; any thread.
#ifndef CKPT_TORCH_SELECTION_H
#define CKPT_TORCH_SELECTION_H

#include <set>

#include "nodes.h"

namespace ckpt_torch {
namespace internal {

// These values of a state and no others, wherever the checkpoint has them.
struct Exactly {
  std::set<std::string> paths;                // in the state: "model/0.weight", "epoch"
  std::map<std::string, std::string> places;  // of its parts in the checkpoint: {"model", ""}, {"epoch", "extra/epoch"}
  std::map<std::string, std::string> names;   // of tensors, by their paths in the checkpoint: {"net/a.w", "0.weight"}
  std::map<std::string, std::string> called;  // by optimizers in the checkpoint: {"model/0.weight", "a.w"}
};

class Choice {
 public:
  Choice() = default;  // everything, as it was saved
  explicit Choice(const RestoreOptions& options)
      : only_(options.only),
        without_(options.without),
        rename_(options.rename),
        skip_shapes_(options.on_shape_mismatch == ShapeMismatch::skip) {}

  explicit Choice(Exactly exactly) : exactly_(std::move(exactly)) {}

  bool skip_shapes() const { return skip_shapes_; }
  // Whether a value of the state is wanted. A pattern names a value, or all below it.
  bool wants(const std::string& path) const;
  // Whether anything of a module may be wanted.
  bool wants_below(const std::string& path) const;
  // What the state calls the entry at `path` of the checkpoint's dict at `parent`: the last name. INVALID if the new
  // name is in another dict.
  std::string name(const std::string& parent, const std::string& key) const;
  // Where a part of the state is, if it is not the entry of this name.
  std::optional<std::string> place(const std::string& part) const;
  // What optimizers in the checkpoint call a tensor of the state, where that is told apart from where it is.
  std::optional<std::string> called(const std::string& path) const;
  // INVALID for a pattern of something inside of `part`, which is restored whole.
  void check_whole(const std::string& part) const;

 private:
  std::vector<std::string> only_, without_;
  Rename rename_;
  std::optional<Exactly> exactly_;
  bool skip_shapes_ = false;
};

}  // namespace internal
}  // namespace ckpt_torch
#endif
