"""Loads a whole state, or a subtree of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ._core import Load, Memory, NewArrays, OwnArrays, Tree, replaced, tensor_names, unused
from .adapt import (TRANSPARENT, Marks, check_dtype, check_sparse, fill_whole, is_filled_whole, is_value, marks_of,
                    memory, parts_for, put, regions_of, restore, stand_in, without_marks)
from .enums import NodeKind, Status
from .errors import Error, NotFoundError, error_of, type_error
from .frameworks import (SAVED_AS, Framework, FrameworkName, framework_name_of, framework_of, is_array, is_installed,
                         is_whole, loaded, saved_framework)
from .generators import is_generator
from .kinds import bytes_of, described, is_packed, is_plain
from .keys import pairs_like, set_like
from .missing import arrays_in, framework_in, holds_others, items_of, may_hold, missing_error, warn_missing
from .objects import check_fits, rebuild, takes, template_of
from .progress import Progress
from .process_random import OfNewRank, are_at, of_new_rank
from .records import TensorInfo
from .regions import PER_RANK, PerRank, Regions, Shard, Whose
from .saved import AnyReader, SavedNode, check_own, children, descend, own_value, through_records, tree_of
from .sources import FileReader, FileRequest, FileShare, request_of, run
from .stateful import (AsSaved, Made, OnlyThese, OtherShape, PlainObject, StateObject, changed_already, give,
                       is_stateful)
from .states import templates_of
from .tables import TABLE, Rowset, Share, Table, fill_rows
from .tied import Ties, memory_key
from .trees import Record, TreeReader, TreeSet, to_native


def load_from(reader: AnyReader, into: Any, at: Sequence[str | int], framework: FrameworkName | None, convert: bool,
              whose: Whose | None, progress: Progress, options: Mapping[str, int | str],
              objects: Mapping[int, StateObject] | None = None,
              before: Callable[[list[str]], None] = lambda unexpected: None,
              trees: Callable[[AnyReader, Whose | None], Tree] | None = None) -> Any:
    """As ckpt.load. `objects`: those in `into` by their ids. `before` is called before any array changes, with the
    paths of what modules and optimizers have no place for. `trees`: in place of tree_of."""
    strict = options.get("strict", "missing")
    if strict in ("none", "exact"):  # checked here: the engine does not see aliases, which are made and not read
        options = {**options, "strict": "missing"}
    objects = templates_of(into) if objects is None else objects
    with (trees or tree_of)(reader, whose) as tree, request_of(reader, options) as request:
        root = descend(tree, at, whose)
        state = StateReader(reader, tree, root, request, framework or framework_in(into, objects), convert, whose,
                             objects)
        out = state.read(root, into)
        state.add_arrays()
        if strict == "exact":
            state.check_all_read(into is not None)
        state.ties.check(request_of, state.framework_for)
        missing = state.not_found(into)
        if missing and strict != "none":
            there = SavedNode(reader, tree, state._framework, root, whose).child(*missing[0][0].split("/")) is not None
            raise missing_error(missing, state.known(), there, isinstance(reader, FileReader))
        before(state.unexpected)
        run(request, progress)
        state.put_marked()
        if missing:
            warn_missing(reader, [path for path, _ in missing])
        try:
            return state.finish(out)
        except Error as error:
            raise changed_already(error, state.changed) from error.__cause__


class _Loaded:
    """What was loaded for an object of the caller: finished, it is given to that object."""

    def __init__(self, give: Callable[[Any], Any], value: Any) -> None:
        self.give, self.value = give, value


class StateReader(TreeReader):
    """Reads a state in two steps: read() asks for all tensors; finish() restores the records once these are loaded."""

    def __init__(self, reader: AnyReader, tree: Tree, root: int, request: Load | FileRequest,
                 framework: FrameworkName | None, convert: bool, whose: Whose | None,
                 objects: Mapping[int, StateObject]) -> None:
        super().__init__(tree)
        self._whose = whose
        self._objects = objects
        self.used: set[int] = set()
        self.unexpected: list[str] = []  # paths of what modules have no place for
        self.left: list[str] = []  # of what any object has no place for
        self._templates: list[tuple[str, Any]] = []  # that stand for objects of `into`, by their paths
        self._given: list[int] = []  # nodes of what these are given
        self._done: list[str] = []  # paths of objects that have taken their states
        self._object: tuple[str, StateObject] | None = None  # that is being read
        self._root = root
        self._reader, self._request, self._convert = reader, request, convert
        saved_as = None if framework is not None else reader.attr(SAVED_AS)
        self._as_saved = framework is None
        self._mixed = saved_as in ("mixed", "jax")
        self._framework = self._default = framework_of(framework or saved_framework(saved_as))
        self._read: set[str] = set()  # names of tensors that are read into arrays of `into`
        self._hidden: dict[str, int] | None = None
        self._format: str | None = None  # of the memory of the current tensor in torch
        self._made: dict[str, dict[str, Any]] = {"numpy": {}, "torch": {}, "jax": {}}  # by name
        self._arrays: dict[str, NewArrays] = {}  # by framework
        self._memory: dict[object, tuple[str, Marks]] = {}  # names of arrays of `into`, by where these lie
        self._marks: Marks = (False, False)  # that the current tensor has in the checkpoint
        self._torch_dtype: Any = None  # that it says beside, of those that are torch's only
        self._marked: list[tuple[Any, Any, Marks]] = []  # array of `into`, its stand-in, saved marks
        self.ties = Ties(reader, self._memory)
        self._handing: AsSaved | None = None  # what is read is given to an object as it was saved
        self._kept: list[Any] = []  # views that are filled
        self._jax = None
        if loaded("jax") is not None:
            from .jaxes import Loads
            self._jax = Loads(request, convert)
        self._own = None if isinstance(request, FileRequest) else OwnArrays(
            request, convert, self._memory, self.used, self._read)

    @cached_property
    def _wanted(self) -> set[str]:
        """Names of tensors in the subtree."""
        return tensor_names(self.tree, self._root)

    @cached_property
    def _named(self) -> set[str]:
        """All names in the tree, outside of the subtree too; without a tree, all there are."""
        return self._wanted if self._root == 0 else tensor_names(self.tree)

    def check_all_read(self, into: bool) -> None:
        """For strict="exact": every tensor of the checkpoint must be read; if there is an `into`, into an array of it.
        Memory that tensors share is read with these, and has no name in the tree."""
        if self.left:
            raise error_of(Status.MISMATCH, f"'{self.left[0]}' is in the checkpoint, but the object in into has no "
                           "place for it (strict=exact)", {"path": self.left[0]})
        for index in self._given:
            self._read |= tensor_names(self.tree, index)
        for tensor in self._reader.tensors():
            if tensor.name not in (self._read if into else self._wanted) and tensor.name in self._named:
                where = "has no array for it" if tensor.name in self._wanted else "is not where it lies (at)"
                raise error_of(Status.MISMATCH, f"tensor '{tensor.name}' is in the checkpoint, but into {where} "
                               "(strict=exact)", {"tensor": tensor.name})

    def not_found(self, into: Any) -> list[tuple[str, Any]]:
        """The arrays and objects of `into` that the checkpoint lacks, by their paths."""
        out = []
        for prefix, template in [("", into), *self._templates]:
            plain = dict(template) if isinstance(template, OnlyThese) else template
            for path, value in unused(plain, prefix, self.used):
                out += [(below, found) for below, found in arrays_in(value, path, set())
                        if id(found) not in self.used and not self.ties.has(found)]
        return out if self._jax is None else self._jax.unfilled(out, self._read)

    def known(self) -> list[str]:
        """The names of tensors, and of what lies at the top, for those that are misspelt."""
        out: list[str] = []
        child = self.tree.node(through_records(self.tree, self._root, self._whose)).first_child
        while child is not None:
            found = self.tree.node(child)
            out, child = [*out, str(found.key)], found.next_sibling
        return [*out, *sorted(self._wanted)][:2000]

    # ---- asking ----

    def read(self, index: int = 0, like: Any = None) -> Any:
        if (own := own_value(self.tree, index, self._whose)) is not None:
            return self._read_own(index, own, like)
        if isinstance(like, OtherShape):
            path = "/".join(self.path_of(index))
            raise error_of(Status.MISMATCH, f"{path}: the state of a parameter of shape {like.found}, expected "
                           f"{like.expected}", {"path": path, "expected": str(like.expected), "found": str(like.found)})
        if isinstance(like, AsSaved):
            outside, self._handing = self._handing, like
            try:
                return super().read(index, None)
            finally:
                self._handing = outside
        if isinstance(like, Made):
            return like.value
        kind = self.tree.node(index).kind
        if kind == NodeKind.SET and isinstance(like, (set, frozenset)):
            return set_like(self, index, super().read(index, None), like)
        if kind in (NodeKind.DICT, NodeKind.RECORD) and is_stateful(like):
            return self._read_object(index, self._objects.get(id(like)) or PlainObject(like))  # one in a PerRank
        if self._jax is not None and kind in (NodeKind.BOOL, NodeKind.INT, NodeKind.FLOAT) and self._jax.takes(like):
            return self._jax.number(super().read(index), like, "/".join(self.path_of(index)))
        if like is not None and not may_hold(like, kind):
            path = "/".join(self.path_of(index))
            raise type_error(f"into{path and f' at {path!r}'}: expected an array, ckpt.Shard, dict, list, tuple or "
                             f"ckpt.Record, found {type(like).__module__}.{type(like).__qualname__}")
        return super().read(index, like)

    def _read_own(self, index: int, own: int, like: Any) -> Any:
        """What is one rank's own."""
        assert self._whose is not None
        rank, like = self._whose.rank, like.value if isinstance(like, PerRank) else like
        saved = check_own(self._reader, self.tree, index, own, self._whose)
        if rank < saved or self._whose.or_rank0 or not are_at(self.tree, own):
            return self.read(own, like)
        if is_stateful(like):
            return self._read_object(own, OfNewRank(like, rank))
        return _Loaded(lambda states: of_new_rank(states, rank), self.read(own, like))

    def _read_object(self, index: int, found: StateObject) -> Any:
        """An object with a state: its template is filled, and it takes the result."""
        self.used.add(id(found.object))
        path = "/".join(self.path_of(index))
        template = found.template(SavedNode(self._reader, self.tree, self._framework, index, self._whose, self._root))
        self._templates.append((path, template))
        self._given.append(index)
        outside, self._object = self._object, (path, found)
        value = self.read(index, template)
        self._object = outside
        return _Loaded(lambda state: self._give(found, state, path), value)

    def _give(self, found: StateObject, state: Any, path: str) -> Any:
        given = give(found, state, path)
        self._done.append(path)
        return given

    @property
    def changed(self) -> list[str]:
        """What of `into` the load has changed by now."""
        return [*sorted(self._read), *self._done]

    only = OnlyThese

    def wants(self, like: Any, key: str | int) -> bool:
        if self._object is not None:
            path, found = self._object
            self.left.append(f"{path}/{key}" if path else str(key))
            if found.strict:
                self.unexpected.append(self.left[-1])
        return False

    def path_of(self, index: int) -> list[str]:
        """The path from the root of the load, for an error."""
        node = self.tree.node(index)
        if index == self._root or node.parent is None:
            return []
        parent = self.tree.node(node.parent)
        if parent.kind == NodeKind.RECORD and TRANSPARENT.get(str(parent.value)) == node.key:
            return self.path_of(node.parent)
        place = children(self.tree, node.parent).index(index)
        return [*self.path_of(node.parent), str(place if node.key is None else node.key)]

    def tensor(self, name: str, like: Any) -> Any:
        if self._jax is not None and self._jax.takes(like):
            self._read.add(name)
            return _Loaded(self._jax.ask(name, like, self._marks, self._torch_dtype), None)
        shards = regions_of(like)
        if shards is None and not is_array(like):
            return self._new(name)
        self.used.add(id(like))
        self._read.add(name)
        if shards is not None:
            self.ties.filled.add(memory_key(like))
        try:
            for shard in shards or ():
                found = memory(without_marks(shard.data), writable=True)
                layout = (found.address, found.dtype, found.shape, found.strides)
                first, _ = self._memory.setdefault(layout, (name, self._marks)) if found.nbytes else (name, None)
                if first != name:
                    self.ties.add(first, name, shard)
                    continue
                data = self._readable(shard.data, found)
                self._request.add_tensor(name, data, shape=shard.shape, offset=shard.offset,
                                         flat_offset=shard.flat_offset, convert=self._convert)
            if shards is None:
                self._into(name, like)
        except Error as error:
            if "tensor" not in error.details:
                error._name_tensor(name)
            raise
        return like

    def _into(self, name: str, array: Any) -> None:
        check_dtype(array, self._torch_dtype)
        found = memory(without_marks(array), writable=True)
        layout = (found.address, found.dtype, found.shape, found.strides)
        means = name, self._turned(array)
        first, turned = self._memory.setdefault(layout, means) if found.nbytes else means
        if first == name:
            self._request.add_tensor(name, self._readable(array, found), convert=self._convert)
        else:
            self.ties.add(first, name, None, turned == means[1])

    def _turned(self, array: Any) -> Marks:
        """In which marks the array and the saved tensor differ."""
        own = marks_of(array)
        return own[0] != self._marks[0], own[1] != self._marks[1]

    def _readable(self, array: Any, found: Memory) -> Any:
        """What a tensor is read into: the array's memory, or a stand-in if their marks differ."""
        if not any(self._turned(array)):
            return found if isinstance(self._request, Load) else without_marks(array)
        if framework_name_of(array) is None:
            raise error_of(Status.UNSUPPORTED, "the saved numbers are to be conjugated or negated: expected an array "
                           f"of torch or numpy, found {type(array).__name__}", {"found": type(array).__name__})
        made = stand_in(array)
        self._marked.append((array, made, self._marks))
        return made

    def framework_for(self, name: str) -> Framework:
        """The framework of a new array."""
        if self._handing is not None and self._framework is self._default:
            said = self._reader.attr(SAVED_AS, name) or self._reader.attr(SAVED_AS)
            own = framework_name_of(self._handing.like)
            return framework_of(saved_framework(said) if said else own or self._default.name)
        if self._mixed and self._framework is self._default:
            return framework_of(saved_framework(self._reader.attr(SAVED_AS, name) or self._default.name))
        return self._framework

    def _new(self, name: str) -> Any:
        framework = self.framework_for(name)
        arrays = self._made[framework.name]
        device = getattr(self._handing and self._handing.like, "device", None) if framework.name == "torch" else None
        if name not in arrays:
            info = self._reader.tensor(name)
            made = self._new_view(info, framework) if device is None else None
            if made is None:
                made = framework.empty(name, info.dtype, info.shape, self._format)
                made = made if device is None or device.type == "meta" else made.to(device)
                self._request.add_tensor(name, made)
            arrays[name] = made
        return arrays[name]

    @property
    def arrays(self) -> NewArrays | None:
        request, reader, name = self._request, self._reader, self._framework.name
        if isinstance(request, FileRequest) or isinstance(reader, FileReader) or (
                self._format is not None or self._handing is not None or name == "jax"):
            return None  # jax lets memory go late, after nanobind has looked for what is leaked
        if loaded(name) is None and not (self._wanted and is_installed(name)):
            return None  # no array needs it, or _new() says of one that it is missing
        if name not in self._arrays:
            mixed = self._mixed and self._framework is self._default
            self._arrays[name] = NewArrays(request, reader, self._framework, self._made[name], mixed)
        return self._arrays[name]

    @property
    def own_arrays(self) -> OwnArrays | None:
        return self._own if self._marks == (False, False) else None

    def add_arrays(self) -> None:
        """Asks for the arrays that were taken or made without asking."""
        for arrays in self._arrays.values():
            arrays.add()
        if self._own is not None:
            self._own.add()

    def _new_view(self, info: TensorInfo, framework: Framework) -> Any:
        """A view of another new array, if the tensor is an alias of one that is read too; else None."""
        target = info.alias_of
        if target is None or info.dtype.bits < 8 or not (target in self._wanted or self._is_shared(target)):
            return None
        view = self._reader.alias(info.name)
        saved, own = self._format, is_whole(view.shape, view.strides, view.offset)
        self._format = saved if own and self._reader.tensor(target).shape == view.shape else None
        try:
            return framework.view(self._new(target), view.shape, view.strides, view.offset)
        finally:
            self._format = saved

    def _is_shared(self, target: str) -> bool:
        """Whether it is memory without a name in the tree that several of the wanted tensors have in common."""
        if self._hidden is None:
            aliases = [self._reader.tensor(name).alias_of for name in self._wanted]
            self._hidden = Counter(name for name in aliases if name is not None and name not in self._named)
        return self._hidden.get(target, 0) > 1

    def _record_for(self, class_name: str, index: int, like: Any) -> _Loaded | None:
        """The record of an object that takes what is loaded; None if `like` is none."""
        if class_name not in TRANSPARENT and takes(like, class_name):
            record = Record(class_name, self.entries(index, template_of(like)))
            check_fits(like, record, "/".join(self.path_of(index)))
            return _Loaded(lambda value: rebuild(like, value), record)
        if type(like) is dict and class_name not in TRANSPARENT and self.find(index, "entries") is not None:
            return _Loaded(lambda value: value.items["entries"] if type(value) is Record else value,
                           Record(class_name, self.entries(index, {"entries": like})))
        if class_name not in TRANSPARENT.keys() - {"torch.QTensor"} and is_filled_whole(like):
            self.used.add(id(like))
            self._read |= tensor_names(self.tree, index)
            keys = (self.tree.node(child).key for child in children(self.tree, index))
            record = Record(class_name, self.entries(index, dict.fromkeys(keys, AsSaved(like))))
            check_sparse(like, record)
            return _Loaded(lambda value: fill_whole(like, value), record)
        parts = parts_for(like, class_name) if class_name not in TRANSPARENT else None
        if parts is None:
            return None
        self.used.add(id(like))  # a tensor that wraps others: these are filled
        self._templates.append(("/".join(self.path_of(index)), parts))
        return _Loaded(lambda value: like, Record(class_name, self.entries(index, parts)))

    def record(self, class_name: str, index: int, like: Any) -> Any:
        if class_name == PER_RANK and (own := own_value(self.tree, index, self._whose)) is not None:
            return self._read_own(index, own, like)
        if class_name == TABLE and (table := self._table(index, like)) is not None:
            return table
        if isinstance(like, (Table, Rowset)):
            raise type_error(f"into at '{'/'.join(self.path_of(index))}': expected what a {class_name} is loaded into, "
                             f"found a ckpt.{type(like).__name__}")
        if (given := self._record_for(class_name, index, like)) is not None:
            return given
        if self._jax is not None and self._jax.takes_record(like, class_name, self.find(index, "dtype") is not None):
            self._jax.check_record(like, class_name, self._value(index, "impl") or self._value(index, "dtype"),
                                   "/".join(self.path_of(index)))
            return self.tensor(str(self._value(index, "data")), like)
        if TRANSPARENT.get(class_name) is None and framework_name_of(like) is not None:
            found = f"a {class_name} of {', '.join(map(str, self.entries(index, None))) or 'nothing'}"
            raise error_of(Status.MISMATCH, f"into at '{'/'.join(self.path_of(index))}' has a tensor, and the "
                           f"checkpoint has {found}: give an object of that class (a model that was made so, too)",
                           {"expected": "a tensor", "found": class_name})
        inside, key = items_of(like) if holds_others(like) else like, TRANSPARENT.get(class_name)
        if key is not None and not isinstance(like, Record):
            inside = {key: like}
            if class_name == "builtins.dict" and isinstance(like, Mapping):
                inside = {key: pairs_like(self, index, like)}
            elif class_name == "numpy.ndarray" and framework_name_of(like) == "numpy" and (
                    self.find(index, "dtype") is not None):
                return self._fill_bytes(index, like)
            elif class_name == "torch.Tensor":
                self._torch_dtype = self._value(index, "dtype")
                check_dtype(like, self._torch_dtype)
                self._marks = self._value(index, "conj") is True, self._value(index, "neg") is True
                found = self._value(index, "memory_format")
                self._format = found if isinstance(found, str) else None
        outside, anew = self._framework, class_name == "numpy.ndarray" and is_packed(self._value(index, "dtype")) and (
            self.framework_for(str(self._value(index, "data"))).name == "jax")
        if class_name == "numpy.ndarray" or (class_name.startswith("numpy.") and outside.name == "jax"):
            self._framework = framework_of("numpy")
        try:
            items = self.entries(index, inside)
        finally:
            self._framework, self._marks, self._format = outside, (False, False), None
            self._torch_dtype = None
        if key == "data" and (type(items["data"]) is _Loaded or (id(like) in self.used and items["data"] is like)):
            return items["data"]  # the caller's array, or a new one in its place, whatever record it came from
        made = Record(class_name, items)
        return _Loaded(framework_of("jax").finished, made) if anew else made

    def _fill_bytes(self, index: int, like: Any) -> Any:
        """Fills an array of a dtype that ckpt has no tensors of."""
        said = to_native(self.tree, self.tree.find(index, "dtype"))
        if is_plain(like.dtype) or described(like.dtype) != said:
            raise error_of(Status.MISMATCH, f"into at '{'/'.join(self.path_of(index))}': dtype: expected {said}, "
                           f"found {like.dtype}", {"expected": str(said), "found": str(like.dtype)})
        self._kept.append(bytes_of(like))
        self.entries(index, {"data": self._kept[-1]})
        self.used.add(id(like))
        return like

    def _table(self, index: int, like: Any) -> Table | None:
        """The rows that are asked for; None if this is no checkpoint with such a table."""
        name, reader, request = self._value(index, "data"), self._reader, self._request
        if not isinstance(name, str):
            return None
        if isinstance(request, FileRequest) or isinstance(reader, FileReader):
            return self._table_in_file(name, like) if isinstance(reader, FileReader) else None
        try:
            reader.table(name)
        except NotFoundError:
            return None
        if like is not None and not isinstance(like, (Table, Rowset)):
            raise type_error(f"into at '{'/'.join(self.path_of(index))}': expected a ckpt.Table or ckpt.Rowset, found "
                             f"{type(like).__module__}.{type(like).__qualname__}")
        if like is not None:
            self._read.add(name)
            self.used.add(id(like))
        if isinstance(like, Table):
            fill_rows(request, reader, name, like)
            return like
        with Share(reader, name, like) as share:
            return share.ask(request, framework=self._table_framework)

    def _table_in_file(self, name: str, like: Any) -> Table | None:
        """The rows that are asked for, read at once."""
        assert isinstance(self._reader, FileReader)
        found = next((table for table in self._reader.tables() if table.name == name), None)
        if found is None or isinstance(like, Table):
            return None  # with a TypeError for a Table, which no file fills
        rows = like if isinstance(like, Rowset) else Rowset.all()
        columns = [column.name for column in found.columns] if rows.columns is None else list(rows.columns)
        if like is not None:
            self._read.add(name)
            self.used.add(id(like))
        (table,) = FileShare(self._reader, found, rows, 0).windows(columns, framework=self._table_framework)
        return table

    @property
    def _table_framework(self) -> FrameworkName | None:
        """No tables are jax's."""
        as_saved, name = self._framework is self._default and self._as_saved, self._framework.name
        return None if as_saved else "numpy" if name == "jax" else name

    def find(self, parent: int, key: str | int) -> int | None:
        try:
            return self.tree.find(parent, key)
        except NotFoundError:
            return None

    def _value(self, record: int, key: str) -> Any:
        found = self.find(record, key)
        return None if found is None else self.tree.node(found).value

    def child_of(self, like: Any, key: str | int) -> Any:
        if isinstance(like, Mapping):
            return like.get(key)
        if isinstance(like, (list, tuple)) and isinstance(key, int) and key < len(like):
            return like[key]
        return None

    # ---- after the load ----

    def put_marked(self) -> None:
        """Fills the arrays from their stand-ins."""
        for array, made, marks in self._marked:
            put(array, made, marks)

    def finish(self, value: Any) -> Any:
        of_numpy = {type(array) for array in self._made["jax"].values()}
        return replaced(value, (TreeSet, Record, _Loaded, *of_numpy), self._finish)

    @cached_property
    def _of_jax(self) -> dict[int, Any]:
        """The new arrays of jax, by the ids of those of numpy that were filled."""
        return {id(array): framework_of("jax").finished(array) for array in self._made["jax"].values()}

    def _finish(self, value: Any) -> Any:
        if framework_name_of(value) == "numpy":
            return self._of_jax.get(id(value), value)
        if isinstance(value, _Loaded):
            return value.give(self.finish(value.value))
        if isinstance(value, TreeSet):
            return self._set([self.finish(child) for child in value])
        framework = "torch" if self._as_saved and loaded("torch") is not None else self._default.name
        return restore(Record(value.class_name, self.finish(value.items)), framework)

    def _set(self, elements: list[Any]) -> Any:
        try:
            made = set(elements)
        except TypeError:
            return TreeSet(elements)
        return made if len(made) == len(elements) else TreeSet(elements)
