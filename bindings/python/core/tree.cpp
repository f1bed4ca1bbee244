// Tree: building and reading node by node. Native values are made of it in ckpt/trees.py.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bind.h"

namespace ckpt_py {

// Text of a tree is counted and may hold NULs. A lone surrogate is no text.
static std::string_view tree_text(nb::handle object) {
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

static void add_key(const TreeObject& self, nb::handle key) {
  const auto tree = self.get();
  PyLong_Check(key.ptr()) ? tree->key(nb::cast<int64_t>(key)) : tree->key(tree_text(key));
}

static void add_int(const TreeObject& self, nb::int_ value) {
  const auto tree = self.get();
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (!overflow) return tree->add_int(small);
  // Not str(): Python refuses to print more than 4300 digits unless told otherwise.
  tree->add_bigint(nb::cast<std::string>(nb::module_::import_("ckpt.records").attr("digits_of_int")(value)));
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
  tree.def("key", &add_key, nb::arg("key"), nb::sig("def key(self, key: str | int) -> None"),
           "The key of the value that comes next, inside a dict or record. 0 and \"0\" are two keys.")
      .def(
          "add_null", [](const TreeObject& self) { self.get()->add_null(); }, "None.")
      .def(
          "add_bool", [](const TreeObject& self, bool value) { self.get()->add_bool(value); }, nb::arg("value"),
          "A bool.")
      .def("add_int", &add_int, nb::arg("value"), nb::sig("def add_int(self, value: int) -> None"), "Of any size.")
      .def(
          "add_bigint",
          [](const TreeObject& self, nb::handle digits) { self.get()->add_bigint(text(digits, "digits")); },
          nb::arg("digits"), nb::sig("def add_bigint(self, digits: str) -> None"),
          "An integer as decimal digits with an optional '-'.")
      .def(
          "add_float", [](const TreeObject& self, double value) { self.get()->add_float(value); }, nb::arg("value"),
          "A float; NaN and infinities are values like others, the bits of a NaN are not kept.")
      .def(
          "add_text", [](const TreeObject& self, nb::str value) { self.get()->add_text(tree_text(value)); },
          nb::arg("value"), "Text, which may hold NULs.")
      .def(
          "add_bytes",
          [](const TreeObject& self, nb::bytes value) {
            self.get()->add_bytes(ckpt::Memory(value.c_str(), value.size()));
          },
          nb::arg("value"), "Bytes, which are copied.")
      .def("add_tensor", &add_tensor, nb::arg("name") = nb::none(),
           nb::sig("def add_tensor(self, name: str | None = None) -> str"),
           "A tensor as a leaf. Returns the name it is to be saved under: `name`, or its path in the tree.")
      .def("begin", &begin, nb::arg("kind"), nb::arg("class_name") = nb::none(),
           nb::sig("def begin(self, kind: int, class_name: str | None = None) -> None"),
           "`kind`: ckpt.NodeKind.LIST, TUPLE, SET, DICT, or RECORD with its class.")
      .def("end", [](const TreeObject& self) { self.get()->end(); }, "Ends what the last begin() began.");
}

void bind_tree(nb::module_& m) {
  nb::class_<TreeObject> tree(m, "Tree",
                              "Nested state with tensors as leaves, as schemas/STATE_TREE.md has it: built in document "
                              "order, or read by the numbers of its nodes (the root is 0). ckpt.to_native and "
                              "ckpt.from_native turn whole trees into Python values and back. Built by one thread.");
  tree.def(
          "__init__", [](TreeObject* self) { new (self) TreeObject(ckpt::Tree::create(), "Tree"); },
          nb::sig("def __init__(self) -> None"))
      .def_static("parse", &parse, nb::arg("json"), nb::sig("def parse(json: str | bytes) -> Tree"),
                  "From JSON of the convention, as text or as the UTF-8 bytes of an object.")
      .def(
          "json",
          [](const TreeObject& self) {
            const auto of = self.get();
            return std::string(of->json());
          },
          "The finished tree as JSON; the same text for the same tree.");
  bind_tree_build(tree);
  tree.def(
          "__len__", [](const TreeObject& self) { return self.get()->size(); }, "Nodes.")
      .def(
          "node", [](const TreeObject& self, uint64_t index) { return record(self.get()->at(index)); },
          nb::arg("index"), nb::sig("def node(self, index: int) -> ckpt.records.Node"),
          "By its number, in document order.")
      .def("find", &find, nb::arg("parent"), nb::arg("key"),
           nb::sig("def find(self, parent: int, key: str | int) -> int"),
           "The child of a dict or record by its key, of a list, tuple or set by its place. NotFoundError.");
  bind_handle(tree, "def __enter__(self) -> Tree");
}

}  // namespace ckpt_py
