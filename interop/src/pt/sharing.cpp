#include "interop/src/pt/sharing.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "interop/src/strides.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kMaxRepeatedBytes = 64 << 10;

// A tensor's place in memory. Addresses in units of bytes; views whose elements do not lie on one grid never meet.
struct View {
  size_t number;  // of the tensor
  uint16_t dtype;
  uint64_t phase, begin, end;  // begin modulo the element's width; bytes
};

class Planner {
 public:
  Planner(std::vector<NamedPtTensor> tensors, uint64_t room, FileTable& files, uint32_t rank)
      : given_(std::move(tensors)), target_of_(given_.size(), kItself), room_(room), files_(files), rank_(rank) {}

  std::vector<ForeignTensor> run() {
    std::vector<View> views = sorted_views();
    for (size_t i = 0; i < views.size();) {
      size_t last = i + 1;
      uint64_t end = views[i].end;
      for (; last < views.size() && meets(views[i], views[last], end); last++) end = std::max(end, views[last].end);
      plan_run(std::span(views).subspan(i, last - i), end);
      i = last;
    }
    place_.assign(given_.size() + extra_.size(), ForeignTensor::kNoTarget);
    for (size_t i = 0; i < given_.size(); i++) emit(i);
    return std::move(out_);
  }

 private:
  static constexpr size_t kItself = SIZE_MAX;

  static bool meets(const View& first, const View& next, uint64_t end) {
    return first.dtype == next.dtype && first.phase == next.phase && next.begin < end;
  }

  std::vector<View> sorted_views() const {
    std::vector<View> views;
    for (size_t i = 0; i < given_.size(); i++) {
      const PtTensor& tensor = given_[i].tensor;
      const Bytes bytes = tensor.bytes();
      if (bytes.empty()) continue;
      const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
      const uint64_t width = static_cast<uint64_t>(std::max(dtype_bits(tensor.dtype), 8)) / 8;
      views.push_back({i, tensor.dtype, begin % width, begin, begin + bytes.size()});
    }
    std::sort(views.begin(), views.end(), [](const View& a, const View& b) {
      return std::tie(a.dtype, a.phase, a.begin, a.number) < std::tie(b.dtype, b.phase, b.begin, b.number);
    });
    return views;
  }

  static bool same_view(const PtTensor& a, const PtTensor& b) {
    return a.bytes().data() == b.bytes().data() && a.shape == b.shape && same_places(a.shape, a.strides, b.strides);
  }

  // Whether a view is written out. What that takes for one that repeats elements is not bounded by the file's size.
  bool write_out(const PtTensor& tensor) {
    if (tensor.elements() <= tensor.span()) return true;
    uint64_t bytes;
    count_bytes(tensor.elements(), tensor.dtype, &bytes);
    const uint64_t more = bytes - tensor.bytes().size();
    if (bytes > kMaxRepeatedBytes || more > room_) return false;
    room_ -= more;
    return true;
  }

  // Views that overlap each other, directly or through others.
  void plan_run(std::span<const View> run, uint64_t end) {
    if (dtype_bits(run[0].dtype) % 8 != 0 && plan_packed(run, end - run[0].begin)) return;
    size_t first = run[0].number, cover = kItself;
    for (const View& view : run) {
      first = std::min(first, view.number);
      const bool covers = view.begin == run[0].begin && view.end == end && given_[view.number].tensor.contiguous();
      if (covers) cover = std::min(cover, view.number);
    }
    const PtTensor& tensor = given_[first].tensor;
    const bool alike = std::all_of(run.begin(), run.end(),
                                   [&](const View& view) { return same_view(tensor, given_[view.number].tensor); });
    if (cover == kItself && alike && write_out(tensor)) cover = first;
    if (cover == kItself) cover = add_storage(tensor, run[0].begin, end);
    for (const View& view : run)
      if (view.number != cover) target_of_[view.number] = cover;
  }

