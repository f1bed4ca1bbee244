// A state tree as an indented outline: one line for each node; long trees are cut. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <ckpt.hpp>

namespace cli {

// Describes a tensor by its name: "f32 [2, 3]"; empty if nothing is known of it.
using TensorText = std::function<std::string(std::string_view name)>;

inline constexpr uint64_t kOutlineLines = 100;  // the limit without --all

// Lines, each with a line feed. If a tree needs more than `max_lines`, deeper and later nodes are counted, not shown.
std::string outline(ckpt::TreeView tree, const TensorText& tensor, uint64_t max_lines);

// `json` of a tree, indented over several lines; values unchanged.
std::string indented_json(std::string_view json);

}  // namespace cli
