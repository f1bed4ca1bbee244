// Reader.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "table.h"
#include "view.h"

namespace ckpt_py {

static nb::list tensors_of(const ReaderObject& self) {
  const auto reader = self.get();
  nb::list out;
  for (uint64_t i = 0; i < reader->tensor_count(); i++) out.append(record(reader->tensor(i)));
  return out;
}

static nb::list objects_of(const ReaderObject& self) {
  const auto reader = self.get();
  nb::list out;
  for (uint64_t i = 0; i < reader->object_count(); i++) out.append(record(reader->object(i)));
  return out;
}

static nb::object alias_of(const ReaderObject& self, nb::handle name) {
  const auto reader = self.get();
  return alias_record(reader->alias(text(name, "name")).desc());
}

// The library returns them in the order of their keys; a dict keeps it.
static nb::dict attrs_of(const ReaderObject& self, nb::handle tensor) {
  const auto reader = self.get();
  const auto of = optional_text(tensor, "tensor");
  nb::dict out;
  for (const auto& [key, value] : of ? reader->tensor_attrs(*of) : reader->attrs()) out[key.c_str()] = value;
  return out;
}

static nb::object attr_of(const ReaderObject& self, nb::handle key, nb::handle tensor) {
  const auto reader = self.get();
  const auto of = optional_text(tensor, "tensor");
  const std::string called = text(key, "key");
  const auto value = of ? reader->tensor_attr(*of, called) : reader->attr(called);
  return value ? nb::cast(*value) : nb::none();
}

static View map_tensor(const ReaderObject& self, nb::handle name, nb::handle mapping, const nb::kwargs& keywords) {
  const auto reader = self.get();
  const std::string called = text(name, "name");
  const ckpt::Options chosen = options(mapping, keywords);
  const ckpt::Memory found = unlocked([&] { return reader->map(called, chosen); });
  const ckpt::TensorInfo info = reader->tensor(called);
  int64_t strides[CKPT_MAX_NDIM] = {}, next = 1;
  for (int32_t i = info.ndim; i-- > 0; next *= std::max<int64_t>(info.shape[i], 1)) strides[i] = next;
  return View(reader, found.data, found.bytes, info.dtype, info.shape, strides, info.ndim);
}

static nb::object diff_readers(const ReaderObject& self, const ReaderObject& other, nb::handle mapping,
                               const JobObject* job, const nb::kwargs& keywords) {
  const auto a = self.get(), b = other.get();
  const JobOptions chosen(mapping, keywords, job);
  return record(unlocked([&] { return a->diff(*b, chosen); }));
}

static nb::object copy_reader(const ReaderObject& self, const StoreObject& to, nb::handle mapping, const JobObject* job,
                              const nb::kwargs& keywords) {
  const auto reader = self.get();
  const auto store = to.get();
  const JobOptions chosen(mapping, keywords, job);
  return record(unlocked([&] { return reader->copy(*store, chosen); }));
}

// Warns of what was passed over, checkpoints and a cache that cannot be used. Raises if the caller made warnings
// errors.
static void warn_of(const ckpt::Reader& reader) {
  nb::list texts;
  for (const ckpt::Finding& finding : reader.report())
    if (finding.kind == CKPT_FINDING_NO_CACHE)
      nb::module_::import_("ckpt.errors").attr("warn_of")(decoded(finding.text));
    else
      texts.append(decoded(finding.text));
  if (nb::len(texts) == 0) return;
  const ckpt::CheckpointInfo info = reader.info();
  nb::module_::import_("ckpt.errors").attr("warn_passed_over")(info.id, texts);
}

static void bind_reader_records(nb::class_<ReaderObject>& reader) {
  reader
      .def_prop_ro(
          "info", [](const ReaderObject& self) { return record(self.get()->info()); },
          nb::sig("def info(self) -> ckpt.records.CheckpointInfo"), "About the checkpoint.")
      .def(
          "report", [](const ReaderObject& self) { return record(self.get()->report()); },
          nb::sig("def report(self) -> ckpt.records.Report"),
          "The newer checkpoints of the run that cannot be loaded and were passed over, newest first. Empty for a "
          "checkpoint that was named by its id.")
      .def_prop_ro(
          "tensor_count", [](const ReaderObject& self) { return self.get()->tensor_count(); },
          "How many tensors and aliases there are.")
      .def("tensors", &tensors_of, nb::sig("def tensors(self) -> list[ckpt.records.TensorInfo]"),
           "All tensors and aliases, in the order of their names' bytes.")
      .def(
          "tensor_at", [](const ReaderObject& self, uint64_t index) { return record(self.get()->tensor(index)); },
          nb::arg("index"), nb::sig("def tensor_at(self, index: int) -> ckpt.records.TensorInfo"),
          "Number `index` of tensors().")
      .def(
          "tensor",
          [](const ReaderObject& self, nb::handle name) { return record(self.get()->tensor(text(name, "name"))); },
          nb::arg("name"), nb::sig("def tensor(self, name: str) -> ckpt.records.TensorInfo"),
          "The tensor or alias `name`; NotFoundError if there is none.")
      .def("alias", &alias_of, nb::arg("name"), nb::sig("def alias(self, name: str) -> ckpt.records.AliasInfo"),
           "Which view of its target alias `name` is; NotFoundError if `name` is no alias.")
      .def(
          "segment",
          [](const ReaderObject& self, nb::handle tensor, uint32_t index) {
            return record(self.get()->segment(text(tensor, "tensor"), index));
          },
          nb::arg("tensor"), nb::arg("index"),
          nb::sig("def segment(self, tensor: str, index: int) -> ckpt.records.SegmentInfo"),
          "Where segment `index` of a tensor is stored; for tools.")
      .def_prop_ro(
          "object_count", [](const ReaderObject& self) { return self.get()->object_count(); },
          "How many objects there are, counting each rank's own.")
      .def("objects", &objects_of, nb::sig("def objects(self) -> list[ckpt.records.ObjectInfo]"),
           "All objects, in the order of name, then rank.")
      .def(
          "object_at", [](const ReaderObject& self, uint64_t index) { return record(self.get()->object(index)); },
          nb::arg("index"), nb::sig("def object_at(self, index: int) -> ckpt.records.ObjectInfo"),
          "Number `index` of objects().")
      .def(
          "object",
          [](const ReaderObject& self, nb::handle name, uint32_t rank) {
            return record(self.get()->object(text(name, "name"), rank));
          },
          nb::arg("name"), nb::arg("rank") = 0,
          nb::sig("def object(self, name: str, rank: int = 0) -> ckpt.records.ObjectInfo"),
          "The shared object `name`, or the one of `rank`; NotFoundError if there is none.")
      .def(
          "part", [](const ReaderObject& self, uint32_t index) { return record(self.get()->part(index)); },
          nb::arg("index"), nb::sig("def part(self, index: int) -> ckpt.records.PartInfo"), "Part file number `index`.")
      .def("attrs", &attrs_of, nb::arg("tensor") = nb::none(),
           nb::sig("def attrs(self, tensor: str | None = None) -> dict[str, str]"),
           "Attributes of the checkpoint, or of a tensor, in the order of their keys.")
      .def("attr", &attr_of, nb::arg("key"), nb::arg("tensor") = nb::none(),
           nb::sig("def attr(self, key: str, tensor: str | None = None) -> str | None"),
           "One attribute; None if it is not set.");
}

static void bind_reader_tree(nb::class_<ReaderObject>& reader) {
  reader.def(
      "tree",
      [](const ReaderObject& self, nb::handle name, std::optional<uint32_t> rank) {
        const auto from = self.get();
        const auto object = optional_text(name, "name");
        return TreeObject(unlocked([&] {
                            if (rank) return object ? from->tree_of_rank(*rank, *object) : from->tree_of_rank(*rank);
                            return object ? from->tree(*object) : from->tree();
                          }),
                          "Tree");
      },
      nb::arg("name") = nb::none(), nb::kw_only(), nb::arg("rank") = nb::none(),
      nb::sig("def tree(self, name: str | None = None, *, rank: int | None = None) -> Tree"),
      "The tree in object `name`. None: the main tree, or a dict of all tensors if there is none. `rank`: of what "
      "is each rank's own, only what that rank saved, or rank 0 if there were fewer ranks.");
}

void bind_reader(nb::module_& m) {
  nb::class_<ReaderObject> reader(m, "Reader", "What ckpt.Reader is made of.");
  reader.def(
      "__init__",
      [](ReaderObject* self, const StoreObject& store, nb::handle selector, nb::handle mapping,
         const nb::kwargs& keywords) {
        const auto in = store.get();
        const std::string wanted = text(selector, "selector");
        const ckpt::Options chosen = options(mapping, keywords);
        auto opened = unlocked([&] { return ckpt::Reader::open(*in, wanted, chosen); });
        warn_of(opened);
        new (self) ReaderObject(std::move(opened), "Reader");
      },
      nb::arg("store"), nb::arg("selector") = "latest", nb::arg("options").none() = nb::none(), nb::arg("keywords"),
      nb::sig("def __init__(self, store: Store, selector: str = 'latest', " CKPT_PY_OPTIONS ") -> None"));
  bind_reader_records(reader);
  bind_reader_tree(reader);
  bind_reader_tables(reader);
  reader
      .def("map", &map_tensor, nb::arg("name"), nb::arg("options").none() = nb::none(), nb::arg("keywords"),
           nb::sig("def map(self, name: str, " CKPT_PY_OPTIONS ") -> View"),
           "A view of a whole tensor without a copy, checked first unless verify=0. UnsupportedError if its bytes are "
           "not stored raw and in one piece. A failing disk can end the process by SIGBUS; a load raises IoError "
           "instead.")
      .def(
          "verify",
          [](const ReaderObject& self, nb::handle mapping, const nb::kwargs& keywords) {
            const auto of = self.get();
            const ckpt::Options chosen = options(mapping, keywords);
            return other_job(unlocked([&] { return of->verify(chosen); }), {});
          },
          nb::arg("options").none() = nb::none(), nb::arg("keywords"),
          nb::sig("def verify(self, " CKPT_PY_OPTIONS ") -> Job"),
          "Checks the checkpoint in the background. Job.report() then lists all damage; it is empty if there is none.")
      .def("diff", &diff_readers, nb::arg("other"), nb::arg("options").none() = nb::none(), nb::kw_only(),
           nb::arg("job").none() = nb::none(), nb::arg("keywords"),
           nb::sig("def diff(self, other: Reader, " CKPT_PY_JOB_OPTIONS ") -> ckpt.records.Report"),
           "Compares two checkpoints; the report is empty if their content is equal. values=0 compares the structure "
           "only.")
      .def("copy", &copy_reader, nb::arg("to"), nb::arg("options").none() = nb::none(), nb::kw_only(),
           nb::arg("job").none() = nb::none(), nb::arg("keywords"),
           nb::sig("def copy(self, to: Store, " CKPT_PY_JOB_OPTIONS ") -> ckpt.records.Report"),
           "Makes the same checkpoint in another store, byte for byte, and checks every byte on its way. An unfinished "
           "copy is no checkpoint; the next call goes on with it. The report says what was there already, and whether "
           "the copy is foreign in that store. ExistsError if another checkpoint has its name there.")
      .def(
          "export",
          [](const ReaderObject& self, nb::handle file, nb::handle mapping, const JobObject* job,
             const nb::kwargs& keywords) {
            const auto from = self.get();
            const std::string to = path(file);
            const JobOptions chosen(mapping, keywords, job);
            unlocked([&] { from->export_to(to, chosen); });
          },
          nb::arg("path"), nb::arg("options").none() = nb::none(), nb::kw_only(), nb::arg("job").none() = nb::none(),
          nb::arg("keywords"),
          nb::sig("def export(self, path: str | os.PathLike[str], " CKPT_PY_JOB_OPTIONS ") -> None"),
          "Writes the checkpoint as safetensors, a .pt, a DCP or an hfai directory (option format) to `path`, which "
          "must not exist.");
  bind_handle(reader, "def __enter__(self) -> Reader");
}

}  // namespace ckpt_py
