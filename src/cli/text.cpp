#include "cli/text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

namespace cli {
namespace {

std::string scaled(double value, double step, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return print_format("%.*f %s", unit > 0 && value < 100 ? 1 : 0, value, units[unit]);
}

// How many characters must be put in, taken out or changed.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

bool use_color() {
  static const bool use = [] {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    bool dumb = term != nullptr && std::string_view(term) == "dumb";
    return is_terminal(stdout) && !dumb && (no_color == nullptr || *no_color == '\0');
  }();
  return use;
}

}  // namespace

std::string counted(uint64_t count, std::string_view noun) {
  return strformat("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string human_bytes(uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024, kUnits);
}

std::string human_rate(double bytes_per_second) {
  static constexpr std::array kUnits = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return scaled(bytes_per_second, 1000, kUnits);
}

std::string human_duration(uint64_t seconds) {
  if (seconds < 120) return strformat("{} s", seconds);
  if (seconds < 2 * uint64_t{3600}) return strformat("{} min", seconds / 60);
  if (seconds < 2 * uint64_t{86400}) return strformat("{} h", seconds / 3600);
  return strformat("{} d", seconds / 86400);
}

std::string shape_text(std::span<const int64_t> shape) {
  std::vector<std::string> extents;
  for (int64_t extent : shape) extents.push_back(std::to_string(extent));
  return "[" + joined(extents) + "]";
}

std::string nearest(std::string_view wanted, std::span<const std::string> names) {
  std::string best;
  size_t least = wanted.size() / 4 + 2;  // as many mistakes are too many
  for (const std::string& name : names) {
    const bool begins = wanted.size() >= 3 && name.starts_with(wanted);
    const size_t distance = begins ? 1 : edit_distance(wanted, name);
    if (distance < least) best = name, least = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view wanted, std::span<const std::string> names) {
  const std::string name = nearest(wanted, names);
  return name.empty() ? "" : "; did you mean '" + name + "'?";
}

size_t text_width(std::string_view text) {
  size_t width = 0;
  for (char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return width;
}

bool is_terminal(FILE* file) { return isatty(fileno(file)) == 1; }

size_t terminal_width() {
  if (!is_terminal(stdout)) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string colored(std::string_view text, Color color) {
  static constexpr std::array kCodes = {"", "31", "32", "33", "2", "1"};
  if (color == Color::kNone || !use_color()) return std::string(text);
  return strformat("\x1b[{}m{}\x1b[0m", kCodes[static_cast<size_t>(color)], text);
}

}  // namespace cli
