#include "table.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace ckpt_py {

namespace {

std::string to_text(int32_t dtype, const Extents& row) {
  std::string out = "rows of " + ckpt::dtype_name(dtype) + " (";
  for (const int64_t extent : row) out += std::to_string(extent) + ",";
  return out + ")";
}

[[noreturn]] void differ(ckpt_status status, const std::string& what, const std::string& expected,
                         const std::string& found) {
  raise(status, what + ": expected " + expected + ", found " + found, {{"expected", expected}, {"found", found}});
}

// What the block of a column holds.
struct Block {
  int32_t dtype = 0;
  Extents row;
  uint64_t rows = 0;
  ckpt::Memory memory;
};

Block block_of(const Memory& memory, nb::handle raw) {
  Block block{memory.dtype, {}, 0, {memory.data, memory.bytes}};
  if (raw.is_valid()) {
    block.dtype = dtype(raw[0]);
    block.row = nb::cast<Extents>(raw[1]);
    uint64_t bits = static_cast<uint64_t>(ckpt_dtype_bits(block.dtype));
    for (const int64_t extent : block.row) bits *= static_cast<uint64_t>(extent);
    block.rows = bits < 8 ? 0 : memory.bytes / (bits / 8);
    return block;
  }
  if (memory.shape.empty()) raise(CKPT_INVALID, "expected an array whose first dimension is rows, found a scalar");
  block.row.assign(memory.shape.begin() + 1, memory.shape.end());
  block.rows = static_cast<uint64_t>(memory.shape[0]);
  return block;
}

// The blocks of one column. Sets the rows of a block, which are those of the first block of the table.
ckpt::Column column_of(const std::string& name, nb::handle value, nb::handle raw, Place* place, TableRows& out) {
  const bool several = nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
  ckpt::Column column{name, 0, {}, {}};
  uint64_t rows = 0;
  const auto add = [&](nb::handle array, bool last) {
    out.kept.push_back(row_memory(array, false));
    const Memory& memory = nb::cast<const Memory&>(out.kept.back());
    place->take(memory);
    const Block block = block_of(memory, raw);
    if (column.blocks.empty()) {
      column.dtype = block.dtype;
      column.row = block.row;
      if (several && !last && out.rows.rows_per_block == 0) out.rows.rows_per_block = block.rows;
    }
    if (block.dtype != column.dtype || block.row != column.row)
      differ(CKPT_INVALID, "blocks of one column", to_text(column.dtype, column.row), to_text(block.dtype, block.row));
    if (several && (last ? block.rows > out.rows.rows_per_block && out.rows.rows_per_block != 0
                         : block.rows != out.rows.rows_per_block))
      differ(CKPT_INVALID, "blocks of a table", std::to_string(out.rows.rows_per_block) + " rows",
             std::to_string(block.rows) + " rows");
    column.blocks.push_back(block.memory);
    rows += block.rows;
  };
  if (several) {
    const size_t count = nb::len(value);
    for (size_t i = 0; i < count; i++) add(value[i], i + 1 == count);
  } else {
    add(value, true);
  }
  if (!out.rows.positions && !column.blocks.empty() && rows != out.rows.count && (raw.is_valid() ? rows != 0 : true))
    differ(CKPT_INVALID, "rows without positions", std::to_string(out.rows.count) + ", one for each id",
           std::to_string(rows));
  return column;
}

template <class Function>
void named(const std::string& tensor, Function&& function) {
  try {
    function();
  } catch (nb::python_error& error) {
    if (error.matches(nb::module_::import_("ckpt.errors").attr("Error"))) error.value().attr("_name_tensor")(tensor);
    throw;
  }
}

// A list of 64-bit integers: its Memory.
nb::object numbers(nb::handle array, const char* what) {
  nb::object kept = host_memory(array, false, what);
  const Memory& memory = nb::cast<const Memory&>(kept);
  if (memory.shape.size() != 1 || (memory.dtype != CKPT_DTYPE_I64 && memory.dtype != CKPT_DTYPE_U64))
    differ(CKPT_INVALID, what, "i64 or u64 in one dimension", to_text(memory.dtype, memory.shape));
  return kept;
}

ckpt::Rowset rowset(nb::handle rows) {
  if (rows.is_none()) return ckpt::Rowset::all();
  const auto kind = nb::cast<std::string>(rows.attr("kind"));
  if (kind == "ids") {
    nb::object kept = numbers(rows.attr("listed"), "ids");
    const Memory& memory = nb::cast<const Memory&>(kept);
    const auto* first = static_cast<const uint64_t*>(memory.data);
    return ckpt::Rowset::ids({first, first + memory.count()});
  }
  const auto first = nb::cast<uint64_t>(rows.attr("first")), second = nb::cast<uint64_t>(rows.attr("second"));
  if (kind == "buckets") return ckpt::Rowset::buckets(first, second);
  if (kind == "slice") return ckpt::Rowset::slice(first, second);
  return kind == "mod" ? ckpt::Rowset::mod(first, second) : ckpt::Rowset::all();
}

nb::object table_record(const ckpt::Reader& reader, const ckpt::TableInfo& info) {
  return record(info, reader.columns(info.name));
}

nb::list missing_of(const ShareObject& self) {
  const bool is_signed = self.table().id_dtype == CKPT_DTYPE_I64;
  nb::list out;
  for (const uint64_t id : self.get()->missing())
    out.append(is_signed ? nb::int_(static_cast<int64_t>(id)) : nb::int_(id));
  return out;
}

}  // namespace

