"""Turns state trees into Python values and back without loss: ckpt.to_native and ckpt.from_native.

Three classes stand for what Python has no type for: Record (an object of some class), TreeSet (the elements of a set in
their order; they may repeat and need not be hashable) and TensorName (the name of a tensor in the checkpoint).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ._core import Tree
from .enums import NodeKind
from .errors import InvalidError

_INT64 = range(-(2**63), 2**63)


@dataclass
class Record:
    """An object of a class, kept by name ("torch.Size") with its items by text keys. It is saved as it was loaded."""

    class_name: str
    items: dict[str, Any] = field(default_factory=dict)


class TreeSet(list[Any]):
    """The elements of a set in the order of the tree."""

    def __repr__(self) -> str:
        return f"TreeSet({super().__repr__()})"


_CONTAINERS = (dict, list, tuple, set, frozenset, Record)


@dataclass(frozen=True)
class TensorName:
    """A tensor as a leaf, by its name in the checkpoint; None: it is named by its path in the tree."""

    name: str | None = None


def from_native(value: Any) -> Tree:
    """A finished tree of None, bool, int, float, str, bytes, list, tuple, TreeSet, dict, Record and TensorName, nested
    in any way. Any other value is a TypeError that names its path."""
    writer = TreeWriter()
    writer.write(value)
    return writer.tree


def to_native(tree: Tree, node: int = 0) -> Any:
    """The value of a tree, or of one of its nodes: the inverse of from_native."""
    return TreeReader(tree).read(node)


# ---- writing ----


def escape(key: str) -> str:
    """A text key as a segment of a path: schemas/STATE_TREE.md section 4."""
    if key in ("", ".", ".."):
        return {"": "~e", ".": "~d", "..": "~d~d"}[key]
    digits = key[1:] if key.startswith("-") else key
    integer = key == "0" or (digits.isascii() and digits.isdigit() and digits[0] != "0")
    out = key.replace("~", "~0").replace("/", "~1")
    out = "".join(f"~x{ord(c):02X}" if ord(c) < 0x20 or ord(c) == 0x7F else c for c in out)
    return "~s" + out if integer else out


def place(path: tuple[str, ...]) -> str:
    """A path in an error message."""
    return f"state at '{'/'.join(path)}'" if path else "state"


class TreeWriter:
    """Writes one value as a tree; subclasses override other() to accept more types."""

    # By class: the key of a record that adds no segment to paths, as in `ckpt import`. Of others it is
    # `data`, if that is a tensor.
    _transparent: dict[str, str] = {}

    def __init__(self) -> None:
        self.tree = Tree()

    def write(self, value: Any, path: tuple[str, ...] = ()) -> None:
        tree, kind = self.tree, type(value)
        if value is None:
            tree.add_null()
        elif kind is bool:
            tree.add_bool(value)
        elif kind is int:
            tree.add_int(value)
        elif kind is float:
            tree.add_float(value)
        elif kind is str:
            self._text(value, path)
        elif kind is bytes:
            tree.add_bytes(value)
        elif kind is list:
            self._items(NodeKind.LIST, value, path)
        elif kind is tuple:
            self._items(NodeKind.TUPLE, value, path)
        elif kind is TreeSet:
            self._items(NodeKind.SET, value, path)
        elif kind is dict:
            self._dict(value, path)
        elif kind is Record:
            self._record(value, path)
        elif kind is TensorName:
            tree.add_tensor(value.name)
        else:
            self.other(value, path)

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        kind = type(value)
        raise TypeError(f"{place(path)}: a value of type {kind.__module__}.{kind.__qualname__} cannot be saved")

    def odd_dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> None:
        raise TypeError(f"{place(path)}: keys of a dict are str or int from -2**63 to 2**63-1")

    def _text(self, value: str, path: tuple[str, ...]) -> None:
        try:
            self.tree.add_text(value)
        except InvalidError as error:
            error._name_place(place(path))
            raise

    def _key(self, key: str | int, path: tuple[str, ...]) -> None:
        try:
            self.tree.key(key)
        except InvalidError as error:
            error._name_place(place(path))
            raise

    def _items(self, kind: NodeKind, items: Iterable[Any], path: tuple[str, ...]) -> None:
        self.tree.begin(kind)
        for index, item in enumerate(items):
            self.write(item, (*path, str(index)))
        self.tree.end()

    def _dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> None:
        if not all(type(key) is str or (type(key) is int and key in _INT64) for key in value):
            self.odd_dict(value, path)
            return
        self.tree.begin(NodeKind.DICT)
        for key, item in value.items():
            self._key(key, path)
            self.write(item, (*path, escape(key) if type(key) is str else str(key)))
        self.tree.end()

    def _record(self, value: Record, path: tuple[str, ...]) -> None:
        self.tree.begin(NodeKind.RECORD, value.class_name)
        transparent = self._transparent.get(value.class_name)
        for key, item in value.items.items():
            self._key(key, path)
            tensor = transparent is None and key == "data" and not isinstance(item, _CONTAINERS)
            self.write(item, path if tensor or key == transparent else (*path, escape(key)))
        self.tree.end()


# ---- reading ----


class TreeReader:
    """Reads one value of a tree; subclasses turn tensors, records and sets into other values.

    `like` is what the caller's own value has at the same place, or None; see child_of.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def read(self, index: int = 0, like: Any = None) -> Any:
        node = self.tree.node(index)
        kind = node.kind
        if kind == NodeKind.TENSOR:
            return self.tensor(str(node.value), like)
        if kind == NodeKind.RECORD:
            return self.record(str(node.value), index, like)
        if kind == NodeKind.DICT:
            return self.entries(index, like)
        if kind == NodeKind.LIST:
            return self.elements(index, like)
        if kind == NodeKind.TUPLE:
            return tuple(self.elements(index, like))
        if kind == NodeKind.SET:
            return self.set(self.elements(index, like))
        return node.value

    def tensor(self, name: str, like: Any) -> Any:
        return TensorName(name)

    def record(self, class_name: str, index: int, like: Any) -> Any:
        return Record(class_name, self.entries(index, like))

    def set(self, elements: list[Any]) -> Any:
        return TreeSet(elements)

    def child_of(self, like: Any, key: str | int) -> Any:
        return None

    def wants(self, like: Any, key: str | int) -> bool:
        return True

    def entries(self, index: int, like: Any) -> dict[Any, Any]:
        out = {}
        child = self.tree.node(index).first_child
        while child is not None:
            node = self.tree.node(child)
            assert node.key is not None
            if self.wants(like, node.key):
                out[node.key] = self.read(child, self.child_of(like, node.key))
            child = node.next_sibling
        return out

    def elements(self, index: int, like: Any) -> list[Any]:
        out: list[Any] = []
        child = self.tree.node(index).first_child
        while child is not None:
            out.append(self.read(child, self.child_of(like, len(out))))
            child = self.tree.node(child).next_sibling
        return out
