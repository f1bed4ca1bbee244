// Aligned columns of text. Built in memory, rendered once. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/text.h"

namespace cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  bool flexible = false;  // may be cut if the table is wider than the terminal
};

struct Cell {
  Cell(std::string value, Color shade = Color::kNone) : text(std::move(value)), color(shade) {}
  Cell(const char* value) : text(value) {}
  std::string text;
  Color color = Color::kNone;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  // Lines, each with a line feed. `width` 0: as wide as needed; otherwise flexible columns are cut to fit if possible.
  std::string render(size_t width) const;

 private:
  std::vector<size_t> widths(size_t limit) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// `text` in at most `width` columns: a longer one as its start, "…" and its end.
std::string cut_middle(std::string_view text, size_t width);

}  // namespace cli
