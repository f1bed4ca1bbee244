// Writes a Python value as a tree, for ckpt.trees.TreeWriter: containers, numbers, text, and plain arrays of numpy and
// torch. The writer is asked for all else.
#include <nanobind/stl/string.h>

#include "memory.h"
#include "tree.h"

namespace ckpt_py {

namespace {

// A text key as a segment of a path: schemas/STATE_TREE.md section 4.
std::string escape(std::string_view key) {
  if (key.empty()) return "~e";
  if (key == ".") return "~d";
  if (key == "..") return "~d~d";
  std::string_view digits = key.substr(key[0] == '-');
  const bool only_digits = digits.find_first_not_of("0123456789") == digits.npos && !digits.empty();
  std::string out = key == "0" || (only_digits && digits[0] != '0') ? "~s" : "";
  for (const char c : key) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    if (c == '~' || c == '/')
      out += c == '~' ? "~0" : "~1";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out.append("~x").append(1, kHex[c >> 4]).append(1, kHex[c & 15]);
    else
      out += c;
  }
  return out;
}

class Walk {
 public:
  Walk(nb::handle writer, nb::handle path)
      : writer_(nb::borrow(writer)),
        tree_(nb::cast<const TreeObject&>(writer.attr("tree")).get()),
        transparent_(writer.attr("_transparent")),
        tensors_(writer.attr("tensors")),
        others_(writer.attr("others")) {
    nb::module_ trees = nb::module_::import_("ckpt.trees");
    record_ = trees.attr("Record");
    set_ = trees.attr("TreeSet");
    name_ = trees.attr("TensorName");
    if (!tensors_.is_none()) names_ = writer.attr("names");
    for (nb::handle segment : path) path_ += (path_.empty() ? "" : "/") + nb::cast<std::string>(segment);
  }

  void write(nb::handle value) {
    PyObject* object = value.ptr();
    const nb::handle type = value.type();
    if (value.is_none()) return tree_->add_null();
    if (PyBool_Check(object)) return tree_->add_bool(object == Py_True);
    if (PyLong_CheckExact(object)) return add_int(*tree_, value);
    if (PyFloat_CheckExact(object)) return tree_->add_float(PyFloat_AsDouble(object));
    if (PyUnicode_CheckExact(object)) return placed([&] { tree_->add_text(tree_text(value)); });
    if (PyBytes_CheckExact(object)) return add_bytes(object);
    if (PyList_CheckExact(object)) return items(CKPT_NODE_LIST, value);
    if (PyTuple_CheckExact(object)) return tuple(value);
    if (PyDict_CheckExact(object)) return dict(value);
    if (type.is(record_)) return record(value);
    if (type.is(set_)) return items(CKPT_NODE_SET, value);
    if (type.is(name_)) return tensor_name(value.attr("name"));
    if (!tensors_.is_none())
      if (nb::object memory = arrays_.take(value, false); memory.is_valid())
        return tensor(std::move(memory), arrays_.is_torch(value));
    writer_.attr("other")(value, path());
  }

 private:
  // ---- places ----
  nb::tuple path() const {
    nb::list out;
    for (size_t at = 0; !path_.empty() && at <= path_.size();) {
      const size_t end = std::min(path_.find('/', at), path_.size());
      out.append(nb::str(path_.data() + at, end - at));
      at = end + 1;
    }
    return nb::tuple(out);
  }

  std::string place() const { return path_.empty() ? "state" : "state at '" + path_ + "'"; }

  // An error of text or a key tells where that is.
  template <class Function>
  void placed(Function&& function) {
    try {
      function();
    } catch (const ckpt::Error& error) {
      if (error.status() != CKPT_INVALID) throw;
      raise(error.status(), place() + ": " + error.what(), error.details());
    } catch (nb::python_error& error) {
      if (error.matches(nb::module_::import_("ckpt.errors").attr("InvalidError")))
        error.value().attr("_name_place")(place());
      throw;
    }
  }

  void write_at(const std::string& segment, nb::handle value) {
    const size_t size = path_.size();
    if (size) path_ += '/';
    path_ += segment;
    write(value);
    path_.resize(size);
  }

  // ---- leaves ----
  void add_bytes(PyObject* object) {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(object, &data, &size) != 0) throw nb::python_error();
    tree_->add_bytes(ckpt::Memory(data, static_cast<uint64_t>(size)));
  }

  void tensor_name(nb::handle name) {
    const auto called = optional_text(name, "name");
    called ? tree_->add_tensor(*called) : tree_->add_tensor();
  }

