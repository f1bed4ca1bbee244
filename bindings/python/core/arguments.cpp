#include "arguments.h"

#include <cstring>

namespace nb = nanobind;

namespace ckpt_py {

std::string text(nb::handle object, const char* what) {
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8AndSize(object.ptr(), &size) : nullptr;
  if (!utf8) {
    if (PyErr_Occurred()) raise(CKPT_INVALID, std::string(what) + " cannot be UTF-8: it has a lone surrogate");
    const std::string type = nb::type_name(object.type()).c_str();
    throw nb::type_error((std::string(what) + ": expected str, found " + type).c_str());
  }
  if (std::memchr(utf8, 0, static_cast<size_t>(size))) raise(CKPT_INVALID, std::string(what) + " holds a NUL");
  return std::string(utf8, static_cast<size_t>(size));
}

std::optional<std::string> optional_text(nb::handle object, const char* what) {
  return object.is_none() ? std::nullopt : std::optional<std::string>(text(object, what));
}

std::string path(nb::handle object) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(object.ptr(), &bytes)) throw nb::python_error();
  nb::bytes kept = nb::steal<nb::bytes>(bytes);
  return std::string(kept.c_str(), kept.size());
}

static void set_options(ckpt::Options& out, nb::handle items) {
  for (nb::handle item : items) {
    const std::string key = text(item[0], "option");
    nb::object value = item[1];
    if (PyLong_Check(value.ptr())) {
      const int64_t number = PyLong_AsLongLong(value.ptr());
      if (number == -1 && PyErr_Occurred()) raise(CKPT_INVALID, "option " + key + ": the number is too large");
      out.set(key, number);
    } else {
      out.set(key, text(value, ("option " + key).c_str()));
    }
  }
}

ckpt::Options options(nb::handle mapping, const nb::kwargs& keywords) {
  ckpt::Options out;
  if (!mapping.is_none()) set_options(out, mapping.attr("items")());
  set_options(out, keywords.attr("items")());
  return out;
}

int32_t dtype(nb::handle object) {
  if (PyLong_Check(object.ptr())) return nb::cast<int32_t>(object);
  const std::string name = text(object, "dtype");
  const int32_t found = ckpt_dtype_find(name.c_str());
  if (found < 0) raise(CKPT_INVALID, "dtype '" + name + "' is not known", {{"found", name}});
  return found;
}

}  // namespace ckpt_py
