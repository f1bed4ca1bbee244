// The state behind Session and SaveHandle.
#ifndef CKPT_TORCH_SESSION_H
#define CKPT_TORCH_SESSION_H

#include "group.h"
#include "selection.h"

namespace ckpt_torch {

namespace internal {
class Loading;
}

// The version of what the adapter writes beside the tree: attribute "torch.adapter".
constexpr int64_t kAdapterVersion = 1;

// What the error of a load says at the end, before their names.
inline const std::string kUndefinedNow = "; these tensors of the module are undefined now: ";

struct SaveHandle::Impl {
  std::string id;
  std::shared_ptr<Group> group;
  ckpt::Save save{nullptr};
  std::vector<at::Tensor> memory;  // what the engine reads until the save is staged
  ckpt::Job job{nullptr};          // destroyed first: after that the engine reads nothing
  bool waited = false;
  std::optional<Error> outcome;  // what wait() throws
  bool told = false;             // what its report warns of

  std::optional<Error> wait_local();  // waits for this rank's job only
  void tell_anew();                   // of a save that is committed
  void wait();
};

struct Session::Impl {
  Impl(const std::string& uri, Ranks who, Settings given);
  Impl(Ranks who, Settings given);  // without a store: for files of other programs
  ~Impl();

  // How long this rank waits from now on for ranks that do not come: `over` or the settings tell, or half an hour.
  void wait_at_most(const Settings& over = {}, std::chrono::milliseconds least = {}) const;
  void open_session();
  std::string save(const State& state, const SaveOptions& options);
  // Begins the save of the open session in another way than Save::create.
  using Begin = std::function<ckpt::Save(const ckpt::Options& options)>;
  SaveHandle save_async(const State& state, const SaveOptions& options, const Begin& begin = nullptr);
  // COLLECTIVE. The id, or without a store the path of files, must be the same on all ranks.
  Loaded load(const std::string& id, const Models& models, const Optimizers& optimizers, const LoadOptions& options);
  // COLLECTIVE. The parts that the state has, and of these what `choice` lets through.
  Loaded load_state(const std::string& id, State& state, const LoadOptions& options, const internal::Choice& choice);
  std::optional<Loaded> load_if_any(const Models& models, const Optimizers& optimizers, const LoadOptions& options);

  // COLLECTIVE. This rank's save, with all that it saves added.
  std::shared_ptr<SaveHandle::Impl> prepare(const State& state, const SaveOptions& options,
                                            const Begin& begin = nullptr);
  // COLLECTIVE. Throws the failure of the save in the background, unless its handle's wait() did.
  void wait_pending();
  void wait_staged();  // for the save in the background; its failure is left for later
  // The id of the selected checkpoint. Warns of newer ones that were passed over.
  std::string find(const std::string& selector, const Settings& over) const;
  // COLLECTIVE. The same on all ranks.
  std::string resolve(const LoadOptions& options);
  using Planning = std::function<void(internal::Loading&)>;
  static Planning planning(State& state, const internal::Choice& choice);
  // What is loaded from: a checkpoint, or without a store the files of another program at the path `id`.
  struct From {
    const ckpt::Store* store;
    std::string id;
    LoadOptions options;
    Planning plan;
    std::string told = {};  // what errors begin with
  };
  // COLLECTIVE. Loads from all of them as one: nothing changes before all are planned.
  std::vector<Loaded> load_from(const std::vector<From>& all);
  Group* group() const { return ranks.group.get(); }

  Ranks ranks;
  Settings settings;
  std::string uri;  // of the store
  ckpt::Store store{nullptr};
  ckpt::Session session{nullptr};
  std::shared_ptr<SaveHandle::Impl> pending;  // the last save in the background
  const ckpt::detail::Unwinding unwinding;
};

}  // namespace ckpt_torch
#endif
