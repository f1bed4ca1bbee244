// The classes that the files of the module bind, and what all handles have in common.
#pragma once

#include "arguments.h"
#include "held.h"
#include "job.h"
#include "records.h"

namespace ckpt_py {

using StoreObject = Held<ckpt::Store>;
struct SessionObject : Held<ckpt::Session> {
  SessionObject(ckpt::Session&& session, uint32_t ranks) : Held(std::move(session), "Session"), world_size(ranks) {}
  const uint32_t world_size;
};
using ReaderObject = Held<ckpt::Reader>;
struct FileObject : Held<ckpt::File> {
  explicit FileObject(ckpt::File&& file) : Held(std::move(file), "File") {}
  bool busy = false;  // one read at a time
};
using TreeObject = Held<ckpt::Tree>;
struct KeeperObject : Held<ckpt::Keeper> {
  explicit KeeperObject(ckpt::Keeper&& keeper) : Held(std::move(keeper), "Keeper") {}
  template <class Function>
  auto with(Function&& function) {
    const auto keeper = get();
    const Alone alone(&busy, "Keeper");
    return function(*keeper);
  }
  bool busy = false;
};

// The arguments that become options, in a signature.
#define CKPT_PY_OPTIONS "options: collections.abc.Mapping[str, int | str] | None = None, **keywords: int | str"

// The same for a call that works under a job.
#define CKPT_PY_JOB_OPTIONS                                                                                       \
  "options: collections.abc.Mapping[str, int | str] | None = None, *, job: Job | None = None, **keywords: int | " \
  "str"

#define CKPT_PY_EXIT                                                                   \
  "def __exit__(self, type: type[BaseException] | None, value: BaseException | None, " \
  "traceback: types.TracebackType | None) -> None"

// What the object shows of itself: ckpt/reprs.py.
template <class Class>
void bind_repr(Class& of) {
  of.def(
      "__repr__", [](nb::handle self) { return nb::module_::import_("ckpt.reprs").attr("of")(self); },
      nb::sig("def __repr__(self) -> str"));
}

// close(), closed, the context manager and what it shows.
template <class Class>
void bind_handle(Class& handle, const char* enter) {
  using Object = typename Class::Type;
  handle
      .def("close", &Object::close, "Closes it now; any later use raises InvalidError. Calling it again does nothing.")
      .def_prop_ro("closed", &Object::closed, "Whether close() was called.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig(enter))
      .def(
          "__exit__", [](Object& self, nb::handle, nb::handle, nb::handle) { self.close(); }, nb::arg("type").none(),
          nb::arg("value").none(), nb::arg("traceback").none(), nb::sig(CKPT_PY_EXIT));
  bind_repr(handle);
}

void bind_library(nb::module_& m);
void bind_store(nb::module_& m);
void bind_backend(nb::module_& m);
void bind_save(nb::module_& m);
void bind_keeper(nb::module_& m);
void bind_reader(nb::module_& m);
void bind_load(nb::module_& m);
void bind_table(nb::module_& m);
void bind_tree(nb::module_& m);
void bind_file(nb::module_& m);
void bind_view(nb::module_& m);

}  // namespace ckpt_py
