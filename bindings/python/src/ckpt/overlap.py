"""Memory that several tensors of a file are wanted in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

from ._core import Memory
from .enums import Status
from .errors import Error, error_of


class Names(Protocol):
    """A reader: of a checkpoint, or of a file of another program."""

    def tensor(self, name: str, /) -> Any: ...
    def alias(self, name: str, /) -> Any: ...


Place: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], int]


def place_of(reader: Names, name: str) -> Place:
    """Identifies the elements of a tensor: names with equal places are one tensor. The tensor that they lie in, and the
    shape, strides and first element there."""
    info = reader.tensor(name)
    if info.alias_of is None:
        strides = [1] * len(info.shape)
        for i in range(len(strides) - 1, 0, -1):
            strides[i - 1] = strides[i] * info.shape[i]
        return name, info.shape, tuple(strides), 0
    view = reader.alias(name)
    return info.alias_of, view.shape, view.strides, view.offset


def check_apart(reader: Names, wanted: Iterable[tuple[str, Memory]]) -> None:
    """INVALID, as of a load of a checkpoint, where two tensors of a file would write the same memory, or one an element
    over another: before any array changes. Views that overlap in the file as they do in memory may."""
    import numpy
    ahead: list[tuple[str, Memory, Any]] = []  # whose memory may reach to that of the next
    for name, memory in sorted(wanted, key=lambda each: each[1].address):
        if memory.dtype.bits < 8:
            continue
        array = numpy.asarray(_Elements(memory))
        if _repeats(array):
            raise _overlap(name, "overlaps itself", name)
        ahead = [each for each in ahead if each[1].address + each[1].nbytes > memory.address]
        for other, its, made in ahead:
            if not _agree(reader, (name, memory), (other, its)) and numpy.shares_memory(array, made):
                raise _overlap(name, f"overlaps that for '{other}'", other)
        ahead.append((name, memory, array))


class _Elements:
    """Memory as numpy takes it; nothing reads it."""

    def __init__(self, memory: Memory) -> None:
        width = memory.dtype.bits // 8
        self.__array_interface__ = {"version": 3, "typestr": f"|V{width}", "shape": memory.shape, "data": (
            memory.address, False), "strides": tuple(stride * width for stride in memory.strides)}


def _repeats(array: Any) -> bool:
    """Whether it has an element twice."""
    import numpy
    reach = array.itemsize
    for stride, extent in sorted((stride, extent) for stride, extent in zip(array.strides, array.shape) if extent > 1):
        if stride < reach:
            places = sum(numpy.ix_(*(numpy.arange(extent) * stride for stride, extent in zip(array.strides,
                                                                                            array.shape))))
            return bool(len(numpy.unique(places)) < array.size)
        reach += stride * (extent - 1)
    return False


def _agree(reader: Names, *views: tuple[str, Memory]) -> bool:
    """Whether two lie in memory as they do in the file, so that both write the same where they meet."""
    (target, beginning), (other, its) = ((place[0], _origin(place, memory)) for place, memory in (
        (place_of(reader, name), memory) for name, memory in views))
    return (target, views[0][1].dtype) == (other, views[1][1].dtype) and beginning == its is not None


def _origin(place: Place, memory: Memory) -> int | None:
    """Where the first element of the tensor that it is a view of would be; None if it does not lie as that does."""
    _, shape, strides, offset = place
    alike = memory.shape == shape and all(
        one == other for one, other, extent in zip(memory.strides, strides, shape) if extent > 1)
    return memory.address - offset * (memory.dtype.bits // 8) if alike else None


def _overlap(name: str, what: str, other: str) -> Error:
    return error_of(Status.INVALID, f"the memory for '{name}' {what}: give each element a place of its own",
                    {"tensor": name, "found": other})
