// File: other people's checkpoint files.
#include <nanobind/stl/string.h>

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
  if (tensor.data == nullptr && tensor.bytes != 0)
    throw nb::value_error("the file was opened with tensor_data=0, so its tensors have no data");
  return View(file, tensor.data, tensor.bytes, tensor.dtype, tensor.shape, tensor.strides, tensor.ndim);
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

void bind_file(nb::module_& m) {
  nb::class_<FileObject> file(m, "File",
                              "A PyTorch .pt or a safetensors file, mapped and read in place: no code is run, nothing "
                              "is copied. If somebody truncates the file meanwhile, SIGBUS can end the process. Of an "
                              "address (\"https://host/model.pt\") the bytes of all tensors are fetched, unless "
                              "tensor_data=0: then none are.");
  file.def(
          "__init__",
          [](FileObject* self, nb::handle at, nb::handle mapping, const nb::kwargs& keywords) {
            const std::string name = path(at);
            const ckpt::Options chosen = options(mapping, keywords);
            new (self) FileObject(unlocked([&] { return ckpt::File::open(name, chosen); }), "File");
          },
          nb::arg("path"), nb::arg("options").none() = nb::none(), nb::arg("keywords"),
          nb::sig("def __init__(self, path: str | os.PathLike[str], " CKPT_PY_OPTIONS ") -> None"))
      .def_prop_ro(
          "format", [](const FileObject& self) { return self.get()->format(); },
          "\"pt\" (zip), \"pt-legacy\" or \"safetensors\".")
      .def_prop_ro(
          "tensor_count", [](const FileObject& self) { return self.get()->tensor_count(); },
          "How many tensors there are, those that share memory included.")
      .def("tensors", &tensors_of, nb::sig("def tensors(self) -> list[ckpt.records.FileTensor]"),
           "All tensors in the order of the tree; one that shares another's memory comes after it.")
      .def(
          "tensor", [](const FileObject& self, uint64_t index) { return record(self.get()->tensor(index)); },
          nb::arg("index"), nb::sig("def tensor(self, index: int) -> ckpt.records.FileTensor"),
          "Number `index` of tensors().")
      .def("data", &data_of, nb::arg("index"), "The elements of tensor `index`, where they lie in the file.")
      .def("tree", &tree_of, nb::sig("def tree(self) -> Tree"),
           "All that the file holds; its tensors appear as their names.");
  bind_handle(file, "def __enter__(self) -> File");
}

}  // namespace ckpt_py
