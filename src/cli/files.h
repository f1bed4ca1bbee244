// Files that the tool writes for a person.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cli {

// Puts a file in the place of whatever has the name, whole or not at all. It follows no link that somebody else may
// have put into the folder.
void replace_file(const std::string& path, std::span<const std::string_view> texts);

}  // namespace cli
