// Manual pages, made of what --help says. Pure, except write_pages.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace cli {

// The page of commands[index], in roff's man macros; the first is the tool's.
std::string manual_page(std::span<const CommandText> commands, size_t index);

// Writes the manual pages and the completion of all shells to where a prefix's `share` has them: man/man1/ckpt.1, …
// IO.
void write_pages(const std::string& share, std::span<const CommandText> commands);

}  // namespace cli
