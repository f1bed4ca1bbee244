// Stores in Python (ckpt_backend.h): each call is a method of an object, on a thread of the engine. The objects are
// those of ckpt/fsspecs.py, which says what their methods take and return.
#include <ckpt_backend.h>
#include <ckpt_layer.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "bind.h"

namespace ckpt_py {

// What opens stores of a scheme, until the interpreter ends. Never destroyed, since a thread of the engine may outlive
// the module.
static std::map<std::string, nb::object>& openers() {
  static auto& all = *new std::map<std::string, nb::object>;
  return all;
}

static ckpt_status explain(nb::python_error& raised, ckpt_error** err) {
  const auto [status, message] =
      nb::cast<std::pair<int32_t, std::string>>(nb::module_::import_("ckpt.fsspecs").attr("status_of")(raised.value()));
  *err = ckpt_error_new(status, message.c_str(), nullptr, nullptr, 0);
  return status;
}

// Who asks for the GIL of an interpreter that has ended is ended, too: so nobody begins once it ends.
static std::atomic<int> inside{0};
static std::atomic<bool> ends{false};
struct Inside {
  Inside() { inside++; }
  ~Inside() { inside--; }
};

// Runs the body with the GIL, and lets nothing out.
template <class Body>
static ckpt_status in_python(ckpt_error** err, Body&& body) {
  const Inside counted;
  if (ends || !nb::is_alive()) return CKPT_IO;
  const nb::gil_scoped_acquire gil;
  try {
    try {
      return body();
    } catch (nb::python_error& raised) {
      return explain(raised, err);
    }
  } catch (const std::bad_alloc&) {
    return CKPT_NOMEM;
  } catch (const std::exception& error) {
    *err = ckpt_error_new(CKPT_IO, error.what(), nullptr, nullptr, 0);
    return CKPT_IO;
  }
}

static nb::handle object_of(void* of) { return static_cast<PyObject*>(of); }

// Memory of the engine as long as one call lasts.
class Lent {
 public:
  Lent(const void* data, uint64_t size, int how)
      : view_(nb::steal(
            PyMemoryView_FromMemory(static_cast<char*>(const_cast<void*>(data)), static_cast<Py_ssize_t>(size), how))) {
    if (!view_) throw nb::python_error();
  }
  ~Lent() {
    try {
      view_.attr("release")();
    } catch (nb::python_error& raised) {
      raised.discard_as_unraisable("ckpt: a store keeps memory that it was lent");
    }
  }
  Lent(const Lent&) = delete;
  nb::object& view() { return view_; }

 private:
  nb::object view_;
};

static void put_version(const nb::object& version, ckpt_backend_file* file) {
  const auto text = nb::cast<std::string>(version);
  if (text.size() >= sizeof file->version)
    raise(CKPT_INTERNAL, "a version of " + std::to_string(text.size()) + " bytes");
  text.copy(file->version, text.size());
}

static ckpt_status open_backend(const char* uri, void** context, ckpt_backend_traits* traits, ckpt_error** err) {
  return in_python(err, [&] {
    const std::string address = uri;
    nb::object opened = openers().at(address.substr(0, address.find("://")))(address);
    traits->promises = nb::cast<uint32_t>(opened.attr("promises"));
    *context = opened.release().ptr();
    return CKPT_OK;
  });
}

static void release_backend(void* context) {
  ckpt_error* err = nullptr;
  (void)in_python(&err, [&] { return object_of(context).dec_ref(), CKPT_OK; });
  ckpt_error_free(err);
}

static ckpt_status look(void* context, const char* key, ckpt_backend_file* file, ckpt_error** err) {
  return in_python(err, [&] {
    const nb::tuple found(object_of(context).attr("look")(key));
    file->size = nb::cast<int64_t>(found[0]);
    put_version(found[1], file);
    return CKPT_OK;
  });
}

static ckpt_status read(void* context, const char* key, const char* version, uint64_t offset, void* buffer,
                        uint64_t size, uint64_t* done, ckpt_error** err) {
  return in_python(err, [&] {
    Lent out(buffer, size, PyBUF_WRITE);
    *done = nb::cast<uint64_t>(object_of(context).attr("read")(key, version, offset, out.view()));
    return CKPT_OK;
  });
}

static ckpt_status list(void* context, const char* directory, ckpt_backend_found found, void* to, ckpt_error** err) {
  return in_python(err, [&]() -> ckpt_status {
    for (nb::handle row : object_of(context).attr("list")(directory)) {
      const auto [name, is_directory, size] = nb::cast<std::tuple<std::string, bool, int64_t>>(row);
      ckpt_backend_file file{};
      file.struct_size = sizeof file;
      file.is_directory = is_directory ? 1 : 0;
      file.size = size;
      if (const ckpt_status told = found(to, name.c_str(), &file)) return told;
    }
    return CKPT_OK;
  });
}

static ckpt_status create(void* context, const char* key, uint64_t, int32_t how, void** file, ckpt_error** err) {
  return in_python(err, [&] {
    *file = nb::object(object_of(context).attr("create")(key, how == CKPT_BACKEND_OVER)).release().ptr();
    return CKPT_OK;
  });
}

static ckpt_status append(void*, void* file, const void* data, uint64_t size, ckpt_error** err) {
  return in_python(err, [&] {
    Lent in(data, size, PyBUF_READ);
    object_of(file).attr("append")(in.view());
    return CKPT_OK;
  });
}

static ckpt_status end_file(void* file, const char* how, ckpt_error** err) {
  return in_python(err, [&] {
    const nb::object ended = nb::steal(object_of(file));
    ended.attr(how)();
    return CKPT_OK;
  });
}
static ckpt_status publish(void*, void* file, ckpt_error** err) { return end_file(file, "publish", err); }
static void discard(void*, void* file) {
  ckpt_error* err = nullptr;
  (void)end_file(file, "discard", &err);
  ckpt_error_free(err);
}

static ckpt_status remove_key(void* context, const char* key, ckpt_error** err) {
  return in_python(err, [&] { return object_of(context).attr("remove")(key), CKPT_OK; });
}

void bind_backend(nb::module_& m) {
  m.def(
      "register_backend",
      [](const std::string& scheme, nb::object open) {
        constexpr ckpt_backend kCalls = {sizeof kCalls, 0,      open_backend, release_backend, look,    read,
                                         list,          create, append,       publish,         discard, remove_key};
        ckpt_error* err = nullptr;
        if (openers().count(scheme) == 0)
          if (const ckpt_status status = ckpt_backend_register(scheme.c_str(), &kCalls, &err))
            throw ckpt::Error(status, err);
        openers()[scheme] = std::move(open);
      },
      nb::arg("scheme"), nb::arg("open"),
      nb::sig("def register_backend(scheme: str, open: collections.abc.Callable[[str], object]) -> None"),
      "Stores whose addresses have this scheme are what open(address) returns (ckpt.fsspecs).");
  m.def(
      "end_backends",
      [] {
        constexpr int kLooks = 1000;
        ends = true;
        {
          const nb::gil_scoped_release gil;
          for (int i = 0; i < kLooks && inside > 0; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        openers().clear();
      },
      nb::sig("def end_backends() -> None"),
      "The interpreter ends: what is asked of its stores is IO from now on. Waits for calls, at most ten seconds.");
  m.attr("BACKEND_EXCLUSIVE") = int32_t{CKPT_BACKEND_EXCLUSIVE};
  m.attr("BACKEND_REMOTE") = int32_t{CKPT_BACKEND_REMOTE};
}

}  // namespace ckpt_py
