// How much memory is free: of the machine, and of the control group that the process is in.
#pragma once

#include <cstdint>
#include <string_view>

namespace ckpt {

// Bytes that this process could take without anything being swapped or killed; UINT64_MAX if nothing tells.
uint64_t free_memory();

// The same from files below `proc` and `cgroups`, for tests: "/proc", "/sys/fs/cgroup".
uint64_t free_memory(std::string_view proc, std::string_view cgroups);

// How much of it may still be taken, if this and others take at most a quarter of what was free at first.
inline uint64_t quarter_left(uint64_t at_first, uint64_t now) {
  const uint64_t rest = at_first - at_first / 4;
  return now > rest ? now - rest : 0;
}

}  // namespace ckpt
