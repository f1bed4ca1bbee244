// A tensor in place: a view of the part file, if its bytes are stored raw and in one piece.
#pragma once

#include "checkpoint/checkpoint.h"

namespace ckpt::load {

// See ckpt_reader_map. The bytes live as long as the checkpoint. NOT_FOUND; UNSUPPORTED for a view, and for a tensor
// that is compressed or in several pieces; CORRUPT.
Result<Bytes> map_tensor(const checkpoint::Checkpoint& checkpoint, std::string_view name, bool verify,
                         unsigned threads);

}  // namespace ckpt::load