  // A view of packed elements cannot be loaded: each is a tensor of its own, and an alias of one that is the same.
  // False where that would take more than the file's own size again; `span`: bytes of the run.
  bool plan_packed(std::span<const View> run, uint64_t span) {
    std::map<std::pair<uint64_t, std::string>, size_t> first;  // by place and shape
    uint64_t bytes = 0;
    for (const View& view : run)
      if (first.try_emplace({view.begin, to_text(given_[view.number].tensor.shape)}, view.number).second)
        bytes += view.end - view.begin;
    const uint64_t more = bytes - std::min(bytes, span);
    if (more > room_) return false;
    room_ -= more;
    for (const View& view : run) {
      const size_t target = first[{view.begin, to_text(given_[view.number].tensor.shape)}];
      if (target != view.number) target_of_[view.number] = target;
    }
    return true;
  }

  // The run itself as a tensor; its number.
  size_t add_storage(const PtTensor& of, uint64_t begin, uint64_t end) {
    PtTensor run = of;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): runs are compared and merged as numbers
    run.storage = Bytes(reinterpret_cast<const std::byte*>(begin), end - begin);
    run.offset = 0;
    run.shape = Shape();
    run.shape.ndim = 1;
    run.shape[0] = (end - begin) * 8 / static_cast<uint64_t>(dtype_bits(of.dtype));
    run.strides = row_major(run.shape);
    extra_.push_back({storage_name(of.storage_key), std::move(run)});
    return given_.size() + extra_.size() - 1;
  }

  std::string storage_name(const std::string& key) {
    const bool plain = !key.empty() && key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    });
    const std::string name = std::string(kAliasMemory) + (plain ? key : "x" + std::to_string(extra_.size()));
    const size_t before = runs_[name]++;
    return before == 0 ? name : name + '.' + std::to_string(before);  // no name has a dot by itself
  }

  NamedPtTensor& named(size_t number) {
    return number < given_.size() ? given_[number] : extra_[number - given_.size()];
  }

  // Its target first. Targets have none themselves.
  void emit(size_t number) {
    if (place_[number] != ForeignTensor::kNoTarget) return;
    const size_t target = number < given_.size() ? target_of_[number] : kItself;
    if (target != kItself) emit(target);
    ForeignTensor tensor = describe(named(number));
    if (target != kItself) point(&tensor, number, target);
    place_[number] = out_.size();
    out_.push_back(std::move(tensor));
  }

  ForeignTensor describe(const NamedPtTensor& named) {
    const PtTensor& from = named.tensor;
    ForeignTensor tensor;
    tensor.name = named.name;
    tensor.dtype = from.dtype;
    tensor.shape = from.shape;
    ForeignPiece& piece = tensor.pieces.emplace_back();
    piece.bytes = files_.range_of(from.bytes());
    piece.rank = rank_;
    if (from.strides != row_major(from.shape)) piece.strides = from.strides;
    if (!from.location.empty() && from.location != "cpu") tensor.attributes = {{"torch.device", from.location}};
    return tensor;
  }

  // Where `tensor` lies in the flattened target. Targets that are not row-major have aliases of their own view only.
  void point(ForeignTensor* tensor, size_t number, size_t target) {
    const PtTensor &from = named(number).tensor, &to = named(target).tensor;
    const auto bits = static_cast<uint64_t>(dtype_bits(tensor->dtype));
    tensor->target = place_[target];
    tensor->target_offset = static_cast<uint64_t>(from.bytes().data() - to.bytes().data()) * 8 / bits;
    tensor->target_strides = is_row_major(to.shape, to.strides) ? from.strides : row_major(tensor->shape);
  }

  std::vector<NamedPtTensor> given_;
  std::vector<size_t> target_of_;  // numbers past the given ones are of extra_
  std::vector<NamedPtTensor> extra_;
  std::vector<size_t> place_;  // in out_
  std::vector<ForeignTensor> out_;
  uint64_t room_;                       // bytes that repeated elements may still take
  std::map<std::string, size_t> runs_;  // by the name of their storage
  FileTable& files_;
  uint32_t rank_;
};

}  // namespace

std::vector<ForeignTensor> plan_sharing(std::vector<NamedPtTensor> tensors, uint64_t room, FileTable& files,
                                        uint32_t rank) {
  return Planner(std::move(tensors), room, files, rank).run();
}

}  // namespace ckpt::interop
