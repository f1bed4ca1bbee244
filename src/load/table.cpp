#include "load/table.h"

#include <algorithm>
#include <cstring>

#include "format/table.h"

namespace ckpt::load {

using checkpoint::Checkpoint;

Status bad_table(std::string_view table, std::string what) {
  return error_about(CKPT_FORMAT, table, "table " + quoted(table) + ": " + std::move(what));
}

const Table::Column* Table::find(std::string_view column) const {
  const auto at = std::ranges::find(columns, column, &Column::name);
  return at == columns.end() ? nullptr : &*at;
}

// Tensor T/COLUMN, with as many rows as T/ids.
static Result<Table::Column> find_column(const Checkpoint& checkpoint, const Table& table, std::string_view column) {
  const std::string name = format::table_tensor(table.name, column);
  CKPT_ASSIGN(const Checkpoint::Named named, checkpoint.find(name));
  if (!named.tensor || named.alias) return bad_table(table.name, "its tensor " + quoted(name) + " is not there");
  const auto extents = named.tensor.extents();
  uint64_t elements = 0;
  Table::Column found{named.name().substr(table.name.size() + 1), named.tensor};
  if (extents.empty() || !count_elements(extents.subspan(1), &elements) || elements == 0 ||
      !count_bytes(elements, named.tensor.dtype(), &found.row_bytes))
    return bad_table(table.name, quoted(name) + " has no rows");
  if (column != format::kTableBuckets && table.ids.tensor && extents[0] != table.rows())
    return bad_table(table.name, strformat("{} has {} rows, there are {} ids", quoted(name), extents[0], table.rows()));
  return found;
}

// The text of attribute ckpt.table; no text where there is none.
static Result<std::string_view> description_of(const Checkpoint& checkpoint, std::string_view name) {
  const format::Page* page = nullptr;
  CKPT_ASSIGN(const auto attrs, checkpoint.attrs_of(name, &page));
  for (const fb::Attr& attr : attrs)
    if (page->text(attr.key()) == format::kTableAttr) return page->text(attr.value());
  return std::string_view();
}

Result<Table> find_table(const Checkpoint& checkpoint, std::string_view name) {
  CKPT_ASSIGN(const Checkpoint::Named named, checkpoint.find(name));
  auto not_found = [&](const char* why) {
    return error_about(CKPT_NOT_FOUND, name, "table " + quoted(name) + ": " + why);
  };
  if (!named.tensor) return not_found("not in the checkpoint");
  CKPT_ASSIGN(const std::string_view text, description_of(checkpoint, name));
  if (!named.alias || text.empty()) return not_found("this is a tensor, not a sparse table");
  auto described = format::decode_table(text);
  if (!described.ok()) return std::move(described).status().in("table " + quoted(name));
  Table table;
  table.name = named.name();
  table.bucket_count = described->bucket_count;
  CKPT_ASSIGN(table.ids, find_column(checkpoint, table, format::kTableIds));
  CKPT_ASSIGN(table.buckets, find_column(checkpoint, table, format::kTableBuckets));
  const uint16_t ids = table.ids.tensor.dtype();
  if (table.ids.tensor.extents().size() != 1 || (ids != CKPT_DTYPE_I64 && ids != CKPT_DTYPE_U64) ||
      !(named.tensor == table.ids.tensor) || named.is_view() || table.buckets.tensor.extents().size() != 1 ||
      table.buckets.tensor.dtype() != CKPT_DTYPE_U64)
    return bad_table(name, "its ids or buckets are not what a table has");
  for (std::string_view column : described->columns) {
    CKPT_ASSIGN(Table::Column found, find_column(checkpoint, table, column));
    if (column == format::kTableIds || column == format::kTableBuckets || table.find(column))
      return bad_table(name, "column " + quoted(column) + " is there twice");
    table.columns.push_back(found);
  }
  return table;
}

Status for_each_table(const Checkpoint& checkpoint, const std::function<Status(std::string_view name)>& visit) {
  for (size_t i = 0; i < checkpoint.manifest().page_count(); i++) {
    auto page = checkpoint.manifest().page(i);
    if (!page.ok()) return checkpoint.at_manifest(std::move(page).status());
    for (const fb::Attr& attr : (*page)->attrs)
      if ((*page)->text(attr.key()) == format::kTableAttr && (*page)->find_alias((*page)->text(attr.owner())))
        CKPT_TRY(visit((*page)->text(attr.owner())));
  }
  return Ok();
}

// ---- parts ----

// What each part has of a tensor, in order of parts.
static Result<std::vector<TablePart>> rows_of(const Checkpoint& checkpoint, std::string_view table,
                                              const checkpoint::TensorRef& tensor) {
  std::vector<TablePart> parts;
  if (tensor.extents()[0] == 0) return parts;
  CKPT_ASSIGN(const auto pieces, checkpoint.pieces(tensor));
  for (const checkpoint::Piece& piece : pieces) {
    if (piece.row_total == 0) return bad_table(table, quoted(tensor.name()) + " is not stored as rows");
    if (parts.empty() || parts.back().part != piece.part)
      parts.push_back({piece.part, piece.row_first, piece.page->extents_of(*piece.tensor)[0], 0, 0, 0});
  }
  return parts;
}

Result<std::vector<TablePart>> parts_of(const Checkpoint& checkpoint, const Table& table) {
  CKPT_ASSIGN(auto parts, rows_of(checkpoint, table.name, table.ids.tensor));
  auto same_parts = [&](const std::vector<TablePart>& other, bool rows) {
    return std::ranges::equal(parts, other, [&](const TablePart& a, const TablePart& b) {
      return a.part == b.part && (!rows || a.rows == b.rows);
    });
  };
  for (const Table::Column& column : table.columns) {
    CKPT_ASSIGN(const auto rows, rows_of(checkpoint, table.name, column.tensor));
    if (!same_parts(rows, true))
      return bad_table(table.name, "its parts do not have the same rows of column " + quoted(column.name));
  }
  CKPT_ASSIGN(const auto entries, rows_of(checkpoint, table.name, table.buckets.tensor));
  if (!same_parts(entries, false)) return bad_table(table.name, "not each of its parts has buckets");
  for (size_t i = 0; i < parts.size(); i++) {
    parts[i].entry_first = entries[i].first;
    parts[i].entries = entries[i].rows;
    parts[i].entry_buckets = format::buckets_per_entry(table.bucket_count, entries[i].rows);
    if (parts[i].entry_buckets == 0)
      return bad_table(table.name, strformat("part {} has {} entries for {} buckets", parts[i].part, entries[i].rows,
                                             table.bucket_count));
  }
  return parts;
}

}  // namespace ckpt::load
