#include "cli/tensor_source.h"

#include <algorithm>
#include <cstring>

#include "cli/array.h"
#include "cli/format.h"
#include "cli/numbers.h"

namespace cli {
namespace {

constexpr uint64_t kSlabBytes = 64 << 20;

bool library_converts(int32_t dtype) {
  return dtype == CKPT_DTYPE_F32 || dtype == CKPT_DTYPE_F16 || dtype == CKPT_DTYPE_BF16;
}

uint64_t packed_bytes(uint64_t elements, int32_t dtype) {
  uint64_t bits = static_cast<uint64_t>(dtype % 256);
  return elements / 8 * bits + (elements % 8 * bits + 7) / 8;
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& extent) {
  std::vector<int64_t> strides(extent.size(), 1);
  for (size_t d = extent.size(); d > 1; --d) strides[d - 2] = strides[d - 1] * extent[d - 1];
  return strides;
}

// The one or two ranges of a dimension of the slice that a summary shows, and where they go.
struct Range {
  int64_t from, size, to;
};
std::vector<Range> shown_ranges(int64_t extent) {
  if (!has_gap(extent)) return {{0, extent, 0}};
  return {{0, kEdge, 0}, {extent - kEdge, kEdge, kEdge}};
}

std::vector<int64_t> shown_extent(const Slice& slice) {
  std::vector<int64_t> extent;
  for (int64_t e : slice.extent) extent.push_back(shown(e));
  return extent;
}

// Visits the corners of the slice: each takes one of the shown ranges in each dimension.
void for_each_corner(const Slice& slice, const std::function<void(const Slice& corner, int64_t to)>& visit) {
  size_t ndim = slice.extent.size();
  std::vector<int64_t> strides = row_major_strides(shown_extent(slice));
  std::vector<size_t> choice(ndim, 0);
  while (true) {
    Slice corner = slice;
    int64_t to = 0;
    for (size_t d = 0; d < ndim; ++d) {
      Range range = shown_ranges(slice.extent[d])[choice[d]];
      corner.offset[d] += range.from;
      corner.extent[d] = range.size;
      to += range.to * strides[d];
    }
    visit(corner, to);
    size_t d = ndim;
    while (d > 0 && ++choice[d - 1] == shown_ranges(slice.extent[d - 1]).size()) choice[--d] = 0;
    if (d == 0) return;
  }
}

// Copies the shown elements bit by bit, for packed dtypes.
std::vector<std::byte> pick_packed(const Slice& slice, int bits, const std::vector<std::byte>& all) {
  std::vector<int64_t> extent = shown_extent(slice), strides = row_major_strides(slice.extent);
  uint64_t count = Slice{extent, extent}.volume();
  std::vector<std::byte> out((count * static_cast<uint64_t>(bits) + 7) / 8);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t rest = i, from = 0;
    for (size_t d = extent.size(); d-- > 0;) {
      auto size = static_cast<uint64_t>(extent[d]);
      auto at = static_cast<int64_t>(rest % size);
      rest /= size;
      bool after_gap = has_gap(slice.extent[d]) && at >= kEdge;
      from += static_cast<uint64_t>((after_gap ? slice.extent[d] - 2 * kEdge + at : at) * strides[d]);
    }
    for (uint64_t bit = 0; bit < static_cast<uint64_t>(bits); ++bit) {
      uint64_t source = from * static_cast<uint64_t>(bits) + bit, target = i * static_cast<uint64_t>(bits) + bit;
      bool set = (std::to_integer<unsigned>(all[source / 8]) >> (source % 8) & 1) != 0;
      if (set) out[target / 8] |= std::byte{1} << (target % 8);
    }
  }
  return out;
}

}  // namespace

TensorSource::TensorSource(const ckpt::Reader& reader, const ckpt::Options& options, const std::string& name,
                           const std::string& as)
    : name_(name) {
  const ckpt::TensorInfo info = reader.tensor(name);
  shape_ = ckpt::shape_of(info);
  stored_dtype_ = info.dtype;
  loader_ = [&reader, &options, name](const ckpt::Tensor& wanted, ckpt::MutableMemory memory) {
    auto load = ckpt::Load::create(reader, options);
    load.add_tensor(name, wanted, memory);
    load.run();
  };
  choose_dtype(as, true);
}

TensorSource::TensorSource(const std::string& name, int32_t dtype, std::vector<int64_t> shape, Loader loader,
                           const std::string& as)
    : name_(name), shape_(std::move(shape)), loader_(std::move(loader)), stored_dtype_(dtype) {
  choose_dtype(as, false);
}

