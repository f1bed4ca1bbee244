#include "region.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace ckpt_py {

static std::string to_text(const Extents& extents) {
  std::string out = "(";
  for (int64_t extent : extents) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
  return out + ")";
}

static void expect_shape(const char* what, const std::optional<Extents>& given, const Extents& found) {
  if (given && *given != found)
    raise(CKPT_INVALID,
          std::string(what) + ": expected the array's shape " + to_text(found) + ", found " + to_text(*given),
          {{"expected", to_text(found)}, {"found", to_text(*given)}});
}

static void need(bool given, const char* message) {
  if (!given) raise(CKPT_INVALID, message);
}

// An array describes itself: its shape is the extent of a box, its size the length of a flat range.
static ckpt::Tensor of_array(const Memory& memory, const Region& region) {
  need(!region.strides, "strides= is for raw memory (dtype=); an array has its own");
  need(!region.device, "device= is for raw memory (dtype=); an array has its own");
  const bool flat = region.flat_offset || region.flat_size, box = region.offset || region.extent;
  need(!(flat && box), "offset= and extent= (a box) or flat_offset= and flat_size= (a flat range), not both");
  if (flat) {
    need(region.shape && region.flat_offset, "a flat range needs flat_offset= and shape= of the whole tensor");
    if (!memory.contiguous()) raise(CKPT_UNSUPPORTED, "a flat range must be contiguous memory");
    const int64_t count = memory.count();
    if (region.flat_size && *region.flat_size != count)
      raise(CKPT_INVALID, "flat_size: the array has " + std::to_string(count) + " elements");
    return ckpt::Tensor(memory.dtype, *region.shape).flat(*region.flat_offset, count);
  }
  if (box) {
    need(region.shape && region.offset, "a box needs offset= and shape= of the whole tensor");
    expect_shape("extent", region.extent, memory.shape);
  } else {
    expect_shape("shape", region.shape, memory.shape);
  }
  ckpt::Tensor tensor(memory.dtype, box ? *region.shape : memory.shape);
  if (box) tensor.box(*region.offset, memory.shape);
  if (!memory.contiguous()) tensor.strides(memory.strides);
  return tensor;
}

static ckpt::Tensor of_bytes(const Region& region) {
  need(region.shape.has_value(), "dtype= needs shape=");
  ckpt::Tensor tensor(dtype(region.dtype), *region.shape);
  const bool flat = region.flat_offset || region.flat_size, box = region.offset || region.extent;
  need(!(flat && box), "offset= and extent= (a box) or flat_offset= and flat_size= (a flat range), not both");
  if (flat) {
    need(region.flat_offset && region.flat_size, "a flat range of raw memory needs flat_offset= and flat_size=");
    tensor.flat(*region.flat_offset, *region.flat_size);
  }
  if (box) {
    need(region.offset && region.extent, "a box of raw memory needs offset= and extent=");
    tensor.box(*region.offset, *region.extent);
  }
  if (region.strides) tensor.strides(*region.strides);
  return tensor;
}

static Placed place_unnamed(nb::handle data, const Region& region, bool writable) {
  const bool raw = !region.dtype.is_none();
  nb::object kept = data.is_none() ? nb::none() : Memory::of(data, writable);
  if (!raw && data.is_none()) raise(CKPT_INVALID, "without memory dtype= and shape= must be given");
  const Memory nothing;
  const Memory& memory = data.is_none() ? nothing : nb::cast<const Memory&>(kept);
  if (raw && !memory.contiguous()) raise(CKPT_UNSUPPORTED, "raw memory (dtype=) must be contiguous");
  ckpt::Tensor tensor = raw ? of_bytes(region) : of_array(memory, region);
  if (memory.stream != 0) tensor.stream(memory.stream);
  if (region.first_replica) tensor.first_replica();
  if (region.replica)
    tensor.replica(std::get<0>(*region.replica), std::get<1>(*region.replica), std::get<2>(*region.replica));
  ckpt::Device device{memory.device_type, memory.device_id};
  if (region.device) device = {std::get<0>(*region.device), std::get<1>(*region.device)};
  return {tensor, kept, memory.data, memory.bytes, device};
}

Placed place(const std::string& name, nb::handle data, const Region& region, bool writable) {
  try {
    return place_unnamed(data, region, writable);
  } catch (nb::python_error& error) {
    if (error.matches(nb::module_::import_("ckpt.errors").attr("Error"))) error.value().attr("_name_tensor")(name);
    throw;
  }
}

}  // namespace ckpt_py
