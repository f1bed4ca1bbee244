// The state behind Checkpointer.
#ifndef CKPT_TORCH_MANAGER_H
#define CKPT_TORCH_MANAGER_H

#include "session.h"

namespace ckpt_torch {

struct Checkpointer::Impl {
  Impl(const std::string& uri, CheckpointerOptions given, Ranks ranks);
  ~Impl();

  using Make = std::function<const State&()>;
  std::optional<std::string> step(const Moment& now, const Make& make);
  // Of a step that is saved whatever `every` says.
  std::string save(const Moment& now, const State& state, const std::string& label);
  void settle(bool wait);
  void close();
  std::optional<Restored> restore(State& state, const std::string& select, const RestoreOptions& options);
  // COLLECTIVE. The same, where `load` loads the checkpoint of an id, or throws the same on all ranks.
  using LoadById = std::function<Loaded(const std::string& id)>;
  std::optional<Restored> restore_with(const LoadById& load, const std::string& select);
  Check check(const State& state);

  CheckpointerOptions options;
  std::string store, run;
  Session::Impl session;
  ckpt::Keeper keeper;
  std::optional<std::string> stopping;
  bool closed = false;

 private:
  // A save that has begun and is not settled.
  struct Flight {
    SaveHandle handle;
    std::string id;
    bool told = false;  // it has ended, and this rank has noted it
  };
  void check_open() const {
    if (closed) internal::fail(CKPT_INVALID, "the Checkpointer is closed; make a new one");
  }
  bool ranks_agree() const { return session.ranks.world_size == 1 || session.group() != nullptr; }
  ckpt::Options policy() const;
  void tell(const Moment& now);
  void warn() const;  // what the keeper says, on the rank that it says it to
  ckpt::Keeper::Todo decide(const Moment& now);
  std::string save_now(const Moment& now, const State& state, const std::optional<std::string>& label);
  std::string save_for_the_last_time(const Moment& now, const State& state);
  // COLLECTIVE. What rank 0 makes, or throws, on all ranks.
  std::string first(const std::function<std::string()>& make);
  void committed(const std::string& id);

  std::optional<Flight> flight;
};

}  // namespace ckpt_torch
#endif
