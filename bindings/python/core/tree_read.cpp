// Reads a tree as Python values, for ckpt.trees.TreeReader: containers, numbers and text, and new arrays. The reader is
// asked for all else, and wherever the caller has a value of his own (`like`).
#include <nanobind/stl/string.h>

#include <unordered_set>

#include "arrays.h"
#include "own_arrays.h"
#include "tree.h"

namespace ckpt_py {

namespace {

class Reading {
 public:
  explicit Reading(nb::handle reader)
      : reader_(nb::borrow(reader)),
        tree_(nb::cast<const TreeObject&>(reader.attr("tree")).get()),
        arrays_(reader.attr("arrays")),
        own_arrays_(reader.attr("own_arrays")),
        only_(reader.attr("only")) {
    if (!arrays_.is_none()) new_ = &nb::cast<NewArrays&>(arrays_);
    if (!own_arrays_.is_none()) own_ = &nb::cast<OwnArrays&>(own_arrays_);
  }

  nb::object read(uint64_t index, nb::handle like) {
    const ckpt::Node node = tree_->at(index);
    switch (node.kind) {
      case CKPT_NODE_TENSOR:
        return tensor(value_of(node), like);
      case CKPT_NODE_RECORD:
        return reader_.attr("record")(value_of(node), index, like);
      case CKPT_NODE_DICT:
        return entries(node, like);
      case CKPT_NODE_LIST:
        return elements(node, like);
      case CKPT_NODE_TUPLE:
        return nb::tuple(elements(node, like));
      case CKPT_NODE_SET:
        return reader_.attr("set")(elements(node, like));
      default:
        return value_of(node);
    }
  }

  nb::dict entries(uint64_t index, nb::handle like) { return entries(tree_->at(index), like); }

 private:
  nb::object tensor(nb::object name, nb::handle like) {
    if (new_ && like.is_none())
      if (nb::object made = new_->make(name); made.is_valid()) return made;
    if (own_ && !like.is_none() && own_->fill(name, like)) return nb::borrow(like);
    return reader_.attr("tensor")(name, like);
  }

  // What the caller has at a key of his dict, list or tuple. The reader is asked for what is in other values.
  nb::object child_of(nb::handle like, nb::handle key) {
    if (PyDict_CheckExact(like.ptr()) || like.type().is(only_)) {
      PyObject* found = PyDict_GetItemWithError(like.ptr(), key.ptr());
      if (!found && PyErr_Occurred()) throw nb::python_error();
      return found ? nb::borrow(found) : nb::none();
    }
    return reader_.attr("child_of")(like, key);
  }

  // Dicts, lists and tuples may stand anywhere, and the reader has nothing to say of them.
  static bool is_plain(nb::handle like) {
    return like.is_none() || PyDict_CheckExact(like.ptr()) || PyList_CheckExact(like.ptr()) ||
           PyTuple_CheckExact(like.ptr());
  }

  nb::object child(uint64_t index, nb::handle key, nb::handle like) {
    if (like.is_none()) return read(index, like);
    nb::object inside = child_of(like, key);
    if (is_plain(inside)) return read(index, inside);
    const ckpt::Node node = tree_->at(index);
    if (own_ && node.kind == CKPT_NODE_TENSOR)
      if (nb::object name = value_of(node); own_->fill(name, inside)) return inside;
    return reader_.attr("read")(index, inside);
  }

  bool wants(nb::handle like, nb::handle key) {
    const int has = PyDict_Contains(like.ptr(), key.ptr());
    if (has < 0) throw nb::python_error();
    return has || nb::cast<bool>(reader_.attr("wants")(like, key));
  }

  nb::dict entries(const ckpt::Node& parent, nb::handle like) {
    nb::dict out;
    const bool only = like.type().is(only_);
    for (uint64_t index = parent.first_child; index != CKPT_NODE_END;) {
      const ckpt::Node node = tree_->at(index);
      nb::object key = key_of(node);
      if (!only || wants(like, key)) out[key] = child(index, key, like);
      index = node.next_sibling;
    }
    return out;
  }

  nb::list elements(const ckpt::Node& parent, nb::handle like) {
    nb::list out;
    for (uint64_t index = parent.first_child; index != CKPT_NODE_END; index = tree_->at(index).next_sibling)
      out.append(child(index, nb::int_(out.size()), like));
    return out;
  }

  nb::object reader_;
  std::shared_ptr<ckpt::Tree> tree_;
  nb::object arrays_, own_arrays_, only_;
  NoCollection none_;
  NewArrays* new_ = nullptr;
  OwnArrays* own_ = nullptr;
};

void collect_names(const ckpt::Tree& tree, uint64_t index, nb::set& out) {
  const ckpt::Node node = tree.at(index);
  if (node.kind == CKPT_NODE_TENSOR) out.add(value_of(node));
  for (uint64_t child = node.first_child; child != CKPT_NODE_END; child = tree.at(child).next_sibling)
    collect_names(tree, child, out);
}

// Finds what a load may have left out.
class Unused {
 public:
  Unused(nb::object path, nb::set used) : used_(std::move(used)) {
    if (nb::cast<bool>(nb::bool_(path))) keys_.push_back(std::move(path));
  }

