// Sparse tables: adding one to a save, what a checkpoint says of it, and loading a share of its rows.
#include "api/handles.h"
#include "load/share.h"

using namespace ckpt;
using namespace ckpt::api;

// ---- save ----

// The descriptors and blocks of all columns, as the arrays of the caller have them.
static Result<save::TableRequest> table_request(const ckpt_table_desc* desc, const char* const* column_names,
                                                const ckpt_column_desc* columns, const void* const* data,
                                                const uint64_t* data_bytes) {
  save::TableRequest request{};
  CKPT_TRY(get_struct(desc, &request.desc, offsetof(ckpt_table_desc, flags), sizeof(ckpt_table_desc)));
  CKPT_TRY(check_reserved(request.desc.reserved));
  if ((request.desc.changed_count != 0 && !request.desc.changed) ||
      (request.desc.removed_count != 0 && !request.desc.removed))
    return null_status("changed or removed");
  const uint32_t count = request.desc.column_count;
  if (count != 0 && (!column_names || !columns || !data || !data_bytes))
    return null_status("column_names, columns, data or data_bytes");
  const size_t blocks = std::max(request.desc.block_count, 1u);
  for (size_t i = 0; i < count; i++) {
    if (!column_names[i]) return null_status("a column's name");
    save::TableRequest::Column column{
        column_names[i], {}, {data + i * blocks, blocks}, {data_bytes + i * blocks, blocks}};
    CKPT_TRY(get_struct(reinterpret_cast<const char*>(columns) + i * columns->struct_size, &column.desc,
                        offsetof(ckpt_column_desc, shape), sizeof column.desc));
    CKPT_TRY(check_reserved(column.desc.reserved));
    request.columns.push_back(column);
  }
  return request;
}

ckpt_status ckpt_save_add_table(ckpt_save* save, const char* name, const ckpt_table_desc* desc, const void* ids,
                                uint64_t ids_bytes, const char* const* column_names, const ckpt_column_desc* columns,
                                const void* const* data, const uint64_t* data_bytes, const uint64_t* positions,
                                int32_t device_type, int32_t device_id, int64_t stream, ckpt_error** err) {
  return add_to(save, err, [&](save::Save& to) -> Status {
    if (!name) return null_status("name");
    auto add = [&]() -> Status {
      CKPT_ASSIGN(save::TableRequest request, table_request(desc, column_names, columns, data, data_bytes));
      request.ids = ids;
      request.ids_bytes = ids_bytes;
      request.positions = positions;
      request.where = {device_type, device_id};
      request.stream = stream;
      return to.add_table(name, request);
    };
    Status added = add();
    if (added.ok()) return added;
    return std::move(added).in("table " + in_quotes(name)).with("tensor", name);
  });
}

// ---- reader ----

static uint64_t stored_bytes(const load::Table::Column& column) {
  return column.tensor.page->holding_of(*column.tensor.tensor).stored_bytes();
}

static Status put_table(const ckpt_reader* reader, std::string_view name, ckpt_table_info* out) {
  CKPT_ASSIGN(const load::Table table, load::find_table(*reader->checkpoint, name));
  ckpt_table_info info{};
  info.id_dtype = table.ids.tensor.dtype();
  const auto count = [kept = reader->checkpoint, table](Job&) { return load::count_rows(kept, table); };
  info.row_count = table.rows();
  if (!table.later.empty()) {
    CKPT_ASSIGN(info.row_count, make_apart<uint64_t>(std::make_shared<Job>(), ReaderOptions().timeout_ms, count));
  }
  info.bucket_count = table.bucket_count;
  info.column_count = static_cast<uint32_t>(table.columns.size());
  info.name = table.name.data();
  info.run_count = table.run_count();
  info.bytes = info.row_count * table.ids.row_bytes;
  for (const auto& column : table.columns) info.bytes += info.row_count * column.row_bytes;
  for (size_t i = 0; i <= table.later.size(); i++) {
    const load::Layer& layer = table.layer(i);
    info.stored_bytes += stored_bytes(layer.ids) + stored_bytes(layer.buckets);
    for (const auto& column : layer.columns) info.stored_bytes += stored_bytes(column);
  }
  return put_info(info, out);
}

