#include "load/table.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "format/table.h"

namespace ckpt::load {

using checkpoint::Checkpoint;

Status bad_table(std::string_view table, std::string what) {
  return error_about(CKPT_FORMAT, table, "table " + in_quotes(table) + ": " + std::move(what));
}

uint64_t Table::stored_rows() const {
  uint64_t rows = 0;
  for (size_t i = 0; i <= later.size(); i++) rows += removes(i) ? 0 : layer(i).rows();
  return rows;
}

const Table::Column* Table::find(std::string_view column) const {
  const auto at = std::ranges::find(columns, column, &Column::name);
  return at == columns.end() ? nullptr : &*at;
}

// Tensor LAYER/COLUMN, with as many rows as LAYER/ids.
static Result<Table::Column> find_column(const Checkpoint& checkpoint, const Table& table, const Layer& layer,
                                         std::string_view layer_name, std::string_view column) {
  const std::string name = format::table_tensor(layer_name, column);
  CKPT_ASSIGN(const Checkpoint::Named named, checkpoint.find(name));
  if (!named.tensor || named.alias) return bad_table(table.name, "its tensor " + in_quotes(name) + " is not there");
  const auto extents = named.tensor.extents();
  uint64_t elements = 0;
  Table::Column found{named.name().substr(layer_name.size() + 1), named.tensor};
  if (extents.empty() || !count_elements(extents.subspan(1), &elements) || elements == 0 ||
      !count_bytes(elements, named.tensor.dtype(), &found.row_bytes))
    return bad_table(table.name, in_quotes(name) + " has no rows");
  if (column != format::kTableBuckets && layer.ids.tensor && extents[0] != layer.rows())
    return bad_table(table.name,
                     strformat("{} has {} rows, there are {} ids", in_quotes(name), extents[0], layer.rows()));
  return found;
}

// The texts of its attributes.
struct Description {
  std::string_view table;
  std::optional<std::string_view> runs;
};
static Result<Description> description_of(const Checkpoint& checkpoint, std::string_view name) {
  const format::Page* page = nullptr;
  CKPT_ASSIGN(const auto attrs, checkpoint.attrs_of(name, &page));
  Description found;
  for (const fb::Attr& attr : attrs) {
    if (page->text(attr.key()) == format::kTableAttr) found.table = page->text(attr.value());
    if (page->text(attr.key()) == format::kRunsAttr) found.runs = page->text(attr.value());
  }
  return found;
}

// Ids and buckets, and of rows the columns, which are those of the table.
static Status find_layer(const Checkpoint& checkpoint, const Table& table, const std::string& name, bool rows,
                         Layer* layer) {
  CKPT_ASSIGN(layer->ids, find_column(checkpoint, table, *layer, name, format::kTableIds));
  CKPT_ASSIGN(layer->buckets, find_column(checkpoint, table, *layer, name, format::kTableBuckets));
  const checkpoint::TensorRef ids = layer->ids.tensor, buckets = layer->buckets.tensor;
  if (ids.extents().size() != 1 || (ids.dtype() != CKPT_DTYPE_I64 && ids.dtype() != CKPT_DTYPE_U64) ||
      buckets.extents().size() != 1 || buckets.dtype() != CKPT_DTYPE_U64 ||
      (table.ids.tensor && ids.dtype() != table.ids.tensor.dtype()))
    return bad_table(table.name, in_quotes(name) + ": its ids or buckets are not what a table has");
  for (const Table::Column& like : rows ? std::span(table.columns) : std::span<const Table::Column>()) {
    CKPT_ASSIGN(const Table::Column found, find_column(checkpoint, table, *layer, name, like.name));
    if (found.tensor.dtype() != like.tensor.dtype() ||
        !std::ranges::equal(found.tensor.extents().subspan(1), like.tensor.extents().subspan(1)))
      return bad_table(table.name, in_quotes(found.tensor.name()) + " has not the dtype and rows of its column");
    layer->columns.push_back(found);
  }
  return Ok();
}

// Of the numbers that a run can have, and the first one that none can have.
static Result<uint32_t> last_run(const Checkpoint& checkpoint, std::string_view table) {
  for (uint32_t run = format::kMostRuns; run > 0; run--)
    for (const std::string& name : {format::run_name(table, run), format::removed_name(table, run)}) {
      CKPT_ASSIGN(const Checkpoint::Named named, checkpoint.find(format::table_tensor(name, format::kTableIds)));
      if (named.tensor && !named.alias) return run;
    }
  return 0;
}

// Runs are numbered without a hole.
static Status find_runs(const Checkpoint& checkpoint, std::string_view rule, Table* table) {
  if (rule != format::kRunsValue)
    return Status(CKPT_UNSUPPORTED, strformat("table {}: runs by {}, which this library does not know",
                                              in_quotes(table->name), in_quotes(rule)));
  if ((checkpoint.summary().required_features & format::kHasRuns) == 0)
    return bad_table(table->name, "it has runs, and required_features does not say so");
  CKPT_ASSIGN(const uint32_t last, last_run(checkpoint, table->name));
  if (last == 0 || last == format::kMostRuns)
    return bad_table(table->name, strformat("its last run is {}, expected 1 to {}", last, format::kMostRuns - 1));
  for (uint32_t run = 1; run <= last; run++) {
    CKPT_TRY(find_layer(checkpoint, *table, format::run_name(table->name, run), true, &table->later.emplace_back()));
    CKPT_TRY(
        find_layer(checkpoint, *table, format::removed_name(table->name, run), false, &table->later.emplace_back()));
  }
  CKPT_ASSIGN(table->live, find_column(checkpoint, *table, Layer(), table->name, format::kTableLive));
  if (table->live.tensor.dtype() == CKPT_DTYPE_U64 && table->live.tensor.extents().size() == 1) return Ok();
  return bad_table(table->name, in_quotes(table->live.tensor.name()) + " is not what a table has");
}

Result<Table> find_table(const Checkpoint& checkpoint, std::string_view name) {
  CKPT_ASSIGN(const Checkpoint::Named named, checkpoint.find(name));
  auto not_found = [&](const char* why) {
    return error_about(CKPT_NOT_FOUND, name, "table " + in_quotes(name) + ": " + why);
  };
  if (!named.tensor) return not_found("not in the checkpoint");
  CKPT_ASSIGN(const Description text, description_of(checkpoint, name));
  if (!named.alias || text.table.empty()) return not_found("this is a tensor, not a sparse table");
  auto described = format::decode_table(text.table);
  if (!described.ok()) return std::move(described).status().in("table " + in_quotes(name));
  Table table;
  table.name = named.name();
  table.bucket_count = described->bucket_count;
  CKPT_TRY(find_layer(checkpoint, table, std::string(name), false, &table));
  if (!(named.tensor == table.ids.tensor) || named.is_view())
    return bad_table(name, "its ids or buckets are not what a table has");
  for (std::string_view column : described->columns) {
    CKPT_ASSIGN(Table::Column found, find_column(checkpoint, table, table, name, column));
    if (column == format::kTableIds || column == format::kTableBuckets || table.find(column))
      return bad_table(name, "column " + in_quotes(column) + " is there twice");
    table.columns.push_back(found);
  }
  if (text.runs) CKPT_TRY(find_runs(checkpoint, *text.runs, &table));
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
    if (piece.row_total == 0) return bad_table(table, in_quotes(tensor.name()) + " is not stored as rows");
    if (parts.empty() || parts.back().part != piece.part)
      parts.push_back({.part = piece.part, .first = piece.row_first, .rows = piece.page->extents_of(*piece.tensor)[0]});
  }
  return parts;
}

