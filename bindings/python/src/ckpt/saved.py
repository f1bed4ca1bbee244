"""What a checkpoint has at one place, as objects look at it before they say what to load into (stateful.Saved); and how
the tree is gone down, past what adds nothing to paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from . import _core
from ._core import Tree
from .adapt import TRANSPARENT
from .enums import DType, NodeKind, Status
from .errors import Error, NotFoundError, UnsupportedError, error_of, type_error
from .frameworks import Framework, framework_name_of, framework_of, is_array
from .hints import near, some
from .process_random import are_at
from .regions import PER_RANK, Whose
from .sources import FileReader
from .trees import to_native

AnyReader: TypeAlias = "_core.Reader | FileReader"


def tree_of(reader: AnyReader, whose: Whose | None) -> Tree:
    """What the checkpoint or file has."""
    return reader.tree() if isinstance(reader, FileReader) or whose is None else reader.tree(rank=whose.rank)


class SavedNode:
    """A node of the tree. `whose`: which rank's PerRank values it has; None: those of all."""

    def __init__(self, reader: AnyReader, tree: Tree, framework: Framework, index: int, whose: Whose | None,
                 top: int = 0) -> None:
        self._reader, self._tree, self._framework, self._whose, self._top = reader, tree, framework, whose, top
        self._index = through_records(tree, index, whose)

    def top(self) -> SavedNode:
        """All that the load is of."""
        return SavedNode(self._reader, self._tree, self._framework, self._top, self._whose, self._top)

    def child(self, *keys: str | int) -> SavedNode | None:
        """What it has at these keys; None if it has nothing there."""
        node = self._index
        try:
            for key in keys:
                node = self._tree.find(through_records(self._tree, node, self._whose), key)
        except (NotFoundError, TypeError):
            return None
        return SavedNode(self._reader, self._tree, self._framework, node, self._whose, self._top)

    def keys(self) -> list[str | int]:
        """The keys of a dict."""
        out: list[str | int] = []
        child = self._tree.node(self._index).first_child
        while child is not None:
            node = self._tree.node(child)
            if node.key is not None:
                out.append(node.key)
            child = node.next_sibling
        return out

    def count(self) -> int:
        """How many values a list or tuple has."""
        node = self._tree.node(self._index)
        return node.child_count if node.kind in (NodeKind.LIST, NodeKind.TUPLE) else -1

    def fits(self, array: Any) -> bool:
        """Whether it is a tensor of the shape and dtype of an array."""
        name, framework = self._name(), framework_name_of(array)
        if name is None or framework is None:
            return name is not None and is_array(array)
        info = self._reader.tensor(name)
        try:
            return tuple(array.shape) == info.shape and framework_of(framework).dtype(name, info.dtype) == array.dtype
        except (UnsupportedError, RuntimeError):  # of torch: a lazy parameter has no shape
            return False

    def is_own(self, key: str) -> bool:
        """Whether what is at this key is one rank's own, and fits no other number of ranks."""
        try:
            found = self._tree.find(self._index, key)
        except NotFoundError:
            return False
        own = own_value(self._tree, found, self._whose)
        return own is not None and not are_at(self._tree, own)

    def rank_count(self, key: str) -> int | None:
        """How many ranks have a value of their own at this key; None if it is no PerRank."""
        try:
            found = self._tree.node(self._tree.find(self._index, key))
        except NotFoundError:
            return None
        if found.kind != NodeKind.RECORD or found.value != PER_RANK:
            return None
        return len(children(self._tree, self._tree.find(self._index, key)))

    def _name(self) -> str | None:
        node = self._tree.node(self._index)
        return str(node.value) if node.kind == NodeKind.TENSOR else None

    def shape(self) -> tuple[int, ...] | None:
        """Of a tensor; None for anything else."""
        name = self._name()
        return None if name is None else self._reader.tensor(name).shape

    def dtype(self) -> Any:
        """Of a tensor, as the framework of the load names it."""
        name = self._name()
        return None if name is None else self._framework.empty(name, DType(self._reader.tensor(name).dtype), (0,)).dtype

    def value(self) -> Any:
        """All of it, with ckpt.TensorName for tensors."""
        return to_native(self._tree, self._index)


