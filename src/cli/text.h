// Words and numbers for people, and what the terminal can do. Pure, except the functions about the terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "base/shown.h"
#include "cli/format.h"

namespace cli {

std::string counted(uint64_t count, std::string_view noun);  // "1 part", "2 parts"
std::string human_bytes(uint64_t bytes);                     // "512 B", "1.5 MiB"
std::string human_rate(double bytes_per_second);             // "3.1 GB/s"
std::string human_duration(uint64_t seconds);                // "12 s", "3 min", "5 h", "9 d"
std::string shape_text(std::span<const int64_t> shape);      // "[2, 3]"

// Writes characters that control the terminal, turn text around or hide, and broken UTF-8, as \n, \t, \x1b.
inline std::string escaped(std::string_view text) { return ckpt::shown_line(text); }

// The one of `names` that `wanted` may be a slip of, or the beginning; "" if none is near. did_you_mean: "; did you
// mean 'ls'?", or "".
std::string nearest(std::string_view wanted, std::span<const std::string> names);
std::string did_you_mean(std::string_view wanted, std::span<const std::string> names);

// The columns that UTF-8 text takes, one for each code point.
size_t text_width(std::string_view text);

bool is_terminal(FILE* file);
size_t terminal_width();  // of stdout; 0 if it is not a terminal, which means: do not cut

enum class Color { kNone, kRed, kGreen, kYellow, kDim, kBold };
// `text` in a colour if stdout is a terminal and NO_COLOR is not set.
std::string colored(std::string_view text, Color color);

}  // namespace cli
