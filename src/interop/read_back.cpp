#include "interop/read_back.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/descriptor.h"
#include "interop/elements.h"
#include "interop/tensor_stream.h"

namespace ckpt::interop {

namespace {

constexpr uint64_t kStep = 8 << 20;
constexpr std::string_view kMemory = "~storage/";  // of aliases, not a tensor by a name

class Comparison {
 public:
  Comparison(const State& state, ForeignCheckpoint& files, const ReadOptions& options)
      : state_(state), files_(files), options_(options), left_(kStep), right_(kStep) {}

  Status compare(const ForeignTensor& tensor, const std::string& name) {
    const Result<ckpt_tensor_info> info = state_.tensor(name);
    if (!info.ok()) return Status(CKPT_MISMATCH, "it was written, and is not in what was to be written");
    TensorRange range{name, static_cast<uint16_t>(info->dtype), shape_of(*info), 0, tensor.elements()};
    if (range.dtype != tensor.dtype || !(range.shape == tensor.shape))
      return Status(CKPT_MISMATCH, strformat("expected {} {}, found {} {}", dtype_name(range.dtype),
                                             to_text(range.shape), dtype_name(tensor.dtype), to_text(tensor.shape)));
    uint64_t at = 0;
    TensorStream stream(state_, client_options(Options()), left_,
                        [&](std::span<const TensorStream::Piece>, Bytes piece) {
                          return piece.empty() ? Ok() : compare_piece(tensor, piece, &at);
                        });
    CKPT_TRY(stream.add(0, range));
    return stream.flush();
  }

 private:
  // The elements from `at` on.
  Status compare_piece(const ForeignTensor& tensor, Bytes piece, uint64_t* at) {
    CKPT_TRY(options_.check());
    const auto bits = static_cast<uint64_t>(dtype_bits(tensor.dtype));
    const uint64_t count = std::min(piece.size() * 8 / bits, tensor.elements() - *at);
    const MutableBytes found = MutableBytes(right_).first(piece.size());
    device::RegionRequest wanted;
    CKPT_TRY(device::read_desc(describe(tensor.dtype, tensor.shape, *at, count), found.data(), found.size(), &wanted));
    CKPT_TRY(copy_elements(files_.files, tensor, wanted));
    if (std::memcmp(piece.data(), found.data(), piece.size()) != 0)
      return Status(CKPT_CORRUPT, strformat("elements {} to {} are not what was to be written", *at, *at + count - 1));
    *at += count;
    return Ok();
  }

  const State& state_;
  ForeignCheckpoint& files_;
  const ReadOptions& options_;
  std::vector<std::byte> left_, right_;
};

}  // namespace

Status compare_with(const State& state, ForeignCheckpoint& files, const ReadOptions& options,
                    const NameInState& name_of) {
  CKPT_TRY(files.find_elements(options));
  Comparison comparison(state, files, options);
  for (const ForeignTensor& tensor : files.tensors) {
    if (tensor.name.starts_with(kMemory)) continue;
    Status status = comparison.compare(tensor, name_of(tensor.name));
    if (!status.ok())
      return std::move(status).in("read back: tensor " + ckpt::quoted(tensor.name)).with("tensor", tensor.name);
  }
  return Ok();
}

}  // namespace ckpt::interop
