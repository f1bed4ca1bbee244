#include "arrays.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "dlpack.h"

namespace ckpt_py {

namespace {

constexpr uint64_t kAlign = 64;
constexpr uint64_t kFirstSlab = 256 << 10;  // each is twice as large as the one before,
constexpr uint64_t kLastSlab = 2 << 20;     // up to this: an array that stays keeps no more
constexpr uint64_t kSmallBytes = 64 << 10;  // larger ones have memory of their own

int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  out->obj = nullptr;
  if (!nb::inst_ready(self)) return PyErr_SetString(PyExc_BufferError, "the buffer was never made"), -1;
  const Slab& slab = *nb::inst_ptr<Buffer>(self)->slab;
  return PyBuffer_FillInfo(out, self, slab.data, static_cast<Py_ssize_t>(slab.size), 0, flags);
}

// What torch's from_dlpack takes, with all that it points to.
struct Exported {
  dlpack::Managed managed;
  std::shared_ptr<Slab> slab;
  Extents shape;
};

// torch calls it without the GIL, too.
void free_exported(dlpack::Managed* managed) { delete static_cast<Exported*>(managed->context); }

// Of a capsule that nobody took.
void free_capsule(PyObject* capsule) {
  if (auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, dlpack::Managed::kName)))
    managed->deleter(managed);
  PyErr_Clear();
}

}  // namespace

Slab::Slab(uint64_t bytes) : size(bytes) {
  unlocked([&] { ckpt::detail::call(ckpt_buffer_alloc, &data, bytes); });
}

Slab::~Slab() { ckpt_buffer_free(data, size); }

NewArrays::NewArrays(nb::object load, nb::object reader, nb::object framework, nb::dict made, bool mixed)
    : load_(std::move(load)),
      reader_(std::move(reader)),
      framework_(std::move(framework)),
      made_(std::move(made)),
      torch_(nb::cast<std::string>(framework_.attr("name")) == "torch"),
      mixed_(mixed),
      saved_as_(nb::cast<std::string>(nb::module_::import_("ckpt.frameworks").attr("SAVED_AS"))) {
  nb::object module = nb::module_::import_(torch_ ? "torch" : "numpy");
  make_ = torch_ ? nb::getattr(module.attr("_C"), "_from_dlpack", nb::none()) : nb::object(module.attr("ndarray"));
}

nb::object NewArrays::make(nb::handle name) {
  if (PyObject* made = PyDict_GetItemWithError(made_.ptr(), name.ptr())) return nb::borrow(made);
  if (PyErr_Occurred()) throw nb::python_error();
  const auto reader = nb::cast<const ReaderObject&>(reader_).get();
  const ckpt::TensorInfo info = reader->tensor(text(name, "name"));
  if (info.alias_of || info.bytes == 0 || ckpt_dtype_bits(info.dtype) < 8 || make_.is_none()) return nb::object();
  if (mixed_ && reader->tensor_attr(info.name, saved_as_)) return nb::object();
  nb::object& dtype = dtypes_[info.dtype];
  if (!dtype.is_valid()) dtype = framework_.attr("dtype")(name, dtype_of(info.dtype));
  const Place at = place(info.bytes);
  nb::object made;
  if (!torch_) {
    made = make_(extents(info.shape, info.ndim), dtype, at.in.buffer, at.offset);
  } else {
    try {
      made = of_torch(info, at);
    } catch (nb::python_error& error) {  // an older torch takes fewer dtypes
      if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
      return nb::object();
    }
    if (!made.attr("dtype").is(dtype)) return nb::object();
  }
  batch_.push(info.name, ckpt::Tensor(info), at.data(), info.bytes);
  made_[name] = made;
  if (batch_.full()) add();
  return made;
}

NewArrays::Place NewArrays::place(uint64_t bytes) {
  const uint64_t wanted = (bytes + kAlign - 1) / kAlign * kAlign;
  if (bytes > kSmallBytes) return {new_slab(wanted), 0};
  if (!small_.slab || small_.slab->size - used_ < wanted) {
    small_ = new_slab(small_.slab ? std::min(small_.slab->size * 2, kLastSlab) : kFirstSlab);
    used_ = 0;
  }
  return {small_, std::exchange(used_, used_ + wanted)};
}

NewArrays::Shared NewArrays::new_slab(uint64_t bytes) {
  auto slab = std::make_shared<Slab>(bytes);
  nb::object buffer = nb::cast(Buffer{slab});
  kept_.append(buffer);
  return {std::move(slab), std::move(buffer)};
}

nb::object NewArrays::of_torch(const ckpt::TensorInfo& info, const Place& at) {
  auto exported = std::make_unique<Exported>();
  exported->slab = at.in.slab;
  exported->shape.assign(info.shape, info.shape + info.ndim);
  const dlpack::DataType type{static_cast<uint8_t>(info.dtype >> 8), static_cast<uint8_t>(info.dtype & 0xff), 1};
  exported->managed = {{at.data(), {dlpack::kCpu, 0}, info.ndim, type, exported->shape.data(), nullptr, 0},
                       exported.get(),
                       free_exported};
  PyObject* capsule = PyCapsule_New(&exported->managed, dlpack::Managed::kName, free_capsule);
  if (!capsule) throw nb::python_error();
  exported.release();
  return make_(nb::steal(capsule));
}

void NewArrays::add() { nb::cast<LoadObject&>(load_).add_tensors(batch_, std::exchange(kept_, nb::list())); }

void bind_arrays(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};
  nb::class_<Buffer> buffer(m, "Buffer", nb::type_slots(slots), "Memory of arrays that a load made.");
  buffer.def_prop_ro("nbytes", [](const Buffer& self) { return self.slab->size; }, "Its size.");
  nb::class_<NewArrays>(m, "NewArrays", "Makes arrays, and asks a load to fill them.")
      .def(nb::init<nb::object, nb::object, nb::object, nb::dict, bool>(), nb::arg("load"), nb::arg("reader"),
           nb::arg("framework"), nb::arg("made"), nb::arg("mixed"),
           nb::sig("def __init__(self, load: Load, reader: Reader, framework: ckpt.frameworks.Framework, "
                   "made: dict[str, typing.Any], mixed: bool) -> None"))
      .def("add", &NewArrays::add, "Adds what was made to the load.");
}

}  // namespace ckpt_py