def own_value(tree: Tree, node: int, whose: Whose | None) -> int | None:
    """The value of that rank in the record of a PerRank, else rank 0's; None if it is no such record, or if all ranks
    are wanted."""
    found = tree.node(node)
    if whose is None or found.kind != NodeKind.RECORD or found.value != PER_RANK:
        return None
    for name in (f"rank{whose.rank}", "rank0"):
        try:
            return tree.find(node, name)
        except NotFoundError:
            pass
    return found.first_child


def through_records(tree: Tree, node: int, whose: Whose | None) -> int:
    """The dict inside an OrderedDict or the like, which adds nothing to paths, or inside a PerRank."""
    found = tree.node(node)
    while found.kind == NodeKind.RECORD:
        own = own_value(tree, node, whose)
        if own is None and str(found.value) not in TRANSPARENT:
            break
        node = tree.find(node, TRANSPARENT[str(found.value)]) if own is None else own
        found = tree.node(node)
    return node


def descend(tree: Tree, at: Sequence[str | int], whose: Whose | None) -> int:
    """The node that these keys lead to."""
    node = 0
    if isinstance(at, str):
        raise type_error(f"at: expected the keys that lead there, ({at!r},), found text")
    for depth, key in enumerate(at):
        try:
            node = tree.find(through_records(tree, node, whose), key)
        except Error as error:
            path = "/".join(str(step) for step in at[:depth + 1])
            there = _what_is_there(tree, node, key, whose)
            raise error_of(Status.NOT_FOUND, f"the state has nothing at '{path}'{there}", {"path": path}) from error
    return node


def _what_is_there(tree: Tree, node: int, key: str | int, whose: Whose | None) -> str:
    """What follows a key that is not there."""
    keys: list[str] = []
    child = tree.node(through_records(tree, node, whose)).first_child
    while child is not None and len(keys) < 1000:
        found = tree.node(child)
        keys.append(str(len(keys) if found.key is None else found.key))
        child = found.next_sibling
    return f"; there are {some(keys)}{near(str(key), keys)}" if keys else ""


def children(tree: Tree, index: int) -> list[int]:
    """The nodes in a node."""
    out, child = [], tree.node(index).first_child
    while child is not None:
        out.append(child)
        child = tree.node(child).next_sibling
    return out


def check_own(reader: AnyReader, tree: Tree, index: int, own: int, whose: Whose) -> int:
    """How many ranks have saved what the record of a PerRank has. MISMATCH if that does not fit those who load it.
    `own`: the value that is read."""
    saved, keys = _ranks_that_saved(reader, tree, index, whose)
    if not whose.differs(saved) or whose.or_rank0 or are_at(tree, own):
        return saved
    path = "/".join(map(str, keys))
    here = f"rank {whose.rank}" + ("" if whose.size is None else f" of {whose.size}")
    raise error_of(Status.MISMATCH, f"state at '{path}': the values of {saved} rank{'s' * (saved != 1)}, each its own, "
                   f"and this is {here}; or_rank0=True gives each rank its own or rank 0's, leaving it out gives none",
                   {"path": path, "expected": str(saved),
                    "found": str(whose.rank if whose.size is None else whose.size)})


def _ranks_that_saved(reader: AnyReader, tree: Tree, index: int, whose: Whose) -> tuple[int, list[str | int]]:
    """Of an import it may be more than are told: those whose values it has. And the keys that lead to the record."""
    keys: list[str | int] = []
    at = index
    while (parent := tree.node(at).parent) is not None:
        key = tree.node(at).key
        keys.insert(0, children(tree, parent).index(at) if key is None else key)
        at = parent
    if isinstance(reader, FileReader):
        return len(children(tree, index)), keys
    world = reader.info.world_size
    if not whose.differs(world):
        return world, keys
    with reader.tree() as whole:  # of all ranks
        found = 0
        for key in keys:
            found = whole.find(found, key)
        return max(world, len(children(whole, found))), keys
