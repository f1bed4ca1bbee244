"""What a checkpoint has at one place, as objects look at it before they say what to load into (stateful.Saved); and how
the tree is gone down, past what adds nothing to paths."""

from __future__ import annotations

from typing import Any, TypeAlias

from . import _core
from ._core import Tree
from .adapt import TRANSPARENT
from .enums import DType, NodeKind
from .errors import NotFoundError
from .frameworks import Framework
from .regions import PER_RANK
from .sources import FileReader
from .trees import to_native

AnyReader: TypeAlias = "_core.Reader | FileReader"


class SavedNode:
    """A node of the tree. `rank`: whose PerRank values it has; None: those of all."""

    def __init__(self, reader: AnyReader, tree: Tree, framework: Framework, index: int, rank: int | None) -> None:
        self._reader, self._tree, self._framework, self._rank = reader, tree, framework, rank
        self._index = through_records(tree, index, rank)

    def child(self, *keys: str | int) -> SavedNode | None:
        """What it has at these keys; None if it has nothing there."""
        node = self._index
        try:
            for key in keys:
                node = self._tree.find(through_records(self._tree, node, self._rank), key)
        except NotFoundError:
            return None
        return SavedNode(self._reader, self._tree, self._framework, node, self._rank)

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
