// table.*, share.*: sparse tables; what a save and a load say of them.
#include <algorithm>

#include "runner.hpp"

namespace conformance {
namespace {

uint64_t number(const Call& call, const std::string& key, uint64_t otherwise) {
  const auto text = call.text(key);
  return text ? std::stoull(*text) : otherwise;
}

// ---- the rows of a rank ----

void run_new(Runner& runner, const Call& call) {
  ckpt::Rows rows;
  rows.id_dtype = parse_dtype(call[1]);
  if (!call[2].empty()) {
    const Bytes& ids = runner.get<Bytes>(call[2]);
    rows.ids = ids.data();
    rows.count = ids.size() / sizeof(uint64_t);
  }
  rows.bucket_count = number(call, "buckets", rows.bucket_count);
  rows.rows_per_block = number(call, "rows_per_block", 0);
  if (const auto positions = call.text("positions"))
    rows.positions = reinterpret_cast<const uint64_t*>(runner.get<Bytes>(*positions).data());
  runner.put(call[0], std::move(rows));
}

void run_column(Runner& runner, const Call& call) {
  auto& rows = runner.get<ckpt::Rows>(call[0]);
  const ckpt::Tensor row = call.tensor(2);
  const ckpt_tensor_desc& desc = row.desc();
  ckpt::Column column{call[1], desc.dtype, ckpt::Extents(desc.shape, desc.shape + desc.ndim), {}};
  uint64_t step = rows.rows_per_block * static_cast<uint64_t>(ckpt::dtype_bits(desc.dtype));
  for (const int64_t extent : column.row) step *= static_cast<uint64_t>(extent);
  step /= 8;
  if (!call[4].empty()) {
    const Bytes& all = runner.get<Bytes>(call[4]);
    if (step == 0) column.blocks.emplace_back(all);
    for (uint64_t start = 0; step != 0 && start < all.size(); start += step)
      column.blocks.emplace_back(all.data() + start, std::min(step, all.size() - start));
  }
  rows.columns.push_back(std::move(column));
}

// ---- what a checkpoint has ----

void run_tables(Runner& runner, const Call& call) {
  std::vector<std::string> found;
  const auto& reader = runner.get<ckpt::Reader>(call[0]);
  for (const ckpt::TableInfo& info : reader.tables()) found.push_back(info.name);
  call.expect_words(1, found);
}

void run_table(Runner& runner, const Call& call) {
  const ckpt::TableInfo info = runner.get<ckpt::Reader>(call[0]).table(call[1]);
  if (call[1] != info.name) fail("expected ", call[1], ", found ", info.name);
  call.expect("id_dtype", dtype_text(info.id_dtype));
  call.expect("row_count", info.row_count);
  call.expect("bucket_count", info.bucket_count);
  call.expect("bytes", info.bytes);
  call.expect("stored_bytes", info.stored_bytes);
  call.expect("column_count", info.column_count);
}

void run_column_info(Runner& runner, const Call& call) {
  const auto columns = runner.get<ckpt::Reader>(call[0]).columns(call[1]);
  const uint64_t index = call.count(2);
  if (index >= columns.size()) throw ckpt::Error(CKPT_NOT_FOUND, "column " + call[2]);
  const ckpt::ColumnInfo& info = columns[index];
  call.expect("name", info.name);
  call.expect("dtype", dtype_text(info.dtype));
  call.expect("shape", shape_text(info.ndim, info.shape));
  call.expect("row_bytes", info.row_bytes);
  call.expect("stored_bytes", info.stored_bytes);
}

// ---- some of its rows ----

ckpt::Rowset rows_of(Runner& runner, const Call& call) {
  const auto pair = [&](const char* key, ckpt::Rowset (*make)(uint64_t, uint64_t)) {
    const auto given = call.numbers(key);
    return make(static_cast<uint64_t>(given->at(0)), static_cast<uint64_t>(given->at(1)));
  };
  if (call.find("buckets")) return pair("buckets", ckpt::Rowset::buckets);
  if (call.find("slice")) return pair("slice", ckpt::Rowset::slice);
  if (call.find("mod")) return pair("mod", ckpt::Rowset::mod);
  const auto ids = call.text("ids");
  if (!ids) return ckpt::Rowset::all();
  const Bytes& list = runner.get<Bytes>(*ids);
  const auto* first = reinterpret_cast<const uint64_t*>(list.data());
  return ckpt::Rowset::ids(std::vector<uint64_t>(first, first + list.size() / sizeof *first));
}

void run_open(Runner& runner, const Call& call) {
  const auto& reader = runner.get<ckpt::Reader>(call[1]);
  runner.put(call[0], reader.share(call[2], rows_of(runner, call).window(number(call, "window", 0)), call.options));
}

void run_info(Runner& runner, const Call& call) {
  const ckpt::ShareInfo info = runner.get<ckpt::Share>(call[0]).info();
  call.expect("row_count", info.row_count);
  call.expect("window_count", info.window_count);
  call.expect("most_rows", info.most_rows);
  call.expect("missing_count", info.missing_count);
}

void run_missing(Runner& runner, const Call& call) {
  std::vector<std::string> found;
  const std::vector<uint64_t> missing = runner.get<ckpt::Share>(call[0]).missing();
  for (const uint64_t id : missing) found.push_back(std::to_string(id));
  call.expect_words(1, found);
}

void run_load(Runner& runner, const Call& call) {
  std::vector<ckpt::ColumnMemory> columns;
  for (size_t i = 4; i < call.words.size(); i++) {
    const size_t colon = call[i].rfind(':');
    if (colon == std::string::npos) fail("expected COLUMN:M, found ", call[i]);
    columns.push_back({call[i].substr(0, colon), runner.get<Bytes>(call[i].substr(colon + 1))});
  }
  const auto ids = call[3].empty() ? ckpt::MutableMemory() : ckpt::MutableMemory(runner.get<Bytes>(call[3]));
  runner.get<ckpt::Load>(call[0]).add_table(runner.get<ckpt::Share>(call[1]), call.count(2), ids, columns);
}

}  // namespace

const Commands kTable = {
    {"table.new", run_new},
    {"table.column", run_column},
    {"save.table", [](Runner& r, const Call& c) { r.get<ckpt::Save>(c[0]).add_table(c[1], r.get<ckpt::Rows>(c[2])); }},
    {"reader.tables", run_tables},
    {"reader.table", run_table},
    {"reader.column", run_column_info},
    {"share.open", run_open},
    {"share.info", run_info},
    {"share.rows",
     [](Runner& r, const Call& c) { c.expect_count(2, r.get<ckpt::Share>(c[0]).window_rows(c.count(1))); }},
    {"share.missing", run_missing},
    {"load.table", run_load}};

}  // namespace conformance
