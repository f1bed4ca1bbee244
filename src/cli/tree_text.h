// A state tree as an indented outline for people: one line for each node, long trees cut. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <ckpt.hpp>

namespace cli {

// What stands behind a tensor, by its name: "f32 [2, 3]"; empty where nothing is known of it.
using TensorText = std::function<std::string(std::string_view name)>;

inline constexpr uint64_t kOutlineLines = 100;  // unless all are asked for

// Lines that end in line feeds. Of a tree with more than `max_lines` the deeper and later nodes are counted, not shown.
std::string outline(ckpt::TreeView tree, const TensorText& tensor, uint64_t max_lines);

// `json` of a tree over several lines, for people; values unchanged.
std::string indented_json(std::string_view json);

}  // namespace cli
