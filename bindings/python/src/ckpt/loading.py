"""ckpt.load: loads a whole state, or a subtree of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._core import Load, Memory, Reader, Store, Tree
from .adapt import (TRANSPARENT, Marks, is_quantized, is_value, marks_of, parts_of, put, regions_of, restore, stand_in,
                    without_marks)
from .enums import NodeKind, Status
from .errors import Error, NotFoundError, error_of
from .frameworks import SAVED_AS, Framework, FrameworkName, framework_name_of, framework_of, is_array, saved_framework
from .objects import is_object, rebuild, template_of
from .progress import Progress, finish
from .regions import Regions, Shard
from .saved import SavedNode, through_records
from .stateful import OnlyThese, StateObject, templates_of
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
    """Loads the state of a checkpoint and checks every byte.

    `selector`: "latest", a label, "label:L", "step:N" or an id. PassedOverWarning names newer checkpoints that cannot
    be loaded; with on_damaged="error" that is an error. `at`: the keys that lead to a subtree, ("model",); only
    that is read and returned. `framework`: what new tensors are, "numpy" or "torch"; by default as in `into`, else
    as they were saved. Tensors that shared memory when they were saved share it again.

    `into`: a state of the same form as the result. Its arrays and Shards are filled and put into the result; where it
    has none, new arrays are made. Its objects with load_state_dict() (modules, optimizers, schedulers) take their
    states, and read nothing that they have no place for. All other values come from the checkpoint. Before any array
    changes come NotFoundError for an array or object of `into` that the checkpoint lacks, MismatchError for an array of
    another shape or dtype (`convert` allows conversion between f32, bf16 and f16), and TypeError if `into` has
    something that cannot hold tensors where the checkpoint has some. After CorruptError or Ctrl-C the
    contents of the arrays are undefined.

    Option `strict`: "none" leaves arrays of `into` unchanged that the checkpoint lacks; "exact" raises MismatchError if
    the checkpoint has tensors outside of `at`, or something that an object of `into` has no place for.
    """
    chosen = {**(options or {}), **keywords}
    objects = templates_of(into)
    name = framework or _framework_in(into, objects)
    if isinstance(source, Reader):
        return _load_from(source, into, objects, at, name, convert, progress, chosen)
    store = source if isinstance(source, Store) else Store(source, chosen)
    with Reader(store, selector, chosen) as reader:
        return _load_from(reader, into, objects, at, name, convert, progress, chosen)


def _load_from(reader: Reader, into: Any, objects: Mapping[int, StateObject], at: Sequence[str | int],
               framework: FrameworkName | None, convert: bool, progress: Progress,
               options: Mapping[str, int | str]) -> Any:
    strict = options.get("strict", "missing")
    if strict in ("none", "exact"):  # checked here: the engine does not see aliases, which are made and not read
        options = {**options, "strict": "missing"}
    with reader.tree() as tree, Load(reader, options) as request:
        root = _descend(tree, at)
        state = _StateReader(reader, tree, root, request, framework, convert, objects, strict == "exact")
        if strict == "exact":
            state.check_all_wanted()
        out = state.read(root, into)
        if strict != "none":
            for wanted in (into, *state.templates):
                _check_all_found(wanted, state.used, objects)
        finish(request.start(), "load", progress)
        state.put_marked()
        return state.finish(out)


def _framework_in(into: Any, objects: Mapping[int, StateObject]) -> FrameworkName | None:
    """The framework of the first array in it, or of its objects."""
    if any(base.__module__.startswith("torch.") for found in objects.values() for base in type(found.object).__mro__):
        return "torch"
    for value in _arrays_in(into, set()):
        return framework_name_of(value.data if isinstance(value, Shard) else value)
    return None


def _arrays_in(value: Any, seen: set[int]) -> Any:
    if isinstance(value, (Shard, Regions)) or is_array(value):
        yield value
    elif _is_container(value) and id(value) not in seen:
        seen.add(id(value))
        children = value if isinstance(value, (list, tuple)) else _items(value).values()
        for child in children:
            yield from _arrays_in(child, seen)


def _is_container(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple, Record)) or is_object(value)


def _items(value: Any) -> Mapping[Any, Any]:
    if is_object(value):
        return template_of(value)
    return value.items if isinstance(value, Record) else value


def _shape_of(array: Any) -> tuple[int, ...]:
    if isinstance(array, Regions):
        return array.shards[0].shape if array.shards else ()
    return tuple(array.data.shape if isinstance(array, Shard) else array.shape)


def _check_all_found(into: Any, used: set[int], objects: Mapping[int, StateObject]) -> None:
    for found in objects.values():
        if id(found.object) not in used:
            kind = f"{type(found.object).__module__}.{type(found.object).__qualname__}"
            raise error_of(Status.NOT_FOUND, f"into has a {kind} where the checkpoint has nothing", {"found": kind})
    for array in _arrays_in(into, set()):
        if id(array) not in used:
            shape = _shape_of(array)
            raise error_of(Status.NOT_FOUND, f"into has an array of shape {shape} where the checkpoint has no tensor: "
                           f"{_where(into, array)}", {"path": _where(into, array)})


def _where(value: Any, wanted: Any) -> str:
    """The path of an array in `into`, for an error."""
    if isinstance(value, (list, tuple)):
        pairs: list[tuple[Any, Any]] = list(enumerate(value))
    else:
        pairs = list(_items(value).items()) if _is_container(value) else []
    for key, child in pairs:
        if child is wanted:
            return str(key)
        if any(found is wanted for found in _arrays_in(child, set())):
            return f"{key}/{_where(child, wanted)}"
    return ""


def _descend(tree: Tree, at: Sequence[str | int]) -> int:
    node = 0
    for depth, key in enumerate(at):
        try:
            node = tree.find(through_records(tree, node), key)
        except Error as error:
            path = "/".join(str(step) for step in at[:depth + 1])
            raise error_of(Status.NOT_FOUND, f"the state has nothing at '{path}'", {"path": path}) from error
    return node


def _may_hold(like: Any, kind: NodeKind) -> bool:
    """Whether `like` may stand in `into` where the checkpoint has a node of this kind."""
    if isinstance(like, (Mapping, list, tuple, Record, Shard, Regions)) or is_array(like):
        return True
    if kind == NodeKind.SET:
        return isinstance(like, (set, frozenset))
    if kind == NodeKind.RECORD:
        return is_value(like)
    return kind not in (NodeKind.TENSOR, NodeKind.DICT, NodeKind.LIST, NodeKind.TUPLE)


class _Loaded:
    """What was loaded for an object of the caller: finished, it is given to that object."""

    def __init__(self, give: Callable[[Any], Any], value: Any) -> None:
        self.give, self.value = give, value


class _StateReader(TreeReader):
    """Reads a state in two steps: read() asks for all tensors; finish() restores the records once these are loaded."""

    def __init__(self, reader: Reader, tree: Tree, root: int, request: Load, framework: FrameworkName | None,
                 convert: bool, objects: Mapping[int, StateObject], exact: bool) -> None:
        super().__init__(tree)
        self.used: set[int] = set()
        self.templates: list[Any] = []  # that stand for objects of `into`
        self._objects, self._exact = objects, exact
        self._root = root
        self._reader, self._request, self._convert = reader, request, convert
        saved_as = None if framework is not None else reader.attr(SAVED_AS)
        self._mixed = saved_as == "mixed"
        self._framework = self._default = framework_of(framework or saved_framework(saved_as))
        self._wanted: set[str] = set()  # names of tensors in the subtree
        self._made: dict[tuple[str, str], Any] = {}  # by framework and name
        self._memory: dict[object, tuple[str, Marks]] = {}  # names of arrays of `into`, by where these lie
        self._marks: Marks = (False, False)  # that the current tensor has in the checkpoint
        self._marked: list[tuple[Any, Any, Marks]] = []  # array of `into`, its stand-in, saved marks
        self._collect(root)

    def check_all_wanted(self) -> None:
        """For strict="exact"."""
        for tensor in self._reader.tensors():
            if tensor.name not in self._wanted:
                raise error_of(Status.MISMATCH, f"tensor '{tensor.name}' is in the checkpoint but outside of what is "
                               "read (strict=exact)", {"tensor": tensor.name})

    def _collect(self, index: int) -> None:
        node = self.tree.node(index)
        if node.kind == NodeKind.TENSOR:
            self._wanted.add(str(node.value))
        child = node.first_child
        while child is not None:
            self._collect(child)
            child = self.tree.node(child).next_sibling

    # ---- asking ----

    def read(self, index: int = 0, like: Any = None) -> Any:
        if (found := self._objects.get(id(like))) is not None:
            return self._object(index, found)
        if like is not None and not _may_hold(like, self.tree.node(index).kind):
            path = "/".join(self._path(index))
            kind = type(like)
            raise TypeError(f"into{path and f' at {path!r}'}: expected an array, ckpt.Shard, dict, list, tuple or "
                            f"ckpt.Record, found {kind.__module__}.{kind.__qualname__}")
        return super().read(index, like)

    def _object(self, index: int, found: StateObject) -> Any:
        """An object with a state: its template is filled, and it takes the result."""
        self.used.add(id(found.object))
        template = found.template(SavedNode(self._reader, self.tree, self._framework, index))
        self.templates.append(template)

        def give(value: Any) -> Any:
            found.apply(value)
            return found.object

        return _Loaded(give, self.read(index, template))

    def wants(self, like: Any, key: str | int) -> bool:
        if not isinstance(like, OnlyThese) or key in like:
            return True
        if self._exact:
            raise error_of(Status.MISMATCH, f"'{key}' is in the checkpoint, but not in the object that is loaded "
                           "(strict=exact)", {"found": str(key)})
        return False

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
        shards = regions_of(like)
        if shards is None and not is_array(like):
            return self._new(name)
        self.used.add(id(like))
        try:
            for shard in shards or ():
                data = self._readable(shard.data, Memory.of(without_marks(shard.data), writable=True))
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
            return memory
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

    def _framework_of(self, name: str) -> Framework:
        """The framework of a new array."""
        if self._mixed and self._framework is self._default:
            return framework_of(saved_framework(self._reader.attr(SAVED_AS, name)))
        return self._framework

    def _new(self, name: str) -> Any:
        framework = self._framework_of(name)
        key = (framework.name, name)
        if key not in self._made:
            info = self._reader.tensor(name)
            if info.alias_of in self._wanted and info.dtype.bits >= 8:
                base = self._new(str(info.alias_of))
                view = self._reader.alias(name)
                self._made[key] = framework.view(base, view.shape, view.strides, view.offset)
            else:
                made = framework.empty(name, info.dtype, info.shape)
                self._request.add_tensor(name, made)
                self._made[key] = made
        return self._made[key]

    def record(self, class_name: str, index: int, like: Any) -> Any:
        if is_object(like):
            record = Record(class_name, self.entries(index, template_of(like)))
            return _Loaded(lambda value: rebuild(like, value), record)
        inside, key = _items(like), TRANSPARENT.get(class_name)
        if is_quantized(like):
            self.used.add(id(like))
            record = Record(class_name, self.entries(index, None))
            return _Loaded(lambda value: like.copy_(restore(value, "torch")), record)
        if key is None and (parts := parts_of(like)) is not None:  # a tensor that wraps others: these are filled
            self.used.add(id(like))
            return _Loaded(lambda value: like, Record(class_name, self.entries(index, parts)))
        if key is not None and not isinstance(like, Record):
            inside = {key: like}
            if class_name == "builtins.dict" and isinstance(like, Mapping):
                inside = {key: self._pairs(index, like)}
            elif class_name == "torch.Tensor":
                self._marks = self._value(index, "conj") is True, self._value(index, "neg") is True
        if class_name == "numpy.ndarray":
            self._framework = framework_of("numpy")
        try:
            items = self.entries(index, inside)
        finally:
            self._framework, self._marks = self._default, (False, False)
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
        kind = type(value)
        if kind is _Loaded:
            return value.give(self.finish(value.value))
        if kind is dict:
            return {key: self.finish(child) for key, child in value.items()}
        if kind is list:
            return [self.finish(child) for child in value]
        if kind is tuple:
            return tuple(self.finish(child) for child in value)
        if kind is TreeSet:
            return self._set([self.finish(child) for child in value])
        if kind is Record:
            return restore(Record(value.class_name, self.finish(value.items)), self._default.name)
        return value

    def _set(self, elements: list[Any]) -> Any:
        try:
            made = set(elements)
        except TypeError:
            return TreeSet(elements)
        return made if len(made) == len(elements) else TreeSet(elements)
