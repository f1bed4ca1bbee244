#include "cli/table.h"

#include <algorithm>

namespace cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kLeast = 12;  // a flexible column is never cut below this width

// The byte at which display column `column` of UTF-8 text starts.
size_t byte_of_column(std::string_view text, size_t column) {
  size_t at = 0, seen = 0;
  while (at < text.size()) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && seen++ == column) return at;
    ++at;
  }
  return at;
}

std::string pad(const std::string& text, size_t width, Align align, Color color, bool last) {
  size_t used = text_width(text);
  std::string space(width > used ? width - used : 0, ' ');
  if (align == Align::kRight) return space + colored(text, color);
  return colored(text, color) + (last ? "" : space);
}

}  // namespace

std::string cut_middle(std::string_view text, size_t width) {
  size_t all = text_width(text);
  if (all <= width || width == 0) return std::string(text);
  size_t tail = (width - 1) / 2, head = width - 1 - tail;
  return std::string(text.substr(0, byte_of_column(text, head))) + "…" +
         std::string(text.substr(byte_of_column(text, all - tail)));
}

std::vector<size_t> Table::widths(size_t limit) const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = text_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, text_width(row[i].text));
    widths.push_back(width);
  }
  size_t total = kGap * (columns_.empty() ? 0 : columns_.size() - 1);
  for (size_t width : widths) total += width;
  for (size_t i = columns_.size(); limit > 0 && total > limit && i-- > 0;) {
    if (!columns_[i].flexible || widths[i] <= kLeast) continue;
    size_t less = std::min(total - limit, widths[i] - kLeast);
    widths[i] -= less;
    total -= less;
  }
  return widths;
}

std::string Table::render(size_t width) const {
  std::vector<size_t> widths = this->widths(width);
  std::string out;
  auto line = [&](auto&& cell) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      Cell c = cell(i);
      bool last = i + 1 == columns_.size();
      text += pad(cut_middle(c.text, widths[i]), widths[i], columns_[i].align, c.color, last);
      if (!last) text.append(kGap, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](size_t i) { return Cell(columns_[i].title, Color::kBold); });
  for (const auto& row : rows_) line([&](size_t i) { return row[i]; });
  return out;
}

}  // namespace cli