uint64_t ckpt_reader_table_count(const ckpt_reader* reader) {
  uint64_t count = 0;
  ckpt_status counted = guard(nullptr, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    return load::for_each_table(*reader->checkpoint, [&](std::string_view) {
      count++;
      return Ok();
    });
  });
  return counted == CKPT_OK ? count : 0;
}

ckpt_status ckpt_reader_table_at(const ckpt_reader* reader, uint64_t index, ckpt_table_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    uint64_t number = 0;
    std::string_view found;
    CKPT_TRY(load::for_each_table(*reader->checkpoint, [&](std::string_view name) {
      if (number++ == index) found = name;
      return Ok();
    }));
    if (found.empty()) return Status(CKPT_NOT_FOUND, strformat("table {} of {}", index, number));
    return put_table(reader, found, out);
  });
}

ckpt_status ckpt_reader_table_find(const ckpt_reader* reader, const char* name, ckpt_table_info* out,
                                   ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    return name ? put_table(reader, name, out) : null_status("name");
  });
}

ckpt_status ckpt_reader_table_column_at(const ckpt_reader* reader, const char* name, uint32_t index,
                                        ckpt_column_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(reader, "reader"));
    if (!name) return null_status("table");
    CKPT_ASSIGN(const load::Table table, load::find_table(*reader->checkpoint, name));
    if (index >= table.columns.size())
      return Status(CKPT_NOT_FOUND, strformat("column {} of {}", index, table.columns.size()));
    const load::Table::Column& column = table.columns[index];
    ckpt_column_info info{};
    info.dtype = column.tensor.dtype();
    const auto extents = column.tensor.extents().subspan(1);
    info.ndim = static_cast<int32_t>(extents.size());
    for (size_t i = 0; i < extents.size(); i++) info.shape[i] = static_cast<int64_t>(extents[i]);
    info.row_bytes = column.row_bytes;
    for (size_t i = 0; i <= table.later.size(); i++)
      if (!load::Table::removes(i)) info.stored_bytes += stored_bytes(table.layer(i).columns[index]);
    info.name = column.name.data();
    return put_info(info, out);
  });
}

// ---- share ----

ckpt_status ckpt_share_open(ckpt_share** out, const ckpt_reader* reader, const char* table, const ckpt_share_desc* desc,
                            const uint64_t* ids, uint64_t id_count, const ckpt_options* options, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!out || !reader || !table) return null_status("out, reader or table");
    if (reader->forked()) return forked_status();
    ckpt_share_desc full{};
    CKPT_TRY(get_struct(desc, &full, offsetof(ckpt_share_desc, since), sizeof full));
    if (full.since) CKPT_TRY(usable(full.since, "since"));
    if (id_count != 0 && !ids) return null_status("ids");
    if (id_count != 0 && full.kind != CKPT_SHARE_IDS)
      return Status(CKPT_INVALID, strformat("{} ids for a share of kind {}", id_count, full.kind));
    CKPT_ASSIGN(const auto job, job_for(options));
    const ShareOptions given = share_options(options_of(options));
    load::ShareRequest request{full.kind,
                               full.bucket_first,
                               full.bucket_end,
                               full.index,
                               full.count,
                               full.window_rows,
                               std::vector<uint64_t>(ids, ids + id_count),
                               given.threads,
                               full.since ? full.since->checkpoint : nullptr};
    const auto open = [kept = reader->checkpoint, name = std::string(table), request](Job& running) mutable {
      return load::Share::open(kept, name, std::move(request), running);
    };
    CKPT_ASSIGN(auto share, make_apart<std::shared_ptr<const load::Share>>(job, given.timeout_ms, open));
    *out = new ckpt_share{{}, std::move(share)};
    return Ok();
  });
}

