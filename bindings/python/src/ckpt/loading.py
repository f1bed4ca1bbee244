"""ckpt.load: a whole state, or a part of it, at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ._core import Load, Memory, Reader, Store, Tree
from .adapt import TRANSPARENT, Shard, restore
from .enums import NodeKind, Status
from .errors import Error, error_of
from .frameworks import Framework, FrameworkName, framework_name_of, framework_of, is_array, loaded
from .progress import Progress, finish
from .trees import Record, TreeReader, TreeSet


def load(
    source: str | os.PathLike[str] | Store | Reader,
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
    """Loads the state of a checkpoint, with every byte checked.

    `selector`: "latest", a label, "label:L", "step:N" or an id. `at`: the keys of the place in the state that is
    wanted, ("model",); the rest is not read. `framework`: what tensors become, "numpy" or "torch"; by default what
    `into` holds, else numpy. Tensors that shared memory when they were saved share it again.

    `into`: a state of the same form. Where it has an array (or a Shard), the tensor is read into that one, which is
    also what the result holds; elsewhere new arrays are made. Other values are the checkpoint's. An array of `into`
    that the checkpoint does not have is a NotFoundError, one of another shape or dtype a MismatchError (`convert` lets
    f32, bf16 and f16 be converted), both before a byte changes; after CorruptError or Ctrl-C the arrays' contents are
    undefined.
    """
    chosen = {**(options or {}), **keywords}
    name = framework or _framework_in(into) or "numpy"
    if isinstance(source, Reader):
        return _load_from(source, into, at, framework_of(name), convert, progress, chosen)
    store = source if isinstance(source, Store) else Store(source, chosen)
    with Reader(store, selector, chosen) as reader:
        return _load_from(reader, into, at, framework_of(name), convert, progress, chosen)


def _load_from(reader: Reader, into: Any, at: Sequence[str | int], framework: Framework, convert: bool,
               progress: Progress, options: Mapping[str, int | str]) -> Any:
    with reader.tree() as tree, Load(reader, options) as request:
        root = _descend(tree, at)
        state = _StateReader(reader, tree, request, framework, convert)
        state.collect(root)
        out = state.read(root, into)
        _check_all_found(into, state.used)
        finish(request.start(), "load", progress)
        return state.finish(out)


def _framework_in(into: Any) -> FrameworkName | None:
    """Of the first array in it."""
    for value in _arrays_in(into, set()):
        return framework_name_of(value.data if isinstance(value, Shard) else value)
    return None


def _arrays_in(value: Any, seen: set[int]) -> Any:
    if isinstance(value, Shard) or is_array(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple, Record)) and id(value) not in seen:
        seen.add(id(value))
        children = value if isinstance(value, (list, tuple)) else _items(value).values()
        for child in children:
            yield from _arrays_in(child, seen)


def _items(value: Any) -> Mapping[Any, Any]:
    return value.items if isinstance(value, Record) else value


def _check_all_found(into: Any, used: set[int]) -> None:
    for array in _arrays_in(into, set()):
        if id(array) not in used:
            shape = tuple(array.data.shape if isinstance(array, Shard) else array.shape)
            raise error_of(Status.NOT_FOUND, f"into has an array of shape {shape} where the checkpoint has no tensor: "
                           f"{_where(into, array)}", {"path": _where(into, array)})


def _where(value: Any, wanted: Any) -> str:
    """The path of an array in `into`, for an error."""
    if isinstance(value, (list, tuple)):
        pairs: list[tuple[Any, Any]] = list(enumerate(value))
    else:
        pairs = list(_items(value).items()) if isinstance(value, (Mapping, Record)) else []
    for key, child in pairs:
        if child is wanted:
            return str(key)
        if any(found is wanted for found in _arrays_in(child, set())):
            return f"{key}/{_where(child, wanted)}"
    return ""


def _through_records(tree: Tree, node: int) -> int:
    """The dict in an OrderedDict and such, which has no segment of its own in paths."""
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


class _Pending:
    """A tensor that shares memory with another: it is made of it after the load."""

    def __init__(self, name: str) -> None:
        self.name = name


class _StateReader(TreeReader):
    """Reads a state in two steps: read() asks for all tensors, finish() restores records when they have been read."""

    def __init__(self, reader: Reader, tree: Tree, request: Load, framework: Framework, convert: bool) -> None:
        super().__init__(tree)
        self.used: set[int] = set()
        self._reader, self._request, self._convert = reader, request, convert
        self._framework = framework
        self._default = framework
        self._wanted: set[str] = set()  # names in the part of the tree that is read
        self._made: dict[tuple[str, str], Any] = {}  # by framework and name
        self._memory: dict[object, str] = {}  # arrays of `into` by where they lie

    def collect(self, index: int) -> None:
        node = self.tree.node(index)
        if node.kind == NodeKind.TENSOR:
            self._wanted.add(str(node.value))
        child = node.first_child
        while child is not None:
            self.collect(child)
            child = self.tree.node(child).next_sibling

    # ---- asking ----

    def tensor(self, name: str, like: Any) -> Any:
        if isinstance(like, Shard):
            self.used.add(id(like))
            self._request.add_tensor(name, like.data, shape=like.shape, offset=like.offset,
                                     flat_offset=like.flat_offset, convert=self._convert)
            return like
        if is_array(like):
            self.used.add(id(like))
            return self._into(name, like)
        return self._new(name)

    def _into(self, name: str, array: Any) -> Any:
        memory = Memory.of(array, writable=True)
        layout = (memory.address, memory.dtype, memory.shape, memory.strides)
        first = self._memory.setdefault(layout, name) if memory.nbytes else name
        if first == name:
            self._request.add_tensor(name, memory, convert=self._convert)
        elif self._target(first) != self._target(name):
            raise error_of(Status.MISMATCH, f"into: '{first}' and '{name}' share memory, but are two tensors in the "
                           "checkpoint", {"tensor": name})
        return array

    def _target(self, name: str) -> object:
        """What a tensor's elements are: two with the same are one."""
        info = self._reader.tensor(name)
        if info.alias_of is None:
            strides = [1] * len(info.shape)
            for i in range(len(strides) - 1, 0, -1):
                strides[i - 1] = strides[i] * info.shape[i]
            return name, info.shape, tuple(strides), 0
        view = self._reader.alias(name)
        return info.alias_of, view.shape, view.strides, view.offset

    def _new(self, name: str) -> Any:
        key = (self._framework.name, name)
        if key not in self._made:
            info = self._reader.tensor(name)
            if info.alias_of in self._wanted and info.dtype.bits >= 8:
                base = self._new(str(info.alias_of))
                view = self._reader.alias(name)
                self._made[key] = self._framework.view(base, view.shape, view.strides, view.offset)
            else:
                made = self._framework.empty(name, info.dtype, info.shape)
                self._request.add_tensor(name, made)
                self._made[key] = made
        return self._made[key]

    def record(self, class_name: str, index: int, like: Any) -> Any:
        if class_name in TRANSPARENT and not isinstance(like, Record):
            like = {TRANSPARENT[class_name]: like}
        elif isinstance(like, Record):
            like = like.items
        if class_name == "numpy.ndarray":
            self._framework = framework_of("numpy")
        try:
            return Record(class_name, self.entries(index, like))
        finally:
            self._framework = self._default

    def child_of(self, like: Any, key: str | int) -> Any:
        if isinstance(like, Mapping):
            return like.get(key)
        if isinstance(like, (list, tuple)) and isinstance(key, int) and key < len(like):
            return like[key]
        return None

    # ---- after the load ----

    def finish(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return {key: self.finish(child) for key, child in value.items()}
        if kind is list:
            return [self.finish(child) for child in value]
        if kind is tuple:
            return tuple(self.finish(child) for child in value)
        if kind is TreeSet:
            return self._set([self.finish(child) for child in value])
        if kind is Record:
            return self._restore(Record(value.class_name, self.finish(value.items)))
        return value

    def _set(self, elements: list[Any]) -> Any:
        try:
            made = set(elements)
        except TypeError:
            return TreeSet(elements)
        return made if len(made) == len(elements) else TreeSet(elements)

    def _restore(self, record: Record) -> Any:
        torch = loaded("torch")
        data = record.items.get("data")
        if id(data) in self.used and torch is not None and isinstance(data, torch.nn.Parameter):
            return data  # the caller's own
        return restore(record, self._default.name)
