// Which codec the segments of tensors get.
#pragma once

#include <span>
#include <string_view>

#include "save/layout.h"

namespace ckpt::save {

// Sets the codec of items that are all of tensors. With compression=auto each large tensor is tried out by itself. Of
// small ones trying would cost more than it could save: those of one dtype share a verdict on samples of them all.
void choose_codecs(std::string_view compression, std::span<Item> items);

}  // namespace ckpt::save
