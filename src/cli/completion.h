// What completes the words of a ckpt command line in a shell, made of what --help says. Pure.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace cli {

// The shells, for option lists: "bash|zsh|fish".
inline constexpr const char* kShells = "bash|zsh|fish";

// The script for one of kShells. INVALID for another.
std::string completion_script(const std::string& shell, std::span<const CommandText> commands);

}  // namespace cli
