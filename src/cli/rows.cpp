#include "cli/rows.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/array.h"
#include "cli/error.h"
#include "cli/numbers.h"
#include "cli/text.h"

namespace cli {
namespace {

std::vector<std::string> column_names(const SparseTable& table) {
  std::vector<std::string> names;
  for (const ckpt::ColumnInfo& column : table.columns) names.emplace_back(column.name);
  return names;
}

// A number as JSON has it; text for what it lacks.
std::string json_number(int32_t dtype, const std::string& text) {
  if (dtype == CKPT_DTYPE_BOOL) return text == "True" ? "true" : "false";
  return text.find_first_not_of("0123456789+-.e") == text.npos ? text : '"' + text + '"';
}

// Elements of a row in nested brackets; `next` gives them in row-major order and can leave some out.
template <typename Element, typename Skip>
std::string nested(std::span<const int64_t> shape, bool cut, Element&& element, Skip&& skip) {
  if (shape.empty()) return element();
  const int64_t extent = shape[0];
  const auto inside = shape.subspan(1);
  std::string out = "[";
  for (int64_t i = 0; i < extent; i++) {
    if (i) out += ", ";
    if (cut && has_gap(extent) && i == kEdge) {
      out += "..., ";
      uint64_t left_out = static_cast<uint64_t>(extent - 2 * kEdge);
      for (const int64_t size : inside) left_out *= static_cast<uint64_t>(size);
      skip(left_out);
      i = extent - kEdge;
    }
    out += nested(inside, cut, element, skip);
  }
  return out + "]";
}

std::span<const std::byte> bytes_of(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row) {
  const uint64_t size = table.columns[column].row_bytes;
  return std::span(rows.columns[column]).subspan(row * size, size);
}

uint64_t elements_of(const ckpt::ColumnInfo& column) {
  uint64_t count = 1;
  for (int32_t d = 0; d < column.ndim; d++) count *= static_cast<uint64_t>(column.shape[d]);
  return count;
}

// RFC 4180: quoted if it has a comma, a quote or a line end.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string row_of(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row, bool cut, bool json) {
  const ckpt::ColumnInfo& info = table.columns[column];
  const auto bytes = bytes_of(table, rows, column, row);
  uint64_t at = 0;
  return nested(
      std::span(info.shape, static_cast<size_t>(info.ndim)), cut,
      [&] {
        const std::string text = number_text(info.dtype, bytes, at++);
        return json ? json_number(info.dtype, text) : text;
      },
      [&](uint64_t count) { at += count; });
}

SparseTable table_of(const ckpt::Reader& reader, const ckpt::TableInfo& info) {
  auto open = [&reader, name = std::string(info.name)](const ckpt::Rowset& rows, const ckpt::Options& options) {
    const auto share = std::make_shared<const ckpt::Share>(reader.share(name, rows));
    return TableRows{share->info(), share->missing(), [share](uint64_t window) { return share->window_rows(window); },
                     [&reader, share, options](uint64_t window, ckpt::MutableMemory ids, const auto& columns) {
                       auto load = ckpt::Load::create(reader, options);
                       load.add_table(*share, window, ids, columns);
                       load.run();
                     }};
  };
  return {info, reader.columns(info.name), open};
}

}  // namespace

std::vector<SparseTable> tables_of(const ckpt::Reader& reader) {
  std::vector<SparseTable> tables;
  for (const ckpt::TableInfo& info : reader.tables()) tables.push_back(table_of(reader, info));
  return tables;
}

std::optional<SparseTable> find_table(const ckpt::Reader& reader, const std::string& name) try {
  return table_of(reader, reader.table(name));
} catch (const ckpt::Error& error) {
  if (error.status() != CKPT_NOT_FOUND && error.status() != CKPT_INVALID) throw;
  return std::nullopt;
}

std::string columns_text(const SparseTable& table) {
  std::vector<std::string> texts;
  for (const ckpt::ColumnInfo& column : table.columns) {
    const auto shape = std::span(column.shape, static_cast<size_t>(column.ndim));
    texts.push_back(escaped(column.name) + " " + dtype_text(column.dtype) +
                    (shape.empty() ? "" : " " + shape_text(shape)));
  }
  return joined(texts);
}

std::vector<std::string> runs_of(const SparseTable& table) {
  std::vector<std::string> runs{table.name()};
  for (uint32_t run = 1; run < table.info.run_count; run++) {
    runs.push_back(strformat("{}/run-{}", table.name(), run));
    runs.push_back(runs.back() + "-removed");
  }
  return runs;
}

std::set<std::string> tensors_of(const SparseTable& table) {
  std::set<std::string> names{table.name()};
  for (const std::string& run : runs_of(table)) {
    names.insert({run + "/ids", run + "/buckets"});
    for (const ckpt::ColumnInfo& column : table.columns) names.insert(run + "/" + column.name);
  }
  if (table.info.run_count > 1) names.insert(table.name() + "/run-live");
  return names;
}

