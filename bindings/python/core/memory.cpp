#include "memory.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "dlpack.h"
#include "view.h"

namespace nb = nanobind;

namespace ckpt_py {

[[noreturn]] static void refuse(nb::handle object, const std::string& why) {
  const std::string type = nb::type_name(object.type()).c_str();
  raise(CKPT_UNSUPPORTED, type + " cannot be taken as it is: " + why, {{"found", type}});
}

// Refuses for the reason of a Python exception, which becomes the cause; passes on those that should end the program.
[[noreturn]] static void refuse(nb::handle object, nb::python_error& error) {
  if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) {
    error.restore();
    throw nb::python_error();
  }
  const std::string why = nb::cast<std::string>(nb::str(error.value()));
  error.restore();
  refuse(object, why);
}

// Fills a Memory that is already a Python object, so that all it holds is released on every way out.
class Taker {
 public:
  Taker(Memory& memory, nb::handle object, bool writable) : memory_(memory), object_(object), writable_(writable) {}

  void take() {
    if (nb::isinstance<View>(object_)) return take_view();
    if (nb::object viewed = view_of_numpy(); viewed.is_valid()) return take_buffer(viewed);
    if (nb::hasattr(object_, "__dlpack__")) return take_dlpack();
    if (PyObject_CheckBuffer(object_.ptr())) return take_buffer(object_);
    const std::string type = nb::type_name(object_.type()).c_str();
    throw nb::type_error(("expected an array (DLPack or the buffer protocol), found " + type).c_str());
  }

