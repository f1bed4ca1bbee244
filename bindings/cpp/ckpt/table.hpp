// ckpt/table.hpp - what Save, Reader and Load say of sparse tables. Include <ckpt.hpp>.
#ifndef CKPT_TABLE_HPP
#define CKPT_TABLE_HPP

#include <optional>

#include "memory.hpp"

namespace CKPT_HPP_NAMESPACE {
inline namespace CKPT_HPP_MODE {

using TableInfo = ckpt_table_info;
using ColumnInfo = ckpt_column_info;
using ShareInfo = ckpt_share_info;

// A column of a table that is saved: `row` is the shape of a row, `blocks` the memory of its rows, in one piece or as
// a hash table has it, in slabs.
struct Column {
  std::string name;
  int32_t dtype;
  Extents row;
  std::vector<Memory> blocks;
};

// What changed since this session's last save of the table: numbers of rows, and ids that are gone. All rows are given
// nevertheless; with option incremental only these are written (CKPT_TABLE_CHANGES says more).
struct Changes {
  const uint64_t* rows = nullptr;
  uint64_t count = 0;
  const uint64_t* removed = nullptr;
  uint64_t removed_count = 0;
  bool by_digest = false;  // in place of all that: the engine finds it out (CKPT_TABLE_DIGESTS)
};

// A rank's rows of a sparse table. The memory must live until the save is staged.
struct Rows {
  const void* ids = nullptr;  // `count` of them
  uint64_t count = 0;
  std::vector<Column> columns = {};
  int32_t id_dtype = CKPT_DTYPE_I64;
  uint64_t bucket_count = CKPT_TABLE_BUCKETS;
  uint64_t rows_per_block = 0;          // of columns in several blocks
  const uint64_t* positions = nullptr;  // where in the blocks each row is; null: row i is row i
  Device device = {};                   // of the columns' memory; ids and positions are the host's
  int64_t stream = 0;                   // of a CUDA device: behind whose work it is copied (ckpt_tensor_desc::stream)
  std::optional<Changes> changes = std::nullopt;  // nothing: nobody knows
};

// Which rows of a table to load.
class Rowset {
 public:
  static Rowset all() { return Rowset(CKPT_SHARE_ALL); }
  static Rowset buckets(uint64_t first, uint64_t end) {
    Rowset rows(CKPT_SHARE_BUCKETS);
    rows.desc_.bucket_first = first;
    rows.desc_.bucket_end = end;
    return rows;
  }
  // Slice `index` of `count`, of buckets.
  static Rowset slice(uint64_t index, uint64_t count) { return Rowset(CKPT_SHARE_SLICE).of(index, count); }
  // uint64(id) mod count == index.
  static Rowset mod(uint64_t index, uint64_t count) { return Rowset(CKPT_SHARE_MOD).of(index, count); }
  static Rowset ids(std::vector<uint64_t> ids) {
    Rowset rows(CKPT_SHARE_IDS);
    rows.ids_ = std::move(ids);
    return rows;
  }
  // The most rows of a window.
  Rowset& window(uint64_t rows) & {
    desc_.window_rows = rows;
    return *this;
  }
  Rowset&& window(uint64_t rows) && { return std::move(window(rows)); }
  const ckpt_share_desc& desc() const { return desc_; }
  const std::vector<uint64_t>& id_list() const { return ids_; }

 private:
  explicit Rowset(int32_t kind) : desc_(detail::sized<ckpt_share_desc>()) { desc_.kind = kind; }
  Rowset of(uint64_t index, uint64_t count) && {
    desc_.index = index;
    desc_.count = count;
    return std::move(*this);
  }
  ckpt_share_desc desc_;
  std::vector<uint64_t> ids_;
};

// The rows of a table that a rank loads, counted and cut into windows: see ckpt_share_open. Reader::share makes it.
class Share : public detail::Handle<ckpt_share, ckpt_share_free> {
 public:
  using Handle::Handle;
  Result<ShareInfo> info() const { return detail::fill<ShareInfo>(ckpt_share_get, get()); }
  Result<uint64_t> window_rows(uint64_t window) const {
    uint64_t rows = 0;
    detail::Call call;
    call(ckpt_share_window_rows, get(), window, &rows);
    return call.result(std::move(rows));
  }
  // The ids that were asked for and are not there.
  Result<std::vector<uint64_t>> missing() const {
    auto info = detail::sized<ShareInfo>();
    detail::Call call;
    call(ckpt_share_get, get(), &info);
    std::vector<uint64_t> ids(info.missing_count);
    for (size_t i = 0; i < ids.size(); i++) call(ckpt_share_missing_at, get(), i, &ids[i]);
    return call.result(std::move(ids));
  }
};

// A column of a table that is loaded, and where its rows go.
struct ColumnMemory {
  std::string name;
  MutableMemory memory;
};

namespace detail {

inline Result<void> add_table(ckpt_save* save, const std::string& name, const Rows& rows) {
  auto desc = sized<ckpt_table_desc>();
  desc.id_dtype = rows.id_dtype;
  desc.row_count = rows.count;
  desc.bucket_count = rows.bucket_count;
  desc.rows_per_block = rows.rows_per_block;
  desc.column_count = static_cast<uint32_t>(rows.columns.size());
  desc.block_count = rows.columns.empty() ? 0 : static_cast<uint32_t>(rows.columns[0].blocks.size());
  if (rows.changes) {
    desc.flags = rows.changes->by_digest ? CKPT_TABLE_DIGESTS : CKPT_TABLE_CHANGES;
    desc.changed = rows.changes->rows;
    desc.changed_count = rows.changes->count;
    desc.removed = rows.changes->removed;
    desc.removed_count = rows.changes->removed_count;
  }
  std::vector<ckpt_column_desc> columns;
  std::vector<const char*> names;
  std::vector<const void*> data;
  std::vector<uint64_t> bytes;
  Call call;
  for (const Column& column : rows.columns) {
    call.refuse_nul({"a column's name", column.name});
    if (column.row.size() >= CKPT_MAX_NDIM || column.blocks.size() != rows.columns[0].blocks.size())
      call.refuse(CKPT_INVALID, "column " + as_literal(column.name) + " has too many dimensions or other blocks");
    auto& made = columns.emplace_back(sized<ckpt_column_desc>());
    made.dtype = column.dtype;
    for (size_t i = 0; i < column.row.size() && i < CKPT_MAX_NDIM; i++) made.shape[made.ndim++] = column.row[i];
    names.push_back(column.name.c_str());
    if (column.blocks.empty()) {  // of a table without rows
      data.push_back(nullptr);
      bytes.push_back(0);
    }
    for (const Memory& block : column.blocks) {
      data.push_back(block.data);
      bytes.push_back(block.bytes);
    }
  }
  call(ckpt_save_add_table, save, Text{"name", name}, &desc, rows.ids, rows.count * sizeof(uint64_t), names.data(),
       columns.data(), data.data(), bytes.data(), rows.positions, rows.device.type, rows.device.id, rows.stream);
  return call.done();
}

inline Result<void> add_table(ckpt_load* load, const Share& share, uint64_t window, MutableMemory ids,
                              const std::vector<ColumnMemory>& columns, Device device, int64_t stream) {
  std::vector<const char*> names;
  std::vector<void*> data;
  std::vector<uint64_t> bytes;
  Call call;
  for (const ColumnMemory& column : columns) {
    call.refuse_nul({"a column's name", column.name});
    names.push_back(column.name.c_str());
    data.push_back(column.memory.data);
    bytes.push_back(column.memory.bytes);
  }
  call(ckpt_load_add_table, load, share.get(), window, ids.data, ids.bytes, uint64_t{columns.size()}, names.data(),
       data.data(), bytes.data(), device.type, device.id, stream);
  return call.done();
}

}  // namespace detail

}  // namespace CKPT_HPP_MODE
}  // namespace CKPT_HPP_NAMESPACE
#endif  // CKPT_TABLE_HPP