void TensorSource::choose_dtype(const std::string& as, bool loader_converts) {
  memory_dtype_ = dtype_ = stored_dtype_;
  if (as.empty()) return;
  std::optional<int32_t> wanted = ckpt::dtype_find(as);
  if (!wanted) invalid("--as: no dtype is called '" + as + "'");
  if (*wanted == stored_dtype_) return;
  dtype_ = *wanted;
  if (loader_converts && library_converts(stored_dtype_) && library_converts(dtype_))
    memory_dtype_ = dtype_;
  else if (dtype_ != CKPT_DTYPE_F32 || !has_f32(stored_dtype_))
    fail(CKPT_UNSUPPORTED,
         "cannot convert tensor " + name_ + " from " + dtype_text(stored_dtype_) + " to " + as +
             (loader_converts ? ": f32, f16 and bf16 convert into each other, smaller floats into f32"
                              : ": of a file that is no checkpoint, smaller floats convert into f32"));
}

// Elements that another one's number is as good as: those of a dimension with stride 0 in both.
Slice TensorSource::distinct(const TensorSource& other) const {
  constexpr double kMostElements = 0x1p32, kMostTimes = 4096;
  Slice slice = Slice::whole(shape_);
  double elements = 1, places = 1;
  for (size_t d = 0; d < shape_.size(); ++d) {
    const bool repeats = d < strides_.size() && strides_[d] == 0 && d < other.strides_.size() && other.strides_[d] == 0;
    if (repeats) slice.extent[d] = std::min<int64_t>(slice.extent[d], 1);
    elements *= static_cast<double>(slice.extent[d]);
    if (d < strides_.size()) places += static_cast<double>(strides_[d]) * static_cast<double>(slice.extent[d] - 1);
  }
  if (!strides_.empty() && elements > kMostElements && elements / places > kMostTimes)
    fail(CKPT_UNSUPPORTED, "tensor " + name_ + ": a view that names each element of its memory " +
                               strformat("{} times; option --structure-only leaves values out",
                                         static_cast<uint64_t>(std::min(elements / places, 0x1p62))));
  return slice;
}

void TensorSource::load(const Slice& slice, const std::vector<int64_t>& strides, std::byte* data,
                        uint64_t bytes) const {
  ckpt::Tensor tensor(memory_dtype_, shape());
  if (memory_dtype_ != stored_dtype_) tensor.convert();
  // A box of a packed dtype must begin and end at byte boundaries; a whole tensor need not.
  if (slice != Slice::whole(shape())) tensor.box(slice.offset, slice.extent);
  if (!strides.empty()) tensor.strides(strides);
  loader_(tensor, {data, bytes});
}

void TensorSource::convert(uint64_t count, std::vector<std::byte>* data) const {
  if (marks_.conj || marks_.neg) {
    if (!can_turn(memory_dtype_))
      fail(CKPT_UNSUPPORTED, "tensor " + name_ +
                                 ": torch negates its elements when it uses them, which ckpt does not " + "with " +
                                 dtype_text(memory_dtype_));
    turn(marks_, memory_dtype_, data);
  }
  if (dtype_ == memory_dtype_) return;
  std::vector<std::byte> floats(count * sizeof(float));
  for (uint64_t i = 0; i < count; ++i) {
    float value = to_f32(memory_dtype_, *data, i);
    std::memcpy(floats.data() + i * sizeof value, &value, sizeof value);
  }
  *data = std::move(floats);
}

std::vector<std::byte> TensorSource::read(const Slice& slice) const {
  uint64_t count = slice.volume();
  std::vector<std::byte> data(packed_bytes(count, memory_dtype_));
  if (count > 0) load(slice, {}, data.data(), data.size());
  convert(count, &data);
  return data;
}

std::vector<std::byte> TensorSource::load_corners(const Slice& slice) const {
  std::vector<int64_t> extent = shown_extent(slice), strides = row_major_strides(extent);
  uint64_t width = static_cast<uint64_t>(memory_dtype_ % 256) / 8;
  std::vector<std::byte> data(Slice{extent, extent}.volume() * width);
  for_each_corner(slice, [&](const Slice& corner, int64_t to) {
    uint64_t start = static_cast<uint64_t>(to) * width;
    load(corner, strides, data.data() + start, data.size() - start);
  });
  return data;
}

std::vector<std::byte> TensorSource::read_summary(const Slice& slice) const {
  if (slice.volume() == 0) return read(slice);
  std::vector<std::byte> data;
  if (packed()) {
    std::vector<std::byte> all(packed_bytes(slice.volume(), memory_dtype_));
    load(slice, {}, all.data(), all.size());
    data = pick_packed(slice, memory_dtype_ % 256, all);
  } else {
    data = load_corners(slice);
  }
  std::vector<int64_t> extent = shown_extent(slice);
  convert(Slice{extent, extent}.volume(), &data);
  return data;
}

void TensorSource::read_slabs(const Slice& slice,
                              const std::function<void(const std::vector<std::byte>&)>& visit) const {
  uint64_t width = static_cast<uint64_t>(std::max(memory_dtype_ % 256, dtype_ % 256)) / 8;
  uint64_t limit = packed() ? std::max<uint64_t>(1, slice.volume()) : std::max<uint64_t>(1, kSlabBytes / width);
  for_each_slab(slice, limit, [&](const Slice& slab) { visit(read(slab)); });
}

}  // namespace cli
