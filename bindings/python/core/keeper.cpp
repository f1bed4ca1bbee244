// Keeper.
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bind.h"

namespace ckpt_py {

// A call that does not wait.
template <auto method, class... Arguments>
static auto at_once(KeeperObject& self, Arguments... arguments) {
  return self.with([&](ckpt::Keeper& keeper) { return (keeper.*method)(arguments...); });
}

template <auto method>
static void tell(KeeperObject& self, nb::handle name, double value) {
  at_once<method>(self, text(name, "name"), value);
}

static int32_t decide(KeeperObject& self, const std::optional<ckpt::Keeper::Votes>& votes) {
  return static_cast<int32_t>(
      self.with([&](ckpt::Keeper& keeper) { return votes ? keeper.decide(*votes) : keeper.decide(); }));
}

static std::string plan(KeeperObject& self, nb::handle label) {
  const auto own = optional_text(label, "label");
  return self.with([&](ckpt::Keeper& keeper) { return unlocked([&] { return keeper.plan(own); }); });
}

static std::optional<std::string> find(KeeperObject& self, nb::handle selector) {
  const std::string wanted = text(selector, "selector");
  return self.with([&](ckpt::Keeper& keeper) { return unlocked([&] { return keeper.find(wanted); }); });
}

static void pass_over(KeeperObject& self, int32_t status, nb::handle message) {
  const ckpt::Error failure(status, text(message, "message"));
  self.with([&](ckpt::Keeper& keeper) { keeper.pass_over(failure); });
}

static void restored(KeeperObject& self, const ReaderObject& reader) {
  const auto from = reader.get();
  self.with([&](ckpt::Keeper& keeper) { unlocked([&] { keeper.restored(*from); }); });
}

static void bind_when(nb::class_<KeeperObject>& keeper) {
  keeper
      .def("tell_counter", &tell<&ckpt::Keeper::tell_counter>, nb::arg("name"), nb::arg("value"),
           "A number of the next step: epoch, batch, sample, token and so on, for `every` and labels.")
      .def("tell_metric", &tell<&ckpt::Keeper::tell_metric>, nb::arg("name"), nb::arg("value"),
           "The same, kept with the checkpoint, and read by `keep_best`.")
      .def("step", &at_once<&ckpt::Keeper::step, int64_t, bool>, nb::arg("step"), nb::arg("due") = false,
           "Says that a step is done. Returns this rank's votes, which the ranks combine, each by its maximum.")
      .def("at_step", &at_once<&ckpt::Keeper::at_step, int64_t>, nb::arg("step"),
           "The same of a step that is saved whatever `every` says.")
      .def_prop_ro("needs_votes", &at_once<&ckpt::Keeper::needs_votes>, "Whether ranks combine votes in each step.")
      .def("decide", &decide, nb::arg("votes") = nb::none(),
           "What all ranks do now: 0 go on, 1 save, 2 save and stop. Without votes counters decide.")
      .def(
          "stop", [](const KeeperObject& self, int32_t why) { self.get()->stop(why); }, nb::arg("why"),
          "The next step saves and stops; a signal's number, or 1000 for the time limit. Any thread.")
      .def(
          "catch_signal", &at_once<&ckpt::Keeper::catch_signal, int>, nb::arg("number"),
          "Does that when the signal comes. Python's own handlers would not run: ckpt.Checkpointer has one that stops.")
      .def_prop_ro("stopping", &at_once<&ckpt::Keeper::stopping>, "Why, once that was decided.")
      .def_prop_ro("warning", &at_once<&ckpt::Keeper::warning>, "What the last call should tell people.");
}

void bind_keeper(nb::module_& m) {
  nb::class_<KeeperObject> keeper(
      m, "Keeper",
      "When a training saves, what is kept, and what it starts from: ckpt_keeper.h. ckpt.Checkpointer is made of one. "
      "Save.by_plan makes its saves. One thread at a time.");
  keeper.def(
      "__init__",
      [](KeeperObject* self, const StoreObject& store, uint32_t rank, uint32_t world_size, nb::handle mapping,
         const nb::kwargs& keywords) {
        const ckpt::Options chosen = options(mapping, keywords);
        new (self) KeeperObject(ckpt::Keeper::create(*store.get(), chosen, rank, world_size));
      },
      nb::arg("store"), nb::arg("rank") = 0, nb::arg("world_size") = 1, nb::arg("options").none() = nb::none(),
      nb::arg("keywords"),
      nb::sig("def __init__(self, store: Store, rank: int = 0, world_size: int = 1, " CKPT_PY_OPTIONS ") -> None"));
  bind_when(keeper);
  keeper
      .def("plan", &plan, nb::arg("label") = nb::none(), nb::sig("def plan(self, label: str | None = None) -> str"),
           "How all ranks save the step that was told last. A label of the caller's own stays for ever.")
      .def_prop_ro("saved", &at_once<&ckpt::Keeper::saved>, "The id of the newest that this keeper has committed.")
      .def("find", &find, nb::arg("selector") = "latest",
           nb::sig("def find(self, selector: str = 'latest') -> str | None"),
           "The id of the checkpoint to load; None if there is none for \"latest\".")
      .def("pass_over", &pass_over, nb::arg("status"), nb::arg("message"),
           nb::sig("def pass_over(self, status: int, message: str) -> None"),
           "The load of what find() gave has failed: the next find() gives the one before, or this raises the failure.")
      .def("restored", &restored, nb::arg("reader"), "The training goes on from this checkpoint.")
      .def_prop_ro("metrics", &at_once<&ckpt::Keeper::metrics>, "Those that were told with it.")
      .def_prop_ro("counters", &at_once<&ckpt::Keeper::counters>, "The same.");
  bind_handle(keeper, "def __enter__(self) -> Keeper");
}

}  // namespace ckpt_py
