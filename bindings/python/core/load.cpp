// Load.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "load.h"

namespace ckpt_py {

void LoadObject::add_tensors(Batch<void*>& batch, nb::object kept) {
  const auto load = held_.get();
  const Alone alone(&busy_, "Load");
  batch.add_to(ckpt_load_add_tensors, load->get());
  kept_.push_back(std::move(kept));
}

void LoadObject::add_table(const ShareObject& share, nb::handle ids, nb::dict columns, uint64_t window) {
  const auto load = held_.get();
  const auto rows = share.get();
  const Alone alone(&busy_, "Load");
  Kept kept;
  const auto keep = [&](nb::object memory) -> const Memory& {
    kept.push_back(std::move(memory));
    return nb::cast<const Memory&>(kept.back());
  };
  ckpt::MutableMemory to;
  if (!ids.is_none()) {
    const Memory& given = keep(host_memory(ids, true, "ids"));
    if (given.dtype != CKPT_DTYPE_I64 && given.dtype != CKPT_DTYPE_U64)
      raise(CKPT_INVALID, "ids: expected memory of i64 or u64, found " + ckpt::dtype_name(given.dtype));
    to = ckpt::MutableMemory(given.data, given.bytes);
  }
  Place place;
  std::vector<ckpt::ColumnMemory> into;
  for (const auto& [key, value] : columns) {
    const std::string column = text(key, "a column's name");
    try {
      const Memory& given = keep(row_memory(value, true));
      place.take(given);
      into.push_back(column_memory(share, column, given));
    } catch (nb::python_error& error) {
      if (error.matches(nb::module_::import_("ckpt.errors").attr("Error")))
        error.value().attr("_name_tensor")(share.table().name + ("/" + column));
      throw;
    }
  }
  load->add_table(*rows, window, to, into, place.device, place.stream);
  for (nb::object& one : kept) kept_.push_back(std::move(one));
}

static void bind_load_adds(nb::class_<LoadObject>& load) {
  load.def(
          "add_tensor",
          [](LoadObject& self, nb::handle name, nb::handle data, nb::object dtype, std::optional<Extents> shape,
             std::optional<Extents> offset, std::optional<Extents> extent, std::optional<int64_t> flat_offset,
             std::optional<int64_t> flat_size, std::optional<Extents> strides,
             std::optional<std::tuple<int32_t, int32_t>> device, bool convert) {
            self.add_tensor(name, data,
                            {dtype, shape, offset, extent, flat_offset, flat_size, strides, std::nullopt, device},
                            convert);
          },
          nb::arg("name"), nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("shape") = nb::none(), nb::arg("offset") = nb::none(), nb::arg("extent") = nb::none(),
          nb::arg("flat_offset") = nb::none(), nb::arg("flat_size") = nb::none(), nb::arg("strides") = nb::none(),
          nb::arg("device") = nb::none(), nb::arg("convert") = false,
          nb::sig("def add_tensor(self, name: str, data: object, *, dtype: int | str | None = None, "
                  "shape: collections.abc.Sequence[int] | None = None, "
                  "offset: collections.abc.Sequence[int] | None = None, "
                  "extent: collections.abc.Sequence[int] | None = None, flat_offset: int | None = None, "
                  "flat_size: int | None = None, strides: collections.abc.Sequence[int] | None = None, "
                  "device: tuple[int, int] | None = None, convert: bool = False) -> None"),
          "Reads a region of a tensor or alias into `data`, a writable array, which the load keeps until it has ended. "
          "Regions and raw memory are given as in Save.add_tensor; any box will do, whatever boxes were saved. "
          "MismatchError if shape or dtype are not the tensor's; `convert` allows conversion between f32, bf16 and "
          "f16.")
      .def("add_table", &LoadObject::add_table, nb::arg("share"), nb::arg("ids").none(), nb::arg("columns"),
           nb::arg("window") = 0,
           nb::sig("def add_table(self, share: Share, ids: object, columns: dict[str, typing.Any], "
                   "window: int = 0) -> None"),
           "Reads the rows of a window of a share of the same reader: their ids into `ids` (None for a share of "
           "Rowset.ids, if they are not wanted), and of each column the rows into an array of its dtype and shape, "
           "or into raw bytes (u8); all are contiguous memory for Share.rows_of(window) rows or more, which the load "
           "keeps until it has ended: the ids' of the CPU, the columns' of the CPU or of one CUDA device. Each row is "
           "at the same place in all of them.")
      .def("add_object", &LoadObject::add_object, nb::arg("name"), nb::arg("data"), nb::arg("rank") = 0,
           nb::sig("def add_object(self, name: str, data: object, rank: int = 0) -> None"),
           "Reads the shared object `name`, or the one of `rank`, into writable memory of Reader.object(name, "
           "rank).size bytes.");
}

void bind_load(nb::module_& m) {
  nb::class_<LoadObject> load(m, "Load",
                              "A load of tensors and objects, planned and read together: add them, then call run() or "
                              "start() once. One thread at a time.");
  load.def(
      "__init__",
      [](LoadObject* self, const ReaderObject& reader, nb::handle mapping, const nb::kwargs& keywords) {
        const auto from = reader.get();
        const ckpt::Options chosen = options(mapping, keywords);
        new (self) LoadObject(unlocked([&] { return ckpt::Load::create(*from, chosen); }));
      },
      nb::arg("reader"), nb::arg("options").none() = nb::none(), nb::arg("keywords"),
      nb::sig("def __init__(self, reader: Reader, " CKPT_PY_OPTIONS ") -> None"));
  bind_load_adds(load);
  load.def("run", &LoadObject::run, nb::kw_only(), nb::arg("interruptible") = true,
           "Loads all that was added. When it returns, every byte was read and, unless verify=0, checked. Structural "
           "errors come before the first byte changes; after CorruptError, IoError, GoneError or KeyboardInterrupt the "
           "contents of the memory are undefined. interruptible=False loads on this thread, where Ctrl-C waits for the "
           "end of the load.")
      .def("start", &LoadObject::start, "Does what run() does, in the background.")
      .def("report", &LoadObject::report, nb::sig("def report(self) -> ckpt.records.Report"),
           "Names that were asked for and are missing, and names of the checkpoint that were not asked for.");
  bind_handle(load, "def __enter__(self) -> Load");
}

}  // namespace ckpt_py
