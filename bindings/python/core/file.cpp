// File: other people's checkpoint files, and rows of the sparse tables in them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "region.h"
#include "table.h"
#include "view.h"

namespace ckpt_py {

static nb::list tensors_of(const FileObject& self) {
  const auto file = self.get();
  nb::list out;
  for (uint64_t i = 0; i < file->tensor_count(); i++) out.append(record(file->tensor(i)));
  return out;
}

static View data_of(const FileObject& self, uint64_t index) {
  const auto file = self.get();
  const ckpt::FileTensor tensor = file->tensor(index);
  if (tensor.data == nullptr && tensor.bytes != 0) {
    const std::string what = "tensor \"" + std::string(tensor.name) +
                             "\" has no address: it lies in several pieces, or the file was opened with "
                             "tensor_data=0; File.read reads its elements";
    throw nb::value_error(what.c_str());
  }
  return View(file, tensor.data, tensor.bytes, tensor.dtype, tensor.shape, tensor.strides, tensor.ndim);
}

static void read_elements(FileObject& self, uint64_t index, nb::handle data, const Region& region) {
  const auto file = self.get();
  const Alone alone(&self.busy, "File");
  const std::string name(file->tensor(index).name);
  const Placed to = place(name, data, region, true);
  if (to.device.type != CKPT_DEVICE_CPU)
    raise(CKPT_UNSUPPORTED, "tensor \"" + name + "\": a file is read into memory of the CPU, found memory of a device");
  unlocked([&] { file->read(index, to.tensor, {to.data, to.bytes}); });
}

// The tree belongs to the file: it is borrowed, and keeps the file open.
static TreeObject tree_of(const FileObject& self) {
  const auto file = self.get();
  auto* borrowed = new ckpt::Tree(const_cast<ckpt_tree*>(file->tree().get()));
  return TreeObject(std::shared_ptr<ckpt::Tree>(borrowed,
                                                [file](ckpt::Tree* lent) {
                                                  lent->release();
                                                  delete lent;
                                                }),
                    "Tree");
}

// Rows of a table in a file, which it keeps open.
struct FileShareObject {
  std::shared_ptr<ckpt::File> file;
  ckpt::FileShare share;
  bool busy = false;
};

static ckpt::FileTable table_of(const ckpt::File& file, const std::string& name) {
  for (const ckpt::FileTable& table : file.tables())
    if (name == table.info().name) return table;
  raise(CKPT_NOT_FOUND, "no sparse table \"" + name + "\"", {{"tensor", name}});
}

static ckpt::Rowset rows_in_file(const std::string& kind, uint64_t first, uint64_t second, nb::handle listed) {
  if (kind == "ids") {
    nb::object kept = row_memory(listed, false);
    const Memory& memory = nb::cast<const Memory&>(kept);
    if (memory.dtype != CKPT_DTYPE_I64 && memory.dtype != CKPT_DTYPE_U64)
      raise(CKPT_INVALID, "ids: expected i64 or u64, found " + ckpt::dtype_name(memory.dtype));
    const auto* ids = static_cast<const uint64_t*>(memory.data);
    return ckpt::Rowset::ids({ids, ids + memory.count()});
  }
  if (kind == "buckets") return ckpt::Rowset::buckets(first, second);
  if (kind == "slice") return ckpt::Rowset::slice(first, second);
  return kind == "mod" ? ckpt::Rowset::mod(first, second) : ckpt::Rowset::all();
}

static void read_window(FileShareObject& self, uint64_t window, nb::handle ids, nb::dict columns) {
  const Alone alone(&self.busy, "FileShare");
  Kept kept;
  const auto memory = [&](nb::handle array) {
    kept.push_back(row_memory(array, true));
    const Memory& given = nb::cast<const Memory&>(kept.back());
    return ckpt::MutableMemory(given.data, given.bytes);
  };
  const ckpt::MutableMemory to = memory(ids);
  std::vector<ckpt::ColumnMemory> into;
  for (const auto& [key, value] : columns) into.push_back({text(key, "a column's name"), memory(value)});
  unlocked([&] { self.share.read(window, to, into); });
}

static void bind_file_share(nb::module_& m) {
  nb::class_<FileShareObject>(m, "FileShare",
                              "Some rows of a sparse table in a file, cut into windows. Opening it reads all "
                              "ids of the table; MismatchError: an id is there twice. One thread at a time may use "
                              "the shares of a file.")
      .def(
          "__init__",
          [](FileShareObject* self, const FileObject& file, nb::handle table, const std::string& kind, uint64_t first,
             uint64_t second, nb::handle listed, uint64_t window_rows) {
            const auto from = file.get();
            const std::string name = text(table, "table");
            ckpt::Rowset wanted = rows_in_file(kind, first, second, listed);
            wanted.window(window_rows);
            new (self) FileShareObject{from, unlocked([&] { return table_of(*from, name).share(wanted); })};
          },
          nb::arg("file"), nb::arg("table"), nb::arg("kind"), nb::arg("first"), nb::arg("second"),
          nb::arg("listed").none(), nb::arg("window_rows"),
          nb::sig("def __init__(self, file: File, table: str, kind: str, first: int, second: int, listed: object, "
                  "window_rows: int) -> None"),
          "Of a Rowset its four; window_rows: the most rows of a window, 0 for one window.")
      .def_prop_ro(
          "window_count", [](const FileShareObject& self) { return self.share.info().window_count; }, "At least 1.")
      .def(
          "rows_of", [](const FileShareObject& self, uint64_t window) { return self.share.window_rows(window); },
          nb::arg("window"), "How many rows a window has.")
      .def("read", &read_window, nb::arg("window"), nb::arg("ids"), nb::arg("columns"),
           nb::sig("def read(self, window: int, ids: object, columns: dict[str, typing.Any]) -> None"),
           "Copies the rows of a window into arrays, of ids and of columns by their names.");
}

static nb::list tables_of(const FileObject& self) {
  nb::list out;
  for (const ckpt::FileTable& table : self.get()->tables()) out.append(record(table.info(), table.columns()));
  return out;
}

void bind_file(nb::module_& m) {
  nb::class_<FileObject> file(m, "File",
                              "A file or directory of PyTorch, safetensors or another program (README.md lists them), "
                              "mapped and read in place: no code is run, nothing is copied. If somebody truncates the "
                              "file meanwhile, SIGBUS can end the process. Of an "
                              "address (\"https://host/model.pt\", \"s3://bucket/run/checkpoint-500\") the bytes of "
                              "all tensors are fetched, unless tensor_data=0: then none are.");
  file.def(
          "__init__",
          [](FileObject* self, nb::handle at, nb::handle mapping, const nb::kwargs& keywords) {
            const std::string name = path(at);
            const ckpt::Options chosen = options(mapping, keywords);
            new (self) FileObject(unlocked([&] { return ckpt::File::open(name, chosen); }));
          },
          nb::arg("path"), nb::arg("options").none() = nb::none(), nb::arg("keywords"),
          nb::sig("def __init__(self, path: str | os.PathLike[str], " CKPT_PY_OPTIONS ") -> None"))
      .def_prop_ro(
          "format", [](const FileObject& self) { return self.get()->format(); },
          "\"pt\" (zip), \"pt-legacy\", \"safetensors\", \"dcp\", \"deepspeed\" and so on: ckpt_file.h lists them.")
      .def_prop_ro(
          "left_out", [](const FileObject& self) { return self.get()->left_out(); },
          "What is in the directory and was not read: \"meta.pt\", or \"runs/\" of a directory.")
      .def_prop_ro(
          "tensor_count", [](const FileObject& self) { return self.get()->tensor_count(); },
          "How many tensors there are, those that share memory included.")
      .def("tensors", &tensors_of, nb::sig("def tensors(self) -> list[ckpt.records.FileTensor]"),
           "All tensors in the order of the tree; one that shares another's memory comes after it.")
      .def(
          "tensor", [](const FileObject& self, uint64_t index) { return record(self.get()->tensor(index)); },
          nb::arg("index"), nb::sig("def tensor(self, index: int) -> ckpt.records.FileTensor"),
          "Number `index` of tensors().")
      .def("data", &data_of, nb::arg("index"),
           "The elements of tensor `index`, where they lie in the file. ValueError: they have no address, since they "
           "lie in several pieces or since the file was opened with tensor_data=0; read() reads them.")
      .def(
          "read",
          [](FileObject& self, uint64_t index, nb::handle data, nb::object dtype, std::optional<Extents> shape,
             std::optional<Extents> offset, std::optional<Extents> extent, std::optional<int64_t> flat_offset,
             std::optional<int64_t> flat_size, std::optional<Extents> strides) {
            read_elements(self, index, data,
                          {dtype, shape, offset, extent, flat_offset, flat_size, strides, std::nullopt, std::nullopt});
          },
          nb::arg("index"), nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("shape") = nb::none(), nb::arg("offset") = nb::none(), nb::arg("extent") = nb::none(),
          nb::arg("flat_offset") = nb::none(), nb::arg("flat_size") = nb::none(), nb::arg("strides") = nb::none(),
          nb::sig("def read(self, index: int, data: object, *, dtype: int | str | None = None, "
                  "shape: collections.abc.Sequence[int] | None = None, "
                  "offset: collections.abc.Sequence[int] | None = None, "
                  "extent: collections.abc.Sequence[int] | None = None, flat_offset: int | None = None, "
                  "flat_size: int | None = None, strides: collections.abc.Sequence[int] | None = None) -> None"),
          "Copies a region of tensor `index` into `data`, a writable array of the CPU, also of a tensor that has no "
          "data(). Regions and raw memory are given as in Save.add_tensor. MismatchError: shape or dtype are not the "
          "tensor's. One thread at a time.")
      .def("tables", &tables_of, nb::sig("def tables(self) -> list[ckpt.records.TableInfo]"),
           "Sparse tables, in the order of their names' bytes. Their ids and columns are tensors, too; how many "
           "buckets there are is not told, 0.")
      .def("tree", &tree_of, nb::sig("def tree(self) -> Tree"),
           "All that the file holds; its tensors appear as their names.");
  bind_handle(file, "def __enter__(self) -> File");
  bind_file_share(m);
}

}  // namespace ckpt_py
