// torch's orders of elements in memory that are not row-major, as the records of schemas/STATE_TREE.md name them. Pure.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace ckpt::interop {

struct MemoryFormat {
  const char* name;
  int ndim;
  std::array<int, 5> order;  // from the outermost dimension to the innermost

  std::span<const int> axes() const { return {order.data(), static_cast<size_t>(ndim)}; }
};
inline constexpr MemoryFormat kMemoryFormats[] = {{"torch.channels_last", 4, {0, 2, 3, 1}},
                                                  {"torch.channels_last_3d", 5, {0, 2, 3, 4, 1}}};

}  // namespace ckpt::interop
