// Reads boxes of one tensor into contiguous memory, as the stored dtype or another. Every read is checked against the
// checksums. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/box.h"
#include "cli/handle.h"

namespace cli {

class TensorSource {
 public:
  // `as` is a dtype's name, "" for the stored one. NOT_FOUND, UNSUPPORTED (no such conversion), INVALID.
  Error open(const ckpt_reader* reader, const ckpt_options* options, const std::string& name, const std::string& as);

  const std::string& name() const { return name_; }
  std::vector<int64_t> shape() const { return {info_.shape, info_.shape + info_.ndim}; }
  int32_t stored_dtype() const { return info_.dtype; }
  int32_t dtype() const { return dtype_; }  // of what the reads return

  // The elements of `box` in row-major order.
  Error read(const Box& box, std::vector<std::byte>* out) const;
  // The first and last kEdge indices of each long dimension of `box` only, as if the others were not there.
  Error read_summary(const Box& box, std::vector<std::byte>* out) const;
  // The same as read, in pieces of bounded size.
  Error read_slabs(const Box& box, const std::function<Error(const std::vector<std::byte>&)>& visit) const;

  uint64_t bytes_of(uint64_t elements) const;

 private:
  Error load(const Box& box, const std::vector<int64_t>& strides, std::byte* data, uint64_t bytes) const;
  Error load_corners(const Box& box, std::vector<std::byte>* out) const;
  void convert(uint64_t count, std::vector<std::byte>* data) const;
  bool packed() const { return memory_dtype_ % 256 % 8 != 0; }

  const ckpt_reader* reader_ = nullptr;
  const ckpt_options* options_ = nullptr;
  std::string name_;
  ckpt_tensor_info info_{};
  int32_t memory_dtype_ = 0;  // what the library is asked for
  int32_t dtype_ = 0;         // f32 where this file converts from memory_dtype_
};

}  // namespace cli
