#include "interop/src/map/computed.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "device/convert.h"

namespace ckpt::interop {

// Elements of a piece in memory, `stride` elements apart.
struct ComputedFile::Run {
  const Piece* piece = nullptr;
  uint64_t first = 0;  // in the piece
  uint64_t stride = 0, count = 0;
};

namespace {

constexpr uint64_t kStepBytes = 4 << 20;  // of the source
constexpr uint64_t kMostRead =
    3 * kStepBytes;  // for a step, though fewer are wanted: two heads, of which each has half

size_t bytes_of_element(uint16_t dtype) { return static_cast<size_t>(dtype_bits(dtype)) / 8; }

uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

uint64_t place_of(const Shape& index, const Strides& strides) {
  uint64_t place = 0;
  for (int i = 0; i < index.ndim; i++) place += index[i] * static_cast<uint64_t>(strides[static_cast<size_t>(i)]);
  return place;
}

template <size_t kWidth>
void copy_apart(std::byte* out, uint64_t to, const std::byte* in, uint64_t stride, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) std::memcpy(out + i * to * kWidth, in + i * stride * kWidth, kWidth);
}

void copy_run(size_t width, std::byte* out, uint64_t to, const std::byte* in, uint64_t stride, uint64_t count) {
  if (to == 1 && stride == 1) {
    std::memcpy(out, in, count * width);
  } else if (width == 1) {
    copy_apart<1>(out, to, in, stride, count);
  } else if (width == 2) {
    copy_apart<2>(out, to, in, stride, count);
  } else if (width == 4) {
    copy_apart<4>(out, to, in, stride, count);
  } else if (width == 8) {
    copy_apart<8>(out, to, in, stride, count);
  } else {
    copy_apart<16>(out, to, in, stride, count);
  }
}

}  // namespace

// ---- planning ----

Result<ComputedFile::Part> ComputedFile::part_of(const ComputedPart& given, const Shape& shape, FileTable& files) {
  Part part;
  part.shape = given.source->shape;
  part.start = given.view.start();
  part.flat = row_major(part.shape);
  const Strides strides = row_major(shape);
  part.to = given.at * static_cast<uint64_t>(shape.ndim == 0 ? 0 : strides[static_cast<size_t>(given.axis)]);
  for (int i = 0; i < shape.ndim; i++) {
    uint64_t to = given.view.extent(i);
    for (const View::Loop& loop : given.view.axes()[static_cast<size_t>(i)]) {
      to /= std::max<uint64_t>(loop.extent, 1);
      part.loops.push_back(
          {loop.extent, to * static_cast<uint64_t>(strides[static_cast<size_t>(i)]), loop.step, loop.dim});
    }
  }
  bool in_rows = true;
  for (const ForeignPiece& from : given.source->pieces) {
    CKPT_ASSIGN(const Bytes bytes, files.place(from.bytes));
    Piece& piece = part.pieces.emplace_back();
    piece.region = from.region;
    piece.bytes = bytes;
    piece.remote = files.remote_of(from.bytes.file);
    piece.offset = from.bytes.offset;
    piece.strides =
        from.strides.value_or(row_major(from.region.kind == RegionKind::kBox ? from.region.box.extent : part.shape));
    in_rows &= from.region.kind != RegionKind::kBox && (!from.strides || is_row_major(part.shape, piece.strides));
  }
  if (in_rows) flatten(part);
  join_loops(part);
  set_wanted(part, bytes_of_element(given.source->dtype));
  part.spans.assign(part.loops.size() + 1, 0);
  for (size_t i = part.loops.size(); i-- > 0;)
    part.spans[i] = part.spans[i + 1] + (part.loops[i].extent - 1) * part.loops[i].to;
  return part;
}

