"""Turns state trees into Python values and back without loss: ckpt.to_native and ckpt.from_native.

Three classes stand for what Python has no type for: Record (an object of some class), TreeSet (the elements of a set in
their order; they may repeat and need not be hashable) and TensorName (the name of a tensor in the checkpoint).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._core import Memory, NewArrays, OwnArrays, Tree, read_entries, read_value, write_value
from .errors import InvalidError, error_of, type_error


@dataclass
class Record:
    """An object of a class, kept by name ("torch.Size") with its items by text keys. It is saved as it was loaded."""

    class_name: str
    items: dict[str, Any] = field(default_factory=dict)


class TreeSet(list[Any]):
    """The elements of a set in the order of the tree."""

    def __repr__(self) -> str:
        return f"TreeSet({super().__repr__()})"


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


def place(path: tuple[str, ...]) -> str:
    """A path in an error message."""
    return f"state at '{'/'.join(path)}'" if path else "state"


class TreeWriter:
    """Writes one value as a tree; subclasses override other() to accept more types. The walk is core/tree_write.cpp."""

    # By class: the key of a record that adds no segment to paths, as in `ckpt import`. Of others it is
    # `data`, if that is a tensor.
    _transparent: dict[str, str] = {}

    # Where plain arrays of numpy and torch go; None: other() is asked for these, too.
    tensors: dict[str, Memory] | None = None

    def __init__(self) -> None:
        self.tree = Tree()
        self.names: set[str] = set()
        """Of the tensors, whatever became of them."""
        self.of_torch = False
        """Whether any of the tensors is torch's."""
        self.others: list[str] = []
        """The names of tensors that are not."""

    def write(self, value: Any, path: tuple[str, ...] = ()) -> None:
        try:
            write_value(self, value, path)
        except InvalidError as error:
            if error.message.endswith("lone surrogate"):
                raise error_of(error.status, error.message + "; give bytes: .encode('utf-8', 'surrogatepass')",
                               error.details) from None
            circle = _circle(value, (), (), set()) if not path and " levels" in error.message else None
            if circle is None:
                raise
            raise error_of(error.status, f"{place(circle)}: a value that holds itself, which no state can: leave it "
                           "out there", {"path": "/".join(circle)}) from None

    def other(self, value: Any, path: tuple[str, ...]) -> None:
        kind = type(value)
        raise type_error(f"{place(path)}: a value of type {kind.__module__}.{kind.__qualname__} cannot be saved: "
                         f"{self.way_out(value)}")

    def way_out(self, value: Any) -> str:
        """What the caller may do about a value that cannot be saved."""
        return "from_native takes only what a tree has"

    def odd_dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> None:
        raise type_error(f"{place(path)}: keys of a dict are str or int from -2**63 to 2**63-1")


def _circle(value: Any, path: tuple[str, ...], above: tuple[int, ...], seen: set[int]) -> tuple[str, ...] | None:
    """The path to the first value that is also above itself. `seen`: what lies in no such circle, or too deep."""
    if id(value) in above:
        return path
    if id(value) in seen or len(path) > 200:
        return None
    seen.add(id(value))
    inside = value if isinstance(value, Mapping) else dict(enumerate(value)) if isinstance(value, (list, tuple)) else (
        getattr(value, "__dict__", {}))
    found = (_circle(one, (*path, str(key)), (*above, id(value)), seen) for key, one in inside.items())
    return next(filter(None, found), None)


# ---- reading ----


class TreeReader:
    """Reads one value of a tree; subclasses turn tensors, records and sets into other values.

    The walk is core/tree_read.cpp. `like` is what the caller's own value has at the same place, or None; see child_of.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @property
    def arrays(self) -> NewArrays | None:
        """Makes the arrays where the caller has none; None: tensor() is asked for all."""
        return None

    @property
    def own_arrays(self) -> OwnArrays | None:
        """Takes the arrays that the caller has; None: tensor() is asked for all."""
        return None

    def read(self, index: int = 0, like: Any = None) -> Any:
        return read_value(self, index, like)

    def tensor(self, name: str, like: Any) -> Any:
        return TensorName(name)

    def record(self, class_name: str, index: int, like: Any) -> Any:
        return Record(class_name, self.entries(index, like))

    def set(self, elements: list[Any]) -> Any:
        return TreeSet(elements)

    def child_of(self, like: Any, key: str | int) -> Any:
        return None

    only: type | None = None
    """Of dicts in `like`: keys of the tree that these lack are read only if wants() says so."""

    def wants(self, like: Any, key: str | int) -> bool:
        return True

    def entries(self, index: int, like: Any) -> dict[Any, Any]:
        return read_entries(self, index, like)