void ckpt_share_free(ckpt_share* share) { release(share); }

ckpt_status ckpt_share_get(const ckpt_share* share, ckpt_share_info* out, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(share, "share"));
    ckpt_share_info info{};
    info.row_count = share->share->rows();
    info.window_count = share->share->windows().size();
    for (const auto& window : share->share->windows()) info.most_rows = std::max(info.most_rows, window.rows);
    info.missing_count = share->share->missing().size();
    return put_info(info, out);
  });
}

// NOT_FOUND if there is none.
static Result<load::Share::Window> window_of(const ckpt_share* share, uint64_t window) {
  CKPT_TRY(usable(share, "share"));
  const auto& windows = share->share->windows();
  if (window < windows.size()) return windows[window];
  return Status(CKPT_NOT_FOUND, strformat("window {} of {}", window, windows.size()));
}

ckpt_status ckpt_share_window_rows(const ckpt_share* share, uint64_t window, uint64_t* row_count, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    if (!row_count) return null_status("row_count");
    CKPT_ASSIGN(const load::Share::Window found, window_of(share, window));
    *row_count = found.rows;
    return Ok();
  });
}

ckpt_status ckpt_share_missing_at(const ckpt_share* share, uint64_t index, uint64_t* id, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(share, "share"));
    if (!id) return null_status("id");
    const auto missing = share->share->missing();
    if (index >= missing.size()) return Status(CKPT_NOT_FOUND, strformat("missing id {} of {}", index, missing.size()));
    *id = missing[index];
    return Ok();
  });
}

// ---- load ----

static Status check_room(std::string_view what, const void* data, uint64_t bytes, uint64_t rows, uint64_t row_bytes) {
  uint64_t needed = 0;
  if (mul_overflows(rows, row_bytes, &needed) || needed > bytes || (needed != 0 && !data))
    return Status(CKPT_INVALID, strformat("{}: {} rows of {} bytes, memory of {} bytes", in_quotes(what), rows,
                                          row_bytes, data ? bytes : 0))
        .with("expected", needed)
        .with("found", data ? bytes : 0);
  return Ok();
}

ckpt_status ckpt_load_add_table(ckpt_load* load, const ckpt_share* share, uint64_t window, void* ids,
                                uint64_t ids_bytes, uint64_t column_count, const char* const* columns,
                                void* const* data, const uint64_t* data_bytes, int32_t device_type, int32_t device_id,
                                int64_t stream, ckpt_error** err) {
  return guard(err, [&]() -> Status {
    CKPT_TRY(usable(load, "load"));
    CKPT_ASSIGN(const load::Share::Window found, window_of(share, window));
    if (column_count != 0 && (!columns || !data || !data_bytes)) return null_status("columns, data or data_bytes");
    const load::Table& table = share->share->table();
    load::TableRequest request{share->share, window, static_cast<std::byte*>(ids), {}, {device_type, device_id},
                               stream};
    if (ids || !share->share->of_ids())
      CKPT_TRY(check_room(table.ids.tensor.name(), ids, ids_bytes, found.rows, sizeof(uint64_t)));
    for (uint64_t i = 0; i < column_count; i++) {
      if (!columns[i]) return null_status("a column's name");
      const load::Table::Column* column = table.find(columns[i]);
      if (!column)
        return error_about(CKPT_NOT_FOUND, table.name,
                           strformat("table {} has no column {}", in_quotes(table.name), in_quotes(columns[i])));
      CKPT_TRY(check_room(column->tensor.name(), data[i], data_bytes[i], found.rows, column->row_bytes));
      request.columns.emplace_back(column, static_cast<std::byte*>(data[i]));
    }
    return load->load->add_table(std::move(request));
  });
}
