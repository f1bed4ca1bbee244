// What one part can hold at most (FORMAT §10). Checked when a save is laid out, before its data is written: at the end
// of an hour of writing it would be too late to say.
#pragma once

#include <limits>

#include "format/framing.h"
#include "save/content.h"

namespace ckpt::save {

struct PartLayout;

// Tests lower them.
struct PartLimits {
  uint64_t names = 10'000'000;                                       // tensors and aliases
  uint64_t positions = std::numeric_limits<uint32_t>::max();         // in a column of an index: records, bytes of text
  uint64_t page_bytes = format::kMaxRootSize - (uint64_t{1} << 16);  // a page or root, without what FlatBuffers adds
};

// UNSUPPORTED, with the limit, what was found and what to do. `layout` has its items.
Status check_limits(const SaveContent& content, const PartLayout& layout, uint32_t rank, const PartLimits& limits);

}  // namespace ckpt::save
