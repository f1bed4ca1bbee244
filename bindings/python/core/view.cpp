#include "view.h"

#include <nanobind/stl/vector.h>

namespace ckpt_py {

// The format as in struct and numpy: unsigned integers for dtypes without a letter (bf16, float8), null for packed
// ones.
static const char* format_of(int32_t dtype) {
  switch (dtype) {
    case CKPT_DTYPE_BOOL:
      return "?";
    case CKPT_DTYPE_I8:
      return "b";
    case CKPT_DTYPE_I16:
      return "h";
    case CKPT_DTYPE_I32:
      return "i";
    case CKPT_DTYPE_I64:
      return "q";
    case CKPT_DTYPE_F16:
      return "e";
    case CKPT_DTYPE_F32:
      return "f";
    case CKPT_DTYPE_F64:
      return "d";
    case CKPT_DTYPE_C64:
      return "Zf";
    case CKPT_DTYPE_C128:
      return "Zd";
  }
  switch (ckpt_dtype_bits(dtype)) {
    case 8:
      return "B";
    case 16:
      return "H";
    case 32:
      return "I";
    case 64:
      return "Q";
    default:
      return nullptr;
  }
}

View::View(std::shared_ptr<void> owner, const void* data, uint64_t bytes, int32_t dtype, const int64_t* shape,
           const int64_t* strides, int32_t ndim)
    : owner_(std::move(owner)),
      data_(data),
      bytes_(bytes),
      dtype_(dtype),
      tensor_shape_(shape, shape + ndim),
      tensor_strides_(strides, strides + ndim) {
  format_ = format_of(dtype);
  const bool packed = !format_;
  itemsize_ = packed ? 1 : ckpt_dtype_bits(dtype) / 8;
  if (packed) {
    format_ = "B";
    shape_ = {static_cast<Py_ssize_t>(bytes)};
    strides_ = {1};
  } else {
    for (int32_t i = 0; i < ndim; i++) shape_.push_back(static_cast<Py_ssize_t>(shape[i]));
    for (int32_t i = 0; i < ndim; i++) strides_.push_back(static_cast<Py_ssize_t>(strides[i]) * itemsize_);
  }
  size_ = itemsize_;
  for (Py_ssize_t extent : shape_) size_ *= extent;
  contiguous_ = true;
  Py_ssize_t expected = itemsize_;
  for (size_t i = shape_.size(); i-- > 0 && size_ != 0;) {
    contiguous_ = contiguous_ && (shape_[i] == 1 || strides_[i] == expected);
    expected *= shape_[i];
  }
}

int View::fill(Py_buffer* out, nb::handle self, int flags) const {
  static const char kEmpty = 0;
  constexpr int kContiguous = (PyBUF_C_CONTIGUOUS | PyBUF_F_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES;
  const bool needs_contiguous = (flags & PyBUF_STRIDES) != PyBUF_STRIDES || flags & kContiguous;
  const bool fortran = (flags & PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES) && shape_.size() > 1;
  const char* refused = flags & PyBUF_WRITABLE             ? "the memory of a checkpoint is read-only"
                        : fortran                          ? "the memory is not column-major"
                        : needs_contiguous && !contiguous_ ? "the memory is not contiguous"
                                                           : nullptr;
  out->obj = nullptr;
  if (refused) return PyErr_SetString(PyExc_BufferError, refused), -1;
  out->buf = const_cast<void*>(size_ ? data_ : &kEmpty);
  out->obj = self.inc_ref().ptr();
  out->len = size_;
  out->itemsize = itemsize_;
  out->readonly = 1;
  out->ndim = static_cast<int>(shape_.size());
  out->format = flags & PyBUF_FORMAT ? const_cast<char*>(format_) : nullptr;
  out->shape = flags & PyBUF_ND ? const_cast<Py_ssize_t*>(shape_.data()) : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? const_cast<Py_ssize_t*>(strides_.data()) : nullptr;
  out->suboffsets = nullptr;
  out->internal = nullptr;
  return 0;
}

static int get_buffer(PyObject* self, Py_buffer* out, int flags) {
  out->obj = nullptr;
  if (!nb::inst_ready(self)) return PyErr_SetString(PyExc_BufferError, "the view was never made"), -1;
  return nb::inst_ptr<View>(self)->fill(out, self, flags);
}

void bind_view(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};
  nb::class_<View> view(
      m, "View", nb::type_slots(slots),
      "A tensor in a mapped file, read-only. numpy.asarray(view) reads it through the buffer protocol, "
      "which lacks some dtypes: bf16 and float8 appear there as unsigned integers of the same width, "
      "packed ones (4 and 6 bits) as bytes. The file stays mapped while the view lives.");
  bind_repr(view);
  view.def_prop_ro(
          "dtype", [](const View& self) { return dtype_of(self.dtype()); },
          nb::sig("def dtype(self) -> ckpt.enums.DType"), "The tensor's dtype.")
      .def_prop_ro(
          "shape", [](const View& self) { return nb::tuple(nb::cast(self.extents())); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "The tensor's shape.")
      .def_prop_ro("nbytes", &View::bytes, "Bytes of the tensor's elements.");
}

}  // namespace ckpt_py
