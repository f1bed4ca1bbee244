// The index of a part itself.
#pragma once

#include "save/reuse.h"

namespace ckpt::save {

// The part's own index. `chunks` are those of the layout, with their final places; `reuse` tells which of them lie in
// bases. UNSUPPORTED above 2 GiB.
Result<format::EncodedIndex> encode_part_index(const SaveIdentity& identity, const SaveContent& content,
                                               const PartLayout& layout, std::span<const fb::Chunk> chunks,
                                               const Reuse& reuse, const Carried& carried);

}  // namespace ckpt::save
