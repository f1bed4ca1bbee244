// Many requests for regions of tensors, planned and read together. Planning finds every structural error before a byte
// of caller memory changes.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "session/checkpoint.h"
#include "session/job.h"
#include "session/save.h"

namespace ckpt::session {

// One box of a tensor that goes to one piece of memory; a flat range is several.
struct WantedBox {
  uint32_t request;       // index of the request, for messages and counting
  Box box;                // in moving units
  device::Memory memory;  // where its first unit goes, with strides
};

// One chunk to read, and the boxes that want something of it.
struct ChunkRead {
  uint32_t part;
  const fb::Tensor* tensor;
  const fb::Segment* segment;
  const fb::Chunk* chunk;
  uint64_t first;                       // of the chunk's units in the order of its segment
  uint32_t wanted_first, wanted_count;  // into LoadPlan::targets
};

struct LoadPlan {
  std::vector<WantedBox> boxes;
  std::vector<ChunkRead> reads;   // by part, then offset
  std::vector<uint32_t> targets;  // indexes into boxes
  uint64_t units = 0;             // that all boxes want, for the proof that all came
  uint64_t bytes_requested = 0, run_count = 0;
};

class Load {
 public:
  static Result<std::shared_ptr<Load>> make(std::shared_ptr<Checkpoint> checkpoint, const Options& options);

  Status add_tensor(std::string_view name, const ckpt_tensor_desc& desc, void* data, uint64_t data_bytes);
  Status add_object(std::string_view name, uint32_t rank, MutableBytes data);
  Status begin();
  Status work(Job& job);
  Report report() const;

 private:
  struct TensorRequest {
    std::string name;
    const fb::Tensor* tensor;
    RegionRequest want;
    // Of an alias that is a view: the range of the flattened target that the view reaches is read here first.
    const fb::Alias* view = nullptr;
    std::vector<std::byte> hull;
    uint64_t hull_first = 0;
  };
  struct ObjectRequest {
    std::string name;
    const fb::Object* object;
    MutableBytes to;
  };

  Load() = default;
  Status check_request(const Checkpoint::Named& named, const RegionRequest& want, bool convert) const;
  Status prepare_view(TensorRequest& request);
  void copy_view(const TensorRequest& request) const;
  Status check_strict() const;
  Status load_objects(Job& job) const;

  std::shared_ptr<Checkpoint> checkpoint_;
  std::deque<TensorRequest> tensors_;
  std::vector<ObjectRequest> objects_;
  std::vector<std::string> missing_;
  std::vector<std::string> asked_;  // sorted by begin()
  std::string strict_, object_policy_;
  unsigned threads_ = 2;
  uint64_t staging_bytes_ = 0;
  bool verify_ = true, begun_ = false;
};

// ---- the steps ----

// Adds the boxes of a region; `memory` is that of the whole region.
void add_boxes(LoadPlan* plan, uint32_t request, const Geometry& geometry, const Region& units,
               const device::Memory& memory);
// Finds the chunks that the boxes of requests need. `tensor_of[request]` tells the tensor. INCOMPLETE where units are
// not to be had.
Status plan_reads(const format::Index& index, std::span<const fb::Tensor* const> tensor_of, LoadPlan* plan);

struct ReadOptions {
  unsigned threads;
  uint64_t staging_bytes;
  bool verify;
};
// Reads, checks, decodes and scatters. CORRUPT names tensor, part, offset and element range.
Status execute_reads(const Checkpoint& checkpoint, const LoadPlan& plan, const ReadOptions& options, Job& job);

// Reads one chunk, checks it and leaves its raw bytes in `raw`.
Status read_chunk(const Checkpoint& checkpoint, uint32_t part, const fb::Chunk& chunk, Codec codec, Filter filter,
                  int filter_width, bool verify, MutableBytes raw, std::vector<std::byte>& stored);
Status check_chunk(const fb::Chunk& chunk, Bytes stored);
// All bytes of an object. `out` has its size.
Status read_object(const Checkpoint& checkpoint, const fb::Object& object, MutableBytes out);

}  // namespace ckpt::session
