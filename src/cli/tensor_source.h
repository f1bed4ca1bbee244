// Reads slices of one tensor into contiguous memory, in the stored dtype or another. Every read is checked against the
// checksums. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cli/marks.h"
#include "cli/slice.h"

namespace cli {

class TensorSource {
 public:
  // Loads what the tensor describes.
  using Loader = std::function<void(const ckpt::Tensor& wanted, ckpt::MutableMemory memory)>;
  // Of a tensor that is in no checkpoint. `loader` converts nothing, and is kept.
  TensorSource(const std::string& name, int32_t dtype, std::vector<int64_t> shape, Loader loader,
               const std::string& as);
  // `as` is a dtype's name; "": the stored one. NOT_FOUND, UNSUPPORTED (no such conversion), INVALID. `reader` must
  // outlive this object.
  TensorSource(const ckpt::Reader& reader, const ckpt::Options& options, const std::string& name,
               const std::string& as);

  // How its elements lie in memory, if they are a view of some: one element for each is not there then.
  void use_strides(std::vector<int64_t> strides) { strides_ = std::move(strides); }
  // One of the elements that lie at each place, as far as whole dimensions repeat others. UNSUPPORTED if each place is
  // still named very often: a file of a few bytes may claim any number of elements.
  Slice distinct(const TensorSource& other) const;

  // What is read is turned as torch turns it; reads are UNSUPPORTED where can_turn() is false.
  void use_marks(const Marks& marks) { marks_ = marks; }

  const std::string& name() const { return name_; }
  std::vector<int64_t> shape() const { return shape_; }
  int32_t stored_dtype() const { return stored_dtype_; }
  int32_t dtype() const { return dtype_; }  // of what the reads return
  const std::string& quantized() const { return marks_.quantized; }

  // The elements of `slice` in row-major order.
  std::vector<std::byte> read(const Slice& slice) const;
  // Only the first and last kEdge indices of each long dimension of `slice`, as if there were no others.
  std::vector<std::byte> read_summary(const Slice& slice) const;
  // As read(), in slabs of bounded size.
  void read_slabs(const Slice& slice, const std::function<void(const std::vector<std::byte>&)>& visit) const;

 private:
  void load(const Slice& slice, const std::vector<int64_t>& strides, std::byte* data, uint64_t bytes) const;
  std::vector<std::byte> load_corners(const Slice& slice) const;
  // Loaded elements become those that a read returns.
  void convert(uint64_t count, std::vector<std::byte>* data) const;
  bool packed() const { return memory_dtype_ % 256 % 8 != 0; }

  void choose_dtype(const std::string& as, bool loader_converts);

  std::string name_;
  std::vector<int64_t> shape_, strides_;
  Loader loader_;
  int32_t stored_dtype_;
  Marks marks_;
  int32_t memory_dtype_;  // what the library loads
  int32_t dtype_;         // f32 if convert() converts from memory_dtype_
};

}  // namespace cli
