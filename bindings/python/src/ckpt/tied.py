"""Tied weights: arrays of `into` that are one memory. A checkpoint of another program has them under one of their
names, or under each with equal values; ckpt's own has one tensor, and other names for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ._core import Memory
from .enums import Status
from .errors import Error, error_of
from .frameworks import Framework, framework_name_of, is_array, loaded
from .regions import Regions, Shard
from .saved import AnyReader


def regions_in(like: Any) -> Regions | None:
    """Of a tensor that is spread over ranks; None for anything else."""
    torch = loaded("torch")
    if isinstance(like, Regions):
        return like
    if torch is None or not isinstance(like, torch.Tensor) or type(like) in (torch.Tensor, torch.nn.Parameter):
        return None
    from .torch.dtensor import regions_of
    return regions_of(like)


def memory_key(like: Any) -> object:
    """Which memory it is; None for what has none, and for what no load could fill."""
    regions = regions_in(like)
    if regions is not None:
        return "regions", regions.identity
    array = like.data if isinstance(like, Shard) else like
    if not is_array(array):
        return None
    try:
        memory = Memory.of(array.detach() if hasattr(array, "detach") else array)
    except Error:
        return None
    return (memory.address, memory.dtype, memory.shape, memory.strides) if memory.nbytes else None


Place: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...], int]


def _place(reader: AnyReader, name: str) -> Place:
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


class Ties:
    """Tensors of a load that are wanted in one memory. `memory`: the names of arrays that are filled, by where these
    lie."""

    def __init__(self, reader: AnyReader, memory: Mapping[object, Any]) -> None:
        self._reader, self._memory = reader, memory
        self._pairs: list[tuple[str, str, Shard | None]] = []
        self.filled: set[object] = set()
        """Tensors spread over ranks that are filled, by memory_key()."""

    def has(self, like: Any) -> bool:
        """Whether its memory is filled under another name."""
        key = memory_key(like)
        return key is not None and (key in self.filled or key in self._memory)

    def add(self, first: str, second: str, shard: Shard | None, same_marks: bool = True) -> None:
        """Two tensors are wanted in one memory; of a Shard in that of a region."""
        if same_marks and _place(self._reader, first) == _place(self._reader, second):
            return
        one, other = (self._reader.tensor(name) for name in (first, second))
        if not same_marks or (one.dtype, one.shape) != (other.dtype, other.shape) or one.dtype.bits < 8:
            raise _differ(first, second, f"{one.dtype} of shape {one.shape}", f"{other.dtype} of shape {other.shape}")
        self._pairs.append((first, second, shard))

    def check(self, request_of: Callable[[AnyReader, dict[str, Any]], Any],
              framework_for: Callable[[str], Framework]) -> None:
        """Raises MismatchError if two of these are not equal: before any array changes."""
        for first, second, shard in self._pairs:
            made = {}
            with request_of(self._reader, {}) as request:
                for name in (first, second):
                    info = self._reader.tensor(name)
                    shape = info.shape if shard is None else tuple(shard.data.shape)
                    made[name] = framework_for(name).empty(name, info.dtype, shape)
                    where = {} if shard is None else {"shape": shard.shape, "offset": shard.offset,
                                                      "flat_offset": shard.flat_offset}
                    request.add_tensor(name, made[name], **where)
                request.run()
            _check_equal(first, second, made[first].reshape(-1), made[second].reshape(-1))


# ---- memory that several tensors of a file are wanted in ----


def check_apart(reader: AnyReader, wanted: Iterable[tuple[str, Memory]]) -> None:
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


def _agree(reader: AnyReader, *views: tuple[str, Memory]) -> bool:
    """Whether two lie in memory as they do in the file, so that both write the same where they meet."""
    (target, beginning), (other, its) = ((place[0], _origin(place, memory)) for place, memory in (
        (_place(reader, name), memory) for name, memory in views))
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


def _check_equal(first: str, second: str, one: Any, other: Any) -> None:
    found = (_bytes(one) ^ _bytes(other)).nonzero()
    differences = found[0] if isinstance(found, tuple) else found.reshape(-1)  # of numpy, of torch
    if len(differences):
        place = int(differences[0]) // (len(_bytes(one)) // len(one))
        raise _differ(first, second, str(one[place]), str(other[place]), f" at element {place}")


def _bytes(flat: Any) -> Any:
    return flat.view(loaded("torch").uint8) if framework_name_of(flat) == "torch" else flat.view("u1")


def _differ(first: str, second: str, one: str, other: str, where: str = "") -> Error:
    return error_of(Status.MISMATCH, f"into: '{first}' and '{second}' share memory (tied weights), but in the "
                    f"checkpoint they differ{where}: {one} and {other}; give one of them, or untie them",
                    {"tensor": second, "expected": one, "found": other})
