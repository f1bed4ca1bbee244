// The state behind Checkpointer and SaveHandle.
#ifndef CKPT_TORCH_CHECKPOINTER_H
#define CKPT_TORCH_CHECKPOINTER_H

#include "group.h"

namespace ckpt_torch {

// The version of what the adapter writes beside the tree: attribute "torch.adapter".
constexpr int64_t kAdapterVersion = 1;

struct SaveHandle::Impl {
  std::string id;
  std::shared_ptr<Group> group;
  ckpt::Save save{nullptr};
  std::vector<at::Tensor> memory;  // what the engine reads until the save is staged
  ckpt::Job job{nullptr};          // destroyed first: after that the engine reads nothing
  bool waited = false;
  std::optional<Error> outcome;  // what wait() throws

  std::optional<Error> wait_local() const;  // waits for this rank's job only
  void wait();
};

struct Checkpointer::Impl {
  Impl(const std::string& uri, Ranks who, Settings given);
  ~Impl();

  void open_session();
  std::string save(const State& state, const SaveOptions& options);
  SaveHandle save_async(const State& state, const SaveOptions& options);
  Loaded load(const Models& models, const Optimizers& optimizers, const LoadOptions& options);
  std::optional<Loaded> load_if_any(const Models& models, const Optimizers& optimizers, const LoadOptions& options);

  // COLLECTIVE. This rank's save, with all that it saves added.
  std::shared_ptr<SaveHandle::Impl> prepare(const State& state, const SaveOptions& options);
  void wait_pending();
  // COLLECTIVE. The id of the selected checkpoint.
  std::string resolve(const LoadOptions& options);
  Loaded load_from(const std::string& id, const Models& models, const Optimizers& optimizers,
                   const LoadOptions& options);
  Group* group() const { return ranks.group.get(); }

  Ranks ranks;
  Settings settings;
  ckpt::Store store{nullptr};
  ckpt::Session session{nullptr};
  std::shared_ptr<SaveHandle::Impl> pending;  // the last save in the background
  const ckpt::detail::Unwinding unwinding;
};

}  // namespace ckpt_torch
#endif
