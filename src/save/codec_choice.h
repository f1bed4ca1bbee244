// Chooses the codec of the segments of tensors.
#pragma once

#include <span>
#include <string_view>

#include "save/layout.h"

namespace ckpt::save {

// Sets the codec of items, which must all belong to tensors. With compression=auto each large tensor is tried by
// itself. Trying each small one would cost more than it could save: small tensors of one dtype share a verdict, from
// samples of them all. `memory` (may be null) fills what is sampled, and then large tensors are tried by their middle.
// `transfers` (may be null) reads what is on devices.
Status choose_codecs(std::string_view compression, std::span<Item> items, LateMemory* memory,
                     device::Transfers* transfers);

}  // namespace ckpt::save
