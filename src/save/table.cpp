// Adds a sparse table to a save: its tensors, the alias that names it, and the attribute that describes it.
#include "format/table.h"

#include <algorithm>
#include <cstring>

#include "format/names.h"
#include "save/save.h"
#include "save/table_sort.h"

namespace ckpt::save {

namespace {

// The rows that the blocks of a column hold; INVALID if one is too small.
Result<uint64_t> rows_of(const TableRequest& request, const TableRequest::Column& column, uint64_t row_bytes) {
  const ckpt_table_desc& desc = request.desc;
  uint64_t total = 0;
  for (size_t i = 0; i < column.data.size(); i++) {
    const uint64_t rows = column.data[i] ? column.data_bytes[i] / row_bytes : 0;
    if (desc.rows_per_block == 0) return rows;
    if (i + 1 < column.data.size() && rows < desc.rows_per_block)
      return Status(CKPT_INVALID, strformat("block {} of {} rows, {} expected", i, rows, desc.rows_per_block));
    total += std::min(rows, desc.rows_per_block);
  }
  return total;
}

Status check_changes(const ckpt_table_desc& desc) {
  if (desc.flags > CKPT_TABLE_DIGESTS || desc.flags == (CKPT_TABLE_CHANGES | CKPT_TABLE_DIGESTS))
    return Status(CKPT_INVALID,
                  strformat("flags: expected CKPT_TABLE_CHANGES, CKPT_TABLE_DIGESTS or 0, found 0x{:x}", desc.flags));
  const std::span changed(desc.changed, desc.changed_count);
  if ((desc.flags & CKPT_TABLE_CHANGES) == 0 && (!changed.empty() || desc.removed_count != 0))
    return Status(CKPT_INVALID, "changed or removed without the flag CKPT_TABLE_CHANGES");
  const auto beyond = std::ranges::find_if(changed, [&](uint64_t row) { return row >= desc.row_count; });
  if (beyond == changed.end()) return Ok();
  return Status(CKPT_INVALID,
                strformat("changed[{}]: row {} of {} rows", beyond - changed.begin(), *beyond, desc.row_count))
      .with("expected", desc.row_count)
      .with("found", *beyond);
}

Status check_desc(const TableRequest& request) {
  const ckpt_table_desc& desc = request.desc;
  if (desc.bucket_count == 0 || desc.bucket_count > format::kMaxBuckets)
    return Status(CKPT_INVALID,
                  strformat("bucket_count: expected 1 to {}, found {}", format::kMaxBuckets, desc.bucket_count))
        .with("found", desc.bucket_count);
  if (desc.id_dtype != CKPT_DTYPE_I64 && desc.id_dtype != CKPT_DTYPE_U64)
    return Status(CKPT_INVALID, strformat("id_dtype: expected I64 or U64, found {}", desc.id_dtype));
  if (desc.block_count > 1 && desc.rows_per_block == 0)
    return Status(CKPT_INVALID, strformat("{} blocks without rows_per_block", desc.block_count));
  CKPT_TRY(check_changes(desc));
  const uint64_t ids_bytes = request.ids ? request.ids_bytes : 0;
  if (ids_bytes / sizeof(uint64_t) < desc.row_count)
    return Status(CKPT_INVALID, strformat("{} rows, but {} bytes of ids", desc.row_count, ids_bytes));
  if (reinterpret_cast<uintptr_t>(request.positions) % alignof(uint64_t) != 0)
    return Status(CKPT_INVALID,
                  strformat("positions: expected an address that {} divides, found one that is {} beyond",
                            alignof(uint64_t), reinterpret_cast<uintptr_t>(request.positions) % alignof(uint64_t)));
  return Ok();
}

ckpt_tensor_desc rows_desc(int32_t dtype, uint64_t rows, int32_t ndim, const int64_t* row) {
  ckpt_tensor_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = dtype;
  desc.ndim = ndim + 1;
  desc.region_kind = CKPT_REGION_ROWS;
  desc.shape[0] = static_cast<int64_t>(rows);
  std::copy_n(row, ndim, desc.shape + 1);
  return desc;
}

}  // namespace

// Adds a tensor of rows at `first`, which is all of its memory that is looked at here.
Result<SaveTensor*> Save::add_rows(const std::string& name, const ckpt_tensor_desc& desc, const void* first) {
  const size_t before = content_.tensors.size();
  CKPT_TRY(add_tensor(name, desc, first, UINT64_MAX));
  return content_.tensors[before];
}

// The blocks lie where the caller says.
Status Save::note_blocks(const TableRequest& request, const TableRequest::Column& column, uint64_t row_bytes,
                         SaveTensor* tensor) {
  for (size_t i = 0; i < column.data.size(); i++) {
    uint64_t rows = column.data_bytes[i] / row_bytes;
    if (request.desc.rows_per_block != 0) rows = std::min(rows, request.desc.rows_per_block);
    if (!column.data[i] || rows == 0) continue;
    CKPT_ASSIGN(tensor->device, transfers_.note(request.where, column.data[i], rows * row_bytes, request.stream));
  }
  return Ok();
}

Status Save::add_column(const TableRequest& request, const TableRequest::Column& column, SaveTable* table) {
  const ckpt_column_desc& desc = column.desc;
  if (desc.ndim < 0 || desc.ndim >= kMaxNdim)
    return Status(CKPT_INVALID, strformat("ndim of a row: expected 0 to {}, found {}", kMaxNdim - 1, desc.ndim));
  static std::byte nothing;
  const void* first = column.data.empty() || !column.data[0] ? &nothing : column.data[0];
  CKPT_ASSIGN(SaveTensor* const tensor,
              add_rows(format::table_tensor(table->name, column.name),
                       rows_desc(desc.dtype, table->row_count, desc.ndim, desc.shape), first));
  table->tensors.push_back(tensor);
  RowSource& source = table->column_sources.emplace_back();
  tensor->chunk_kib = kColumnChunkKib;
  if (table->row_count == 0) return Ok();
  source.row_bytes = tensor->bytes / table->row_count;
  CKPT_ASSIGN(const uint64_t rows, rows_of(request, column, source.row_bytes));
  table->capacity = std::min(table->capacity, rows);
  if (rows < (table->positions ? 1 : table->row_count))
    return Status(CKPT_INVALID, strformat("memory for {} rows, {} expected", rows, table->row_count))
        .with("expected", table->row_count)
        .with("found", rows);
  CKPT_TRY(note_blocks(request, column, source.row_bytes, tensor));
  if (table->by_digest && tensor->device != 0)
    return Status(CKPT_UNSUPPORTED, "CKPT_TABLE_DIGESTS of a device's memory; say what changed (CKPT_TABLE_CHANGES)");
  const size_t count = column.data.size();
  auto* blocks = static_cast<const std::byte**>(content_.memory.allocate(count * sizeof(void*), alignof(void*)));
  std::memcpy(blocks, column.data.data(), count * sizeof(void*));
  source.blocks = blocks;
  if (request.desc.rows_per_block != 0 && count > 1) source.rows_per_block = request.desc.rows_per_block;
  source.positions = table->positions;
  tensor->rows = &source;
  tensor->arrangement = Arrangement::kTable;
  return Ok();
}

// T/ids, and T/buckets: an entry for some buckets each, so that a small table has few.
Status Save::add_ids(const TableRequest& request, SaveTable* table) {
  static std::byte nothing;
  const uint64_t rows = table->row_count;
  CKPT_ASSIGN(SaveTensor* const ids, add_rows(format::table_tensor(table->name, format::kTableIds),
                                              rows_desc(request.desc.id_dtype, rows, 0, nullptr), &nothing));
  const uint64_t entries = entries_of(table->bucket_count, rows);
  ids->chunk_kib = kIdsChunkKib;
  if (rows != 0) {
    table->buckets = {static_cast<uint64_t*>(content_.memory.allocate(entries * sizeof(uint64_t), alignof(uint64_t))),
                      entries};
    auto* block = static_cast<const std::byte**>(content_.memory.allocate(sizeof(void*), alignof(void*)));
    *block = table->ids;
    table->id_source = {.blocks = block, .row_bytes = sizeof(uint64_t)};
    ids->rows = &table->id_source;
    ids->arrangement = Arrangement::kTable;
  }
  table->tensors.push_back(ids);
  const void* memory = rows ? static_cast<void*>(table->buckets.data()) : &nothing;
  CKPT_ASSIGN(table->buckets_tensor, add_rows(format::table_tensor(table->name, format::kTableBuckets),
                                              rows_desc(CKPT_DTYPE_U64, entries, 0, nullptr), memory));
  return Ok();
}

Status Save::add_tensors_of(const TableRequest& request, SaveTable* table) {
  CKPT_TRY(add_ids(request, table));
  for (const auto& column : request.columns)
    if (Status added = add_column(request, column, table); !added.ok())
      return std::move(added)
          .in("column " + in_quotes(column.name))
          .with("tensor", format::table_tensor(table->name, column.name));
  return Ok();
}

Status Save::add_table(std::string_view name, const TableRequest& request) {
  CKPT_TRY(check_desc(request));
  CKPT_TRY(transfers_.check(request.where));
  format::TableText text{request.desc.bucket_count, {}};
  for (const auto& column : request.columns) {
    if (Status named = format::check_column_name(column.name); !named.ok()) return std::move(named).in("a column");
    text.columns.push_back(column.name);
  }
  const std::string described = format::encode_table(text);
  CKPT_TRY(add_alias(name, format::table_tensor(name, format::kTableIds), nullptr));
  SaveTable& table = content_.tables.emplace_back();
  table.name = name;
  table.row_count = request.desc.row_count;
  table.bucket_count = request.desc.bucket_count;
  table.capacity = UINT64_MAX;
  table.ids = static_cast<const std::byte*>(request.ids);
  table.positions = request.positions;
  table.has_changes = request.desc.flags != 0;
  table.by_digest = request.desc.flags == CKPT_TABLE_DIGESTS;
  table.changed.assign(request.desc.changed, request.desc.changed + request.desc.changed_count);
  table.removed.assign(request.desc.removed, request.desc.removed + request.desc.removed_count);
  table.all_rows = table.row_count;
  table.all_ids = table.ids;
  half_added_ = set_attr(name, format::kTableAttr, described);
  if (half_added_.ok()) half_added_ = add_tensors_of(request, &table);
  return half_added_;
}

}  // namespace ckpt::save
