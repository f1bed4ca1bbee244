// For tables whose keys a file chooses: nobody can prepare keys that collide, since nobody knows the seed of a process.
// Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ckpt::interop {

struct SeededHash {
  size_t operator()(std::string_view key) const;
  size_t operator()(int64_t key) const;
};

}  // namespace ckpt::interop
