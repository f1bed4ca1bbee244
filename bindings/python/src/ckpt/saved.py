"""What a checkpoint has at one place, as objects look at it before they say what to load into (stateful.Saved)."""

from __future__ import annotations

from typing import Any

from ._core import Reader, Tree
from .adapt import TRANSPARENT
from .enums import DType, NodeKind
from .errors import NotFoundError
from .frameworks import Framework
from .trees import to_native


class SavedNode:
    def __init__(self, reader: Reader, tree: Tree, framework: Framework, index: int) -> None:
        self._reader, self._tree, self._framework = reader, tree, framework
        self._index = through_records(tree, index)

    def child(self, *keys: str | int) -> SavedNode | None:
        node = self._index
        try:
            for key in keys:
                node = self._tree.find(through_records(self._tree, node), key)
        except NotFoundError:
            return None
        return SavedNode(self._reader, self._tree, self._framework, node)

    def keys(self) -> list[str | int]:
        out: list[str | int] = []
        child = self._tree.node(self._index).first_child
        while child is not None:
            node = self._tree.node(child)
            if node.key is not None:
                out.append(node.key)
            child = node.next_sibling
        return out

    def _name(self) -> str | None:
        node = self._tree.node(self._index)
        return str(node.value) if node.kind == NodeKind.TENSOR else None

    def shape(self) -> tuple[int, ...] | None:
        name = self._name()
        return None if name is None else self._reader.tensor(name).shape

    def dtype(self) -> Any:
        name = self._name()
        return None if name is None else self._framework.empty(name, DType(self._reader.tensor(name).dtype), (0,)).dtype

    def value(self) -> Any:
        return to_native(self._tree, self._index)


def through_records(tree: Tree, node: int) -> int:
    """The dict inside an OrderedDict or the like, which adds nothing to paths."""
    found = tree.node(node)
    while found.kind == NodeKind.RECORD and str(found.value) in TRANSPARENT:
        node = tree.find(node, TRANSPARENT[str(found.value)])
        found = tree.node(node)
    return node
