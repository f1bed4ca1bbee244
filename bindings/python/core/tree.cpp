// Tree: built and read node by node. ckpt/trees.py turns it into Python values.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "tree.h"

namespace ckpt_py {

std::string_view tree_text(nb::handle object) {
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (!utf8 && !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) throw nb::python_error();
  if (!utf8) raise(CKPT_INVALID, "text cannot be UTF-8: it has a lone surrogate");
  return {utf8, static_cast<size_t>(size)};
}

static TreeObject parse(nb::handle json) {
  std::string_view given;
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (!PyBytes_Check(json.ptr()))
    given = tree_text(json);
  else if (PyBytes_AsStringAndSize(json.ptr(), &data, &size) == 0)
    given = {data, static_cast<size_t>(size)};
  return TreeObject(unlocked([&] { return ckpt::Tree::parse(given); }), "Tree");
}

void add_key(ckpt::Tree& tree, nb::handle key) {
  PyLong_Check(key.ptr()) ? tree.key(nb::cast<int64_t>(key)) : tree.key(tree_text(key));
}

void add_int(ckpt::Tree& tree, nb::handle value) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (!overflow) return tree.add_int(small);
  // Not str(): by default Python refuses to print more than 4300 digits.
  tree.add_bigint(nb::cast<std::string>(nb::module_::import_("ckpt.records").attr("digits_of_int")(value)));
}

static std::string add_tensor(const TreeObject& self, nb::handle name) {
  const auto tree = self.get();
  const auto called = optional_text(name, "name");
  return called ? tree->add_tensor(*called) : tree->add_tensor();
}

static void begin(const TreeObject& self, int32_t kind, nb::handle class_name) {
  const auto tree = self.get();
  const auto called = optional_text(class_name, "class_name");
  called ? tree->begin(kind, *called) : tree->begin(kind);
}

static nb::object find(const TreeObject& self, uint64_t parent, nb::handle key) {
  const auto tree = self.get();
  return nb::int_(PyLong_Check(key.ptr()) ? tree->find(parent, nb::cast<int64_t>(key))
                                          : tree->find(parent, text(key, "key")));
}

static void bind_tree_build(nb::class_<TreeObject>& tree) {
  tree.def(
          "key", [](const TreeObject& self, nb::handle key) { add_key(*self.get(), key); }, nb::arg("key"),
          nb::sig("def key(self, key: str | int) -> None"),
          "Sets the key of the next value in a dict or record. 0 and \"0\" are two keys.")
      .def(
          "add_null", [](const TreeObject& self) { self.get()->add_null(); }, "Adds None.")
      .def(
          "add_bool", [](const TreeObject& self, bool value) { self.get()->add_bool(value); }, nb::arg("value"),
          "Adds a bool.")
      .def(
          "add_int", [](const TreeObject& self, nb::int_ value) { add_int(*self.get(), value); }, nb::arg("value"),
          nb::sig("def add_int(self, value: int) -> None"), "Adds an integer of any size.")
      .def(
          "add_bigint",
          [](const TreeObject& self, nb::handle digits) { self.get()->add_bigint(text(digits, "digits")); },
          nb::arg("digits"), nb::sig("def add_bigint(self, digits: str) -> None"),
          "Adds an integer of decimal digits with an optional '-'.")
      .def(
          "add_float", [](const TreeObject& self, double value) { self.get()->add_float(value); }, nb::arg("value"),
          "Adds a float. NaN and infinities are kept, the bits of a NaN are not.")
      .def(
          "add_text", [](const TreeObject& self, nb::str value) { self.get()->add_text(tree_text(value)); },
          nb::arg("value"), "Adds text, which may hold NULs.")
      .def(
          "add_bytes",
          [](const TreeObject& self, nb::bytes value) {
            self.get()->add_bytes(ckpt::Memory(value.c_str(), value.size()));
          },
          nb::arg("value"), "Adds bytes, which are copied.")
      .def("add_tensor", &add_tensor, nb::arg("name") = nb::none(),
           nb::sig("def add_tensor(self, name: str | None = None) -> str"),
           "Adds a tensor as a leaf. Returns the name to save it under: `name`, or its path in the tree.")
      .def("begin", &begin, nb::arg("kind"), nb::arg("class_name") = nb::none(),
           nb::sig("def begin(self, kind: int, class_name: str | None = None) -> None"),
           "Opens a container. `kind`: ckpt.NodeKind.LIST, TUPLE, SET, DICT, or RECORD with class_name.")
      .def("end", [](const TreeObject& self) { self.get()->end(); }, "Closes the innermost open container.");
}

void bind_tree(nb::module_& m) {
  nb::class_<TreeObject> tree(m, "Tree",
                              "Nested state with tensors as leaves (schemas/STATE_TREE.md): built in document order, "
                              "or read by node number (the root is 0). ckpt.to_native and ckpt.from_native turn whole "
                              "trees into Python values and back. One thread at a time while it is built.");
  tree.def(
          "__init__", [](TreeObject* self) { new (self) TreeObject(ckpt::Tree::create(), "Tree"); },
          nb::sig("def __init__(self) -> None"))
      .def_static("parse", &parse, nb::arg("json"), nb::sig("def parse(json: str | bytes) -> Tree"),
                  "A tree from JSON in that convention, as text or as UTF-8 bytes.")
      .def(
          "json",
          [](const TreeObject& self) {
            const auto of = self.get();
            return std::string(of->json());
          },
          "The finished tree as JSON; equal trees give equal text.");
  bind_tree_build(tree);
  tree.def(
          "__len__", [](const TreeObject& self) { return self.get()->size(); }, "How many nodes there are.")
      .def(
          "node", [](const TreeObject& self, uint64_t index) { return record(self.get()->at(index)); },
          nb::arg("index"), nb::sig("def node(self, index: int) -> ckpt.records.Node"),
          "Node number `index`, in document order.")
      .def("find", &find, nb::arg("parent"), nb::arg("key"),
           nb::sig("def find(self, parent: int, key: str | int) -> int"),
           "The number of a child: of a dict or record by its key, of a list, tuple or set by its position. "
           "NotFoundError if there is none.");
  bind_handle(tree, "def __enter__(self) -> Tree");
}

}  // namespace ckpt_py
