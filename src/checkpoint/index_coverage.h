// The rule of FORMAT §4 that the index cannot check record by record: together, the segments hold every element once.
#pragma once

#include "format/index.h"

namespace ckpt::checkpoint {

// FORMAT, naming the first tensor with an element that no segment holds, or more than one. Divides many segments among
// `threads` threads.
Status check_index_coverage(const format::Index& index, unsigned threads = 1);

}  // namespace ckpt::checkpoint