static Result<std::vector<TablePart>> parts_of(const Checkpoint& checkpoint, const Table& table, uint32_t number) {
  const Layer& layer = table.layer(number);
  CKPT_ASSIGN(auto parts, rows_of(checkpoint, table.name, layer.ids.tensor));
  auto same_parts = [&](const std::vector<TablePart>& other, bool rows) {
    return std::ranges::equal(parts, other, [&](const TablePart& a, const TablePart& b) {
      return a.part == b.part && (!rows || a.rows == b.rows);
    });
  };
  for (const Table::Column& column : layer.columns) {
    CKPT_ASSIGN(const auto rows, rows_of(checkpoint, table.name, column.tensor));
    if (!same_parts(rows, true))
      return bad_table(table.name, "its parts do not have the same rows of column " + in_quotes(column.name));
  }
  CKPT_ASSIGN(const auto entries, rows_of(checkpoint, table.name, layer.buckets.tensor));
  if (!same_parts(entries, false)) return bad_table(table.name, "not each of its parts has buckets");
  for (size_t i = 0; i < parts.size(); i++) {
    parts[i].layer = number;
    parts[i].entry_first = entries[i].first;
    parts[i].entries = entries[i].rows;
    parts[i].entry_buckets = format::buckets_per_entry(table.bucket_count, entries[i].rows);
    if (parts[i].entry_buckets == 0)
      return bad_table(table.name, strformat("part {} has {} entries for {} buckets", parts[i].part, entries[i].rows,
                                             table.bucket_count));
  }
  return parts;
}

Result<std::vector<TablePart>> parts_of(const Checkpoint& checkpoint, const Table& table) {
  std::vector<TablePart> all;
  for (auto layer = static_cast<uint32_t>(table.later.size() + 1); layer-- > 0;) {
    CKPT_ASSIGN(const auto parts, parts_of(checkpoint, table, layer));
    all.insert(all.end(), parts.begin(), parts.end());
  }
  std::ranges::stable_sort(all, {}, &TablePart::part);
  return all;
}

Result<std::vector<TablePart>> live_of(const Checkpoint& checkpoint, const Table& table) {
  CKPT_ASSIGN(auto parts, rows_of(checkpoint, table.name, table.live.tensor));
  for (const TablePart& part : parts)
    if (part.rows != 1)
      return bad_table(table.name, strformat("part {} counts its rows {} times", part.part, part.rows));
  return parts;
}

}  // namespace ckpt::load
