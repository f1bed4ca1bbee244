"""ckpt.load: loads a whole state, or a subtree of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from . import _core
from ._core import Load, Memory, NewArrays, OwnArrays, Tree, replaced, tensor_names
from .adapt import TRANSPARENT, Marks, Shard, is_value, marks_of, put, restore, stand_in, without_marks
from .enums import NodeKind, Status
from .errors import Error, MissingWarning, NotFoundError, error_of, warn
from .frameworks import Framework, FrameworkName, framework_name_of, framework_of, is_array, is_whole
from .hints import some
from .progress import Progress, finish
from .records import TensorInfo
from .sources import FileReader, FileRequest, Source, open_source
from .trees import Record, TreeReader, TreeSet


def load(
    source: Source,
    selector: str = "latest",
    *,
    into: Any = None,
    at: Sequence[str | int] = (),
    framework: FrameworkName | None = None,
    convert: bool = False,
    progress: Progress = None,
    options: Mapping[str, int | str] | None = None,
    **keywords: int | str,
) -> Any:
    """Loads the state of a checkpoint and checks every byte.

    `source`: the path of a store, a Store or a Reader; or the directory of one checkpoint in a store; or a file that
    PyTorch or safetensors wrote (or a directory of those), of which no code is run.

    `selector`: "latest", a label, "label:L", "step:N" or an id. PassedOverWarning names newer checkpoints that cannot
    be loaded; with on_damaged="error" that is an error. `at`: the keys that lead to a subtree, ("model",); only
    that is read and returned. `framework`: what new tensors are, "numpy" or "torch"; by default as in `into`, else
    numpy. Tensors that shared memory when they were saved share it again.

    `into`: a state of the same form as the result. Its arrays and Shards are filled and put into the result; where it
    has none, new arrays are made. All other values come from the checkpoint. Before any array changes come
    NotFoundError for an array of `into` that the checkpoint lacks, MismatchError for one of another shape or dtype
    (`convert` allows conversion between f32, bf16 and f16), and TypeError if `into` has something that cannot hold
    tensors (a module instead of its state_dict()) where the checkpoint has some. After CorruptError or Ctrl-C the
    contents of the arrays are undefined.

    Option `strict`: "none" leaves arrays of `into` unchanged that the checkpoint lacks, and MissingWarning names them;
    "exact" also raises MismatchError for a tensor of the checkpoint that `into` has no array for, or that lies outside
    of `at`.
    """
    chosen = {**(options or {}), **keywords}
    name = framework or _framework_in(into) or "numpy"
    reader = open_source(source, selector, chosen)
    try:
        return _load_from(reader, into, at, framework_of(name), convert, progress, chosen)
    finally:
        if reader is not source:
            reader.close()


def _load_from(reader: _core.Reader | FileReader, into: Any, at: Sequence[str | int], framework: Framework,
               convert: bool, progress: Progress, options: Mapping[str, int | str]) -> Any:
    strict = options.get("strict", "missing")
    if strict in ("none", "exact"):  # checked here: the engine does not see aliases, which are made and not read
        options = {**options, "strict": "missing"}
    with reader.tree() as tree, _request_of(reader, options) as request:
        root = _descend(tree, at)
        state = _StateReader(reader, tree, root, request, framework, convert)
        out = state.read(root, into)
        state.add_arrays()
        if strict == "exact":
            state.check_all_read(into is not None)
        missing = _not_found(into, state.used)
        if missing and strict != "none":
            raise _missing_error(missing)
        if isinstance(request, Load):
            finish(request.start(), "load", progress)
        else:
            request.run()
        state.put_marked()
        if missing:
            _warn_missing(reader, [path for path, _ in missing])
        return state.finish(out)


@contextmanager
def _request_of(reader: _core.Reader | FileReader,
                options: Mapping[str, int | str]) -> Iterator[Load | FileRequest]:
    if isinstance(reader, FileReader):
        yield FileRequest(reader)
        return
    with Load(reader, options) as request:
        yield request


def _framework_in(into: Any) -> FrameworkName | None:
    """The framework of the first array in it."""
    for _, value in _arrays_in(into, "", set()):
        return framework_name_of(value.data if isinstance(value, Shard) else value)
    return None


def _arrays_in(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """All arrays and Shards in it, each with its path, for an error."""
    if isinstance(value, Shard) or is_array(value):
        yield path, value
    elif isinstance(value, (Mapping, list, tuple, Record)) and id(value) not in seen:
        seen.add(id(value))
        pairs = enumerate(value) if isinstance(value, (list, tuple)) else _items(value).items()
        for key, child in pairs:
            yield from _arrays_in(child, f"{path}/{key}" if path else str(key), seen)


def _not_found(into: Any, used: set[int]) -> list[tuple[str, Any]]:
    return [(path, array) for path, array in _arrays_in(into, "", set()) if id(array) not in used]


def _missing_error(missing: list[tuple[str, Any]]) -> Error:
    path, array = missing[0]
    shape = tuple(array.data.shape if isinstance(array, Shard) else array.shape)
    more = f", and {len(missing) - 1} more such arrays" if len(missing) > 1 else ""
    return error_of(Status.NOT_FOUND, f"into has an array of shape {shape} where the checkpoint has no tensor: {path}"
                    f"{more}; strict=\"none\" leaves such arrays unchanged", {"path": path})


def _warn_missing(reader: _core.Reader | FileReader, paths: list[str]) -> None:
    checkpoint = reader.path if isinstance(reader, FileReader) else reader.info.id
    warning = MissingWarning(f"{checkpoint} has no tensors for {len(paths)} arrays of into, which are unchanged: "
                             f"{some(paths)}")
    warning.missing = tuple(paths)
    warn(warning)


def _items(value: Any) -> Mapping[Any, Any]:
    return value.items if isinstance(value, Record) else value


def _through_records(tree: Tree, node: int) -> int:
    """The dict inside an OrderedDict or the like, which adds nothing to paths."""
    found = tree.node(node)
    while found.kind == NodeKind.RECORD and str(found.value) in TRANSPARENT:
        node = tree.find(node, TRANSPARENT[str(found.value)])
        found = tree.node(node)
    return node


def _descend(tree: Tree, at: Sequence[str | int]) -> int:
    node = 0
    for depth, key in enumerate(at):
        try:
            node = tree.find(_through_records(tree, node), key)
        except Error as error:
            path = "/".join(str(step) for step in at[:depth + 1])
            raise error_of(Status.NOT_FOUND, f"the state has nothing at '{path}'", {"path": path}) from error
    return node


def _may_hold(like: Any, kind: NodeKind) -> bool:
    """Whether `like` may stand in `into` where the checkpoint has a node of this kind."""
    if isinstance(like, (Mapping, list, tuple, Record, Shard)) or is_array(like):
        return True
    if kind == NodeKind.SET:
        return isinstance(like, (set, frozenset))
    if kind == NodeKind.RECORD:
        return is_value(like)
    return kind not in (NodeKind.TENSOR, NodeKind.DICT, NodeKind.LIST, NodeKind.TUPLE)


class _StateReader(TreeReader):
    """Reads a state in two steps: read() asks for all tensors; finish() restores the records once these are loaded."""

    def __init__(self, reader: _core.Reader | FileReader, tree: Tree, root: int, request: Load | FileRequest,
                 framework: Framework, convert: bool) -> None:
        super().__init__(tree)
        self.used: set[int] = set()
        self._root = root
        self._reader, self._request, self._convert = reader, request, convert
        self._framework = framework
        self._default = framework
        self._read: set[str] = set()  # names of tensors that are read into arrays of `into`
        self._hidden: dict[str, int] | None = None
        self._format: str | None = None  # of the memory of the current tensor in torch
        self._made: dict[str, dict[str, Any]] = {"numpy": {}, "torch": {}}  # by name
        self._arrays: dict[str, NewArrays] = {}  # by framework
        self._memory: dict[object, tuple[str, Marks]] = {}  # names of arrays of `into`, by where these lie
        self._marks: Marks = (False, False)  # that the current tensor has in the checkpoint
        self._marked: list[tuple[Any, Any, Marks]] = []  # array of `into`, its stand-in, saved marks
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
        for tensor in self._reader.tensors():
            if tensor.name not in (self._read if into else self._wanted) and tensor.name in self._named:
                where = "has no array for it" if tensor.name in self._wanted else "is not where it lies (at)"
                raise error_of(Status.MISMATCH, f"tensor '{tensor.name}' is in the checkpoint, but into {where} "
                               "(strict=exact)", {"tensor": tensor.name})

    # ---- asking ----

    def read(self, index: int = 0, like: Any = None) -> Any:
        if like is not None and not _may_hold(like, self.tree.node(index).kind):
            path = "/".join(self._path(index))
            kind = type(like)
            hint = "; give its state_dict()" if hasattr(like, "state_dict") else ""
            raise TypeError(f"into{path and f' at {path!r}'}: expected an array, ckpt.Shard, dict, list, tuple or "
                            f"ckpt.Record, found {kind.__module__}.{kind.__qualname__}{hint}")
        return super().read(index, like)

    def _path(self, index: int) -> list[str]:
        """The path from the root of the load, for an error."""
        node = self.tree.node(index)
        if index == self._root or node.parent is None:
            return []
        parent = self.tree.node(node.parent)
        if parent.kind == NodeKind.RECORD and TRANSPARENT.get(str(parent.value)) == node.key:
            return self._path(node.parent)
        place, child = 0, parent.first_child
        while child is not None and child != index:
            place, child = place + 1, self.tree.node(child).next_sibling
        return [*self._path(node.parent), str(place if node.key is None else node.key)]

    def tensor(self, name: str, like: Any) -> Any:
        if not isinstance(like, Shard) and not is_array(like):
            return self._new(name)
        self.used.add(id(like))
        self._read.add(name)
        try:
            if isinstance(like, Shard):
                data = self._readable(like.data, Memory.of(without_marks(like.data), writable=True))
                self._request.add_tensor(name, data, shape=like.shape, offset=like.offset,
                                         flat_offset=like.flat_offset, convert=self._convert)
            else:
                self._into(name, like)
        except Error as error:
            if "tensor" not in error.details:
                error._name_tensor(name)
            raise
        return like

    def _into(self, name: str, array: Any) -> None:
        memory = Memory.of(without_marks(array), writable=True)
        layout = (memory.address, memory.dtype, memory.shape, memory.strides)
        means = name, self._turned(array)
        first, turned = self._memory.setdefault(layout, means) if memory.nbytes else means
        if first == name:
            self._request.add_tensor(name, self._readable(array, memory), convert=self._convert)
        elif turned != means[1] or self._target(first) != self._target(name):
            raise error_of(Status.MISMATCH, f"into: '{first}' and '{name}' share memory, but are two tensors in the "
                           "checkpoint", {"tensor": name})

    def _turned(self, array: Any) -> Marks:
        """In which marks the array and the saved tensor differ."""
        own = marks_of(array)
        return own[0] != self._marks[0], own[1] != self._marks[1]

    def _readable(self, array: Any, memory: Memory) -> Any:
        """What a tensor is read into: the array's memory, or a stand-in if their marks differ."""
        if not any(self._turned(array)):
            return memory if isinstance(self._request, Load) else without_marks(array)
        if framework_name_of(array) is None:
            raise error_of(Status.UNSUPPORTED, "the saved numbers are to be conjugated or negated: expected an array "
                           f"of torch or numpy, found {type(array).__name__}", {"found": type(array).__name__})
        made = stand_in(array)
        self._marked.append((array, made, self._marks))
        return made

    def _target(self, name: str) -> object:
        """Identifies the elements of a tensor; names with equal targets are one tensor."""
        info = self._reader.tensor(name)
        if info.alias_of is None:
            strides = [1] * len(info.shape)
            for i in range(len(strides) - 1, 0, -1):
                strides[i - 1] = strides[i] * info.shape[i]
            return name, info.shape, tuple(strides), 0
        view = self._reader.alias(name)
        return info.alias_of, view.shape, view.strides, view.offset

    def _new(self, name: str) -> Any:
        arrays = self._made[self._framework.name]
        if name not in arrays:
            info = self._reader.tensor(name)
            made = self._new_view(info)
            if made is None:
                made = self._framework.empty(name, info.dtype, info.shape, self._format)
                self._request.add_tensor(name, made)
            arrays[name] = made
        return arrays[name]

    @property
    def arrays(self) -> NewArrays | None:
        request, reader, name = self._request, self._reader, self._framework.name
        if isinstance(request, FileRequest) or isinstance(reader, FileReader) or self._format is not None:
            return None
        if name not in self._arrays:
            self._arrays[name] = NewArrays(request, reader, self._framework, self._made[name])
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

    def _new_view(self, info: TensorInfo) -> Any:
        """A view of another new array, if the tensor is an alias of one that is read too; else None."""
        target = info.alias_of
        if target is None or info.dtype.bits < 8 or not (target in self._wanted or self._is_shared(target)):
            return None
        view = self._reader.alias(info.name)
        saved, own = self._format, is_whole(view.shape, view.strides, view.offset)
        self._format = saved if own and self._reader.tensor(target).shape == view.shape else None
        try:
            return self._framework.view(self._new(target), view.shape, view.strides, view.offset)
        finally:
            self._format = saved

    def _is_shared(self, target: str) -> bool:
        """Whether it is memory without a name in the tree that several of the wanted tensors have in common."""
        if self._hidden is None:
            aliases = [self._reader.tensor(name).alias_of for name in self._wanted]
            self._hidden = Counter(name for name in aliases if name is not None and name not in self._named)
        return self._hidden.get(target, 0) > 1

    def record(self, class_name: str, index: int, like: Any) -> Any:
        inside, key = _items(like), TRANSPARENT.get(class_name)
        if key is not None and not isinstance(like, Record):
            inside = {key: like}
            if class_name == "builtins.dict" and isinstance(like, Mapping):
                inside = {key: self._pairs(index, like)}
            elif class_name == "torch.Tensor":
                self._marks = self._value(index, "conj") is True, self._value(index, "neg") is True
                found = self._value(index, "memory_format")
                self._format = found if isinstance(found, str) else None
        if class_name == "numpy.ndarray":
            self._framework = framework_of("numpy")
        try:
            items = self.entries(index, inside)
        finally:
            self._framework, self._marks, self._format = self._default, (False, False), None
        if key == "data" and id(like) in self.used and items.get("data") is like:
            return like  # the caller's array, whatever record it came from
        return Record(class_name, items)

    def _find(self, parent: int, key: str | int) -> int | None:
        try:
            return self.tree.find(parent, key)
        except NotFoundError:
            return None

    def _value(self, record: int, key: str) -> Any:
        found = self._find(record, key)
        return None if found is None else self.tree.node(found).value

    def _pairs(self, record: int, like: Mapping[Any, Any]) -> list[tuple[None, Any]]:
        """The values of `like` as pairs, in the order in which the record has their keys."""
        out: list[tuple[None, Any]] = []
        items = self._find(record, "items")
        pair = None if items is None else self.tree.node(items).first_child
        while pair is not None:
            try:
                out.append((None, like.get(self.finish(self.read(self.tree.find(pair, 0))))))
            except (NotFoundError, TypeError):  # not a pair, or not a key
                out.append((None, None))
            pair = self.tree.node(pair).next_sibling
        return out

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
        return replaced(value, (TreeSet, Record), self._finish)

    def _finish(self, value: Any) -> Any:
        if isinstance(value, TreeSet):
            return self._set([self.finish(child) for child in value])
        return restore(Record(value.class_name, self.finish(value.items)), self._default.name)

    def _set(self, elements: list[Any]) -> Any:
        try:
            made = set(elements)
        except TypeError:
            return TreeSet(elements)
        return made if len(made) == len(elements) else TreeSet(elements)