nb::object row_memory(nb::handle array, bool writable) {
  nb::object kept = Memory::of(array, writable);
  const Memory& memory = nb::cast<const Memory&>(kept);
  if (!memory.contiguous()) raise(CKPT_UNSUPPORTED, "the memory of a table's rows must be contiguous");
  return kept;
}

static std::string place_text(const Memory& memory) {
  const std::string stream = memory.stream == 0 ? "" : ", stream " + std::to_string(memory.stream);
  return "device " + std::to_string(memory.device_type) + ":" + std::to_string(memory.device_id) + stream;
}

nb::object host_memory(nb::handle array, bool writable, const char* what) {
  nb::object kept = row_memory(array, writable);
  const Memory& memory = nb::cast<const Memory&>(kept);
  if (memory.device_type != CKPT_DEVICE_CPU)
    raise(CKPT_UNSUPPORTED,
          std::string(what) + " of a table lie in memory of the CPU, found " + place_text(memory) +
              " (DLPack's numbers): copy them there",
          {{"expected", "1"}, {"found", std::to_string(memory.device_type)}});
  return kept;
}

void Place::take(const Memory& memory) {
  if (!known_) {
    known_ = true;
    device = memory.device();
    stream = memory.stream;
    first_ = place_text(memory);
  }
  if (memory.device_type != device.type || memory.device_id != device.id || memory.stream != stream)
    differ(CKPT_INVALID, "columns of one table", first_ + " (DLPack's numbers)", place_text(memory));
}

TableRows table_rows(const std::string& table, nb::handle ids, nb::dict columns, uint64_t bucket_count,
                     nb::handle positions, nb::handle raw, nb::handle changed, nb::handle removed) {
  TableRows out;
  out.rows.bucket_count = bucket_count;
  named(table + "/ids", [&] {
    out.kept.push_back(numbers(ids, "ids"));
    const Memory& memory = nb::cast<const Memory&>(out.kept.back());
    out.rows.ids = memory.data;
    out.rows.count = static_cast<uint64_t>(memory.count());
    out.rows.id_dtype = memory.dtype;
  });
  if (!positions.is_none()) {
    named(table, [&] {
      out.kept.push_back(numbers(positions, "positions"));
      const Memory& memory = nb::cast<const Memory&>(out.kept.back());
      if (static_cast<uint64_t>(memory.count()) != out.rows.count)
        differ(CKPT_INVALID, "positions", std::to_string(out.rows.count) + ", one for each id",
               std::to_string(memory.count()));
      out.rows.positions = static_cast<const uint64_t*>(memory.data);
    });
  }
  if (nb::isinstance<nb::str>(changed)) {
    out.rows.changes = ckpt::Changes{.by_digest = true};
  } else if (!changed.is_none()) {
    const auto list = [&](nb::handle array, const char* what) {
      out.kept.push_back(numbers(array, what));
      const Memory& memory = nb::cast<const Memory&>(out.kept.back());
      return std::pair(static_cast<const uint64_t*>(memory.data), static_cast<uint64_t>(memory.count()));
    };
    named(table, [&] {
      const auto [rows, count] = list(changed, "changed rows");
      const auto [ids, gone] =
          removed.is_none() ? std::pair<const uint64_t*, uint64_t>() : list(removed, "removed ids");
      out.rows.changes = ckpt::Changes{rows, count, ids, gone};
    });
  }
  Place place;
  for (const auto& [key, value] : columns) {
    const std::string name = text(key, "a column's name");
    nb::object shaped;
    if (!raw.is_none()) {
      nb::object found = raw.attr("get")(key);
      if (!found.is_none()) shaped = std::move(found);
    }
    named(table + "/" + name, [&] { out.rows.columns.push_back(column_of(name, value, shaped, &place, out)); });
  }
  out.rows.device = place.device;
  out.rows.stream = place.stream;
  return out;
}

