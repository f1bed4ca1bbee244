// Save.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "batch.h"
#include "bind.h"
#include "region.h"
#include "table.h"

namespace ckpt_py {

// A save and the Python memory that was added to it, which is kept until the save has run or its job is staged.
class SaveObject {
 public:
  SaveObject(ckpt::Save&& save) : held_(std::move(save), "Save") {}

  void add_tensor(nb::handle name, nb::handle data, const Region& region) {
    const auto save = held_.get();
    const Alone alone(&busy_, "Save");
    const std::string called = text(name, "name");
    Placed placed = place(called, data, region, false);
    save->add_tensor(called, placed.tensor, ckpt::Memory(placed.data, placed.bytes), placed.device);
    if (!placed.kept.is_none()) kept_.push_back(std::move(placed.kept));
  }

  // Whole tensors. A few hundred with each call, as a description takes some space.
  void add_tensors(nb::dict tensors, const std::optional<std::tuple<uint64_t, uint32_t, uint32_t>>& replica) {
    const auto save = held_.get();
    const Alone alone(&busy_, "Save");
    Batch<const void*> batch;
    const auto add = [&] { batch.add_to(ckpt_save_add_tensors, save->get()); };
    for (const auto& [key, value] : tensors) {
      nb::object kept = Memory::of(value, false);
      const Memory& memory = nb::cast<const Memory&>(kept);
      ckpt::Tensor tensor(memory.dtype, memory.shape);
      if (!memory.contiguous()) tensor.strides(memory.strides);
      if (memory.stream != 0) tensor.stream(memory.stream);
      if (replica) std::apply([&](auto... part) { tensor.replica(part...); }, *replica);
      batch.push(text(key, "name"), tensor, memory.data, memory.bytes, memory.device());
      kept_.push_back(std::move(kept));
      if (batch.full()) add();
    }
    add();
  }

  // Rows of a sparse table.
  void add_table(const std::string& name, TableRows given) {
    const auto save = held_.get();
    const Alone alone(&busy_, "Save");
    save->add_table(name, given.rows);
    for (nb::object& kept : given.kept) kept_.push_back(std::move(kept));
  }

  template <class Function>
  auto with(Function&& function) {
    const auto save = held_.get();
    const Alone alone(&busy_, "Save");
    return function(*save);
  }

  void run(bool interruptible) {
    if (interruptible) {
      JobObject job = start(true);
      try {
        job.work()->wait(CKPT_JOB_COMMITTED, -1);
      } catch (...) {
        job.close();
        throw;
      }
      job.close();
      return;
    }
    with([](ckpt::Save& save) { unlocked([&] { save.run(); }); });
    Kept().swap(kept_);
  }

  JobObject start(bool in_place) {
    return with([this, in_place](ckpt::Save& save) {
      // Not Save::start, which waits for STAGED, and whose session tells of failures: background.py does both.
      ckpt::Job job = unlocked([&] {
        return ckpt::detail::make<ckpt::Job>(in_place ? ckpt_save_start_in_place : ckpt_save_start, save.get());
      });
      return save_job(std::move(job), std::move(kept_));
    });
  }

  nb::object report() {
    const ckpt::Report made = with([](ckpt::Save& save) { return save.report(); });
    return record(made);
  }

  void close() {
    const Alone alone(&busy_, "Save");
    held_.close();
    Kept().swap(kept_);
  }
  bool closed() const { return held_.closed(); }

