// New arrays of numpy and torch for the tensors of a load, in memory of ckpt_buffer_alloc.
#pragma once

#include <map>

#include "load.h"

namespace ckpt_py {

// Memory that arrays share; it is freed with the last of them.
class Slab {
 public:
  explicit Slab(uint64_t size);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  void* data = nullptr;
  const uint64_t size;
};

// A slab as an object with the buffer protocol, writable.
struct Buffer {
  std::shared_ptr<Slab> slab;
};

// Makes arrays, and asks the load to fill them.
class NewArrays {
 public:
  // `mixed`: tensors may have an attribute that says that they belong to another framework.
  NewArrays(nb::object load, nb::object reader, nb::object framework, nb::dict made, bool mixed);
  // The array for tensor `name`, in `made` too; an invalid object if the framework's empty() has to make it: an alias,
  // an empty tensor, one of another framework, or of a dtype that does not go this way.
  nb::object make(nb::handle name);
  // Adds what was made to the load.
  void add();

 private:
  struct Shared {
    std::shared_ptr<Slab> slab;
    nb::object buffer;  // the slab as a Buffer
  };
  struct Place {
    Shared in;
    uint64_t offset;
    void* data() const { return static_cast<char*>(in.slab->data) + offset; }
  };
  // Small arrays lie in a slab, one after another; a large one has a slab of its own.
  Place place(uint64_t bytes);
  Shared new_slab(uint64_t bytes);
  nb::object of_torch(const ckpt::TensorInfo& info, const Place& at);

  nb::object load_, reader_, framework_;
  nb::dict made_;
  const bool torch_, mixed_;
  const std::string saved_as_;
  nb::object make_;                       // numpy.ndarray, or torch's from_dlpack
  std::map<int32_t, nb::object> dtypes_;  // the framework's
  Shared small_;
  uint64_t used_ = 0;  // of it
  Batch<void*> batch_;
  nb::list kept_;
};

void bind_arrays(nb::module_& m);

}  // namespace ckpt_py
