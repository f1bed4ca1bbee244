#include "cli/diff_tables.h"

#include <cstring>
#include <map>

#include "cli/command.h"
#include "cli/rows.h"
#include "cli/text.h"

namespace cli {
namespace {

constexpr size_t kShownIds = 5;

// Ids as text, the first few of them.
struct Ids {
  std::vector<std::string> shown;
  uint64_t count = 0;
  void add(const SparseTable& table, uint64_t id) {
    if (count++ < kShownIds) shown.push_back(id_text(table, id));
  }
  std::string text() const { return joined(shown) + (count > kShownIds ? ", …" : ""); }
};

bool same_columns(const SparseTable& a, const SparseTable& b) {
  if (a.info.id_dtype != b.info.id_dtype || a.columns.size() != b.columns.size()) return false;
  for (size_t i = 0; i < a.columns.size(); i++) {
    const ckpt::ColumnInfo &left = a.columns[i], &right = b.columns[i];
    if (std::strcmp(left.name, right.name) != 0 || left.dtype != right.dtype ||
        ckpt::Extents(left.shape, left.shape + left.ndim) != ckpt::Extents(right.shape, right.shape + right.ndim))
      return false;
  }
  return true;
}

class Comparison {
 public:
  Comparison(const SparseTable& first, const SparseTable& second, const ckpt::Options& options)
      : first_(first), second_(second), options_(options) {}

  void run() {
    const RowReader rows(first_, ckpt::Rowset::all().window(window_rows(first_)), options_);
    for (uint64_t window = 0; window < rows.window_count(); window++) compare(rows.read(window));
    // Rows that both have are counted now; if these are all of the second's, none is left to be looked for.
    if (first_.info.row_count - only_first_.count == second_.info.row_count) return;
    const SparseTable ids = with_columns(second_, {});
    const RowReader others(ids, ckpt::Rowset::all().window(window_rows(ids)), options_);
    for (uint64_t window = 0; window < others.window_count(); window++)
      for (const uint64_t id : RowReader(first_, ckpt::Rowset::ids(others.read(window).ids), options_).missing())
        only_second_.add(second_, id);
  }

  TableDifference difference() const {
    TableDifference out{first_.name(), {}, only_first_.count, only_second_.count, differing_.count};
    const auto only = [&](const Ids& ids, const char* where) {
      if (ids.count)
        out.texts.push_back(strformat("{} only in the {}: {}", counted(ids.count, "id"), where, ids.text()));
    };
    only(only_first_, "first");
    only(only_second_, "second");
    if (differing_.count)
      out.texts.push_back(strformat("{} of {} that both have differ, in {}; ids {}", differing_.count,
                                    counted(first_.info.row_count - only_first_.count, "row"),
                                    joined(std::vector<std::string>(columns_.begin(), columns_.end())),
                                    differing_.text()));
    return out;
  }

 private:
  // The second's rows of these ids come in the same order, without those that it lacks.
  void compare(const LoadedRows& rows) {
    const RowReader others(second_, ckpt::Rowset::ids(rows.ids), options_);
    const LoadedRows found = others.read(0);
    const std::vector<uint64_t> missing = others.missing();
    for (size_t row = 0, absent = 0; row < rows.ids.size(); row++) {
      if (absent < missing.size() && missing[absent] == rows.ids[row]) {
        only_first_.add(first_, missing[absent++]);
      } else if (differ(rows, row, found, row - absent)) {
        differing_.add(first_, rows.ids[row]);
      }
    }
  }

  bool differ(const LoadedRows& left, size_t row, const LoadedRows& right, size_t other) {
    bool any = false;
    for (size_t i = 0; i < first_.columns.size(); i++) {
      const uint64_t size = first_.columns[i].row_bytes;
      if (std::memcmp(left.columns[i].data() + row * size, right.columns[i].data() + other * size, size) == 0) continue;
      columns_.insert(first_.columns[i].name);
      any = true;
    }
    return any;
  }

  const SparseTable &first_, &second_;
  const ckpt::Options& options_;
  Ids only_first_, only_second_, differing_;
  std::set<std::string> columns_;  // in which rows differ
};

}  // namespace

TableSide checkpoint_side(const ckpt::Reader& reader) {
  return {tables_of(reader), [&reader](const std::string& name) { return reader.has_tensor(name); }};
}

TableDifferences diff_tables(const TableSide& a, const TableSide& b, const std::string& at, bool values,
                             const ckpt::Options& options) {
  std::map<std::string, std::pair<const SparseTable*, const SparseTable*>> pairs;
  for (const SparseTable& table : a.tables) pairs[table.name()].first = &table;
  for (const SparseTable& table : b.tables) pairs[table.name()].second = &table;
  TableDifferences out;
  for (const auto& [name, pair] : pairs) {
    const auto& [left, right] = pair;
    if (!is_under(at, name) || (left && right && !same_columns(*left, *right))) continue;
    TableDifference difference{name, {}};
    if (!left || !right) {
      if ((left ? b : a).has_tensor(name)) continue;  // it is a tensor there
      difference.texts.push_back(strformat("only in the {}", left ? "first" : "second"));
    } else {
      if (values) {
        Comparison comparison(*left, *right, options);
        comparison.run();
        difference = comparison.difference();
      } else if (left->info.row_count != right->info.row_count) {
        difference.texts.push_back(strformat("{} rows against {}", left->info.row_count, right->info.row_count));
      }
      if (left->info.bucket_count != right->info.bucket_count && left->info.bucket_count && right->info.bucket_count)
        difference.texts.push_back(
            strformat("{} buckets against {}", left->info.bucket_count, right->info.bucket_count));
    }
    for (const SparseTable* table : {left, right})
      if (table) out.said.merge(tensors_of(*table));
    out.said.insert("\"" + name + "\": ckpt.table");
    if (!difference.texts.empty()) out.found.push_back(std::move(difference));
  }
  return out;
}

}  // namespace cli