 private:
  Held<ckpt::Save> held_;
  Kept kept_;
  bool busy_ = false;
};

static void add_object(SaveObject& self, nb::handle name, nb::handle data, nb::handle media_type, int32_t scope) {
  const std::string called = text(name, "name"), type = text(media_type, "media_type");
  nb::object kept = Memory::of(data, false);
  const Memory& memory = nb::cast<const Memory&>(kept);
  if (!memory.contiguous()) raise(CKPT_UNSUPPORTED, "an object's bytes must be contiguous");
  self.with([&](ckpt::Save& save) { save.add_object(called, type, scope, ckpt::Memory(memory.data, memory.bytes)); });
}

static void add_alias(SaveObject& self, nb::handle name, nb::handle target, const std::optional<Extents>& shape,
                      const std::optional<Extents>& strides, int64_t offset) {
  const std::string called = text(name, "name"), of = text(target, "target");
  self.with([&](ckpt::Save& save) {
    if (!shape && !strides && offset == 0) return save.add_alias(called, of);
    if (!shape) raise(CKPT_INVALID, "a view needs shape=");
    ckpt::Tensor view(0, *shape);
    if (strides) view.strides(*strides);
    save.add_alias(called, of, view.view_offset(offset));
  });
}

static void bind_save_adds(nb::class_<SaveObject>& save) {
  save.def(
          "add_tensor",
          [](SaveObject& self, nb::handle name, nb::handle data, nb::object dtype, std::optional<Extents> shape,
             std::optional<Extents> offset, std::optional<Extents> extent, std::optional<int64_t> flat_offset,
             std::optional<int64_t> flat_size, std::optional<Extents> strides,
             std::optional<std::tuple<uint64_t, uint32_t, uint32_t>> replica,
             std::optional<std::tuple<int32_t, int32_t>> device, bool first_replica) {
            self.add_tensor(
                name, data,
                {dtype, shape, offset, extent, flat_offset, flat_size, strides, replica, device, first_replica});
          },
          nb::arg("name"), nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("shape") = nb::none(), nb::arg("offset") = nb::none(), nb::arg("extent") = nb::none(),
          nb::arg("flat_offset") = nb::none(), nb::arg("flat_size") = nb::none(), nb::arg("strides") = nb::none(),
          nb::arg("replica") = nb::none(), nb::arg("device") = nb::none(), nb::arg("first_replica") = false,
          nb::sig("def add_tensor(self, name: str, data: object, *, dtype: int | str | None = None, "
                  "shape: collections.abc.Sequence[int] | None = None, "
                  "offset: collections.abc.Sequence[int] | None = None, "
                  "extent: collections.abc.Sequence[int] | None = None, flat_offset: int | None = None, "
                  "flat_size: int | None = None, strides: collections.abc.Sequence[int] | None = None, "
                  "replica: tuple[int, int, int] | None = None, device: tuple[int, int] | None = None, "
                  "first_replica: bool = False) -> None"),
          "Adds this rank's region of tensor `name`. `data` is an array (DLPack or the buffer protocol). It is not "
          "copied: the save keeps it, and it must not change, until the save has run or its job is STAGED.\n\nA whole "
          "tensor needs nothing else. A box: `shape` of the whole tensor and `offset`, in elements; its extent is the "
          "array's shape. A flat range: `shape` and `flat_offset`. `replica` = (group, index, count) says who else "
          "holds the same region; by default all ranks hold a whole tensor, and this rank alone any other "
          "region. Their values must be equal; with `first_replica` those of the first of them count.\n\nWith `dtype` "
          "the data is raw bytes (None if the region is empty), and shape, extent, flat_size "
          "and strides (in elements) describe them; `device` = (DLPack's type, id).")
      .def("add_tensors", &SaveObject::add_tensors, nb::arg("tensors"), nb::kw_only(), nb::arg("replica") = nb::none(),
           nb::sig("def add_tensors(self, tensors: dict[str, typing.Any], *, "
                   "replica: tuple[int, int, int] | None = None) -> None"),
           "Adds whole tensors by their names, as add_tensor() does, but quickly. Stops at the first that fails: those "
           "before it were added.")
      .def("add_object", &add_object, nb::arg("name"), nb::arg("data"),
           nb::arg("media_type") = "application/octet-stream", nb::arg("scope") = 0,
           nb::sig("def add_object(self, name: str, data: object, media_type: str = 'application/octet-stream', "
                   "scope: int = 0) -> None"),
           "Adds named bytes, which are copied at once. `scope`: ckpt.Scope.SHARED (rank 0's, for all) or PER_RANK.")
      .def("add_alias", &add_alias, nb::arg("name"), nb::arg("target"), nb::kw_only(), nb::arg("shape") = nb::none(),
           nb::arg("strides") = nb::none(), nb::arg("offset") = 0,
           nb::sig("def add_alias(self, name: str, target: str, *, shape: collections.abc.Sequence[int] | None = None, "
                   "strides: collections.abc.Sequence[int] | None = None, offset: int = 0) -> None"),
           "Adds a second name for tensor `target`, or for a view of it: shape, strides and offset in elements of the "
           "flattened target.")
      .def(
          "add_tree",
          [](SaveObject& self, const TreeObject& tree, nb::handle name) {
            const auto kept = tree.get();
            const auto object = optional_text(name, "name");
            self.with([&](ckpt::Save& into) { object ? into.add_tree(*kept, *object) : into.add_tree(*kept); });
          },
          nb::arg("tree"), nb::arg("name") = nb::none(),
          nb::sig("def add_tree(self, tree: Tree, name: str | None = None) -> None"),
          "Adds this rank's finished tree as `name` (None: the checkpoint's main tree). The trees of all ranks are "
          "merged.")
      .def(
          "give_up",
          [](SaveObject& self, nb::handle reason) {
            const std::string why = text(reason, "reason");
            self.with([&](ckpt::Save& into) { unlocked([&] { into.give_up(why); }); });
          },
          nb::arg("reason"), nb::sig("def give_up(self, reason: str) -> None"),
          "Instead of run() or start(), where this rank cannot save: the other ranks end at once and learn why.");
}

static void bind_save_tables(nb::class_<SaveObject>& save) {
  save.def(
      "add_table",
      [](SaveObject& self, nb::handle name, nb::handle ids, nb::dict columns, uint64_t bucket_count,
         nb::handle positions, nb::handle raw, nb::handle changed, nb::handle removed) {
        const std::string table = text(name, "name");
        self.add_table(table, table_rows(table, ids, columns, bucket_count, positions, raw, changed, removed));
      },
      nb::arg("name"), nb::arg("ids"), nb::arg("columns"), nb::kw_only(), nb::arg("bucket_count") = CKPT_TABLE_BUCKETS,
      nb::arg("positions") = nb::none(), nb::arg("raw") = nb::none(), nb::arg("changed") = nb::none(),
      nb::arg("removed") = nb::none(),
      nb::sig("def add_table(self, name: str, ids: object, columns: dict[str, typing.Any], *, "
              "bucket_count: int = 65536, positions: object = None, "
              "raw: collections.abc.Mapping[str, tuple[int | str, collections.abc.Sequence[int]]] | None = None, "
              "changed: object = None, removed: object = None) -> None"),
      "Adds this rank's rows of sparse table `name`; a rank without any may leave it out. `ids`: i64 or u64, each "
      "once. `columns`: by name an array whose first dimension is rows, row i of which belongs to id i; or a list "
      "of such arrays, the blocks of a hash table, which have the same number of rows, except for the last. With "
      "`positions` (as many as ids) row i is that one of the blocks taken together. The arrays must be contiguous, "
      "ids and positions in memory of the CPU, columns in that of the CPU or of one CUDA device; they are not copied, "
      "and kept as by add_tensor(). `raw`: by name (dtype, shape of a row), for columns whose memory is raw bytes. "
      "`changed`, numbers of rows, and `removed`, ids: what changed since this session saved the table last, so that "
      "with incremental only that is written; None: nobody knows. "
      "Columns and bucket_count are those of all ranks.");
}

static std::optional<SaveObject> save_by_plan(KeeperObject& keeper, const SessionObject& session, nb::handle plan,
                                              nb::handle mapping, const nb::kwargs& keywords) {
  const auto in = session.get();
  const std::string how = text(plan, "plan");
  const ckpt::Options chosen = options(mapping, keywords);
  auto made = keeper.with([&](ckpt::Keeper& of) { return unlocked([&] { return of.save(*in, how, chosen); }); });
  return made ? std::optional<SaveObject>(std::move(*made)) : std::nullopt;
}

void bind_save(nb::module_& m) {
  nb::class_<SaveObject> save(
      m, "Save",
      "One rank's share of a checkpoint: add tensors and objects, then call run() or start() once. Every rank of the "
      "session does the same for the same label. One thread at a time.");
  save.def(
      "__init__",
      [](SaveObject* self, const SessionObject& session, nb::handle label, int64_t step, nb::handle mapping,
         const nb::kwargs& keywords) {
        const auto in = session.get();
        const std::string called = text(label, "label");
        const ckpt::Options chosen = options(mapping, keywords);
        new (self) SaveObject(unlocked([&] { return ckpt::Save::create(*in, called, step, chosen); }));
      },
      nb::arg("session"), nb::arg("label"), nb::arg("step") = -1, nb::arg("options").none() = nb::none(),
      nb::arg("keywords"),
      nb::sig("def __init__(self, session: Session, label: str, step: int = -1, " CKPT_PY_OPTIONS ") -> None"));
  save.def_static(
      "by_plan", &save_by_plan, nb::arg("keeper"), nb::arg("session"), nb::arg("plan"),
      nb::arg("options").none() = nb::none(), nb::arg("keywords"),
      nb::sig("def by_plan(keeper: Keeper, session: Session, plan: str, " CKPT_PY_OPTIONS ") -> Save | None"),
      "The save of a plan; None if the newest checkpoint that the keeper has committed is that one already.");
  bind_save_adds(save);
  bind_save_tables(save);
  save.def(
      "set_attr",
      [](SaveObject& self, nb::handle key, nb::handle value, nb::handle tensor) {
        const std::string called = text(key, "key"), said = text(value, "value");
        const auto of = optional_text(tensor, "tensor");
        self.with(
            [&](ckpt::Save& into) { of ? into.set_tensor_attr(*of, called, said) : into.set_attr(called, said); });
      },
      nb::arg("key"), nb::arg("value"), nb::arg("tensor") = nb::none(),
      nb::sig("def set_attr(self, key: str, value: str, tensor: str | None = None) -> None"),
      "Sets an attribute of the checkpoint, or of a tensor that this rank adds.");
  save.def_prop_ro(
          "id", [](SaveObject& self) { return self.with([](ckpt::Save& of) { return of.id(); }); },
          "The id that the checkpoint will have once committed.")
      .def("run", &SaveObject::run, nb::kw_only(), nb::arg("interruptible") = true,
           "Saves. Returns once the checkpoint is durable, complete and committed (on ranks > 0: committed).\n\nCtrl-C "
           "cancels the save, which runs as a job for that: KeyboardInterrupt comes once the engine no longer uses the "
           "memory; a save that was just being committed may still exist. interruptible=False saves on this thread, "
           "where Ctrl-C waits for the end of the save.")
      .def("report", &SaveObject::report, nb::sig("def report(self) -> ckpt.records.Report"),
           "Once the save has ended, on rank 0: what retention removed, and what it could not remove and why. Empty on "
           "other ranks.")
      .def("start", &SaveObject::start, nb::kw_only(), nb::arg("in_place") = false,
           "Does what run() does, in the background. The memory may change again once the job is STAGED. in_place=True "
           "makes no copy: the job is STAGED once everything is written.");
  bind_handle(save, "def __enter__(self) -> Save");
}

}  // namespace ckpt_py