// Of each piece what lies between the first and the last element that the part may have of it.
void ComputedFile::set_wanted(Part& part, size_t width) {
  Shape low = part.start, high = part.start;
  for (const Loop& loop : part.loops) high[loop.dim] += (loop.extent - 1) * loop.step;
  for (Piece& piece : part.pieces) {
    const Region& region = piece.region;
    uint64_t first = 0, last = 0;
    bool any = true;
    if (region.kind == RegionKind::kFlat) {
      const uint64_t begin = std::max(place_of(low, part.flat), region.flat_offset);
      const uint64_t end = std::min(place_of(high, part.flat) + 1, region.flat_offset + region.flat_size);
      any = begin < end;
      first = begin - region.flat_offset;
      last = end - 1 - region.flat_offset;
    } else {
      for (int i = 0; i < low.ndim; i++) {
        const bool boxed = region.kind == RegionKind::kBox;
        const uint64_t offset = boxed ? region.box.offset[i] : 0;
        const uint64_t begin = std::max(low[i], offset);
        const uint64_t end = std::min(high[i] + 1, boxed ? offset + region.box.extent[i] : part.shape[i]);
        any &= begin < end;
        const auto stride = static_cast<uint64_t>(piece.strides[static_cast<size_t>(i)]);
        first += (begin - offset) * stride;
        last += (end - 1 - offset) * stride;
      }
    }
    piece.wanted = {piece.offset + first * width, piece.offset + (last + 1) * width};
    if (!any) piece.wanted = {piece.offset, piece.offset};
  }
}

// A source whose elements lie in a row has one dimension as well.
void ComputedFile::flatten(Part& part) {
  for (Loop& loop : part.loops) {
    loop.step *= static_cast<uint64_t>(part.flat[static_cast<size_t>(loop.dim)]);
    loop.dim = 0;
  }
  uint64_t elements;
  count_elements(part.shape.span(), &elements);
  part.start = {1, {place_of(part.start, part.flat)}};
  part.shape = {1, {elements}};
  part.flat = row_major(part.shape);
  for (Piece& piece : part.pieces) piece.strides = part.flat;
}

void ComputedFile::join_loops(Part& part) {
  std::vector<Loop> joined;
  for (const Loop& loop : part.loops) {
    if (loop.extent == 1) continue;
    if (!joined.empty()) {
      Loop& outer = joined.back();
      if (outer.dim == loop.dim && outer.to == loop.extent * loop.to && outer.step == loop.extent * loop.step) {
        outer = {outer.extent * loop.extent, loop.to, loop.step, loop.dim};
        continue;
      }
    }
    joined.push_back(loop);
  }
  part.loops = std::move(joined);
}

Result<FileRange> ComputedFile::add(uint16_t from, uint16_t dtype, const Shape& shape,
                                    const std::vector<ComputedPart>& parts, FileTable& files) {
  if (dtype_bits(from) % 8 != 0)
    return Status(CKPT_UNSUPPORTED, strformat("elements of {} bits are not rearranged", dtype_bits(from)));
  if (from != dtype && !device::convertible(from, dtype))
    return Status(CKPT_UNSUPPORTED, strformat("{} is not cast to {}: only f32, f16 and bf16 to each other",
                                              dtype_name(from), dtype_name(dtype)));
  Computed tensor;
  tensor.offset = round_up(size_, kAlign);
  tensor.from = from;
  tensor.dtype = dtype;
  CKPT_ASSIGN(tensor.elements, element_count(shape));
  CKPT_ASSIGN(const uint64_t bytes, element_bytes(tensor.elements, dtype));
  if (tensor.elements == 0) return FileRange{};
  for (const ComputedPart& given : parts) {
    uint64_t elements;
    count_elements(given.view.shape().span(), &elements);
    if (elements == 0) continue;
    CKPT_ASSIGN(Part part, part_of(given, shape, files));
    tensor.parts.push_back(std::move(part));
  }
  if (add_overflows(tensor.offset, bytes, &size_) || size_ >> 46 != 0)
    return Status(CKPT_UNSUPPORTED, "the mapped tensors have more than 64 TiB");
  const uint64_t offset = tensor.offset;
  tensors_.push_back(std::move(tensor));
  return FileRange{SIZE_MAX, offset, bytes};
}

// ---- reading ----

