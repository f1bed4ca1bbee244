// The states that are saved: names, shapes and bytes that every contender, in every language, takes from one blob.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "machine.h"

namespace ckpt_bench {

struct Tensor {
  std::string name;
  int32_t dtype;
  std::vector<int64_t> shape;
  uint64_t offset, bytes;  // in the blob
};

struct Workload {
  std::string kind;  // llama (bf16, shapes of Llama 3.2 1B), adam (f32, model and both moments), small (1 KiB, f32)
  std::vector<Tensor> tensors;  // in the order of the model's modules
  uint64_t tensor_bytes = 0, blob_bytes = 0;
  size_t pick = 0;  // the tensor that is read alone
};

// `scale` shrinks llama and adam in layers and vocabulary; `count` is the number of small tensors; `element_count`
// their size in f32. `content` upcast makes llama f32.
struct WorkloadOptions {
  std::string kind = "llama", content = "gauss";  // gauss, random, zeros, upcast
  double scale = 1;
  size_t count = 20000;
  int64_t element_count = 256;
};
Workload make_workload(const WorkloadOptions& options);

// Writes the bytes, the same ones every time, and a JSON manifest of the tensors beside it.
void write_blob(const Workload& workload, const WorkloadOptions& options, const std::string& path);

// What one of `world` ranks holds: a row range of each matrix (as FSDP2 shards), vectors whole. The pieces lie one
// behind the other, each on a page of its own if it is large.
struct Piece {
  const Tensor* tensor;
  int64_t first_row, rows;  // of the first dimension
  uint64_t blob_offset, offset, bytes;
};
struct Share {
  std::vector<Piece> pieces;
  uint64_t bytes = 0;  // with the gaps between the pieces
  uint32_t rank = 0, world = 1;
};
Share share_of(const Workload& workload, uint32_t rank, uint32_t world);
Share only_pick(const Workload& workload);

// The share's bytes, read from the blob; or empty memory of that size.
std::unique_ptr<Memory> source_of(const Share& share, const std::string& blob, size_t shift);
// Stops the program unless `data` holds what the blob does.
void compare_with_blob(const Share& share, const std::string& blob, const std::byte* data);

}  // namespace ckpt_bench
