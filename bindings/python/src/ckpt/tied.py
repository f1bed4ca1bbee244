"""Tied weights: arrays of `into` that are one memory. A checkpoint of another program has them under one of their
names, or under each with equal values; ckpt's own has one tensor, and other names for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._core import Memory
from .enums import Status
from .errors import Error, error_of
from .frameworks import Framework, framework_name_of, is_array, loaded
from .regions import Regions, Shard
from .overlap import place_of
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
    if not is_array(array) or framework_name_of(array) == "jax":
        return None  # nothing fills an array of jax
    try:
        memory = Memory.of(array.detach() if hasattr(array, "detach") else array)
    except Error:
        return None
    return (memory.address, memory.dtype, memory.shape, memory.strides) if memory.nbytes else None


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
        if same_marks and place_of(self._reader, first) == place_of(self._reader, second):
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