// Calls each(index in the source, loop, count, place in the target) for the runs of [begin, end) of the target.
template <typename F>
Status ComputedFile::walk(const Part& part, uint64_t begin, uint64_t end, F&& each) {
  const Loop one{1, 1, 0, 0};
  Shape index = part.start;
  auto enter = [&](auto& self, size_t level, uint64_t to) -> Status {
    if (part.loops.empty()) return to >= begin && to < end ? each(index, one, uint64_t{1}, to) : Ok();
    const Loop& loop = part.loops[level];
    const uint64_t inner = part.spans[level + 1];
    const uint64_t first = begin > to + inner ? divide_up(begin - to - inner, loop.to) : 0;
    const uint64_t last = end > to ? std::min(loop.extent, divide_up(end - to, loop.to)) : 0;
    if (first >= last) return Ok();
    const uint64_t before = index[loop.dim];
    if (level + 1 == part.loops.size()) {
      index[loop.dim] = before + first * loop.step;
      CKPT_TRY(each(index, loop, last - first, to + first * loop.to));
    } else {
      for (uint64_t i = first; i < last; i++) {
        index[loop.dim] = before + i * loop.step;
        CKPT_TRY(self(self, level + 1, to + i * loop.to));
      }
    }
    index[loop.dim] = before;
    return Ok();
  };
  return enter(enter, 0, part.to);
}

// The piece that has the element, and how many more of the run.
Status ComputedFile::resolve(const Part& part, const Shape& index, const Loop& loop, uint64_t count, Run* run) {
  const auto dim = static_cast<size_t>(loop.dim);
  for (const Piece& piece : part.pieces) {
    const Region& region = piece.region;
    *run = {&piece, 0, loop.step, count};
    if (region.kind == RegionKind::kFlat) {
      const uint64_t at = place_of(index, part.flat);
      if (at < region.flat_offset || at - region.flat_offset >= region.flat_size) continue;
      run->first = at - region.flat_offset;
      run->stride = loop.step * static_cast<uint64_t>(part.flat[dim]);
      if (run->stride != 0) run->count = std::min(count, divide_up(region.flat_size - run->first, run->stride));
      return Ok();
    }
    Shape inside = index;
    bool in = true;
    for (int i = 0; i < index.ndim && region.kind == RegionKind::kBox; i++) {
      in &= index[i] >= region.box.offset[i] && index[i] - region.box.offset[i] < region.box.extent[i];
      inside[i] -= region.box.offset[i];
    }
    if (!in) continue;
    run->first = place_of(inside, piece.strides);
    run->stride = loop.step * static_cast<uint64_t>(piece.strides[dim]);
    if (region.kind == RegionKind::kBox && loop.step != 0)
      run->count = std::min(count, divide_up(region.box.extent[loop.dim] - inside[loop.dim], loop.step));
    return Ok();
  }
  return Status(CKPT_INCOMPLETE, "no piece of the tensor has element " + to_text(index));
}

// Reads what of files on a server, or that are computed themselves, will be looked at. What lies close together is
// read to memory of this call's own; else what the part has of these pieces is spilled, lest each call reads it all.
Result<ComputedFile::Windows> ComputedFile::read(const Part& part, uint64_t begin, uint64_t end, size_t width) {
  Windows windows;
  if (std::none_of(part.pieces.begin(), part.pieces.end(), [](const Piece& piece) { return piece.remote != nullptr; }))
    return windows;
  struct Wanted {
    ByteRange range;
    uint64_t elements;
  };
  std::map<const Piece*, Wanted> wanted;
  auto note = [&](Shape index, const Loop& loop, uint64_t count, uint64_t) -> Status {
    while (count > 0) {
      Run run;
      CKPT_TRY(resolve(part, index, loop, count, &run));
      const uint64_t from = run.piece->offset + run.first * width;
      const uint64_t to = from + ((run.count - 1) * run.stride + 1) * width;
      Wanted& all = wanted.try_emplace(run.piece, Wanted{{from, to}, 0}).first->second;
      all.range = {std::min(all.range.begin, from), std::max(all.range.end, to)};
      all.elements += run.count;
      index[loop.dim] += run.count * loop.step;
      count -= run.count;
    }
    return Ok();
  };
  CKPT_TRY(walk(part, begin, end, note));
  std::erase_if(wanted, [](const auto& of_piece) { return !of_piece.first->remote; });
  uint64_t size = 0, elements = 0;
  for (const auto& [piece, all] : wanted) {
    size += all.range.size();
    elements += all.elements;
  }
  const bool is_apart = size > std::max(kMostRead, 2 * elements * width);
  for (const auto& [piece, all] : wanted) {
    if (is_apart) {
      CKPT_TRY(piece->remote->spill({piece->wanted}));
      continue;
    }
    Window& window = windows[piece];
    window.begin = all.range.begin - piece->offset;
    window.bytes.resize(all.range.size());
    CKPT_TRY(piece->remote->read(all.range.begin, window.bytes));
  }
  return windows;
}

