// The index of a part itself.
#pragma once

#include "save/layout.h"

namespace ckpt::save {

// The part's own index. `chunks` are those of the layout, with their final places. UNSUPPORTED above 2 GiB.
Result<format::EncodedIndex> encode_part_index(const SaveIdentity& identity, const SaveContent& content,
                                               const PartLayout& layout, std::span<const fb::Chunk> chunks);

}  // namespace ckpt::save
