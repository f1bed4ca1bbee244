"""Tensors that share memory: what lies inside another tensor becomes an alias of it and is not saved again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._core import Memory


@dataclass(frozen=True)
class Alias:
    """`name` is a view of `target`, in elements; shape None: the whole target."""

    name: str
    target: str
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0


def find_aliases(tensors: Sequence[tuple[str, Memory]]) -> list[Alias]:
    """The tensors that are saved as aliases of others. Two that overlap only in part are both saved."""
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
    views = {alias.name: alias for group in by_dtype.values() for alias in _views(group)}
    # An alias cannot have aliases, so what equals a view becomes that view of the whole, too.
    return [replace(views.get(alias.target, alias), name=alias.name) for alias in out] + list(views.values())


def _views(group: list[tuple[str, Memory]]) -> list[Alias]:
    """From low to high addresses, larger ones first; `owner` is the contiguous tensor that reaches furthest."""
    out: list[Alias] = []
    owner: tuple[str, Memory] | None = None
    owner_end = 0
    for name, memory in sorted(group, key=lambda pair: (pair[1].address, -pair[1].nbytes, not pair[1].contiguous)):
        end, width = memory.address + memory.nbytes, memory.dtype.bits // 8
        if owner is not None and end <= owner_end and (memory.address - owner[1].address) % width == 0:
            offset = (memory.address - owner[1].address) // width
            out.append(Alias(name, owner[0], memory.shape, memory.strides, offset))
        elif memory.contiguous and end > owner_end:
            owner, owner_end = (name, memory), end
    return out