ShareObject::ShareObject(std::shared_ptr<ckpt::Reader> reader, const std::string& table, nb::handle rows,
                         uint64_t window_rows, const ckpt::Reader* since, const ckpt::Options& options)
    : Held(
          [&] {
            ckpt::Rowset wanted = rowset(rows);
            wanted.window(window_rows);
            if (since) wanted.since(*since);
            return unlocked([&] { return reader->share(table, wanted, options); });
          }(),
          "Share"),
      reader_(std::move(reader)),
      table_(reader_->table(table)),
      columns_(reader_->columns(table)) {}

ckpt::ColumnMemory column_memory(const ShareObject& share, const std::string& column, const Memory& memory) {
  for (const ckpt::ColumnInfo& info : share.columns()) {
    if (info.name != column) continue;
    const Block given = block_of(memory, nb::handle());
    const Extents row(info.shape, info.shape + info.ndim);
    const bool raw = memory.dtype == CKPT_DTYPE_U8 && memory.shape.size() == 1;
    if (!raw && (given.dtype != info.dtype || given.row != row))
      differ(CKPT_MISMATCH, "column", to_text(info.dtype, row), to_text(given.dtype, given.row));
  }
  return {column, ckpt::MutableMemory(memory.data, memory.bytes)};
}

void bind_reader_tables(nb::class_<ReaderObject>& reader) {
  reader
      .def(
          "tables",
          [](const ReaderObject& self) {
            const auto from = self.get();
            nb::list out;
            for (const ckpt::TableInfo& info : from->tables()) out.append(table_record(*from, info));
            return out;
          },
          nb::sig("def tables(self) -> list[ckpt.records.TableInfo]"),
          "All sparse tables, in the order of their names' bytes. Their ids and columns are tensors, too.")
      .def(
          "table",
          [](const ReaderObject& self, nb::handle name) {
            const auto from = self.get();
            return table_record(*from, from->table(text(name, "name")));
          },
          nb::arg("name"), nb::sig("def table(self, name: str) -> ckpt.records.TableInfo"),
          "The sparse table `name`; NotFoundError if there is none.");
}

void bind_table(nb::module_& m) {
  nb::class_<ShareObject> share(m, "Share", "What ckpt.Share is made of.");
  share
      .def(
          "__init__",
          [](ShareObject* self, const ReaderObject& reader, nb::handle table, nb::handle rows, uint64_t window_rows,
             const ReaderObject* since, nb::handle mapping, const JobObject* job, const nb::kwargs& keywords) {
            const JobOptions chosen(mapping, keywords, job);
            const auto earlier = since ? since->get() : nullptr;
            new (self) ShareObject(reader.get(), text(table, "table"), rows, window_rows, earlier.get(), chosen);
          },
          nb::arg("reader"), nb::arg("table"), nb::arg("rows").none() = nb::none(), nb::kw_only(),
          nb::arg("window_rows") = 0, nb::arg("since").none() = nb::none(), nb::arg("options").none() = nb::none(),
          nb::arg("job").none() = nb::none(), nb::arg("keywords"),
          nb::sig("def __init__(self, reader: Reader, table: str, rows: ckpt.tables.Rowset | None = None, *, "
                  "window_rows: int = 0, since: Reader | None = None, options: collections.abc.Mapping[str, int | str] "
                  "| None = None, job: Job | None = None, **keywords: int | str) -> None"),
          "`rows`: which ones; None: all. `window_rows`: the most rows of a window; 0: one window for all. It reads "
          "what tells where buckets begin; of Rowset.mod all ids, of Rowset.ids those near to what is looked for. "
          "`since`: only rows that are new or other than in that checkpoint; `missing` has the ids that are gone.")
      .def_prop_ro(
          "table", [](const ShareObject& self) { return record(self.table(), self.columns()); },
          nb::sig("def table(self) -> ckpt.records.TableInfo"), "The table.")
      .def_prop_ro(
          "row_count", [](const ShareObject& self) { return self.get()->info().row_count; }, "Rows of all windows.")
      .def_prop_ro(
          "window_count", [](const ShareObject& self) { return self.get()->info().window_count; }, "At least 1.")
      .def_prop_ro(
          "most_rows", [](const ShareObject& self) { return self.get()->info().most_rows; }, "Of the largest window.")
      .def(
          "rows_of", [](const ShareObject& self, uint64_t window) { return self.get()->window_rows(window); },
          nb::arg("window"), "How many rows a window has.")
      .def_prop_ro("missing", &missing_of, nb::sig("def missing(self) -> list[int]"),
                   "The ids that were asked for, or that `since` has, and that the table lacks, in that order.");
  bind_handle(share, "def __enter__(self) -> Share");
}

}  // namespace ckpt_py