  // ---- buffer protocol ----
  void take_buffer(nb::handle exporter) {
    auto view = std::make_unique<Py_buffer>();
    const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable_ ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(exporter.ptr(), view.get(), flags) != 0) {
      nb::python_error error;
      refuse(object_, error);
    }
    memory_.release_ = [held = view.get()] {
      PyBuffer_Release(held);
      delete held;
    };
    const Py_buffer& found = *view.release();
    memory_.data = found.buf;
    memory_.readonly = found.readonly;
    memory_.dtype =
        extension_dtype_ ? extension_dtype_ : format_dtype(found.format ? found.format : "B", found.itemsize);
    memory_.shape.assign(found.shape, found.shape + found.ndim);
    if (found.strides)
      read_byte_strides(found);
    else
      set_contiguous();  // ctypes omits them although we asked for them
    measure();
  }

  // ---- DLPack ----
  template <class Managed>
  void take_capsule(nb::handle capsule) {
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Managed::kName));
    if (!managed || PyCapsule_SetName(capsule.ptr(), Managed::kUsedName) != 0) throw nb::python_error();
    memory_.release_ = [managed] {
      if (managed->deleter) managed->deleter(managed);
    };
    if constexpr (std::is_same_v<Managed, dlpack::ManagedVersioned>) {
      if (managed->major != dlpack::kMajor) refuse(object_, "DLPack " + std::to_string(managed->major));
      if (managed->flags & dlpack::kIsCopied) refuse(object_, "its __dlpack__ made one");
      memory_.readonly = managed->flags & dlpack::kReadOnly;
    }
    read_tensor(managed->tensor);
  }

 private:
  // ---- numpy: the buffer protocol; the dtypes of ml_dtypes lack it, so they are viewed as unsigned integers ----
  nb::object view_of_numpy() {
    nb::object numpy = nb::module_::import_("sys").attr("modules").attr("get")("numpy");
    if (numpy.is_none() || !nb::isinstance(object_, numpy.attr("ndarray"))) return nb::object();
    nb::object dtype = object_.attr("dtype");
    constexpr int kUserDefined = 2;
    if (nb::cast<int>(dtype.attr("isbuiltin")) != kUserDefined) return nb::borrow(object_);
    if (!dtype.attr("isnative").is(nb::bool_(true))) refuse(object_, "big-endian elements");
    const std::string name = nb::cast<std::string>(dtype.attr("name"));
    extension_dtype_ = extension_dtype(name);
    if (extension_dtype_ < 0) refuse(object_, "dtype " + name + " has no ckpt dtype of the same layout");
    return object_.attr("view")(extension_dtype_ == CKPT_DTYPE_BF16 ? "u2" : "u1");
  }

  // bf16 and float8 only: int4, float6 and the like take a byte each in numpy, but are packed in ckpt.
  static int32_t extension_dtype(const std::string& name) {
    if (name == "bfloat16") return CKPT_DTYPE_BF16;
    if (name.rfind("float8_", 0) != 0) return -1;
    const int32_t found = ckpt_dtype_find(("f8_" + name.substr(7)).c_str());
    return found > 0 && ckpt_dtype_bits(found) == 8 ? found : -1;
  }

  // ---- View: its buffer could not tell the dtype of bf16 and packed elements ----
  void take_view() {
    if (!nb::inst_ready(object_)) refuse(object_, "it was never made");
    if (writable_) refuse(object_, "it is read-only");
    const View& view = nb::cast<const View&>(object_);
    memory_.data = const_cast<void*>(view.data());
    memory_.dtype = view.dtype();
    memory_.shape = view.extents();
    memory_.strides = view.strides();
    memory_.readonly = true;
    memory_.release_ = [held = nb::borrow(object_)]() mutable { held.reset(); };
    measure();
  }

  // ---- elements of a buffer ----
  void read_byte_strides(const Py_buffer& found) {
    for (int i = 0; i < found.ndim; i++) {
      if (found.strides[i] % found.itemsize != 0 && found.shape[i] > 1)
        refuse(object_, "a stride of " + std::to_string(found.strides[i]) + " bytes splits elements of " +
                            std::to_string(found.itemsize));
      memory_.strides.push_back(found.strides[i] / found.itemsize);
    }
  }

  int32_t format_dtype(const char* format, Py_ssize_t itemsize) {
    const std::string whole = format;
    const bool big = *format == '>' || *format == '!';
    if (std::strchr("@=<>!", *format)) format++;
    const bool complex = *format == 'Z';
    const char letter = complex ? format[1] : format[0];
    const int bits = static_cast<int>(itemsize) * 8;
    if (letter == 0 || format[complex ? 2 : 1] != 0) refuse(object_, "elements of format '" + whole + "'");
    if (big && itemsize > 1) refuse(object_, "big-endian elements");
    if (complex && std::strchr("efd", letter)) return CKPT_DTYPE(5, bits);
    if (!complex && std::strchr("efd", letter)) return CKPT_DTYPE(2, bits);
    if (!complex && letter == '?') return CKPT_DTYPE_BOOL;
    if (!complex && std::strchr("bhilqn", letter)) return CKPT_DTYPE(0, bits);
    if (!complex && std::strchr("BHILQNc", letter)) return CKPT_DTYPE(1, bits);
    refuse(object_, "elements of format '" + whole + "'");
  }

  // ---- DLPack ----
  void take_dlpack() {
    read_device();
    if (memory_.device_type == dlpack::kCudaHost) memory_.device_type = dlpack::kCpu;  // pinned: the CPU reads it too
    if (memory_.device_type != dlpack::kCpu && memory_.device_type != dlpack::kCuda &&
        memory_.device_type != dlpack::kCudaManaged)
      raise(CKPT_UNSUPPORTED,
            "memory on device " + std::to_string(memory_.device_type) + ":" + std::to_string(memory_.device_id) +
                " (DLPack's numbers): only memory of the CPU (1) and of CUDA (2, 13) is taken; copy it there first "
                "(tensor.cpu())",
            {{"expected", "1"}, {"found", std::to_string(memory_.device_type)}});
    nb::object source = nb::borrow(object_);
    if (flag(source, "requires_grad")) source = source.attr("detach")();
    if (memory_.device_type != dlpack::kCpu) find_stream();
    if (asks(source, "is_neg")) refuse(object_, "its negation is pending; call resolve_neg() first");
    nb::object capsule = capsule_of(source);
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedVersioned::kName))
      take_capsule<dlpack::ManagedVersioned>(capsule);
    else
      take_capsule<dlpack::Managed>(capsule);
    // jax arrays never change, but not every version marks the capsule as read-only.
    const std::string module = nb::cast<std::string>(object_.type().attr("__module__"));
    if (module.rfind("jax", 0) == 0) memory_.readonly = true;
    if (writable_ && memory_.readonly) refuse(object_, "it is read-only");
  }

  void read_device() {
    try {
      nb::object device = object_.attr("__dlpack_device__")();
      memory_.device_type = nb::cast<int32_t>(nb::int_(device[0]));
      memory_.device_id = nb::cast<int32_t>(nb::int_(device[1]));
    } catch (nb::python_error& error) {
      refuse(object_, error);
    }
  }

  // Where the caller's work on a device's memory stands. torch tells its current stream, which is asked again when the
  // save or load begins. Of others, DLPack makes the legacy default stream wait for the array.
  void find_stream() {
    memory_.stream = 1;
    nb::object torch = nb::module_::import_("sys").attr("modules").attr("get")("torch");
    if (torch.is_none() || !nb::isinstance(object_, torch.attr("Tensor"))) return;
    torch_cuda_ = torch.attr("cuda");
    const nb::object current = torch_cuda_.attr("current_stream")(memory_.device_id);
    const auto handle = nb::cast<int64_t>(nb::int_(current.attr("cuda_stream")));
    memory_.stream = handle == 0 ? 1 : handle;
  }

  // Makes the device torch's current one: torch exports nothing from others.
  class OnTorchsDevice {
   public:
    OnTorchsDevice(const nb::object& torch_cuda, int32_t device) {
      if (!torch_cuda.is_valid()) return;
      context_ = torch_cuda.attr("device")(device);
      context_.attr("__enter__")();
    }
    ~OnTorchsDevice() {
      if (!context_.is_valid()) return;
      const nb::error_scope pending;
      try {
        context_.attr("__exit__")(nb::none(), nb::none(), nb::none());
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("the end of torch.cuda.device");
      }
    }
    OnTorchsDevice(const OnTorchsDevice&) = delete;
    OnTorchsDevice& operator=(const OnTorchsDevice&) = delete;

   private:
    nb::object context_;
  };

  static bool flag(nb::handle object, const char* name) {
    return nb::hasattr(object, name) && object.attr(name).is(nb::bool_(true));
  }
  static bool asks(nb::handle object, const char* name) {
    return nb::hasattr(object, name) && object.attr(name)().is(nb::bool_(true));
  }

  // Asks for version 1 without a copy first; older producers take no arguments.
  nb::object capsule_of(nb::handle source) {
    nb::dict wanted;
    wanted["max_version"] = nb::make_tuple(dlpack::kMajor, 3);
    wanted["copy"] = false;
    nb::dict oldest;
    if (memory_.device_type != dlpack::kCpu)
      wanted["stream"] = oldest["stream"] = nb::int_(torch_cuda_.is_valid() ? -1 : 1);
    try {
      const OnTorchsDevice there(torch_cuda_, memory_.device_id);
      try {
        return source.attr("__dlpack__")(**wanted);
      } catch (nb::python_error& error) {
        if (!error.matches(PyExc_TypeError)) throw;
      }
      return source.attr("__dlpack__")(**oldest);
    } catch (nb::python_error& error) {
      refuse(object_, error);
    }
  }

  void read_tensor(const dlpack::Tensor& tensor) {
    const dlpack::DataType type = tensor.dtype;
    if (type.code == dlpack::kOpaqueHandle) refuse(object_, "its elements are opaque handles");
    memory_.dtype = CKPT_DTYPE(type.code, type.bits);
    memory_.data = tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
    memory_.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
    if (tensor.strides)
      memory_.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    else
      set_contiguous();
    if (type.lanes != 1) unfold_lanes(type.lanes);
    measure();
  }

  void set_contiguous() {
    memory_.strides.assign(memory_.shape.size(), 1);
    for (size_t i = memory_.shape.size(); i-- > 1;)
      memory_.strides[i - 1] = memory_.strides[i] * std::max<int64_t>(memory_.shape[i], 1);
  }

  // An element of several lanes (torch.float4_e2m1fn_x2: two of 4 bits) becomes as many elements of the last dimension.
  void unfold_lanes(int64_t lanes) {
    if (memory_.shape.empty() || (memory_.shape.back() > 1 && memory_.strides.back() != 1))
      refuse(object_, "its elements of " + std::to_string(lanes) + " lanes are not neighbours");
    memory_.shape.back() *= lanes;
    for (size_t i = 0; i + 1 < memory_.strides.size(); i++) memory_.strides[i] *= lanes;
    memory_.strides.back() = 1;
  }

  // Computes how far the elements reach; refuses strides that the C API does not take.
  void measure() {
    int64_t last = 0, product = 1, step = 0;
    for (int64_t extent : memory_.shape)
      if (__builtin_mul_overflow(product, extent, &product)) refuse(object_, "it has more than 2^63 elements");
    const int64_t count = memory_.count();
    for (size_t i = 0; i < memory_.shape.size(); i++) {
      if (memory_.shape[i] <= 1 || count == 0) {
        memory_.strides[i] = std::max<int64_t>(memory_.strides[i], 0);
        continue;
      }
      if (memory_.strides[i] < 0)
        refuse(object_,
               "dimension " + std::to_string(i) + " has the negative stride " + std::to_string(memory_.strides[i]));
      if (__builtin_mul_overflow(memory_.shape[i] - 1, memory_.strides[i], &step) ||
          __builtin_add_overflow(last, step, &last))
        refuse(object_, "its strides reach further than 2^63 elements");
    }
    const uint64_t bits = static_cast<uint64_t>(memory_.dtype & 0xff);
    memory_.bytes = count == 0 ? 0 : (static_cast<uint64_t>(last + 1) * bits + 7) / 8;
  }

  Memory& memory_;
  nb::handle object_;
  bool writable_;
  int32_t extension_dtype_ = 0;
  nb::object torch_cuda_;  // of a tensor of torch on a CUDA device
};

