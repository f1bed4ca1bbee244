// ckpt._core: the classes of the C headers as Python sees them. The package re-exports them.
#include <nanobind/stl/string.h>

#include <string>

#include "arrays.h"
#include "bind.h"
#include "own_arrays.h"
#include "sharing.h"
#include "tree.h"

namespace ckpt_py {

// A library older than the header may lack functions, or fill only a part of a struct.
static void check_library() {
  const int32_t header = CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
  if (ckpt_version_number() >= header && ckpt_version_number() / 1000000 == CKPT_VERSION_MAJOR) return;
  PyErr_Format(PyExc_ImportError, "libckpt %s was loaded, but this module was built for %d.%d.%d",
               ckpt_version_string(), CKPT_VERSION_MAJOR, CKPT_VERSION_MINOR, CKPT_VERSION_PATCH);
  throw nb::python_error();
}

void bind_library(nb::module_& m) {
  m.def("version", [] { return ckpt::version(); }, "The version of the loaded library, \"0.1.0\".");
  m.def("version_number", &ckpt_version_number, "The version as major * 1000000 + minor * 1000 + patch.");
  m.attr("HEADER_VERSION_NUMBER") = CKPT_VERSION_MAJOR * 1000000 + CKPT_VERSION_MINOR * 1000 + CKPT_VERSION_PATCH;
  m.attr("HEADER_VERSION") = std::to_string(CKPT_VERSION_MAJOR) + "." + std::to_string(CKPT_VERSION_MINOR) + "." +
                             std::to_string(CKPT_VERSION_PATCH);
  m.attr("FORMAT_REVISION") = CKPT_FORMAT_REVISION;
  m.attr("TABLE_BUCKETS") = CKPT_TABLE_BUCKETS;
  m.def(
      "status_name", [](int32_t status) { return ckpt_status_name(status); }, nb::arg("status"),
      "\"CORRUPT\" for 30; \"UNKNOWN\" for a number that the library does not know.");
  m.def(
      "dtype_name", [](int32_t dtype) { return ckpt_dtype_name(dtype); }, nb::arg("dtype"),
      "\"bf16\" for 0x410; \"dtype\" for an unknown one.");
  m.def(
      "dtype_bits", [](int32_t dtype) { return ckpt_dtype_bits(dtype); }, nb::arg("dtype"),
      "Bits of one element; 0 if the number cannot be a dtype.");
  m.def(
      "dtype_find", [](nb::handle name) { return ckpt_dtype_find(text(name, "name").c_str()); },
      nb::sig("def dtype_find(name: str) -> int"), "The number of a dtype by its name; -1 if unknown.");
  m.def(
      "options",
      [] {
        nb::list all;
        for (const ckpt::OptionInfo& info : ckpt::option_list()) all.append(record(info));
        return all;
      },
      nb::sig("def options() -> list[ckpt.records.OptionInfo]"), "All options, with their bounds.");
}

}  // namespace ckpt_py

NB_MODULE(_core, m) {
  using namespace ckpt_py;
  m.doc() = "The classes of the C API. Use them from ckpt, not from here.";
  check_library();
  translate_errors();
  bind_library(m);
  bind_memory(m);
  bind_view(m);
  bind_job(m);
  bind_sharing(m);
  bind_tree(m);
  bind_write(m);
  bind_read(m);
  bind_store(m);
  bind_backend(m);
  bind_keeper(m);
  bind_save(m);
  bind_reader(m);
  bind_table(m);
  bind_load(m);
  bind_arrays(m);
  bind_own_arrays(m);
  bind_file(m);
}
