// Pieces of a mapping that are pinned: a device copies to and from them while others work.
#pragma once

#include "base/mapping.h"

namespace ckpt::device {

class Driver;

// Pins a piece of `mapping`, for as long as that lives. A piece that was pinned before stays so; others that it
// overlaps are given up. Several threads may pin pieces that do not overlap. NOMEM.
Status pin(Mapping& mapping, Driver* driver, int device, MutableBytes piece);

}  // namespace ckpt::device
