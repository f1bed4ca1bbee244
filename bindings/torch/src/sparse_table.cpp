#include <algorithm>

#include "tensors.h"

namespace ckpt_torch {

using namespace internal;

static const at::Tensor& ids_of(const SparseTable& table, const std::string& name) {
  const at::Tensor& ids = table.ids;
  if (!ids.defined() || !is_dense(ids) || ids.scalar_type() != at::kLong || ids.dim() != 1)
    fail(CKPT_INVALID, "table " + in_quotes(name) + ": ids are an int64 tensor of one dimension", {{"tensor", name}});
  return ids;
}

static void check_column(const std::string& where, const at::Tensor& tensor, int64_t rows) {
  if (!tensor.defined() || !is_dense(tensor))
    fail(CKPT_INVALID, "column " + in_quotes(where) + ": expected a dense tensor", {{"tensor", where}});
  if (tensor.dim() < 1 || tensor.size(0) != rows)
    fail(CKPT_INVALID,
         "column " + in_quotes(where) + " of shape " + shape_text(tensor.sizes()) + " has not a row for each of " +
             std::to_string(rows) + " ids",
         {{"tensor", where}});
  if (dtype_of(tensor.scalar_type()) == 0)
    fail(CKPT_UNSUPPORTED, "column " + in_quotes(where) + ": no table has rows of " + type_name(tensor.scalar_type()),
         {{"tensor", where}});
}

std::map<std::string, uint64_t> internal::table_sizes(const std::string& name, const SparseTable& table) {
  const int64_t rows = ids_of(table, name).numel();
  std::map<std::string, uint64_t> sizes{{name + "/ids", static_cast<uint64_t>(rows) * sizeof(int64_t)}};
  for (const auto& [column, tensor] : table.columns) {
    check_column(name + "/" + column, tensor, rows);
    sizes[name + "/" + column] = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
  }
  return sizes;
}

// Where the engine finds the columns: where they are, if that is one device that it reaches, else on the CPU.
static at::Device device_of(const SparseTable& table) {
  std::optional<at::Device> device;
  for (const auto& [column, tensor] : table.columns) {
    if (!tensor.defined() || !is_reachable(tensor) || (device && *device != tensor.device())) return at::kCPU;
    device = tensor.device();
  }
  return device.value_or(at::kCPU);
}

std::vector<at::Tensor> add_table(ckpt::Save& save, const std::string& name, const SparseTable& table,
                                  uint64_t bucket_count) {
  return guarded([&] {
    std::vector<at::Tensor> memory{to_plain(ids_of(table, name)).to(at::kCPU).contiguous()};
    ckpt::Rows rows;
    rows.ids = memory[0].data_ptr();
    rows.count = static_cast<uint64_t>(memory[0].numel());
    rows.bucket_count = bucket_count;
    const at::Device device = device_of(table);
    for (const auto& [column, tensor] : table.columns) {
      const std::string where = name + "/" + column;
      check_column(where, tensor, memory[0].numel());
      memory.push_back(to_plain(tensor).to(device).contiguous());
      const Memory plain = memory_of(memory.back(), where);
      if (plain.bytes != 0) rows.device = plain.device;
      if (plain.bytes != 0) rows.stream = plain.desc.stream;
      const ckpt::Extents row(plain.desc.shape + 1, plain.desc.shape + plain.desc.ndim);
      rows.columns.push_back({column, plain.desc.dtype, row, {{plain.data, plain.bytes}}});
    }
    save.add_table(name, rows);
    return memory;
  });
}

at::Tensor internal::empty_column(const ckpt::ColumnInfo& info, int64_t rows, at::Device device) {
  const auto type = scalar_type_of(info.dtype);
  if (!type)
    fail(CKPT_UNSUPPORTED, "column " + in_quotes(info.name) + " is " + ckpt_dtype_name(info.dtype) +
                               ", which this LibTorch does not have");
  ckpt::TensorInfo row{};
  row.name = info.name;
  row.dtype = info.dtype;
  row.ndim = info.ndim;
  std::copy_n(info.shape, CKPT_MAX_NDIM, row.shape);
  std::vector<int64_t> shape = torch_shape(row);
  shape.insert(shape.begin(), rows);
  return at::empty(shape, at::TensorOptions().dtype(*type).device(device));
}

// Empty, with those of the columns that are wanted: all, if none is named.
static SparseTable empty_table(const std::vector<ckpt::ColumnInfo>& all, const std::vector<std::string>& wanted,
                               uint64_t count, at::Device device) {
  const auto rows = static_cast<int64_t>(count);
  SparseTable table{at::empty({rows}, at::kLong), {}};
  for (const ckpt::ColumnInfo& info : all)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), info.name) != wanted.end())
      table.columns.emplace(info.name, empty_column(info, rows, device));
  return table;
}