// Elements [begin, end) in the source's dtype.
Status ComputedFile::gather(const Computed& tensor, uint64_t begin, uint64_t end, std::byte* out) {
  const size_t width = bytes_of_element(tensor.from);
  const Busy busy("read", "what a mapping takes");
  for (const Part& part : tensor.parts) {
    CKPT_ASSIGN(const Windows windows, read(part, begin, end, width));
    auto copy = [&](Shape index, const Loop& loop, uint64_t count, uint64_t to) -> Status {
      while (count > 0) {
        Run run;
        CKPT_TRY(resolve(part, index, loop, count, &run));
        const uint64_t last = run.first + (run.count - 1) * run.stride;
        if ((last + 1) * width > run.piece->bytes.size())
          return Status(CKPT_INTERNAL, "a mapped tensor reaches past its source");
        const std::byte* from = run.piece->bytes.data() + run.first * width;
        if (const auto found = windows.find(run.piece); found != windows.end())
          from = found->second.bytes.data() + (run.first * width - found->second.begin);
        copy_run(width, out + (to - begin) * width, loop.to, from, run.stride, run.count);
        index[loop.dim] += run.count * loop.step;
        to += run.count * loop.to;
        count -= run.count;
      }
      return Ok();
    };
    CKPT_TRY(walk(part, begin, end, copy));
  }
  return Ok();
}

// In steps, since what they read of files on a server is beside them in memory.
Status ComputedFile::compute(const Computed& tensor, uint64_t begin, uint64_t end, std::byte* out) {
  const size_t from = bytes_of_element(tensor.from), to = bytes_of_element(tensor.dtype);
  const uint64_t step = kStepBytes / from;
  std::vector<std::byte> buffer(tensor.from == tensor.dtype ? 0 : std::min(step, end - begin) * from);
  for (uint64_t at = begin; at < end; at += step) {
    const uint64_t count = std::min(step, end - at);
    std::byte* place = out + (at - begin) * to;
    CKPT_TRY(gather(tensor, at, at + count, buffer.empty() ? place : buffer.data()));
    if (!buffer.empty()) device::convert(tensor.from, buffer.data(), tensor.dtype, place, count, 1);
  }
  return Ok();
}

// Tensors begin at pages and a request at an element, so borders of ranges are borders of elements.
Status ComputedFile::read_at(uint64_t offset, MutableBytes out) const {
  auto tensor = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                                 [](uint64_t at, const Computed& computed) { return at < computed.offset; });
  if (tensor != tensors_.begin()) --tensor;
  const uint64_t end = offset + out.size();
  for (; tensor != tensors_.end() && tensor->offset < end; ++tensor) {
    const size_t width = bytes_of_element(tensor->dtype);
    const uint64_t from = std::max(offset, tensor->offset), last = tensor->offset + tensor->elements * width;
    const uint64_t to = std::min(end, last);
    if (from >= to) continue;
    if ((from - tensor->offset) % width != 0 || (to - tensor->offset) % width != 0)
      return Status(CKPT_INTERNAL, "a range of a mapped tensor that does not end at an element");
    CKPT_TRY(
        compute(*tensor, (from - tensor->offset) / width, (to - tensor->offset) / width, out.data() + (from - offset)));
  }
  return Ok();
}

}  // namespace ckpt::interop
