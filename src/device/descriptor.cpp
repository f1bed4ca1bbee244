// Turns the caller's descriptor into a checked region and memory.
#include "device/descriptor.h"

#include <limits>

#include "plan/box.h"

namespace ckpt::device {

static Status read_extents(const int64_t* values, int ndim, const char* what, Shape* out) {
  out->ndim = ndim;
  for (int i = 0; i < ndim; i++) {
    if (values[i] < 0)
      return Status(CKPT_INVALID, strformat("{}[{}] is {}", what, i, values[i]))
          .with("found", std::to_string(values[i]));
    (*out)[i] = static_cast<uint64_t>(values[i]);
  }
  return Ok();
}

// Ranks put their rows one after the other, so each row has elements and ends at a whole byte.
static Status check_rows(const ckpt_tensor_desc& desc) {
  if (desc.ndim < 1) return Status(CKPT_INVALID, "rows of a scalar: expected ndim 1 or more, found 0");
  uint64_t elements = 0;
  Shape row;
  CKPT_TRY(read_extents(desc.shape + 1, desc.ndim - 1, "shape of a row", &row));
  if (!count_elements(row.span(), &elements)) return Ok();  // so is the tensor, which says it better
  if (elements == 0) return Status(CKPT_INVALID, "rows without elements: shape of a row " + to_text(row));
  if (elements % 8 * static_cast<uint64_t>(desc.dtype & 0xff) % 8 == 0) return Ok();
  return Status(CKPT_UNSUPPORTED,
                strformat("rows of {} elements of {} bits do not end at whole bytes", elements, desc.dtype & 0xff));
}

static Status read_region(const ckpt_tensor_desc& desc, Region* region) {
  switch (desc.region_kind) {
    case CKPT_REGION_WHOLE:
      region->kind = RegionKind::kWhole;
      return Ok();
    case CKPT_REGION_BOX:
      region->kind = RegionKind::kBox;
      CKPT_TRY(read_extents(desc.offset, desc.ndim, "offset", &region->box.offset));
      return read_extents(desc.extent, desc.ndim, "extent", &region->box.extent);
    case CKPT_REGION_FLAT:
      region->kind = RegionKind::kFlat;
      if (desc.flat_offset < 0 || desc.flat_size < 0)
        return Status(CKPT_INVALID, strformat("flat range at {} of {} elements", desc.flat_offset, desc.flat_size));
      region->flat_offset = static_cast<uint64_t>(desc.flat_offset);
      region->flat_size = static_cast<uint64_t>(desc.flat_size);
      return Ok();
    case CKPT_REGION_ROWS:
      region->kind = RegionKind::kRows;
      return check_rows(desc);
    default:
      return Status(CKPT_INVALID, strformat("region kind {}", desc.region_kind));
  }
}

// Strides of the memory in byte units. Packed elements must be neighbours, and rows must start at whole bytes.
static Status read_strides(const ckpt_tensor_desc& desc, const plan::Geometry& geometry, RegionRequest* out) {
  Shape strides;
  CKPT_TRY(read_extents(desc.strides, desc.ndim, "strides", &strides));
  if (desc.region_kind == CKPT_REGION_FLAT) return Status(CKPT_INVALID, "a flat range has no strides");
  int bits = dtype_bits(static_cast<uint16_t>(desc.dtype)), last = desc.ndim - 1;
  for (int i = 0; i < desc.ndim && geometry.packed; i++) {
    if (geometry.one_row)
      return Status(CKPT_INVALID, "packed elements whose rows do not end at whole bytes take no strides");
    uint64_t stride_bits;
    if (i == last ? strides[i] != 1
                  : mul_overflows(strides[i], static_cast<uint64_t>(bits), &stride_bits) || stride_bits % 8 != 0)
      return Status(CKPT_INVALID,
                    strformat("stride {} in dimension {} splits a byte of packed elements", strides[i], i));
    if (i != last) strides[i] = strides[i] * static_cast<uint64_t>(bits) / 8;
  }
  out->memory.strides = strides.dims;
  return Ok();
}

// The bytes of memory up to the end of its last element; INVALID if that overflows.
static Result<uint64_t> reach(const RegionRequest& request) {
  uint64_t last = 0;
  for (int i = 0; i < request.memory_extent.ndim; i++) {
    uint64_t extent = request.memory_extent[i], step;
    if (extent == 0) return uint64_t{0};
    if (mul_overflows(extent - 1, request.memory.strides[static_cast<size_t>(i)], &step) ||
        add_overflows(last, step, &last))
      return Status(CKPT_INVALID, "the strides reach further than 2^64 elements");
  }
  uint64_t bytes;
  if (add_overflows(last, 1, &last) || mul_overflows(last, request.geometry.width, &bytes))
    return Status(CKPT_INVALID, "the strides reach further than 2^64 bytes");
  return bytes;
}

static Status check_fields(const ckpt_tensor_desc& desc) {
  if (desc.ndim < 0 || desc.ndim > kMaxNdim)
    return Status(CKPT_INVALID, strformat("ndim: expected 0 to {}, found {}", kMaxNdim, desc.ndim))
        .with("found", std::to_string(desc.ndim));
  if (desc.dtype < 0 || desc.dtype > std::numeric_limits<uint16_t>::max() || (desc.dtype & 0xff) == 0)
    return Status(CKPT_INVALID,
                  strformat("dtype 0x{:x}: expected a type code * 256 + bits", static_cast<unsigned>(desc.dtype)))
        .with("found", std::to_string(desc.dtype));
  if (desc.flags & ~static_cast<uint32_t>(CKPT_TENSOR_STRIDED | CKPT_TENSOR_CONVERT | CKPT_TENSOR_FIRST_REPLICA))
    return Status(CKPT_INVALID, strformat("tensor flags 0x{:x}", desc.flags));
  return Ok();
}

Status read_desc(const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes, RegionRequest* request) {
  CKPT_TRY(check_fields(desc));
  request->dtype = static_cast<uint16_t>(desc.dtype);
  CKPT_TRY(read_extents(desc.shape, desc.ndim, "shape", &request->shape));
  CKPT_ASSIGN(request->geometry, plan::geometry_of(request->dtype, request->shape));
  CKPT_TRY(read_region(desc, &request->region));
  CKPT_ASSIGN(request->units, plan::to_units(request->geometry, request->dtype, request->shape, request->region));
  uint64_t units = plan::units_of(request->geometry, request->units);
  request->bytes = units * request->geometry.width;
  request->memory_extent = plan::memory_extent(request->geometry, request->units);
  request->memory.data = static_cast<std::byte*>(const_cast<void*>(data));
  request->memory.dtype = request->geometry.dtype;
  request->memory.ndim = request->memory_extent.ndim;
  if (desc.flags & CKPT_TENSOR_STRIDED)
    CKPT_TRY(read_strides(desc, request->geometry, request));
  else
    request->memory.strides = plan::contiguous_strides(request->memory_extent).dims;
  CKPT_ASSIGN(uint64_t needed, reach(*request));
  if (units == 0) needed = 0;
  if (needed > data_bytes || (needed != 0 && !data))
    return Status(CKPT_INVALID, strformat("{} reaches {} bytes into memory of {}", to_text(request->region), needed,
                                          data ? data_bytes : 0))
        .with("expected", needed)
        .with("found", data ? data_bytes : 0);
  request->reach = needed;
  return Ok();
}

Status read_request(std::string_view name, const ckpt_tensor_desc& desc, const void* data, uint64_t data_bytes,
                    Location where, Transfers* transfers, RegionRequest* request) {
  if (Status status = read_desc(desc, data, data_bytes, request); !status.ok()) {
    // Who has no such device cannot say where its memory is.
    if (Status device = transfers->check(where); !device.ok()) status = std::move(device);
    return of_tensor(std::move(status), name);
  }
  auto device = transfers->note(where, data, request->reach, desc.stream);
  if (!device.ok()) return of_tensor(std::move(device).status(), name);
  request->memory.device = *device;
  return Ok();
}

}  // namespace ckpt::device