SparseTable load_window(const ckpt::Reader& reader, const std::string& name, const ckpt::Share& share, uint64_t window,
                        const std::vector<std::string>& columns, at::Device device) {
  return guarded([&] {
    if (reader.table(name).id_dtype != CKPT_DTYPE_I64)
      fail(CKPT_UNSUPPORTED, "table " + in_quotes(name) + " has ids of u64, LibTorch's are int64", {{"tensor", name}});
    SparseTable table = empty_table(reader.columns(name), columns, share.window_rows(window), device);
    std::vector<ckpt::ColumnMemory> memory;
    Memory last{};  // as all columns are
    for (const auto& [column, tensor] : table.columns) {
      if (!is_reachable(tensor))
        fail(CKPT_UNSUPPORTED, "table " + in_quotes(name) + " cannot be loaded to " + device.str() +
                                   ": load it to the CPU, then copy it there");
      last = memory_of(tensor, name + "/" + column);
      memory.push_back({column, {last.data, last.bytes}});
    }
    for (const std::string& column : columns)
      if (table.columns.count(column) == 0) memory.push_back({column, {}});  // the load names it
    auto load = ckpt::Load::create(reader);
    const Memory ids = memory_of(table.ids, name + "/ids");
    load.add_table(share, window, {ids.data, ids.bytes}, memory, last.device, last.desc.stream);
    load.run();
    for (const uint64_t id : share.missing()) table.missing.push_back(static_cast<int64_t>(id));
    return table;
  });
}

SparseTable load_table(const ckpt::Reader& reader, const std::string& name, const ckpt::Rowset& rows,
                       const std::vector<std::string>& columns, at::Device device) {
  return guarded([&] {
    const auto share = reader.share(name, rows);
    if (share.info().window_count > 1)
      fail(CKPT_INVALID, "load_table loads all rows at once; load_window loads one window after the other");
    return load_window(reader, name, share, 0, columns, device);
  });
}

#ifdef CKPT_FILE_H
SparseTable load_window(const ckpt::FileTable& table, const ckpt::FileShare& share, uint64_t window,
                        const std::vector<std::string>& columns) {
  return guarded([&] {
    SparseTable out = empty_table(table.columns(), columns, share.window_rows(window), at::kCPU);
    const std::string& name = table.info().name;
    std::vector<ckpt::ColumnMemory> memory;
    for (const auto& [column, tensor] : out.columns) {
      const Memory plain = memory_of(tensor, name + "/" + column);
      memory.push_back({column, {plain.data, plain.bytes}});
    }
    for (const std::string& column : columns)
      if (out.columns.count(column) == 0) memory.push_back({column, {}});  // the share names it
    const Memory ids = memory_of(out.ids, name + "/ids");
    share.read(window, {ids.data, ids.bytes}, memory);
    for (const uint64_t id : share.missing()) out.missing.push_back(static_cast<int64_t>(id));
    return out;
  });
}
#endif

}  // namespace ckpt_torch
