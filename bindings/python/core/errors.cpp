#include "errors.h"

namespace nb = nanobind;

namespace ckpt_py {

nb::str decoded(const std::string& text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (!made) throw nb::python_error();
  return nb::steal<nb::str>(made);
}

static void set_error(ckpt_status status, const std::string& message, const Details& details) {
  nb::dict facts;
  for (const auto& [key, value] : details) facts[decoded(key)] = decoded(value);
  nb::object error = nb::module_::import_("ckpt.errors").attr("error_of")(status, decoded(message), facts);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

void raise(ckpt_status status, const std::string& message, const Details& details) {
  if (!PyErr_Occurred()) {
    set_error(status, message, details);
    throw nb::python_error();
  }
  nb::python_error cause;
  try {
    set_error(status, message, details);
    throw nb::python_error();
  } catch (nb::python_error& error) {
    PyException_SetCause(error.value().ptr(), nb::handle(cause.value()).inc_ref().ptr());
    throw;
  }
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const ckpt::Error& error) {
      set_error(error.status(), error.what(), error.details());
    }
  });
}

}  // namespace ckpt_py
