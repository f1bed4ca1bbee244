#include "format/table.h"

#include <algorithm>
#include <charconv>

#include "format/names.h"

namespace ckpt::format {

static constexpr std::string_view kHash = "mod ";

Status check_column_name(std::string_view name) {
  CKPT_TRY(check_tensor_name(name));
  if (!name.starts_with(kRunPrefix)) return Ok();
  return Status(CKPT_INVALID,
                strformat("column {}: names that begin with \"{}\" are the engine's own; take another one",
                          in_quotes(name), kRunPrefix));
}

std::string encode_table(const TableText& table) {
  std::string text = std::string(kHash) + std::to_string(table.bucket_count);
  for (std::string_view column : table.columns) text.append("\n").append(column);
  return text;
}

Result<TableText> decode_table(std::string_view text) {
  auto bad = [](std::string_view line) {
    return Status(CKPT_FORMAT, "not a description of a table: " + in_quotes(line));
  };
  TableText table;
  auto line = [&text] {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view taken = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return taken;
  };
  if (text.ends_with('\n')) return bad("");
  const std::string_view first = line();
  if (!first.starts_with(kHash))
    return Status(CKPT_UNSUPPORTED, "buckets by " + in_quotes(first) + ", which this library does not know");
  const std::string_view number = first.substr(kHash.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), table.bucket_count);
  if (error != std::errc() || end != number.data() + number.size() || number.starts_with('0') ||
      table.bucket_count > kMaxBuckets)
    return bad(first);
  while (!text.empty()) {
    table.columns.push_back(line());
    if (Status named = check_column_name(table.columns.back()); !named.ok()) return bad(table.columns.back());
  }
  return table;
}

}  // namespace ckpt::format
