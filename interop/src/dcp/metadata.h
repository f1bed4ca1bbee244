// What a `.metadata` of torch.distributed.checkpoint says: the tensors and values of a state, the boxes that each
// tensor was cut into, and where each of these lies. Takes untrusted pickles of torch 2.0 on: classes are told by the
// last part of their names and by their fields, since torch and those who build on it move them about. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/seeded_hash.h"

namespace ckpt::interop {

// Where a chunk or a value lies: what torch.save wrote, as a part of a file.
struct DcpPlace {
  size_t file = SIZE_MAX;  // position in DcpMetadata::files; none: nowhere
  uint64_t offset = 0, length = 0;
  bool zstd = false;  // it is a frame of zstd
  bool operator==(const DcpPlace&) const = default;
  bool overlaps(const DcpPlace& other) const {
    return file == other.file && offset < other.offset + other.length && other.offset < offset + length;
  }
};

struct DcpChunk {
  Box box;
  DcpPlace place;
};

// A value as one rank has it.
struct DcpValue {
  uint32_t rank = 0;
  DcpPlace place;
};

// A step of a path: a key of a dict, or a position in a list.
struct DcpKey {
  std::string text;
  int64_t place = -1;  // of a list; -1: `text` counts
  bool is_place() const { return place >= 0; }
  bool operator==(const DcpKey&) const = default;
};

// A tensor or a value.
struct DcpItem {
  std::string name;          // "model.layers.0.weight"
  std::vector<DcpKey> path;  // of the state; the name alone where the writer did not say
  bool is_tensor = false;
  // Of a tensor:
  uint16_t dtype = 0;                 // CKPT_DTYPE_*
  const char* torch_dtype = nullptr;  // where ours does not say all of it
  Shape shape;
  // Of an optimizer's tensor as Megatron before 0.14 wrote it: `shape` is the grid of the ranks' boxes of this one, and
  // the elements of a box in a row; so chunks are flat ranges of boxes.
  std::optional<Shape> boxed;
  std::vector<DcpChunk> chunks;  // ascending by offset, none without elements, no box twice
  // Of a value:
  std::vector<DcpValue> values;  // ascending by rank
};

struct DcpMetadata {
  std::vector<std::string> files;  // plain paths in the directory
  std::deque<DcpItem> items;       // in the order of the state
  std::unordered_map<std::string_view, size_t, SeededHash> by_name;
  std::unordered_map<std::string, size_t, SeededHash> by_file;
};

// Adds what the `.metadata` of one rank says, or that of all. `where` is for messages.
// FORMAT, UNSUPPORTED; MISMATCH where it contradicts what was added before.
Status add_dcp_metadata(Bytes pickle, std::string_view where, uint32_t rank, DcpMetadata* to);

}  // namespace ckpt::interop
