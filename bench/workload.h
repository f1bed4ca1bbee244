// The states to save: names, shapes and bytes. Every contender, in every language, takes them from the same blob.
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
  // llama (bf16, shapes of Llama 3.2 1B), adam (f32, model and both moments), small (1 KiB, f32), table (ids, and f32
  // rows of an embedding and both moments)
  std::string kind;
  std::vector<Tensor> tensors;  // in the order of the model's modules
  uint64_t tensor_bytes = 0, blob_bytes = 0;
  size_t pick = 0;  // the tensor for measurements of a single tensor
};

// `scale` shrinks the layers and vocabulary of llama and adam, and the rows of table; `count` is the number of small
// tensors, `element_count` their f32 elements. With `content` upcast llama is f32.
struct WorkloadOptions {
  std::string kind = "llama", content = "gauss";  // gauss, random, zeros, upcast
  double scale = 1;
  size_t count = 20000;
  int64_t element_count = 256;
};
Workload make_workload(const WorkloadOptions& options);

// Writes the bytes, always the same ones, and beside them a JSON manifest of the tensors.
// The ids of a table's rows: all different, and spread over all buckets.
inline uint64_t table_id(uint64_t row) { return (row + 1) * 0x9e3779b97f4a7c15; }
inline uint64_t table_row(uint64_t id) { return id * 0xf1de83e19937733d - 1; }

void write_blob(const Workload& workload, const WorkloadOptions& options, const std::string& path);

// What one of `world` ranks holds: a range of rows of each matrix (as FSDP2 shards), and whole vectors. The ranges are
// stored one after another; a large one begins on a page.
struct Range {
  const Tensor* tensor;
  int64_t first_row, rows;  // of the first dimension
  uint64_t blob_offset, offset, bytes;
};
struct Share {
  std::vector<Range> ranges;
  uint64_t bytes = 0;  // with the gaps between the ranges
  uint32_t rank = 0, world = 1;
};
Share share_of(const Workload& workload, uint32_t rank, uint32_t world);
Share only_pick(const Workload& workload);

// The share's bytes, read from the blob.
std::unique_ptr<Memory> source_of(const Share& share, const std::string& blob, size_t shift);
// Stops the program unless `data` equals the blob's bytes.
void compare_with_blob(const Share& share, const std::string& blob, const std::byte* data);

}  // namespace ckpt_bench
