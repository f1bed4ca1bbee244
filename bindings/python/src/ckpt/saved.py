"""What a checkpoint has at one place, as objects look at it before they say what to load into (stateful.Saved); and how
the tree is gone down, past what adds nothing to paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from . import _core
from ._core import Tree
from .adapt import TRANSPARENT
from .enums import DType, NodeKind, Status
from .errors import Error, NotFoundError, UnsupportedError, error_of
from .frameworks import Framework, framework_name_of, framework_of, is_array
from .hints import near, some
from .regions import PER_RANK
from .sources import FileReader
from .trees import to_native

AnyReader: TypeAlias = "_core.Reader | FileReader"


class SavedNode:
    """A node of the tree. `rank`: whose PerRank values it has; None: those of all."""

    def __init__(self, reader: AnyReader, tree: Tree, framework: Framework, index: int, rank: int | None,
                 top: int = 0) -> None:
        self._reader, self._tree, self._framework, self._rank, self._top = reader, tree, framework, rank, top
        self._index = through_records(tree, index, rank)

    def top(self) -> SavedNode:
        """All that the load is of."""
        return SavedNode(self._reader, self._tree, self._framework, self._top, self._rank, self._top)

    def child(self, *keys: str | int) -> SavedNode | None:
        """What it has at these keys; None if it has nothing there."""
        node = self._index
        try:
            for key in keys:
                node = self._tree.find(through_records(self._tree, node, self._rank), key)
        except (NotFoundError, TypeError):
            return None
        return SavedNode(self._reader, self._tree, self._framework, node, self._rank, self._top)

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
        except UnsupportedError:
            return False

    def rank_count(self, key: str) -> int | None:
        """How many ranks have a value of their own at this key; None if it is no PerRank."""
        try:
            found = self._tree.node(self._tree.find(self._index, key))
        except NotFoundError:
            return None
        if found.kind != NodeKind.RECORD or found.value != PER_RANK:
            return None
        child, count = found.first_child, 0
        while child is not None:
            child, count = self._tree.node(child).next_sibling, count + 1
        return count

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


def own_value(tree: Tree, node: int, rank: int | None) -> int | None:
    """The value of this rank in the record of a PerRank; None if it is no such record, or if all ranks are wanted."""
    found = tree.node(node)
    if rank is None or found.kind != NodeKind.RECORD or found.value != PER_RANK:
        return None
    for name in (f"rank{rank}", "rank0"):
        try:
            return tree.find(node, name)
        except NotFoundError:
            pass
    return found.first_child


def through_records(tree: Tree, node: int, rank: int | None) -> int:
    """The dict inside an OrderedDict or the like, which adds nothing to paths, or inside a PerRank."""
    found = tree.node(node)
    while found.kind == NodeKind.RECORD:
        own = own_value(tree, node, rank)
        if own is None and str(found.value) not in TRANSPARENT:
            break
        node = tree.find(node, TRANSPARENT[str(found.value)]) if own is None else own
        found = tree.node(node)
    return node


def descend(tree: Tree, at: Sequence[str | int], rank: int | None) -> int:
    """The node that these keys lead to."""
    node = 0
    if isinstance(at, str):
        raise TypeError(f"at: expected the keys that lead there, ({at!r},), found text")
    for depth, key in enumerate(at):
        try:
            node = tree.find(through_records(tree, node, rank), key)
        except Error as error:
            path = "/".join(str(step) for step in at[:depth + 1])
            raise error_of(Status.NOT_FOUND, f"the state has nothing at '{path}'{_what_is_there(tree, node, key, rank)}",
                           {"path": path}) from error
    return node


def _what_is_there(tree: Tree, node: int, key: str | int, rank: int | None) -> str:
    """What follows a key that is not there."""
    child, keys = tree.node(through_records(tree, node, rank)).first_child, []
    while child is not None and len(keys) < 1000:
        found = tree.node(child)
        keys.append(str(len(keys) if found.key is None else found.key))
        child = found.next_sibling
    return f"; there are {some(keys)}{near(str(key), keys)}" if keys else ""
