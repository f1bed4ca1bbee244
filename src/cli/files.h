// Files that the tool writes for a person.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace cli {

// Puts a file in the place of whatever has the name, whole or not at all. It follows no link that somebody else may
// have put into the folder.
void replace_file(const std::string& path, std::initializer_list<std::string_view> texts);

// At the file's end. False, with errno, if not all was written.
bool write_whole(int fd, std::string_view text);

}  // namespace cli
