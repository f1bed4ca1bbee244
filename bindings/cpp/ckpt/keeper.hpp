// ckpt/keeper.hpp - when a training saves, what is kept, and what it starts from. Include <ckpt.hpp>.
#ifndef CKPT_KEEPER_HPP
#define CKPT_KEEPER_HPP

#include <ckpt_keeper.h>

#include <array>
#include <map>

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

//   auto keeper = ckpt::Keeper::create(store, {{"every", "500 steps"}, {"keep_last", 3}});
//   int64_t start = 0;
//   if (const auto id = keeper.find("latest")) {
//     const auto reader = ckpt::Reader::open(store, *id);
//     …  ckpt::Load::create(reader) …
//     keeper.restored(reader);
//     start = reader.info().step;
//   }
//   for (int64_t n = start + 1; n <= steps && !keeper.stopping(); n++) {
//     …
//     keeper.tell_metric("val_loss", loss);
//     if (keeper.decide(keeper.step(n)) != ckpt::Keeper::Todo::go_on)
//       if (auto save = keeper.save(session, keeper.plan())) …  save->add_tensor, save->run()
//   }
//
// Several ranks combine the votes of step(), each by its maximum, and rank 0 sends its plan() and find() to the others.
class Keeper : public detail::Handle<ckpt_keeper, ckpt_keeper_free> {
 public:
  using Handle::Handle;
  using Votes = std::array<int64_t, CKPT_KEEPER_VOTES>;
  enum class Todo : int32_t {
    go_on = CKPT_KEEPER_GO_ON,
    save = CKPT_KEEPER_SAVE,
    save_and_stop = CKPT_KEEPER_SAVE_AND_STOP,
  };
  using Numbers = std::map<std::string, double>;

  static Result<Keeper> create(const Store& store, const Options& options = {}, uint32_t rank = 0,
                               uint32_t world_size = 1) {
    return detail::make_first<Keeper>(ckpt_keeper_new, store.get(), rank, world_size, options);
  }
  // What the last call should tell people; nothing mostly.
  std::optional<std::string> warning() const { return text_of(ckpt_keeper_warning(get())); }

  // ---- when to save ----
  Result<void> tell_counter(const std::string& name, double value) { return tell(CKPT_KEEPER_COUNTER, name, value); }
  Result<void> tell_metric(const std::string& name, double value) { return tell(CKPT_KEEPER_METRIC, name, value); }
  // `due`: a rule of the caller's own asks for a save.
  Result<Votes> step(int64_t number, bool due = false) {
    Votes votes{};
    detail::Call call;
    call(ckpt_keeper_step, get(), number, int32_t{due}, votes.data());
    return call.result(std::move(votes));
  }
  // Of a save that is made whatever `every` says.
  Result<void> at_step(int64_t number) {
    return detail::call(ckpt_keeper_step, get(), number, int32_t{0}, static_cast<int64_t*>(nullptr));
  }
  bool needs_votes() const { return ckpt_keeper_needs_votes(get()) != 0; }
  Result<Todo> decide(const Votes& votes) { return decide_by(votes.data()); }
  Result<Todo> decide() { return decide_by(nullptr); }      // by the step alone, which is the same on all ranks
  void stop(int32_t why) { ckpt_keeper_stop(get(), why); }  // any thread; a signal handler may call it
  Result<void> catch_signal(int32_t number) { return detail::call(ckpt_keeper_catch, get(), number); }
  std::optional<std::string> stopping() const { return text_of(ckpt_keeper_stopping(get())); }

  // ---- saving ----
  // `label`: of the caller's own, which stays for ever; without one by option label.
  Result<std::string> plan(const std::optional<std::string>& label = {}) {
    const char* made = "";
    detail::Call call;
    if (label)
      call(ckpt_keeper_plan, get(), detail::Text{"label", *label}, &made);
    else
      call(ckpt_keeper_plan, get(), nullptr, &made);
    return call.result(std::string(made));
  }
  // Nothing if that is the newest checkpoint that this keeper has committed already.
  Result<std::optional<Save>> save(const Session& session, const std::string& plan, const Options& options = {}) {
    detail::Call call;
    Save save = Save::made_by(call, session, [&](ckpt_save** made) {
      call(ckpt_keeper_begin, made, get(), session.get(), detail::Text{"plan", plan}, options);
    });
    return call.result(save ? std::optional<Save>(std::move(save)) : std::nullopt);
  }
  std::optional<std::string> saved() { return text_of(ckpt_keeper_saved(get())); }

  // ---- restoring ----
  // The id of the checkpoint to load; nothing if there is none for "latest".
  Result<std::optional<std::string>> find(const std::string& selector = "latest") {
    const char* id = nullptr;
    detail::Call call;
    call(ckpt_keeper_find, get(), detail::Text{"selector", selector}, &id);
    return call.result(text_of(id));
  }
  // The load of what find() gave has failed. Fails the same way unless the one before may do.
  Result<void> pass_over(const Error& failure) {
    return detail::call(ckpt_keeper_pass_over, get(), failure.status(), failure.what());
  }
  Result<void> restored(const Reader& reader) { return detail::call(ckpt_keeper_restored, get(), reader.get()); }
  Numbers metrics() const { return numbers(CKPT_KEEPER_METRIC); }  // that were told with what was restored
  Numbers counters() const { return numbers(CKPT_KEEPER_COUNTER); }

 private:
  static std::optional<std::string> text_of(const char* text) {
    return text ? std::optional<std::string>(text) : std::nullopt;
  }
  Result<void> tell(int32_t kind, const std::string& name, double value) {
    return detail::call(ckpt_keeper_tell, get(), kind, detail::Text{"name", name}, value);
  }
  Result<Todo> decide_by(const int64_t* votes) {
    int32_t what = 0;
    detail::Call call;
    call(ckpt_keeper_decide, get(), votes, &what);
    return call.result(static_cast<Todo>(what));
  }
  Numbers numbers(int32_t kind) const {
    Numbers out;
    double value = 0;
    for (size_t i = 0; const char* const name = ckpt_keeper_number_at(get(), kind, i, &value); i++) out[name] = value;
    return out;
  }
};

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_KEEPER_HPP
