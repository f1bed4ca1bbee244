// What one rank's file has of a tensor that several ranks hold: torch's ShardedTensor and DTensor in a pickle. Takes
// untrusted files. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "interop/src/pt/tensor.h"
#include "interop/src/strides.h"

namespace ckpt::interop {

struct Shard {
  Region region;  // of the whole tensor
  Bytes bytes;    // from the first element to the last
  std::optional<Strides> strides;
};

struct Sharded {
  uint16_t dtype = 0;
  Shape shape;  // of the whole
  std::vector<Shard> shards;
};

// Whether a value is one of the two, by the last part of its class' name.
bool is_sharded(const PickleDocument& pickle, PickleRef ref);
// What the file has of it. FORMAT and MISMATCH where its numbers contradict each other or the elements; UNSUPPORTED for
// partial sums and placements that we do not know.
Result<Sharded> sharded_of(const PtSource& source, PickleRef ref);

// ---- what such objects are made of ----
// "DTensor" of an object or a name.
std::string_view last_class_name(const PickleDocument& pickle, PickleRef ref);
// An attribute of an object: in its dict, in its slots, or among the arguments that made it. kNoValue.
PickleRef attribute_of(const PickleDocument& pickle, PickleRef ref, std::string_view name, size_t argument = SIZE_MAX);
Result<Shape> extents_of(const PickleDocument& pickle, PickleRef ref, const char* what);

}  // namespace ckpt::interop