Memory::~Memory() {
  if (release_) release_();
}

nb::object Memory::of(nb::handle object, bool writable) {
  if (nb::isinstance<Memory>(object)) {
    if (writable && nb::cast<const Memory&>(object).readonly) refuse(object, "it is read-only");
    return nb::borrow(object);
  }
  Memory* memory = new Memory();
  nb::object made = nb::cast(memory, nb::rv_policy::take_ownership);
  Taker(*memory, object, writable).take();
  return made;
}

PlainArrays::PlainArrays() {
  nb::object modules = nb::module_::import_("sys").attr("modules");
  nb::object numpy = modules.attr("get")("numpy"), torch = modules.attr("get")("torch");
  if (!numpy.is_none()) numpy_array_ = nb::getattr(numpy, "ndarray", nb::none());
  if (torch.is_none()) return;
  torch_tensor_ = nb::getattr(torch, "Tensor", nb::none());
  torch_int8_ = nb::getattr(torch, "int8", nb::none());
  torch_uint8_ = nb::getattr(torch, "uint8", nb::none());
  torch_strided_ = nb::getattr(torch, "strided", nb::none());
  to_dlpack_ = nb::getattr(nb::getattr(torch, "_C", nb::none()), "_to_dlpack", nb::none());
}

nb::object PlainArrays::take(nb::handle value, bool writable) const {
  const nb::handle type = value.type();
  try {
    if (numpy_array_.is_valid() && type.is(numpy_array_)) {
      Memory* memory = new Memory();
      nb::object made = nb::cast(memory, nb::rv_policy::take_ownership);
      Taker(*memory, value, writable).take_buffer(value);
      return made;
    }
    if (torch_tensor_.is_valid() && type.is(torch_tensor_)) return of_torch(value);
  } catch (nb::python_error& error) {  // who asks next, takes it or says why not
    if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
  }
  return nb::object();
}

