// Store and Session.
#include <nanobind/stl/string.h>

#include "bind.h"

namespace ckpt_py {

static nb::list list_store(const StoreObject& self) {
  const auto store = self.get();
  const auto found = unlocked([&] { return store->list(); });
  nb::list out;
  for (const auto& info : found) out.append(record(info));
  return out;
}

static nb::list list_runs(const StoreObject& self) {
  const auto store = self.get();
  const auto found = unlocked([&] { return store->runs(); });
  nb::list out;
  for (const auto& info : found) out.append(record(info));
  return out;
}

static nb::object find_in_store(const StoreObject& self, nb::handle selector, nb::handle mapping,
                                const nb::kwargs& keywords) {
  const auto store = self.get();
  const std::string wanted = text(selector, "selector");
  const ckpt::Options chosen = options(mapping, keywords);
  return record(unlocked([&] { return store->find(wanted, chosen); }));
}

static nb::object prune_store(const StoreObject& self, nb::handle mapping, const JobObject* job,
                              const nb::kwargs& keywords) {
  const auto store = self.get();
  const JobOptions chosen(mapping, keywords, job);
  return record(unlocked([&] { return store->prune(chosen); }));
}

static nb::object repair_store(const StoreObject& self, nb::handle id, nb::handle mapping, const JobObject* job,
                               const nb::kwargs& keywords) {
  const auto store = self.get();
  const std::string directory = text(id, "id");
  const JobOptions chosen(mapping, keywords, job);
  return record(unlocked([&] { return store->repair(directory, chosen); }));
}

static nb::object import_into_store(const StoreObject& self, nb::handle file, nb::handle label, int64_t step,
                                    nb::handle mapping, const JobObject* job, const nb::kwargs& keywords) {
  const auto store = self.get();
  const std::string from = path(file), name = text(label, "label");
  const JobOptions chosen(mapping, keywords, job);
  return record(unlocked([&] { return store->import(from, name, step, chosen); }));
}

static void bind_store_class(nb::module_& m) {
  auto store = nb::class_<StoreObject>(m, "Store", "What ckpt.Store is made of.");
  store
      .def(
          "__init__",
          [](StoreObject* self, nb::handle uri, nb::handle mapping, const nb::kwargs& keywords) {
            const std::string at = path(uri);
            const ckpt::Options chosen = options(mapping, keywords);
            new (self) StoreObject(unlocked([&] { return ckpt::Store::open(at, chosen); }), "Store");
          },
          nb::arg("uri"), nb::arg("options").none() = nb::none(), nb::arg("keywords"),
          nb::sig("def __init__(self, uri: str | os.PathLike[str], " CKPT_PY_OPTIONS ") -> None"))
      .def("list", &list_store, nb::sig("def list(self) -> list[ckpt.records.CheckpointInfo]"),
           "All checkpoints and attempts at this moment, oldest first: by run, then token, then sequence.")
      .def("runs", &list_runs, nb::sig("def runs(self) -> collections.abc.Sequence[ckpt.records.RunInfo]"),
           "All runs, by name: those that a session has opened and those that have checkpoints.")
      .def("find", &find_in_store, nb::arg("selector") = "latest", nb::arg("options").none() = nb::none(),
           nb::arg("keywords"),
           nb::sig("def find(self, selector: str = 'latest', " CKPT_PY_OPTIONS ") -> ckpt.records.CheckpointInfo"),
           "What ckpt.Store.find is made of.")
      .def(
          "remove",
          [](const StoreObject& self, nb::handle id) {
            const auto kept = self.get();
            const std::string directory = text(id, "id");
            unlocked([&] { kept->remove(directory); });
          },
          nb::arg("id"), nb::sig("def remove(self, id: str) -> None"),
          "Removes one checkpoint. ConflictError while a reader has it open, or if it is kept.")
      .def(
          "keep",
          [](const StoreObject& self, nb::handle id, bool keep) {
            const auto kept = self.get();
            const std::string directory = text(id, "id");
            unlocked([&] { kept->keep(directory, keep); });
          },
          nb::arg("id"), nb::arg("keep") = true, nb::sig("def keep(self, id: str, keep: bool = True) -> None"),
          "Nothing removes that checkpoint any more, neither retention nor remove(), until keep=False takes that back.")
      .def(
          "name",
          [](const StoreObject& self, nb::handle name, nb::handle id, nb::handle run) {
            const auto kept = self.get();
            const std::string given = text(name, "name"), of_run = text(run, "run");
            const std::string directory = id.is_none() ? "" : text(id, "id");
            unlocked([&] { kept->name(of_run, given, directory); });
          },
          nb::arg("name"), nb::arg("id").none(), nb::arg("run") = "main",
          nb::sig("def name(self, name: str, id: str | None, run: str = 'main') -> None"),
          "That checkpoint of the run has the name from now on, and no other one: 'name:NAME' selects it. With id=None "
          "none has it. A name keeps no checkpoint: keep() does.")
      .def("prune", &prune_store, nb::arg("options").none() = nb::none(), nb::kw_only(),
           nb::arg("job").none() = nb::none(), nb::arg("keywords"),
           nb::sig("def prune(self, " CKPT_PY_JOB_OPTIONS ") -> ckpt.records.Report"),
           "Applies a retention policy (options keep_last, keep_every, protect, dry_run) to the numbered checkpoints "
           "of one run, whose label has their step in it (step-100); others (best) stay.")
      .def("repair", &repair_store, nb::arg("id"), nb::arg("options").none() = nb::none(), nb::kw_only(),
           nb::arg("job").none() = nb::none(), nb::arg("keywords"),
           nb::sig("def repair(self, id: str, " CKPT_PY_JOB_OPTIONS ") -> ckpt.records.Report"),
           "Rebuilds a lost or damaged manifest from the parts. Only says what it would do, unless dry_run=0.")
      .def(
          "import_file", &import_into_store, nb::arg("path"), nb::arg("label"), nb::arg("step") = -1,
          nb::arg("options").none() = nb::none(), nb::kw_only(), nb::arg("job").none() = nb::none(),
          nb::arg("keywords"),
          nb::sig("def import_file(self, path: str | os.PathLike[str], label: str, step: int = -1, " CKPT_PY_JOB_OPTIONS
                  ") -> ckpt.records.CheckpointInfo"),
          "Saves a .pt, a DCP or hfai directory, a safetensors file or a Hugging Face set as a checkpoint, by default "
          "in run \"main\", or in run \"import\" if a trainer has used \"main\" since the last import. Runs no code "
          "of the file.");
  bind_handle(store, "def __enter__(self) -> Store");
}

static void bind_session_class(nb::module_& m) {
  auto session = nb::class_<SessionObject>(m, "Session", "What ckpt.Session is made of.");
  session
      .def(
          "__init__",
          [](SessionObject* self, const StoreObject& store, uint32_t rank, uint32_t world_size, nb::handle string,
             nb::handle mapping, const JobObject* job, const nb::kwargs& keywords) {
            const auto in = store.get();
            const std::string joined = optional_text(string, "session_string").value_or("");
            const JobOptions chosen(mapping, keywords, job);
            new (self) SessionObject(
                unlocked([&] { return ckpt::Session::open(*in, rank, world_size, joined, chosen); }), world_size);
          },
          nb::arg("store"), nb::arg("rank") = 0, nb::arg("world_size") = 1, nb::arg("session_string") = nb::none(),
          nb::arg("options").none() = nb::none(), nb::kw_only(), nb::arg("job").none() = nb::none(),
          nb::arg("keywords"),
          nb::sig("def __init__(self, store: Store, rank: int = 0, world_size: int = 1, session_string: str | None = "
                  "None, " CKPT_PY_JOB_OPTIONS ") -> None"))
      .def_prop_ro(
          "string", [](const SessionObject& self) { return self.get()->string(); },
          "The session string, which rank 0 sends to the other ranks.")
      .def(
          "mirror",
          [](const SessionObject& self) {
            const auto session = self.get();
            return other_job(unlocked([&] { return session->mirror(); }), {});
          },
          nb::sig("def mirror(self) -> Job"),
          "On rank 0 of a store with option mirror: a job that is DONE once the mirror has all that was committed "
          "before this call. It fails with the first failure from now on, while copying goes on, unless that was "
          "FENCED; its report names what will not be copied. Closing the job ends the waiting, not the copying; "
          "close() of the session waits for what is still to be copied.")
      .def_ro("world_size", &SessionObject::world_size, "How many ranks the session has.");
  bind_handle(session, "def __enter__(self) -> Session");
}

void bind_store(nb::module_& m) {
  bind_store_class(m);
  bind_session_class(m);
}

}  // namespace ckpt_py
