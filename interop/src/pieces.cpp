#include "interop/src/pieces.h"

#include <algorithm>
#include <cstring>

#include "interop/src/json.h"
#include "plan/box.h"
#include "plan/coverage.h"
#include "plan/regions.h"

namespace ckpt::interop {

namespace {

Region whole_if_it_is(const Region& region, const Shape& shape, uint64_t elements) {
  const bool whole = (region.kind == RegionKind::kBox && region.box == Box::whole(shape)) ||
                     (region.kind == RegionKind::kFlat && region.flat_offset == 0 && region.flat_size == elements);
  return whole ? Region() : region;
}

Shape shape_of_region(const Region& region, const Shape& shape, uint64_t elements) {
  if (region.kind == RegionKind::kBox) return region.box.extent;
  if (region.kind != RegionKind::kFlat) return shape;
  return Shape::of(std::span(&elements, 1));
}

std::vector<uint64_t> numbers_of(const Region& region) {
  std::vector<uint64_t> numbers(1 + region_number_count(region.kind, static_cast<size_t>(region.box.ndim())));
  numbers[0] = static_cast<uint64_t>(region.kind);
  put_region(region, numbers.data() + 1);
  return numbers;
}

}  // namespace

constexpr uint64_t kMostRepeated = 1 << 26;  // elements of more than the bytes have

// By strides. What both repeat is compared once.
static Result<bool> same_by_strides(uint16_t dtype, Shape shape, const Held& a, const Held& b) {
  uint64_t count = 0;
  if (!count_elements(shape.span(), &count) || count == 0) return true;
  const auto width = static_cast<uint64_t>(dtype_bits(dtype)) / 8;
  const Strides row = row_major(shape), left = a.strides.value_or(row), right = b.strides.value_or(row);
  for (int d = 0; d < shape.ndim; d++)
    if (left[static_cast<size_t>(d)] == 0 && right[static_cast<size_t>(d)] == 0) shape[d] = 1;
  count_elements(shape.span(), &count);
  if (count > std::max<uint64_t>({kMostRepeated, a.bytes.size(), b.bytes.size()}))
    return Status(CKPT_UNSUPPORTED,
                  strformat("{} elements of {} bytes, which two files repeat in different ways", count, a.bytes.size()))
        .with("found", count);
  Shape at{.ndim = shape.ndim};
  for (uint64_t i = 0; i < count; i++) {
    uint64_t from = 0, to = 0;
    for (int d = 0; d < shape.ndim; d++) {
      from += at[d] * static_cast<uint64_t>(left[static_cast<size_t>(d)]);
      to += at[d] * static_cast<uint64_t>(right[static_cast<size_t>(d)]);
    }
    if (std::memcmp(a.bytes.data() + from * width, b.bytes.data() + to * width, width) != 0) return false;
    for (int d = shape.ndim; d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
  return true;
}

// In a row, or by the same strides with the same gaps.
static Result<bool> same_rows(const std::vector<Held>& all, const Folder& folder) {
  bool same = true;
  const Status compared = in_windows(all[0].bytes.size(), [&](uint64_t begin, uint64_t size) -> Status {
    if (!same) return Ok();
    std::vector<Bytes> windows;
    for (const Held& held : all) windows.push_back(held.bytes.subspan(begin, size));
    if (folder) CKPT_TRY(folder->need(windows));
    const Busy busy("read", "a tensor that several files have");
    for (const Bytes window : windows) same = same && std::memcmp(window.data(), windows[0].data(), size) == 0;
    for (const Bytes window : windows)
      if (folder) folder->release(window);
    return Ok();
  });
  CKPT_TRY(compared);
  return same;
}

Result<bool> same_elements(uint16_t dtype, const Shape& shape, const std::vector<Held>& all, const Folder& folder) {
  const auto& first = all[0];
  const bool alike = std::ranges::all_of(
      all, [&](const Held& held) { return held.strides == first.strides && held.bytes.size() == first.bytes.size(); });
  const bool in_a_row = std::ranges::none_of(all, [](const Held& held) { return held.strides.has_value(); });
  if (alike) {
    CKPT_ASSIGN(const bool same, same_rows(all, folder));
    if (same || in_a_row) return same;
  }
  if (in_a_row) return false;
  for (const Held& held : all)
    if (folder) CKPT_TRY(folder->need({held.bytes}));
  for (const Held& held : all) {
    CKPT_ASSIGN(const bool same, same_by_strides(dtype, shape, first, held));
    if (!same) return false;
  }
  return true;
}

size_t PieceJoiner::number_of(const std::string& file) {
  const auto [found, is_new] = by_file_.try_emplace(file, files_.size());
  if (is_new) files_.push_back(file);
  return found->second;
}

Status PieceJoiner::refuse(const Joined& joined, const std::string& file, ckpt_status code,
                           const std::string& what) const {
  const std::string path = file.empty() ? where_ : where_ + '/' + file;
  return Status(code, path + ": tensor " + shown(joined.name) + ": " + what)
      .with("path", path)
      .with("tensor", joined.name);
}

Result<size_t> PieceJoiner::tensor(const std::string& name, uint16_t dtype, const Shape& shape,
                                   const std::string& file) {
  const auto [found, is_new] = by_name_.try_emplace(name, tensors_.size());
  if (is_new) {
    Joined joined{name, dtype, shape, number_of(file), {}, {}};
    const Result<uint64_t> count = element_count(shape);
    const Status status = count.ok() ? element_bytes(*count, dtype).status() : count.status();
    if (!status.ok()) return refuse(joined, file, CKPT_FORMAT, status.message());
    tensors_.push_back(std::move(joined));
    return found->second;
  }
  const Joined& known = tensors_[found->second];
  if (known.dtype == dtype && known.shape == shape) return found->second;
  return refuse(known, file, CKPT_MISMATCH,
                strformat("expected {} {} as {} says, found {} {}", dtype_name(known.dtype), to_text(known.shape),
                          files_[known.file], dtype_name(dtype), to_text(shape)));
}

Status PieceJoiner::add(size_t tensor, const Region& given, Bytes bytes, const std::optional<Strides>& strides,
                        const std::string& file) {
  Joined& joined = tensors_[tensor];
  const Result<uint64_t> count = plan::region_elements(joined.shape, given);
  if (!count.ok()) return refuse(joined, file, CKPT_FORMAT, count.status().message());
  if (*count == 0) return Ok();
  uint64_t total = 0, size = 0;
  count_elements(joined.shape.span(), &total);  // was checked
  if (!strides && (!count_bytes(*count, joined.dtype, &size) || size != bytes.size()))
    return refuse(joined, file, CKPT_FORMAT,
                  strformat("expected {} bytes for {}, found {}", size, to_text(given), bytes.size()))
        .with("expected", size)
        .with("found", bytes.size());
  Piece piece{whole_if_it_is(given, joined.shape, total), bytes, strides, number_of(file)};
  const auto [found, is_new] = joined.by_region.try_emplace(numbers_of(piece.region), joined.pieces.size());
  if (!is_new) return compare_ ? compare(joined, joined.pieces[found->second], piece) : Ok();
  joined.pieces.push_back(std::move(piece));
  return Ok();
}

Status PieceJoiner::add_range(size_t tensor, const Box& within, uint64_t first, Bytes bytes, const std::string& file) {
  const Joined& joined = tensors_[tensor];
  const auto width = static_cast<uint64_t>(dtype_bits(joined.dtype)) / 8;
  if (width == 0) return refuse(joined, file, CKPT_UNSUPPORTED, "a range of packed elements");
  const uint64_t count = bytes.size() / width;
  if (!plan::inside(within, joined.shape) || bytes.size() % width != 0 || first > within.volume() ||
      count > within.volume() - first)
    return refuse(joined, file, CKPT_FORMAT,
                  strformat("{} bytes at element {} of {} lie outside", bytes.size(), first, to_text(within)));
  if (within == Box::whole(joined.shape)) return add(tensor, {RegionKind::kFlat, {}, first, count}, bytes, {}, file);
  for (const Box& box : plan::boxes_of_range(within, first, count)) {
    const uint64_t size = box.volume() * width;
    CKPT_TRY(add(tensor, {RegionKind::kBox, box, 0, 0}, bytes.first(size), {}, file));
    bytes = bytes.subspan(size);
  }
  return Ok();
}

Status PieceJoiner::compare(const Joined& joined, const Piece& first, const Piece& other) const {
  uint64_t total = 0;
  count_elements(joined.shape.span(), &total);
  const Shape shape = shape_of_region(first.region, joined.shape,
                                      first.region.kind == RegionKind::kFlat ? first.region.flat_size : total);
  const Result<bool> same =
      same_elements(joined.dtype, shape, {{first.bytes, first.strides}, {other.bytes, other.strides}}, folder_);
  if (!same.ok()) return refuse(joined, files_[other.file], same.status().code(), same.status().message());
  if (*same) return Ok();
  return refuse(joined, files_[other.file], CKPT_MISMATCH,
                strformat("{} is not what {} has of it", to_text(first.region), files_[first.file]));
}

Status PieceJoiner::check(const Joined& joined) const {
  std::vector<Region> regions;
  for (const Piece& piece : joined.pieces) regions.push_back(piece.region);
  const Status status = plan::check_coverage(joined.shape, regions);
  if (status.ok()) return status;
  if (status.code() == CKPT_INCOMPLETE)
    return refuse(joined, "", CKPT_INCOMPLETE,
                  strformat("no file has {} of {}", *status.detail("found"), to_text(joined.shape)))
        .with("found", *status.detail("found"));
  if (status.code() != CKPT_MISMATCH) return refuse(joined, "", CKPT_FORMAT, status.message());
  const Piece& first = joined.pieces[std::stoull(*status.detail("first"))];
  const Piece& second = joined.pieces[std::stoull(*status.detail("second"))];
  return refuse(joined, files_[second.file], CKPT_MISMATCH,
                strformat("its {} and {} of {} are the same elements", to_text(second.region), to_text(first.region),
                          files_[first.file]));
}

Result<std::vector<ForeignTensor>> PieceJoiner::finish(FileTable& files) && {
  std::vector<ForeignTensor> out;
  for (Joined& joined : tensors_) {
    CKPT_TRY(check(joined));
    ForeignTensor& tensor = out.emplace_back();
    tensor.name = std::move(joined.name);
    tensor.dtype = joined.dtype;
    tensor.shape = joined.shape;
    if (joined.pieces.empty()) tensor.pieces.emplace_back();  // no elements
    for (const Piece& piece : joined.pieces)
      tensor.pieces.push_back({piece.region, files.range_of(piece.bytes), piece.strides, 0});
  }
  return out;
}

}  // namespace ckpt::interop
