"""Tensors that share memory. What lies inside another tensor is an alias of it and is not saved again; where tensors
overlap only in part, the memory of all of them is saved as one tensor more, NAME~memory, and each is an alias of that.
No path has "~m" in it (schemas/STATE_TREE.md section 4), so that name is free.

Tensors with gaps between their elements (columns of a matrix) become aliases of a tensor without gaps that they lie in.
If there is none, each is saved by itself, though they may have elements in common.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ._core import Memory
from .enums import DType


@dataclass(frozen=True)
class Alias:
    """`name` is a view of `target`, in elements; shape None: the whole target."""

    name: str
    target: str
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0


@dataclass
class Span:
    """The memory of tensors without gaps that overlap, from the first to the end of the last."""

    start: int
    end: int
    name: str = ""
    members: list[tuple[str, Memory]] = field(default_factory=list)

    def data(self) -> Any:
        """Its bytes, as an object with the buffer protocol that keeps the tensors alive."""
        import ctypes  # not before it is needed
        made = (ctypes.c_char * (self.end - self.start)).from_address(self.start)
        made.keeps = self.members  # type: ignore[attr-defined]
        return made

    @property
    def dtype(self) -> DType:
        """Of its elements."""
        return self.members[0][1].dtype

    @property
    def count(self) -> int:
        """How many elements it has."""
        return (self.end - self.start) * 8 // self.dtype.bits


def find_aliases(tensors: Sequence[tuple[str, Memory]]) -> tuple[list[Alias], list[Span]]:
    """The tensors that are saved as aliases of others, and what is saved in addition for them."""
    out: list[Alias] = []
    same: dict[object, str] = {}
    by_dtype: dict[int, list[tuple[str, Memory]]] = {}
    for name, memory in tensors:
        if memory.nbytes == 0:
            continue
        layout = (memory.address, memory.dtype, memory.shape, memory.strides)
        if (first := same.setdefault(layout, name)) != name:
            out.append(Alias(name, first))
        elif memory.dtype.bits >= 8:
            by_dtype.setdefault(memory.dtype, []).append((name, memory))
    views: dict[str, Alias] = {}
    spans: list[Span] = []
    for group in by_dtype.values():
        found = _spans(group)
        views |= {alias.name: alias for alias in _views(group, found)}
        spans += [span for span in found if all(span.name != name for name, _ in span.members)]
    # An alias cannot have aliases, so what equals a view becomes that view of the whole, too.
    return [replace(views.get(alias.target, alias), name=alias.name) for alias in out] + list(views.values()), spans


def _spans(group: list[tuple[str, Memory]]) -> list[Span]:
    """From low to high addresses. A span is called like the tensor that fills it, if one does."""
    out: list[Span] = []
    for name, memory in sorted(group, key=lambda pair: (pair[1].address, -pair[1].nbytes)):
        if not memory.contiguous:
            continue
        end = memory.address + memory.nbytes
        if out and memory.address < out[-1].end:
            if (memory.address - out[-1].start) % (memory.dtype.bits // 8):
                continue  # its elements begin in the middle of others: it is saved by itself
            if end > out[-1].end:
                out[-1].end, out[-1].name = end, ""
            out[-1].members.append((name, memory))
        else:
            out.append(Span(memory.address, end, name, [(name, memory)]))
    first = {name: place for place, (name, _) in enumerate(group)}
    for span in out:
        if not span.name:
            span.name = min((name for name, _ in span.members), key=first.__getitem__) + "~memory"
    return out


def _views(group: list[tuple[str, Memory]], spans: list[Span]) -> list[Alias]:
    """The tensors that lie in a span of another name."""
    out: list[Alias] = []
    starts = [span.start for span in spans]
    for name, memory in group:
        place = bisect_right(starts, memory.address) - 1
        if place < 0 or spans[place].name == name or memory.address + memory.nbytes > spans[place].end:
            continue
        offset, rest = divmod(memory.address - starts[place], memory.dtype.bits // 8)
        if rest == 0:
            out.append(Alias(name, spans[place].name, memory.shape, memory.strides, offset))
    return out
