"""Keys of dicts, and elements of sets: a load makes them, before anything is read, as the caller has them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from typing import Any, Protocol

from ._core import Tree
from .adapt import record_in, written
from .enums import Status
from .errors import Error, error_of
from .frameworks import is_array
from .saved import children
from .stateful import Made, is_stateful
from .trees import Record, TreeSet, from_native, to_native


class Reader(Protocol):
    """Reads a state."""

    tree: Tree

    def read(self, index: int = 0, like: Any = None) -> Any:
        """The value of a node, as the caller has it; what is in records is not made yet."""

    def finish(self, value: Any) -> Any:
        """Makes it."""

    def find(self, parent: int, key: str | int) -> int | None:
        """The number of a child."""

    def path_of(self, index: int) -> list[str]:
        """The path of a node, for an error."""


def pairs_like(reader: Reader, record: int, like: Mapping[Any, Any]) -> list[tuple[Made | None, Any]]:
    """The keys that a record of a dict has, in its order, and the values of `like` there."""
    out: list[tuple[Made | None, Any]] = []
    items = reader.find(record, "items")
    for pair in () if items is None else children(reader.tree, items):
        found = reader.find(pair, 0)
        if found is None:  # not a pair
            out.append((None, None))
            continue
        key = _made_like(reader, found, like)
        try:
            out.append((Made(key), like.get(key)))
        except TypeError:  # not a key
            out.append((None, None))
    return out


def set_like(reader: Reader, index: int, elements: TreeSet, like: Set[Any]) -> TreeSet:
    """The elements of a set, which are at hand as they are without one of the caller's."""
    if any(isinstance(element, (Record, tuple)) for element in elements):
        return TreeSet(_made_like(reader, child, like) for child in children(reader.tree, index))
    return elements


def _made_like(reader: Reader, index: int, those: Iterable[Any]) -> Any:
    """A key or an element; of the class of one of the caller's own, if nobody else makes it."""
    native, found = to_native(reader.tree, index), []
    said = from_native(native).json()
    kinds = {(type(own), *(map(type, own) if isinstance(own, tuple) else ())): own for own in those
             if not is_stateful(own) and not is_array(own)}
    for own in (None, *kinds.values()):
        with suppress(Error, TypeError, ValueError):
            made = reader.finish(reader.read(index, copy.deepcopy(own)))
            hash(made)
            if own is None or written(made) == said:
                return made
            found.append(made)  # of a class that is called otherwise here
    if found or (unknown := record_in(native)) is None:
        return found[0] if found else reader.finish(reader.read(index))
    path = "/".join(reader.path_of(index))
    raise error_of(Status.MISMATCH, f"into at '{path}': the checkpoint has a {unknown.class_name} in a key of a dict "
                   "or in a set, and there is none in into, of whose class one could be made: give it one, or save "
                   "its name in its place", {"path": path, "found": unknown.class_name})
