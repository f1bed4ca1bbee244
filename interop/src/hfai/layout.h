// What hfai's dist_ckpt writes: a directory of PART_000.pt, PART_001.pt, …, one from each rank. A part is
//   {"__nshards__": n, "__version__": "2.0.0",
//    "model": [(parameters, large), …], "optimizer": [(state_dict, large), …], others… in part 0}
// A parameter is whole in one part; one above kHfaiLargeBytes is cut into a row of elements for each rank, and `large`
// has (shape, row) under its name. Of an optimizer's state_dict the "state" is divided in the same way, and `large` has
// the keys (k1, k2) of what was state[k1][k2].
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ckpt.h"

namespace ckpt::interop {

inline constexpr const char* kHfaiVersion = "2.0.0";
inline constexpr uint64_t kHfaiLargeBytes = 256 << 20;
inline constexpr const char* kHfaiShards = "__nshards__";
inline constexpr const char* kHfaiVersionKey = "__version__";
inline constexpr const char* kHfaiModel = "model";
inline constexpr const char* kHfaiOptimizer = "optimizer";

// "PART_007.pt"
inline std::string hfai_part_name(uint64_t part) { return strformat("PART_{:03}.pt", part); }

}  // namespace ckpt::interop
