// Trees and Python values.
#pragma once

#include <string_view>

#include "bind.h"

namespace ckpt_py {

// Text in a tree has a length, so it may hold NULs. A lone surrogate is refused.
std::string_view tree_text(nb::handle object);
// An integer of any size.
void add_int(ckpt::Tree& tree, nb::handle value);
// A key of a dict or record: str or int.
void add_key(ckpt::Tree& tree, nb::handle key);
nb::object key_of(const ckpt::Node& node);
// The Python value of a leaf, the name of a tensor or the class of a record; None for other containers.
nb::object value_of(const ckpt::Node& node);

void bind_write(nb::module_& m);
void bind_read(nb::module_& m);

}  // namespace ckpt_py