  void find(nb::handle value, nb::list& out) {
    PyObject* object = value.ptr();
    const bool dict = PyDict_CheckExact(object), list = PyList_CheckExact(object) || PyTuple_CheckExact(object);
    if ((dict || list) && (!seen_.insert(object).second || keys_.size() > kMostLevels)) return;
    if (dict) {
      for (const auto& [key, item] : nb::borrow<nb::dict>(value)) find_at(nb::borrow(key), item, out);
    } else if (list) {
      size_t place = 0;
      for (nb::handle item : value) find_at(nb::int_(place++), item, out);
    } else if (!used_.contains(nb::int_(reinterpret_cast<uintptr_t>(object)))) {
      nb::list path;
      for (const nb::object& key : keys_) path.append(nb::str(key));
      out.append(nb::make_tuple(nb::str("/").attr("join")(path), value));
    }
  }

 private:
  void find_at(nb::object key, nb::handle value, nb::list& out) {
    keys_.push_back(std::move(key));
    find(value, out);
    keys_.pop_back();
  }

  static constexpr size_t kMostLevels = 200;  // of a tree: no checkpoint has anything deeper
  nb::set used_;
  std::vector<nb::object> keys_;        // that lead to the current value
  std::unordered_set<PyObject*> seen_;  // values may contain themselves
};

// A copy of dicts, lists and tuples, in which `function` replaces the values of these types.
class Replacing {
 public:
  Replacing(nb::handle types, nb::handle function) : types_(types), function_(function) {}

  nb::object replace(nb::handle value) const {
    PyObject* object = value.ptr();
    if (PyDict_CheckExact(object)) {
      nb::dict out;
      for (const auto& [key, item] : nb::borrow<nb::dict>(value)) out[key] = replace(item);
      return out;
    }
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
      nb::list out;
      for (nb::handle item : value) out.append(replace(item));
      return PyList_CheckExact(object) ? nb::object(out) : nb::tuple(out);
    }
    for (nb::handle type : types_)
      if (value.type().is(type)) return function_(value);
    return nb::borrow(value);
  }

 private:
  nb::handle types_, function_;
};

}  // namespace

void bind_read(nb::module_& m) {
  m.def(
      "read_value",
      [](nb::handle reader, uint64_t index, nb::handle like) { return Reading(reader).read(index, like); },
      nb::arg("reader"), nb::arg("index"), nb::arg("like").none(),
      nb::sig("def read_value(reader: ckpt.trees.TreeReader, index: int, like: object) -> typing.Any"),
      "What ckpt.trees.TreeReader.read does.");
  m.def(
      "read_entries",
      [](nb::handle reader, uint64_t index, nb::handle like) { return Reading(reader).entries(index, like); },
      nb::arg("reader"), nb::arg("index"), nb::arg("like").none(),
      nb::sig(
          "def read_entries(reader: ckpt.trees.TreeReader, index: int, like: object) -> dict[typing.Any, typing.Any]"),
      "What ckpt.trees.TreeReader.entries does.");
  m.def(
      "tensor_names",
      [](const TreeObject& tree, uint64_t index) {
        nb::set out;
        collect_names(*tree.get(), index, out);
        return out;
      },
      nb::arg("tree"), nb::arg("index") = 0, nb::sig("def tensor_names(tree: Tree, index: int = 0) -> set[str]"),
      "The names of all tensors in a tree, or below one of its nodes.");
  m.def(
      "unused",
      [](nb::handle value, nb::str path, nb::set used) {
        nb::list out;
        Unused(std::move(path), std::move(used)).find(value, out);
        return out;
      },
      nb::arg("value").none(), nb::arg("path"), nb::arg("used"),
      nb::sig("def unused(value: object, path: str, used: set[int]) -> list[tuple[str, typing.Any]]"),
      "What lies in dicts, lists and tuples, nested in any way, and has none of these ids, with the paths.");
  m.def(
      "replaced",
      [](nb::handle value, nb::tuple types, nb::handle function) { return Replacing(types, function).replace(value); },
      nb::arg("value").none(), nb::arg("types"), nb::arg("function"),
      nb::sig("def replaced(value: object, types: tuple[type, ...], "
              "function: collections.abc.Callable[[typing.Any], object]) -> typing.Any"),
      "A copy of dicts, lists and tuples, nested in any way, in which function(value) replaces the values of these "
      "types.");
}

}  // namespace ckpt_py
