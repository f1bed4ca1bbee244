// Whether tensors hold the same bytes: by the checksums of their chunks where these tell, else by reading.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"

namespace ckpt::load {

// Equal chunks at equal places need no reading: equal content has equal digests.
bool same_stored(const fb::Chunk& x, const fb::Chunk& y);
// Whether their chunks are of the same elements, encoded in the same way.
bool same_layout(const checkpoint::Piece& x, const checkpoint::Piece& y);
bool same_chunks(const std::vector<checkpoint::Piece>& a, const std::vector<checkpoint::Piece>& b);

inline constexpr uint64_t kPieceBytes = 8 << 20;  // read at once
// Units of the flattened tensor from `first` on.
Status read_range(const checkpoint::Checkpoint& checkpoint, const checkpoint::TensorRef& tensor, uint64_t first,
                  MutableBytes out);

// Of two tensors of one checkpoint.
Result<bool> same_content(const checkpoint::Checkpoint& checkpoint, const checkpoint::TensorRef& a,
                          const checkpoint::TensorRef& b);

}  // namespace ckpt::load
