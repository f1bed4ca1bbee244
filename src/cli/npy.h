// The header of a .npy file (NumPy's format 1.0). The elements follow it in row-major order. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cli {

// NumPy's name of a dtype, "<f4"; nothing if NumPy has none (bf16, float8, …).
std::optional<std::string> npy_descr(int32_t dtype);

// Magic, version, length and dictionary, padded so that the data starts at a multiple of 64 bytes.
std::string npy_header(std::string_view descr, std::span<const int64_t> shape);

}  // namespace cli