SparseTable with_columns(SparseTable table, const std::vector<std::string>& names) {
  const std::vector<std::string> known = column_names(table);
  std::vector<ckpt::ColumnInfo> chosen;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      fail(CKPT_NOT_FOUND, strformat("table {} has no column {}; it has {}", table.name(), name, joined(known)));
    chosen.push_back(table.columns[static_cast<size_t>(found - known.begin())]);
  }
  table.columns = std::move(chosen);
  return table;
}

std::vector<uint64_t> parse_ids(const std::string& text) {
  std::vector<uint64_t> ids;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const char *first = text.data() + at, *last = text.data() + end;
    const auto parse = [&](auto number) {
      const auto [stop, code] = std::from_chars(first, last, number);
      if (code != std::errc() || stop != last) invalid("--ids: expected numbers of 64 bits, found '" + text + "'");
      return static_cast<uint64_t>(number);
    };
    ids.push_back(*first == '-' ? parse(int64_t{}) : parse(uint64_t{}));
    at = end + 1;
  }
  return ids;
}

std::string id_text(const SparseTable& table, uint64_t id) {
  return table.info.id_dtype == CKPT_DTYPE_I64 ? std::to_string(static_cast<int64_t>(id)) : std::to_string(id);
}

LoadedRows RowReader::read(uint64_t window) const {
  LoadedRows out;
  out.ids.resize(rows_.window_rows(window));
  std::vector<ckpt::ColumnMemory> memory;
  for (const ckpt::ColumnInfo& column : table_.columns) {
    out.columns.emplace_back(out.ids.size() * column.row_bytes);
    memory.push_back({column.name, ckpt::MutableMemory(out.columns.back())});
  }
  rows_.read(window, ckpt::MutableMemory(out.ids), memory);
  return out;
}

// Windows are ranges of buckets: a bucket that one window ends in may go on in the next one.
Skew skew_of(const SparseTable& table, const ckpt::Options& options) {
  const SparseTable ids_only = with_columns(table, {});
  const RowReader reading(ids_only, ckpt::Rowset::all().window(window_rows(ids_only)), options);
  Skew skew;
  uint64_t last = UINT64_MAX, rows_of_last = 0;
  for (uint64_t window = 0; window < reading.window_count(); window++) {
    std::vector<uint64_t> buckets = reading.read(window).ids;
    for (uint64_t& id : buckets) id %= table.info.bucket_count;
    std::sort(buckets.begin(), buckets.end());
    for (const uint64_t bucket : buckets) {
      if (std::exchange(last, bucket) != bucket) {
        rows_of_last = 0;
        skew.buckets_with_rows++;
      }
      skew.rows_of_fullest = std::max(skew.rows_of_fullest, ++rows_of_last);
    }
  }
  return skew;
}

uint64_t window_rows(const SparseTable& table) {
  constexpr uint64_t kBytes = 16 << 20;
  uint64_t row = sizeof(uint64_t);
  for (const ckpt::ColumnInfo& column : table.columns) row += column.row_bytes;
  return std::clamp<uint64_t>(kBytes / row, 1, 65536);
}

std::string row_text(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row, bool cut) {
  return row_of(table, rows, column, row, cut, false);
}

static std::string csv_header(const SparseTable& table) {
  std::string line = "id";
  for (const ckpt::ColumnInfo& column : table.columns) {
    const uint64_t elements = elements_of(column);
    for (uint64_t i = 0; i < elements; i++)
      line += "," + csv_field(escaped(column.ndim == 0 ? column.name : strformat("{}.{}", column.name, i)));
  }
  return line + "\r\n";
}

static std::string csv_row(const SparseTable& table, const LoadedRows& rows, size_t row) {
  std::string line = id_text(table, rows.ids[row]);
  for (size_t column = 0; column < table.columns.size(); column++) {
    const uint64_t elements = elements_of(table.columns[column]);
    const auto bytes = bytes_of(table, rows, column, row);
    for (uint64_t i = 0; i < elements; i++) line += "," + number_text(table.columns[column].dtype, bytes, i);
  }
  return line + "\r\n";
}

void write_csv(const SparseTable& table, const RowReader& reading, const std::function<void(std::string_view)>& put) {
  put(csv_header(table));
  for (uint64_t window = 0; window < reading.window_count(); window++) {
    const LoadedRows rows = reading.read(window);
    std::string text;
    for (size_t row = 0; row < rows.ids.size(); row++) text += csv_row(table, rows, row);
    put(text);
  }
}

Json row_json(const SparseTable& table, const LoadedRows& rows, size_t column, size_t row) {
  return Json::parsed(row_of(table, rows, column, row, false, true));
}

}  // namespace cli
