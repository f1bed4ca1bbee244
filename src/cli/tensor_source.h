// Reads boxes of one tensor into contiguous memory, as the stored dtype or another. Every read is checked against the
// checksums. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/box.h"

namespace cli {

class TensorSource {
 public:
  // `as` is a dtype's name, "" for the stored one. NOT_FOUND, UNSUPPORTED (no such conversion), INVALID. The reader
  // must live longer.
  TensorSource(const ckpt::Reader& reader, const ckpt::Options& options, const std::string& name,
               const std::string& as);

  const std::string& name() const { return name_; }
  std::vector<int64_t> shape() const { return ckpt::shape_of(info_); }
  int32_t stored_dtype() const { return info_.dtype; }
  int32_t dtype() const { return dtype_; }  // of what the reads return

  // The elements of `box` in row-major order.
  std::vector<std::byte> read(const Box& box) const;
  // The first and last kEdge indices of each long dimension of `box` only, as if the others were not there.
  std::vector<std::byte> read_summary(const Box& box) const;
  // The same as read, in pieces of bounded size.
  void read_slabs(const Box& box, const std::function<void(const std::vector<std::byte>&)>& visit) const;

 private:
  void load(const Box& box, const std::vector<int64_t>& strides, std::byte* data, uint64_t bytes) const;
  std::vector<std::byte> load_corners(const Box& box) const;
  void convert(uint64_t count, std::vector<std::byte>* data) const;
  bool packed() const { return memory_dtype_ % 256 % 8 != 0; }

  const ckpt::Reader& reader_;
  const ckpt::Options& options_;
  std::string name_;
  ckpt::TensorInfo info_;
  int32_t memory_dtype_;  // what the library is asked for
  int32_t dtype_;         // f32 where this file converts from memory_dtype_
};

}  // namespace cli
