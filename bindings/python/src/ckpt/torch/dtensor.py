"""Which regions of a tensor this rank holds, by what DTensor and ShardedTensor say. No communication."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.distributed as dist

from ..enums import Status
from ..errors import error_of, value_error
from ..frameworks import loaded
from ..regions import Regions, Shard, replica_of

Run: TypeAlias = tuple[int, int]  # first index and length, in one dimension


def regions_of(tensor: Any) -> Regions | None:
    """The regions of a DTensor or ShardedTensor; None for any other tensor."""
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):  # the latter in torch 2.4
        kind = getattr(loaded(name), "DTensor", None)
        if kind is not None and isinstance(tensor, kind):
            return _of_dtensor(tensor)
    found = loaded("torch.distributed._shard.sharded_tensor")
    if found is not None and isinstance(tensor, found.ShardedTensor):
        return _of_sharded_tensor(tensor)
    return None


def _of_dtensor(tensor: Any) -> Regions:
    mesh, shape = tensor.device_mesh, tuple(tensor.shape)
    local = tensor.detach().to_local()
    if type(local) is not torch.Tensor:
        raise _refused(f"a DTensor whose local tensor is a {type(local).__module__}.{type(local).__qualname__}")
    elsewhere = mesh.size() != dist.get_world_size()
    identity = (*memory_of(local), shape, str(tensor.placements))
    coordinate = mesh.get_coordinate()
    if coordinate is None:  # this rank is not in the mesh
        return Regions((), tensor, identity, elsewhere)
    runs: list[list[Run]] = [[(0, size)] for size in shape]
    same: list[Any] = list(coordinate)  # where in the mesh ranks hold what this one holds
    for axis, placement in enumerate(tensor.placements):
        if placement.is_replicate():
            same[axis] = slice(None)
        elif placement.is_partial() or not hasattr(placement, "dim"):
            raise value_error(f"a DTensor with placement {placement} cannot be saved or filled: redistribute it first")
        else:
            split = int(getattr(placement, "split_factor", 1))
            runs[placement.dim] = take(runs[placement.dim], mesh.size(axis), coordinate[axis], split)
    expected = tuple(sum(length for _, length in axis) for axis in runs)
    if tuple(local.shape) != expected:
        raise _refused(f"a DTensor of shape {shape} with placements {tensor.placements}, whose local tensor has shape "
                       f"{tuple(local.shape)} (expected {expected})")
    replica = replica_of(dist.get_rank(), mesh.mesh[tuple(same)].flatten().tolist())
    shards = tuple(Shard(local[part], shape, offset, replica=replica) for offset, part in _boxes(runs))
    return Regions(shards, tensor, identity, elsewhere)


def take(runs: Sequence[Run], count: int, index: int, split: int) -> list[Run]:
    """What shard `index` of `count` holds of these indices. torch cuts like torch.chunk: for _StridedShard first into
    `split` pieces, and then each of these into shards, so that one shard lies in several places."""
    total = sum(length for _, length in runs)
    out: list[Run] = []
    for start, end in (_chunk(total, split, piece) for piece in range(split)):
        first, last = _chunk(end - start, count, index)
        out += _between(runs, start + first, start + last)
    return _joined(out)


def _chunk(total: int, count: int, index: int) -> tuple[int, int]:
    size = -(-total // count)
    return min(total, size * index), min(total, size * (index + 1))


def _between(runs: Sequence[Run], begin: int, end: int) -> list[Run]:
    out, position = [], 0
    for start, length in runs:
        low, high = max(begin, position), min(end, position + length)
        if low < high:
            out.append((start + low - position, high - low))
        position += length
    return out


def _joined(runs: Sequence[Run]) -> list[Run]:
    out: list[Run] = []
    for start, length in runs:
        if out and sum(out[-1]) == start:
            start, length = out[-1][0], out.pop()[1] + length
        out.append((start, length))
    return out


def _boxes(runs: Sequence[Sequence[Run]]) -> list[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """The offset of each box in the whole tensor, and where it lies in the local one. An empty shard is one empty box:
    it says the tensor's dtype and shape, which no rank might say otherwise."""
    if not all(runs):
        runs = [axis or [(0, 0)] for axis in runs]
    axes = []
    for axis in runs:
        ends = list(itertools.accumulate(length for _, length in axis))
        axes.append([(start, slice(end - length, end)) for (start, length), end in zip(axis, ends)])
    return [(tuple(start for start, _ in box), tuple(part for _, part in box)) for box in itertools.product(*axes)]


def _of_sharded_tensor(tensor: Any) -> Regions:
    """Of torch's older class, as FSDP1's SHARDED_STATE_DICT gives it. It says nothing of replicas."""
    shape, local = tuple(tensor.size()), tensor.local_shards()
    shards = tuple(Shard(shard.tensor.detach(), shape, tuple(shard.metadata.shard_offsets)) for shard in local)
    identity = (*memory_of(local[0].tensor), shape) if local else id(tensor)
    return Regions(shards, tensor, identity, dist.get_world_size(tensor._process_group) != dist.get_world_size())


def memory_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Names the tensor's place in its storage. Storages without bytes have no address, but are still told apart."""
    return tensor.untyped_storage()._cdata, tensor.storage_offset()


def _refused(what: str) -> Exception:
    return error_of(Status.UNSUPPORTED, f"{what} cannot be saved or filled", {"found": what})