static bool is_false(nb::handle tensor, const char* method) { return tensor.attr(method)().is(nb::bool_(false)); }

nb::object PlainArrays::of_torch(nb::handle tensor) const {
  if (!tensor.attr("layout").is(torch_strided_) || !tensor.attr("requires_grad").is(nb::bool_(false)) ||
      !is_false(tensor, "is_conj") || !is_false(tensor, "is_neg"))
    return nb::object();
  nb::object capsule = to_dlpack_(tensor);
  const auto* managed =
      static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::Managed::kName));
  if (!managed) throw nb::python_error();
  const dlpack::DataType type = managed->tensor.dtype;
  const bool complex32 = type.code == 5 && type.bits == 32;  // it may be one of two dtypes of torch
  if (managed->tensor.device.type != dlpack::kCpu || type.lanes != 1 || type.bits < 8 || complex32) return nb::object();
  if (type.bits == 8 && type.code < 2) {  // so are integers of fewer bits exported
    const nb::object dtype = tensor.attr("dtype");
    if (!dtype.is(type.code == 0 ? torch_int8_ : torch_uint8_)) return nb::object();
  }
  Memory* memory = new Memory();
  nb::object made = nb::cast(memory, nb::rv_policy::take_ownership);
  Taker(*memory, tensor, false).take_capsule<dlpack::Managed>(capsule);
  const bool may_have_format = memory->shape.size() == 4 || memory->shape.size() == 5;
  return may_have_format && !memory->contiguous() ? nb::object() : made;
}

