#include "own_arrays.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace ckpt_py {

OwnArrays::OwnArrays(nb::object load, bool convert, nb::dict filled, nb::set used, nb::set names)
    : load_(std::move(load)),
      convert_(convert),
      filled_(std::move(filled)),
      used_(std::move(used)),
      names_(std::move(names)),
      no_marks_(nb::make_tuple(false, false)) {}

bool OwnArrays::fill(nb::handle name, nb::handle array) {
  nb::object kept = plain_.take(array, true);
  if (!kept.is_valid()) return false;
  const Memory& memory = nb::cast<const Memory&>(kept);
  if (memory.bytes > 0) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data);
    nb::object layout =
        nb::make_tuple(address, memory.dtype, nb::tuple(nb::cast(memory.shape)), nb::tuple(nb::cast(memory.strides)));
    if (filled_.contains(layout)) return false;
    filled_[layout] = nb::make_tuple(name, no_marks_);
  }
  ckpt::Tensor tensor(memory.dtype, memory.shape);
  if (!memory.contiguous()) tensor.strides(memory.strides);
  if (convert_) tensor.convert();
  batch_.push(text(name, "name"), tensor, memory.data, memory.bytes, memory.device());
  kept_.append(kept);
  used_.add(nb::int_(reinterpret_cast<uintptr_t>(array.ptr())));
  names_.add(name);
  if (batch_.full()) add();
  return true;
}

void OwnArrays::add() { nb::cast<LoadObject&>(load_).add_tensors(batch_, std::exchange(kept_, nb::list())); }

void bind_own_arrays(nb::module_& m) {
  nb::class_<OwnArrays>(m, "OwnArrays", "Asks a load to fill the caller's arrays.")
      .def(nb::init<nb::object, bool, nb::dict, nb::set, nb::set>(), nb::arg("load"), nb::arg("convert"),
           nb::arg("filled"), nb::arg("used"), nb::arg("names"),
           nb::sig("def __init__(self, load: Load, convert: bool, filled: dict[typing.Any, typing.Any], "
                   "used: set[int], names: set[str]) -> None"))
      .def("add", &OwnArrays::add, "Adds what was asked for to the load.");
}

}  // namespace ckpt_py