  void tensor(nb::object memory, bool of_torch) {
    const std::string& name = path_.empty() ? kRoot : path_;
    nb::str called(name.data(), name.size());
    const int taken = PySet_Contains(names_.ptr(), called.ptr());
    if (taken > 0) raise(CKPT_INVALID, place() + ": two tensors would have this name", {{"tensor", name}});
    if (taken < 0 || PySet_Add(names_.ptr(), called.ptr()) != 0 ||
        PyDict_SetItem(tensors_.ptr(), called.ptr(), memory.ptr()) != 0)
      throw nb::python_error();
    if (!of_torch) others_.append(called);
    if (of_torch && !of_torch_) writer_.attr("of_torch") = of_torch_ = true;
    tree_->add_tensor(name);
  }

  // ---- containers. What the writer is asked for may change them meanwhile. ----
  void items(int32_t kind, nb::handle list) {
    tree_->begin(kind);
    for (Py_ssize_t i = 0; i < PyList_Size(list.ptr()); i++)
      write_at(std::to_string(i), nb::borrow(PyList_GetItem(list.ptr(), i)));
    tree_->end();
  }

  void tuple(nb::handle value) {
    tree_->begin(CKPT_NODE_TUPLE);
    const Py_ssize_t size = PyTuple_Size(value.ptr());
    for (Py_ssize_t i = 0; i < size; i++) write_at(std::to_string(i), PyTuple_GetItem(value.ptr(), i));
    tree_->end();
  }

  template <class Function>
  static void each(nb::handle dict, Function&& function) {
    const Py_ssize_t size = PyDict_Size(dict.ptr());
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict.ptr(), &at, &key, &item);) {
      function(nb::borrow(key), nb::borrow(item));
      if (PyDict_Size(dict.ptr()) == size) continue;
      PyErr_SetString(PyExc_RuntimeError, "dictionary changed size during iteration");
      throw nb::python_error();
    }
  }

  // Text, or an integer of 64 bits.
  static bool is_key(nb::handle key) {
    int overflow = 0;
    if (!PyLong_CheckExact(key.ptr())) return PyUnicode_CheckExact(key.ptr());
    PyLong_AsLongLongAndOverflow(key.ptr(), &overflow);
    return overflow == 0;
  }

  void dict(nb::handle value) {
    bool plain = true;
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; plain && PyDict_Next(value.ptr(), &at, &key, nullptr);) plain = is_key(key);
    if (!plain) {
      writer_.attr("odd_dict")(value, path());
      return;
    }
    tree_->begin(CKPT_NODE_DICT);
    each(value, [&](nb::object name, nb::object item) {
      placed([&] { add_key(*tree_, name); });
      write_at(segment_of(name), item);
    });
    tree_->end();
  }

  static std::string segment_of(nb::handle key) {
    return PyLong_Check(key.ptr()) ? std::to_string(nb::cast<int64_t>(key)) : escape(tree_text(key));
  }

  bool is_container(nb::handle value) const {
    PyObject* object = value.ptr();
    return PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object) || PyAnySet_Check(object) ||
           nb::isinstance(value, record_);
  }

  void record(nb::handle value) {
    nb::object items = value.attr("items"), class_name = value.attr("class_name");
    tree_->begin(CKPT_NODE_RECORD, text(class_name, "class_name"));
    nb::object transparent = transparent_.attr("get")(class_name);
    if (!PyDict_Check(items.ptr())) items = nb::module_::import_("builtins").attr("dict")(items);
    each(items, [&](nb::object key, nb::object item) {
      placed([&] { add_key(*tree_, key); });
      const bool hidden =
          transparent.is_none() ? key.equal(nb::str("data")) && !is_container(item) : key.equal(transparent);
      hidden ? write(item) : write_at(segment_of(key), item);
    });
    tree_->end();
  }

  const std::string kRoot = CKPT_TREE_OBJECT;
  nb::object writer_;
  std::shared_ptr<ckpt::Tree> tree_;
  nb::object transparent_, tensors_, names_, record_, set_, name_;
  nb::list others_;
  bool of_torch_ = false;  // as the writer has it
  PlainArrays arrays_;
  NoCollection none_;
  std::string path_;
};

}  // namespace

void bind_write(nb::module_& m) {
  m.def(
      "write_value", [](nb::handle writer, nb::handle value, nb::handle path) { Walk(writer, path).write(value); },
      nb::arg("writer"), nb::arg("value").none(), nb::arg("path"),
      nb::sig("def write_value(writer: ckpt.trees.TreeWriter, value: object, path: tuple[str, ...]) -> None"),
      "What ckpt.trees.TreeWriter.write does.");
  m.def(
      "escape", [](nb::handle key) { return escape(tree_text(key)); }, nb::arg("key"),
      nb::sig("def escape(key: str) -> str"), "A text key as a segment of a path: schemas/STATE_TREE.md section 4.");
}

}  // namespace ckpt_py