int64_t Memory::count() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

bool Memory::contiguous() const {
  int64_t expected = 1;
  if (count() == 0) return true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

static nb::tuple tuple_of(const Extents& values) { return nb::tuple(nb::cast(values)); }

void bind_memory(nb::module_& m) {
  nb::class_<Memory> memory(
      m, "Memory",
      "The memory of an array: where it lies and what its elements are. It keeps the array's memory "
      "alive and in place.\n\nSave and Load make one for each array; make one yourself only to give the "
      "same array to several of them.");
  bind_repr(memory);
  memory
      .def_static(
          "of", &Memory::of, nb::arg("array"), nb::arg("writable") = false,
          nb::sig("def of(array: object, writable: bool = False) -> Memory"),
          "The memory of anything with DLPack or the buffer protocol, never a copy. Raises UnsupportedError if a copy "
          "would be needed, or if the array is read-only and `writable` is set; TypeError for other objects.")
      .def_prop_ro(
          "address", [](const Memory& self) { return reinterpret_cast<uintptr_t>(self.data); },
          "Address of the first element.")
      .def_ro("nbytes", &Memory::bytes,
              "Bytes from the first element to the end of the last, gaps between strides included.")
      .def_prop_ro(
          "dtype", [](const Memory& self) { return nb::module_::import_("ckpt.enums").attr("DType")(self.dtype); },
          nb::sig("def dtype(self) -> ckpt.enums.DType"), "Of the elements.")
      .def_prop_ro(
          "shape", [](const Memory& self) { return tuple_of(self.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "In elements.")
      .def_prop_ro(
          "strides", [](const Memory& self) { return tuple_of(self.strides); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "In elements.")
      .def_prop_ro("contiguous", &Memory::contiguous, "Whether the elements lie in row-major order without gaps.")
      .def_prop_ro(
          "device", [](const Memory& self) { return nb::make_tuple(self.device_type, self.device_id); },
          nb::sig("def device(self) -> tuple[int, int]"), "DLPack's numbers of the device: (1, 0) is the CPU.")
      .def_ro("stream", &Memory::stream,
              "Of memory on a CUDA device: the stream behind whose work it is copied; 1 is the legacy default stream.")
      .def_ro("readonly", &Memory::readonly, "Whether loads are refused.");
}

}  // namespace ckpt_py
